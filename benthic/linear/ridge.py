"""Ridge regression: least squares with short coefficients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.linear.least_squares import solve_gram, solve_positive, solve_rows
from benthic.linear.moments import Moments, Summing
from benthic.linear.regression import _LinearPredictor


class Ridge(_LinearPredictor):
    r"""Least squares with a penalty on the squared length of the coefficients.

    .. math:: \min_{w, b} \; \sum_i w_i (y_i - x_i^T w - b)^2 + \alpha \|w\|^2

    Hoerl & Kennard, 1970. Solved as ``LinearRegression`` is: normal equations where they are accurate, else QR and
    singular values; files and several processes by sums and corrections; ``partial_fit`` by sums. The intercept is
    not penalized.

    alpha: strength of the penalty, >= 0; one number, or one for each target. fit_intercept: whether b is free or
    zero. positive: only coefficients >= 0; rows in memory. trainer: device and block size (``Trainer``).

    coef_: (d,) or (k, d). intercept_: number or (k,). r2_: share of the variance explained. dof_: effective number
    of coefficients, the trace of the smoother, a number or (k,).

    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> Ridge(alpha=5.0).fit(X, [1.0, 3.0, 5.0, 7.0]).coef_.round(6)
    array([1.])
    """

    def __init__(
        self,
        alpha: Any = 1.0,
        *,
        fit_intercept: bool = True,
        positive: bool = False,
        random_state: Any = None,
        trainer: Any = None,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.positive = positive
        self.random_state = random_state
        self.trainer = trainer

    def _check_settings(self) -> None:
        self._check_flags("fit_intercept", "positive")
        given = np.asarray(self.alpha)
        if given.dtype.kind not in "iuf" or given.ndim > 1 or not (given >= 0).all() or not np.isfinite(given).all():
            raise InvalidInput(f"alpha is {self.alpha!r}; it must be a number >= 0, or one for each target")

    def _alphas(self, like: Tensor, targets: int) -> Tensor:
        given = torch.as_tensor(np.atleast_1d(np.asarray(self.alpha, dtype=np.float64))).to(like)
        if len(given) not in (1, targets):
            raise InvalidInput(f"alpha has {len(given)} numbers for {targets} targets; give one, or one for each")
        return given.expand(targets)

    def _from_rows(self, A: Tensor, Y: Tensor, gram: Tensor | None, weight: float, precision: float) -> Tensor:
        alpha = self._alphas(A, Y.shape[1])
        solved = solve_rows(A, Y, alpha, precision, gram)
        coef = solve_positive(A, Y, alpha) if self.positive else solved.coef
        self._judge(solved.singular, (Y - A @ coef).square().sum(0), Y.square().sum(0), alpha)
        return coef

    def _from_moments(self, moments: Moments, features: int) -> Tensor:
        gram, right, squares = moments.split(features)
        alpha = self._alphas(right, right.shape[1])
        solved, _ = solve_gram(gram, right, alpha)
        left = squares - (solved.coef * (2 * right - gram @ solved.coef)).sum(0)
        self._judge(solved.singular, left.clamp(min=0.0), squares, alpha)
        return solved.coef

    def _streamed(self, features: int) -> Summing:
        if self.positive:
            raise InvalidInput("positive=True needs rows in memory and one process")
        alpha = torch.as_tensor(np.atleast_1d(np.asarray(self.alpha, dtype=np.float64)))

        def answer(moments: Moments) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
            gram, right, _ = self._about(moments).split(features)
            solved, again = solve_gram(gram, right, self._alphas(right, right.shape[1]))
            return solved.coef, again

        return Summing(features, answer, alpha, centered=self.fit_intercept)

    def _from_stream(self, learner: Summing, features: int) -> Tensor:
        gram, _, squares = self._about(learner.moments).split(features)
        alpha = self._alphas(learner.coef, learner.coef.shape[1])
        singular = torch.linalg.eigvalsh(gram).flip(0).clamp(min=0.0).sqrt()
        self._judge(singular, learner.squares, squares, alpha)
        return learner.coef

    def _judge(self, singular: Tensor, left: Tensor, squares: Tensor, alpha: Tensor) -> None:
        share = singular[:, None] ** 2
        dof = torch.where(share > 0, share / (share + alpha), 0.0).sum(0)
        r2 = torch.where(squares > 0, 1 - left / squares, 1.0)
        flat = self._columns[1]
        self.dof_ = float(dof[0]) if flat else dof.cpu().numpy()
        self.r2_ = float(r2[0]) if flat else r2.cpu().numpy()

    def _facts(self) -> dict[str, Any]:
        coef = self._theta("cpu")[0]
        return {
            "alpha": self.alpha,
            "targets": len(coef),
            "effective coefficients": self.dof_,
            "R2": self.r2_,
            "largest": float(coef.abs().max()),
        }
