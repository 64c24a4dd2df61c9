"""Stochastic methods have their declared orders, in both senses, and time can be turned around."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from benthic.base.errors import InvalidInput
from benthic.dynamics import BrownianPath, SolveError, reversed_in_time, solve_sde
from benthic.dynamics.sde import STOCHASTIC

pytestmark = pytest.mark.spec("E-03")
A, B = 0.5, 1.0  # drift and diffusion of a geometric Brownian motion
SIZES = [2.0**-k for k in (4, 5, 6, 7)]


def geometric(n, size, method, sense, **options):
    start = torch.ones(n, 1, dtype=torch.float64)
    found = solve_sde(
        lambda t, y: A * y,
        lambda t, y: B * y,
        start,
        [0.0, 1.0],
        step=size,
        method=method,
        sense=sense,
        seed=5,
        **options,
    )
    exact = torch.exp((A - (B**2 / 2 if sense == "ito" else 0.0)) + B * found.path(1.0))
    return found.last, exact


def slope_of(errors, sizes=SIZES):
    return np.polyfit(np.log(sizes), np.log(errors), 1)[0]


@pytest.mark.parametrize("sense", ["ito", "stratonovich"])
@pytest.mark.parametrize("name", STOCHASTIC)
def test_strong_order(name, sense):
    errors = []
    for size in SIZES:
        found, exact = geometric(2000, size, name, sense)
        errors.append(float((found - exact).abs().mean()))
    assert abs(slope_of(errors) - STOCHASTIC[name].strong) < 0.15


@pytest.mark.parametrize("name", STOCHASTIC)
def test_weak_order(name):
    """Of the expectation; the exact solution on the same path takes most of the noise away."""
    sizes = [2.0**-k for k in (2, 3, 4, 5)]
    means, spreads = [], []
    for size in sizes:
        found, exact = geometric(100_000, size, name, "ito")
        means.append(abs(float((found - exact).mean())))
        spreads.append(float((found - exact).std()) / math.sqrt(len(found)))
    draws = np.abs(np.array(means) + np.random.default_rng(0).normal(size=(500, len(sizes))) * spreads)
    low, high = np.quantile([slope_of(row, sizes) for row in draws], [0.005, 0.995])
    assert low - 0.15 < STOCHASTIC[name].weak < high + 0.15


def test_scalar_noise_moves_all_entries_together():
    mix = torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)
    start = torch.tensor([[1.0, 0.0]], dtype=torch.float64).expand(500, 2)
    errors = []
    for size in SIZES:
        found = solve_sde(
            lambda t, y: torch.zeros_like(y),
            lambda t, y: y @ mix.T,
            start,
            [0.0, 1.0],
            step=size,
            method="milstein",
            noise="scalar",
            sense="stratonovich",
            seed=1,
        )
        angle = found.path(1.0)  # the solution turns by W
        errors.append(float((found.last - torch.cat([angle.cos(), -angle.sin()], 1)).norm(dim=1).mean()))
    assert abs(slope_of(errors) - 1.0) < 0.15


def test_general_noise_that_does_not_commute():
    """Against a solution with 16 times as many steps along the same path."""

    def diffusion(t, y):
        return torch.stack(
            [torch.stack([y[..., 1], torch.ones_like(y[..., 0])], -1), torch.stack([y[..., 0].cos(), y[..., 1]], -1)],
            -2,
        )

    start = torch.tensor([[1.0, 0.5]], dtype=torch.float64).expand(2000, 2)
    path = BrownianPath(0.0, 1.0, (2000, 2), seed=7, dtype=torch.float64)
    options = {"noise": "general", "path": path}
    fine = solve_sde(lambda t, y: -y, diffusion, start, [0.0, 1.0], step=2.0**-11, **options).last
    errors = [
        float(
            (solve_sde(lambda t, y: -y, diffusion, start, [0.0, 1.0], step=size, **options).last - fine)
            .norm(dim=1)
            .mean()
        )
        for size in SIZES
    ]
    assert abs(slope_of(errors) - 0.5) < 0.15


def test_additive_noise_raises_the_order_of_euler_maruyama():
    start, errors = torch.zeros(2000, 1, dtype=torch.float64), []
    fine = None
    for size in [2.0**-11, *SIZES]:
        path = BrownianPath(0.0, 1.0, (2000, 1), seed=3, dtype=torch.float64)
        found = solve_sde(
            lambda t, y: torch.sin(3 * y) - y,
            lambda t, y: torch.ones(1, dtype=torch.float64),
            start,
            [0.0, 1.0],
            step=size,
            path=path,
        ).last
        fine = found if fine is None else fine
        errors.append(float((found - fine).abs().mean()))
    assert abs(slope_of(errors[1:]) - STOCHASTIC["euler_maruyama"].additive) < 0.15


def test_half_the_step_sees_the_same_path():
    runs = [geometric(3, size, "milstein", "ito")[1] for size in (0.1, 0.05, 0.025)]
    torch.testing.assert_close(runs[0], runs[1], atol=1e-12, rtol=0)
    torch.testing.assert_close(runs[0], runs[2], atol=1e-12, rtol=0)


def test_time_reversal_brings_the_first_law_back():
    """An Ornstein-Uhlenbeck process from N(2, 0.5²), whose law at every time is normal and known."""

    def moments(t):
        return 2 * torch.exp(-0.5 * t), 1 + (0.25 - 1) * torch.exp(-t)

    def score(t, y):
        mean, variance = moments(t)
        return (mean - y) / variance

    n = 20_000
    drift, diffusion = reversed_in_time(lambda t, y: -0.5 * y, lambda t, y: torch.ones_like(y), score)
    mean, variance = moments(torch.tensor(3.0))
    start = mean + variance.sqrt() * torch.randn(n, 1, generator=torch.Generator().manual_seed(0))
    found = solve_sde(drift, diffusion, start, [3.0, 0.0], step=0.01, seed=1).last
    assert abs(float(found.mean()) - 2) < 5 * 0.5 / math.sqrt(n) + 0.01  # 0.01: the order-one bias of the steps
    assert abs(float(found.std()) - 0.5) < 5 * 0.5 / math.sqrt(2 * n) + 0.01


def test_gradients_flow_along_a_path():
    rate = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    start = torch.ones(4, 1, dtype=torch.float64)

    def last(rate):
        return solve_sde(
            lambda t, y: rate * y, lambda t, y: 0.5 * y, start, [0.0, 1.0], step=0.1, seed=0, method="milstein"
        ).last

    assert torch.autograd.gradcheck(last, (rate,))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"t": [0.0, 0.0]}, "rise or fall"),
        ({"step": 0.0}, "positive"),
        ({"method": "milstien"}, "did you mean 'milstein'"),
        ({"noise": "diag"}, "noise='diag'"),
        ({"sense": "itô"}, "use ito or stratonovich"),
        ({"diffusion": lambda t, y: y[:, :1].repeat(1, 3)}, "diagonal noise of"),
        ({"noise": "general"}, "general noise of"),
        ({"noise": "general", "method": "milstein", "diffusion": lambda t, y: y[..., None]}, "milstein needs"),
        ({"y0": torch.ones(3, dtype=torch.int64)}, "floating-point"),
        ({"path": BrownianPath(0.0, 1.0, (5,), seed=0)}, "the path has shape"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(options, message):
    whole = {
        "drift": lambda t, y: -y,
        "diffusion": lambda t, y: y,
        "y0": torch.ones(4, 2),
        "t": [0.0, 1.0],
        "step": 0.1,
    }
    whole |= options
    with pytest.raises(InvalidInput, match=message):
        solve_sde(whole.pop("drift"), whole.pop("diffusion"), whole.pop("y0"), whole.pop("t"), **whole)


def test_a_state_that_overflows_says_where():
    with pytest.raises(SolveError, match="between t=0 and t=10"):
        solve_sde(lambda t, y: y**3, lambda t, y: y, torch.full((1,), 3.0), [0.0, 10.0], step=0.5, seed=0)
