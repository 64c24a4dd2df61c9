"""Rejection, with a given, an estimated and a learned envelope: laws, acceptance and normalizers in closed form."""

from __future__ import annotations

import math

import pytest
import scipy.stats as st
import torch
from torch.distributions import Independent, MultivariateNormal, Normal, StudentT, Uniform

from benthic.base.errors import InvalidInput
from benthic.samplers import adaptive_rejection, rejection_sampling

pytestmark = pytest.mark.spec("C-01")


def half_square(x):
    return -0.5 * x.square()


def test_acceptance_is_the_integral_over_k():
    # p' = exp(-x^2/2) has integral sqrt(2 pi); under N(0, 2^2) the ratio is highest at 0, where it is 2 sqrt(2 pi)
    log_k = math.log(2 * math.sqrt(2 * math.pi))
    got = rejection_sampling(half_square, Normal(0.0, 2.0), 20_000, log_k=log_k + 1e-6, seed=0)
    assert abs(got.acceptance.value - 0.5) < 4 * got.acceptance.stderr
    assert abs(got.normalizer.value - math.sqrt(2 * math.pi)) < 4 * got.normalizer.stderr
    assert got.exact and got.raised == 0 and st.kstest(got.draws.numpy(), "norm").pvalue > 1e-5
    # the error bar of a share p of N trials is sqrt(p (1 - p) / N)
    assert got.acceptance.stderr == pytest.approx(math.sqrt(0.25 / got.n_proposed), rel=0.02)
    assert "given" in str(got)


def test_acceptance_has_no_bias_though_the_number_of_draws_is_fixed():
    rates = [
        rejection_sampling(half_square, Uniform(-4.0, 4.0), 3, log_k=math.log(8) + 1e-6, seed=s).acceptance.value
        for s in range(600)
    ]
    truth = math.sqrt(2 * math.pi) * (st.norm.cdf(4) - st.norm.cdf(-4)) / 8
    rates = torch.tensor(rates, dtype=torch.float64)
    assert abs(float(rates.mean()) - truth) < 4 * float(rates.std()) / math.sqrt(len(rates))


def test_many_dimensions():
    cov = torch.tensor([[1.0, 0.7], [0.7, 1.0]], dtype=torch.float64)
    target = MultivariateNormal(torch.zeros(2, dtype=torch.float64), cov)
    proposal = Independent(Normal(torch.zeros(2, dtype=torch.float64), 1.4), 1)
    got = rejection_sampling(target.log_prob, proposal, 20_000, seed=1)
    # with safety 1.2 the estimated k is close to the largest ratio, which lies at the origin
    top = float(target.log_prob(torch.zeros(2)) - proposal.log_prob(torch.zeros(2)))
    assert got.log_k <= top + math.log(1.2) + 1e-9 and not got.exact
    error = torch.cov(got.draws.T) - cov
    # var of a sample covariance entry of a normal law is (s_ii s_jj + s_ij^2) / n <= 2 / n
    assert float(error.abs().max()) < 4 * math.sqrt(2 / 20_000)
    assert abs(got.normalizer.value - 1) < 4 * got.normalizer.stderr


def test_a_raised_constant_is_said_and_all_draws_belong_to_the_last_one():
    # a bump far out, which the first round of proposals does not meet: it is there from the second round on
    rounds = []

    def with_bump(x):
        rounds.append(len(x))
        bump = 2 - 0.5 * ((x - 5) / 0.1).square()
        return torch.logaddexp(half_square(x), bump) if len(rounds) > 1 else half_square(x)

    proposal = Normal(torch.tensor(0.0, dtype=torch.float64), 2.0)
    with pytest.warns(UserWarning, match="raised"):
        got = rejection_sampling(with_bump, proposal, 2000, seed=0)
    assert got.raised > 0 and not got.exact and "raised" in str(got)
    assert float((with_bump(got.draws) - proposal.log_prob(got.draws)).max()) <= got.log_k
    bump = 0.1 * math.exp(2)
    share = bump / (1 + bump)
    found = float((got.draws > 4).double().mean())
    assert abs(found - share) < 4 * math.sqrt(share * (1 - share) / 2000)
    assert abs(got.normalizer.value - (1 + bump) * math.sqrt(2 * math.pi)) < 4 * got.normalizer.stderr


def test_an_envelope_that_is_too_low_is_an_error_that_names_the_place():
    with pytest.raises(InvalidInput, match=r"log_k must be at least 1\.6"):
        rejection_sampling(half_square, Normal(0.0, 2.0), 1000, log_k=0.0, seed=0)


@pytest.mark.parametrize(
    ("density", "proposal", "options", "message"),
    [
        (half_square, Normal(torch.zeros(2), 1.0), {}, "Independent"),
        (half_square, "normal", {}, "torch distribution"),
        (lambda x: x[:, None], Normal(0.0, 1.0), {}, "one number a draw"),
        (lambda x: x * math.nan, Normal(0.0, 1.0), {}, "log_density is nan"),
        (lambda x: torch.full_like(x, -math.inf), Normal(0.0, 1.0), {}, "zero at all"),
        (half_square, Normal(0.0, 1.0), {"n": 1}, "at least 2"),
        (half_square, Normal(0.0, 1.0), {"log_k": 25.0, "max_proposals": 1000}, "proposals were accepted"),
    ],
)
def test_bad_input(density, proposal, options, message):
    with pytest.raises(InvalidInput, match=message):
        rejection_sampling(density, proposal, options.pop("n", 100), seed=0, **options)


