"""AᵀA at the price of half of it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_NUMBERS = 1 << 22  # of the block turned to double precision at once


def scatter_matrix(rows: Tensor, center: Tensor | None = None, weight: Tensor | None = None) -> Tensor:
    r"""The scatter matrix of rows about a point, (d, d) in float64.

    .. math:: S = \sum_i w_i (x_i - c)(x_i - c)^\top

    On a processor only one triangle is computed. rows: (n, d) of any precision, worked on in blocks. center: (d,),
    zero if None. weight: (n,), one if None.

    >>> scatter_matrix(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[10., 14.],
            [14., 20.]], dtype=torch.float64)
    """
    n, d = rows.shape
    total = torch.zeros(d, d, dtype=torch.float64, device=rows.device)
    size = max(256, _NUMBERS // max(d, 1))
    for start in range(0, n, size):
        block = rows[start : start + size].double()
        if center is not None:
            block = block - center.to(block)
        if weight is not None:
            block = block * weight[start : start + size].double().sqrt()[:, None]
        total += _square(block)
    return total if rows.device.type != "cpu" else torch.tril(total) + torch.tril(total, -1).T


def _square(block: Tensor) -> Any:
    """AᵀA; on a processor its lower triangle may be all that is right."""
    if block.device.type != "cpu" or block.requires_grad:
        return block.T @ block
    from scipy.linalg.blas import dsyrk

    # BLAS counts by columns, so the upper triangle it fills is our lower one
    return torch.from_numpy(dsyrk(1.0, block.contiguous().numpy().T, lower=0).T)
