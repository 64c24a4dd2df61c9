"""The whole path of the lasso at one duality gap: ours beside scikit-learn's, for tall and for wide data."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.harness import Quality, Timings, alternate
from benchmarks.report import Claim, Result, exact

TITLE = "Lasso path, 100 alphas, duality gap <= 1e-4 and 1e-6 of the squares of y: n=5000 d=500 and n=200 d=5000"
ALPHAS = 100
TOLERANCES = (1e-4, 1e-6)


def problem(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Correlated columns, twenty of which matter; centered, in Fortran order, which is what the peer likes best."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    for j in range(1, d):
        X[:, j] = 0.5 * X[:, j - 1] + np.sqrt(0.75) * X[:, j]
    w = np.zeros(d)
    w[rng.choice(d, min(20, d), replace=False)] = rng.normal(size=min(20, d))
    y = X @ w + 0.5 * rng.normal(size=n)
    return np.asfortranarray(X - X.mean(0)), y - y.mean()


def gap(X: np.ndarray, y: np.ndarray, alphas: np.ndarray, coefs: np.ndarray) -> float:
    """Largest duality gap on the path, relative to the squares of y, by one formula for all candidates."""
    worst, total, n = 0.0, float(y @ y), len(y)
    for alpha, w in zip(alphas, coefs.T, strict=True):
        residual = y - X @ w
        dual = residual * min(1.0, alpha * n / np.abs(X.T @ residual).max())
        primal = 0.5 * residual @ residual + alpha * n * np.abs(w).sum()
        worst = max(worst, primal - 0.5 * total + 0.5 * (y - dual) @ (y - dual))
    return worst / total


def candidates(
    X: np.ndarray, y: np.ndarray, tol: float, kept: dict[str, Any]
) -> dict[str, Callable[[], Quality | None]]:
    """Both libraries on the same alphas; what they find goes to ``kept``."""
    from sklearn.linear_model import lasso_path as theirs

    from benthic.linear import lasso_path as ours

    top = np.abs(X.T @ y).max() / len(y)
    alphas = np.geomspace(top, top * 1e-3, ALPHAS)

    def benthic() -> None:
        path = ours(X, y, alphas=alphas, tol=tol, max_iter=5000, fit_intercept=False)
        kept["benthic"] = (path.alphas, path.coefs)

    def peer() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kept["scikit-learn"] = theirs(X, y, alphas=alphas, tol=tol, max_iter=5000)[:2]

    return {"benthic": benthic, "scikit-learn": peer}


def measure(n: int, d: int, tol: float, repeats: int) -> tuple[list[Claim], Timings, Mapping[str, float]]:
    """One shape at one tolerance: the ratio, and the gaps both reached."""
    X, y = problem(n, d)
    kept: dict[str, Any] = {}
    timings = alternate(candidates(X, y, tol, kept), repeats=repeats)
    gaps = {name: gap(X, y, *found) for name, found in kept.items()}
    where = f"n={n} d={d} gap {tol:g}"
    claims = [
        Claim(f"scikit-learn / benthic, {where}", timings.ratio("scikit-learn", "benthic"), ">=", 1.0, "x"),
        Claim(f"relative gap of benthic, {where}", exact(gaps["benthic"]), "<=", tol * (1 + 1e-6)),
    ]
    return claims, timings, gaps


def run(quick: bool = False) -> Result:
    """Alternate both libraries on both shapes and both tolerances."""
    shapes = ((300, 50), (50, 300)) if quick else ((5000, 500), (200, 5000))
    claims: list[Claim] = []
    seconds: dict[str, list[float]] = {}
    quality: dict[str, dict[str, float]] = {}
    for n, d in shapes:
        for tol in TOLERANCES:
            found, timings, gaps = measure(n, d, tol, 2 if quick else 7)
            claims += found
            for name in timings.seconds:
                label = f"{name}, n={n} d={d} gap {tol:g}"
                seconds[label], quality[label] = timings.seconds[name], {"gap": gaps[name]}
    settings = {"alphas": ALPHAS, "least over largest alpha": 1e-3}
    return Result("lasso", TITLE, claims, Timings(seconds, quality), settings)
