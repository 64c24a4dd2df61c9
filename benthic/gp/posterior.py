"""Means, variances and draws of an exact posterior."""

from __future__ import annotations

import torch
from torch import Tensor

from benthic.gp.factor import JITTERS
from benthic.kernels.kernel import Kernel

_NUMBERS = {"cpu": 1 << 23, "cuda": 1 << 28}  # entries of the cross-covariance held at once


def blocks_of(X: Tensor, width: int) -> tuple[Tensor, ...]:
    """Rows in blocks whose products with ``width`` columns stay small."""
    parts: tuple[Tensor, ...] = X.split(max(1, _NUMBERS.get(X.device.type, _NUMBERS["cpu"]) // max(width, 1)))
    return parts


def exact_mean(kernel: Kernel, X: Tensor, alpha: Tensor, new: Tensor) -> Tensor:
    """(m, k): the cross-covariance of new rows and X times alpha (n, k), in blocks."""
    return torch.cat([kernel._matrix(block, X, None) @ alpha for block in blocks_of(new, len(X))])


def exact_variance(kernel: Kernel, X: Tensor, L: Tensor, new: Tensor) -> Tensor:
    """(m,): variance of the values at new rows given those at X, noise of White parts included."""
    found = []
    for block in blocks_of(new, len(X)):
        half = torch.linalg.solve_triangular(L, kernel._matrix(X, block, None), upper=False)
        found.append(kernel._paired(block, block, same=True) - half.square().sum(0))
    return torch.cat(found).clamp_(min=0)


def exact_covariance(kernel: Kernel, X: Tensor, L: Tensor, new: Tensor) -> Tensor:
    """(m, m): covariance of the values at new rows given those at X."""
    half = torch.linalg.solve_triangular(L, kernel._matrix(X, new, None), upper=False)
    left: Tensor = kernel._matrix(new, new, 0) - half.T @ half
    return left


def normal_draws(mean: Tensor, covariance: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Draws of k normal laws of n numbers: (n, k, count) from means (k, n) and covariances (k or 1, n, n)."""
    roots = torch.stack([spd_root(part) for part in covariance])  # (k or 1, n, n)
    k, n = mean.shape
    noise = torch.randn(k, n, count, generator=generator, dtype=mean.dtype, device=mean.device)
    return (mean[..., None] + roots @ noise).permute(1, 0, 2)


def spd_root(covariance: Tensor) -> Tensor:
    """A root of a positive semi-definite matrix: its Cholesky factor, else from the spectrum."""
    covariance = 0.5 * (covariance + covariance.T)
    eye = torch.eye(len(covariance), dtype=covariance.dtype, device=covariance.device)
    scale = float(covariance.diagonal().mean().clamp(min=1e-300))
    L: Tensor
    for share in JITTERS[:4]:
        L, info = torch.linalg.cholesky_ex(covariance + share * scale * eye)
        if not bool(info):
            return L
    values, vectors = torch.linalg.eigh(covariance)
    root: Tensor = vectors * values.clamp(min=0).sqrt()
    return root
