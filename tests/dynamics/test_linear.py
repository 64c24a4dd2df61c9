"""Linear systems, forward and backward."""

from __future__ import annotations

import pytest
import torch

from benthic.base.errors import InvalidInput
from benthic.dynamics import LinearSystem, phase_portrait, solve

pytestmark = pytest.mark.spec("E-05")
TANKS = LinearSystem([[-0.03, 0.03], [0.03, -0.03]])
START = torch.tensor([0.0, 100.0], dtype=torch.float64)


def test_the_two_tanks():
    expected = torch.tensor([5.654, 94.346], dtype=torch.float64)
    torch.testing.assert_close(TANKS.flow(START, 2.0), expected, atol=5e-4, rtol=0)
    torch.testing.assert_close(solve(TANKS, START, [0.0, 2.0]).last, expected, atol=5e-4, rtol=0)
    torch.testing.assert_close(TANKS.flow(TANKS.flow(START, 2.0), -2.0), START)


def test_the_flow_solves_the_equation():
    system = LinearSystem(torch.randn(4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))
    start, times = torch.ones(4, dtype=torch.float64), torch.linspace(0, 1, 5, dtype=torch.float64)
    found = solve(system, start, times, rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(system.flow(start, times), found.y, atol=1e-9, rtol=0)


def test_the_matrix_comes_back_from_data():
    times = torch.linspace(0, 40, 21, dtype=torch.float64)
    torch.testing.assert_close(LinearSystem.recover(times, TANKS.flow(START, times)).A, TANKS.A, atol=1e-10, rtol=0)
    noise = 0.01 * torch.randn(21, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    noisy = LinearSystem.recover(times, TANKS.flow(START, times) + noise)
    torch.testing.assert_close(noisy.A, TANKS.A, atol=1e-3, rtol=0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: LinearSystem([[1.0, 2.0]]), "square"),
        (lambda: TANKS.flow([1.0], 1.0), "z has shape"),
        (lambda: LinearSystem.recover([0.0, 1.0], [[1.0, 0.0], [0.0, 1.0]]), "more states"),
        (lambda: LinearSystem.recover([0.0, 1.0, 3.0], [[1.0], [0.5], [0.1]]), "equally spaced"),
        (lambda: LinearSystem.recover([0.0, 1.0, 2.0], [[1.0, 1.0], [0.5, 0.5], [0.25, 0.25]]), "too few directions"),
        (lambda: phase_portrait(TANKS, (1, 0, 0, 1)), "left, right"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


def test_a_portrait_follows_the_field():
    figure = phase_portrait(
        lambda t, y: torch.stack([y[..., 1], -y[..., 0]], -1), (-2, 2, -2, 2), [[1.0, 0.0]], time=3.0
    )
    for line in figure.axes[0].lines[:2]:
        x, y = line.get_data()
        assert abs((x**2 + y**2) - 1).max() < 1e-5  # circles
