"""Samplers proved on laws whose score is known in closed form: moments, orders, weak orders, ends of time."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise

import pytest
import torch

from benthic.generative.diffusion import (
    DDIM,
    ODE,
    AdaptiveSDE,
    Ancestral,
    AnnealedLangevin,
    DPMSolver,
    Euler,
    EulerMaruyama,
    Heun,
    PredictorCorrector,
    UniPC,
    exact_denoiser,
    sample,
)
from benthic.generative.diffusion.sampling import grid_for
from benthic.generative.diffusion.solvers.base import points
from benthic.generative.diffusion.solvers.controlled import follow
from tests.generative.diffusion.cases import ALL, GAUSSIAN, LINE, MIXTURE, NORMAL, POISSON, SMOOTH

pytestmark = pytest.mark.spec("N-05", "N-06", "N-07")

# Samplers without noise, the order they declare, and step counts at which the error is in its asymptotic range.
FLOWS = {
    "ddim": (DDIM(), 1, 40),
    "euler": (Euler(), 1, 80),
    "heun": (Heun(), 2, 40),
    "dpm2m": (DPMSolver(2), 2, 40),
    "dpm3m": (DPMSolver(3), 3, 40),
    "unipc1": (UniPC(1), 2, 40),
    "unipc2": (UniPC(2), 3, 40),
    "unipc3": (UniPC(3), 3, 40),
    "ode_midpoint": (ODE("midpoint"), 2, 40),
    "ode_rk4": (ODE("rk4"), 4, 20),
    "ode_log": (ODE("rk4", variable="log_snr"), 4, 20),
}
# Those with noise, and the order of the variance they end with.
NOISY = {
    "ancestral": (Ancestral(), 1, 80),
    "ancestral_half": (Ancestral(0.5), 1, 80),
    "ancestral_large": (Ancestral(1.0), 1, 80),
    "ddim_half": (DDIM(0.5), 1, 80),
    "ddim_one": (DDIM(1.0), 1, 80),
    "euler_maruyama": (EulerMaruyama(), 1, 160),
    "heun_churn": (Heun(churn=20.0), 2, 240),
}


def inner_grid(process, steps):
    """Times equally far apart in the log signal-to-noise ratio, away from the ends."""
    low, high = (max(-7.0, float(process.log_snr(process.t_finite)) + 0.5), 6.0)
    return process.time_of_log_snr(torch.linspace(low, high, steps + 1, dtype=torch.float64))


def slope_of(errors):
    return math.log2(errors[0] / errors[1])


@lru_cache
def exact_flow(on):
    """A denoiser, points, and where the flow takes them: the logarithmic variable is smooth also on a chain."""
    process = ALL[on]
    denoiser = exact_denoiser(LINE, process)
    ends = inner_grid(process, 1).tolist()
    x = torch.linspace(-2, 2, 15, dtype=torch.float64)[:, None] * float(process.sigma(ends[0]))
    return denoiser, x, follow(denoiser, x, ends, ODE("dormand_prince", 1e-10, 1e-10, "log_snr"))[-1]


def flow_errors(sampler, on, steps):
    """How far points end from the exact flow of a mixture, for two numbers of steps."""
    denoiser, x, exact = exact_flow(on)
    grids = [inner_grid(ALL[on], n) for n in steps]
    ends = [sample(denoiser, start=x, sampler=sampler, times=times, denoise=False) for times in grids]
    return [float((end - exact).abs().mean()) for end in ends]


BY_RATIO = ("ddim", "dpm2m", "dpm3m", "unipc1", "unipc2", "unipc3", "ode_log")  # see only alpha and sigma
PAIRS = [(on, name) for on in [*SMOOTH, *POISSON] for name in FLOWS]
PAIRS += [("chain", name) for name in BY_RATIO]  # whose rate of noise jumps at whole times


@pytest.mark.parametrize(("on", "name"), PAIRS)
def test_order_of_samplers_without_noise(on, name):
    """Error against step, fitted over a halving; 0.2 is what terms of the next order leave at these steps."""
    sampler, order, steps = FLOWS[name]
    errors = flow_errors(sampler, on, (steps, 2 * steps))
    assert sampler.order == order
    most = 4.2 if name == "unipc3" else order + 0.2  # with three answers all steps but the first are of order 4
    assert order - 0.2 < slope_of(errors) < most


def moments_after(sampler, denoiser, grid, mean, variance):
    """Mean and variance after all steps, exactly: for normal data a step is affine in the point and in its noise.

    Rows of one step: from 0, from 1, and from 0 with the i-th draw of noise one instead of zero.
    """
    draws = getattr(sampler, "corrections", 0) + 1
    x = torch.zeros(2 + draws, 1, dtype=torch.float64)
    x[1] = 1
    for here, there in pairwise(grid):
        rows = iter(torch.eye(2 + draws, dtype=torch.float64)[2:, :, None])
        end = sampler.step(denoiser, here, there, x, None, lambda like, rows=rows: next(rows))[0][:, 0]
        factor, noise = float(end[1] - end[0]), float((end[2:] - end[0]).square().sum())
        mean, variance = factor * mean + float(end[0]), factor**2 * variance + noise
    return mean, variance


def marginal(process, t):
    """Mean and variance of NORMAL at a time."""
    alpha, sigma = float(process.alpha(t)), float(process.sigma(t))
    return alpha * 0.7, alpha**2 * 0.5 + sigma**2


def moment_errors(sampler, process, steps):
    denoiser = exact_denoiser(NORMAL, process)
    errors = []
    for n in steps:
        times = inner_grid(process, n)
        found = moments_after(sampler, denoiser, points(process, times), *marginal(process, times[0]))
        errors.append([abs(a - b) for a, b in zip(found, marginal(process, times[-1]), strict=True)])
    return errors


@pytest.mark.parametrize("name", NOISY)
@pytest.mark.parametrize("on", [*SMOOTH, "chain"])
def test_weak_order_of_samplers_with_noise(on, name):
    """Mean and variance of normal data, propagated exactly, approach the truth at the declared order."""
    sampler, order, steps = NOISY[name]
    coarse, fine = moment_errors(sampler, GAUSSIAN[on], (steps // 2, steps))
    assert sampler.order == order and sampler.stochastic
    order = 1 if on == "chain" and name == "heun_churn" else order  # its rate jumps
    assert slope_of((coarse[1], fine[1])) > order - 0.25
    assert fine[0] < 1e-4 or slope_of((coarse[0], fine[0])) > order - 0.25


@pytest.mark.parametrize("on", GAUSSIAN)
def test_langevin_steps_have_the_bias_that_is_known(on):
    """A Langevin step of size h on a normal law of variance v ends with v / (1 - h / 2v): predicted, then met."""
    process = GAUSSIAN[on]
    denoiser = exact_denoiser(NORMAL, process)
    t = float(process.time_of_log_snr(0.0))
    grid = points(process, [float(process.time_of_log_snr(-1e-9)), t])
    mean, variance = marginal(process, t)
    for sampler, size in (
        (AnnealedLangevin(300, 0.3), 0.3 * grid[1].sigma ** 2),
        (PredictorCorrector(300, 0.4), 2 * (0.4 * grid[1].sigma) ** 2),
    ):
        found = moments_after(sampler, denoiser, grid, mean, 0.5)
        assert found[0] == pytest.approx(mean, rel=1e-6)
        assert found[1] == pytest.approx(variance / (1 - size / (2 * variance)), rel=1e-6)


MANY = {  # samplers, and steps at which their bias is below the Monte-Carlo error of 1500 samples
    "ancestral": (Ancestral(), 200),
    "ancestral_large": (Ancestral(1.0), 250),
    "ddim": (DDIM(), 200),
    "ddim_half": (DDIM(0.5), 250),
    "euler": (Euler(), 400),
    "heun": (Heun(), 60),
    "heun_churn": (Heun(churn=15.0), 60),
    "dpm2m": (DPMSolver(2), 50),
    "dpm3m": (DPMSolver(3), 50),
    "unipc": (UniPC(), 50),
    "euler_maruyama": (EulerMaruyama(), 300),
    "predictor_corrector": (PredictorCorrector(ratio=0.1), 300),
    "annealed_langevin": (AnnealedLangevin(20, 0.08), 100),  # it lags behind the levels
    "adaptive_sde": (AdaptiveSDE(), 50),
    "ode": (ODE(), 50),
    "poisson_ode": (ODE(variable="log_snr"), 50),
}
ALL_PAIRS = [
    (on, name) for on in ALL for name, (sampler, _) in MANY.items() if not (on in POISSON and sampler.stochastic)
]
FAST = ("ancestral", "heun_churn", "dpm2m")


@lru_cache
def spread_of_products():
    """Standard deviations of the products of centered columns of MIXTURE, (2, 2), from many exact draws."""
    denoiser = exact_denoiser(MIXTURE, "vp")
    away = denoiser.draw(200_000, seed=0) - denoiser.mean
    return (away[:, :, None] * away[:, None]).std(0)


def check_moments(on, name, count, steps_factor=1.0):
    """Mean, covariance and weights of samples against the truth, in standard errors of the truth."""
    sampler, steps = MANY[name]
    denoiser = exact_denoiser(MIXTURE, ALL[on])
    x = sample(denoiser, (count, 2), sampler=sampler, steps=int(steps * steps_factor), seed=3, dtype=torch.float64)
    clean = denoiser.covariance
    assert bool(((x.mean(0) - denoiser.mean).abs() < 4.5 * (clean.diagonal() / count).sqrt()).all())
    error = spread_of_products() / math.sqrt(count)
    assert bool(((torch.cov(x.T) - clean).abs() < 4.5 * error + 0.02 * clean.abs()).all())
    share = float(denoiser.responsibilities(x)[:, 0].mean())
    assert abs(share - 0.3) < 4.5 * math.sqrt(0.3 * 0.7 / count)


@pytest.mark.parametrize(("on", "name"), [pair for pair in ALL_PAIRS if pair[1] in FAST])
def test_samples_have_the_moments_of_the_data(on, name):
    check_moments(on, name, 400 if on in POISSON else 1500, 0.7)


@pytest.mark.slow
@pytest.mark.parametrize(("on", "name"), ALL_PAIRS)
def test_many_samples_have_the_moments_of_the_data(on, name):
    check_moments(on, name, 1000 if on in POISSON else 2500 if name == "annealed_langevin" else 6000, 1.5)


@pytest.mark.parametrize("on", [*SMOOTH, "chain"])
def test_neither_end_of_time_is_missed(on):
    """The times asked of the denoiser: from t_max (or the last finite time) to t_min, each once; the end has no noise.

    The exact moments over the whole grid, from the prior to clean data, come within what is lost at the ends.
    """
    process = GAUSSIAN[on]
    denoiser = exact_denoiser(NORMAL, process)
    asked, inner = [], denoiser.data
    denoiser.data = lambda x, t: asked.append(float(t)) or inner(x, t)
    sample(denoiser, (1, 1), sampler="dpm2m", steps=12, seed=0)
    assert len(asked) == 12 and asked[0] == process.t_max and asked[-1] == process.t_min
    assert asked == sorted(asked, reverse=True)
    grid = grid_for(process, EulerMaruyama(), 400, "log_snr", None, True)
    assert grid[0].t == process.t_finite and grid[-1].t == process.t_min
    mean, variance = moments_after(Ancestral(), denoiser, grid, 0.0, process.prior_scale() ** 2)
    last = moved_to_data(denoiser, grid[-1])
    assert last[0] * mean + last[1] == pytest.approx(0.7, abs=0.01)
    assert last[0] ** 2 * variance == pytest.approx(0.5, rel=0.05)  # a first-order bias of 4 % for sub-VP


def moved_to_data(denoiser, point):
    """The last move as slope and intercept."""
    zero, one = (float(denoiser.data(torch.full((1, 1), x, dtype=torch.float64), point.t)) for x in (0.0, 1.0))
    return one - zero, zero


def test_published_samplers_are_each_others_special_cases():
    """DDIM with eta = 1 is ancestral, Euler in σ is DDIM, and the multistep methods begin with it."""
    normal = torch.Generator().manual_seed(0)
    x = torch.randn(20, 2, generator=normal, dtype=torch.float64)
    for on, process in GAUSSIAN.items():
        denoiser = exact_denoiser(MIXTURE, process)
        one = sample(denoiser, start=x, sampler=DDIM(1.0), steps=10, seed=1)
        torch.testing.assert_close(one, sample(denoiser, start=x, sampler=Ancestral(), steps=10, seed=1), msg=on)
        first, second = (sample(denoiser, start=x, sampler=s, steps=2) for s in (DDIM(), DPMSolver(2)))
        torch.testing.assert_close(first, second)
        torch.testing.assert_close(first, sample(denoiser, start=x, sampler=UniPC(), steps=2))
    for process in (GAUSSIAN["edm"], GAUSSIAN["straight"]):  # alpha and sigma are linear in time
        denoiser = exact_denoiser(MIXTURE, process)
        first, second = (sample(denoiser, start=x, sampler=s, steps=9) for s in (DDIM(), Euler()))
        torch.testing.assert_close(first, second)
