"""The path of the lasso and the elastic net: coefficients for every strength of the penalty."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning

from benthic.base.arrays import to_tensor
from benthic.base.capabilities import to_numpy
from benthic.base.errors import InvalidInput, shown

if TYPE_CHECKING:
    from benthic.linear.sparse import Problem


@dataclass(frozen=True)
class PenaltyPath:
    """Solutions along a path, strongest penalty first.

    alphas: (m,). coefs: (d, m). intercepts: (m,). gaps: (m,) duality gaps of the mean objective. sweeps: (m,)
    rounds of coordinate descent.
    """

    alphas: Any
    coefs: Any
    intercepts: Any
    gaps: Any
    sweeps: np.ndarray

    def plot(self, features: Sequence[str] | None = None, ax: Any = None) -> Any:
        """Coefficients against the strength of the penalty, with names of the largest."""
        from benthic.linear.picture import plot_path

        alphas, coefs = (to_numpy(part) for part in (self.alphas, self.coefs))
        return plot_path(alphas, coefs, features, ax)


def lasso_path(X: Any, y: Any, **settings: Any) -> PenaltyPath:
    r"""The lasso for a sequence of penalties.

    .. math:: \min_{w, b} \; \tfrac{1}{2n} \|y - Xw - b\|^2 + \alpha \|w\|_1

    Tibshirani, 1996; see ``enet_path`` for the settings, of which ``l1_ratio`` is 1 here.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(50, 3))
    >>> path = lasso_path(X, X[:, 0] - X[:, 2], n_alphas=5)
    >>> (path.coefs[:, -1] != 0).tolist()
    [True, False, True]
    """
    if "l1_ratio" in settings:
        raise InvalidInput("lasso_path: l1_ratio is 1 here; use enet_path for others")
    return _path("lasso_path", X, y, 1.0, **settings)


def enet_path(X: Any, y: Any, *, l1_ratio: float = 0.5, **settings: Any) -> PenaltyPath:
    r"""The elastic net for a sequence of penalties, each begun at the solution before it.

    .. math:: \min_{w, b} \; \tfrac{1}{2n} \|y - Xw - b\|^2 + \alpha \rho \|w\|_1
              + \tfrac{\alpha (1 - \rho)}{2} \|w\|^2

    Zou & Hastie, 2005; coordinate descent as in Friedman, Hastie & Tibshirani, 2010.

    X: (n, d). y: (n,). l1_ratio: ρ in (0, 1]. eps: least over largest alpha. n_alphas: how many, evenly spaced in
    their logarithm below the least that makes all coefficients zero. alphas: those to use instead. fit_intercept:
    whether b is free (else rows are taken as they are, as scikit-learn's function does). positive: only
    coefficients >= 0. tol: duality gap to reach, relative to the sum of squares of y. max_iter: most sweeps for one
    alpha. precompute: whether to work with XᵀX; ``"auto"`` does for more rows than columns.
    """
    return _path("enet_path", X, y, l1_ratio, **settings)


def _path(
    name: str,
    X: Any,
    y: Any,
    l1_ratio: float,
    *,
    eps: float = 1e-3,
    n_alphas: int = 100,
    alphas: Any = None,
    fit_intercept: bool = True,
    positive: bool = False,
    tol: float = 1e-4,
    max_iter: int = 1000,
    precompute: Any = "auto",
) -> PenaltyPath:
    if not 0 < l1_ratio <= 1:
        raise InvalidInput(f"{name}: l1_ratio is {l1_ratio!r}; a path needs it in (0, 1], use Ridge for 0")
    check_precompute(precompute)
    tensor, origin = to_tensor(X)
    rows, target = tensor.cpu().double().numpy(), _target(name, tensor, y)
    shift, mean = (rows.mean(0), target.mean()) if fit_intercept else (np.zeros(rows.shape[1]), 0.0)
    centered = rows - shift if fit_intercept else rows
    problem = make_problem(centered, target - mean, precompute)
    n = len(rows)
    strengths = _strengths(name, problem, n * l1_ratio, eps, n_alphas, alphas, positive)
    found = []
    for alpha in strengths:
        l1, l2 = alpha * l1_ratio * n, alpha * (1 - l1_ratio) * n
        found.append(problem.solve(l1, l2, positive=positive, tol=tol, max_iter=max_iter))
    _complain(name, [step.gap for step in found], tol * problem.square, max_iter)
    coefs = np.array([step.coef for step in found]).T.reshape(rows.shape[1], len(strengths))
    parts = (strengths, coefs, mean - shift @ coefs, np.array([step.gap for step in found]) / n)
    alphas, coefs, intercepts, gaps = (origin.mirror(torch.from_numpy(np.ascontiguousarray(part))) for part in parts)
    return PenaltyPath(alphas, coefs, intercepts, gaps, np.array([step.sweeps for step in found]))


def check_precompute(precompute: Any) -> None:
    """Refuse what is none of the three choices, among them a matrix, which scikit-learn takes."""
    if getattr(precompute, "ndim", 0) or precompute not in (True, False, "auto"):
        raise InvalidInput(f"precompute is {shown(precompute)}; use True, False or 'auto', and XᵀX is computed")


def make_problem(rows: np.ndarray, target: np.ndarray, precompute: Any, start: np.ndarray | None = None) -> Problem:
    """The problem in its rows or in its sums, by shape if ``precompute`` is ``"auto"``."""
    from benthic.linear.sparse import GramProblem, RowProblem

    if len(rows) > rows.shape[1] if precompute == "auto" else precompute:
        return GramProblem(rows.T @ rows, rows.T @ target, float(target @ target), start)
    return RowProblem(rows, target, start)


def _target(name: str, X: torch.Tensor, y: Any) -> np.ndarray:
    if X.ndim != 2 or not X.numel():
        raise InvalidInput(f"{name}: X has shape {tuple(X.shape)}; expected (n, d) with at least one row and column")
    target = to_tensor(y)[0].cpu().double()
    if target.shape != (len(X),):
        raise InvalidInput(f"{name}: y has shape {tuple(target.shape)}; expected ({len(X)},), one target a row")
    if not _finite(X) or not _finite(target):
        raise InvalidInput(f"{name}: X or y contains NaN or infinity; impute or drop those rows")
    return target.numpy()


def _finite(values: torch.Tensor) -> bool:
    """Whether all are finite: their sum says so at once, unless it overflows."""
    return bool(torch.isfinite(values.sum())) or bool(torch.isfinite(values).all())


def _strengths(
    name: str, problem: Problem, scale: float, eps: float, n_alphas: int, alphas: Any, positive: bool
) -> np.ndarray:
    if alphas is not None:
        given = np.sort(np.asarray(to_numpy(alphas), dtype=np.float64).ravel())[::-1]
        if not len(given) or not (given > 0).all() or not np.isfinite(given).all():
            raise InvalidInput(f"{name}: alphas must be positive numbers; LinearRegression is the case of zero")
        return given.copy()
    if not 0 < eps < 1 or n_alphas < 1:
        raise InvalidInput(f"{name}: eps is {eps!r} and n_alphas {n_alphas!r}; they must lie in (0, 1) and above 0")
    steepest = float(max(problem.products.max(), 0.0)) if positive else problem.largest
    top = max(steepest / scale, np.finfo(np.float64).tiny ** 0.5)
    return np.geomspace(top, top * eps, n_alphas) if n_alphas > 1 else np.array([top])


def _complain(name: str, gaps: Sequence[float], limit: float, max_iter: int) -> None:
    missed = [gap for gap in gaps if gap > limit * (1 + 1e-9)]
    if missed:
        warnings.warn(
            f"{name}: {len(missed)} of {len(gaps)} penalties stopped after {max_iter} sweeps with a duality gap of up "
            f"to {max(missed):.2g}, above {limit:.2g}; raise max_iter or tol, scale the features or raise eps",
            ConvergenceWarning,
            stacklevel=4,
        )
