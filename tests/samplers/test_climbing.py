"""Chains that start far out: they move uphill first, and one that is lost does not rule the step of the others."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import constraints

from benthic.samplers.climbing import climb
from benthic.samplers.hamiltonian.hmc import HMC
from benthic.samplers.hamiltonian.nuts import NUTS
from benthic.samplers.judging.diagnostics import split_rhat
from benthic.samplers.langevin.overdamped import MALA
from benthic.samplers.running import run
from benthic.samplers.target import Target

DOUBLE = torch.float64
pytestmark = pytest.mark.spec("C-03")


def moving_average(steps: int) -> Target:
    """y_t = mu + e_t + theta e_{t-1}: where |theta| > 1 the density falls with theta to the power of the steps."""
    noise = torch.randn(steps + 1, generator=torch.Generator().manual_seed(0), dtype=DOUBLE)
    seen = 0.3 + noise[1:] + 0.5 * noise[:-1]

    def log_density(p: dict[str, Tensor]) -> Tensor:
        error, factor, shift = seen - p["mu"][:, None], -p["theta"][:, None], 1
        while shift < steps:  # the geometric series of the lag, as a product of powers of two
            error = error + factor * torch.nn.functional.pad(error, (shift, 0))[:, :steps]
            factor, shift = factor * factor, 2 * shift
        prior = -0.5 * (p["mu"] / 10) ** 2 - 0.5 * (p["theta"] / 2) ** 2 - torch.log1p((p["sigma"] / 2.5) ** 2)
        return prior - 0.5 * (error / p["sigma"][:, None]).square().sum(1) - steps * p["sigma"].log()

    example = {"mu": 0.0, "theta": 0.0, "sigma": 1.0}
    return Target(log_density, example, constraints={"sigma": constraints.positive}, batched=True)


def worst(draws: object) -> float:
    return max(float(split_rhat(value[..., None]).max()) for value in draws.values.values())


@pytest.mark.parametrize("kind", [partial(NUTS, max_depth=4), partial(HMC, steps=4)])
def test_chains_that_start_far_out_arrive(kind: Callable[[Target], Any]) -> None:
    draws = run(kind(moving_average(32)), draws=150, warmup=300, seed=0)
    assert worst(draws) < 1.1


def test_each_chain_climbs_by_itself() -> None:
    target = moving_average(200)
    rows = torch.tensor([[0.0, 1.9, 0.0], [0.0, -1.5, 1.0], [0.3, 0.5, 0.0]], dtype=DOUBLE)
    moved, gain = climb(target, rows)
    assert float(gain[:2].min()) > 1e50 and float(gain[2]) == 0 and torch.equal(moved[2], rows[2])
    torch.testing.assert_close(moved[:1], climb(target, rows[:1])[0])
    assert float(target.log_density(moved).min()) > float(target.log_density(rows[2:])) - 100


@pytest.mark.slow
@pytest.mark.parametrize("kind", [NUTS, HMC, MALA])
def test_chains_of_all_seeds_agree(kind: type) -> None:
    for seed in range(20):
        assert worst(run(kind(moving_average(200)), seed=seed)) <= 1.01


def test_chains_that_start_among_the_draws_stay() -> None:
    target = Target(lambda x: -0.5 * (x**2).sum(), torch.zeros(50, dtype=DOUBLE))
    rows = torch.randn(20, 50, generator=torch.Generator().manual_seed(0), dtype=DOUBLE)
    moved, gain = climb(target, rows)
    assert torch.equal(moved, rows) and float(gain.max()) == 0
    steep = Target(lambda x: -0.5e12 * (x**2).sum(), torch.zeros(50, dtype=DOUBLE))
    far, gain = climb(steep, rows)
    assert float(steep.log_density(far).min()) > -100 and float(gain.min()) > 1e12


@pytest.mark.parametrize("kind", [NUTS, HMC])
def test_one_lost_chain_does_not_rule_the_step(kind: type) -> None:
    """Beyond 10 the density falls so steeply that only steps of 1e-9 stay there; the others go on as without it."""

    def log_density(x: Tensor) -> Tensor:
        return torch.where(x.abs().amax(-1) < 10, -0.5 * (x**2).sum(-1), -1e12 * (x**2).sum(-1))

    target = Target(log_density, torch.zeros(2, dtype=DOUBLE), batched=True)
    start = torch.tensor([[0.0, 0.1], [0.1, 0.0], [-0.1, 0.0], [50.0, 50.0]], dtype=DOUBLE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that one chain disagrees
        draws = run(kind(target), start=start, draws=300, warmup=200, seed=0)
    assert 0.1 < draws.meta["kernel"].step_size < 3
    assert 0.5 < float(draws["x"][:3].var()) < 1.6
