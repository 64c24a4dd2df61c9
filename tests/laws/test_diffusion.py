"""The identities of diffusion: posterior means, weights of the bound, energies, Tweedie's formula, both bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from benthic.generative.diffusion import (
    VP,
    AddedNoise,
    Denoiser,
    DiscreteChain,
    bound_weight,
    continuous_bound,
    discrete_bound,
    exact_denoiser,
)
from benthic.generative.diffusion.solvers.base import Point, points
from benthic.generative.diffusion.solvers.onestep import posterior_mean, step_variances
from tests.generative.diffusion.cases import GAUSSIAN, LINE, MIXTURE, NORMAL

CHAIN = DiscreteChain(200)


def chain_points(t):
    return points(CHAIN, [float(t), float(t - 1)])


@pytest.mark.spec("N-05")
@pytest.mark.parametrize("t", [2, 50, 200])
def test_posterior_mean_has_two_forms(t):
    """From x0 and x_t, and from x_t and the noise; x0 from the noise."""
    beta, kept = CHAIN.betas()[t - 1], CHAIN.alpha_bars()
    torch.manual_seed(t)
    x0, noise = torch.randn(2, 4, 3, dtype=torch.float64)
    x = kept[t].sqrt() * x0 + (1 - kept[t]).sqrt() * noise
    torch.testing.assert_close((x - (1 - kept[t]).sqrt() * noise) / kept[t].sqrt(), x0)
    first = (kept[t - 1].sqrt() * beta * x0 + (1 - beta).sqrt() * (1 - kept[t - 1]) * x) / (1 - kept[t])
    second = (x - beta * noise / (1 - kept[t]).sqrt()) / (1 - beta).sqrt()
    here, there = chain_points(t)
    torch.testing.assert_close(first, second)
    torch.testing.assert_close(posterior_mean(x, x0, here, there), first)
    small, large = step_variances(here, there)
    assert large == pytest.approx(float(beta), rel=1e-9)
    assert small == pytest.approx(float(beta * (1 - kept[t - 1]) / (1 - kept[t])), rel=1e-9)


@pytest.mark.spec("N-05")
def test_the_posterior_is_the_law_of_a_step_given_both_its_ends():
    """Against the product of the two normal densities, q(x_t | x_s) q(x_s | x0), for processes of any kind."""
    for process in GAUSSIAN.values():
        times = [float(process.time_of_log_snr(-1.0)), float(process.time_of_log_snr(0.5))]
        here, there = points(process, times)
        ratio, beta = here.alpha / there.alpha, step_variances(here, there)[1]
        precision = ratio**2 / beta + 1 / there.sigma**2
        mean = (ratio * 0.9 / beta + there.alpha * 0.3 / there.sigma**2) / precision
        found = posterior_mean(*torch.tensor([[0.9], [0.3]], dtype=torch.float64), here, there)
        assert float(found) == pytest.approx(mean, rel=1e-9)
        assert step_variances(here, there)[0] == pytest.approx(1 / precision, rel=1e-9)


@pytest.mark.spec("N-05")
@pytest.mark.parametrize("variance", [0.0, 1.0])
def test_weight_of_the_bound(variance):
    """KL of a step is this weight times the squared error of the noise (and a constant for larger variances)."""
    torch.manual_seed(0)
    x0, noise, wrong = torch.randn(3, 1, 5, dtype=torch.float64)
    t = 40
    here, there = chain_points(t)
    x = CHAIN.mix(x0, noise, float(t))
    guess = Denoiser(CHAIN, lambda x, level: wrong, "noise").data(x, float(t))
    away = posterior_mean(x, x0, here, there) - posterior_mean(x, guess, here, there)
    small, large = step_variances(here, there)
    used = small ** (1 - variance) * large**variance
    weight = bound_weight(CHAIN, torch.tensor([t]), variance)
    torch.testing.assert_close(away.square().sum(1) / (2 * used), weight * (noise - wrong).square().sum(1))
    beta, kept = float(CHAIN.betas()[t - 1]), float(CHAIN.alpha_bars()[t])
    assert float(weight) == pytest.approx(beta**2 / (2 * used * (1 - beta) * (1 - kept)), rel=1e-9)


@pytest.mark.spec("N-05")
def test_energy_of_the_chain():
    """E|x_t|² = (1 - β_t) E|x_{t-1}|² + β_t d, which is ᾱ_t E|x_0|² + (1 - ᾱ_t) d; simulated step by step too."""
    torch.manual_seed(0)
    x0 = 2 + torch.randn(1000, 3, dtype=torch.float64)
    energy = float(x0.square().sum(1).mean())
    now, x = energy, x0.repeat(20, 1)
    for t, beta in enumerate(CHAIN.betas().tolist(), 1):
        now = (1 - beta) * now + beta * 3
        kept = float(CHAIN.alpha(t)) ** 2
        assert now == pytest.approx(kept * energy + (1 - kept) * 3, rel=1e-9)
        if t <= 60:
            x = math.sqrt(1 - beta) * x + math.sqrt(beta) * torch.randn_like(x)
            simulated = now
    error = float(x.square().sum(1).std()) / math.sqrt(len(x))
    assert abs(float(x.square().sum(1).mean()) - simulated) < 5 * error


@pytest.mark.spec("N-06")
@pytest.mark.parametrize("on", GAUSSIAN)
def test_tweedie(on):
    """The score of noisy data, by differentiating their log-density, is (α E[x0 | x] − x) / σ² = −E[ε | x] / σ."""
    process = GAUSSIAN[on]
    truth = exact_denoiser(MIXTURE, process)
    t = float(process.time_of_log_snr(0.3))
    x = torch.randn(6, 2, dtype=torch.float64, requires_grad=True)
    (score,) = torch.autograd.grad(truth.log_prob(x, t).sum(), x)
    alpha, sigma = process.alpha(t), process.sigma(t)
    x = x.detach()
    torch.testing.assert_close((alpha * truth.data(x, t) - x) / sigma**2, score)
    torch.testing.assert_close(-truth.noise(x, t) / sigma, score)
    torch.testing.assert_close(truth.score(x, t), score)


@pytest.mark.spec("N-06")
def test_expected_data_by_quadrature():
    """E[x0 | x] and the density of noisy points, by integrals over the data, for added noise (no 1/√(2πσ²))."""
    truth = exact_denoiser(LINE, AddedNoise())
    sigma, x = 0.8, 0.4
    weights, means, variances = LINE

    def density(y):
        return sum(
            w * stats.norm.pdf(y, m[0], math.sqrt(v[0][0])) for w, m, v in zip(weights, means, variances, strict=True)
        )

    mass, _ = integrate.quad(lambda y: density(y) * stats.norm.pdf(x, y, sigma), -10, 10)
    first, _ = integrate.quad(lambda y: y * density(y) * stats.norm.pdf(x, y, sigma), -10, 10)
    point = torch.tensor([[x]], dtype=torch.float64)
    assert float(truth.log_prob(point, sigma)) == pytest.approx(math.log(mass), abs=1e-8)
    assert float(truth.data(point, sigma)) == pytest.approx(first / mass, abs=1e-8)


@pytest.mark.spec("N-05")
def test_both_forms_of_the_bound_agree_and_one_varies_less():
    """The same expectation (within five standard errors of the difference); the denoising form is far steadier."""
    chain = DiscreteChain(20)
    truth = exact_denoiser(MIXTURE, chain)
    x = truth.draw(1, seed=0).repeat(3000, 1)
    steady, loose = (
        discrete_bound(truth, x, form=form, variance=1.0, seed=0).value for form in ("denoising", "consistency")
    )
    error = math.sqrt(float(steady.var() + loose.var()) / len(x))
    assert abs(float(steady.mean() - loose.mean())) < 5 * error
    assert float(loose.std()) > 1.5 * float(steady.std())
    assert float(steady.mean()) < float(truth.log_prob(x[:1])) + 4 * float(steady.std()) / math.sqrt(len(x))


@pytest.mark.spec("N-05")
def test_one_step_is_a_variational_autoencoder():
    """T = 1: fixed encoder N(√ᾱ x, 1 - ᾱ), decoder N(x̂0(z), s²), prior N(0, 1): its ELBO in closed form."""
    chain = DiscreteChain(schedule=(0.4,))
    slope, intercept, scale = 0.8, 0.1, 0.3
    denoiser = Denoiser(chain, lambda z, level: slope * z + intercept, "data")
    x = torch.tensor([[1.3]], dtype=torch.float64)
    alpha, variance = math.sqrt(0.6), 0.4
    kl = 0.5 * ((alpha * 1.3) ** 2 + variance - 1 - math.log(variance))
    away = (1.3 - slope * alpha * 1.3 - intercept) ** 2 + slope**2 * variance
    elbo = -0.5 * away / scale**2 - 0.5 * math.log(2 * math.pi * scale**2) - kl
    for form in ("denoising", "consistency"):
        rows = discrete_bound(denoiser, x.repeat(40_000, 1), form=form, times=[1.0], decoder_scale=scale, seed=0)
        error = float(rows.value.std()) / 200
        assert abs(float(rows.value.mean()) - elbo) < 5 * error
        assert float(rows.steps.abs().max()) == 0
        assert float(rows.prior.mean()) == pytest.approx(kl, abs=0.02)


@pytest.mark.spec("N-05")
@pytest.mark.parametrize("on", ["vp", "subvp", "edm", "straight"])
def test_the_continuous_bound_is_tight_for_the_exact_denoiser(on):
    """Its expectation is the log-density, whatever the process: within four standard errors."""
    truth = exact_denoiser(NORMAL, GAUSSIAN[on])
    x = torch.tensor([[0.2]], dtype=torch.float64)
    found = continuous_bound(truth, x.repeat(4000, 1), samples=16, seed=0)
    values = found.value.numpy()
    assert abs(values.mean() - float(truth.log_prob(x))) < 4 * values.std() / math.sqrt(len(values))
    assert found.likelihood().kind == "elbo" and found.likelihood().bound == "lower"


@pytest.mark.spec("N-05")
def test_more_steps_make_the_bound_tighter():
    """Kingma et al.: the bound of steps rises to that of continuous time; here in closed form for normal data."""
    process = VP()
    truth = exact_denoiser(NORMAL, process)
    x = torch.tensor([[0.2]], dtype=torch.float64).repeat(2000, 1)
    gaps, errors = [], []
    for steps in (10, 40, 160):
        found = discrete_bound(truth, x, steps=steps, seed=0).value
        gaps.append(float(truth.log_prob(x[:1]) - found.mean()))
        errors.append(float(found.std()) / math.sqrt(len(x)))
    assert gaps[0] > gaps[1] + 3 * errors[1] > gaps[2]
    assert gaps[2] > -4 * errors[2]


def test_points_know_their_ratio():
    assert Point(1.0, 0.0, 1.0).half_log_snr == -math.inf
    assert Point(0.0, 1.0, 0.0).half_log_snr == math.inf
    np.testing.assert_allclose(Point(0.5, 0.6, 0.8).half_log_snr, math.log(0.75))
