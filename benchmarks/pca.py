"""Twenty principal directions of a table, beside scikit-learn's fastest solver: n = 100 000, d = 200."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.harness import Quality, alternate
from benchmarks.report import Claim, Result, exact

TITLE = "PCA, n=100000 d=200, 20 directions"
SOLVERS = ("covariance_eigh", "randomized", "full")


def rows_of(n: int, d: int, k: int) -> np.ndarray:
    """Rows around a plane of k directions, with noise in all and a mean of their own."""
    rng = np.random.default_rng(0)
    plane = rng.normal(size=(k, d)) * np.linspace(2.0, 0.5, k)[:, None]
    return rng.normal(size=(n, k)) @ plane + rng.normal(size=(n, d)) + 2 * rng.normal(size=d)


def truth(X: np.ndarray, k: int) -> np.ndarray:
    """The leading directions (k, d), from a float64 covariance of differences."""
    gaps = X - X.mean(0)
    return np.linalg.eigh(gaps.T @ gaps)[1][:, ::-1][:, :k].T


def angle(found: Any, right: np.ndarray) -> float:
    """Sine of the largest angle between two subspaces, each given by orthonormal rows."""
    rows = np.linalg.qr(np.asarray(found, dtype=np.float64).T)[0].T
    return float(np.linalg.norm(rows - (rows @ right.T) @ right, 2))


def candidate(model: Callable[[], Any], X: np.ndarray, kept: dict[str, Any], name: str) -> Callable[[], Quality | None]:
    """Fit, and keep the model for the judge."""

    def work() -> None:
        kept[name] = model().fit(X)

    return work


def run(quick: bool = False) -> Result:
    """Alternate ours and all of scikit-learn's solvers, in both precisions."""
    from sklearn import decomposition

    from benthic import PCA

    n, d, k = (5000, 30, 4) if quick else (100_000, 200, 20)
    wide = rows_of(n, d, k)
    right = truth(wide, k)
    kept: dict[str, Any] = {}
    candidates = {}
    for dtype in ("float32", "float64"):
        X = wide.astype(dtype)
        makers = {f"benthic, {dtype}": partial(PCA, k)}
        for solver in SOLVERS[: 3 if quick else 2]:  # the full one takes seconds
            makers[f"scikit-learn {solver}, {dtype}"] = partial(decomposition.PCA, k, svd_solver=solver, random_state=0)
        candidates |= {name: candidate(make, X, kept, name) for name, make in makers.items()}
    timings = alternate(candidates, repeats=2 if quick else 9)
    for name, model in kept.items():
        timings.quality[name]["sine of the angle to the true subspace"] = angle(model.components_, right)
    claims = []
    for dtype, limit in (("float32", 1e-4), ("float64", 1e-8)):
        ours = f"benthic, {dtype}"
        peers = [name for name in candidates if name.endswith(dtype) and name != ours]
        quickest = min(peers, key=timings.median)
        claims.append(Claim(f"{quickest} / benthic", timings.ratio(quickest, ours), ">=", 1.0, "x"))
        off = timings.quality[ours]["sine of the angle to the true subspace"]
        claims.append(Claim(f"sine of the angle to the true subspace, {dtype}", exact(off), "<=", limit))
    return Result("pca", TITLE, claims, timings, {"rows": n, "columns": d, "directions": k})
