"""Neighbors on CUDA are those of the processor, and answers stay on the device."""

from __future__ import annotations

import pytest
import torch

import benthic
from benthic.kernels.neighbors import search

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


def points(n, d, seed=0, dtype=torch.float32):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", ["normal", "clusters", "far", "grid", "outliers"])
def test_search_is_that_of_the_processor(kind, dtype):
    X, Y = points(200, 48, dtype=dtype), points(20_000, 48, 1, dtype)
    if kind == "clusters":
        Y = 1e-5 * Y + 10 * points(20, 48, 2, dtype).repeat(1000, 1)
        X = Y[::100] + 1e-6 * X
    elif kind == "far":
        X, Y = X + 3e3, Y + 3e3
    elif kind == "grid":
        X, Y = X.round().clamp(-1, 1), Y.round().clamp(-1, 1)
    elif kind == "outliers":
        Y[::100] *= 1e4
    here = search(X, Y, 10)
    there = search(X.cuda(), Y.cuda(), 10)
    assert torch.equal(there[1].cpu(), here[1])
    torch.testing.assert_close(there[0].cpu(), here[0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("metric", ["manhattan", "chebyshev", "cosine", "hamming", "minkowski"])
def test_other_metrics(metric):
    X, Y = points(50, 6, dtype=torch.float64), points(3000, 6, 1, torch.float64)
    here, there = search(X, Y, 4, metric), search(X.cuda(), Y.cuda(), 4, metric)
    assert torch.equal(there[1].cpu(), here[1])


def test_estimators():
    X = points(500, 3)
    y = X[:, 0]
    for name in ("KNeighborsRegressor", "NadarayaWatson"):
        here = getattr(benthic, name)().fit(X, y).predict(X)
        there = getattr(benthic, name)().fit(X.cuda(), y.cuda()).predict(X.cuda())
        assert there.device.type == "cuda"
        torch.testing.assert_close(there.cpu(), here, rtol=1e-4, atol=1e-5)
