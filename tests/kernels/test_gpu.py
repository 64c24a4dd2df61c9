"""Kernels, distances and tests on CUDA: results stay on the device and agree with the CPU."""

from __future__ import annotations

import pytest
import torch

from benthic.kernels import (
    RBF,
    Laplace,
    Linear,
    Matern,
    Periodic,
    White,
    linear_mmd_test,
    mmd,
    mmd_squared,
    mmd_test,
    nearest,
    pairwise,
    squared_distances,
)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


def points(n, d, seed=0, dtype=torch.float64):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize("d", [3, 40])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "kernel", [RBF(2.0), Matern(0.5), Matern(2.5), Laplace(), Periodic(), Linear() + White()], ids=repr
)
def test_kernels_agree_with_the_cpu(kernel, d, dtype):
    X, Y, V = points(200, d, dtype=dtype), points(150, d, 1, dtype=dtype), points(150, 3, 2, dtype=dtype)
    # Single precision: distances to 1e-5, the kernel moves by as much, and 150 terms add.
    tolerance = 1e-11 if dtype == torch.float64 else 2e-3
    got = kernel(X.cuda(), Y.cuda())
    assert got.device.type == "cuda" and got.dtype == dtype
    torch.testing.assert_close(got.cpu(), kernel(X, Y), rtol=tolerance, atol=tolerance)
    slopes = []
    for device in ("cpu", "cuda"):
        A = X.to(device).requires_grad_()
        out = kernel.matmul(A, Y.to(device), V.to(device), elements=5000)
        slopes.append((out.detach().cpu(), torch.autograd.grad(out.sum(), A)[0].cpu()))
    for here, there in zip(*slopes, strict=True):
        torch.testing.assert_close(there, here, rtol=10 * tolerance, atol=10 * tolerance)


def test_near_points_have_correct_digits():
    X = 100 + points(50, 40, dtype=torch.float32).cuda()
    Y = X + 2e-5 * points(50, 40, 1, dtype=torch.float32).cuda()
    exact = (X.double()[:, None] - Y.double()[None]).square().sum(-1)
    torch.testing.assert_close(squared_distances(X, Y).double(), exact, rtol=1e-4, atol=0)


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "chebyshev", "cosine", "mahalanobis", "hamming"])
def test_distances_and_neighbors(metric):
    X, Y = points(100, 5), points(80, 5, 1)
    torch.testing.assert_close(pairwise(X.cuda(), Y.cuda(), metric).cpu(), pairwise(X, Y, metric))
    if metric != "hamming":
        assert torch.equal(nearest(X.cuda(), Y.cuda(), 3, metric, elements=500)[1].cpu(), nearest(X, Y, 3, metric)[1])


def test_discrepancies_agree_with_the_cpu():
    X, Y = points(300, 20, dtype=torch.float32), points(200, 20, 1, dtype=torch.float32) + 0.2
    kernel = RBF(6.0)
    here, there = mmd(X, Y, kernel), mmd(X.cuda(), Y.cuda(), kernel)
    assert there.value == pytest.approx(here.value, abs=1e-6) and there.stderr == pytest.approx(here.stderr, rel=1e-3)
    assert float(mmd_squared(X.cuda(), Y.cuda(), kernel)) == pytest.approx(here.value, abs=1e-5)
    test = mmd_test(X.cuda(), Y.cuda(), kernel, 99, seed=0, elements=2**14)
    assert test.statistic == pytest.approx(here.value, abs=1e-6) and test.p_value == 0.01
    one, two = linear_mmd_test(X, Y, kernel), linear_mmd_test(X.cuda(), Y.cuda(), kernel)
    assert two.p_value == pytest.approx(one.p_value, rel=1e-3)


def test_large_test_stays_within_memory():
    X, Y = (torch.randn(40_000, 16, device="cuda", generator=torch.Generator("cuda").manual_seed(s)) for s in (0, 1))
    torch.cuda.reset_peak_memory_stats()
    result = mmd_test(X, Y, permutations=50, seed=0)
    assert torch.cuda.max_memory_allocated() < 4 * 2**30 < 4 * 80_000**2  # the matrix alone would take 24 GiB
    assert result.p_value > 1e-5
