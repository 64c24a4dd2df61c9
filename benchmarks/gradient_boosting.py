"""Boosting small trees: ours beside LightGBM's and scikit-learn's, two threads each, at equal quality."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.harness import Interval, Quality, alternate
from benchmarks.report import Claim, Result

TITLE = "GradientBoosting, 200 trees of 31 leaves, n=100000 d=50, 2 threads: regression and two classes"
TEST = 20_000


@dataclass(frozen=True)
class Problem:
    """Rows and targets, the last of them for testing. binary: whether targets are classes."""

    X: np.ndarray
    y: np.ndarray
    binary: bool

    @property
    def n(self) -> int:
        """The number of rows to learn from."""
        return len(self.y) - TEST

    def loss(self, model: Any) -> float:
        """Log-loss or mean squared error on new rows."""
        X, y = self.X[self.n :], self.y[self.n :]
        if self.binary:
            p = model.predict_proba(X)[np.arange(len(y)), y.astype(int)]
            return float(-np.log(np.maximum(p, 1e-12)).mean())
        return float(np.square(model.predict(X) - y).mean())


def problem(n: int, d: int, seed: int, binary: bool) -> Problem:
    """A smooth function of ten columns with an interaction, and noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + TEST, d))
    f = X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2]) + X[:, 3:8].sum(1) + np.maximum(X[:, 8], 0) * X[:, 9]
    if binary:
        return Problem(X, (f + rng.logistic(size=len(f)) > 0).astype(np.int64), True)
    return Problem(X, f + rng.normal(size=len(f)), False)


def makers(trees: int, binary: bool) -> dict[str, Callable[[], Any]]:
    """The three libraries with the same rate, trees, leaves, rows of a leaf and bins."""
    import lightgbm
    from sklearn import ensemble

    import benthic

    ours = benthic.GradientBoostingClassifier if binary else benthic.GradientBoostingRegressor
    light = lightgbm.LGBMClassifier if binary else lightgbm.LGBMRegressor
    theirs = ensemble.HistGradientBoostingClassifier if binary else ensemble.HistGradientBoostingRegressor
    return {
        "benthic": lambda: ours(max_iter=trees, early_stopping=False, n_jobs=2),
        "LightGBM": lambda: light(n_estimators=trees, num_leaves=31, n_jobs=2, verbose=-1),
        "scikit-learn": lambda: theirs(max_iter=trees, early_stopping=False),
    }


def fit(make: Callable[[], Any], given: Problem) -> Any:
    """One fit, without the complaints of LightGBM about names of columns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make().fit(given.X[: given.n], given.y[: given.n])


def losses(n: int, d: int, trees: int, seeds: int, binary: bool) -> dict[str, np.ndarray]:
    """Loss on new rows for several data sets, (seeds,) each."""
    found: dict[str, list[float]] = {name: [] for name in makers(trees, binary)}
    for seed in range(seeds):
        given = problem(n, d, seed, binary)
        for name, make in makers(trees, binary).items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found[name].append(given.loss(fit(make, given)))
    return {name: np.array(values) for name, values in found.items()}


def worse(ours: np.ndarray, theirs: np.ndarray) -> tuple[Interval, float]:
    """Our loss less the peer's, relative, with its 95 % interval, and two standard errors of it."""
    gap = (ours - theirs) / theirs
    error = float(2 * gap.std(ddof=1) / np.sqrt(len(gap)))
    mean = float(gap.mean())
    return Interval(mean, mean - error, mean + error), error


def run(quick: bool = False) -> Result:
    """Time fits in turn for both tasks; then losses over seeds."""
    n, d, trees, repeats, seeds = (4000, 10, 20, 2, 2) if quick else (100_000, 50, 200, 5, 5)
    candidates: dict[str, Callable[[], Quality | None]] = {}

    def candidate(make: Callable[[], Any], given: Problem) -> Callable[[], Quality | None]:
        def work() -> None:
            fit(make, given)

        return work

    for binary in (False, True):
        given = problem(n, d, 0, binary)
        for name, make in makers(trees, binary).items():
            candidates[f"{name} {'classes' if binary else 'numbers'}"] = candidate(make, given)
    timings = alternate(candidates, repeats=repeats)
    claims = []
    for binary, task in ((False, "numbers"), (True, "classes")):
        found = losses(n, d, trees, seeds, binary)
        for name, values in found.items():
            error = float(values.std(ddof=1) / np.sqrt(seeds))
            timings.quality[f"{name} {task}"] = {"test loss": float(values.mean()), "standard error": error}
        for peer in ("LightGBM", "scikit-learn"):
            ratio = timings.ratio(f"{peer} {task}", f"benthic {task}")
            claims.append(Claim(f"{peer} / benthic, {task}", ratio, ">=", 1.0, "x"))
            gap, error = worse(found["benthic"], found[peer])
            text = f"loss above {peer}'s, {task}, relative (limit: two standard errors, or 0.2 %)"
            claims.append(Claim(text, gap, "<=", max(error, 2e-3)))
    settings = {"n": n, "d": d, "trees": trees, "leaves": 31, "seeds": seeds, "rows of a leaf": 20, "bins": 255}
    return Result("gradient_boosting", TITLE, claims, timings, settings)
