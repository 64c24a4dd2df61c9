"""Least squares, plain or ridge: by normal equations where they are accurate, else by QR and a singular value
decomposition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from benthic.linear.positive import factor

_TRUSTED = 1e-5  # reciprocal condition number from which normal equations, refined once, lose no digits
_SQUARE = torch.finfo(torch.float64).tiny / torch.finfo(torch.float64).eps  # smaller squares have lost digits
_NULL = 1e-13  # of the largest eigenvalue of a correlation matrix: what is below is rounding


class Solution(NamedTuple):
    """Coefficients and what is known about them.

    coef: (d, k). rank: of the features. singular: their singular values, largest first. root: (d, rank), a factor
    of the pseudo-inverse of AᵀA: root rootᵀ.
    """

    coef: Tensor
    rank: int
    singular: Tensor
    root: Tensor


def gram_of(A: Tensor) -> Tensor:
    """AᵀA, (m, m); on the CPU by a product that fills one half only."""
    if A.device.type != "cpu":
        return A.T @ A
    rows = A.numpy()
    return torch.from_numpy(rows.T @ rows)


def solve_rows(A: Tensor, Y: Tensor, alpha: Tensor, precision: float, gram: Tensor | None = None) -> Solution:
    r"""Least squares of rows in memory; of several minima the shortest.

    .. math:: \min_W \; \|Y - AW\|^2 + \sum_c \alpha_c \|w_c\|^2

    Well-conditioned problems are solved by their normal equations and corrected once by their residuals
    (Björck, 1987), others through R of a QR factorization and its singular values.

    A: (n, d). Y: (n, k). alpha: (k,). precision: relative rounding error of the data. gram: AᵀA if known.

    >>> A = torch.tensor([[1.0, 1.0], [2.0, 2.0]], dtype=torch.float64)
    >>> solve_rows(A, A[:, :1] * 4, torch.zeros(1, dtype=torch.float64), 2e-16).coef.ravel()
    tensor([2., 2.], dtype=torch.float64)
    """
    if len(A) > A.shape[1]:
        gram = gram_of(A) if gram is None else gram
        if _well_conditioned(gram):
            solved, again = solve_gram(gram, A.T @ Y, alpha)
            change = again(A.T @ (Y - A @ solved.coef) - alpha * solved.coef)
            return solved._replace(coef=solved.coef + change)
    return _by_singular_values(A, Y, alpha, precision)


def _well_conditioned(gram: Tensor) -> bool:
    if not bool((gram.diagonal() > _SQUARE).all()):
        return False
    scale = gram.diagonal().rsqrt()
    values = torch.linalg.eigvalsh(gram * scale[:, None] * scale)
    return bool(values[0] > _TRUSTED * values[-1])


def _by_singular_values(A: Tensor, Y: Tensor, alpha: Tensor, precision: float) -> Solution:
    n, d = A.shape
    if n > d:
        triangle = torch.linalg.qr(torch.cat([A, Y], 1), mode="r").R[:d]  # (d, d + k): R and QᵀY
        A, Y = triangle[:, :d], triangle[:, d:]
    U, s, Vt = torch.linalg.svd(A, full_matrices=False)
    cutoff = precision * max(n, d) * (s[0] if len(s) else 0.0)
    rank = int((s > cutoff).sum())
    s_kept, V = s[:rank, None], Vt[:rank].T
    coef = V @ (1 / (s_kept + alpha / s_kept) * (U[:, :rank].T @ Y))
    return Solution(coef, rank, s, V / s_kept.T)


def solve_gram(gram: Tensor, right: Tensor, alpha: Tensor) -> tuple[Solution, Callable[[Tensor], Tensor]]:
    """The same from AᵀA (d, d) and AᵀY (d, k), and a function that solves for another right side.

    The matrix is scaled to unit diagonal; directions in which it is rounding alone are left out.
    """
    diagonal = gram.diagonal()
    scale = torch.where(diagonal > 0, diagonal, torch.inf).rsqrt()
    values, vectors = torch.linalg.eigh(gram * scale[:, None] * scale)
    kept = values > _NULL * len(values) * values[-1].clamp(min=0.0)
    root: Tensor = scale[:, None] * vectors[:, kept] / values[kept].sqrt()
    null = _directions(scale, vectors[:, ~kept])
    root = root - null @ (null.T @ root)

    def plain(b: Tensor) -> Tensor:
        return root @ (root.T @ b)

    solve = plain if not bool(alpha.any()) else _ridge_solver(gram, alpha, plain)
    singular = torch.linalg.eigvalsh(gram).flip(0).clamp(min=0.0).sqrt()
    return Solution(solve(right), int(kept.sum()), singular, root), solve


def _directions(scale: Tensor, null: Tensor) -> Tensor:
    """Orthonormal directions in which the features do not vary; null: those of the scaled features."""
    moved = null * torch.where(scale == 0, 1.0, scale)[:, None]  # a column of zeros has no scale
    basis: Tensor = torch.linalg.qr(moved).Q if moved.shape[1] else moved
    return basis


def _ridge_solver(gram: Tensor, alpha: Tensor, plain: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    identity = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    factors = {float(a): factor(gram + a * identity) for a in alpha.unique() if a > 0}

    def solve(b: Tensor) -> Tensor:
        columns = []
        for c, a in enumerate(alpha.tolist()):
            columns.append(factors[a].solve(b[:, c]) if a > 0 else plain(b[:, c]))
        return torch.stack(columns, 1)

    return solve


def solve_positive(A: Tensor, Y: Tensor, alpha: Tensor) -> Tensor:
    """Least squares with coefficients >= 0, (d, k), by the active-set method of Lawson & Hanson (1974)."""
    import numpy as np
    from scipy.optimize import nnls

    d, rows, targets = A.shape[1], A.cpu().numpy(), Y.cpu().numpy()
    columns = []
    for c, a in enumerate(alpha.tolist()):
        above = np.vstack([rows, np.sqrt(a) * np.eye(d)]) if a > 0 else rows
        below = np.concatenate([targets[:, c], np.zeros(d)]) if a > 0 else targets[:, c]
        columns.append(torch.from_numpy(nnls(above, below)[0]))
    return torch.stack(columns, 1).to(A)
