r"""Functions of matrices: exponential, principal logarithm, principal square root, with gradients of any order.

The derivative of a matrix function in the direction E is the upper right block of the function of a larger matrix
(Mathias, 1996),

.. math::
    f\begin{pmatrix} A & E \\ 0 & A \end{pmatrix} = \begin{pmatrix} f(A) & L_f(A, E) \\ 0 & f(A) \end{pmatrix},

so it needs no eigenvectors and is right for repeated eigenvalues. Symmetric matrices use their spectrum, with divided
differences in place of the larger matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from benthic.base.errors import InvalidInput
from benthic.linalg.checks import SingularMatrix, asymmetry, element, epsilon, matrix
from benthic.linalg.principal import logarithm, roots


class _Function(NamedTuple):
    """A scalar function, its divided differences f[a, b], and the function of a general matrix.

    name: the public function, for messages. at_zero: whether an eigenvalue of zero is allowed.
    """

    name: str
    scalar: Callable[[torch.Tensor], torch.Tensor]
    differences: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    general: Callable[[torch.Tensor, int], torch.Tensor]
    at_zero: bool


def _log_differences(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """(log a - log b) / (a - b) without cancellation: 2 artanh(z) / (a - b) with z = (a - b) / (a + b)."""
    z = (a - b) / (a + b)
    small = z.abs() < 1e-2
    safe = torch.where(small, 0.5, z)
    series = 1 + z**2 / 3 + z**4 / 5 + z**6 / 7
    return 2 / (a + b) * torch.where(small, series, torch.atanh(safe) / safe)


_LOG = _Function("matrix_log", torch.log, _log_differences, logarithm, False)
_SQRT = _Function(
    "matrix_sqrt", torch.sqrt, lambda a, b: 1 / (a.sqrt() + b.sqrt()), lambda A, size: roots(A, size)[0], True
)
_INVERSE_SQRT = _Function(
    "matrix_inverse_sqrt",
    torch.rsqrt,
    lambda a, b: -1 / (a * b.sqrt() + b * a.sqrt()),
    lambda A, size: roots(A, size, "matrix_inverse_sqrt")[1],
    False,
)


class _General(torch.autograd.Function):
    """f of a general matrix; the gradient is f of the block matrix of the adjoint, so it has gradients in turn.

    size: of the leading block that has all eigenvalues; those of a block matrix are too defective to look at.
    """

    @staticmethod
    def forward(ctx: Any, A: torch.Tensor, f: _Function, size: int) -> torch.Tensor:
        ctx.save_for_backward(A)
        ctx.f, ctx.size = f, size
        return f.general(A.detach(), size)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (A,) = ctx.saved_tensors
        return _direction(A.mH, grad, ctx.f, ctx.size), None, None


def _direction(A: torch.Tensor, E: torch.Tensor, f: _Function, size: int) -> torch.Tensor:
    """The derivative of a matrix function at A in the direction E, by the block matrix."""
    n = A.shape[-1]
    # E enters linearly: brought to the size of A, it does not disturb the scaling of the function
    length = torch.linalg.matrix_norm(E.detach(), keepdim=True)
    scale = torch.linalg.matrix_norm(A.detach(), keepdim=True) / torch.where(length > 0, length, 1)
    upper = torch.cat([A, E * scale], -1)
    lower = torch.cat([torch.zeros_like(A), A], -1)
    return _General.apply(torch.cat([upper, lower], -2), f, size)[..., :n, n:] / scale


class _Spectral(torch.autograd.Function):
    """f of a symmetric matrix by its eigenvalues; first gradient by divided differences (Daleckii & Krein, 1951)."""

    @staticmethod
    def forward(ctx: Any, A: torch.Tensor, f: _Function) -> torch.Tensor:
        values, Q = torch.linalg.eigh((A + A.mH) / 2)
        values = _within_domain(values, f)
        ctx.save_for_backward(A, values, Q)
        ctx.f = f
        return Q * f.scalar(values).unsqueeze(-2) @ Q.mH

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        A, values, Q = ctx.saved_tensors
        if not (values > 0).all():
            raise SingularMatrix(f"{ctx.f.name}: the matrix is singular, where the function has no derivative")
        if torch.is_grad_enabled():  # a gradient of this gradient is wanted
            return _direction(A.mH, grad, ctx.f, A.shape[-1]), None
        differences = ctx.f.differences(values.unsqueeze(-1), values.unsqueeze(-2))
        return Q @ (differences * (Q.mH @ grad @ Q)) @ Q.mH, None


def _within_domain(values: torch.Tensor, f: _Function) -> torch.Tensor:
    """The eigenvalues (..., n) with rounding errors around zero removed; negative ones are refused."""
    noise = values.shape[-1] * epsilon(values) * values.abs().amax(-1, keepdim=True)
    negative = (values < -noise).any(-1)
    if negative.any():
        index, which = element(negative)
        raise InvalidInput(
            f"{f.name}: the matrix{which} has the eigenvalue {float(values[index].min()):.3g}, and no real "
            "result exists; give a positive definite matrix, or a complex one for a complex result"
        )
    zero = (values <= noise).any(-1)
    if zero.any() and not f.at_zero:
        index, which = element(zero)
        raise SingularMatrix(f"{f.name}: the matrix{which} is singular; add a small multiple of the identity")
    return values.clamp(min=0)


def _apply(A: Any, symmetric: bool | None, f: _Function) -> torch.Tensor:
    A = matrix(A, f.name, square=True, allow_complex=True)
    difference, size = asymmetry(A)
    if symmetric is None:
        symmetric = difference <= 4 * epsilon(A) * size
        # a complex matrix may have negative eigenvalues, which the general method takes
        symmetric = symmetric and not A.is_complex()
    elif symmetric and difference > epsilon(A) ** (2 / 3) * size:
        raise InvalidInput(
            f"{f.name}: A is asymmetric by {difference:.3g} where its largest entry is {size:.3g}; "
            "leave symmetric out, or give its symmetric part"
        )
    return _Spectral.apply(A, f) if symmetric else _General.apply(A, f, A.shape[-1])


def matrix_exp(A: Any) -> torch.Tensor:
    r"""The exponential of a matrix.

    .. math:: e^A = \sum_{k \ge 0} \frac{A^k}{k!}, \quad \det e^A = e^{\operatorname{tr} A}

    By torch: Taylor polynomials with scaling and squaring (Bader, Blanes & Casas, 2019).

    A: (..., n, n), real or complex. Returns (..., n, n); gradients of any order.

    >>> matrix_exp([[0.0, 1.0], [0.0, 0.0]])
    tensor([[1., 1.],
            [0., 1.]], dtype=torch.float64)
    """
    result = torch.linalg.matrix_exp(matrix(A, "matrix_exp", square=True, allow_complex=True))
    if not torch.isfinite(result.detach().abs().sum()):
        raise InvalidInput("matrix_exp: the exponential overflows; scale A down, exp(A) = exp(A / s) ** s")
    return result


def matrix_log(A: Any, symmetric: bool | None = None) -> torch.Tensor:
    r"""The principal logarithm of a matrix: the one whose eigenvalues have arguments in (-π, π].

    .. math:: e^{\log A} = A

    log(AB) = log A + log B holds if A and B commute and the arguments of their paired eigenvalues add to something
    within (-π, π), not otherwise.

    Symmetric matrices by their eigenvalues; others by inverse scaling and squaring (Kenney & Laub, 1989; Al-Mohy &
    Higham, 2012).

    A: (..., n, n), without eigenvalues on the closed negative real axis if real. symmetric: None looks.
    Returns (..., n, n); gradients of any order, right for repeated eigenvalues.

    >>> matrix_log([[1.0, 1.0], [0.0, 1.0]]).round(decimals=12)
    tensor([[0., 1.],
            [0., 0.]], dtype=torch.float64)
    """
    return _apply(A, symmetric, _LOG)


def matrix_sqrt(A: Any, symmetric: bool | None = None) -> torch.Tensor:
    r"""The principal square root of a matrix: the one whose eigenvalues have no negative real part.

    .. math:: A^{1/2} A^{1/2} = A

    Symmetric matrices by their eigenvalues; others by the product form of Denman and Beavers' iteration (Cheng,
    Higham, Kenney & Laub, 2001).

    A: (..., n, n), without negative real eigenvalues if real; a singular one must be symmetric. symmetric: None looks.
    Returns (..., n, n); gradients of any order, right for repeated eigenvalues.

    >>> matrix_sqrt([[4.0, 1.0], [0.0, 4.0]])
    tensor([[2.0000, 0.2500],
            [0.0000, 2.0000]], dtype=torch.float64)
    """
    return _apply(A, symmetric, _SQRT)


def matrix_inverse_sqrt(A: Any, symmetric: bool | None = None) -> torch.Tensor:
    r"""The inverse of the principal square root of a matrix, as used to whiten.

    .. math:: A^{-1/2} A A^{-1/2} = I

    A: (..., n, n), nonsingular and without negative real eigenvalues if real. symmetric: None looks.
    Returns (..., n, n); gradients of any order, right for repeated eigenvalues.

    >>> matrix_inverse_sqrt([[4.0, 0.0], [0.0, 16.0]])
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]], dtype=torch.float64)
    """
    return _apply(A, symmetric, _INVERSE_SQRT)