# -- adaptive rejection ------------------------------------------------------------------------------


def test_adaptive_draws_many_laws_at_once():
    a = torch.tensor([1.0, 2.0, 5.0, 100.0], dtype=torch.float64)
    got = adaptive_rejection(lambda x: (a - 1) * x.log() - x, 5000, batch_shape=(4,), support=(0, math.inf), seed=0)
    for i, shape in enumerate(a.tolist()):
        assert st.kstest(got.draws[:, i].numpy(), st.gamma(shape).cdf).pvalue > 1e-5
    assert float(got.acceptance.min()) > 0.95
    assert bool(((got.log_normalizer - torch.lgamma(a)).abs() < 4 * got.stderr + 1e-9).all())


@pytest.mark.parametrize(
    ("density", "support", "law"),
    [
        (half_square, (-math.inf, math.inf), st.norm()),
        (lambda x: -x.abs(), (-math.inf, math.inf), st.laplace()),
        (lambda x: 0 * x, (0, 1), st.uniform()),
        (lambda x: x - x.exp(), (-math.inf, math.inf), st.gumbel_l()),
        (lambda x: 1.5 * x.log() + 3 * torch.log1p(-x), (0, 1), st.beta(2.5, 4)),
        (half_square, (2, math.inf), st.truncnorm(2, math.inf)),
        (half_square, (-math.inf, -3), st.truncnorm(-math.inf, -3)),
        (lambda x: -0.5 * ((x - 1e4) / 1e-2).square(), (-math.inf, math.inf), st.norm(1e4, 1e-2)),
    ],
)
def test_adaptive_draws_follow_the_law(density, support, law):
    got = adaptive_rejection(density, 20_000, support=support, seed=3)
    assert st.kstest(got.draws.numpy(), law.cdf).pvalue > 1e-5
    assert abs(float(got.draws.mean()) - law.mean()) < 4 * law.std() / math.sqrt(20_000)


def test_the_envelope_lies_above_and_its_mass_is_its_integral():
    got = adaptive_rejection(half_square, 100, max_tangents=6, seed=0)
    x = torch.linspace(-30, 30, 200_001, dtype=torch.float64)
    above = got.envelope(x[None])[0]
    assert bool((above >= half_square(x) - 1e-12).all())
    assert float(torch.trapezoid(above.exp(), x)) == pytest.approx(float(got.envelope.log_mass().exp()), rel=1e-5)


def test_a_given_start_and_repeated_seeds():
    options = {"n": 50, "batch_shape": (3, 2), "start": [-1.0, 2.0], "seed": 5, "dtype": torch.float32}
    first, second = (adaptive_rejection(half_square, **options) for _ in range(2))
    assert first.draws.shape == (50, 3, 2) and first.draws.dtype == torch.float32
    assert torch.equal(first.draws, second.draws) and "6 densities" in str(first)


def test_float32_densities_are_not_mistaken_for_others():
    a = torch.tensor([2.0, 100.0])
    got = adaptive_rejection(
        lambda x: (a - 1) * x.log() - x, 5000, batch_shape=(2,), support=(0, math.inf), seed=0, dtype=torch.float32
    )
    for i, shape in enumerate(a.tolist()):
        assert st.kstest(got.draws[:, i].numpy(), st.gamma(shape).cdf).pvalue > 1e-5


@pytest.mark.parametrize(
    ("density", "options", "message"),
    [
        (lambda x: torch.logaddexp(-((x - 4) ** 2), -((x + 4) ** 2)), {}, "not log-concave"),
        (lambda x: -torch.log1p(x.square()), {}, "not log-concave"),
        (lambda x: x, {}, "no points were found"),
        (lambda x: x.log(), {"start": [1.0, 2.0]}, "no points were found"),
        (half_square, {"support": (1, 0)}, "support"),
        (half_square, {"start": [1.0]}, "at least two points"),
        (lambda x: x.sum(), {}, "elementwise"),
        (half_square, {"n": 0}, "at least 1"),
        (lambda x: x.log() - x, {"support": (-1, math.inf), "start": [-0.5, 2.0]}, "zero or not a number"),
    ],
)
def test_bad_input_of_adaptive_rejection(density, options, message):
    with pytest.raises(InvalidInput, match=message):
        adaptive_rejection(density, options.pop("n", 1000), seed=0, **options)


def test_student_proposals_cover_a_normal_target():
    got = rejection_sampling(half_square, StudentT(torch.tensor(3.0, dtype=torch.float64)), 20_000, seed=0)
    assert st.kstest(got.draws.numpy(), "norm").pvalue > 1e-5
