"""Processes: rates against differences, inverses, equations of their moments, priors, model files."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

import benthic
from benthic.base.errors import InvalidInput
from benthic.base.modelfile import load_tree, save_tree
from benthic.generative.diffusion import (
    VE,
    VP,
    CosineVP,
    DiscreteChain,
    StraightPath,
    expand_like,
    process_of,
    sampler_of,
)
from benthic.generative.diffusion.process import PROCESSES
from benthic.generative.diffusion.solvers import SAMPLERS
from benthic.generative.diffusion.variational import ScheduledVP
from benthic.generative.poisson import PoissonPath
from tests.generative.diffusion.cases import ALL, GAUSSIAN, SMOOTH, inner_times

pytestmark = pytest.mark.spec("N-06")


@pytest.mark.parametrize("name", ALL)
def test_time_of_log_snr_is_its_inverse(name):
    process = ALL[name]
    t = inner_times(process, 50, 0.0, 1.0)
    t = t[(t >= process.t_min) & (t <= process.t_finite)]
    torch.testing.assert_close(process.time_of_log_snr(process.log_snr(t)), t, rtol=1e-9, atol=1e-12 * process.t_max)
    torch.testing.assert_close(process.time_of_noise(process.noise_level(t).exp()), t, rtol=1e-9, atol=1e-12)
    assert bool((process.log_snr(t).diff() < 0).all())


@pytest.mark.parametrize("name", ALL)
def test_rates_are_derivatives(name):
    process = ALL[name]
    t = inner_times(process, 17) + 1e-4 * process.t_max * math.pi / 10  # between whole times of a chain
    h = 1e-6 * process.t_max
    for value, rate in (
        (process.alpha, process.alpha_rate),
        (process.sigma, process.sigma_rate),
        (process.log_snr, process.log_snr_rate),
    ):
        difference = (value(t + h) - value(t - h)) / (2 * h)
        torch.testing.assert_close(rate(t), difference, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", GAUSSIAN)
def test_the_stochastic_equation_has_the_marginals(name):
    """dm/dt = f m and dv/dt = 2 f v + g², the equations of mean and variance of a linear equation."""
    process = GAUSSIAN[name]
    t = inner_times(process, 9) + 1e-4 * process.t_max * math.pi / 10
    h = 1e-6 * process.t_max
    one = torch.ones(len(t), 1, dtype=torch.float64)
    f = process.drift(one, t)[:, 0]
    slope = (process.sigma(t + h) ** 2 - process.sigma(t - h) ** 2) / (2 * h)
    variance = process.sigma(t) ** 2
    torch.testing.assert_close(2 * f * variance + process.diffusion(t) ** 2, slope, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(f * process.alpha(t), process.alpha_rate(t))


ONE_OR_MANY = {**ALL, "scheduled": ScheduledVP(log_snrs=(9.0, 2.0, -1.0, -8.0))}


@pytest.mark.parametrize("name", ONE_OR_MANY)
def test_one_time_or_one_for_each_row(name):
    process = ONE_OR_MANY[name]
    t = inner_times(process, 4)
    x0, noise = torch.randn(2, 4, 3, 2, dtype=torch.float64)
    together = process.mix(x0, noise, t)
    for i, one in enumerate(t.tolist()):
        torch.testing.assert_close(process.mix(x0, noise, one)[i], together[i])
        torch.testing.assert_close(process.velocity(x0, noise, one)[i], process.velocity(x0, noise, t)[i])
    single = process.mix(x0.float(), noise.float(), t.float())
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), together, rtol=1e-3, atol=1e-3)
    assert process.mix(x0.float(), noise.float(), float(t[0])).dtype == torch.float32


@pytest.mark.parametrize("name", ALL)
def test_the_ends_of_time(name):
    """Data are nearly clean at t_min and nearly gone, beside the noise, at t_max."""
    process = ALL[name]
    assert float(process.sigma(process.t_min) / process.alpha(process.t_min)) <= 0.011
    assert float(process.alpha(process.t_max) / process.sigma(process.t_max)) <= 0.021
    assert math.isfinite(float(process.log_snr(process.t_finite)))
    assert process.prior_scale() == pytest.approx(float(process.sigma(process.t_max)), rel=1e-4)


def test_priors_have_their_densities():
    x = torch.randn(5, 3, 2, dtype=torch.float64)
    rows = x.flatten(1).numpy()
    np.testing.assert_allclose(VE().prior_log_prob(x), stats.norm(scale=50).logpdf(rows).sum(1), rtol=1e-12)
    path = PoissonPath(dimensions=3.0, t_max=2.0)
    law = stats.multivariate_t(np.zeros(6), 4 * np.eye(6), df=3)
    np.testing.assert_allclose(path.prior_log_prob(x), law.logpdf(rows), rtol=1e-12)


def test_draws_of_priors():
    like = torch.empty(0, dtype=torch.float64)
    stream = torch.Generator().manual_seed(0)
    x = VE().draw_prior((4000, 1), like, stream)
    assert stats.kstest(x[:, 0].numpy(), stats.norm(scale=50).cdf).pvalue > 1e-3
    x = PoissonPath(dimensions=3.0).draw_prior((4000, 2), like, stream)
    assert stats.kstest(x[:, 0].numpy(), stats.t(3, scale=80).cdf).pvalue > 1e-3
    assert abs(np.corrcoef(np.log(np.abs(x.numpy())).T)[0, 1]) > 0.05  # one scale for both columns
    again = torch.Generator().manual_seed(5), torch.Generator().manual_seed(5)
    first, second = (PoissonPath().draw_noise((3, 2), like, g) for g in again)
    assert torch.equal(first, second)


@pytest.mark.spec("N-05")
def test_a_chain_is_a_product_of_its_steps():
    chain = DiscreteChain(1000)
    betas = np.linspace(1e-4, 0.02, 1000)
    np.testing.assert_allclose(chain.betas(), betas, rtol=1e-12)
    kept = np.concatenate([[1.0], np.cumprod(1 - betas)])
    np.testing.assert_allclose(chain.alpha_bars(), kept, rtol=1e-10)
    t = torch.arange(0, 1001, dtype=torch.float64)
    np.testing.assert_allclose(chain.alpha(t) ** 2, kept, rtol=1e-10)
    np.testing.assert_allclose(chain.sigma(t) ** 2, 1 - kept, rtol=1e-9, atol=1e-15)
    assert float(chain.sigma(0)) == 0 and float(chain.alpha(0)) == 1
    assert (chain.t_min, chain.t_max) == (1.0, 1000.0)
    cosine = DiscreteChain(50, "cosine").betas()
    left = np.cos((np.arange(50) / 50 + 0.008) / 1.008 * np.pi / 2) ** 2
    np.testing.assert_allclose(cosine[:-1], 1 - left[1:] / left[:-1], rtol=1e-10)
    assert float(cosine[-1]) == 0.999
    own = DiscreteChain(schedule=(0.1, 0.2))
    assert own.length == 2 and float(own.alpha(2)) == pytest.approx(math.sqrt(0.9 * 0.8))


def test_continuous_vp_is_the_limit_of_chains():
    """beta(t) = T beta_t: the chain of Ho et al. has beta from 0.1 to 20 a unit of time."""
    t = torch.linspace(0.05, 1, 20, dtype=torch.float64)
    torch.testing.assert_close(DiscreteChain(1000).alpha(1000 * t), VP().alpha(t), rtol=0.06, atol=2e-4)


def test_values_are_equal_printed_and_stored(tmp_path):
    for name in PROCESSES:
        process = process_of(name)
        assert process == process_of(name) and hash(process) == hash(process_of(name))
        assert type(process).__name__ in repr(process)
    settings = {"process": [process_of(n) for n in PROCESSES], "sampler": [sampler_of(n) for n in SAMPLERS]}
    settings["own"] = DiscreteChain(schedule=(0.1, 0.2))
    save_tree(tmp_path / "m.safetensors", settings)
    assert load_tree(tmp_path / "m.safetensors") == settings
    assert VP() != VP(beta_max=10.0)
    assert set(SMOOTH) < set(ALL)
    assert benthic.generative is not None


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: VP(t_min=1.0, t_max=0.5), "t_min=1.0"),
        (lambda: VP(beta_min=5.0, beta_max=1.0), "beta_min=5.0"),
        (lambda: VE(sigma_min=0.0), "sigma_min=0.0"),
        (lambda: CosineVP(t_max=1.2), "time ends at 1"),
        (lambda: StraightPath(t_max=2.0), "time ends at 1"),
        (lambda: PoissonPath(dimensions=0.0), "dimensions=0.0"),
        (lambda: DiscreteChain(0), "at least one step"),
        (lambda: DiscreteChain(10, "cosin"), "did you mean 'cosine'"),
        (lambda: DiscreteChain(3, (0.1, 0.2)), "2 betas for a chain of 3"),
        (lambda: DiscreteChain(schedule=(0.1, 1.2)), "between 0 and 1"),
        (lambda: process_of("vpp"), "did you mean 'vp'"),
        (lambda: sampler_of("huen"), "did you mean 'heun'"),
    ],
)
def test_bad_settings(make, words):
    with pytest.raises(InvalidInput, match=words):
        make()


def test_expand_like_serves_tables_and_pictures():
    assert expand_like(torch.ones(2), torch.zeros(2, 5)).shape == (2, 1)
    assert expand_like(torch.ones(()), torch.zeros(2, 5)).shape == ()
