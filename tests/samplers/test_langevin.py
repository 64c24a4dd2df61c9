"""Langevin kernels: the exact law of the unadjusted ones, exactness of the adjusted one, invariance to the metric."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.linalg import solve_discrete_lyapunov
from torch.distributions import MultivariateNormal

from benthic.base.errors import InvalidInput
from benthic.samplers import BAOAB, MALA, ULA, SamplerStopped, Target, run

pytestmark = pytest.mark.spec("C-04")
COVARIANCE = torch.tensor([[2.0, 1.2, 0.0], [1.2, 1.0, -0.3], [0.0, -0.3, 0.5]], dtype=torch.float64)
PRECISION = torch.linalg.inv(COVARIANCE)


def gen(seed=0):
    return torch.Generator().manual_seed(seed)


def standard(d=1):
    return Target(lambda x: -0.5 * (x**2).sum(), torch.zeros(d, dtype=torch.float64))


def correlated():
    return Target(lambda x: -0.5 * x @ PRECISION @ x, torch.zeros(3, dtype=torch.float64))


def banana():
    """x0 ~ N(0, 1), x1 | x0 ~ N(x0^2, 1/4): E x1 = 1, var x1 = 2 + 1/4."""

    def density(x):
        return -0.5 * x[0] ** 2 - 2.0 * (x[1] - x[0] ** 2) ** 2

    return Target(density, torch.zeros(2, dtype=torch.float64))


def affine_law(kernel):
    """On a one-dimensional Gaussian a step is A s + b ξ: read A and b off, and return the stationary covariance."""
    d = len(kernel.init(torch.zeros(1, 1, dtype=torch.float64))) - 2  # 1, or 2 with a momentum

    def step(values):
        state = kernel.init(torch.tensor([[values[0]]], dtype=torch.float64))
        if d == 2:
            state = state._replace(momentum=torch.tensor([[values[1]]], dtype=torch.float64))
        moved, _ = kernel.step(state, gen())
        return np.array([float(moved.position)] + ([float(moved.momentum)] if d == 2 else []))

    origin = step([0.0] * d)
    noise = float(torch.randn(1, 1, generator=gen(), dtype=torch.float64))
    A = np.stack([step(list(e)) - origin for e in np.eye(d)], 1)
    b = (origin / noise)[:, None]
    return solve_discrete_lyapunov(A, b @ b.T)


def z_scores(rows, truth):
    """rows: (chains, draws, k); chains are independent, so their means have a plain standard error."""
    means = rows.mean(1)
    return (means.mean(0) - truth) / (means.std(0) / math.sqrt(len(means)))


@pytest.mark.parametrize("eta", [0.01, 0.3, 1.0, 1.9])
def test_ula_has_variance_one_over_one_minus_half_the_step(eta):
    # x' = (1 - η) x + √(2η) ξ, so v = (1 - η)² v + 2η, v = 2η / (2η - η²)
    assert affine_law(ULA(standard(), eta)).item() == pytest.approx(1 / (1 - eta / 2), rel=1e-12)


def test_the_bias_of_ula_is_of_first_order():
    steps = np.array([0.08, 0.04, 0.02, 0.01])
    bias = [affine_law(ULA(standard(), eta)).item() - 1 for eta in steps]
    slope = np.polyfit(np.log(steps), np.log(bias), 1)[0]
    assert slope == pytest.approx(1.0, abs=0.03)  # next term is η/2 relative, at most 4 %


def test_chains_of_ula_reach_that_law():
    kernel, n = ULA(standard(), 0.5), 40_000
    state, stream = kernel.init(torch.full((n, 1), 3.0, dtype=torch.float64)), gen(1)
    for _ in range(40):  # 3 · 0.5^40 is nothing
        state, info = kernel.step(state, stream)
    variance = 1 / (1 - 0.25)
    assert abs(float(state.position.mean())) < 4 * math.sqrt(variance / n)
    assert abs(float(state.position.var()) - variance) < 4 * variance * math.sqrt(2 / n)
    assert bool((info.accepted == 1).all())


def test_the_two_scalings_are_equal():
    target, start, eps = correlated(), torch.randn(5, 3, generator=gen(2), dtype=torch.float64), 0.2
    full, half = ULA(target, eps / 2), ULA(target, eps, scaling="half")
    a, _ = full.step(full.init(start), gen(3))
    b, _ = half.step(half.init(start), gen(3))
    xi = torch.randn(5, 3, generator=gen(3), dtype=torch.float64)
    by_hand = start - 0.5 * eps * start @ PRECISION + math.sqrt(eps) * xi
    torch.testing.assert_close(a.position, b.position, rtol=0, atol=0)
    torch.testing.assert_close(a.position, by_hand, rtol=1e-13, atol=1e-13)
    assert MALA(target, 0.3, scaling="half").step_size == MALA(target, 0.15).step_size


@pytest.mark.parametrize(("h", "friction"), [(0.1, 1.0), (1.0, 0.1), (1.5, 5.0), (1.9, 1.0)])
def test_positions_of_baoab_are_exact_on_gaussians(h, friction):
    law = affine_law(BAOAB(standard(), h, friction=friction))
    assert law[0, 0] == pytest.approx(1.0, rel=1e-10)  # whatever the step
    assert law[1, 1] == pytest.approx(1 - h * h / 4, rel=1e-9)  # momenta are not: Leimkuhler & Matthews, 2013


def test_baoab_on_a_quartic_well():
    target = Target(lambda x: -(x**4).sum() / 4, torch.zeros(1, dtype=torch.float64))
    kernel = BAOAB(target, 0.2, friction=1.5)
    state, stream = kernel.init(torch.zeros(2000, 1, dtype=torch.float64)), gen(4)
    for _ in range(100):
        state, _ = kernel.step(state, stream)
    _, trail = kernel.collect(state, 200, stream)
    grid = np.linspace(-6, 6, 4001)
    truth = np.trapezoid(grid**2 * np.exp(-(grid**4) / 4), grid) / np.trapezoid(np.exp(-(grid**4) / 4), grid)
    # the bias at h = 0.2 is of order h² times a small constant; it is within 1 %
    assert float((trail.positions**2).mean()) == pytest.approx(truth, rel=0.01)
    assert trail.info["energy"].shape == (2000, 200)


def test_without_friction_baoab_conserves_energy():
    kernel = BAOAB(correlated(), 0.05, friction=0.0)
    state = kernel.init(torch.ones(1, 3, dtype=torch.float64))
    _, trail = kernel.collect(state, 400, gen())
    energy = trail.info["energy"]
    start = float(0.5 * torch.ones(3, dtype=torch.float64) @ PRECISION @ torch.ones(3, dtype=torch.float64))
    assert float((energy - start).abs().max()) < 0.01 * start


@pytest.mark.parametrize("inverse_mass", [None, COVARIANCE.diagonal().clone(), COVARIANCE])
def test_acceptance_of_mala_is_metropolis_with_gaussian_proposals(inverse_mass):
    target, eta = banana_3d(), 0.2
    kernel = MALA(target, eta, inverse_mass=inverse_mass)
    state = kernel.init(torch.randn(50, 3, generator=gen(5), dtype=torch.float64))
    moved, info = kernel.step(state, gen(6))
    metric = torch.eye(3, dtype=torch.float64) if inverse_mass is None else inverse_mass
    metric = torch.diag(metric) if metric.ndim == 1 else metric

    def proposal(s):
        return MultivariateNormal(s.position + eta * s.gradient @ metric, 2 * eta * metric)

    took = (moved.position != state.position).any(1)
    forward, back = proposal(state).log_prob(moved.position), proposal(moved).log_prob(state.position)
    ratio = (moved.log_density - state.log_density + back - forward).clamp(max=0).exp()
    assert int(took.sum()) > 5
    torch.testing.assert_close(info.accepted[took], ratio[took], rtol=1e-9, atol=1e-12)


def banana_3d():
    def density(x):
        return -0.5 * x[0] ** 2 - 2.0 * (x[1] - x[0] ** 2) ** 2 - 0.5 * (x[2] - x[1]) ** 2

    return Target(density, torch.zeros(3, dtype=torch.float64))


@pytest.mark.parametrize("dense", [False, True])
def test_mala_is_exact_on_a_correlated_gaussian(dense):
    draws = run(MALA(correlated(), dense=dense), chains=100, draws=200, warmup=250, thin=8, seed=0).values["x"]
    pairs = torch.einsum("cdi,cdj->cdij", draws, draws).flatten(2)
    moments = torch.cat([draws, pairs], -1)
    truth = torch.cat([torch.zeros(3, dtype=torch.float64), COVARIANCE.flatten()])
    assert float(z_scores(moments, truth).abs().max()) < 4  # 12 numbers, 9 of them different


def banana_moments(x, y):
    return torch.stack([x, y, x * x, (y - 1) ** 2, x * y, (y - x * x) ** 2], -1)


BANANA_TRUTH = torch.tensor([0.0, 1.0, 1.0, 2.25, 0.0, 0.25], dtype=torch.float64)


def test_mala_leaves_a_banana_as_it_is():
    n, stream = 20_000, gen(9)
    x, e = torch.randn(2, n, generator=stream, dtype=torch.float64)
    kernel = MALA(banana(), 0.1)
    state, moved = kernel.init(torch.stack([x, x * x + e / 2], 1)), 0.0  # exact draws
    for _ in range(100):
        state, info = kernel.step(state, stream)
        moved += float(info.accepted.mean()) / 100
    moments = banana_moments(*state.position.T)
    z = (moments.mean(0) - BANANA_TRUTH) / (moments.std(0) / math.sqrt(n))
    assert float(z.abs().max()) < 4 and 0.3 < moved < 0.99


def test_tuned_mala_finds_a_banana():
    """x0 ~ N(0, 1), x1 | x0 ~ N(x0^2 / 2, 1): E x1 = 1/2, var x1 = 3/2."""
    target = Target(
        lambda x: -0.5 * x[0] ** 2 - 0.5 * (x[1] - 0.5 * x[0] ** 2) ** 2, torch.zeros(2, dtype=torch.float64)
    )
    draws = run("mala", target, chains=500, draws=400, warmup=400, seed=1).values["x"]
    x, y = draws[..., 0], draws[..., 1]
    moments = torch.stack([x, y, x * x, (y - 0.5) ** 2, x * y], -1)
    truth = torch.tensor([0.0, 0.5, 1.0, 1.5, 0.0], dtype=torch.float64)
    assert float(z_scores(moments, truth).abs().max()) < 4


def test_warm_up_reaches_the_asked_acceptance_and_the_scales():
    scales = torch.tensor([1e-2, 1.0, 30.0], dtype=torch.float64)
    target = Target(lambda x: -0.5 * ((x / scales) ** 2).sum(), torch.zeros(3, dtype=torch.float64))
    found = run(MALA(target), chains=64, draws=200, warmup=800, seed=2)
    tuned = found.meta["kernel"]
    assert float(found.info["accepted"].mean()) == pytest.approx(0.574, abs=0.08)
    torch.testing.assert_close(tuned.metric.inverse_mass.sqrt(), scales, rtol=0.15, atol=0)


@pytest.mark.parametrize("make", [ULA, MALA, BAOAB])
@pytest.mark.parametrize("diagonal", [True, False])
def test_preconditioning_is_a_change_of_coordinates(make, diagonal):
    covariance = torch.diag(COVARIANCE.diagonal()) if diagonal else COVARIANCE
    root, precision = torch.linalg.cholesky(covariance), torch.linalg.inv(covariance)
    target = Target(lambda x: -0.5 * x @ precision @ x, torch.zeros(3, dtype=torch.float64))
    given = covariance.diagonal().clone() if diagonal else covariance
    skew, plain = make(target, 0.4, inverse_mass=given), make(standard(3), 0.4)
    white = torch.randn(6, 3, generator=gen(7), dtype=torch.float64)
    a, b = skew.init(white @ root.mT), plain.init(white)
    one, other = gen(8), gen(8)
    for _ in range(10):
        (a, info_a), (b, info_b) = skew.step(a, one), plain.step(b, other)
        torch.testing.assert_close(info_a.accepted, info_b.accepted, rtol=1e-8, atol=1e-9)
    torch.testing.assert_close(a.position, b.position @ root.mT, rtol=1e-8, atol=1e-9)


def test_steps_are_pure_and_leave_global_randomness_alone():
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    for kernel in (ULA(standard(2), 0.1), MALA(standard(2), 0.5), BAOAB(standard(2), 0.5)):
        state = kernel.init(torch.ones(4, 2, dtype=torch.float64))
        first, second = kernel.step(state, gen())[0], kernel.step(state, gen())[0]
        torch.testing.assert_close(first.position, second.position, rtol=0, atol=0)
        assert bool((state.position == 1).all())
    assert bool((torch.random.get_rng_state() == before).all())


def test_single_precision_stays_single():
    target = Target(lambda x: -0.5 * (x**2).sum(), torch.zeros(2))
    for kernel in (ULA(target, 0.1), MALA(target), BAOAB(target, 0.5)):
        state, _ = kernel.step(kernel.init(torch.zeros(3, 2)), gen())
        assert all(part.dtype == torch.float32 for part in state)


def test_bad_input_is_named():
    target = standard(2)
    for make in (ULA, MALA, BAOAB):
        with pytest.raises(InvalidInput, match=f"{make.__name__}: step_size is -1"):
            make(target, -1.0)
        with pytest.raises(InvalidInput, match="the target has 2 dimensions"):
            make(target, 0.1, inverse_mass=torch.ones(3))
        with pytest.raises(InvalidInput, match="positive"):
            make(target, 0.1, inverse_mass=torch.tensor([1.0, -1.0]))
        with pytest.raises(InvalidInput, match="not symmetric positive definite"):
            make(target, 0.1, inverse_mass=torch.tensor([[1.0, 2.0], [2.0, 1.0]]))
    with pytest.raises(InvalidInput, match="scaling 'hafl' is unknown.*half"):
        ULA(target, 0.1, scaling="hafl")
    with pytest.raises(InvalidInput, match="friction is -1"):
        BAOAB(target, 0.1, friction=-1.0)
    with pytest.raises(InvalidInput, match="acceptance is 1.5"):
        MALA(target, acceptance=1.5)


@pytest.mark.parametrize("kernel", [ULA(standard(), 2.5), BAOAB(standard(), 2.5)])
def test_chains_that_run_away_say_so(kernel):
    state = kernel.init(torch.ones(3, 1, dtype=torch.float64))
    with pytest.raises(SamplerStopped, match="3 of 3 chains ran away.*try 0.2"):
        kernel.collect(state, 20, gen(), thin=100)


def test_a_step_that_collapses_says_so():
    # the gradient points uphill of another density: nothing is ever accepted
    class Wrong(Target):
        def value_and_grad(self, position):
            value, slope = super().value_and_grad(position)
            return value, -1e8 * slope

    target = Wrong(lambda x: -0.5 * (x**2).sum(), torch.zeros(2, dtype=torch.float64))
    with pytest.raises(SamplerStopped, match="MALA: the step size collapsed"):
        run(MALA(target), chains=4, draws=10, warmup=200, start=torch.ones(4, 2, dtype=torch.float64), seed=0)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("make", [ULA, MALA, BAOAB])
def test_chains_stay_on_their_device(make):
    target = Target(lambda x: -0.5 * (x**2).sum(), torch.zeros(2, device="cuda"))
    found = run(make(target, 0.1), chains=512, draws=50, warmup=100, seed=0).values["x"]
    assert found.device.type == "cuda" and abs(float(found.var()) - 1) < 0.15
