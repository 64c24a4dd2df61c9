"""k-means on CUDA: the kernels agree with float64, and fits with those on the CPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from benthic.cluster import KMeans, fused
from benthic.cluster.memory import memory_of, nearest
from benthic.cluster.swift import Swift

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.spec("H-01"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


@pytest.mark.parametrize(
    ("n", "d", "k"), [(1000, 3, 2), (5000, 64, 256), (3001, 17, 33), (4000, 128, 90), (2000, 200, 5), (900, 300, 7)]
)
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_nearest_centers_are_those_of_float64(n, d, k, scale):
    rng = torch.Generator().manual_seed(0)
    X = scale * torch.randn(n, d, generator=rng)
    X[::7] *= 1e-3  # rows of very different length
    centers = X[:k].clone()
    labels, cost = nearest(X.cuda(), centers.cuda())
    wide = torch.cdist(X.double(), centers.double(), compute_mode="donot_use_mm_for_euclid_dist")
    assert fused.available(X.cuda()) == (d <= fused.LARGEST_WIDTH)
    mine = wide.gather(1, labels.cpu().long()[:, None])[:, 0]
    bound = 1e-5 * (X.double().norm(dim=1) + centers.double().norm(dim=1).max()) * scale
    assert (mine.square() - wide.amin(1).square() <= bound * 1e-1 * wide.max() / scale).all()
    torch.testing.assert_close(cost.cpu().double(), mine.square(), rtol=1e-4, atol=float(1e-5 * wide.max() ** 2))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("d", "k"), [(64, 256), (5, 3), (33, 700), (300, 4)])
def test_sums_follow_changed_labels(weighted, d, k):
    rng = torch.Generator().manual_seed(0)
    X = torch.randn(20_000, d, generator=rng)
    weight = torch.rand(20_000, generator=rng) if weighted else None
    here = memory_of(X, weight, False)
    there = memory_of(X.cuda(), None if weight is None else weight.cuda(), False)
    centers = X[:k].clone()
    for _ in range(6):
        one, two = here.step(centers), there.step(centers.cuda())
        agree = float((torch.from_numpy(here.labels) == there.labels.cpu()).double().mean())
        assert agree > 0.9999
        torch.testing.assert_close(one.sums, two.sums.cpu(), rtol=1e-3, atol=20.0 * (1 - agree) * 20_000 + 1e-2)
        centers = (one.sums[:, :-1] / one.sums[:, -1:].clamp(min=1e-9)).float()


def test_a_fit_is_that_of_the_cpu():
    X = load_digits().data
    for dtype in (torch.float32, torch.float64):
        rows = torch.tensor(X, dtype=dtype)
        here = KMeans(10, init=X[:10], tol=0).fit(rows)
        there = KMeans(10, init=X[:10], tol=0).fit(rows.cuda())
        assert there.cluster_centers_.is_cuda and there.inertia_ == pytest.approx(here.inertia_, rel=1e-5)
        np.testing.assert_allclose(there.cluster_centers_.cpu(), here.cluster_centers_, atol=1e-3)


@pytest.mark.parametrize(("n", "d", "k"), [(200_000, 64, 256), (30_001, 17, 33), (100, 3, 2), (20_000, 128, 1000)])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_fast_mode_differs_in_next_to_no_row(n, d, k, scale):
    X = scale * torch.randn(n, d, generator=torch.Generator().manual_seed(0)).cuda()
    memory = memory_of(X, None, False, k, "fast")
    assert isinstance(memory, Swift)
    centers = X[:k].cpu().double()
    for _ in range(4):
        found = memory.step(centers)
        wide = centers.float().double().cuda()
        score = X.double() @ wide.T - 0.5 * wide.square().sum(1)
        assert float((score.argmax(1) != memory.labels).double().mean()) <= max(1e-4, 1.5 / n)
        hot = torch.nn.functional.one_hot(memory.labels.long(), k).double()
        assert torch.equal(found.sums[:, -1], hot.sum(0))
        # products of two half-precision parts are right to 2^-22 of the largest number, and sums of m to its root
        bound = 2.0**-20 * float(X.abs().max()) * max(n, 1) ** 0.5
        torch.testing.assert_close(found.sums[:, :-1], hot.T @ X.double(), rtol=1e-5, atol=bound)
        centers = (found.sums[:, :-1] / found.sums[:, -1:].clamp(min=1)).cpu()


def test_a_fast_fit_is_nearly_the_exact_one():
    X = torch.randn(100_000, 32, generator=torch.Generator().manual_seed(0)).cuda()
    fits = [KMeans(64, init=X[:64], tol=0, max_iter=20, precision=each).fit(X) for each in ("exact", "fast")]
    assert fits[1].inertia_ == pytest.approx(fits[0].inertia_, rel=1e-4)


def test_the_fast_mode_leaves_weighted_rows_to_the_exact_one():
    X = torch.randn(1000, 4).cuda()
    assert not isinstance(memory_of(X, torch.ones(1000).cuda(), False, 3, "fast"), Swift)
