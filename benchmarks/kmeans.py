"""k-means from one start, beside scikit-learn's: n = 100 000, d = 32, k = 64, 20 passes, float32."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from benchmarks.harness import Quality, alternate
from benchmarks.report import Claim, Result, exact

TITLE = "KMeans, n=100000 d=32 k=64, 20 passes from one start, float32"
PASSES = 20


def rows_of(kind: str, n: int, d: int, k: int) -> np.ndarray:
    """Overlapping clusters, or one normal cloud in which no row is safe from a change of cluster."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    if kind == "clusters":
        X += rng.normal(scale=1.5, size=(k, d))[rng.integers(k, size=n)]
    return X.astype(np.float32)


def candidate(cls: Any, X: np.ndarray, start: np.ndarray, **settings: Any) -> Any:
    """Fit 20 passes and say how large the distortion is."""

    def work() -> Quality:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that 20 passes did not converge is the plan
            model = cls(len(start), init=start, n_init=1, max_iter=PASSES, tol=0.0, **settings).fit(X)
        gaps = X.astype(np.float64) - np.asarray(model.cluster_centers_, dtype=np.float64)[model.labels_]
        return {"distortion": float(np.square(gaps).sum())}

    return work


def run(quick: bool = False) -> Result:
    """Alternate ours and both of scikit-learn's algorithms on both tables."""
    from sklearn.cluster import KMeans as Peer

    from benthic import KMeans

    n, d, k = (5000, 8, 16) if quick else (100_000, 32, 64)
    candidates = {}
    for kind in ("clusters", "cloud"):
        X = rows_of(kind, n, d, k)
        start = X[np.random.default_rng(1).choice(n, k, replace=False)]
        candidates[f"benthic, {kind}"] = candidate(KMeans, X, start)
        for algorithm in ("lloyd", "elkan"):
            candidates[f"scikit-learn {algorithm}, {kind}"] = candidate(Peer, X, start, algorithm=algorithm)
    timings = alternate(candidates, repeats=2 if quick else 9)
    claims = []
    for kind in ("clusters", "cloud"):
        ours, peer = f"benthic, {kind}", f"scikit-learn lloyd, {kind}"
        claims.append(Claim(f"scikit-learn / benthic, {kind}", timings.ratio(peer, ours), ">=", 1.0, "x"))
        gap = timings.quality[ours]["distortion"] / timings.quality[peer]["distortion"] - 1
        claims.append(Claim(f"relative excess of distortion, {kind}", exact(gap), "<=", 1e-4, ""))
    return Result("kmeans", TITLE, claims, timings, {"rows": n, "columns": d, "clusters": k, "passes": PASSES})
