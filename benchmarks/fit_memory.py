"""Peak memory of fitting a million rows beyond the rows themselves, each learner beside its peer."""

from __future__ import annotations

import json
import sys
import time
import warnings
from typing import Any

import numpy as np

from benchmarks.harness import Timings, python
from benchmarks.report import Claim, Result, exact
from benchmarks.streaming_memory import Watch, anonymous

TITLE = "peak RssAnon of fits beyond their data, as a share of it, beside scikit-learn"
COLUMNS = 20
# Name, settings of both, the peer where it is called otherwise, its further settings, our limit (None: its share).
TASKS: dict[str, tuple[str, dict[str, Any], str, dict[str, Any], float | None]] = {
    "boosting": (
        "GradientBoostingRegressor",
        {"max_iter": 5, "early_stopping": False, "random_state": 0},
        "HistGradientBoostingRegressor",
        {},
        0.6,
    ),
    "forest": ("RandomForestRegressor", {"n_estimators": 2, "max_depth": 12, "random_state": 0}, "", {}, None),
    "tree": ("DecisionTreeRegressor", {"max_depth": 12, "random_state": 0}, "", {}, None),
    "k-means": ("KMeans", {"n_clusters": 8, "max_iter": 10, "n_init": 1, "random_state": 0}, "", {}, 0.5),
    "mixture": ("GaussianMixture", {"n_components": 4, "max_iter": 3, "random_state": 0}, "", {}, None),
    "least squares": ("LinearRegression", {}, "", {}, None),
    "ridge": ("Ridge", {"alpha": 1.0}, "", {}, None),
    "logistic": ("LogisticRegression", {"max_iter": 20}, "", {}, None),
    "naive Bayes": ("GaussianNB", {}, "", {}, None),
    "PCA": ("PCA", {"n_components": 4}, "", {}, None),
    "neighbors": ("KNeighborsRegressor", {"n_neighbors": 5}, "", {"algorithm": "kd_tree"}, None),
}


def data(rows: int, labels: bool) -> tuple[np.ndarray, np.ndarray]:
    """Normal rows and a target that depends on four of their columns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, COLUMNS))
    y = X[:, 0] + np.sin(2 * X[:, 1]) + X[:, 2] * X[:, 3] + 0.3 * rng.normal(size=rows)
    return X, (y > 0).astype(int) if labels else y


def worker(task: str, whose: str, rows: int) -> dict[str, Any]:
    """Fit once and report seconds and memory; runs in the subprocess. A small fit before loads what is loaded once."""
    warnings.simplefilter("ignore")  # a fit cut short says so
    ours, settings, peer, further, _ = TASKS[task]
    if whose == "benthic":
        import benthic

        model = getattr(benthic, ours)(**settings)
    else:
        from sklearn.utils import all_estimators

        model = dict(all_estimators())[peer or ours](**settings, **further)
    labels = ours in ("LogisticRegression", "GaussianNB")
    model.fit(*data(2000, labels))
    X, y = data(rows, labels)
    before = anonymous()
    watch = Watch()
    watch.start()
    start = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "share": (watch.stop() - before) / X.nbytes}


def run(quick: bool = False) -> Result:
    """Fit each model in a fresh process, ours and the peer's."""
    rows = 20_000 if quick else 1_000_000
    timings, claims = Timings({}), []
    for task, (*_, most) in TASKS.items():
        shares = {}
        for whose in ("benthic", "scikit-learn"):
            found = python("-m", "benchmarks.fit_memory", task, whose, str(rows), timeout=1800)
            timings.seconds[f"{task}, {whose}"] = [found.pop("seconds")]
            timings.quality[f"{task}, {whose}"] = found
            shares[whose] = found["share"]
        text = f"{task}: peak beyond the data, share of it (scikit-learn {shares['scikit-learn']:.2f})"
        claims.append(Claim(text, exact(shares["benthic"]), "<=", shares["scikit-learn"] if most is None else most))
    return Result("fit_memory", TITLE, claims, timings, {"rows": rows, "columns": COLUMNS})


if __name__ == "__main__":
    print(json.dumps(worker(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
