"""Every way of searching finds the neighbors of a float64 search over all pairs, ties included."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

from benthic.base.errors import InvalidInput
from benthic.kernels import grouping, nearest
from benthic.kernels.neighbors import _directly, _on_device, plant, search

METRICS = {
    "euclidean": ("euclidean", {}),
    "sqeuclidean": ("sqeuclidean", {}),
    "manhattan": ("cityblock", {}),
    "chebyshev": ("chebyshev", {}),
    "minkowski": ("minkowski", {"p": 1.5}),
    "cosine": ("cosine", {}),
    "hamming": ("hamming", {}),
}
TREES = [name for name in METRICS if name != "hamming"]


def truth(X, Y, k, metric="euclidean", own=None, **options):
    """Indices by distance, then by index, of SciPy's distances between float64 points."""
    D = cdist(X.double().numpy(), Y.double().numpy(), metric, **options)
    if own is not None:
        D[np.arange(len(X)), own] = np.inf
    order = np.lexsort((np.broadcast_to(np.arange(D.shape[1]), D.shape), D))[:, :k]
    return np.take_along_axis(D, order, 1), order


def points(n, d, seed=0, dtype=torch.float64):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def grid(n, d, seed=0):
    """Whole numbers, so that distances tie often and are exact."""
    return torch.randint(0, 4, (n, d), generator=torch.Generator().manual_seed(seed)).double()


