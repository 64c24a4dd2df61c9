r"""Factorizations that solve again and again, and a solve whose gradient is that of the inverse.

A factor has ``solve(b, adjoint=False)`` and is made of detached tensors. :func:`implicit_solve` puts it behind

.. math:: x = A^{-1} b, \quad \bar b = A^{-*} \bar x, \quad \bar A = -\bar b\, x^*

so that the gradient has one form however the system was solved, and costs no second factorization.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import torch

from benthic.base.errors import InvalidInput
from benthic.linalg.checks import SingularMatrix, asymmetry, element, epsilon, matrix, number

_INSTEAD = 'use structure="least squares" for the solution of minimum norm, or add a small ridge to the diagonal'


class Factor(Protocol):
    """Something that solves with a matrix and with its adjoint."""

    def solve(self, b: torch.Tensor, adjoint: bool = False) -> torch.Tensor:
        """The solution for columns b: (..., n, k)."""


class _Implicit(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, A: torch.Tensor, b: torch.Tensor, factor: Factor, adjoint: bool) -> torch.Tensor:
        x = factor.solve(b, adjoint)
        ctx.save_for_backward(A, b, x)
        ctx.factor, ctx.adjoint = factor, adjoint
        return x

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        A, b, x = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second derivative needs x as a function of A and b
            x = _Implicit.apply(A, b, ctx.factor, ctx.adjoint)
        grad_b = _Implicit.apply(A, grad, ctx.factor, not ctx.adjoint)
        grad_A = -(x @ grad_b.mH if ctx.adjoint else grad_b @ x.mH)
        return grad_A, grad_b, None, None


def implicit_solve(A: torch.Tensor, b: torch.Tensor, factor: Factor) -> torch.Tensor:
    """The solution of A x = b by a factor of A, differentiable to any order in A and b.

    A: (..., n, n). b: (..., n, k) columns.
    """
    batch = torch.broadcast_shapes(A.shape[:-2], b.shape[:-2])
    return _Implicit.apply(A.expand(*batch, *A.shape[-2:]), b.expand(*batch, *b.shape[-2:]), factor, False)


def reciprocal_condition(A: torch.Tensor, factor: Factor) -> torch.Tensor:
    r"""An estimate of the reciprocal condition number in the 1-norm, from a few solves.

    .. math:: \kappa_1(A)^{-1} = (\|A\|_1 \, \|A^{-1}\|_1)^{-1}

    A: (..., n, n). Returns (...), never below the true value but for rounding.
    """
    norm = A.abs().sum(-2).amax(-1)
    return torch.nan_to_num(1 / (norm * inverse_norm(A[..., :1], factor.solve)), nan=0.0)


def inverse_norm(like: torch.Tensor, solve: Callable[..., torch.Tensor]) -> torch.Tensor:
    """An estimate of the 1-norm of an inverse, at most the true value and rarely less than a third of it.

    Higham, 1988 (the estimator of LAPACK). like: (..., n, 1), for shape, type and device. solve(b, adjoint=False).
    """
    n = like.shape[-2]
    x = torch.full_like(like, 1 / n)
    best = torch.zeros_like(like[..., 0, 0].abs())
    for _ in range(4):
        y = solve(x)
        best = torch.maximum(best, y.abs().sum((-2, -1)))
        z = solve(torch.sgn(y), adjoint=True)
        x = torch.zeros_like(x).scatter(-2, z.abs().argmax(-2, keepdim=True), 1.0)
    places = torch.arange(n, device=like.device)
    wave = ((1 - 2 * (places % 2)) * (1 + places / max(n - 1, 1))).to(like.dtype).expand(like.shape[:-1])
    return torch.maximum(best, 2 * solve(wave.unsqueeze(-1)).abs().sum((-2, -1)) / (3 * n))


def refuse_singular(rcond: torch.Tensor, eps: float, where: str = "solve", name: str = "A") -> None:
    """Raise SingularMatrix for the first matrix whose reciprocal condition number is below the rounding unit."""
    bad = ~(rcond >= eps)
    if bad.any():
        index, which = element(bad)
        value = float(rcond[index])
        raise SingularMatrix(
            f"{where}: {name}{which} is singular to working precision, with reciprocal condition number "
            f"{value:.1e}; {_INSTEAD}",
            value,
        )


def _power_of_two(x: torch.Tensor) -> torch.Tensor:
    """The scale that brings x near 1 without a rounding error; 1 for zero."""
    limit = math.log2(torch.finfo(x.dtype).max) - 2
    exponent = torch.round(torch.log2(torch.where(x > 0, x, 1))).clamp(-limit, limit)
    return torch.exp2(-exponent)


class Lu:
    """LU factors of a matrix whose rows and columns were first brought to size one, so that units do not matter."""

    def __init__(self, A: torch.Tensor, where: str = "solve", name: str = "A") -> None:
        A = A.detach()
        self.rows = _power_of_two(A.abs().amax(-1, keepdim=True))
        scaled = A * self.rows
        self.columns = _power_of_two(scaled.abs().amax(-2, keepdim=True))
        scaled = scaled * self.columns
        self.lu, self.pivots, info = torch.linalg.lu_factor_ex(scaled)
        refuse_singular((info == 0).to(self.rows.dtype), 0.5, where, name)
        self.rcond = reciprocal_condition(scaled, _Raw(self.lu, self.pivots))
        refuse_singular(self.rcond, epsilon(A), where, name)

    def solve(self, b: torch.Tensor, adjoint: bool = False) -> torch.Tensor:
        """The solution for columns b: (..., n, k)."""
        before, after = (self.columns.mT, self.rows) if adjoint else (self.rows, self.columns.mT)
        return after * torch.linalg.lu_solve(self.lu, self.pivots, before * b, adjoint=adjoint)


class _Raw:
    def __init__(self, lu: torch.Tensor, pivots: torch.Tensor) -> None:
        self.lu, self.pivots = lu, pivots

    def solve(self, b: torch.Tensor, adjoint: bool = False) -> torch.Tensor:
        return torch.linalg.lu_solve(self.lu, self.pivots, b, adjoint=adjoint)


class CholeskyFactor:
    """Solves with a positive definite matrix by its Cholesky factor L: (..., n, n)."""

    def __init__(self, L: torch.Tensor) -> None:
        self.L = L.detach()

    def solve(self, b: torch.Tensor, adjoint: bool = False) -> torch.Tensor:
        """The solution for columns b: (..., n, k); the matrix is its own adjoint."""
        half = torch.linalg.solve_triangular(self.L, b, upper=False)
        return torch.linalg.solve_triangular(self.L.mH, half, upper=True)


class TriangularFactor:
    """Solves with a triangular matrix by substitution."""

    def __init__(self, A: torch.Tensor, upper: bool) -> None:
        self.A, self.upper = A.detach(), upper

    def solve(self, b: torch.Tensor, adjoint: bool = False) -> torch.Tensor:
        """The solution for columns b: (..., n, k)."""
        A = self.A.mH if adjoint else self.A
        return torch.linalg.solve_triangular(A, b, upper=self.upper != adjoint)


class DiagonalFactor:
    """Solves with a diagonal matrix by division. values: (..., n)."""

    def __init__(self, values: torch.Tensor) -> None:
        self.values = values.detach()

    def solve(self, b: torch.Tensor, adjoint: bool = False) -> torch.Tensor:
        """The solution for columns b: (..., n, k)."""
        return b / (self.values.conj() if adjoint else self.values).unsqueeze(-1)


def symmetric(A: torch.Tensor, where: str, name: str) -> torch.Tensor:
    """The symmetric part of a matrix that is symmetric but for rounding; anything else is refused."""
    difference, size = asymmetry(A)
    if difference > epsilon(A) ** (2 / 3) * size:
        raise InvalidInput(
            f"{where}: {name} is asymmetric by {difference:.3g} where its largest entry is {size:.3g}; "
            f"give a symmetric matrix, such as its symmetric part (A + A.mT) / 2"
        )
    return (A + A.mH) / 2


def cholesky(A: Any, jitter: float = 0.0, name: str = "matrix") -> torch.Tensor:
    r"""The lower triangular L of a positive definite matrix, with a sentence where there is none.

    .. math:: A + \text{jitter} \cdot I = L L^*

    A: (..., n, n), symmetric but for rounding. jitter: added to the diagonal. name: what messages call the matrix.
    Returns L (..., n, n); gradients flow to A.

    >>> cholesky([[4.0, 2.0], [2.0, 5.0]])
    tensor([[2., 0.],
            [1., 2.]], dtype=torch.float64)
    """
    return cholesky_of(A, jitter, name, "cholesky")


def cholesky_of(A: Any, jitter: float, name: str, where: str) -> torch.Tensor:
    """What :func:`cholesky` does, for a caller named in messages by ``where``."""
    A = symmetric(matrix(A, where, name, square=True, allow_complex=True), where, name)
    if number(jitter, where, "jitter", lambda v: 0 <= v < math.inf, "a finite number of at least 0"):
        A = A + jitter * torch.eye(A.shape[-1], dtype=A.dtype, device=A.device)
    L, info = torch.linalg.cholesky_ex(A)
    if (info > 0).any():
        _explain(A.detach(), info > 0, name, where)
    return L


def _explain(A: torch.Tensor, bad: torch.Tensor, name: str, where: str) -> None:
    """Raise with the smallest eigenvalue of the first matrix that has no Cholesky factor."""
    index, which = element(bad)
    values = torch.linalg.eigvalsh(A[index])
    smallest, size = float(values[0]), float(values.abs().max())
    negligible = A.shape[-1] * epsilon(A) * size
    singular = abs(smallest) <= negligible
    needed = 2 * max(-smallest, negligible)
    kind = SingularMatrix if singular else InvalidInput
    state = "singular, so not positive definite" if singular else "not positive definite"
    raise kind(
        f"{where}: {name}{which} is {state}: its smallest eigenvalue is {smallest:.3g} and its largest in size "
        f"{size:.3g}; a jitter of {needed:.1g} or more would make it so"
    )
