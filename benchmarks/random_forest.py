"""A forest of full trees: ours on bins beside scikit-learn's on sorted values, two jobs each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import Interval, Quality, alternate
from benchmarks.report import Claim, Result

TITLE = "RandomForestClassifier, 100 full trees, n=50000 d=20, 2 jobs (ours: 255 bins a column)"
TEST = 10_000


def problem(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Clusters on a hypercube, some columns redundant, some noise; the last rows are for testing."""
    from sklearn.datasets import make_classification

    return make_classification(n + TEST, 20, n_informative=10, n_redundant=4, flip_y=0.02, random_state=seed)


def makers(trees: int) -> dict[str, Callable[[int], Any]]:
    """Both forests at their defaults, by seed."""
    from sklearn import ensemble

    import benthic

    return {
        "benthic": lambda seed: benthic.RandomForestClassifier(trees, n_jobs=2, random_state=seed),
        "scikit-learn": lambda seed: ensemble.RandomForestClassifier(trees, n_jobs=2, random_state=seed),
    }


def accuracies(trees: int, n: int, seeds: int) -> dict[str, np.ndarray]:
    """Accuracy on new rows for several data sets, (seeds,) each."""
    found: dict[str, list[float]] = {name: [] for name in makers(trees)}
    for seed in range(seeds):
        X, y = problem(n, seed)
        for name, make in makers(trees).items():
            found[name].append(make(seed).fit(X[:n], y[:n]).score(X[n:], y[n:]))
    return {name: np.array(values) for name, values in found.items()}


def run(quick: bool = False) -> Result:
    """Time fits in turn on one data set; then accuracy over seeds."""
    n, trees, repeats, seeds = (3000, 20, 2, 2) if quick else (50_000, 100, 3, 5)
    X, y = problem(n, 0)

    def candidate(make: Callable[[int], Any]) -> Callable[[], Quality | None]:
        def work() -> None:
            make(0).fit(X[:n], y[:n])

        return work

    timings = alternate({name: candidate(make) for name, make in makers(trees).items()}, repeats=repeats)
    scores = accuracies(trees, n, seeds)
    for name, values in scores.items():
        stderr = values.std(ddof=1) / np.sqrt(seeds)
        timings.quality[name] = {"accuracy": float(values.mean()), "standard error": float(stderr)}
    gap = scores["scikit-learn"] - scores["benthic"]
    error = float(gap.std(ddof=1) / np.sqrt(seeds))
    one = float(scores["scikit-learn"].std(ddof=1) / np.sqrt(seeds))
    lost = Interval(float(gap.mean()), float(gap.mean() - 2 * error), float(gap.mean() + 2 * error))
    claims = [
        Claim("scikit-learn / benthic", timings.ratio("scikit-learn", "benthic"), ">=", 3.0, "x"),
        Claim("accuracy lost (limit: one standard error over seeds)", lost, "<=", one),
    ]
    settings = {"n": n, "trees": trees, "seeds": seeds, "accuracies": {k: v.tolist() for k, v in scores.items()}}
    return Result("random_forest", TITLE, claims, timings, settings)