@pytest.mark.spec("F-06")
@pytest.mark.parametrize("metric", METRICS)
def test_loops_agree_with_scipy(metric):
    X, Y = (grid if metric == "hamming" else points)(60, 6), (grid if metric == "hamming" else points)(3000, 6, 1)
    name, options = METRICS[metric]
    distance, index = search(X, Y, 7, metric, **options)
    want, order = truth(X, Y, 7, name, **options)
    np.testing.assert_allclose(distance, want, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(index, order)


@pytest.mark.spec("F-06")
@pytest.mark.parametrize("metric", TREES)
@pytest.mark.parametrize("leaf", [1, 16])
def test_the_tree_agrees_with_scipy(metric, leaf):
    X, Y = points(40, 3), points(999, 3, 1)
    name, options = METRICS[metric]
    rows = Y / Y.norm(dim=1, keepdim=True) if metric == "cosine" else Y
    distance, index = search(X, Y, 7, metric, tree=plant(rows, leaf), **options)
    want, order = truth(X, Y, 7, name, **options)
    np.testing.assert_allclose(distance, want, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(index, order)


@pytest.mark.spec("F-06")
def test_ties_go_to_the_lower_index_in_every_way():
    X, Y = grid(50, 5), grid(2500, 5, 1)
    want, order = truth(X, Y, 9)
    ways = {
        "groups": search(X, Y, 9),
        "tree": search(X, Y, 9, tree=plant(Y, 8)),
        "tiles": _directly(X, Y, 9, None, 700, lambda a, b: torch.cdist(a, b)),
    }
    for way, (distance, index) in ways.items():
        np.testing.assert_array_equal(index, order, err_msg=way)
        np.testing.assert_allclose(distance, want, rtol=1e-14, err_msg=way)
    _near, index = grouping.by_products(X, Y, 9)
    sure = (index >= 0).all(1).numpy()
    np.testing.assert_array_equal(index.numpy()[sure], order[sure])


@pytest.mark.parametrize("halves", [False, True])
@pytest.mark.parametrize("kind", ["normal", "outliers", "far", "tiny", "huge"])
def test_the_bounds_of_groups_hold(kind, halves):
    X, Y = points(30, 40), points(700, 40, 1)
    if kind == "outliers":
        Y[::50] *= 1e4
    X, Y = {"far": (X + 1e5, Y + 1e5), "tiny": (X * 1e-150, Y * 1e-150), "huge": (X * 1e120, Y * 1e120)}.get(
        kind, (X, Y)
    )
    made = grouping.frame(X, Y, halves)
    minima, reach = grouping.minima_of(made, slice(0, 30), 64)
    D = (made.unit * cdist(X.numpy(), Y.numpy())) ** 2
    for i in range(30):
        for g in range(minima.shape[1]):
            columns = grouping._columns(torch.tensor([[g]]), len(Y), 64)[0, : grouping.GROUP]
            least = D[i, columns].min()
            assert float(minima[i, g]) <= least + float(reach[i]), (i, g)
    if kind == "normal":  # and they are close
        slack = (reach.numpy() + made.unit**2 * (X - Y.mean(0)).square().sum(1).numpy()) / D.mean(1)
        assert slack.max() < (2e-3 if halves else 1e-4)


@pytest.mark.spec("F-06")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", ["normal", "clusters", "far", "outliers", "copies"])
def test_products_never_lose_a_neighbor(kind, dtype):
    Y = points(2000, 20, 1)
    if kind == "clusters":  # much closer than the rounding of a product
        Y = 1e-6 * Y + 100 * points(10, 20, 2).repeat(200, 1)
    elif kind == "far":
        Y = Y + 1e4
    elif kind == "outliers":
        Y[::100] *= 1e6
    elif kind == "copies":
        Y = Y[:50].repeat(40, 1)
    Y = Y.to(dtype)
    X = (Y[:80].double() + 1e-3 * points(80, 20, 3) * Y.double().std()).to(dtype)
    want, order = truth(X, Y, 6)
    for distance, index in (search(X, Y, 6), search(X, Y, 6, elements=5000)):
        np.testing.assert_array_equal(index, order)
        np.testing.assert_allclose(distance, want, rtol=1e-9)
    _near, index = grouping.by_products(X, Y, 6, None, 20_000)  # the way of a device
    sure = (index >= 0).all(1).numpy()
    np.testing.assert_array_equal(index.numpy()[sure], order[sure])
    if kind == "normal":
        assert sure.all()


def test_rows_without_themselves():
    Y = points(900, 8)
    own = torch.arange(900)
    _want, order = truth(Y, Y, 4, own=own.numpy())
    for found in (search(Y, Y, 4, own=own), search(Y, Y, 4, own=own, tree=plant(Y)), nearest(Y, None, 4)):
        np.testing.assert_array_equal(found[1], order)
    _near, index = grouping.by_products(Y, Y, 4, own)
    np.testing.assert_array_equal(index, order)


@pytest.mark.parametrize("n_jobs", [1, 2, -1])
def test_threads_change_nothing(n_jobs):
    X, Y = points(300, 3), points(2000, 3, 1)
    before = torch.get_num_threads()
    for tree in (None, plant(Y)):
        one, other = search(X, Y, 5, n_jobs=1, tree=tree), search(X, Y, 5, n_jobs=n_jobs, tree=tree)
        assert torch.equal(one[0], other[0]) and torch.equal(one[1], other[1])
    assert torch.get_num_threads() == before


def test_a_metric_of_ones_own():
    X, Y = points(20, 3), points(300, 3, 1)
    found = nearest(X, Y, 5, lambda a, b: (a - b).abs().sum(-1))
    want = nearest(X, Y, 5, "manhattan")
    assert torch.equal(found[1], want[1])
    torch.testing.assert_close(found[0], want[0])
    with pytest.raises(InvalidInput, match="metric returned .* it must reduce the last dimension"):
        nearest(X, Y, 5, lambda a, b: (a - b).abs())


def test_all_points_are_neighbors():
    X, Y = points(3, 2), points(40, 2, 1)
    for tree in (None, plant(Y, 4)):
        np.testing.assert_array_equal(search(X, Y, 40, tree=tree)[1], truth(X, Y, 40)[1])


@pytest.mark.parametrize("alone", [False, True])
def test_the_way_of_a_device_ends_where_the_loops_end(alone):
    for Y in (grid(1500, 4), points(1500, 12), points(30, 3)):
        X = Y if alone else Y[:40] + 0.5
        own = torch.arange(len(Y)) if alone else None
        there, here = _on_device(X, Y, 5, own, 50_000), search(X, Y, 5, "sqeuclidean", own=own)
        assert torch.equal(there[1], here[1])
        torch.testing.assert_close(there[0], here[0], rtol=1e-12, atol=0)


def test_coarse_products_are_not_trusted():
    X, Y = points(40, 16, dtype=torch.float32), points(3000, 16, 1, torch.float32)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        assert grouping.frame(X, Y).left.dtype == torch.float64
        np.testing.assert_array_equal(search(X, Y, 5)[1], truth(X, Y, 5)[1])
    finally:
        torch.set_float32_matmul_precision(before)
