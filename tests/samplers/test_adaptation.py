"""Warm-up: dual averaging, windows, masses near theory, and giving up with advice."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch

from benthic.samplers.hamiltonian.adaptation import DualAveraging, StepSizeAdapter, covariance, first_step, windows
from benthic.samplers.hamiltonian.hmc import HMC
from benthic.samplers.hamiltonian.nuts import NUTS
from benthic.samplers.kernel import SamplerStopped
from benthic.samplers.running import run
from benthic.samplers.target import Target
from tests.samplers.known import gaussian

DOUBLE = torch.float64
pytestmark = pytest.mark.spec("C-03")


@pytest.mark.parametrize(("push", "gamma"), [(10.0, 0.05), (1.0, 0.3)])
def test_dual_averaging_solves_a_noisy_equation(push: float, gamma: float) -> None:
    """Acceptance falls as exp(-h^2): 0.8 is at h = sqrt(-log 0.8)."""
    noise = 0.1 * torch.randn(4000, generator=torch.Generator().manual_seed(0))
    rule = DualAveraging(5.0, 0.8, push=push, gamma=gamma)
    for e in noise.tolist():
        rule.update(min(max(math.exp(-(rule.step**2)) + e, 0), 1))
    assert abs(rule.average - math.sqrt(-math.log(0.8))) < 0.05


def test_dual_averaging_takes_nan_as_refusal() -> None:
    rule = DualAveraging(1.0)
    assert rule.update(float("nan")) < 10.0


@pytest.mark.parametrize("transitions", [0, 5, 20, 37, 100, 150, 1000, 5000])
@pytest.mark.parametrize("chains", [1, 4, 256])
def test_windows_use_every_transition_and_double(transitions: int, chains: int) -> None:
    first, middle, last = windows(transitions, chains)
    assert first + sum(middle) + last == transitions
    for a, b in pairwise(middle[:-1]):
        assert b == 2 * a
    assert all(size > 0 for size in middle)


def test_covariance_is_that_of_the_rows() -> None:
    law, _, cov = gaussian()
    rows = law.exact(20_000, torch.Generator().manual_seed(0))
    torch.testing.assert_close(covariance(rows, True), cov, rtol=0.06, atol=0.06)
    torch.testing.assert_close(covariance(rows, False), cov.diagonal(), rtol=0.06, atol=0.0)
    few = covariance(rows[:5], True)
    assert torch.equal(few, torch.diag(few.diagonal()))


@pytest.mark.parametrize(("chains", "warmup"), [(4, 300), (128, 80)])
@pytest.mark.parametrize("kind", [NUTS, HMC])
def test_mass_and_step_end_near_theory(kind: type, chains: int, warmup: int) -> None:
    law, _, cov = gaussian(4)
    draws = run(kind(law.target, mass="dense"), chains=chains, draws=100, warmup=warmup, seed=0)
    tuned = draws.meta["kernel"]
    whitened = torch.linalg.eigvals(torch.linalg.solve(cov, tuned.inverse_mass)).real
    assert whitened.min() > 0.3
    assert whitened.max() < 2.5
    assert 0.68 < draws.info["accepted"].mean() < 0.92


def test_diagonal_mass_is_the_variances() -> None:
    scales = torch.tensor([0.05, 1.0, 10.0], dtype=DOUBLE)
    target = Target(lambda x: -0.5 * ((x / scales) ** 2).sum(-1), torch.zeros(3, dtype=DOUBLE), batched=True)
    draws = run(NUTS(target, mass="diagonal"), chains=16, draws=50, warmup=150, seed=1)
    found = draws.meta["kernel"].inverse_mass.sqrt() / scales
    assert found.min() > 0.7
    assert found.max() < 1.4
    assert draws.info["steps"].double().mean() < 16


def test_auto_is_dense_for_few_dimensions_and_diagonal_for_many() -> None:
    small = run("nuts", gaussian(3)[0].target, chains=8, draws=4, warmup=100, seed=0)
    wide = Target(lambda x: -0.5 * (x**2).sum(-1), torch.zeros(150, dtype=DOUBLE), batched=True)
    large = run("nuts", wide, chains=8, draws=3, warmup=40, seed=0)
    assert small.meta["kernel"].inverse_mass.ndim == 2
    assert large.meta["kernel"].inverse_mass.ndim == 1


def test_first_step_follows_the_scale() -> None:
    steps = []
    for scale in (1.0, 1e-3):
        target = Target(lambda x, s=scale: -0.5 * ((x / s) ** 2).sum(-1), torch.zeros(5, dtype=DOUBLE), batched=True)
        stream = torch.Generator().manual_seed(0)
        kernel = NUTS(target)
        state = kernel.init(scale * torch.randn(50, 5, generator=stream, dtype=DOUBLE))
        steps.append(first_step(kernel, state, stream)[0])
    assert 500 < steps[0] / steps[1] < 2000


@pytest.mark.parametrize("kind", [NUTS, HMC])
def test_collapsing_step_stops_with_advice(kind: type) -> None:
    """Gradients that point the wrong way, and far too strongly, leave no step that works."""

    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return -(x**2).sum(-1)

        @staticmethod
        def backward(ctx, grad):
            return grad[:, None] * torch.full((1, 2), 1e20, dtype=DOUBLE)

    target = Target(Wrong.apply, torch.zeros(2, dtype=DOUBLE), batched=True)
    with pytest.raises(SamplerStopped, match="step size collapsed.*constraints"):
        run(kind(target), chains=4, draws=10, warmup=100, seed=0)


def test_flat_density_stops_with_advice() -> None:
    target = Target(lambda x: 0 * x.sum(-1), torch.zeros(2, dtype=DOUBLE), batched=True)
    with pytest.raises(SamplerStopped, match="improper"):
        run("nuts", target, draws=10, warmup=100, seed=0)


def test_any_kernel_with_a_step_size_is_tuned() -> None:
    law, _, _ = gaussian()
    kernel = HMC(law.target, step_size=3.0, steps=3)
    stream = torch.Generator().manual_seed(0)
    state = kernel.init(law.exact(64, stream))
    _, tuned = StepSizeAdapter(kernel, 0.7).warm(state, 400, stream)
    _, trail = tuned.collect(kernel.init(law.exact(64, stream)), 50, stream)
    assert abs(float(trail.info["accepted"].mean()) - 0.7) < 0.1
