"""Metrics of generated samples against published formulas in NumPy and SciPy, and against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.linalg import sqrtm
from scipy.optimize import linear_sum_assignment, linprog
from scipy.spatial.distance import cdist
from scipy.stats import wasserstein_distance

from benthic import metrics
from benthic.base.errors import InvalidInput

pytestmark = pytest.mark.spec("I-03")
RNG = np.random.default_rng(0)
REAL, MADE = RNG.normal(size=(150, 6)), 1.3 * RNG.normal(size=(110, 6)) + 0.3


def laws(X):
    return X.mean(0), np.cov(X.T)


def published_frechet(X, Y):
    """Heusel et al., 2017, by a general matrix square root."""
    (a, A), (b, B) = laws(X), laws(Y)
    return (a - b) @ (a - b) + np.trace(A + B - 2 * sqrtm(A @ B).real)


def published_kernel(X, Y, degree=3, offset=1.0):
    """Bińkowski et al., 2018: sums without the diagonals."""
    n, m = len(X), len(Y)
    xx, yy, xy = ((a @ b.T / a.shape[1] + offset) ** degree for a, b in ((X, X), (Y, Y), (X, Y)))
    within = (xx.sum() - np.trace(xx)) / (n * (n - 1)) + (yy.sum() - np.trace(yy)) / (m * (m - 1))
    return within - 2 * xy.mean()


def published_prdc(X, Y, k):
    """Kynkäänniemi et al., 2019, and Naeem et al., 2020."""
    xx, yy, xy = cdist(X, X), cdist(Y, Y), cdist(X, Y)
    r, s = np.sort(xx, 1)[:, k], np.sort(yy, 1)[:, k]
    precision = (xy <= r[:, None]).any(0).mean()
    recall = (xy <= s).any(1).mean()
    density = (xy < r[:, None]).sum() / (k * len(Y))
    coverage = (xy.min(1) < r).mean()
    return precision, recall, density, coverage


def values(found):
    return [part.value for part in found]


# ------------------------------------------------------------------------------------------------------ Fréchet


def test_frechet_is_the_published_formula():
    found = metrics.frechet_distance(REAL, MADE)
    assert found.value == pytest.approx(published_frechet(REAL, MADE), rel=1e-9)
    eigenvalues = np.linalg.eigvals(np.cov(REAL.T) @ np.cov(MADE.T))  # the trace of the root another way
    gap = REAL.mean(0) - MADE.mean(0)
    trace = np.trace(np.cov(REAL.T)) + np.trace(np.cov(MADE.T)) - 2 * np.sqrt(eigenvalues.astype(complex)).sum().real
    assert found.value == pytest.approx(gap @ gap + trace, rel=1e-9)


def test_frechet_with_fewer_rows_than_columns():
    X, Y = RNG.normal(size=(12, 30)), RNG.normal(size=(15, 30)) + 1
    with pytest.warns(UserWarning, match="singular"):
        found = metrics.frechet_distance(X, Y)
    assert found.value == pytest.approx(published_frechet(X, Y), rel=1e-6)  # sqrtm of a singular matrix loses digits


def test_both_ways_to_the_frechet_distance_agree_where_both_apply():
    from benthic.metrics.frechet_samples import _distance, _from_rows

    X, Y = (torch.tensor(RNG.normal(size=(20, 18))) for _ in range(2))
    rows, moments = _from_rows(X, Y), _distance(X, Y)
    np.testing.assert_allclose(rows, moments, rtol=1e-9)


def test_frechet_of_known_laws_is_the_closed_form():
    a, b = np.array([0.0, 1.0]), np.array([2.0, 0.0])
    A, B = np.diag([1.0, 4.0]), np.diag([9.0, 1.0])
    found = metrics.frechet_distance((a, A), (b, B))
    assert found.value == pytest.approx(5 + (1 - 3) ** 2 + (2 - 1) ** 2, rel=1e-12)
    assert found.stderr == 0


def test_the_error_of_one_known_law_is_that_of_the_other_sample():
    big = RNG.normal([1.0, 0.0], size=(400, 2))
    found = metrics.frechet_distance((np.zeros(2), np.eye(2)), big)
    # of |m|² + ..., with slopes 2m and I - T of the mean and covariance
    assert found.stderr == pytest.approx(2 / math.sqrt(400), rel=0.2)


def test_frechet_influence_is_the_jackknife():
    found = metrics.frechet_distance(REAL, MADE)
    squares = []
    for sample, other, first in ((REAL, MADE, True), (MADE, REAL, False)):
        left = [np.delete(sample, i, 0) for i in range(len(sample))]
        each = np.array([published_frechet(part, other) if first else published_frechet(other, part) for part in left])
        n = len(sample)
        squares.append((n - 1) / n * np.square(each - each.mean()).sum())
    assert found.stderr == pytest.approx(math.sqrt(sum(squares)), rel=0.05)  # equal to first order in 1/n


def test_extrapolation_takes_the_bias_out():
    truth = 8 * 0.5**2
    plain, endless = [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X, Y = rng.normal(size=(120, 8)), 1.5 * rng.normal(size=(120, 8))
        plain.append(metrics.frechet_distance(X, Y).value)
        endless.append(metrics.frechet_distance(X, Y, infinite=True, repeats=2).value)
    spread = np.std(endless, ddof=1) / math.sqrt(40)
    assert np.mean(plain) - truth > 5 * np.std(plain, ddof=1) / math.sqrt(40)
    assert abs(np.mean(endless) - truth) < 4 * spread


def test_extrapolation_agrees_with_a_regression_on_the_inverse_size():
    """Chong & Forsyth, 2020: a line through distances of random subsets of many sizes, at 1/n = 0."""
    rng = np.random.default_rng(3)
    X, Y = rng.normal(size=(600, 5)), 1.2 * rng.normal(size=(600, 5))
    sizes = np.linspace(200, 600, 15).astype(int)
    distances = [
        np.mean([published_frechet(*(s[rng.permutation(600)[:n]] for s in (X, Y))) for _ in range(6)]) for n in sizes
    ]
    intercept = np.polyfit(1 / sizes, distances, 1)[1]
    found = metrics.frechet_distance(X, Y, infinite=True, repeats=8)
    assert found.value == pytest.approx(intercept, abs=found.stderr)


# ---------------------------------------------------------------------------------------------- kernel distance


@pytest.mark.parametrize(("degree", "offset"), [(3, 1.0), (2, 0.5), (1, 0.0)])
def test_kernel_distance_is_the_published_formula(degree, offset):
    found = metrics.kernel_distance(REAL, MADE, degree=degree, offset=offset)
    assert found.value == pytest.approx(published_kernel(REAL, MADE, degree, offset), rel=1e-9)


def test_kernel_distance_of_tiles_is_that_of_the_whole():
    whole, tiles = (metrics.kernel_distance(REAL, MADE, elements=e) for e in (None, 64))
    np.testing.assert_allclose(tiles, whole, rtol=1e-9)


def test_kernel_distance_has_the_value_that_moments_give():
    """With x·y alone the discrepancy is the squared distance of the means."""
    rng = np.random.default_rng(1)
    X, Y = rng.normal(size=(2000, 3)), rng.normal([1.0, 0.0, 0.0], size=(2000, 3))
    found = metrics.kernel_distance(X, Y, degree=1, gamma=1.0)
    assert abs(found.value - 1) < 4 * found.stderr < 0.5


def test_blocks_average_to_the_kernel_distance():
    rng = np.random.default_rng(2)
    X, Y = rng.normal(size=(1000, 3)), rng.normal(size=(1000, 3)) + 0.5
    blocks, whole = metrics.kernel_distance(X, Y, block_size=50), metrics.kernel_distance(X, Y)
    assert abs(blocks.value - whole.value) < 3 * blocks.stderr
    assert blocks.stderr > whole.stderr  # pairs between blocks are not used


# ----------------------------------------------------------------------------------------------- balls and score


@pytest.mark.parametrize("k", [1, 3, 5])
@pytest.mark.parametrize("elements", [None, 500])
def test_prdc_is_the_published_formula(k, elements):
    found = metrics.prdc(REAL, MADE, k, elements=elements)
    np.testing.assert_allclose(values(found), published_prdc(REAL, MADE, k), atol=1e-12)


def test_prdc_of_copies_counts_edges_exactly():
    for made in (REAL[:90], np.repeat(REAL[:10], 5, 0)):
        np.testing.assert_allclose(values(metrics.prdc(REAL, made)), published_prdc(REAL, made, 5), atol=1e-12)


def test_prdc_on_a_grid_of_ties():
    X, Y = RNG.integers(4, size=(80, 2)).astype(float), RNG.integers(4, size=(70, 2)).astype(float)
    np.testing.assert_allclose(values(metrics.prdc(X, Y, 3)), published_prdc(X, Y, 3), atol=1e-12)


def test_prdc_far_from_zero():
    found = metrics.prdc(REAL + 1e5, MADE + 1e5)
    np.testing.assert_allclose(values(found), published_prdc(REAL, MADE, 5), atol=1e-12)


def test_the_pairs_have_the_papers_defaults():
    np.testing.assert_allclose(values(metrics.sample_precision_recall(REAL, MADE)), published_prdc(REAL, MADE, 3)[:2])
    np.testing.assert_allclose(values(metrics.density_coverage(REAL, MADE)), published_prdc(REAL, MADE, 5)[2:])


def test_left_out_groups_are_those_of_the_published_formula():
    """The jackknife, with everything computed anew for each group that is left out."""
    from benthic.metrics.samples import grouped

    groups, k = 5, 3
    found = metrics.prdc(REAL, MADE, k, groups=groups)
    variance = np.zeros(4)
    for side, sample in enumerate((REAL, MADE)):
        group = grouped(len(sample), groups, 0, torch.device("cpu")).numpy()
        rows = [(sample[group != g], MADE) if side == 0 else (REAL, sample[group != g]) for g in range(groups)]
        each = np.array([published_prdc(X, Y, k) for X, Y in rows])
        variance += (groups - 1) / groups * np.square(each - each.mean(0)).sum(0)
    np.testing.assert_allclose([part.stderr for part in found], np.sqrt(variance), atol=1e-12)


def test_one_law_has_density_one_and_coverage_as_known():
    rng = np.random.default_rng(5)
    n, k = 2000, 5
    found = metrics.prdc(rng.normal(size=(n, 2)), rng.normal(size=(n, 2)), k)
    assert abs(found.density.value - 1) < 4 * found.density.stderr
    expected = 1 - math.prod((n - i) / (2 * n - i) for i in range(1, k + 1))  # Naeem et al., 2020, lemma 2
    assert abs(found.coverage.value - expected) < 4 * found.coverage.stderr


def test_inception_score_is_the_published_formula():
    p = RNG.dirichlet(np.full(7, 0.3), 400)
    expected = math.exp(np.mean(np.sum(p * (np.log(p) - np.log(p.mean(0))), 1)))
    assert metrics.inception_score(p).value == pytest.approx(expected, rel=1e-9)
    assert metrics.inception_score(p.astype(np.float32)).value == pytest.approx(expected, rel=1e-5)


def test_inception_score_at_its_ends():
    assert metrics.inception_score(np.eye(5)).value == pytest.approx(5)
    assert metrics.inception_score(np.full((9, 5), 0.2)).value == pytest.approx(1)
    assert metrics.inception_score(np.tile(np.eye(5), (20, 1)), splits=4).value == pytest.approx(5, rel=0.15)


def test_bits_per_dimension_of_the_true_law_are_its_entropy():
    """Two independent columns of four grays, spread evenly over their steps: the density is p / step a column."""
    p, step = np.array([0.5, 0.25, 0.125, 0.125]), 0.25
    rows = RNG.choice(4, size=(4000, 2), p=p)
    nats = metrics.mean_of(np.log(p[rows] / step).sum(1))
    found = metrics.bits_per_dimension(nats, 2, level=step)
    assert abs(found.value - 1.75) < 4 * found.stderr < 0.1
    with pytest.raises(InvalidInput, match="dimensions is 0"):
        metrics.bits_per_dimension(nats, 0)


# -------------------------------------------------------------------------------------------------- Wasserstein


@pytest.mark.parametrize("p", [1, 2])
def test_exact_wasserstein_is_the_linear_program(p):
    X, Y = REAL[:30], MADE[:30]
    cost = cdist(X, Y) ** p
    rows, columns = linear_sum_assignment(cost)
    expected = cost[rows, columns].mean() ** (1 / p)
    assert metrics.exact_wasserstein(X, Y, p).value == pytest.approx(expected, rel=1e-9)
    cost = cdist(X, MADE[:20]) ** p
    sums = np.vstack([np.kron(np.eye(30), np.ones(20)), np.kron(np.ones(30), np.eye(20))])
    masses = np.concatenate([np.full(30, 1 / 30), np.full(20, 1 / 20)])
    expected = linprog(cost.ravel(), A_eq=sums, b_eq=masses).fun ** (1 / p)
    assert metrics.exact_wasserstein(X, MADE[:20], p).value == pytest.approx(expected, rel=1e-7)


def test_large_samples_are_cut_to_equal_numbers():
    found = metrics.exact_wasserstein(REAL, MADE, max_rows=40)
    assert math.isfinite(found.stderr)
    assert abs(found.value - metrics.exact_wasserstein(REAL, MADE).value) < 5 * found.stderr


@pytest.mark.parametrize("m", [150, 110, 60])
def test_sliced_on_a_line_is_the_distance_there(m):
    x, y = REAL[:, :1], MADE[:m, :1]
    expected = wasserstein_distance(x[:, 0], y[:, 0])
    assert metrics.sliced_wasserstein(x, y, 1).value == pytest.approx(expected, rel=1e-9)
    assert metrics.exact_wasserstein(x, y, 1).value == pytest.approx(expected, rel=1e-9)


def test_sliced_is_the_house_distance_of_the_same_directions():
    from benthic.base.seeds import generator
    from benthic.transport import sliced

    theta = torch.randn(50, 6, generator=generator(4, "sliced_wasserstein"), dtype=torch.float64)
    expected = sliced(REAL, MADE, 2, torch.nn.functional.normalize(theta, dim=1))
    assert metrics.sliced_wasserstein(REAL, MADE, 2, directions=50, seed=4).value == pytest.approx(
        float(expected.value)
    )


def test_sliced_of_gaussians_is_the_closed_form():
    """N(0, I) and N(m, s² I): every direction is a normal law of mean m·θ, so SW² = |m|²/d + (s - 1)²."""
    rng = np.random.default_rng(6)
    X, Y = rng.normal(size=(4000, 3)), 2 * rng.normal(size=(4000, 3)) + [1.0, 2.0, 0.0]
    found = metrics.sliced_wasserstein(X, Y, directions=300)
    assert abs(found.value - math.sqrt(5 / 3 + 1)) < 4 * found.stderr


@pytest.mark.parametrize(("n", "m"), [(9, 9), (9, 6), (5, 8)])
def test_potentials_are_dual_optimal(n, m):
    from benthic.metrics.transported import _potentials

    x, y = (torch.tensor(RNG.normal(size=(3, size))).sort(1).values for size in (n, m))
    f, g = _potentials(x, y, 2), _potentials(y, x, 2)
    slack = (x[:, :, None] - y[:, None, :]).square() - f[:, :, None] - g[:, None, :]
    cost = [metrics.exact_wasserstein(a[:, None], b[:, None]).value ** 2 for a, b in zip(x, y, strict=True)]
    shift = slack.amin((1, 2))  # the constant that both are free of
    np.testing.assert_allclose(shift, cost, rtol=1e-9)  # feasible, and as dear as the cheapest plan


# ------------------------------------------------------------------------------------------------ all at the door


SAMPLE_METRICS = {
    "frechet_distance": metrics.frechet_distance,
    "kernel_distance": metrics.kernel_distance,
    "prdc": metrics.prdc,
    "sample_precision_recall": metrics.sample_precision_recall,
    "density_coverage": metrics.density_coverage,
    "sliced_wasserstein": metrics.sliced_wasserstein,
    "exact_wasserstein": metrics.exact_wasserstein,
    "authenticity": metrics.authenticity,
}


@pytest.mark.parametrize("name", SAMPLE_METRICS)
def test_arrays_tensors_and_images_are_the_same(name):
    metric = SAMPLE_METRICS[name]
    expected = np.ravel(metric(REAL, MADE))
    np.testing.assert_allclose(np.ravel(metric(torch.tensor(REAL), torch.tensor(MADE))), expected)
    np.testing.assert_allclose(np.ravel(metric(REAL.reshape(-1, 1, 2, 3), MADE.reshape(-1, 1, 2, 3))), expected)
    half = np.ravel(metric(REAL.astype(np.float32), MADE.astype(np.float32)))
    np.testing.assert_allclose(half, expected, rtol=1e-4)
    doubled = metric(REAL / 2, MADE / 2, features=lambda X: 2 * X)
    np.testing.assert_allclose(np.ravel(doubled), expected, rtol=1e-9)


@pytest.mark.parametrize("name", SAMPLE_METRICS)
def test_bad_samples_get_one_sentence(name):
    metric = SAMPLE_METRICS[name]
    hole = REAL.copy()
    hole[3, 2] = np.nan
    for samples, sentence in [
        ((hole, MADE), "NaN or infinity"),
        ((REAL, MADE[:, :4]), "6 columns and generated has 4"),
        ((np.array([["a", "b"]]), MADE), "not numbers"),
        ((REAL[:, 0], MADE), r"shape \(150,\)"),
        ((REAL[:0], MADE), "at least one point"),
    ]:
        with pytest.raises(InvalidInput, match=sentence) as caught:
            metric(*samples)
        assert str(caught.value).startswith(f"{name}: ")


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: metrics.frechet_distance(REAL[:1], MADE), "real has 1 rows; at least 2"),
        (lambda: metrics.frechet_distance(REAL, MADE[:3], infinite=True), "generated has 3 rows; at least 4"),
        (lambda: metrics.frechet_distance(REAL, MADE, infinite=True, repeats=0), "repeats is 0"),
        (lambda: metrics.frechet_distance((np.zeros(2),), MADE), "tuple of 1"),
        (lambda: metrics.frechet_distance((np.zeros(6), np.nan * np.eye(6)), MADE), "covariance of real holds NaN"),
        (lambda: metrics.frechet_distance((np.zeros(2), np.eye(2)), MADE), "2 columns and generated has 6"),
        (lambda: metrics.kernel_distance(REAL[:1], MADE), "real has 1 rows; at least 2"),
        (lambda: metrics.kernel_distance(REAL, MADE, gamma=-1.0), "gamma is -1"),
        (lambda: metrics.kernel_distance(REAL, MADE, block_size=100), "block_size is 100"),
        (lambda: metrics.prdc(REAL[:5], MADE, 5), "real has 5 rows and k is 5"),
        (lambda: metrics.prdc(REAL, MADE[:3], 5), "generated has 3 rows and k is 5"),
        (lambda: metrics.prdc(REAL, MADE, 0), "k is 0"),
        (lambda: metrics.prdc(REAL, MADE, groups=1), "groups is 1"),
        (lambda: metrics.sliced_wasserstein(REAL, MADE, directions=0), "directions is 0"),
        (lambda: metrics.exact_wasserstein(REAL, MADE, max_rows=1), "max_rows is 1"),
        (lambda: metrics.inception_score([[0.5, 0.4]]), "sums to 0.9"),
        (lambda: metrics.inception_score([[1.5, -0.5]]), "zero or more"),
        (lambda: metrics.inception_score([0.5, 0.5]), r"\(n, classes\)"),
        (lambda: metrics.inception_score([[0.5, np.nan]]), "NaN"),
        (lambda: metrics.inception_score(np.eye(2), splits=3), "splits is 3"),
    ],
)
def test_bad_settings_get_one_sentence(call, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        call()


def test_small_samples_have_a_value_without_an_error():
    found = metrics.prdc(REAL[:7], MADE[:7], 5)
    np.testing.assert_allclose(values(found), published_prdc(REAL[:7], MADE[:7], 5))
    assert all(math.isnan(part.stderr) for part in found)
