"""One problem of the lasso or elastic net, solved for a sequence of penalties from warm starts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from benthic.linear import lasso_kernels as kernels


class Step(NamedTuple):
    """What one penalty gave. coef: (d,). gap: duality gap of the sum of squares. sweeps: rounds over coordinates."""

    coef: np.ndarray
    gap: float
    sweeps: int


class Problem(ABC):
    r"""Minimize over w, for penalties in turn, each from the solution before it.

    .. math:: \tfrac12 \|y - Xw\|^2 + \lambda_1 \|w\|_1 + \tfrac{\lambda_2}{2} \|w\|^2
    """

    coef: np.ndarray
    slope: np.ndarray
    square: float

    @property
    def largest(self) -> float:
        """The least λ₁ at which every coefficient is zero, seen from zero coefficients."""
        return float(np.abs(self.products).max(initial=0.0))

    products: np.ndarray

    @abstractmethod
    def solve(self, l1: float, l2: float, *, positive: bool, tol: float, max_iter: int) -> Step:
        """The solution to a duality gap of ``tol`` times yᵀy."""


class RowProblem(Problem):
    """The problem in its rows: an update of one coordinate costs n; for more columns than rows."""

    def __init__(self, X: np.ndarray, y: np.ndarray, start: np.ndarray | None = None) -> None:
        self._X = np.ascontiguousarray(X.T, dtype=np.float64)  # (d, n)
        self._y = np.ascontiguousarray(y, dtype=np.float64)
        self._squares = np.einsum("ij,ij->i", self._X, self._X)
        self.coef = np.zeros(len(self._X)) if start is None else start.astype(np.float64)
        self.products, self.square = self._X @ self._y, float(self._y @ self._y)
        self._residual = self._y - self.coef @ self._X
        self.slope = self._X @ self._residual
        self._before = self.largest

    def solve(self, l1: float, l2: float, *, positive: bool, tol: float, max_iter: int) -> Step:
        """See ``Problem``."""
        gap, sweeps = kernels.by_rows(
            self._X,
            self._y,
            self._squares,
            self.coef,
            self._residual,
            self.slope,
            float(l1),
            float(l2),
            float(self._before),
            bool(positive),
            float(tol * self.square),
            int(max_iter),
        )
        self._before = l1
        return Step(self.coef.copy(), float(gap), int(sweeps))


class GramProblem(Problem):
    """The problem in its sums XᵀX, Xᵀy and yᵀy: an update costs d; for more rows than columns, and for streams."""

    def __init__(self, gram: np.ndarray, products: np.ndarray, square: float, start: np.ndarray | None = None) -> None:
        self._gram = np.ascontiguousarray(gram, dtype=np.float64)
        self.products = np.ascontiguousarray(products, dtype=np.float64)
        self.square = float(square)
        self.coef = np.zeros(len(gram)) if start is None else start.astype(np.float64)
        self.slope = self.products - self._gram @ self.coef

    def solve(self, l1: float, l2: float, *, positive: bool, tol: float, max_iter: int) -> Step:
        """See ``Problem``."""
        gap, sweeps = kernels.by_gram(
            self._gram,
            self.products,
            self.square,
            self.coef,
            self.slope,
            float(l1),
            float(l2),
            bool(positive),
            float(tol * self.square),
            int(max_iter),
        )
        return Step(self.coef.copy(), float(gap), int(sweeps))
