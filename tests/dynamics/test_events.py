"""Events are found where they are, in either direction of time, and gradients pass them."""

from __future__ import annotations

import math

import pytest
import torch

from benthic.base.errors import InvalidInput
from benthic.dynamics import Event, solve

pytestmark = pytest.mark.spec("E-01")
GRAVITY = 9.81


def fall(t, y):
    return torch.stack([y[1], torch.full_like(y[1], -GRAVITY)])


def height(t, y):
    return y[0]


def thrown(speed, **options):
    start = torch.stack([torch.zeros_like(speed) + 1e-9, speed])
    return solve(fall, start, [0.0, 0.5, 100.0], events=[Event(height, direction=-1)], rtol=1e-9, atol=1e-9, **options)


def test_a_thrown_stone_lands_when_it_should():
    found = thrown(torch.tensor(10.0, dtype=torch.float64))
    landing = 2 * 10.0 / GRAVITY
    assert abs(found.events[0].time - landing) < 1e-8
    assert found.t.tolist() == pytest.approx([0.0, 0.5, landing])
    torch.testing.assert_close(found.last, torch.tensor([0.0, -10.0], dtype=torch.float64), atol=1e-7, rtol=0)
    assert "event 0" in found.statistics.reason


def test_the_landing_time_has_a_gradient():
    speed = torch.tensor(10.0, dtype=torch.float64, requires_grad=True)
    found = thrown(speed)
    (slope,) = torch.autograd.grad(found.events[0].t, speed, retain_graph=True)
    assert float(slope) == pytest.approx(2 / GRAVITY, abs=1e-7)
    (slope,) = torch.autograd.grad(found.last[1], speed)
    assert float(slope) == pytest.approx(-1.0, abs=1e-6)


def test_events_that_do_not_end_the_solve_are_all_found():
    def turn(t, y):
        return torch.stack([y[1], -y[0]])

    start = torch.tensor([1.0, 0.0], dtype=torch.float64)
    for direction, first in ((0, 0.5), (1, 1.5), (-1, 0.5)):
        event = Event(height, terminal=False, direction=direction)
        found = solve(turn, start, [0.0, 10.0], events=[event], rtol=1e-10, atol=1e-10)
        step = 1.0 if direction == 0 else 2.0
        expected = [math.pi * (first + step * k) for k in range(10) if math.pi * (first + step * k) < 10]
        assert [crossing.time for crossing in found.events] == pytest.approx(expected, abs=1e-8)
        assert found.statistics.reason == "reached the last time"


def test_the_first_of_two_terminal_events_ends_the_solve():
    events = [Event(lambda t, y: t - 2.0), Event(lambda t, y: t - 1.0)]
    found = solve(
        lambda t, y: -y, torch.ones(1, dtype=torch.float64), [0.0, 5.0], events=events, step=5.0, adaptive=True
    )
    assert [(crossing.event, crossing.time) for crossing in found.events] == [(1, pytest.approx(1.0))]


def test_events_in_states_of_parts_and_in_backward_time():
    start = {"x": torch.tensor([1.0], dtype=torch.float64)}
    event = Event(lambda t, state: state["x"] - 2.0)
    found = solve(lambda t, s: {"x": -s["x"]}, start, [0.0, -3.0], events=[event], rtol=1e-9, atol=1e-9)
    assert found.events[0].time == pytest.approx(-math.log(2), abs=1e-8)
    assert found.events[0].y["x"].tolist() == pytest.approx([2.0])


def test_events_with_fixed_steps():
    found = solve(
        lambda t, y: -y,
        torch.ones(1, dtype=torch.float64),
        [0.0, 3.0],
        method="rk4",
        step=0.01,
        events=[Event(lambda t, y: y - 0.5)],
    )
    assert found.events[0].time == pytest.approx(math.log(2), abs=1e-8)


def test_bad_events_are_refused():
    start = torch.ones(2, dtype=torch.float64, requires_grad=True)
    with pytest.raises(InvalidInput, match="one number"):
        solve(lambda t, y: -y, start, [0.0, 1.0], events=[Event(lambda t, y: y)])
    with pytest.raises(InvalidInput, match="gradients do not pass an event"):
        solve(lambda t, y: -y, start, [0.0, 1.0], events=[Event(lambda t, y: y[0] - 0.5)], gradient="adjoint")
