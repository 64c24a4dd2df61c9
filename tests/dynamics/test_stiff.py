"""The implicit method takes stiff problems in few steps, and gradients pass its stages."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benthic.base.errors import InvalidInput
from benthic.dynamics import SolveError, solve

pytestmark = pytest.mark.spec("E-01")


def van_der_pol(t, y):
    return torch.stack([y[1], 1000 * (1 - y[0] ** 2) * y[1] - y[0]])


def robertson(t, y):
    slow, fast = -0.04 * y[0] + 1e4 * y[1] * y[2], 3e7 * y[1] ** 2
    return torch.stack([slow, -slow - fast, fast])


def hires(t, y):
    a, b, c, d, e, f, g, h = y
    light = 280 * f * h
    return torch.stack(
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


@pytest.mark.parametrize("name", PROBLEMS)
def test_stiff_problems_end_where_radau_says(name):
    from scipy.integrate import solve_ivp

    field, start, end = PROBLEMS[name]
    start = torch.tensor(start, dtype=torch.float64)
    exact = solve_ivp(
        lambda t, y: field(t, torch.tensor(y)).numpy(), (0, end), start, method="Radau", rtol=1e-10, atol=1e-12
    ).y[:, -1]
    found = solve(field, start, [0.0, end], method="kvaerno", rtol=1e-6, atol=1e-8)
    assert np.abs(found.last.numpy() - exact).max() < 1e-5
    assert found.statistics.steps < 1000
    with pytest.raises(SolveError, match="stiff"):
        solve(field, start, [0.0, end], rtol=1e-6, atol=1e-8, max_steps=1000)


def test_a_very_stiff_decay_is_damped_at_any_step():
    found = solve(
        lambda t, y: -1e8 * (y - torch.cos(t)),
        torch.zeros(1, dtype=torch.float64),
        [0.0, 1.0],
        method="kvaerno",
        step=0.1,
    )
    assert float((found.last - torch.cos(torch.tensor(1.0))).abs()) < 1e-6


@pytest.mark.parametrize("gradient", ["steps", "checkpoint"])
def test_gradients_pass_implicit_stages(gradient):
    rate = torch.tensor(50.0, dtype=torch.float64, requires_grad=True)
    start = torch.tensor([1.0, 0.5], dtype=torch.float64, requires_grad=True)

    def last(rate, start):
        def field(t, y):
            return torch.stack([-rate * (y[0] - y[1] ** 2), -y[1]])

        options = {"method": "kvaerno", "rtol": 1e-10, "atol": 1e-12, "gradient": gradient}
        return solve(field, start, [0.0, 0.5], parameters=[rate], **options).last

    assert torch.autograd.gradcheck(last, (rate, start), atol=1e-5)


def test_implicit_methods_refuse_steps_of_rows():
    with pytest.raises(InvalidInput, match="implicit"):
        solve(lambda t, y: -y, torch.ones(2, 1), [0.0, 1.0], method="kvaerno", per_row=True)
