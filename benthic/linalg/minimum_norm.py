r"""Least squares by singular values: minimum norm, rank reported, differentiable at constant rank."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from benthic.linalg.checks import columns, epsilon, matrix, number


class LeastSquares(NamedTuple):
    """What a least-squares solve found.

    solution: (..., n) or (..., n, k). rank: (...), singular values above the threshold. residual: (...) or
    (..., k), the norm of b - A x. singular_values: (..., min(m, n)), largest first.
    """

    solution: torch.Tensor
    rank: torch.Tensor
    residual: torch.Tensor
    singular_values: torch.Tensor


class _Pseudoinverse:
    """Applies the pseudoinverse of A, or of its adjoint, from the detached singular value decomposition."""

    def __init__(self, A: torch.Tensor, rtol: float) -> None:
        self.U, self.S, self.Vh = torch.linalg.svd(A.detach(), full_matrices=False)
        largest = self.S[..., :1]
        kept = torch.gt(self.S, rtol * largest)
        self.rank = kept.sum(-1)
        self.inverse = torch.where(kept, 1 / torch.where(kept, self.S, 1), 0).to(self.U.dtype)

    def apply(self, b: torch.Tensor, adjoint: bool) -> torch.Tensor:
        left, right = (self.Vh.mH, self.U) if adjoint else (self.U, self.Vh.mH)
        return right @ (self.inverse.unsqueeze(-1) * (left.mH @ b))


class _MinimumNorm(torch.autograd.Function):
    """x = A^+ b. The gradient is that of Golub & Pereyra (1973), right wherever the rank is locally constant."""

    @staticmethod
    def forward(ctx: Any, A: torch.Tensor, b: torch.Tensor, inverse: _Pseudoinverse, adjoint: bool) -> torch.Tensor:
        ctx.save_for_backward(A, b)
        ctx.inverse, ctx.adjoint = inverse, adjoint
        return inverse.apply(b, adjoint)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        A, b = ctx.saved_tensors
        M = A.mH if ctx.adjoint else A

        def plus(v: torch.Tensor) -> torch.Tensor:
            return _MinimumNorm.apply(A, v, ctx.inverse, ctx.adjoint)

        def plus_adjoint(v: torch.Tensor) -> torch.Tensor:
            return _MinimumNorm.apply(A, v, ctx.inverse, not ctx.adjoint)

        x, y = plus(b), plus_adjoint(grad)
        residual, outside = b - M @ x, grad - M.mH @ y
        grad_M = -y @ x.mH + residual @ plus(y).mH + plus_adjoint(x) @ outside.mH
        return (grad_M.mH if ctx.adjoint else grad_M), y, None, None


def least_squares(A: Any, b: Any, rtol: float | None = None) -> LeastSquares:
    r"""The x of smallest norm among those that bring A x closest to b, by singular values.

    .. math:: x = A^+ b = \sum_{\sigma_i > \tau \sigma_1} \frac{u_i^* b}{\sigma_i} v_i

    Golub & Pereyra, 1973, for the gradient.

    A: (..., m, n), any shape and rank. b: (m,) or (..., m, k). rtol: singular values below rtol times the largest
    count as zero; the default is max(m, n) times the rounding unit. Returns a :class:`LeastSquares`.

    >>> least_squares([[1.0, 1.0], [1.0, 1.0]], [2.0, 4.0]).solution
    tensor([1.5000, 1.5000], dtype=torch.float64)
    """
    A = matrix(A, "least_squares", allow_complex=True)
    b, vector = columns(tuple(A.shape), b, A, "least_squares")
    rtol = max(A.shape[-2:]) * epsilon(A) if rtol is None else rtol
    number(rtol, "least_squares", "rtol", lambda v: 0 <= v < 1, "at least 0 and below 1")
    batch = torch.broadcast_shapes(A.shape[:-2], b.shape[:-2])
    inverse = _Pseudoinverse(A, rtol)
    x = _MinimumNorm.apply(A.expand(*batch, *A.shape[-2:]), b.expand(*batch, *b.shape[-2:]), inverse, False)
    residual = torch.linalg.vector_norm(b - A @ x, dim=-2)
    if vector:
        x, residual = x.squeeze(-1), residual.squeeze(-1)
    return LeastSquares(x, inverse.rank, residual, inverse.S)
