"""Many short chains: the criterion's slope, the length it finds, and the law it leaves alone."""

from __future__ import annotations

import math

import pytest
import torch

from benthic.base.errors import InvalidInput
from benthic.samplers.hamiltonian.ensemble import ChEES, _criterion_slope
from benthic.samplers.hamiltonian.hmc import HamiltonianState
from benthic.samplers.running import run
from benthic.samplers.target import Target
from tests.samplers.known import banana, chain_z, gamma, gaussian, worst_z

DOUBLE = torch.float64
pytestmark = pytest.mark.spec("C-03")


@pytest.mark.parametrize("make", [lambda: gaussian()[0], banana, gamma])
def test_transition_leaves_the_law_as_it_was(make) -> None:
    law = make()
    stream = torch.Generator().manual_seed(2)
    kernel = ChEES(law.target, step_size=0.4, longest=2.0)
    state = kernel.init(law.exact(20_000, stream))
    for _ in range(3):
        state, _ = kernel.step(state, stream)
    assert worst_z(state.position, law.exact(20_000, stream)) < 4.5


def test_slope_is_that_of_the_criterion() -> None:
    """With exact rotations of a normal law the criterion as a function of time is differentiable by hand."""
    target = Target(lambda x: -0.5 * (x**2).sum(-1), torch.zeros(3, dtype=DOUBLE), batched=True)
    stream = torch.Generator().manual_seed(0)
    x, v = (torch.randn(500, 3, generator=stream, dtype=DOUBLE) for _ in range(2))

    def criterion(time: torch.Tensor) -> torch.Tensor:
        end = x * torch.cos(time) + v * torch.sin(time)
        change = ((end - end.mean(0)) ** 2).sum(-1) - ((x - x.mean(0)) ** 2).sum(-1)
        return 0.25 * (change**2).mean()

    time = torch.tensor(0.7, dtype=DOUBLE, requires_grad=True)
    (expected,) = torch.autograd.grad(criterion(time), time)
    end = x * math.cos(0.7) + v * math.sin(0.7)
    momentum = v * math.cos(0.7) - x * math.sin(0.7)
    blank = torch.zeros(500, dtype=DOUBLE)
    found = _criterion_slope(
        ChEES(target), HamiltonianState(x, blank, x), HamiltonianState(end, blank, end), momentum, blank + 1
    )
    # the estimator leaves out the movement of the mean, which averages out: it is a few percent here
    assert abs(found / float(expected) - 1) < 0.1


def test_length_found_is_near_the_best() -> None:
    """For uniform lengths on a whitened normal law the criterion is greatest where T solves its equation."""
    law, mean, cov = gaussian(5)
    draws = run("chees", law.target, chains=128, draws=100, warmup=250, seed=0)
    assert chain_z(draws["x"], mean, cov) < 4.5
    # squares return with period pi: the criterion of time t is sin^2 t, its mean over (0, T) is greatest at 2.25;
    # 1.4 ± 0.2 is found
    assert 0.6 < draws.meta["kernel"].longest < 3.6


def test_bad_settings_are_refused() -> None:
    target = gaussian()[0].target
    for settings, message in (({"longest": 0.0}, "longest"), ({"max_steps": 0}, "max_steps")):
        with pytest.raises(InvalidInput, match=message):
            ChEES(target, **settings)
