from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate
from scipy.stats import norm
from sklearn import metrics as peer

from benthic import metrics
from benthic.base.errors import InvalidInput
from tests.metrics.strategies import few, generators


@few
@given(generators(), st.integers(2, 40), st.sampled_from([(), (1,), (3,)]), st.booleans())
def test_errors_are_those_of_scikit_learn(rng, n, columns, weighted):
    y = rng.integers(-3, 4, (n, *columns)).astype(float)
    y[:2] = np.arange(2).reshape(2, *[1] * len(columns))
    p = y + rng.integers(-2, 3, y.shape) * 0.5
    w = rng.exponential(size=n) if weighted else None
    pairs = [
        (metrics.mse, peer.mean_squared_error, {}),
        (metrics.rmse, peer.root_mean_squared_error, {}),
        (metrics.mae, peer.mean_absolute_error, {}),
        (metrics.r2, peer.r2_score, {}),
        (metrics.explained_variance, peer.explained_variance_score, {}),
        (metrics.pinball_loss, peer.mean_pinball_loss, {"alpha": 0.2}),
    ]
    for ours, theirs, options in pairs:
        found = ours(y, p, sample_weight=w, **options).value
        assert found == pytest.approx(theirs(y, p, sample_weight=w, **options), rel=1e-12, abs=1e-12)
    assert metrics.mape(y + 5, p, w).value == pytest.approx(
        peer.mean_absolute_percentage_error(y + 5, p, sample_weight=w), rel=1e-12
    )
    if len(columns) == 0:
        assert metrics.max_error(y, p) == peer.max_error(y, p)


@few
@given(generators(), st.sampled_from([-1.0, 0.0, 1.0, 1.5, 2.0, 3.0]), st.booleans())
def test_deviances_are_those_of_scikit_learn(rng, power, weighted):
    y, p = rng.gamma(2, size=20), rng.gamma(2, size=20) + 0.01
    if power < 2:
        y[3] = 0.0
    w = rng.exponential(size=20) if weighted else None
    found = metrics.tweedie_deviance(y, p, power, w).value
    assert found == pytest.approx(peer.mean_tweedie_deviance(y, p, power=power, sample_weight=w), rel=1e-12, abs=1e-12)
    share = metrics.deviance_explained(y, p, power, w).value
    assert share == pytest.approx(peer.d2_tweedie_score(y, p, power=power, sample_weight=w), rel=1e-10, abs=1e-12)
    if power == 1:
        assert metrics.poisson_deviance(y, p, w).value == found
    if power == 2:
        assert metrics.gamma_deviance(y, p, w).value == found


@pytest.mark.parametrize(
    "measure",
    [
        metrics.mse,
        metrics.explained_variance,
        metrics.r2,
        metrics.rmse,
        lambda y, p, w: metrics.pinball_loss(y, p, 0.8, w),
        lambda y, p, w: metrics.deviance_explained(np.exp(y), np.exp(p), 1.0, w),
        lambda y, p, w: metrics.crps_gaussian(y, p, np.full(len(p), 0.7), w),
    ],
    ids=["mse", "explained", "r2", "rmse", "pinball", "deviance", "crps"],
)
def test_standard_errors_are_the_spread_over_weighted_data_sets(measure):
    rng = np.random.default_rng(4)
    found = []
    for _ in range(300):
        p = 0.5 * rng.normal(size=300)
        found.append(measure(p + 0.3 + 0.4 * rng.normal(size=300), p, rng.uniform(0.5, 2, 300)))
    found = np.array(found)
    assert np.sqrt((found[:, 1] ** 2).mean()) == pytest.approx(found[:, 0].std(ddof=1), rel=0.14)  # known to 4 %


def test_gaussian_crps_is_the_integral():
    rng = np.random.default_rng(0)
    for y, mean, std in zip(rng.normal(size=4), rng.normal(size=4), rng.gamma(2, size=4), strict=True):
        law = norm(mean, std)
        below, _ = integrate.quad(lambda x, law=law: law.cdf(x) ** 2, -np.inf, y, epsabs=1e-11)
        above, _ = integrate.quad(lambda x, law=law: law.sf(x) ** 2, y, np.inf, epsabs=1e-11)
        assert metrics.crps_gaussian([y], [mean], [std]).value == pytest.approx(below + above, abs=1e-8)
    assert metrics.crps_gaussian([1.0, 2.0], [0.0, 0.0], [0.0, 0.0]).value == 1.5


@few
@given(generators(), st.integers(2, 12))
def test_crps_of_draws_is_its_definition(rng, m):
    y, draws = rng.normal(size=5), rng.integers(-3, 4, (5, m)).astype(float)
    near = np.abs(draws - y[:, None]).mean(1)
    apart = np.abs(draws[:, :, None] - draws[:, None]).sum((1, 2)) / 2
    assert metrics.crps_samples(y, draws, fair=False).value == pytest.approx((near - apart / m**2).mean(), abs=1e-12)
    assert metrics.crps_samples(y, draws).value == pytest.approx((near - apart / (m * (m - 1))).mean(), abs=1e-12)


