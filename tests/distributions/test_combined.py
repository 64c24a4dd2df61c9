"""Mixtures, transformed variables, sums and tails, against quadrature, SciPy and simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from torch import distributions as td

from benthic import distributions as laws
from benthic.base.errors import InvalidInput
from benthic.distributions import (
    Levy,
    Mixture,
    Stable,
    convolve,
    draw,
    hill,
    mixture,
    plot_tail,
    sum_density,
    survival,
    tail_index,
    transformed,
)

pytestmark = pytest.mark.spec("B-01")


def f64(*values):
    return torch.tensor(values if len(values) > 1 else values[0], dtype=torch.float64)


NORMAL = td.Normal(f64(0.0), f64(1.0))
BOTH = Mixture([1.0, 3.0], [NORMAL, laws.Gamma(2.0, 1.0)])


def test_a_mixture_of_families_has_the_mixed_density():
    x = f64(-1.0, 0.5, 3.0)
    truth = 0.25 * stats.norm.pdf(x) + 0.75 * stats.gamma(2).pdf(x)
    np.testing.assert_allclose(BOTH.log_prob(x).exp(), truth, rtol=1e-12)
    np.testing.assert_allclose(BOTH.cdf(x), 0.25 * stats.norm.cdf(x) + 0.75 * stats.gamma(2).cdf(x), rtol=1e-12)
    level = f64(1e-6, 0.1, 0.5, 0.999)
    torch.testing.assert_close(BOTH.cdf(BOTH.icdf(level)), level, rtol=1e-9, atol=0)
    assert float(BOTH.mean) == pytest.approx(1.5) and float(BOTH.variance) == pytest.approx(0.25 + 0.75 * 6 - 1.5**2)
    torch.testing.assert_close(BOTH.responsibilities(x).sum(-1), torch.ones(3, dtype=torch.float64))
    assert float(BOTH.responsibilities(f64(-1.0))[0]) == 1


def test_draws_and_entropy_of_a_mixture():
    x = draw(BOTH, 5000, seed=0)
    assert stats.kstest(BOTH.cdf(x).numpy(), "uniform").pvalue > 1e-5
    truth, _ = integrate.quad(lambda t: -float(BOTH.log_prob(f64(t)).exp() * BOTH.log_prob(f64(t))), -9, 40, points=[0])
    found = BOTH.entropy()
    assert abs(found.value - truth) < 4 * found.stderr and found.stderr < 0.02


def test_mixtures_of_vectors_and_of_one_family():
    vectors = Mixture(
        [0.5, 0.5], [laws.MultivariateNormal(m, [[1.0, 0.0], [0.0, 1.0]]) for m in ([0.0, 0.0], [4.0, 0.0])]
    )
    assert draw(vectors, 7, seed=0).shape == (7, 2)
    assert float(vectors.log_prob(f64(2.0, 0.0)).exp()) == pytest.approx(math.exp(-2) / (2 * math.pi))
    same = mixture([1.0, 3.0], td.Normal(f64(-1.0, 1.0), f64(1.0, 2.0)))
    assert float(same.mean) == pytest.approx(0.5)
    apart = Mixture([1.0, 3.0], [td.Normal(f64(-1.0), f64(1.0)), td.Normal(f64(1.0), f64(2.0))])
    torch.testing.assert_close(same.log_prob(f64(0.3)), apart.log_prob(f64(0.3)))


def test_transformed_variables():
    x = f64(0.2, 0.7)
    np.testing.assert_allclose(transformed(NORMAL, "exp").log_prob(x), stats.lognorm(1).logpdf(x), rtol=1e-12)
    shift = td.AffineTransform(2.0, 3.0)
    law = transformed(laws.StudentT(3.0), shift)
    np.testing.assert_allclose(law.cdf(x), stats.t(3, 2, 3).cdf(x), rtol=1e-12)
    np.testing.assert_allclose(law.icdf(x), stats.t(3, 2, 3).ppf(x), rtol=1e-10)


def normal_and_laplace(s):
    def integrand(y, t):
        return stats.norm.pdf(t - y) * stats.laplace.pdf(y)

    return np.array([integrate.quad(integrand, -30, 30, args=(t,), points=[0])[0] for t in s])


@pytest.mark.parametrize(
    ("p", "q", "truth"),
    [
        (NORMAL, td.Uniform(f64(0.0), f64(1.0)), lambda s: stats.norm.cdf(s) - stats.norm.cdf(s - 1)),
        (td.Uniform(f64(0.0), f64(1.0)), td.Uniform(f64(0.0), f64(1.0)), lambda s: np.clip(1 - abs(s - 1), 0, 1)),
        (
            td.Exponential(f64(1.0)),
            td.Exponential(f64(2.0)),
            lambda s: np.where(s > 0, 2 * (np.exp(-s) - np.exp(-2 * s)), 0),
        ),
        (NORMAL, td.Laplace(f64(0.0), f64(1.0)), normal_and_laplace),
    ],
)
def test_the_density_of_a_sum_by_convolution(p, q, truth):
    law = convolve(p, q)
    s = np.array([0.13, 0.5, 0.8, 1.7])
    np.testing.assert_allclose(law.log_prob(torch.tensor(s)).exp(), truth(s), rtol=2e-5)  # the step is 2e-3
    assert float(law.mean) == pytest.approx(float(p.mean + q.mean), abs=1e-6)
    assert float(law.variance) == pytest.approx(float(p.variance + q.variance), rel=1e-4)
    level = f64(0.01, 0.4, 0.9)
    torch.testing.assert_close(law.cdf(law.icdf(level)), level, rtol=1e-6, atol=1e-9)
    assert stats.kstest(law.cdf(draw(law, 1000, seed=0)).numpy(), "uniform").pvalue > 1e-5


@pytest.mark.parametrize(
    ("p", "q"),
    [
        (NORMAL, td.Normal(f64(1.0), f64(2.0))),
        (laws.Gamma(2.0, 1.5), td.Exponential(f64(1.5))),
        (laws.Poisson(f64(2.0)), laws.Poisson(f64(3.5))),
        (laws.Binomial(4, f64(0.3)), laws.Binomial(6, f64(0.3))),
    ],
)
def test_closed_forms_agree_with_the_numerical_sum(p, q):
    closed, numerical = convolve(p, q), sum_density(p, q)
    assert not isinstance(closed, laws.SumDensity)
    s = f64(0.0, 1.0, 5.0) if closed.support.is_discrete else f64(0.3, 1.0, 4.0)
    torch.testing.assert_close(closed.log_prob(s).exp(), numerical.log_prob(s).exp(), rtol=1e-5, atol=1e-8)
    torch.testing.assert_close(closed.cdf(s), numerical.cdf(s), rtol=1e-5, atol=1e-6)


def test_sums_of_heavy_tails_are_closed():
    x = f64(-2.0, 0.7, 9.0)
    both = convolve(Stable(1.0, 0.0, 1.0, 0.5), Stable(1.0, 0.0, 2.0, 0.0))
    cauchy = convolve(td.Cauchy(f64(0.5), f64(1.0)), td.Cauchy(f64(0.0), f64(2.0)))
    torch.testing.assert_close(both.log_prob(x), cauchy.log_prob(x), rtol=1e-10, atol=1e-10)
    levy = convolve(Levy(0.0, 1.0), Levy(0.0, 2.0))
    same = convolve(Stable(0.5, 1.0, 1.0), Stable(0.5, 1.0, 2.0))
    torch.testing.assert_close(levy.cdf(x), same.cdf(x), rtol=1e-9, atol=1e-12)
    # with skewness at α = 1, where the forms differ by a logarithm, draws decide
    p, q = Stable(1.0, 0.8, 0.5, 1.0), Stable(1.0, -0.2, 2.0, 0.0)
    drawn = draw(p, 4000, seed=0) + draw(q, 4000, seed=1)
    assert stats.kstest(convolve(p, q).cdf(drawn).numpy(), "uniform").pvalue > 1e-5
    vectors = convolve(*[laws.MultivariateNormal([1.0, 0.0], [[1.0, 0.5], [0.5, 1.0]])] * 2)
    torch.testing.assert_close(vectors.covariance_matrix, torch.tensor([[2.0, 1.0], [1.0, 2.0]], dtype=torch.float64))


@pytest.mark.parametrize(
    ("law", "alpha"),
    [(Stable(1.0, 0.0), 1.0), (Levy(0.0, 1.0), 0.5), (Stable(1.5, 0.0), 1.5), (laws.StudentT(3.0), 3.0)],
)
def test_heavy_tails_are_told_from_light_ones(law, alpha):
    found = tail_index(draw(law, 1_000_000, seed=0), k=10_000)  # fewer do not always tell 3 from an exponential
    assert found.heavy and abs(found.alpha.value - alpha) < 4 * found.alpha.stderr + 0.1 * alpha
    assert tail_index(law).alpha.value == alpha


@pytest.mark.parametrize(
    "law", [NORMAL, td.Exponential(f64(1.0)), td.Uniform(f64(0.0), f64(1.0)), td.Laplace(f64(0.0), f64(1.0))]
)
def test_light_tails_are_not_called_heavy(law):
    assert not tail_index(draw(law, 20_000, seed=0)).heavy and not tail_index(law).heavy


def test_hill_on_exact_powers():
    x = draw(td.Pareto(f64(1.0), f64(2.5)), 5000, seed=0)
    # for a power law every k is right, and k = n − 1 is maximum likelihood
    for k in (100, 1000, 4999, None):
        found = hill(x, k)
        assert abs(found.value - 2.5) < 4 * found.stderr
    assert hill(-x, 500, tail="left").value == hill(x, 500).value
    value, share = survival(x)
    assert bool((value.diff() >= 0).all()) and float(share[0]) == 1


def test_the_picture_of_tails():
    figure = plot_tail({"draws": draw(Stable(1.2), 200, seed=0)}, {"the law": Stable(1.2)})
    axes = figure.axes[0]
    assert axes.get_xscale() == "log" and len(axes.lines) == 2


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: Mixture([1.0], [NORMAL, NORMAL]), "one for each"),
        (lambda: Mixture([1.0, -1.0], [NORMAL, NORMAL]), "not negative"),
        (lambda: Mixture([1.0, 1.0], [NORMAL, laws.Poisson(f64(1.0))]), "mix densities with masses"),
        (lambda: Mixture([1.0], [laws.MultivariateNormal([0.0], [[1.0]])]).cdf(f64(0.0)), "law is of vectors"),
        (lambda: mixture([1.0], NORMAL), "no batch"),
        (lambda: transformed(NORMAL, "exq"), "did you mean 'exp'"),
        (lambda: transformed(NORMAL), "no change"),
        (lambda: sum_density(NORMAL, laws.Poisson(f64(1.0))), "counts"),
        (lambda: sum_density(NORMAL, td.Normal(torch.zeros(2), 1.0)), "without batch"),
        (lambda: hill([1.0, 2.0]), "at least 20"),
        (lambda: hill(torch.ones(30), 40), "k is 40"),
        (lambda: hill(torch.ones(30), 5, tail="up"), "'right', 'left' or 'both'"),
        (lambda: tail_index(td.Weibull(f64(1.0), f64(1.0))), "pass draws"),
        (lambda: survival([]), "no data"),
    ],
)
def test_wrong_input_gets_one_sentence(call, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        call()
