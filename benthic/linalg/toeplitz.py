r"""Toeplitz matrices: constant along diagonals, multiplied by FFT, solved by Levinson's recursion.

The recursion finds the first and the last column of the inverse in :math:`O(n^2)`; the formula of Gohberg and
Semencul then applies the whole inverse by FFT, :math:`O(n \log n)` a right side, with refinement.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from benthic.base.errors import InvalidInput
from benthic.linalg.checks import alike, epsilon, floating
from benthic.linalg.factors import Lu, inverse_norm, refuse_singular
from benthic.linalg.structures import Structure


def toeplitz_product(column: torch.Tensor, row: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The product of the Toeplitz matrix of a first column and first row, both (..., n), with x (..., n, k)."""
    n = column.shape[-1]
    size = _fast_length(2 * n - 1)
    # a circulant matrix of twice the size holds the Toeplitz matrix in its corner
    middle = column.new_zeros(*column.shape[:-1], size - 2 * n + 1)
    batch = torch.broadcast_shapes(column.shape[:-1], row.shape[:-1])
    parts = (column, middle, row[..., 1:].flip(-1))
    circulant = torch.cat([part.expand(*batch, part.shape[-1]) for part in parts], -1)
    spectrum = torch.fft.rfft(circulant).unsqueeze(-1)
    return torch.fft.irfft(spectrum * torch.fft.rfft(x, n=size, dim=-2), n=size, dim=-2)[..., :n, :]


def _fast_length(n: int) -> int:
    from scipy.fft import next_fast_len

    return int(next_fast_len(n, real=True))


