"""Exact neighbors: ours beside scikit-learn's brute search (d = 32) and k-d tree (d = 3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import Timings, alternate
from benchmarks.report import Claim, Result, exact

TITLE = "k nearest neighbors, n=100000: 1000 queries in 32 columns, 10000 in 3 (fit and query)"
NEIGHBORS = 10


def data(n: int, queries: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows and queries of one normal law."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.normal(size=(queries, d))


def peer(algorithm: str) -> Any:
    """scikit-learn's search with all cores."""
    from sklearn.neighbors import NearestNeighbors

    return NearestNeighbors(n_neighbors=NEIGHBORS, algorithm=algorithm, n_jobs=-1)


def ours(algorithm: str) -> Any:
    """Benthic's."""
    import benthic

    return benthic.KNeighborsRegressor(NEIGHBORS, algorithm=algorithm, n_jobs=-1)


def asking(
    model: Any, X: np.ndarray, queries: np.ndarray, found: dict[str, np.ndarray], name: str, fit: bool
) -> Callable[[], None]:
    """Ask for neighbors, after a fit that is timed too where ``fit``."""

    def fitted() -> Any:
        return model.fit(X, X[:, 0])

    if not fit:
        fitted()

    def run() -> None:
        if fit:
            fitted()
        found[name] = model.kneighbors(queries)[1]

    return run


def measured(n: int, queries: int, d: int, algorithm: str, fit: bool, repeats: int) -> tuple[Timings, float]:
    """Times of both, and the share of neighbors on which they agree."""
    X, asked = data(n, queries, d)
    found: dict[str, np.ndarray] = {}
    models = {f"benthic d={d}": ours(algorithm), f"scikit-learn {algorithm} d={d}": peer(algorithm)}
    runs = {name: asking(model, X, asked, found, name, fit) for name, model in models.items()}
    timings = alternate(runs, repeats=repeats)
    first, second = found.values()
    return timings, float((first == second).mean())


def run(quick: bool = False) -> Result:
    """Both searches, alternated with the peer's."""
    n, repeats = (5000, 2) if quick else (100_000, 7)
    wide, same = measured(n, 200 if quick else 1000, 32, "brute", False, repeats)
    flat, same_too = measured(n, 500 if quick else 10_000, 3, "kd_tree", True, repeats)
    timings = Timings({**wide.seconds, **flat.seconds}, {**wide.quality, **flat.quality})
    claims = [
        Claim(
            "scikit-learn brute / benthic, d=32", wide.ratio("scikit-learn brute d=32", "benthic d=32"), ">=", 1, "x"
        ),
        Claim(
            "scikit-learn kd_tree / benthic, d=3", flat.ratio("scikit-learn kd_tree d=3", "benthic d=3"), ">=", 1, "x"
        ),
        Claim("neighbors that agree", exact(min(same, same_too)), ">=", 1.0),
    ]
    settings = {"n": n, "k": NEIGHBORS, "dtype": "float64", "distribution": "normal"}
    return Result("knn", TITLE, claims, timings, settings)
