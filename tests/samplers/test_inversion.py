"""Inverse transform against SciPy's quantiles, on every scale, with jumps, gaps, batches and gradients."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats as st
import torch

from benthic.base.errors import InvalidInput
from benthic.samplers import inverse_transform, invert_cdf

pytestmark = pytest.mark.spec("C-01")
LEVELS = torch.linspace(1e-3, 1 - 1e-3, 301, dtype=torch.float64)


def torch_cdf(law):
    return lambda x: torch.from_numpy(np.asarray(law.cdf(x.numpy())))


@pytest.mark.parametrize(
    "law",
    [
        st.norm(3, 1e-8),
        st.norm(1e6, 1),
        st.norm(0, 1e-200),
        st.norm(0, 1e150),
        st.cauchy(),
        st.gamma(0.05),
        st.beta(0.2, 0.3),
        st.lognorm(5),
        st.t(2),
    ],
)
def test_continuous_quantiles_match_scipy_to_rounding(law):
    x = invert_cdf(torch_cdf(law), LEVELS).numpy()
    truth = law.ppf(LEVELS.numpy())
    # F is known to about 1e-16, which moves x by 1e-16 / f(x): allow that and a few units of the last place
    slack = 8e-16 / law.pdf(truth) + 8 * np.finfo(float).eps * np.abs(truth)
    assert (np.abs(x - truth) <= 4 * slack).all()


@pytest.mark.parametrize("law", [st.poisson(3), st.binom(20, 0.3), st.geom(0.01), st.poisson(1e5), st.skellam(3, 5)])
def test_discrete_quantiles_are_those_of_scipy(law):
    x = invert_cdf(torch_cdf(law), LEVELS, support=law.support(), discrete=True)
    assert (x.numpy() == law.ppf(LEVELS.numpy())).all()


def test_discrete_without_a_support():
    law = st.skellam(30, 500)
    x = invert_cdf(torch_cdf(law), LEVELS, discrete=True)
    assert (x.numpy() == law.ppf(LEVELS.numpy())).all()


def test_every_element_may_have_its_own_parameters():
    shape, rate = torch.rand(2, 7, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 0.5
    level = torch.rand(3, 7, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    x = invert_cdf(lambda x: torch.special.gammainc(shape, rate * x.clamp(min=0)), level, support=(0, math.inf))
    truth = st.gamma(shape.numpy(), scale=1 / rate.numpy()).ppf(level.numpy())
    np.testing.assert_allclose(x.numpy(), truth, rtol=1e-12)


def test_flat_parts_give_their_left_end_and_jumps_their_place():
    def two_pieces(x):
        return 0.5 * x.clamp(0, 1) + 0.5 * (x - 3).clamp(0, 1)

    x = invert_cdf(two_pieces, torch.tensor([0.25, 0.5, 0.75], dtype=torch.float64))
    torch.testing.assert_close(x, torch.tensor([0.5, 1.0, 3.5], dtype=torch.float64))

    def with_atom(x):  # three tenths at zero, the rest exponential
        return torch.where(x < 0, 0.0, 0.3 - 0.7 * torch.expm1(-x.clamp(min=0)))

    level = torch.tensor([0.1, 0.29, 0.65], dtype=torch.float64)
    truth = torch.tensor([0.0, 0.0, math.log(2)], dtype=torch.float64)
    torch.testing.assert_close(invert_cdf(with_atom, level), truth, rtol=1e-12, atol=1e-290)
    torch.testing.assert_close(invert_cdf(with_atom, level, support=(0, math.inf)), truth, rtol=1e-12, atol=0)


def test_the_ends_of_the_support_and_the_median_of_a_symmetric_law():
    x = invert_cdf(torch.special.ndtr, torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64))
    assert x.tolist() == [-math.inf, 0.0, math.inf]


def test_gradients_by_the_implicit_function_theorem():
    mean = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    scale = torch.tensor([1.0, 3.0], dtype=torch.float64, requires_grad=True)
    level = torch.tensor([0.2, 0.9], dtype=torch.float64, requires_grad=True)

    def quantile(m, s, u):
        return invert_cdf(lambda x: torch.special.ndtr((x - m) / s), u)

    assert torch.autograd.gradcheck(quantile, (mean, scale, level))
    z = torch.special.ndtri(level.detach())
    grads = torch.autograd.grad(quantile(mean, scale, level).sum(), (mean, scale))
    torch.testing.assert_close(grads[0], torch.ones(2, dtype=torch.float64))
    torch.testing.assert_close(grads[1], z)

    def density(x):
        return torch.exp(-0.5 * ((x - mean) / scale).square()) / (scale * math.sqrt(2 * math.pi))

    given = invert_cdf(lambda x: torch.special.ndtr((x - mean) / scale), level, pdf=density)
    torch.testing.assert_close(torch.autograd.grad(given.sum(), scale)[0], z)


def test_draws_follow_the_law_and_repeat_with_the_seed():
    law = st.gumbel_r(1, 2)
    x = inverse_transform(lambda x: torch.exp(-torch.exp(-(x - 1) / 2)), (5000, 4), seed=0)
    assert x.shape == (5000, 4)
    assert st.kstest(x.flatten().numpy(), law.cdf).pvalue > 1e-5
    state = torch.random.get_rng_state()
    again = inverse_transform(lambda x: torch.exp(-torch.exp(-(x - 1) / 2)), (5000, 4), seed=0)
    assert torch.equal(x, again) and torch.equal(state, torch.random.get_rng_state())


def test_discrete_draws_have_the_right_shares():
    x = inverse_transform(torch_cdf(st.binom(5, 0.4)), 20_000, support=(0, 5), discrete=True, seed=0)
    counts = np.bincount(x.numpy().astype(int), minlength=6)
    assert st.chisquare(counts, 20_000 * st.binom(5, 0.4).pmf(np.arange(6))).pvalue > 1e-5


def test_a_single_level_and_none():
    assert float(invert_cdf(torch.special.ndtr, 0.975)) == pytest.approx(st.norm.ppf(0.975), rel=1e-14)
    assert invert_cdf(torch.special.ndtr, torch.zeros(0)).shape == (0,)


def test_float32_stays_float32():
    level = torch.tensor([0.1, 0.9])
    x = invert_cdf(torch.special.ndtr, level)
    assert x.dtype == torch.float32
    torch.testing.assert_close(x, torch.special.ndtri(level), rtol=2e-6, atol=0)


@pytest.mark.parametrize(
    ("cdf", "options", "message"),
    [
        (torch.special.ndtr, {"level": [1.2]}, "outside"),
        (torch.special.ndtr, {"level": [float("nan")]}, "outside"),
        (lambda x: x, {}, "not in"),
        (lambda x: torch.full_like(x, math.nan), {}, "not in"),
        (lambda x: 0.9 * torch.special.ndtr(x), {"level": [0.95]}, "reaches only 0.9"),
        (lambda x: torch.special.ndtr(x).sum(), {}, "keep the shape"),
        (torch.special.ndtr, {"support": (1, 0)}, "support"),
        (lambda x: 1 - torch.special.ndtr(x), {"level": [0.3]}, "falls somewhere"),
        (lambda x: 1 - torch.special.ndtr(x), {"level": [0.8], "support": (-2, 2)}, "falls somewhere"),
        (lambda x: 0.5 + 0.5 * torch.special.ndtr(x), {"level": [0.3]}, "does not go to 0"),
    ],
)
def test_bad_input(cdf, options, message):
    options = {"level": [0.5]} | options
    with pytest.raises(InvalidInput, match=message):
        invert_cdf(cdf, torch.tensor(options.pop("level"), dtype=torch.float64), **options)


def test_seed_and_generator_exclude_each_other():
    with pytest.raises(InvalidInput, match="both seed and generator"):
        inverse_transform(torch.special.ndtr, 3, seed=0, generator=torch.Generator())