def _levinson(column: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """First and last column of the inverse (..., n), and log |det| (...), by Levinson's recursion (1947).

    Not finite where a leading block of the matrix is singular.
    """
    n = column.shape[-1]
    forward, backward = torch.zeros_like(column), torch.zeros_like(column)
    forward[..., 0] = backward[..., 0] = 1 / column[..., 0]
    logdet = column[..., 0].abs().log()
    falling = column.flip(-1)  # falling[n-1-k : n-1] is column[k], ..., column[1]
    for k in range(1, n):
        f, b = forward[..., :k], backward[..., :k]
        below = (falling[..., n - 1 - k : n - 1] * f).sum(-1, keepdim=True)
        above = (row[..., 1 : k + 1] * b).sum(-1, keepdim=True)
        scale = 1 / (1 - below * above)
        f, b = F.pad(f, (0, 1)), F.pad(b, (1, 0))
        forward[..., : k + 1] = scale * (f - below * b)
        backward[..., : k + 1] = scale * (b - above * f)
        logdet = logdet - forward[..., 0].abs().log()
    return forward, backward, logdet


def _ends(column: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """First and last column of the inverse (..., n); SciPy's compiled recursion for few long ones on the CPU."""
    n = column.shape[-1]
    if column.device.type != "cpu" or column.numel() > 4 * n:
        return _levinson(column, row)[:2]
    from scipy.linalg import LinAlgError, solve_toeplitz

    sides = np.zeros((n, 2))
    sides[0, 0] = sides[-1, 1] = 1
    found = np.full((column.numel() // n, n, 2), np.nan)
    for i, pair in enumerate(zip(column.reshape(-1, n).numpy(), row.reshape(-1, n).numpy(), strict=True)):
        with contextlib.suppress(LinAlgError):  # a singular leading block: stays NaN, and the solve is by LU
            found[i] = solve_toeplitz(pair, sides, check_finite=False)
    first, last = torch.as_tensor(found).to(column).unbind(-1)
    return first.reshape(column.shape), last.reshape(column.shape)


class _LevinsonFactor:
    """The inverse of Toeplitz matrices, kept as its first and last column; dense LU where that is inaccurate."""

    def __init__(self, column: torch.Tensor, row: torch.Tensor) -> None:
        self.column, self.row = column.detach(), row.detach()
        self.first, self.last = _ends(self.column, self.row)
        self.lu: Lu | None = None
        self.rcond: torch.Tensor | None = None

    def solve(self, b: torch.Tensor, adjoint: bool = False) -> torch.Tensor:
        """The solution for columns b: (..., n, k); a singular matrix is refused."""
        if self.rcond is None:
            ones = torch.ones_like(self.column).unsqueeze(-1)
            norm = toeplitz_product(self.row.abs(), self.column.abs(), ones).amax((-2, -1))
            self.rcond = torch.nan_to_num(1 / (norm * inverse_norm(ones, self._solve)), nan=0.0)
        refuse_singular(self.rcond, epsilon(b), "Toeplitz.solve", "the matrix")
        return self._solve(b, adjoint)

    def _solve(self, b: torch.Tensor, adjoint: bool = False) -> torch.Tensor:
        """The solution, refined until its residual is of rounding size, else by LU."""
        if self.lu is None:
            x = self._refined(b, adjoint)
            if x is not None:
                return x
            self.lu = Lu(_dense(self.column, self.row), "Toeplitz.solve", "the matrix")
        return self.lu.solve(b, adjoint)

    def _refined(self, b: torch.Tensor, adjoint: bool) -> torch.Tensor | None:
        column, row = (self.row, self.column) if adjoint else (self.column, self.row)
        norm = column.abs().sum(-1) + row.abs().sum(-1)
        tolerance = (4 + math.log2(column.shape[-1])) * epsilon(column)  # what an FFT of this length leaves
        x = self._inverse(b, adjoint)
        for _ in range(4):
            residual = b - toeplitz_product(column, row, x)
            size = norm[..., None, None] * x.abs().amax(-2, keepdim=True) + b.abs().amax(-2, keepdim=True)
            if bool((residual.abs() <= tolerance * size).all()):
                return x
            x = x + self._inverse(residual, adjoint)
        return None

    def _inverse(self, b: torch.Tensor, adjoint: bool) -> torch.Tensor:
        """Gohberg & Semencul, 1972: the inverse is a difference of two products of triangular Toeplitz matrices."""
        x, y = self.first, self.last
        zero = torch.zeros_like(x)
        later, earlier = F.pad(y[..., :-1], (1, 0)), F.pad(x[..., 1:].flip(-1), (1, 0))
        if adjoint:  # the transpose of lower(u) upper(v) is lower(v) upper(u), with columns for rows
            x, y, later, earlier = y.flip(-1), x.flip(-1), earlier, later
        first = _lower(x, zero, toeplitz_product(_head(zero, y.flip(-1)), y.flip(-1), b))
        second = _lower(later, zero, toeplitz_product(_head(zero, earlier), earlier, b))
        return (first - second) / self.first[..., :1, None]


def _head(zero: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
    return torch.cat([row[..., :1], zero[..., 1:]], -1)


def _lower(column: torch.Tensor, zero: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return toeplitz_product(column, _head(zero, column), x)


def _dense(column: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
    n = column.shape[-1]
    values = torch.cat([column.flip(-1), row[..., 1:]], -1)  # from the lower left corner to the upper right
    index = torch.arange(n, device=column.device)
    return values[..., (n - 1) + index[None, :] - index[:, None]]


def _diagonal_sums(left: torch.Tensor, right: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Sums along the diagonals of left @ right': those of the first column, (..., n), and of the first row.

    The sum at lag k is a correlation of the two, so the matrix itself is never made. left, right: (..., n, k).
    """
    n = left.shape[-2]
    size = _fast_length(2 * n - 1)
    spectrum = torch.fft.rfft(left, n=size, dim=-2) * torch.fft.rfft(right, n=size, dim=-2).conj()
    lags = torch.fft.irfft(spectrum, n=size, dim=-2).sum(-1)
    rows = F.pad(lags[..., size - n + 1 :].flip(-1), (1, 0))
    return lags[..., :n], rows


class _Solve(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, column: torch.Tensor, row: torch.Tensor, b: torch.Tensor, factor: Any, adjoint: bool) -> Any:
        ctx.save_for_backward(column, row, b)
        ctx.factor, ctx.adjoint = factor, adjoint
        return factor.solve(b, adjoint)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        column, row, b = ctx.saved_tensors
        x = _Solve.apply(column, row, b, ctx.factor, ctx.adjoint)
        grad_b = _Solve.apply(column, row, grad, ctx.factor, not ctx.adjoint)
        left, right = (x, grad_b) if ctx.adjoint else (grad_b, x)
        grad_column, grad_row = _diagonal_sums(-left, right)
        return grad_column, grad_row, grad_b, None, None


class _Logdet(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, column: torch.Tensor, row: torch.Tensor, factor: _LevinsonFactor) -> torch.Tensor:
        ctx.save_for_backward(column, row)
        ctx.factor = factor
        value = _levinson(factor.column, factor.row)[2]
        return value if torch.isfinite(value).all() else torch.linalg.slogdet(_dense(column, row)).logabsdet

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        column, row = ctx.saved_tensors
        n = column.shape[-1]
        eye = torch.eye(n, dtype=column.dtype, device=column.device).expand(*column.shape[:-1], n, n)
        inverse = _Solve.apply(column, row, eye, ctx.factor, True)
        grad_column, grad_row = _diagonal_sums(inverse, eye)
        return grad[..., None] * grad_column, grad[..., None] * grad_row, None


class Toeplitz(Structure):
    r"""A matrix that is constant along its diagonals.

    .. math:: T_{ij} = c_{i-j} \ (i \ge j), \quad T_{ij} = r_{j-i} \ (i < j)

    Levinson, 1947; Gohberg & Semencul, 1972. Where a leading block is singular or the refined residual is not of
    rounding size, the solve is by dense LU. A matrix that is singular to working precision is refused.

    column: (..., n). row: (..., n), of which the first value is not read; the default is the symmetric matrix.

    >>> Toeplitz([2.0, 1.0, 0.0]).matmul([1.0, 0.0, 0.0])
    tensor([2.0000, 1.0000, 0.0000], dtype=torch.float64)
    """

    def __init__(self, column: Any, row: Any = None) -> None:
        self.data = floating(column, "Toeplitz", "column")
        row = self.data if row is None else alike(row, self.data, "Toeplitz", "row")
        if self.data.ndim < 1 or 0 in self.data.shape or row.shape != self.data.shape:
            raise InvalidInput(
                f"Toeplitz: column has shape {tuple(self.data.shape)} and row {tuple(row.shape)}; "
                "both must be (..., n) with n at least 1"
            )
        self.row = torch.cat([self.data[..., :1], row[..., 1:]], -1)
        self.shape = (*self.data.shape, self.data.shape[-1])
        self._known: _LevinsonFactor | None = None

    def transpose(self) -> Toeplitz:
        """The transposed matrix."""
        return Toeplitz(self.row, self.data)

    def _factor(self) -> _LevinsonFactor:
        if self._known is None:
            self._known = _LevinsonFactor(self.data, self.row)
        return self._known

    def _matmul(self, x: torch.Tensor) -> torch.Tensor:
        return toeplitz_product(self.data, self.row, x)

    def _solve(self, b: torch.Tensor) -> torch.Tensor:
        batch = torch.broadcast_shapes(self.shape[:-2], b.shape[:-2])
        n = self.shape[-1]
        column, row = self.data.expand(*batch, n), self.row.expand(*batch, n)
        return _Solve.apply(column, row, b.expand(*batch, *b.shape[-2:]), self._factor(), False)

    def logdet(self) -> torch.Tensor:
        """The logarithm of the absolute determinant, (...)."""
        return _Logdet.apply(self.data, self.row, self._factor())

    def dense(self) -> torch.Tensor:
        """The matrix with all its entries, (..., n, n)."""
        return _dense(self.data, self.row)
