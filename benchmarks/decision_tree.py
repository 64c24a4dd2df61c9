"""One exact CART tree beside scikit-learn's: classes by Gini and entropy, numbers by squared error, and answers."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.harness import alternate
from benchmarks.report import Claim, Result, exact

TITLE = "DecisionTree, exact splits, grown to the end, n=50000 d=20: time of a fit, one thread"


def problem(n: int, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows in numbers that float32 holds exactly, labels and targets with noise: deep trees."""
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) / np.sqrt(d)).astype(np.float32).astype(np.float64)
    signal = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3] ** 2
    y = signal + 0.5 * rng.normal(size=n)
    return X, (y > np.median(y)).astype(int), y


def candidates(cls: dict[str, Any], X: np.ndarray, labels: np.ndarray, y: np.ndarray, kept: dict[str, Any]) -> dict:
    """Fits and answers of one library. cls: its classifier and regressor. kept: gets the fitted models."""
    name = cls["name"]

    def fit(task: str, model: Any, target: np.ndarray) -> None:
        kept[f"{name} {task}"] = model.fit(X, target)

    def answer() -> None:
        kept[f"{name} gini"].predict_proba(X)

    return {
        f"{name} gini": lambda: fit("gini", cls["classes"](random_state=0), labels),
        f"{name} entropy": lambda: fit("entropy", cls["classes"](criterion="entropy", random_state=0), labels),
        f"{name} squares": lambda: fit("squares", cls["numbers"](random_state=0), y),
        f"{name} answers": answer,
    }


def run(quick: bool = False) -> Result:
    """Measure both in turn; quality is the accuracy, or coefficient of determination, on fresh rows."""
    from sklearn import tree

    import benthic

    n, d, repeats = (2000, 5, 2) if quick else (50_000, 20, 7)
    X, labels, y = problem(2 * n, d)
    (X, fresh), (labels, unseen), (y, later) = ((part[:n], part[n:]) for part in (X, labels, y))
    kept: dict[str, Any] = {}
    ours = {"name": "benthic", "classes": benthic.DecisionTreeClassifier, "numbers": benthic.DecisionTreeRegressor}
    theirs = {
        "name": "scikit-learn",
        "classes": tree.DecisionTreeClassifier,
        "numbers": tree.DecisionTreeRegressor,
    }
    fits = candidates(ours, X, labels, y, kept) | candidates(theirs, X, labels, y, kept)
    timings = alternate(fits, repeats=repeats)
    for name, model in kept.items():
        score = model.score(fresh, later if name.endswith("squares") else unseen)
        timings.quality[name].update({"score": float(score), "leaves": float(model.get_n_leaves())})
    claims = [
        Claim(
            f"scikit-learn / benthic, {task}", timings.ratio(f"scikit-learn {task}", f"benthic {task}"), ">=", 1.0, "x"
        )
        for task in ("gini", "entropy", "squares")
    ]
    answers = timings.ratio("scikit-learn answers", "benthic answers")
    claims.append(Claim("scikit-learn / benthic, answers", answers, ">=", 0.5, "x"))
    for task in ("gini", "entropy", "squares"):
        behind = timings.quality[f"scikit-learn {task}"]["score"] - timings.quality[f"benthic {task}"]["score"]
        # one standard error of an accuracy near 0.85 over n rows, doubled
        claims.append(
            Claim(f"score behind scikit-learn, {task}", exact(max(behind, 0.0)), "<=", float(0.72 / np.sqrt(n)))
        )
    return Result("decision_tree", TITLE, claims, timings, {"n": n, "d": d, "threads": 1})
