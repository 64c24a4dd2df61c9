"""Solving with symmetric positive semidefinite matrices, well scaled or not."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

_JITTERS = (0.0, 1e-12, 1e-9, 1e-6, 1e-3)


class Factor(NamedTuple):
    """A matrix D⁻¹ L Lᵀ D⁻¹, or a stack of them. lower: L, (..., m, m). scale: the diagonal of D, (..., m)."""

    lower: Tensor
    scale: Tensor

    def solve(self, right: Tensor) -> Tensor:
        """The solution for right sides (..., m), one a matrix."""
        inner = torch.cholesky_solve((right * self.scale)[..., None], self.lower)
        return inner[..., 0] * self.scale


def factor(matrix: Tensor) -> Factor:
    """Cholesky factors of positive semidefinite matrices (..., m, m).

    Each is scaled to unit diagonal, so that columns of very different size do no harm; where it is singular, as
    little as needed is added to that.

    >>> factor(torch.diag(torch.tensor([1e12, 1e-12]))).solve(torch.tensor([1e12, 1e-12]))
    tensor([1., 1.])
    """
    diagonal = matrix.diagonal(dim1=-2, dim2=-1)
    scale = torch.where(diagonal > 0, diagonal, torch.inf).rsqrt()
    unit = matrix * scale[..., :, None] * scale[..., None, :]
    unit.diagonal(dim1=-2, dim2=-1).fill_(1.0)
    for jitter in _JITTERS:
        unit.diagonal(dim1=-2, dim2=-1).fill_(1.0 + jitter)
        lower, info = torch.linalg.cholesky_ex(unit)
        if not bool(info.any()):
            break
    return Factor(lower, scale)
