"""Lasso and elastic net: linear regression with few coefficients."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.settings import is_number, number, whole
from benthic.linear.least_squares import solve_gram, solve_positive, solve_rows
from benthic.linear.moments import Moments
from benthic.linear.path import check_precompute, make_problem
from benthic.linear.regression import _LinearPredictor


class _SparsePredictor(_LinearPredictor):
    """Base of regressions with an L1 term; ``_ratio`` is its share of the penalty."""

    alpha: Any
    precompute: Any
    max_iter: int
    tol: float
    warm_start: bool
    positive: bool
    dual_gap_: Any
    n_iter_: Any

    def _ratio(self) -> float:
        return 1.0

    def _check_settings(self) -> None:
        self._check_flags("fit_intercept", "positive", "warm_start")
        number("alpha", self.alpha)
        number("tol", self.tol, ends="(]")
        whole("max_iter", self.max_iter)
        check_precompute(self.precompute)

    def _starts(self, d: int, k: int) -> list[np.ndarray | None]:
        """Where coordinate descent begins, for each target."""
        if not self.warm_start or not hasattr(self, "coef_"):
            return [None] * k
        coef = self._theta("cpu")[0].numpy()
        if coef.shape != (k, d):
            raise InvalidInput(
                f"warm_start needs the {coef.shape[1]} features and {coef.shape[0]} targets of the last fit; here are "
                f"{d} and {k}; set warm_start=False to begin anew"
            )
        return list(coef.astype(np.float64))

    def _from_rows(self, A: Tensor, Y: Tensor, gram: Tensor | None, weight: float, precision: float) -> Tensor:
        l2 = float(self.alpha) * (1 - self._ratio()) * weight
        if self.alpha * self._ratio() == 0:
            penalty = torch.full((Y.shape[1],), l2).to(A)
            way = solve_positive(A, Y, penalty) if self.positive else solve_rows(A, Y, penalty, precision, gram).coef
            return self._closed(way)
        rows, targets = A.cpu().numpy(), Y.cpu().numpy()
        by_gram = gram is not None and len(A) > A.shape[1] if self.precompute == "auto" else self.precompute
        if by_gram:
            sums = A.T @ A if gram is None else gram
            return self._by_gram(sums, A.T @ Y, Y.square().sum(0), weight).to(A)
        problems = [
            make_problem(rows, targets[:, c], False, start)
            for c, start in enumerate(self._starts(A.shape[1], Y.shape[1]))
        ]
        return self._descend(problems, weight).to(A)

    def _from_moments(self, moments: Moments, features: int) -> Tensor:
        gram, right, squares = moments.split(features)
        if self.alpha * self._ratio() == 0:
            if self.positive:
                raise InvalidInput("positive=True without an L1 penalty needs rows in memory")
            l2 = float(self.alpha) * (1 - self._ratio()) * moments.weight
            return self._closed(solve_gram(gram, right, right.new_full((right.shape[1],), l2))[0].coef)
        return self._by_gram(gram, right, squares, moments.weight)

    def _by_gram(self, gram: Tensor, right: Tensor, squares: Tensor, weight: float) -> Tensor:
        from benthic.linear.sparse import GramProblem

        sums, products = gram.cpu().numpy(), right.cpu().numpy()
        starts = self._starts(*right.shape)
        problems = [GramProblem(sums, products[:, c], float(squares[c]), start) for c, start in enumerate(starts)]
        return self._descend(problems, weight)

    def _descend(self, problems: list[Any], weight: float) -> Tensor:
        l1, l2 = self.alpha * self._ratio() * weight, self.alpha * (1 - self._ratio()) * weight
        settings = {"positive": self.positive, "tol": self.tol, "max_iter": self.max_iter}
        steps = [problem.solve(l1, l2, **settings) for problem in problems]
        made, gap = max(step.sweeps for step in steps), max(step.gap for step in steps)
        worst = max(step.gap - self.tol * p.square * (1 + 1e-9) for step, p in zip(steps, problems, strict=True))
        if worst > 0:
            short = made >= self.max_iter
            advice = (
                "raise max_iter, scale the features or raise alpha" if short else "rounding allows no less, raise tol"
            )
            warnings.warn(
                f"{type(self).__name__}.fit: coordinate descent stopped after {made} sweeps with a duality gap of "
                f"{gap:.2g}, above tol * ||y||^2; {advice}",
                ConvergenceWarning,
                stacklevel=6,
            )
        flat = self._columns[1]
        gaps, sweeps = np.array([s.gap for s in steps]) / weight, [max(s.sweeps, 1) for s in steps]
        self.dual_gap_ = float(gaps[0]) if flat else gaps
        self.n_iter_ = sweeps[0] if flat else np.array(sweeps)
        return torch.from_numpy(np.array([step.coef for step in steps]).T.copy())

    def _closed(self, coef: Tensor) -> Tensor:
        flat, k = self._columns[1], coef.shape[1]
        self.dual_gap_, self.n_iter_ = (0.0, 1) if flat else (np.zeros(k), np.ones(k, dtype=np.int64))
        return coef

    @property
    def sparse_coef_(self) -> Any:
        """The coefficients as a SciPy sparse array, (k, d)."""
        from scipy.sparse import csr_array

        return csr_array(self._theta("cpu")[0].numpy())

    def _facts(self) -> dict[str, Any]:
        coef = self._theta("cpu")[0]
        return {
            "alpha": self.alpha,
            "coefficients": f"{int((coef != 0).sum())} of {coef.numel()} not zero",
            "largest": float(coef.abs().max()),
            "duality gap": float(np.max(self.dual_gap_)),
            "sweeps": int(np.max(self.n_iter_)),
        }


class ElasticNet(_SparsePredictor):
    r"""Least squares with L1 and L2 penalties: few coefficients, shared among correlated features.

    .. math:: \min_{w, b} \; \tfrac{1}{2W} \sum_i w_i (y_i - x_i^T w - b)^2 + \alpha \rho \|w\|_1
              + \tfrac{\alpha (1 - \rho)}{2} \|w\|^2, \qquad W = \sum_i w_i

    Zou & Hastie, 2005; by coordinate descent over working sets with extrapolation, until the duality gap is below
    ``tol`` times the sum of squares of the centered y. Without an L1 part it is solved in closed form.

    alpha: strength of the penalty. l1_ratio: ρ, from 0 (ridge) to 1 (lasso). precompute: whether to work with XᵀX;
    ``"auto"`` does for more rows than columns. max_iter: most sweeps. warm_start: begin at the last solution.
    positive: only coefficients >= 0. Files and ``partial_fit`` work with XᵀX. Sums are made on the device of the
    trainer, coordinate descent runs on the CPU.

    coef_: (d,) or (k, d). intercept_: number or (k,). dual_gap_, n_iter_: duality gap of the mean objective and
    sweeps made, a number or (k,).

    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.0]])
    >>> ElasticNet(alpha=0.1).fit(X, [1.0, 3.0, 5.0, 7.0]).coef_.round(3)
    array([1.885, 0.   ])
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        l1_ratio: float = 0.5,
        fit_intercept: bool = True,
        precompute: Any = "auto",
        max_iter: int = 1000,
        tol: float = 1e-4,
        warm_start: bool = False,
        positive: bool = False,
        random_state: Any = None,
        trainer: Any = None,
    ) -> None:
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.precompute = precompute
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.positive = positive
        self.random_state = random_state
        self.trainer = trainer

    def _ratio(self) -> float:
        if not is_number(self.l1_ratio) or not 0 <= self.l1_ratio <= 1:
            raise InvalidInput(f"l1_ratio is {self.l1_ratio!r}; it must lie in [0, 1]: 0 is L2, 1 is L1")
        return float(self.l1_ratio)

    def _check_settings(self) -> None:
        super()._check_settings()
        self._ratio()


class Lasso(_SparsePredictor):
    r"""Least squares with an L1 penalty, which makes most coefficients exactly zero.

    .. math:: \min_{w, b} \; \tfrac{1}{2W} \sum_i w_i (y_i - x_i^T w - b)^2 + \alpha \|w\|_1,
              \qquad W = \sum_i w_i

    Tibshirani, 1996; solved as ``ElasticNet`` is, of which it is the case ρ = 1 and whose other settings it has.

    coef_: (d,) or (k, d). intercept_: number or (k,). dual_gap_, n_iter_: duality gap of the mean objective and
    sweeps made, a number or (k,). ``benthic.linear.lasso_path`` gives the solutions for all penalties.

    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.0]])
    >>> Lasso(alpha=0.1).fit(X, [1.0, 3.0, 5.0, 7.0]).coef_.round(3)
    array([1.92, 0.  ])
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        fit_intercept: bool = True,
        precompute: Any = "auto",
        max_iter: int = 1000,
        tol: float = 1e-4,
        warm_start: bool = False,
        positive: bool = False,
        random_state: Any = None,
        trainer: Any = None,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.precompute = precompute
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.positive = positive
        self.random_state = random_state
        self.trainer = trainer