def test_fair_crps_of_few_draws_is_that_of_the_law():
    rng = np.random.default_rng(1)
    y = rng.normal(size=40_000)
    found = metrics.crps_samples(y, rng.normal(size=(40_000, 3)))
    exact = 1 / np.sqrt(np.pi)  # E of the score of the standard normal law under itself
    assert abs(found.value - exact) < 4 * found.stderr
    assert metrics.crps_samples(y, rng.normal(size=(40_000, 3)), fair=False).value > exact + 10 * found.stderr


def test_intervals_of_a_known_law():
    rng = np.random.default_rng(2)
    y = rng.normal(size=20_000)
    reach = norm.ppf(0.95)
    low, high = np.full(20_000, -reach), np.full(20_000, reach)
    found = metrics.interval_coverage(y, low, high)
    assert abs(found.value - 0.9) < 4 * found.stderr
    assert found.stderr == pytest.approx(np.sqrt(0.9 * 0.1 / 20_000), rel=0.05)
    assert metrics.interval_width(low, high).value == pytest.approx(2 * reach)
    # the true interval scores best: wider and narrower ones are worse
    scores = [metrics.interval_score(y, s * low, s * high, 0.9).value for s in (0.8, 1.0, 1.25)]
    assert scores[1] == min(scores)
    exact = 2 * reach + 2 / 0.1 * 2 * (norm.pdf(reach) - reach * norm.sf(reach))
    found = metrics.interval_score(y, low, high, 0.9)
    assert abs(found.value - exact) < 4 * found.stderr
    assert metrics.interval_coverage([0.0, 9.0], [-np.inf, -1.0], [1.0, np.inf]).value == 1.0


def test_pinball_is_least_at_the_quantile():
    y = np.random.default_rng(5).gamma(2, size=999)
    grid = np.sort(y)
    losses = [metrics.pinball_loss(y, np.full(999, q), 0.3).value for q in grid[250:350]]
    assert grid[250:350][int(np.argmin(losses))] == np.quantile(y, 0.3, method="inverted_cdf")


@pytest.mark.filterwarnings("error")
def test_arrays_that_may_only_be_read():
    y = np.arange(4.0)
    y.flags.writeable = False
    assert metrics.mse(y, y[::-1], y).value == pytest.approx((1 * 1 + 2 * 1 + 3 * 9) / 6)
    assert metrics.auc(y > 1, y, sample_weight=y + 1).value == 1.0


def test_tensors_and_lists_agree():
    y, p = [1.0, 2.0, 4.0], [1.5, 2.0, 3.0]
    for measure in (metrics.mse, metrics.rmse, metrics.mae, metrics.r2, metrics.explained_variance):
        grown = torch.tensor(p, dtype=torch.float64, requires_grad=True)
        assert measure(torch.tensor(y, dtype=torch.float64), grown) == measure(y, p)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: metrics.mse([1.0], [1.0, 2.0]), "rows must match"),
        (lambda: metrics.mse([1.0, 2.0], [1.0, np.nan]), "predicted has 1 NaN"),
        (lambda: metrics.mse([1.0, 2.0], [1.0, 2.0], [-1, 2]), "negative"),
        (lambda: metrics.mse(["a"], ["b"]), "must be numbers"),
        (lambda: metrics.r2([1.0, 1.0, 3.0], [1.0, 2.0, 3.0], [1, 1, 0]), "no variance"),
        (lambda: metrics.explained_variance([0.1] * 3, [1.0, 2.0, 3.0]), "no variance"),
        (lambda: metrics.mape([0.0, 1.0], [1.0, 1.0]), "zeros"),
        (lambda: metrics.pinball_loss([1.0], [1.0], 1.5), "between 0 and 1"),
        (lambda: metrics.tweedie_deviance([1.0], [1.0], 0.5), "no law"),
        (lambda: metrics.poisson_deviance([1.0], [0.0]), "predicted must be positive"),
        (lambda: metrics.poisson_deviance([-1.0], [1.0]), "zero or more"),
        (lambda: metrics.gamma_deviance([0.0], [1.0]), "y must be positive"),
        (lambda: metrics.deviance_explained([1.0, 1.0], [1.0, 2.0], 1), "no deviance"),
        (lambda: metrics.interval_coverage([1.0], [2.0], [0.0]), "swap them"),
        (lambda: metrics.interval_score([1.0], [0.0], [2.0], level=1.0), "level"),
        (lambda: metrics.crps_samples([1.0], [[1.0]]), "at least 2"),
        (lambda: metrics.crps_samples([1.0], [1.0]), "samples"),
        (lambda: metrics.crps_gaussian([1.0], [1.0], [-1.0]), "negative"),
        (lambda: metrics.crps_gaussian([[1.0, 2.0]], [1.0], [1.0]), "shapes differ"),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(InvalidInput, match=words):
        call()
