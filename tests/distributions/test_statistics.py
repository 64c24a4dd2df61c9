"""Moments, tests, intervals, bootstraps and Monte Carlo against SciPy, NumPy and the laws they rest on."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch
from scipy import stats
from torch import distributions as td

from benthic.base.errors import InvalidInput
from benthic.distributions.families import family_of
from benthic.distributions.statistics import (
    bootstrap,
    correlation,
    covariance,
    effect_size,
    mean_interval,
    moments,
    monte_carlo,
    paired_t_test,
    t_test,
    t_test_from_summary,
)

pytestmark = pytest.mark.spec("B-02")
D = torch.float64
TIGHT = {"rtol": 1e-12, "atol": 1e-13}


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=D)


def skewed(*shape, seed=0):
    return randn(*shape, seed=seed).exp()


# ------------------------------------------------------------------------------------------------- moments


@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_moments_against_scipy(dim, unbiased):
    x = skewed(30, 40)
    m = moments(x, dim)
    np.testing.assert_allclose(m.mean, x.numpy().mean(dim), **TIGHT)
    np.testing.assert_allclose(m.variance(unbiased), x.numpy().var(dim, ddof=int(unbiased)), **TIGHT)
    np.testing.assert_allclose(m.std(unbiased), x.numpy().std(dim, ddof=int(unbiased)), **TIGHT)
    np.testing.assert_allclose(m.skewness(unbiased), stats.skew(x.numpy(), dim, bias=not unbiased), rtol=1e-11)
    np.testing.assert_allclose(m.kurtosis(unbiased), stats.kurtosis(x.numpy(), dim, bias=not unbiased), rtol=1e-11)


def test_variance_is_the_mean_square_less_the_squared_mean():
    x = skewed(1000)
    expected = x.square().mean() - x.mean().square()  # once, not twice
    torch.testing.assert_close(moments(x).variance(), expected, rtol=1e-12, atol=0)


def test_skewness_and_kurtosis_have_no_units():
    x = skewed(500)
    a, b = moments(x), moments(1e3 * x + 7)
    torch.testing.assert_close(a.skewness(), b.skewness(), rtol=1e-9, atol=0)
    torch.testing.assert_close(a.kurtosis(), b.kurtosis(), rtol=1e-9, atol=0)
    law = moments(td.Exponential(1.0).icdf(torch.linspace(0, 1, 2_000_001, dtype=D)[1:-1]))
    assert float(law.skewness()) == pytest.approx(2, abs=1e-2)  # the moments of the exponential law
    assert float(law.kurtosis()) == pytest.approx(6, abs=2e-1)


def test_moments_of_a_stream_are_those_of_the_whole():
    x = skewed(1000, 3)
    total = None
    for part in x.split((1, 10, 489, 500)):
        total = moments(part) if total is None else total + moments(part)
    whole = moments(x)
    for name in ("count", "mean", "m2", "m3", "m4"):
        torch.testing.assert_close(getattr(total, name), getattr(whole, name), rtol=1e-11, atol=1e-11)


def test_weights_are_repeats_and_offsets_do_no_harm():
    x, w = skewed(20), torch.arange(20) % 4
    a, b = moments(x, weights=w), moments(x.repeat_interleave(w))
    torch.testing.assert_close(a.mean, b.mean, **TIGHT)
    for name in ("variance", "skewness", "kurtosis"):
        torch.testing.assert_close(getattr(a, name)(True), getattr(b, name)(True), rtol=1e-11, atol=1e-12)
    far = moments(randn(1000) + 1e9)
    assert float(far.variance()) == pytest.approx(float(moments(randn(1000)).variance()), rel=1e-6)


def test_moments_over_several_dimensions_and_of_constants():
    x = skewed(4, 5, 6)
    m = moments(x, (0, 2))
    np.testing.assert_allclose(m.variance(), x.numpy().var((0, 2)), **TIGHT)
    constant = moments(torch.full((10,), 0.1))
    assert constant.variance() < 1e-15
    assert torch.isnan(constant.skewness()) and torch.isnan(constant.kurtosis())
    assert torch.isnan(moments([3.0]).variance(unbiased=True))
    assert moments(torch.ones(3)).mean.dtype == torch.float32


# ---------------------------------------------------------------------------------------------- covariance


def test_covariance_and_correlation_against_numpy():
    X, Y = skewed(50, 4), skewed(50, 3, seed=1)
    for ddof in (0, 1):
        np.testing.assert_allclose(covariance(X, ddof=ddof), np.cov(X.numpy().T, ddof=ddof), **TIGHT)
    np.testing.assert_allclose(covariance(X, Y), np.cov(X.numpy().T, Y.numpy().T)[:4, 4:], **TIGHT)
    np.testing.assert_allclose(correlation(X), np.corrcoef(X.numpy().T), rtol=1e-11)
    w = np.arange(50) % 3
    np.testing.assert_allclose(covariance(X, weights=w), np.cov(X.numpy().T, fweights=w), **TIGHT)
    repeated = X.repeat_interleave(torch.from_numpy(w), 0)
    torch.testing.assert_close(correlation(X, weights=w), correlation(repeated), rtol=1e-11, atol=1e-12)


def test_covariance_is_batched_and_differentiable():
    X = randn(3, 20, 4)
    torch.testing.assert_close(covariance(X), torch.stack([torch.cov(x.T) for x in X]), **TIGHT)
    torch.testing.assert_close(correlation(X), torch.stack([torch.corrcoef(x.T) for x in X]), rtol=1e-11, atol=1e-12)
    rows = randn(6, 2).requires_grad_()
    assert torch.autograd.gradcheck(covariance, (rows,))
    assert torch.autograd.gradcheck(correlation, (rows,))


def test_a_constant_column_has_no_correlation_and_is_named():
    X = torch.cat((randn(10, 2), torch.full((10, 1), 0.1, dtype=D)), 1)
    with pytest.warns(UserWarning, match=r"column \[2\] does not vary"):
        found = correlation(X)
    assert torch.isnan(found[2]).all() and torch.isnan(found[:, 2]).all()
    torch.testing.assert_close(found[:2, :2], torch.corrcoef(X[:, :2].T), rtol=1e-11, atol=1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (correlation(X[:, :2]).diagonal() == 1).all()


# -------------------------------------------------------------------------------------------------- t-test


@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
def test_t_tests_against_scipy(alternative):
    x, y = randn(12).numpy() + 0.4, 2 * randn(17, seed=1).numpy()
    cases = [
        (t_test(x, mean=0.1, alternative=alternative), stats.ttest_1samp(x, 0.1, alternative=alternative)),
        (t_test(x, y, alternative=alternative), stats.ttest_ind(x, y, equal_var=False, alternative=alternative)),
        (t_test(x, y, equal_variance=True, alternative=alternative), stats.ttest_ind(x, y, alternative=alternative)),
        (paired_t_test(x, y[:12], alternative=alternative), stats.ttest_rel(x, y[:12], alternative=alternative)),
    ]
    for ours, theirs in cases:
        assert ours.statistic == pytest.approx(theirs.statistic, rel=1e-12)
        assert ours.df == pytest.approx(theirs.df, rel=1e-12)
        assert ours.p_value == pytest.approx(theirs.pvalue, rel=1e-12)
        expected = theirs.confidence_interval(0.95)
        np.testing.assert_allclose(ours.interval, (expected.low, expected.high), rtol=1e-10)


def test_a_hypothesized_difference_shifts_the_first_sample():
    x, y = randn(10) + 3, randn(14, seed=1)
    shifted = t_test(x - 2.5, y)
    found = t_test(x, y, mean=2.5)
    assert found.statistic == pytest.approx(shifted.statistic, rel=1e-12)
    assert found.estimate == pytest.approx(float(x.mean() - y.mean()), rel=1e-12)


def test_blood_pressure():
    drug, placebo = (143.25, 4.37, 20), (149.55, 3.10, 20)
    pooled = t_test_from_summary(drug, placebo, equal_variance=True)
    welch = t_test_from_summary(drug, placebo)
    assert round(pooled.statistic, 2) == round(welch.statistic, 2) == -5.26
    assert pooled.df == 38 and round(welch.df, 1) == 34.3
    assert f"{pooled.p_value:.1e}" == "5.9e-06" and f"{welch.p_value:.1e}" == "7.8e-06"
    theirs = stats.ttest_ind_from_stats(*drug, *placebo, equal_var=False)
    assert welch.p_value == pytest.approx(theirs.pvalue, rel=1e-12)

    def sample(mean, deviation, n, seed):  # any sample with these summaries gives the same test
        z = randn(n, seed=seed)
        return mean + deviation * (z - z.mean()) / z.std()

    assert t_test(sample(*drug, 0), sample(*placebo, 1)).p_value == pytest.approx(welch.p_value, rel=1e-9)
    text = str(welch)
    for part in ("Welch's t-test", "t = -5.259", "df = 34.26", "p = 7.8e-06", "95 % interval [-8.734, -3.866]"):
        assert part in text


def test_p_values_are_uniform_under_the_hypothesis_and_intervals_cover():
    found = [t_test(randn(8, seed=i), 3 * randn(12, seed=10_000 + i)) for i in range(1000)]
    p_values = [one.p_value for one in found]
    assert stats.kstest(p_values, "uniform").pvalue > 1e-5
    covered = np.mean([one.interval[0] < 0 < one.interval[1] for one in found])
    assert abs(covered - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 1000)


def test_effect_sizes():
    x, y = randn(15) + 1, 2 * randn(20, seed=1)
    pooled = math.sqrt((14 * float(x.var()) + 19 * float(y.var())) / 33)
    d = float(x.mean() - y.mean()) / pooled
    assert effect_size(x, y, kind="cohen").value == pytest.approx(d, rel=1e-12)
    g = effect_size(x, y)
    assert g.value == pytest.approx(d * (1 - 3 / (4 * 33 - 1)), rel=1e-4)  # Hedges's approximation
    assert effect_size(x, y, kind="glass").value == pytest.approx(float((x.mean() - y.mean()) / y.std()), rel=1e-12)
    assert t_test(x, y).cohen_d == pytest.approx(d, rel=1e-12)
    assert t_test(x, y).hedges_g == pytest.approx(g.value, rel=1e-12)
    gap = x - y[:15]
    assert effect_size(x, y[:15], paired=True, kind="cohen").value == pytest.approx(
        float(gap.mean() / gap.std()), rel=1e-12
    )
    assert effect_size(x, mean=0.5, kind="cohen").value == pytest.approx(float((x.mean() - 0.5) / x.std()), rel=1e-12)


def test_hedges_removes_the_bias_of_small_samples_and_its_error_bar_is_honest():
    found = [effect_size(randn(6, seed=i) + 1, randn(5, seed=5000 + i)) for i in range(2000)]
    values, errors = (np.array([getattr(one, name) for one in found]) for name in ("value", "stderr"))
    assert abs(values.mean() - 1) < 4 * values.std() / math.sqrt(2000)
    plain = np.mean(
        [effect_size(randn(6, seed=i) + 1, randn(5, seed=5000 + i), kind="cohen").value for i in range(500)]
    )
    assert plain > 1.05  # Cohen's d is too large by 1/J = 1.09
    assert values.std() / math.sqrt((errors**2).mean()) == pytest.approx(1, abs=0.15)


def test_samples_without_spread():
    flat = t_test([2.0, 2.0, 2.0], mean=1.0)
    assert flat.statistic == math.inf and flat.p_value == 0
    assert math.isnan(t_test([2.0, 2.0], mean=2.0).p_value)
    assert t_test([1.0, 1.0], [2.0, 2.0, 2.0]).statistic == -math.inf


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: t_test([1.0]), "a sample of 1 leaves 0 degrees of freedom"),
        (lambda: t_test([]), "a sample of 0 leaves -1 degrees of freedom"),
        (lambda: t_test([1.0, 2.0], [1.0]), "leaves 0 degrees of freedom"),
        (lambda: t_test([1.0, math.nan]), "x has NaN"),
        (lambda: t_test([[1.0, 2.0]]), "one sample"),
        (lambda: t_test([1.0, 2.0], alternative="larger"), "alternative is 'larger'"),
        (lambda: t_test([1.0, 2.0], level=95), "level is 95"),
        (lambda: paired_t_test([1.0, 2.0], [1.0]), "pairs are needed"),
        (lambda: t_test_from_summary((1.0, 1.0, 1)), "0 degrees of freedom"),
        (lambda: t_test_from_summary((1.0, -1.0, 10)), "negative standard deviation"),
        (lambda: effect_size([1.0, 2.0], [1.0, 2.0], kind="hedge"), "did you mean 'hedges'"),
        (lambda: effect_size([1.0, 2.0], kind="glass"), "need y"),
        (lambda: mean_interval([1.0]), "1 value leaves 0 degrees of freedom"),
        (lambda: mean_interval([]), "empty"),
        (lambda: mean_interval([1.0, 2.0], 1.0), "level is 1.0"),
        (lambda: mean_interval([1.0, 2.0], method="w"), "use 't' or 'z'"),
        (lambda: mean_interval([1.0, 2.0], sigma=1.0), "goes with method='z'"),
        (lambda: moments([]), "empty"),
        (lambda: moments([1.0, 2.0], dim=1), "dim is 1"),
        (lambda: moments([1.0, 2.0], weights=[1.0]), "1 weights for 2 values"),
        (lambda: moments([1.0, 2.0], weights=[1.0, -1.0]), "not negative"),
        (lambda: covariance([1.0, 2.0]), "several columns"),
        (lambda: covariance([[1.0, 2.0]]), "1 rows leave 0 degrees of freedom"),
        (lambda: covariance([[1.0], [2.0]], [[1.0]]), "X has 2 rows and Y has 1"),
        (lambda: covariance([[1.0], [math.inf]]), "NaN or infinite"),
        (lambda: bootstrap([1.0], torch.mean), "at least 2 rows"),
        (lambda: bootstrap([], torch.mean), "at least 2 rows"),
        (lambda: bootstrap([1.0, 2.0], torch.mean, method="bc"), "did you mean 'bca'"),
        (lambda: bootstrap([1.0, 2.0], torch.mean, level=2), "level is 2"),
        (lambda: bootstrap([1.0, 2.0], lambda x: 1.0), "it must return a tensor"),
        (lambda: bootstrap(([1.0, 2.0], [1.0, 2.0, 3.0]), lambda x, y: x.mean(), paired=True), "must be as many"),
        (lambda: bootstrap([1.0, 2.0], lambda x: torch.tensor(x.max().item())), "vectorized=False"),
        (lambda: monte_carlo(lambda x: x, lambda n, g: torch.rand(n, generator=g), 1), "n is 1"),
        (lambda: monte_carlo(lambda x: x.mean(), lambda n, g: torch.rand(n, generator=g), 10), "one number a draw"),
        (lambda: monte_carlo(lambda x: x, td.Normal(0.0, 1.0), control=lambda x: x), "exact mean"),
        (lambda: monte_carlo(lambda x: x, lambda n, g: torch.rand(n, generator=g), antithetic=True), "no mirror"),
    ],
)
def test_bad_input_gets_a_sentence(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


# ----------------------------------------------------------------------------------------------- intervals


def test_mean_intervals_against_scipy():
    x = skewed(25, 3)
    n, mean, error = 25, x.numpy().mean(0), stats.sem(x.numpy(), 0)
    found = mean_interval(x, 0.9)
    low, high = stats.t.interval(0.9, n - 1, mean, error)
    np.testing.assert_allclose(found.low, low, rtol=1e-11)
    np.testing.assert_allclose(found.high, high, rtol=1e-11)
    found = mean_interval(x, 0.9, method="z")
    np.testing.assert_allclose(found.high, stats.norm.interval(0.9, mean, error)[1], rtol=1e-11)
    known = mean_interval([1.0], method="z", sigma=2.0)
    assert float(known.high) == pytest.approx(1 + 2 * stats.norm.ppf(0.975), rel=1e-12)


def test_student_covers_where_the_normal_quantile_does_not():
    x = randn(5, 20_000)
    share = {}
    for method in ("t", "z"):
        found = mean_interval(x, 0.95, method=method)
        share[method] = float(((found.low < 0) & (found.high > 0)).double().mean())
    assert abs(share["t"] - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 20_000)
    assert share["z"] < 0.90


# ----------------------------------------------------------------------------------------------- bootstrap


@pytest.mark.parametrize("method", ["percentile", "basic", "bca"])
@pytest.mark.parametrize(
    ("data", "ours", "theirs", "paired"),
    [
        (skewed(40), torch.mean, np.mean, False),
        (skewed(40), lambda x: x.std(), lambda x, axis: np.std(x, axis=axis, ddof=1), False),
        (
            (skewed(30), skewed(45, seed=1)),
            lambda x, y: x.mean() - y.mean(),
            lambda x, y, axis: x.mean(axis) - y.mean(axis),
            False,
        ),
        (
            (skewed(30), skewed(30, seed=1)),
            lambda x, y: (x * y).mean(),
            lambda x, y, axis: (x * y).mean(axis),
            True,
        ),
    ],
    ids=["mean", "std", "two samples", "pairs"],
)
def test_bootstrap_intervals_are_scipys_for_the_same_resamples(method, data, ours, theirs, paired):
    found = bootstrap(data, ours, method=method, n_resamples=999, paired=paired, seed=0)
    rows = tuple(part.numpy() for part in data) if isinstance(data, tuple) else (data.numpy(),)
    earlier = stats.bootstrap(rows, theirs, n_resamples=2, paired=paired, vectorized=True, rng=0, method="percentile")
    earlier.bootstrap_distribution = found.distribution.numpy()
    names = {"percentile": "percentile", "basic": "basic", "bca": "BCa"}
    other = stats.bootstrap(
        rows, theirs, n_resamples=0, paired=paired, vectorized=True, method=names[method], bootstrap_result=earlier
    )
    np.testing.assert_allclose(float(found.low), other.confidence_interval.low, rtol=1e-10)
    np.testing.assert_allclose(float(found.high), other.confidence_interval.high, rtol=1e-10)
    assert float(found.stderr) == pytest.approx(other.standard_error, rel=1e-10)


def test_bootstrap_of_the_mean_has_its_standard_error():
    x = skewed(200)
    found = bootstrap(x, torch.mean, seed=1)
    assert float(found.stderr) == pytest.approx(float(x.std(correction=0)) / math.sqrt(200), rel=0.05)
    assert found.distribution.shape == (9999,)
    assert "95 % interval" in str(found)


def test_bca_covers_a_skewed_mean_better():
    hits = {"percentile": 0, "bca": 0}
    for seed in range(300):
        x = skewed(20, seed=seed)
        for method in hits:
            found = bootstrap(x, lambda z: z.var(), method=method, n_resamples=300, seed=seed)
            truth = (math.e - 1) * math.e
            hits[method] += float(found.low) < truth < float(found.high)
    assert hits["bca"] > hits["percentile"]


def test_bootstrap_repeats_vectorizes_and_returns_vectors():
    x = skewed(30, 3)
    before = torch.random.get_rng_state()
    a = bootstrap(x, lambda z: z.mean(0), n_resamples=200, seed=3, method="bca")
    b = bootstrap(x, lambda z: z.mean(0), n_resamples=200, seed=3, method="bca", vectorized=False)
    assert torch.equal(before, torch.random.get_rng_state())
    assert a.low.shape == (3,) and a.distribution.shape == (200, 3)
    torch.testing.assert_close(a.low, b.low, rtol=1e-12, atol=1e-12)
    other = bootstrap(x, lambda z: z.mean(0), n_resamples=200, seed=4)
    assert not torch.equal(a.distribution, other.distribution)
    matrix = bootstrap(x, correlation_of, n_resamples=50, seed=0)
    assert matrix.value.shape == (3, 3)
    middle = bootstrap(x[:, 0], torch.median, seed=0, n_resamples=500)
    assert middle.low <= middle.value <= middle.high


def test_bca_of_a_maximum():
    # the maximum is its own bootstrap's upper end; the resamples that tie with it count half
    found = bootstrap([1.0, 2.0, 3.0], torch.amax, method="bca", seed=0, n_resamples=99)
    assert float(found.high) == 3.0

    def distinct(x):
        return torch.tensor(float(len(x.unique())))

    with pytest.raises(InvalidInput, match="on both sides"):  # every resample repeats a value
        bootstrap(torch.arange(20.0), distinct, method="bca", vectorized=False, n_resamples=50, seed=0)


def correlation_of(rows):
    centered = rows - rows.mean(0)
    C = centered.mT @ centered
    return C / C.diagonal().sqrt()[:, None] / C.diagonal().sqrt()


def test_acceleration_over_groups_is_that_of_rows():
    x = skewed(5000)
    found = bootstrap(x, torch.mean, method="bca", n_resamples=2000, seed=0)
    plain = bootstrap(x, torch.mean, method="percentile", n_resamples=2000, seed=0)
    # for a mean the acceleration is the skewness over 6√n
    a = float(moments(x).skewness()) / (6 * math.sqrt(5000))
    below = float(((plain.distribution < plain.value).double()).mean())
    z0 = stats.norm.ppf(below)
    z = z0 + stats.norm.ppf(0.975)
    expected = float(plain.distribution.quantile(stats.norm.cdf(z0 + z / (1 - a * z))))
    assert float(found.high) == pytest.approx(expected, abs=0.02 * float(plain.stderr))


# --------------------------------------------------------------------------------------------- Monte Carlo


def quarter(x):
    return 4.0 * (x.square().sum(-1) < 1)


def square(n, generator):
    return torch.rand(n, 2, generator=generator, dtype=D)


def test_pi_by_monte_carlo():
    found = monte_carlo(quarter, square, 200_000, seed=0)
    assert abs(found.value - math.pi) < 4 * found.stderr
    assert found.stderr == pytest.approx(math.sqrt(math.pi * (4 - math.pi) / 200_000), rel=0.02)


def test_law_of_large_numbers():
    # the error falls as n^(−1/2): fit the slope of the root mean square over repetitions
    sizes = [100, 1000, 10_000]
    errors = []
    for n in sizes:
        runs = [monte_carlo(quarter, square, n, seed=s).value - math.pi for s in range(60)]
        errors.append(math.sqrt(np.mean(np.square(runs))))
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert slope == pytest.approx(-0.5, abs=0.12)  # a root mean square of 60 runs is known to 9 %, the slope to 0.03
    heavy = td.Cauchy(torch.tensor(0.0, dtype=D), torch.tensor(1.0, dtype=D))  # no mean, no law
    spread = []
    for n in (10, 1000):
        means = [monte_carlo(lambda x: x, heavy, n, seed=s).value for s in range(200)]
        spread.append(np.subtract(*np.percentile(means, [75, 25])))
    assert 0.6 < spread[1] / spread[0] < 1.6  # the mean of Cauchy draws is Cauchy again


def test_central_limit_theorem():
    # means of n exponential draws: the distance from the normal law falls as n^(−1/2) (Berry, 1941; Esseen, 1942)
    distances = []
    for n in (4, 16, 64):
        means = (
            td.Exponential(torch.tensor(1.0, dtype=D))
            .icdf(torch.rand(40_000, n, generator=torch.Generator().manual_seed(n), dtype=D))
            .mean(1)
        )
        z = (means - 1) * math.sqrt(n)
        distances.append(stats.kstest(z.numpy(), "norm").statistic)
        assert distances[-1] < 0.4748 / math.sqrt(n) * 2.4146 + 1.63 / math.sqrt(40_000)  # E|X − 1|³ = 2.4146
        assert float(moments(z).skewness()) == pytest.approx(2 / math.sqrt(n), abs=0.15)
    assert distances[0] > 1.6 * distances[1] > 1.6**2 * distances[2]


def test_error_bars_cover():
    law = td.Normal(torch.tensor(0.0, dtype=D), torch.tensor(1.0, dtype=D))
    for options in ({}, {"antithetic": True}, {"control": lambda x: x, "control_mean": 0.0}):
        found = [monte_carlo(torch.exp, law, 4000, seed=s, **options) for s in range(300)]  # enough for the skew of e^x
        off = np.array([(one.value - math.exp(0.5)) / one.stderr for one in found])
        assert 0.82 < off.std() < 1.2 and abs(off.mean()) < 0.35  # 300 runs know them to 0.04 and 0.06


def test_antithetic_pairs_and_controls_reduce_the_error():
    law = td.Normal(torch.tensor(0.0, dtype=D), torch.tensor(1.0, dtype=D))
    plain = monte_carlo(torch.exp, law, 50_000, seed=0)
    # Var of the mean of a pair: (Var e^X + Cov(e^X, e^−X))/2 with Var = e(e − 1), Cov = 1 − e
    pairs = monte_carlo(torch.exp, law, 50_000, antithetic=True, seed=0)
    expected = math.sqrt(0.5 * (math.e * (math.e - 1) + 1 - math.e) / 25_000)
    assert pairs.stderr == pytest.approx(expected, rel=0.1) and pairs.stderr < plain.stderr
    # what a control leaves is 1 − ρ² of the variance; here ρ² = 1/(e − 1)
    control = monte_carlo(torch.exp, law, 50_000, control=lambda x: x, control_mean=0.0, seed=0)
    assert control.stderr == pytest.approx(plain.stderr * math.sqrt(1 - 1 / (math.e - 1)), rel=0.1)
    both = monte_carlo(
        torch.exp, law, 50_000, control=lambda x: torch.stack((x, x.square()), 1), control_mean=[0.0, 1.0], seed=0
    )
    assert both.stderr < control.stderr
    for found in (plain, pairs, control, both):
        assert abs(found.value - math.exp(0.5)) < 4 * found.stderr
    exact = monte_carlo(lambda x: 3 * x + 1, law, 100, control=lambda x: x, control_mean=0.0, seed=0)
    assert exact.value == pytest.approx(1, abs=1e-12) and exact.stderr < 1e-7


def test_mirrors():
    one = torch.tensor(1.0, dtype=D)
    vectors = td.MultivariateNormal(torch.ones(2, dtype=D), torch.eye(2, dtype=D))
    for law, function, truth in (
        (td.Exponential(one), lambda x: x, 1.0),
        (td.Uniform(0 * one, one), lambda x: x.square(), 1 / 3),
        (vectors, lambda x: x.sum(-1), 2.0),
        (td.Independent(td.Laplace(torch.ones(2, dtype=D), one), 1), lambda x: x.sum(-1), 2.0),
    ):
        found = monte_carlo(function, law, 4000, antithetic=True, seed=0)
        plain = monte_carlo(function, law, 4000, seed=0)
        assert abs(found.value - truth) <= 4 * found.stderr + 1e-12 and found.stderr < 0.8 * plain.stderr
    own = monte_carlo(lambda x: x, lambda n, g: torch.rand(n, generator=g), 100, antithetic=lambda x: 1 - x, seed=0)
    assert own.value == pytest.approx(0.5, abs=1e-7)


def test_blocks_add_up_and_seeds_repeat():
    before = torch.random.get_rng_state()
    a, b = (monte_carlo(quarter, square, 600_000, seed=5) for _ in range(2))
    assert a == b and torch.equal(before, torch.random.get_rng_state())
    x = torch.cat([square(size, g) for g in [torch.Generator().manual_seed(0)] for size in (1 << 18, 1 << 18, 75_712)])
    values = quarter(x)
    source = torch.Generator().manual_seed(0)
    found = monte_carlo(quarter, lambda n, _: square(n, source), 600_000)
    assert found.value == pytest.approx(float(values.double().mean()), abs=1e-12)
    assert found.stderr == pytest.approx(float(values.double().std()) / math.sqrt(600_000), rel=1e-9)


def test_the_coin():
    # 49 heads in 80: the likelihood is largest at 49/80, by the family's formula and by its derivative
    tosses = torch.cat((torch.ones(49, dtype=D), torch.zeros(31, dtype=D)))
    family = family_of("bernoulli")
    eta = family.natural(family.statistics(tosses).mean(0))
    assert float(family.parameters(eta)["p"]) == pytest.approx(49 / 80, abs=1e-14)
    p = torch.tensor(49 / 80, dtype=D, requires_grad=True)
    (slope,) = torch.autograd.grad(td.Binomial(80, p).log_prob(torch.tensor(49.0, dtype=D)), p)
    assert abs(float(slope)) < 1e-10
    grid = torch.linspace(0.001, 0.999, 999, dtype=D)
    best = grid[td.Binomial(80, grid).log_prob(torch.tensor(49.0, dtype=D)).argmax()]
    assert abs(float(best) - 49 / 80) <= 5e-4 + 1e-12
    assert float(moments(tosses).mean) == 49 / 80
    interval = mean_interval(tosses, method="z", sigma=math.sqrt(49 * 31) / 80)
    assert float(interval.low) > 0.5  # a fair coin is outside the 95 % interval


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_device():
    x = skewed(50, 3)
    assert moments(x.cuda()).skewness().device.type == "cuda"
    torch.testing.assert_close(correlation(x.cuda()).cpu(), correlation(x), rtol=1e-10, atol=1e-10)
    found = bootstrap(x.cuda(), lambda z: z.mean(0), method="bca", n_resamples=500, seed=0)
    assert found.low.device.type == "cuda" and (found.low < found.value).all()
    assert t_test(x[:, 0].cuda()).p_value == pytest.approx(t_test(x[:, 0]).p_value, rel=1e-10)
    sampler = monte_carlo(quarter, lambda n, g: torch.rand(n, 2, generator=g, device="cuda"), seed=0, device="cuda")
    assert abs(sampler.value - math.pi) < 4 * sampler.stderr
