"""The kernel matrix of the training rows, a few rows at a time, for all of them or for the active ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.svm.similarity import Custom, Similarity, expand, four
from benthic.svm.smo import ASK, EXPONENTIAL, LINEAR, weighted_rows

_NO_SIDES = (np.zeros((0, 0), np.float32), np.zeros((0, 0), np.float32))
_INLINE = {"linear": LINEAR, "rbf": EXPONENTIAL}
_NARROW = 128  # columns up to which a row is as cheap alone as in a product of several


class Gram(ABC):
    """A symmetric matrix that is computed when asked for. Numbers of rows are those of the restriction."""

    diagonal: np.ndarray
    kind: int = ASK

    def sides(self) -> tuple[np.ndarray, np.ndarray]:
        """Factors (n, k) and (k, n) from which the compiled loop makes rows itself, unless kind is ASK."""
        return _NO_SIDES

    def __len__(self) -> int:
        return len(self.diagonal)

    @abstractmethod
    def rows(self, wanted: np.ndarray) -> Tensor:
        """The rows ``wanted``, (q, n), in the type rows are cached in."""

    @abstractmethod
    def block(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """A part of the matrix as float64."""

    @abstractmethod
    def product(self, rows: np.ndarray, columns: np.ndarray, values: np.ndarray) -> np.ndarray:
        """A part of the matrix times a vector, as float64."""

    @abstractmethod
    def restrict(self, index: np.ndarray) -> Gram:
        """The matrix of some of the rows."""


class FeatureGram(Gram):
    """The matrix of a named kernel between rows of features.

    X: (n, d) float64. single: whether rows are cached as float32; products are in float32 too where that is accurate.
    """

    def __init__(self, similarity: Similarity, X: Tensor, single: bool) -> None:
        self.similarity, self.X = similarity, X
        self.dtype = torch.float32 if single else torch.float64
        self.diagonal = similarity.diagonal(X).numpy()
        center = X.mean(0)
        left, right = similarity.sides(X, X, center)
        accurate = similarity.roomy((X - center).square().sum(1), dtype=self.dtype)
        kind = self.dtype if accurate else torch.float64
        self._left, self._right = four(left).to(kind), four(right).T.to(kind).contiguous()  # as the compiled loop needs
        if kind == torch.float32 and left.shape[1] <= _NARROW:
            self.kind = _INLINE.get(similarity.name, ASK)

    def sides(self) -> tuple[np.ndarray, np.ndarray]:
        if self.kind == ASK:
            return _NO_SIDES
        return self._left.numpy(), self._right.numpy()

    def rows(self, wanted: np.ndarray) -> Tensor:
        product = self._left[torch.from_numpy(wanted)] @ self._right
        return self.similarity.finish(product).to(self.dtype)

    def block(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return self.similarity.matrix(self.X[rows], self.X[columns]).numpy()

    def product(self, rows: np.ndarray, columns: np.ndarray, values: np.ndarray) -> np.ndarray:
        if self.kind != ASK:
            total = np.zeros(len(rows))
            left, right = self._left[columns].numpy(), self._right[:, rows].contiguous().numpy()
            weighted_rows(self.kind, left, right, values, total)
            return total
        weights = torch.from_numpy(values)[:, None]
        return expand(self.similarity, self.X[rows], self.X[columns], weights)[:, 0].numpy()

    def restrict(self, index: np.ndarray) -> FeatureGram:
        other = object.__new__(FeatureGram)
        other.similarity, other.X, other.dtype = self.similarity, self.X[index], self.dtype
        other.diagonal, other.kind = self.diagonal[index], self.kind
        other._left, other._right = self._left[index], self._right[:, index].contiguous()
        return other


class KernelGram(Gram):
    """The matrix of a kernel object between rows of features; the noise of a sample stands on the diagonal."""

    def __init__(self, similarity: Custom, X: Tensor, single: bool) -> None:
        self.similarity, self.X = similarity, X
        self.dtype = torch.float32 if single else torch.float64
        self.diagonal = similarity.diagonal(X).double().numpy()
        self._names = np.arange(len(X))

    def rows(self, wanted: np.ndarray) -> Tensor:
        return torch.from_numpy(self.block(wanted, np.arange(len(self)))).to(self.dtype)

    def block(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        values = self.similarity.matrix(self.X[rows], self.X[columns]).double().numpy().copy()
        i, j = np.nonzero(self._names[rows][:, None] == self._names[columns][None, :])
        values[i, j] = self.diagonal[np.asarray(rows)[i]]
        return values

    def product(self, rows: np.ndarray, columns: np.ndarray, values: np.ndarray) -> np.ndarray:
        height = max(1, (1 << 22) // max(1, len(columns)))
        parts = [self.block(rows[top : top + height], columns) @ values for top in range(0, len(rows), height)]
        return np.concatenate(parts) if parts else np.zeros(0)

    def restrict(self, index: np.ndarray) -> KernelGram:
        other = object.__new__(KernelGram)
        other.similarity, other.X, other.dtype = self.similarity, self.X[index], self.dtype
        other.diagonal, other._names = self.diagonal[index], self._names[index]
        return other


class MatrixGram(Gram):
    """A matrix that is there already, or a part of it."""

    def __init__(self, matrix: np.ndarray, index: np.ndarray | None = None) -> None:
        self.matrix = matrix
        self.index = np.arange(len(matrix)) if index is None else index
        self.diagonal = matrix[self.index, self.index].astype(np.float64)

    def rows(self, wanted: np.ndarray) -> Tensor:
        return torch.from_numpy(self.matrix[np.ix_(self.index[wanted], self.index)])

    def block(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return self.matrix[np.ix_(self.index[rows], self.index[columns])].astype(np.float64)

    def product(self, rows: np.ndarray, columns: np.ndarray, values: np.ndarray) -> np.ndarray:
        return self.block(rows, columns) @ values

    def restrict(self, index: np.ndarray) -> MatrixGram:
        return MatrixGram(self.matrix, self.index[index])


def make_gram(similarity: Any, X: Tensor, single: bool) -> Gram:
    """The matrix of a similarity between the rows of X."""
    kind = KernelGram if isinstance(similarity, Custom) else FeatureGram
    return kind(similarity, X, single)
