"""Maximum likelihood: the score vanishes, weights repeat rows, SciPy agrees, wrong data are named."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import distributions as td

from benthic import distributions as laws
from benthic.base.errors import InvalidInput
from benthic.distributions import Stable, draw, mle

pytestmark = [pytest.mark.spec("B-01"), pytest.mark.spec("B-02")]


def f64(*values):
    return torch.tensor(values if len(values) > 1 else values[0], dtype=torch.float64)


def score(family, fitted, names, data, **known):
    """The slope of the mean log-likelihood at the fit."""
    free = {name: getattr(fitted, name).detach().clone().requires_grad_() for name in names}
    value = family(**free, **known, validate_args=False).log_prob(data).mean()
    return max(float(g.abs().max()) for g in torch.autograd.grad(value, list(free.values())))


SMOOTH = [
    (td.Normal(f64(1.0), f64(2.0)), td.Normal, ("loc", "scale")),
    (td.LogNormal(f64(1.0), f64(0.5)), td.LogNormal, ("loc", "scale")),
    (td.HalfNormal(f64(2.0)), td.HalfNormal, ("scale",)),
    (td.Exponential(f64(2.0)), td.Exponential, ("rate",)),
    (laws.Poisson(f64(3.0)), laws.Poisson, ("rate",)),
    (laws.Geometric(f64(0.3)), laws.Geometric, ("probs",)),
    (laws.Bernoulli(f64(0.3)), laws.Bernoulli, ("probs",)),
    (laws.Gamma(2.3, 0.5), laws.Gamma, ("concentration", "rate")),
    (laws.Gamma(0.05, 3.0), laws.Gamma, ("concentration", "rate")),
    (laws.Beta(2.3, 0.5), laws.Beta, ("concentration1", "concentration0")),
    (td.Dirichlet(f64(0.5, 3.0, 20.0)), td.Dirichlet, ("concentration",)),
    (td.Chi2(f64(3.0)), td.Chi2, ("df",)),
    (laws.StudentT(3.0, 1.0, 2.0), laws.StudentT, ("df", "loc", "scale")),
    (td.Cauchy(f64(1.0), f64(2.0)), td.Cauchy, ("loc", "scale")),
    (td.Weibull(f64(2.0), f64(1.5)), td.Weibull, ("scale", "concentration")),
    (td.Gumbel(f64(2.0), f64(1.5)), td.Gumbel, ("loc", "scale")),
    (td.VonMises(f64(1.0), f64(2.0)), td.VonMises, ("loc", "concentration")),
]


@pytest.mark.parametrize(("truth", "family", "names"), SMOOTH, ids=lambda v: getattr(v, "__name__", None))
def test_the_score_vanishes_and_the_truth_is_near(truth, family, names):
    x = draw(truth, 2000, seed=0)
    fitted = mle(family, x)
    assert isinstance(fitted, family)
    assert score(family, fitted, names, x) < 1e-6
    for name in names:
        torch.testing.assert_close(getattr(fitted, name), getattr(truth, name), rtol=0.3, atol=0.15)
    # better than the law the data came from
    assert float(fitted.log_prob(x).mean()) >= float(truth.log_prob(x).mean())


@pytest.mark.parametrize(("alpha", "beta"), [(1.5, 0.5), (0.8, -0.3), pytest.param(1.95, 0.0, marks=pytest.mark.slow)])
def test_stable_laws_are_found(alpha, beta):
    truth = Stable(alpha, beta, 2.0, 1.0, "S0")
    x = draw(truth, 800, seed=1)
    fitted = mle(Stable, x, parametrization="S0")
    assert float(fitted.alpha) == pytest.approx(alpha, abs=0.15) and float(fitted.gamma) == pytest.approx(2, rel=0.15)
    assert float(fitted.delta) == pytest.approx(1, abs=0.5)
    assert float(fitted.log_prob(x).mean()) > float(truth.log_prob(x).mean())
    assert score(Stable, fitted, ("alpha", "gamma", "delta"), x, beta=fitted.beta, parametrization="S0") < 1e-3
    # units do not matter, and neither does the form
    moved = mle(Stable, 100 * x + 7)
    assert float(moved.alpha) == pytest.approx(float(fitted.alpha), abs=1e-3)
    assert float(moved.gamma) == pytest.approx(100 * float(fitted.gamma), rel=1e-3)


def test_levy_with_and_without_a_known_location():
    x = draw(laws.Levy(1.0, 2.0), 1000, seed=0)
    free, fixed = mle(laws.Levy, x), mle(laws.Levy, x, loc=1.0)
    assert float(fixed.scale) == pytest.approx(1 / float((1 / (x - 1)).mean()))
    assert float(free.loc) == pytest.approx(1, abs=0.1) and float(free.scale) == pytest.approx(2, rel=0.15)
    assert float(free.log_prob(x).sum()) > float(fixed.log_prob(x).sum())
    assert score(laws.Levy, free, ("loc", "scale"), x) < 1e-5


def test_closed_forms_agree_with_scipy():
    x = draw(td.Laplace(f64(1.0), f64(2.0)), 501, seed=0)
    np.testing.assert_allclose(
        [float(v) for v in (mle(td.Laplace, x).loc, mle(td.Laplace, x).scale)], stats.laplace.fit(x.numpy()), rtol=1e-9
    )
    power = draw(td.Pareto(f64(2.0), f64(1.5)), 300, seed=0)
    fitted = mle(td.Pareto, power)
    np.testing.assert_allclose(
        [float(fitted.alpha), float(fitted.scale)], np.array(stats.pareto.fit(power, floc=0))[[0, 2]]
    )
    u = draw(td.Uniform(f64(-1.0), f64(2.0)), 50, seed=0)
    fitted = mle(td.Uniform, u)
    assert float(fitted.low) == float(u.min()) and bool(torch.isfinite(fitted.log_prob(u)).all())
    t = stats.t.fit(draw(laws.StudentT(5.0), 400, seed=1).numpy())
    mine = mle(laws.StudentT, draw(laws.StudentT(5.0), 400, seed=1))
    np.testing.assert_allclose([float(mine.df), float(mine.loc), float(mine.scale)], t, rtol=2e-3, atol=2e-4)


def test_vectors_labels_and_counts():
    x = draw(laws.MultivariateNormal([0.0, 1.0], [[2.0, 1.0], [1.0, 2.0]]), 300, seed=0)
    fitted = mle(laws.MultivariateNormal, x)
    np.testing.assert_allclose(fitted.covariance_matrix, np.cov(x.T, bias=True), rtol=1e-10)
    v = draw(laws.VonMisesFisher([0.0, 0.6, 0.8], 7.0), 400, seed=0)
    mu, kappa = stats.vonmises_fisher.fit(v.numpy())
    fitted = mle(laws.VonMisesFisher, v)
    np.testing.assert_allclose(fitted.direction, mu, rtol=1e-9)
    assert float(fitted.concentration) == pytest.approx(kappa, rel=1e-8)
    assert mle(laws.Categorical, torch.tensor([0, 2, 2, 1])).probs.tolist() == [0.25, 0.25, 0.5]
    assert mle(laws.Categorical, [0, 1], num_events=3).probs.tolist() == [0.5, 0.5, 0]
    many = mle(laws.Multinomial, [[1.0, 3.0], [2.0, 2.0]])
    assert many.total_count == 4 and many.probs.tolist() == pytest.approx([3 / 8, 5 / 8])
    assert float(mle(laws.Binomial, [3.0, 5.0], total_count=10).probs) == pytest.approx(0.4)
    # the coin of 80 throws with 49 heads
    assert float(mle(laws.Bernoulli, [1.0] * 49 + [0.0] * 31).probs) == pytest.approx(49 / 80)


@pytest.mark.parametrize("family", [td.Normal, laws.Gamma, laws.StudentT, td.Cauchy, td.Laplace, td.Weibull])
def test_an_integer_weight_is_a_repeated_row(family):
    x = draw(laws.Gamma(2.0, 1.0), 40, seed=0)
    w = torch.arange(40) % 3
    once, twice = mle(family, x, weights=w), mle(family, x.repeat_interleave(w))
    for name in family.arg_constraints:
        torch.testing.assert_close(getattr(once, name), getattr(twice, name), rtol=1e-5, atol=1e-6)


def test_columns_are_separate_fits_and_types_are_kept():
    x = draw(laws.Gamma(2.0, 1.0), (300, 2), seed=0)
    for family in (td.Normal, laws.Gamma, laws.StudentT, laws.Beta):
        data = x / (1 + x) if family is laws.Beta else x
        both = mle(family, data)
        alone = mle(family, data[:, 1])
        for name in ("loc", "concentration", "concentration1"):
            if hasattr(both, name):
                torch.testing.assert_close(getattr(both, name)[1], getattr(alone, name), rtol=1e-4, atol=1e-5)
    assert mle(td.Normal, x.float()).loc.dtype == torch.float32
    start = mle(td.Weibull(f64(1.0), f64(1.0)), x[:, 0])
    assert score(td.Weibull, start, ("scale", "concentration"), x[:, 0]) < 1e-6


@pytest.mark.parametrize(
    ("family", "data", "more", "sentence"),
    [
        (td.Normal, [], {}, "no data"),
        (td.Normal, [1.0, math.nan], {}, "such as nan, cannot come from Normal"),
        (td.Normal, [2.0, 2.0], {}, "every value is 2; Normal needs values that differ"),
        (laws.Gamma, [1.0, -1.0], {}, "1 value of the data, such as -1.0, cannot come from Gamma.*above 0"),
        (td.Weibull, [1.0, -1.0], {}, "1 of the data do not lie in the support of Weibull"),
        (laws.Poisson, [1.5], {}, "0, 1, 2"),
        (laws.Bernoulli, [0.0, 2.0], {}, "0 or 1"),
        (laws.Beta, [0.0, 0.5], {}, "strictly inside"),
        (td.Dirichlet, [[0.5, 0.6]], {}, "sum to one"),
        (laws.VonMisesFisher, [[1.0, 1.0]], {}, "unit vectors"),
        (laws.VonMisesFisher, [[1.0, 0.0], [1.0, 0.0]], {}, "directions that differ"),
        (laws.MultivariateNormal, [[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]], {}, "covariance is singular"),
        (laws.MultivariateNormal, [1.0, 2.0], {}, "rows of vectors"),
        (laws.Binomial, [1.0], {}, "pass total_count="),
        (laws.Binomial, [5.0], {"total_count": 3}, "above total_count"),
        (laws.Multinomial, [[1.0, 2.0], [1.0, 1.0]], {}, "one total"),
        (laws.Levy, [1.0, 2.0], {}, "at least 4"),
        (Stable, [1.0, 2.0], {}, "at least five"),
        (td.Normal, [1.0, 2.0], {"weights": [1.0]}, "weights have shape"),
        (td.Normal, [1.0, 2.0], {"weights": [1.0, -1.0]}, "not negative"),
        ("Normal", [1.0, 2.0], {}, "must be a distribution class"),
    ],
)
def test_wrong_data_get_one_sentence(family, data, more, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        mle(family, data, **more)
