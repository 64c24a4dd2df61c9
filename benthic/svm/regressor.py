"""Support vector regression: a tube that ignores small errors."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from torch import Tensor

from benthic.base.capabilities import Predicts
from benthic.base.errors import InvalidInput
from benthic.base.settings import is_real
from benthic.base.validation import speaking
from benthic.svm.certificate import certify, gather, lines
from benthic.svm.machine import KernelMachine
from benthic.svm.solve import Dual, solve
from benthic.svm.taking import take


class SVR(Predicts, KernelMachine):
    r"""Regression that is indifferent to errors below ε.

    .. math::
        \min_{w, b} \; \tfrac12 \|w\|^2 + \sum_i C_i \max(|y_i - w^T \phi(x_i) - b| - \epsilon, 0), \qquad
        f(x) = \sum_i \beta_i k(x_i, x) + b

    Vapnik, 1995. The dual is solved by sequential minimal optimization as in :class:`SVC`, on one signed multiplier a
    row, so the settings mean the same; rows with an error below ε have β = 0 and are no support vectors.

    C: price of errors beyond ε. epsilon: half the width of the tube. kernel, degree, gamma, coef0, tol, shrinking,
    cache_size, max_iter: as in :class:`SVC`.

    support_, support_vectors_, dual_coef_, intercept_, n_support_, n_iter_: as scikit-learn has them.
    certificate_: primal and dual value, their gap, and the violation of the optimality conditions.

    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = SVR(kernel="linear", C=100.0).fit(X, y)
    >>> round(model.score(X, y), 2), bool(model.certificate_["relative_gap"][0] < 1e-3)
    (0.48, True)
    """

    def __init__(
        self,
        *,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        C: float = 1.0,
        epsilon: float = 0.1,
        shrinking: bool = True,
        cache_size: float = 200,
        max_iter: int = -1,
    ) -> None:
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.C = C
        self.epsilon = epsilon
        self.shrinking = shrinking
        self.cache_size = cache_size
        self.max_iter = max_iter

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from rows and numbers, or from a file or source: ``fit(path, 'column')``.

        sample_weight: (n,) factors of C; a whole number equals that many copies of the row.
        """
        with speaking(self, "fit"):
            self._check_machine()
            self._check_tube()
        taken = take(self, X, y, sample_weight, "numbers")
        with speaking(self, "fit"):
            self._learn(taken.X, taken.y, taken.weight)
        return self

    def _check_tube(self) -> None:
        if not is_real(self.epsilon) or not self.epsilon >= 0:
            raise InvalidInput(f"epsilon is {self.epsilon!r}; the tube needs a width of at least 0")
        if math.isinf(self.C):
            raise InvalidInput("C is infinite; a hard tube need not hold all rows, so give a finite C such as 1e4")

    def _learn(self, X: Tensor, y: np.ndarray, weight: np.ndarray) -> None:
        used = np.flatnonzero(weight > 0)
        self._gamma = self._find_gamma(X, weight)
        self.positive_definite_ = True
        gram = self._gram(X, 1)
        bound = float(self.C) * weight[used]
        dual = Dual(gram if len(used) == len(X) else gram.restrict(used), y[used], -bound, bound, float(self.epsilon))
        found = solve(dual, self._options())
        self._take_note([found], gram)
        held = np.flatnonzero(found.beta)
        self.support_ = used[held].astype(np.int32)
        self.support_vectors_ = X.numpy()[self.support_ if self.kernel != "precomputed" else []].copy()
        self.dual_coef_ = found.beta[held][None, :]
        self.intercept_ = np.array([found.intercept])
        self.n_support_ = np.array([len(held)], dtype=np.int32)
        self.n_iter_ = max(found.steps, 1)
        self.fit_status_ = int(not found.converged)
        self.shape_fit_ = tuple(X.shape)
        self.certificate_ = gather([certify(dual, found)])
        self._held = held
        self._seen = np.stack([y[used], y[used] - found.g + found.intercept])  # truth and fit, for the picture

    def _prediction(self, X: Tensor) -> Tensor:
        return self._expand(X, self._weights())[:, 0] + float(self.intercept_[0])

    def _facts(self) -> dict[str, Any]:
        return {
            "kernel": self.kernel,
            "support vectors": f"{len(self.support_)} of {self.shape_fit_[0]} rows",
            "steps": int(self.n_iter_),
            **lines(self.certificate_),
        }

    def plot(self, ax: Any = None) -> Any:
        """The fit with its tube over one feature; in more dimensions, fitted against true numbers with the tube."""
        from benthic.svm.picture import plot_tube

        return plot_tube(self, ax)
