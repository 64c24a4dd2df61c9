"""Small problems that the tests share."""

from __future__ import annotations

import torch
from torch import Tensor


def masses(size: int, stream: torch.Generator, dtype: torch.dtype = torch.float64) -> Tensor:
    weights = torch.rand(size, generator=stream, dtype=torch.float64) + 0.05
    return (weights / weights.sum()).to(dtype)


def clouds(n: int, m: int, d: int = 2, seed: int = 0, dtype: torch.dtype = torch.float64) -> tuple[Tensor, ...]:
    """X (n, d), Y (m, d), a (n,), b (m,)."""
    stream = torch.Generator().manual_seed(seed)
    X, Y = (torch.rand(size, d, generator=stream, dtype=torch.float64).to(dtype) for size in (n, m))
    return X, Y + 0.2, masses(n, stream, dtype), masses(m, stream, dtype)


def squared(X: Tensor, Y: Tensor) -> Tensor:
    return (X[:, None] - Y[None]).square().sum(-1)
