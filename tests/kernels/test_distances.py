"""Distances against SciPy, near pairs in single precision, gradients, neighbors against a full sort."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.spatial import distance
from sklearn.neighbors import NearestNeighbors

from benthic.base.errors import InvalidInput
from benthic.calculus import jacobian
from benthic.kernels import blocks, median_distance, nearest, pairwise, squared_distances


def points(n, d=3, seed=0):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


COVARIANCE = np.array([[2.0, 0.3, 0.1], [0.3, 1.0, -0.2], [0.1, -0.2, 0.5]])
PEERS = {
    "euclidean": ("euclidean", {}, {}),
    "sqeuclidean": ("sqeuclidean", {}, {}),
    "manhattan": ("cityblock", {}, {}),
    "chebyshev": ("chebyshev", {}, {}),
    "minkowski": ("minkowski", {"p": 2.5}, {"p": 2.5}),
    "cosine": ("cosine", {}, {}),
    "mahalanobis": ("mahalanobis", {"covariance": COVARIANCE}, {"VI": np.linalg.inv(COVARIANCE)}),
    "hamming": ("hamming", {}, {}),
}


@pytest.mark.spec("B-05")
@pytest.mark.parametrize("metric", PEERS)
def test_distances_are_scipys(metric):
    name, options, theirs = PEERS[metric]
    X, Y = points(12), points(9, seed=1)
    if metric == "hamming":
        X, Y = X.round(), Y.round()
    want = distance.cdist(X, Y, name, **theirs)
    np.testing.assert_allclose(pairwise(X, Y, metric, **options), want, rtol=1e-12, atol=1e-13)
    single = pairwise(X.float(), Y.float(), metric, **options)
    assert single.dtype == torch.float32
    np.testing.assert_allclose(single, want, rtol=1e-5, atol=1e-5)
    batch = pairwise(torch.stack([X, X + 1]), Y, metric, **options)
    np.testing.assert_allclose(batch[0], want, rtol=1e-12, atol=1e-13)


@pytest.mark.spec("B-05")
def test_mahalanobis_from_precision_and_from_the_points():
    X, Y = points(12), points(9, seed=1)
    want = distance.cdist(X, Y, "mahalanobis", VI=np.linalg.inv(COVARIANCE))
    np.testing.assert_allclose(pairwise(X, Y, "mahalanobis", precision=np.linalg.inv(COVARIANCE)), want, rtol=1e-11)
    pooled = np.cov(np.vstack([X, Y]).T)
    want = distance.cdist(X, Y, "mahalanobis", VI=np.linalg.inv(pooled))
    np.testing.assert_allclose(pairwise(X, Y, "mahalanobis"), want, rtol=1e-11)
    # Whitening the space turns it into the Euclidean distance.
    rotation = torch.linalg.qr(points(3, 3, seed=2))[0]
    moved = pairwise(
        X @ rotation, Y @ rotation, "mahalanobis", covariance=rotation.T @ torch.tensor(COVARIANCE) @ rotation
    )
    torch.testing.assert_close(moved, pairwise(X, Y, "mahalanobis", covariance=COVARIANCE))


@pytest.mark.parametrize("d", [2, 40])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_near_points_far_from_zero_have_correct_digits(d, dtype):
    # Points a few rounding units apart around 100: a plain product would return noise.
    eps = torch.finfo(dtype).eps
    X = (100 + points(30, d)).to(dtype)
    Y = X + (200 * eps * points(30, d, seed=1)).to(dtype)
    exact = torch.tensor(
        [
            [float(((a.numpy().astype(np.longdouble) - b.numpy().astype(np.longdouble)) ** 2).sum()) for b in Y]
            for a in X
        ],
        dtype=torch.float64,
    )
    got = squared_distances(X, Y).double()
    # Differences of stored numbers are exact; squares and sums round d times at most, other pairs 1e3 units.
    torch.testing.assert_close(got, exact, rtol=2e3 * eps, atol=0)
    assert bool((squared_distances(X).diagonal() == 0).all())


@pytest.mark.parametrize("d", [2, 17])
def test_squared_distances_differentiate_twice_and_by_transforms(d):
    X, Y = points(3, d).requires_grad_(), points(2, d, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(squared_distances, (X, Y))
    assert torch.autograd.gradgradcheck(squared_distances, (X, Y))
    X, Y = X.detach(), Y.detach()
    forward = jacobian(lambda a: squared_distances(a, Y), X, mode="forward")
    torch.testing.assert_close(forward, torch.func.jacrev(lambda a: squared_distances(a, Y))(X))


@pytest.mark.parametrize("metric", [m for m in PEERS if m != "hamming"])
def test_gradients_of_distances(metric):
    X, Y = points(4).requires_grad_(), points(3, seed=1).requires_grad_()
    options = PEERS[metric][1]
    assert torch.autograd.gradcheck(lambda a, b: pairwise(a, b, metric, **options), (X, Y))


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "minkowski", "chebyshev", "mahalanobis", "cosine"])
def test_gradients_at_coinciding_points_are_finite(metric):
    X = points(4).requires_grad_()
    (slope,) = torch.autograd.grad(pairwise(X, None, metric).sum(), X)
    assert bool(torch.isfinite(slope).all())


def test_cosine_of_nearly_parallel_rows():
    angle = torch.tensor([1e-3, 1e-4], dtype=torch.float32)
    rows = torch.stack([angle.cos(), angle.sin()], 1)
    got = pairwise(torch.tensor([[5.0, 0.0]]), rows, "cosine")[0]
    np.testing.assert_allclose(got, 1 - np.cos(angle.double().numpy()), rtol=1e-3)


@pytest.mark.parametrize("elements", [1, 7, 50, 10**6])
def test_blocks_cover_every_entry_once(elements):
    seen = np.zeros((13, 9), int)
    for rows, columns in blocks(13, 9, elements):
        seen[rows, columns] += 1
        assert (rows.stop - rows.start) * (columns.stop - columns.start) <= elements
    assert (seen == 1).all()


@pytest.mark.parametrize("metric", list(PEERS))
@pytest.mark.parametrize("elements", [60, 10**6])
def test_neighbors_are_those_of_a_full_sort(metric, elements):
    X, Y, options = points(23), points(31, seed=1), PEERS[metric][1]
    value, index = nearest(X, Y, 4, metric, elements=elements, **options)
    D = pairwise(X, Y, metric, **options)
    torch.testing.assert_close(value, D.sort(1).values[:, :4])
    torch.testing.assert_close(D.gather(1, index), value)
    value, index = nearest(X, None, 4, metric, elements=elements, **options)
    D = pairwise(X, None, metric, **options) + torch.diag(torch.full((23,), torch.inf, dtype=torch.float64))
    torch.testing.assert_close(value, D.sort(1).values[:, :4])
    assert bool((index != torch.arange(23)[:, None]).all())


def test_neighbors_of_wide_data_are_scikit_learns():
    X, Y = points(200, 30).float(), points(300, 30, seed=1).float()
    value, index = nearest(X, Y, 5, elements=3000)
    theirs, places = (
        NearestNeighbors(n_neighbors=5, algorithm="brute").fit(Y.double().numpy()).kneighbors(X.double().numpy())
    )
    np.testing.assert_allclose(value, theirs, rtol=1e-5)
    assert (index.numpy() == places).mean() > 0.999


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_neighbors_among_near_duplicates_far_from_zero(dtype):
    # Clusters so tight that products only see noise inside them: the search must notice, and search again.
    eps = torch.finfo(dtype).eps
    centers = (10 * points(5, 6)).repeat_interleave(60, 0)
    X = (centers + 1e4 * eps * points(300, 6, seed=1)).to(dtype)
    value, index = nearest(X, None, 4, elements=3000)
    exact = (X.double()[:, None] - X.double()[None]).square().sum(-1).sqrt()
    exact.fill_diagonal_(torch.inf)
    torch.testing.assert_close(value.double(), exact.sort(1).values[:, :4], rtol=1e-5, atol=0)
    torch.testing.assert_close(exact.gather(1, index), value.double(), rtol=1e-5, atol=0)


def test_neighbors_in_one_wide_tile():
    X, Y = points(20, 4), points(5003, 4, seed=1)
    value, index = nearest(X, Y, 3)
    torch.testing.assert_close(value, pairwise(X, Y).sort(1).values[:, :3])
    torch.testing.assert_close(pairwise(X, Y).gather(1, index), value)


def test_distances_of_neighbors_have_gradients():
    X, Y = points(6).requires_grad_(), points(8, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: nearest(a, b, 2)[0], (X, Y))


def test_mahalanobis_neighbors_use_all_points_for_the_covariance():
    X, Y = points(23), points(31, seed=1) * torch.tensor([1.0, 3.0, 0.2])
    want = pairwise(X, Y, "mahalanobis").sort(1).values[:, :3]
    torch.testing.assert_close(nearest(X, Y, 3, "mahalanobis", elements=40)[0], want)


def test_median_distance():
    X = points(60)
    assert float(median_distance(X)) == pytest.approx(float(np.median(distance.pdist(X))), rel=0.01)
    subset = [float(median_distance(points(4000), 1500, seed=s)) for s in range(3)]
    # Standard normal points in three dimensions: the median of chi with 3 degrees of freedom, times the root of 2.
    np.testing.assert_allclose(subset, 1.5382 * np.sqrt(2), rtol=0.08)  # 1500 rows know it to 0.015
    assert float(median_distance([[0.0]] * 9 + [[2.0]])) == pytest.approx(2.0)
    with pytest.raises(InvalidInput, match="all points coincide"):
        median_distance(torch.ones(5, 2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pairwise(points(3), points(3), "euclidian"), "did you mean 'euclidean'"),
        (lambda: pairwise(points(3), points(3, 2)), "X has 3 columns and Y 2"),
        (lambda: pairwise(points(3), metric="minkowski", p=0), "p is 0"),
        (lambda: pairwise(torch.zeros(2, 3), metric="cosine"), "X has a row of zeros"),
        (lambda: pairwise(points(3), metric="mahalanobis", covariance=np.eye(2)), r"\(3, 3\) is needed"),
        (lambda: pairwise(points(3), metric="mahalanobis", covariance=np.triu(np.ones((3, 3)))), "not symmetric"),
        (lambda: pairwise(points(3), metric="mahalanobis", covariance=-np.eye(3)), "not positive definite"),
        (lambda: pairwise(points(3), metric="mahalanobis", covariance=np.eye(3), precision=np.eye(3)), "both given"),
        (lambda: pairwise(points(1), metric="mahalanobis"), "positive definite|one point"),
        (lambda: pairwise(points(3), covariance=np.eye(3)), "belong to 'mahalanobis'"),
        (lambda: squared_distances(torch.zeros(0, 2)), "at least one point"),
        (lambda: squared_distances([[float("nan")]]), "holds NaN"),
        (lambda: squared_distances(torch.zeros(2, 2, dtype=torch.complex64)), "convert it"),
        (lambda: nearest(points(3), points(2), 3), "k is 3 and there are 2 points"),
        (lambda: nearest(points(3), None, 3), "k is 3 and there are 2 points"),
        (lambda: list(blocks(3, 3, 0)), "elements is 0"),
    ],
)
def test_bad_input_gets_a_sentence(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()
