"""Transport on CUDA: the same answers as on the CPU, on the device of the input."""

from __future__ import annotations

import pytest
import torch

from benthic.transport import (
    PointCloud,
    barycenter,
    bures_wasserstein,
    exact,
    max_sliced,
    sinkhorn,
    sinkhorn_divergence,
    sliced,
    wasserstein_1d,
)
from benthic.transport import costs as costs_module
from tests.transport.problems import clouds, squared

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.spec("B-04"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rho", [None, 0.5])
@pytest.mark.parametrize("limit", [1 << 26, 500])
def test_sinkhorn(monkeypatch, dtype, rho, limit):
    monkeypatch.setitem(costs_module._ENTRIES, "cuda", limit)
    X, Y, a, b = clouds(70, 80, dtype=dtype)
    tight = 1e-5 if dtype == torch.float32 else 1e-10
    here = sinkhorn(a, b, squared(X, Y), 0.05, rho=rho)
    for cost in (squared(X, Y).cuda(), PointCloud(X.cuda(), Y.cuda())):
        there = sinkhorn(a.cuda(), b.cuda(), cost, 0.05, rho=rho)
        assert there.plan.is_cuda and there.plan.dtype == dtype
        torch.testing.assert_close(there.plan.cpu(), here.plan, rtol=0, atol=tight)


def test_gradients():
    X, Y, a, b = clouds(30, 40)
    slopes = []
    for device in ("cpu", "cuda"):
        points = X.to(device).detach().requires_grad_()
        found = sinkhorn(a.to(device), b.to(device), (points, Y.to(device)), 0.1, tol=1e-12)
        slopes.append(torch.autograd.grad(found.value + found.plan.square().sum(), points)[0].cpu())
    torch.testing.assert_close(slopes[1], slopes[0], rtol=0, atol=1e-9)


def test_the_others():
    X, Y, a, b = clouds(20, 25)
    calls = [
        lambda X, Y, a, b: exact(a, b, squared(X, Y)).value,
        lambda X, Y, a, b: sinkhorn_divergence(X, Y, 0.1, a=a, b=b),
        lambda X, Y, a, b: wasserstein_1d(X[:, 0], Y[:, 0], 2, a, b),
        lambda X, Y, a, b: sliced(X, Y, seed=0, a=a, b=b).value,
        lambda X, Y, a, b: max_sliced(X, Y, seed=0, a=a, b=b).value,
        lambda X, Y, a, b: bures_wasserstein(X.mean(0), X.mT.cov(), Y.mean(0), Y.mT.cov()),
        lambda X, Y, a, b: barycenter(torch.stack([a, a.flip(0)]), squared(X, X), 0.05).masses.max(),
    ]
    for call in calls:
        there = call(*(value.cuda() for value in (X, Y, a, b)))
        assert there.is_cuda
        torch.testing.assert_close(there.cpu(), call(X, Y, a, b), rtol=0, atol=1e-8)
