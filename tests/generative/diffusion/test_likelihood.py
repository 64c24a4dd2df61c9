"""Densities and codes by the probability flow, against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from benthic.base.errors import InvalidInput
from benthic.generative.diffusion import (
    ODE,
    VE,
    VP,
    AddedNoise,
    CosineVP,
    Denoiser,
    DiscreteChain,
    StraightPath,
    SubVP,
    bits_per_dim,
    continuous_bound,
    decode,
    discrete_bound,
    encode,
    exact_denoiser,
    flow_density,
    grad_log_prob,
    log_likelihood,
)
from benthic.generative.poisson import PoissonPath
from tests.generative.diffusion.cases import MIXTURE, NORMAL

pytestmark = pytest.mark.spec("N-06")

# Processes that leave so little of the data that the prior is theirs to 1e-3.
FAR = {
    "vp": VP(beta_max=36.0),
    "cosine": CosineVP(t_max=0.9999),
    "subvp": SubVP(beta_max=36.0),
    "ve": VE(sigma_min=0.003, sigma_max=2e4),
    "edm": AddedNoise(t_max=2e4),
    "straight": StraightPath(),
    "chain": DiscreteChain(100, schedule=tuple(np.linspace(1e-4, 0.35, 100))),
    "pfgm++": PoissonPath(dimensions=16.0, t_max=2e4),
    "pfgm": PoissonPath(dimensions=1.0, t_max=2e4),
}


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("cosine", "subvp", "ve", "edm", "pfgm")]


@pytest.mark.parametrize("condition", [None, torch.linspace(-1, 1, 5, dtype=torch.float64)])
def test_divergences_of_all_coordinates_at_once_are_those_of_one_after_another(condition, monkeypatch):
    def answer(x, level, given=0.0):
        turned = torch.sin(x.flip(1) + torch.as_tensor(given).reshape(-1, 1)) * x
        return turned / (1 + level.exp())[:, None]

    denoiser = Denoiser("vp", answer, "noise", condition=condition)
    x = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    times = [1e-3, 0.1, 0.4, 0.7, 1.0]
    together = flow_density.flow_likelihood(denoiser, x, times).value
    monkeypatch.setattr(flow_density, "_FEW", 0)
    torch.testing.assert_close(together, flow_density.flow_likelihood(denoiser, x, times).value)


@pytest.mark.parametrize("name", ["vp", "straight", "chain", "pfgm++", *SLOW])
def test_log_likelihoods_are_those_of_the_mixture(name):
    """Within 1e-3 nats, of noisy data at t_min; and of the data themselves up to what that noise changes."""
    truth = exact_denoiser(MIXTURE, FAR[name])
    x = truth.draw(3, seed=0)
    found = log_likelihood(truth, x)
    torch.testing.assert_close(found.value, truth.log_prob(x, truth.process.t_min), rtol=0, atol=1e-3)
    torch.testing.assert_close(found.value, truth.log_prob(x), rtol=0, atol=0.03)
    assert (found.kind, found.bound, found.measure) == ("ode", "exact", "density")
    assert not bool(found.stderr.any())


def test_estimated_traces_agree_within_their_error():
    truth = exact_denoiser(MIXTURE, VP(beta_max=36.0))
    x = truth.draw(6, seed=1)
    exact = truth.log_prob(x)
    for trace in ("rademacher", "gaussian"):
        found = log_likelihood(truth, x, trace=trace, probes=16, seed=0, rtol=1e-3, atol=1e-3)
        assert found.bound == "estimate" and bool((found.stderr > 0).all())
        assert float(((found.value - exact) / found.stderr).abs().max()) < 4.5
    one = log_likelihood(truth, x[:1], trace="rademacher", probes=1, seed=0, rtol=1e-3, atol=1e-3)
    assert bool(one.stderr.isnan().all())


def test_reverse_mode_gives_the_same():
    truth = exact_denoiser(NORMAL, "vp")
    x = truth.draw(3, seed=0)
    first, second = (log_likelihood(truth, x, mode=mode).value for mode in ("forward", "reverse"))
    torch.testing.assert_close(first, second)


@pytest.mark.parametrize("name", ["vp", "edm", "straight"])
def test_codes_come_back(name):
    truth = exact_denoiser(MIXTURE, FAR[name])
    x = truth.draw(5, seed=0)
    z = encode(truth, x)
    torch.testing.assert_close(decode(truth, z), x, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("name", ["vp", "cosine", "subvp", "straight"])
def test_codes_of_normal_data_are_known(name):
    """For one Gaussian the flow is affine: z = α m + √(α² c + σ²) (x − α₀ m) / √(α₀² c + σ₀²)."""
    process = FAR[name]
    truth = exact_denoiser(NORMAL, process)
    x = torch.linspace(-1, 2, 5, dtype=torch.float64)[:, None]
    t = float(process.time_of_log_snr(-1.0))
    for how in (ODE(rtol=1e-8, atol=1e-8), ODE(rtol=1e-8, atol=1e-8, variable="log_snr")):
        z = encode(truth, x, how=how, t=t)
        a0, s0, a, s = (float(f(u)) for u in (process.t_min, t) for f in (process.alpha, process.sigma))
        exact = a * 0.7 + math.sqrt((a * a * 0.5 + s * s) / (a0 * a0 * 0.5 + s0 * s0)) * (x - a0 * 0.7)
        torch.testing.assert_close(z, exact, rtol=1e-5, atol=1e-5)


def test_scores_and_bits():
    truth = exact_denoiser(NORMAL, VP())
    x = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    torch.testing.assert_close(grad_log_prob(truth, x), (0.7 - x) / 0.5, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(grad_log_prob(truth, x, 0.4), truth.score(x, 0.4))
    found = log_likelihood(truth, x)
    bits = bits_per_dim(found, 1, level=1 / 256)
    assert bits.value == pytest.approx(8 - found.mean() / math.log(2))


def test_pictures_have_densities():
    """A standard normal over (2, 4, 4): the flow of VP stands still, so the density is that of the prior."""
    still = Denoiser("vp", lambda x, t: VP().alpha(t)[:, None, None, None] * x, "data", sees="time")
    x = torch.randn(3, 2, 4, 4, dtype=torch.float64)
    exact = -0.5 * x.flatten(1).square().sum(1) - 16 * math.log(2 * math.pi)
    torch.testing.assert_close(log_likelihood(still, x).value, exact, rtol=1e-6, atol=1e-6)


TRUTH = exact_denoiser(NORMAL, "vp")
ROW = torch.zeros(1, 1, dtype=torch.float64)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: log_likelihood(TRUTH, ROW, trace="exat"), "did you mean 'exact'"),
        (lambda: log_likelihood(TRUTH, torch.zeros(3)), "floating points"),
        (lambda: log_likelihood(TRUTH, torch.zeros(3, 1).long()), "floating points"),
        (lambda: encode(TRUTH, ROW, t=2.0), "t=2.0"),
        (lambda: grad_log_prob(TRUTH, ROW, -1.0), "t=-1.0; give one time"),
        (lambda: grad_log_prob(TRUTH, ROW, 2.0), "between 0.0001 and 1"),
        (lambda: grad_log_prob(TRUTH, ROW, torch.ones(3)), "one for each row"),
        (lambda: discrete_bound(TRUTH, ROW, form="denoise"), "did you mean 'denoising'"),
        (lambda: discrete_bound(TRUTH, ROW, variance=2.0), "variance=2.0"),
        (lambda: discrete_bound(TRUTH, ROW, samples=0), "samples=0"),
        (lambda: continuous_bound(exact_denoiser(NORMAL, "poisson"), ROW), "use log_likelihood"),
    ],
)
def test_wrong_input(call, words):
    with pytest.raises(InvalidInput, match=words):
        call()


def test_bounds_refuse_a_single_time_and_a_scale_that_cannot_be():
    truth, x = exact_denoiser(([1.0], [[0.0]], [[[1.0]]]), "ddpm"), torch.zeros(2, 1, dtype=torch.float64)
    for t in (0.0, 5000.0, float("nan")):
        with pytest.raises(InvalidInput, match="only time; it lies between 1 and 1000"):
            discrete_bound(truth, x, times=[t])
    for scale in (0.0, -1.0):
        with pytest.raises(InvalidInput, match="a standard deviation is positive"):
            discrete_bound(truth, x, times=[500.0], decoder_scale=scale)
        with pytest.raises(InvalidInput, match="a standard deviation is positive"):
            continuous_bound(truth, x, decoder_scale=scale)
