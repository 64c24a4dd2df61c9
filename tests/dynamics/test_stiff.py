"""The implicit method takes stiff problems in few steps, and gradients pass its stages."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benthic.base.errors import InvalidInput
from benthic.dynamics import SolveError, solve

pytestmark = pytest.mark.spec("E-01")


def van_der_pol(t, y, stack=torch.stack):
    return stack([y[1], 1000 * (1 - y[0] ** 2) * y[1] - y[0]])


def robertson(t, y, stack=torch.stack):
    slow, fast = -0.04 * y[0] + 1e4 * y[1] * y[2], 3e7 * y[1] ** 2
    return stack([slow, -slow - fast, fast])


def hires(t, y, stack=torch.stack):
    a, b, c, d, e, f, g, h = y
    light = 280 * f * h
    return stack(
        [
            -1.71 * a + 0.43 * b + 8.32 * c + 0.0007,
            1.71 * a - 8.75 * b,
            -10.03 * c + 0.43 * d + 0.035 * e,
            8.32 * b + 1.71 * c - 1.12 * d,
            -1.745 * e + 0.43 * f + 0.43 * g,
            -light + 0.69 * d + 1.71 * e - 0.43 * f + 0.69 * g,
            light - 1.81 * g,
            -light + 1.81 * g,
        ]
    )


PROBLEMS = {
    "van der pol": (van_der_pol, [2.0, 0.0], 2000.0),
    "robertson": (robertson, [1.0, 0.0, 0.0], 1e4),
    "hires": (hires, [1.0, 0, 0, 0, 0, 0, 0, 0.0057], 321.8122),
}


def by_scipy(name, rtol, atol):
    from scipy.integrate import solve_ivp

    field, start, end = PROBLEMS[name]
    options = {"method": "Radau", "rtol": rtol, "atol": atol}
    return solve_ivp(lambda t, y: field(t, y, np.array), (0, end), start, **options).y[:, -1]


@pytest.mark.parametrize("name", PROBLEMS)
def test_stiff_problems_end_where_they_should(name):
    field, start, end = PROBLEMS[name]
    start = torch.tensor(start, dtype=torch.float64)
    exact = by_scipy(name, 1e-11, 1e-13)
    loose = solve(field, start, [0.0, end], method="kvaerno", rtol=1e-6, atol=1e-8)
    assert np.abs(loose.last.numpy() - exact).max() < 1e-5
    close = solve(field, start, [0.0, end], method="radau", rtol=1e-6, atol=1e-8)
    peer = np.abs(by_scipy(name, 1e-6, 1e-8) - exact).max()
    assert np.abs(close.last.numpy() - exact).max() <= 2 * peer
    assert max(loose.statistics.steps, close.statistics.steps) < 1000
    with pytest.raises(SolveError, match="stiff"):
        solve(field, start, [0.0, end], rtol=1e-6, atol=1e-8, max_steps=1000)


def test_the_order_of_radau_and_of_its_interpolant():
    def field(t, y):
        return torch.stack([y[0] * torch.cos(t), y[1] * (1 - y[1])])

    start = torch.tensor([1.0, 0.1], dtype=torch.float64)
    times = torch.tensor([0.0, 3.0], dtype=torch.float64)

    def errors(t):
        exact = torch.stack([torch.exp(torch.sin(t)), 1 / (1 + 9 * torch.exp(-t))], -1)
        sizes = np.array([0.5, 0.25, 0.125])
        found = [
            solve(field, start, times, method="radau", step=size, adaptive=False, dense=True, rtol=1e-12, atol=1e-12)
            for size in sizes
        ]
        distances = [float((solution.at(t) - exact).norm()) for solution in found]
        return np.polyfit(np.log(sizes), np.log(distances), 1)[0]

    assert abs(errors(times[1:]) - 5) < 0.3
    assert errors(torch.linspace(0.1, 2.9, 57, dtype=torch.float64)) > 3.7


@pytest.mark.parametrize("method", ["kvaerno", "radau"])
def test_a_very_stiff_decay_is_damped_at_any_step(method):
    found = solve(
        lambda t, y: -1e8 * (y - torch.cos(t)),
        torch.zeros(1, dtype=torch.float64),
        [0.0, 1.0],
        method=method,
        step=0.1,
    )
    assert float((found.last - torch.cos(torch.tensor(1.0))).abs()) < 1e-6


@pytest.mark.parametrize("method", ["kvaerno", "radau"])
@pytest.mark.parametrize("gradient", ["steps", "checkpoint"])
def test_gradients_pass_implicit_stages(gradient, method):
    rate = torch.tensor(50.0, dtype=torch.float64, requires_grad=True)
    start = torch.tensor([1.0, 0.5], dtype=torch.float64, requires_grad=True)

    def last(rate, start):
        def field(t, y):
            return torch.stack([-rate * (y[0] - y[1] ** 2), -y[1]])

        options = {"method": method, "rtol": 1e-8, "atol": 1e-10, "gradient": gradient}
        return solve(field, start, [0.0, 0.05], parameters=[rate], **options).last

    assert torch.autograd.gradcheck(last, (rate, start), atol=1e-5)


def test_implicit_methods_refuse_steps_of_rows():
    with pytest.raises(InvalidInput, match="implicit"):
        solve(lambda t, y: -y, torch.ones(2, 1), [0.0, 1.0], method="kvaerno", per_row=True)
