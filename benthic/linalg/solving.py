"""One ``solve`` that picks its method by the structure of the matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from benthic.base.errors import InvalidInput, nearest
from benthic.linalg.checks import asymmetry, columns, epsilon, matrix
from benthic.linalg.factors import (
    CholeskyFactor,
    DiagonalFactor,
    Factor,
    Lu,
    TriangularFactor,
    implicit_solve,
    reciprocal_condition,
    refuse_singular,
    symmetric,
)
from benthic.linalg.minimum_norm import least_squares
from benthic.linalg.structures import Diagonal, PositiveDefinite, Structure, Triangular
from benthic.linalg.toeplitz import Toeplitz


def detect(A: torch.Tensor) -> str:
    """The structure of dense matrices (..., m, n), found in one look at their entries.

    >>> detect(torch.tensor([[1.0, 0.0], [2.0, 3.0]]))
    'lower triangular'
    """
    if A.shape[-1] != A.shape[-2]:
        return "least squares"
    A = A.detach()
    lower = not A[..., 0, 1:].any() and not A.triu(1).any()  # most matrices are told from their first row
    upper = not A[..., 1:, 0].any() and not A.tril(-1).any()
    if lower and upper:
        return "diagonal"
    if lower or upper:
        return "lower triangular" if lower else "upper triangular"
    difference, size = asymmetry(A)
    return "symmetric" if difference <= 4 * epsilon(A) * size else "general"


def _diagonal(A: torch.Tensor) -> Factor:
    values = A.diagonal(dim1=-2, dim2=-1)
    zero = (values == 0).any(-1)
    refuse_singular((~zero).to(values.real.dtype), 0.5)
    return DiagonalFactor(values)


def _triangular(A: torch.Tensor, upper: bool) -> Factor:
    zero = (A.diagonal(dim1=-2, dim2=-1) == 0).any(-1)
    refuse_singular((~zero).to(A.real.dtype), 0.5)
    factor = TriangularFactor(A, upper)
    scale = A.detach().diagonal(dim1=-2, dim2=-1).abs().unsqueeze(-1)
    scaled = A.detach() / scale  # rows in units of their pivot: what remains is true near-singularity
    refuse_singular(reciprocal_condition(scaled, TriangularFactor(scaled, upper)), epsilon(A))
    return factor


def _symmetric(A: torch.Tensor) -> Factor:
    """Cholesky if it exists, else LU."""
    A = A.detach()
    values = A.diagonal(dim1=-2, dim2=-1).real
    if not (values > 0).all():
        return Lu(A)
    L, info = torch.linalg.cholesky_ex(A)  # reads the lower triangle; the upper one is equal but for rounding
    if (info > 0).any():
        return Lu(A)
    scale = values.rsqrt().unsqueeze(-1)
    refuse_singular(reciprocal_condition(scale * A * scale.mT, CholeskyFactor(scale * L)), epsilon(A))
    return CholeskyFactor(L)


_DETECTED: dict[str, Callable[[torch.Tensor], Factor]] = {
    "diagonal": _diagonal,
    "lower triangular": lambda A: _triangular(A, upper=False),
    "upper triangular": lambda A: _triangular(A, upper=True),
    "symmetric": _symmetric,
    "general": Lu,
}


def _any_triangle(A: torch.Tensor) -> Structure:
    found = detect(A)
    if found not in ("diagonal", "lower triangular", "upper triangular"):
        raise InvalidInput(
            "solve: A has nonzero entries on both sides of its diagonal; say 'lower triangular' or "
            "'upper triangular' to have one side read and the other ignored"
        )
    return Triangular(A, upper=found == "upper triangular")


_NAMED: dict[str, Callable[[torch.Tensor], Structure]] = {
    "diagonal": lambda A: Diagonal(A.diagonal(dim1=-2, dim2=-1)),
    "triangular": _any_triangle,
    "lower triangular": Triangular,
    "upper triangular": lambda A: Triangular(A, upper=True),
    "positive definite": PositiveDefinite,
    "toeplitz": lambda A: Toeplitz(A[..., :, 0], A[..., 0, :]),
}
_NAMES = [*_NAMED, "symmetric", "general", "least squares"]


def solve(A: Any, b: Any, structure: str | None = None) -> torch.Tensor:
    r"""The solution of A x = b by the cheapest method that the structure of A allows.

    .. math:: A x = b

    A dense matrix is looked at once: diagonal and triangular ones are solved by substitution, symmetric ones by
    Cholesky where that exists, the others by LU with rows and columns scaled, rectangular ones by least squares
    (minimum norm, through the singular values). The gradient in A is then that of a general matrix. A structure
    given by name is trusted: only its entries are read and only they get a gradient.

    A: (..., n, n), (..., m, n), or a :class:`Structure` such as :class:`LowRank` or :class:`Toeplitz`.
    b: (n,), or columns (..., n, k), or vectors (..., n) with the batch of A.
    structure: "diagonal", "triangular", "lower triangular", "upper triangular", "positive definite", "symmetric",
    "toeplitz", "general", "least squares", or None to find out.
    Returns x of the shape that b implies. Raises :class:`SingularMatrix` if there is no solution to trust.

    >>> solve([[2.0, 1.0], [1.0, 3.0]], [3.0, 4.0])
    tensor([1.0000, 1.0000], dtype=torch.float64)
    """
    if isinstance(A, Structure):
        if structure is not None:
            raise InvalidInput(f"solve: A is a {type(A).__name__} already; leave structure out, or give A.dense()")
        return A.solve(b)
    A = matrix(A, "solve", allow_complex=True)
    if structure is not None and structure not in _NAMES:
        raise InvalidInput(
            f"solve: structure is {structure!r}{nearest(str(structure), _NAMES)}; it is one of {', '.join(_NAMES)}"
        )
    chosen = structure or detect(A)
    if chosen == "least squares":
        return least_squares(A, b).solution
    return _square(A, b, chosen, named=structure is not None)


def _square(A: torch.Tensor, b: Any, structure: str, named: bool) -> torch.Tensor:
    A = matrix(A, f'solve with structure "{structure}"', square=True, allow_complex=True)
    if named and structure in _NAMED:
        if A.is_complex():
            raise InvalidInput(f"solve: structure {structure!r} is for real matrices; leave it out for a complex one")
        return _NAMED[structure](A).solve(b)
    if named and structure == "symmetric":
        symmetric(A, "solve", "A")
    b, vector = columns(tuple(A.shape), b, A, "solve")
    x = implicit_solve(A, b, _DETECTED[structure](A))
    return x.squeeze(-1) if vector else x


def logdet(A: Any) -> torch.Tensor:
    r"""The logarithm of the absolute determinant, by structure; minus infinity for a singular matrix.

    .. math:: \log |\det A| = \sum_i \log |\lambda_i|

    The determinant is the product of the eigenvalues; their sum is the trace.

    A: (..., n, n) or a :class:`Structure`. Returns (...).

    >>> logdet([[2.0, 0.0], [5.0, -3.0]]).exp()
    tensor(6.0000, dtype=torch.float64)
    """
    if isinstance(A, Structure):
        return A.logdet()
    A = matrix(A, "logdet", square=True, allow_complex=True)
    return torch.linalg.slogdet(A).logabsdet


def condition(A: Any) -> torch.Tensor:
    r"""The condition number in the 2-norm: how much a relative error of b can grow in the solution of A x = b.

    .. math:: \kappa_2(A) = \sigma_{\max} / \sigma_{\min}

    A: (..., m, n) or a :class:`Structure`. Returns (...), infinity for a matrix without full rank.

    >>> condition([[1.0, 0.0], [0.0, 1e-3]])
    tensor(1000.0000, dtype=torch.float64)
    """
    A = A.dense() if isinstance(A, Structure) else matrix(A, "condition", allow_complex=True)
    values = torch.linalg.svdvals(A)
    return values[..., 0] / values[..., -1]
