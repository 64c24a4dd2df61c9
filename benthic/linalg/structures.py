"""Matrices that know their structure: diagonal, triangular, positive definite, diagonal plus low rank.

Each has ``shape``, ``matmul``, ``solve``, ``logdet``, ``dense`` and ``transpose``, takes batches in leading
dimensions, and lets gradients flow to the tensors it was made of.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch

from benthic.base.errors import InvalidInput
from benthic.linalg.checks import SingularMatrix, alike, columns, element, floating, matrix
from benthic.linalg.factors import CholeskyFactor, Lu, cholesky_of, implicit_solve


class Structure(ABC):
    """A square matrix known by its structure. data: a tensor of its type and device."""

    shape: tuple[int, ...]
    data: torch.Tensor

    def matmul(self, x: Any) -> torch.Tensor:
        """The product with a vector (n,) or with columns (..., n, k)."""
        x, vector = columns(self.shape, x, self.data, f"{type(self).__name__}.matmul", "x")
        y = self._matmul(x)
        return y.squeeze(-1) if vector else y

    def solve(self, b: Any) -> torch.Tensor:
        """The x with matrix @ x = b, for a vector (n,) or columns (..., n, k)."""
        b, vector = columns(self.shape, b, self.data, f"{type(self).__name__}.solve")
        x = self._solve(b)
        return x.squeeze(-1) if vector else x

    def __matmul__(self, x: Any) -> torch.Tensor:
        return self.matmul(x)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({' x '.join(map(str, self.shape))})"

    @abstractmethod
    def transpose(self) -> Structure:
        """The transposed matrix."""

    @abstractmethod
    def logdet(self) -> torch.Tensor:
        """The logarithm of the absolute determinant, (...)."""

    @abstractmethod
    def dense(self) -> torch.Tensor:
        """The matrix with all its entries, (..., n, n)."""

    @abstractmethod
    def _matmul(self, x: torch.Tensor) -> torch.Tensor: ...

    @abstractmethod
    def _solve(self, b: torch.Tensor) -> torch.Tensor: ...


def _no_zeros(values: torch.Tensor, where: str, what: str) -> None:
    """Raise SingularMatrix if a diagonal (..., n) has zeros."""
    zero = values.detach() == 0
    if zero.any():
        _, which = element(zero.any(-1))
        raise SingularMatrix(
            f"{where}: {what}{which} has {int(zero.sum())} zeros, so the matrix is singular; "
            'use solve(matrix.dense(), b, structure="least squares"), or make them nonzero'
        )


class Diagonal(Structure):
    """A diagonal matrix. values: (..., n).

    >>> Diagonal([2.0, 4.0]).solve([2.0, 2.0])
    tensor([1.0000, 0.5000], dtype=torch.float64)
    """

    def __init__(self, values: Any) -> None:
        self.data = floating(values, "Diagonal", "values")
        if self.data.ndim < 1 or 0 in self.data.shape:
            raise InvalidInput(f"Diagonal: values has shape {tuple(self.data.shape)}; give at least one value")
        self.shape = (*self.data.shape, self.data.shape[-1])

    def transpose(self) -> Diagonal:
        """The matrix itself."""
        return self

    def _matmul(self, x: torch.Tensor) -> torch.Tensor:
        return self.data.unsqueeze(-1) * x

    def _solve(self, b: torch.Tensor) -> torch.Tensor:
        _no_zeros(self.data, "Diagonal.solve", "the diagonal")
        return b / self.data.unsqueeze(-1)

    def logdet(self) -> torch.Tensor:
        """The logarithm of the absolute determinant, (...)."""
        return self.data.abs().log().sum(-1)

    def dense(self) -> torch.Tensor:
        """The matrix with all its entries, (..., n, n)."""
        return torch.diag_embed(self.data)


class Triangular(Structure):
    """A triangular matrix; the other triangle is never read.

    entries: (..., n, n). upper: which triangle holds the matrix.

    >>> Triangular([[2.0, 0.0], [1.0, 1.0]]).solve([2.0, 3.0])
    tensor([1., 2.], dtype=torch.float64)
    """

    def __init__(self, entries: Any, upper: bool = False) -> None:
        self.data = matrix(entries, "Triangular", "entries", square=True)
        self.upper = bool(upper)
        self.shape = tuple(self.data.shape)

    def transpose(self) -> Triangular:
        """The transposed matrix."""
        return Triangular(self.data.mT, not self.upper)

    def _matmul(self, x: torch.Tensor) -> torch.Tensor:
        return self.dense() @ x

    def _solve(self, b: torch.Tensor) -> torch.Tensor:
        _no_zeros(self.data.diagonal(dim1=-2, dim2=-1), "Triangular.solve", "the diagonal")
        return torch.linalg.solve_triangular(self.data, b, upper=self.upper)

    def logdet(self) -> torch.Tensor:
        """The logarithm of the absolute determinant, (...)."""
        return self.data.diagonal(dim1=-2, dim2=-1).abs().log().sum(-1)

    def dense(self) -> torch.Tensor:
        """The matrix with all its entries, (..., n, n)."""
        return self.data.triu() if self.upper else self.data.tril()


class PositiveDefinite(Structure):
    """A symmetric positive definite matrix, factored once by Cholesky.

    entries: (..., n, n), symmetric but for rounding. jitter: added to the diagonal.

    >>> PositiveDefinite([[4.0, 2.0], [2.0, 5.0]]).logdet().exp()
    tensor(16.0000, dtype=torch.float64)
    """

    def __init__(self, entries: Any, jitter: float = 0.0) -> None:
        entries = matrix(entries, "PositiveDefinite", "entries", square=True)
        self.factor = cholesky_of(entries, jitter, "entries", "PositiveDefinite")
        self.data = entries + jitter * torch.eye(entries.shape[-1], dtype=entries.dtype, device=entries.device)
        self.shape = tuple(self.data.shape)

    def transpose(self) -> PositiveDefinite:
        """The matrix itself."""
        return self

    def _matmul(self, x: torch.Tensor) -> torch.Tensor:
        return self.data @ x

    def _solve(self, b: torch.Tensor) -> torch.Tensor:
        return implicit_solve(self.data, b, CholeskyFactor(self.factor))

    def logdet(self) -> torch.Tensor:
        """The logarithm of the determinant, (...)."""
        return 2 * self.factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def dense(self) -> torch.Tensor:
        """The matrix with all its entries, (..., n, n)."""
        return self.data


class LowRank(Structure):
    r"""A diagonal plus a product of low rank, solved by the Woodbury identity in time linear in n.

    .. math::
        M = D + F F^\top, \quad
        M^{-1} = D^{-1} - D^{-1} F (I + F^\top D^{-1} F)^{-1} F^\top D^{-1}, \quad
        \det M = \det(I + F^\top D^{-1} F) \det D

    Woodbury, 1950. One step of iterative refinement follows each solve.

    diagonal: (..., n), nonzero. factor: (..., n, k). A negative diagonal is allowed.

    >>> LowRank([1.0, 1.0, 1.0], [[1.0], [1.0], [1.0]]).solve([4.0, 0.0, 0.0])
    tensor([ 3., -1., -1.], dtype=torch.float64)
    """

    def __init__(self, diagonal: Any, factor: Any) -> None:
        self.factor = floating(factor, "LowRank", "factor")
        self.data = alike(diagonal, self.factor, "LowRank", "diagonal")
        if self.factor.ndim < 2 or self.data.ndim < 1 or self.data.shape[-1] != self.factor.shape[-2]:
            raise InvalidInput(
                f"LowRank: diagonal has shape {tuple(self.data.shape)} and factor {tuple(self.factor.shape)}; "
                "they must be (..., n) and (..., n, k)"
            )
        try:
            batch = torch.broadcast_shapes(self.data.shape[:-1], self.factor.shape[:-2])
        except RuntimeError as error:
            raise InvalidInput(
                f"LowRank: the batches of diagonal {tuple(self.data.shape)} and factor {tuple(self.factor.shape)} "
                "do not broadcast"
            ) from error
        n = self.data.shape[-1]
        self.shape = (*batch, n, n)

    def transpose(self) -> LowRank:
        """The matrix itself."""
        return self

    def _matmul(self, x: torch.Tensor) -> torch.Tensor:
        return self.data.unsqueeze(-1) * x + self.factor @ (self.factor.mT @ x)

    def _capacitance(self, where: str) -> tuple[torch.Tensor, torch.Tensor]:
        """F divided by D, and the small matrix I + F' D^-1 F: (..., k, k)."""
        _no_zeros_woodbury(self.data, where)
        scaled = self.factor / self.data.unsqueeze(-1)
        eye = torch.eye(self.factor.shape[-1], dtype=self.data.dtype, device=self.data.device)
        return scaled, eye + self.factor.mT @ scaled

    def _solve(self, b: torch.Tensor) -> torch.Tensor:
        scaled, small = self._capacitance("LowRank.solve")
        inverse = _small_inverse(small, bool((self.data.detach() > 0).all()))

        def once(r: torch.Tensor) -> torch.Tensor:
            return r / self.data.unsqueeze(-1) - scaled @ inverse(scaled.mT @ r)

        x = once(b)
        return x + once(b - self._matmul(x))

    def logdet(self) -> torch.Tensor:
        """The logarithm of the absolute determinant, (...), by the matrix determinant lemma."""
        _, small = self._capacitance("LowRank.logdet")
        if bool((self.data.detach() > 0).all()):
            lemma = 2 * torch.linalg.cholesky(small).diagonal(dim1=-2, dim2=-1).log().sum(-1)
        else:
            lemma = torch.linalg.slogdet(small).logabsdet
        return lemma + self.data.abs().log().sum(-1)

    def dense(self) -> torch.Tensor:
        """The matrix with all its entries, (..., n, n)."""
        return torch.diag_embed(self.data) + self.factor @ self.factor.mT


def _no_zeros_woodbury(values: torch.Tensor, where: str) -> None:
    zeros = int((values.detach() == 0).sum())
    if zeros:
        raise InvalidInput(
            f"{where}: the diagonal has {zeros} zeros, by which the Woodbury identity divides; "
            "make them positive, or use solve(matrix.dense(), b)"
        )


def _small_inverse(small: torch.Tensor, positive: bool) -> Any:
    """A function that solves with the small matrix, by Cholesky where the diagonal is positive."""
    if positive:
        L = torch.linalg.cholesky(small)
        return lambda r: torch.cholesky_solve(r, L)
    factor = Lu(small, "LowRank.solve", "the matrix")
    return lambda r: implicit_solve(small, r, factor)
