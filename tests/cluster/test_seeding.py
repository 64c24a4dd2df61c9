"""Seeds depend on rows and weights, not on order or repetition, and are drawn with the right odds."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benthic.cluster.seeding import assign, inverse_cdf, lloyd, order_of, plus_plus, random_rows, sort_rows


def points(n=60, d=2, seed=0):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("constant", [0, 1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_order_of_rows_depends_on_their_numbers_alone(dtype, constant):
    X = (10 * points(500, 3)).round().to(dtype)  # many ties, some rows equal
    X[:, :constant] = 0.0
    shuffled = X[torch.randperm(500, generator=torch.Generator().manual_seed(1))]
    ordered = X[order_of(X)]
    torch.testing.assert_close(ordered, shuffled[order_of(shuffled)], rtol=0, atol=0)
    assert bool((ordered[:, 0].diff() >= 0).all())
    changes = int((ordered.diff(dim=0) != 0).any(1).sum())
    assert changes == len(torch.unique(X, dim=0)) - 1  # equal rows are neighbors


@pytest.mark.parametrize("limit", [None, 17])
@pytest.mark.parametrize("seeds", [plus_plus, random_rows])
def test_weight_is_repetition_and_order_is_nothing(seeds, limit):
    X = points()
    weight = torch.randint(0, 4, (60,), generator=torch.Generator().manual_seed(1)).double()
    repeated = X.repeat_interleave(weight.long(), 0)
    repeated = repeated[torch.randperm(len(repeated), generator=torch.Generator().manual_seed(2))]
    for seed in range(20):
        first = seeds(sort_rows(X, weight, limit), 5, np.random.default_rng(seed))
        second = seeds(sort_rows(repeated, None, limit), 5, np.random.default_rng(seed))
        torch.testing.assert_close(first, second, rtol=0, atol=0)
        a = lloyd(sort_rows(X, weight, limit), first, 10)
        torch.testing.assert_close(a, lloyd(sort_rows(repeated, None, limit), first, 10))


def test_rows_are_drawn_in_proportion_to_their_weight():
    weight = torch.tensor([1.0, 0.0, 3.0, 6.0], dtype=torch.float64)
    levels = torch.rand(20_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 10
    shares = torch.bincount(inverse_cdf(weight, levels), minlength=4).double() / 20_000
    assert shares[1] == 0
    assert float((shares - weight / 10).abs().max()) < 4.5 * 0.5 / 20_000**0.5


def test_thinned_rows_keep_the_distribution():
    X = points(5000, 1)
    thin = sort_rows(X, None, 200)
    assert len(thin.X) == 200 and float(thin.weight.sum()) == pytest.approx(5000)
    # at even steps of the distribution function no quantile is off by more than half a step
    ranks = torch.searchsorted(X[:, 0].sort().values, thin.X[:, 0]).double() / 5000
    expected = (torch.arange(200) + 0.5) / 200
    assert float((ranks - expected).abs().max()) <= 0.5 / 200 + 1 / 5000


def test_far_clusters_get_one_seed_each():
    centers = 100 * torch.eye(4, dtype=torch.float64)
    X = centers.repeat_interleave(25, 0) + points(100, 4)
    rows = sort_rows(X)
    for seed in range(10):
        found = plus_plus(rows, 4, np.random.default_rng(seed))
        assert sorted(assign(found, centers).tolist()) == [0, 1, 2, 3]


def test_random_rows_differ_while_there_are_different_ones():
    rows = sort_rows(torch.tensor([[1.0], [1.0], [2.0], [2.0], [3.0]], dtype=torch.float64))
    drawn = random_rows(rows, 3, np.random.default_rng(0))
    assert sorted(drawn.flatten().tolist()) == [1.0, 2.0, 3.0]
    assert random_rows(rows, 5, np.random.default_rng(0)).shape == (5, 1)


def test_lloyd_lowers_the_inertia_and_keeps_empty_centers():
    rows = sort_rows(points(300))

    def inertia(centers):
        return float((rows.X - centers[assign(rows.X, centers)]).square().sum())

    centers = [random_rows(rows, 6, np.random.default_rng(0))]
    for _ in range(8):
        centers.append(lloyd(rows, centers[-1], 1))
    drops = np.diff([inertia(c) for c in centers])
    assert (drops <= 1e-9).all() and drops[0] < 0
    far = torch.cat([centers[0], torch.tensor([[1e6, 1e6]], dtype=torch.float64)])
    torch.testing.assert_close(lloyd(rows, far, 3)[-1], far[-1])
