"""Classical predictors on real tables beside scikit-learn's, same settings and same rows: who is right more often.

Adult (income), cover types of forests and California housing; a difference is judged by its standard error over the
held-out rows, which both models answer.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks.harness import Interval, data_folder
from benchmarks.report import Claim, Result

TITLE = "Classical predictors on adult, covertype and California housing beside scikit-learn"


class Table(NamedTuple):
    """Rows to fit and rows to judge, scaled by the former."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    def some(self, rows: int) -> Table:
        """The first rows only, which are in random order."""
        return Table(self.X[:rows], self.y[:rows], self.X_test, self.y_test)


def scaled(X: np.ndarray, y: np.ndarray, held: np.ndarray) -> Table:
    """Split and standardize."""
    order = np.random.default_rng(0).permutation(np.flatnonzero(~held))
    mean, scale = X[order].mean(0), X[order].std(0)
    X = (X - mean) / np.where(scale > 0, scale, 1.0)
    return Table(X[order], y[order], X[held], y[held])


def adult() -> Table:
    """Income above 50 000, from numbers and categories written out as columns of zeros and ones."""
    import pandas as pd

    folder = data_folder("uci")
    files = [folder / f"adult-{part}.csv.gz" for part in ("train", "test")]
    parts = [pd.read_csv(file, header=None, skipinitialspace=True) for file in files]
    frame = pd.concat(parts, ignore_index=True)
    y = frame.pop(14).str.startswith(">50K").to_numpy().astype(int)
    X = pd.get_dummies(frame).to_numpy(dtype=np.float64)
    return scaled(X, y, np.arange(len(X)) >= len(parts[0]))


def covertype() -> Table:
    """Seven kinds of forest; a third is held out."""
    import pandas as pd

    table = pd.read_csv(data_folder("uci") / "covertype_kaggle15120.csv.gz").to_numpy(dtype=np.float64)[:, 1:]
    held = np.random.default_rng(1).random(len(table)) < 1 / 3
    return scaled(table[:, :-1], table[:, -1].astype(int), held)


def california() -> Table:
    """The logarithm of house values; a fifth is held out."""
    import pandas as pd

    frame = pd.read_csv(data_folder("uci") / "california_housing.csv.gz").dropna()
    y = np.log(frame.pop("median_house_value").to_numpy(dtype=np.float64))
    X = pd.get_dummies(frame).to_numpy(dtype=np.float64)
    return scaled(X, y, np.random.default_rng(1).random(len(X)) < 0.2)


class Task(NamedTuple):
    """A table and, by name, our model, scikit-learn's, and how many rows to learn from."""

    table: Callable[[], Table]
    models: dict[str, tuple[Any, Any, int]]


def tasks() -> dict[str, Task]:
    """What is fitted to what."""
    from sklearn import ensemble, gaussian_process, linear_model, naive_bayes, neighbors, svm, tree
    from sklearn.gaussian_process import kernels as theirs

    import benthic
    from benthic.kernels import RBF, White

    everything = 10**9
    forest = {"n_estimators": 100, "random_state": 0}
    noisy = theirs.ConstantKernel() * theirs.RBF() + theirs.WhiteKernel()
    return {
        "adult": Task(
            adult,
            {
                "LogisticRegression": (
                    benthic.LogisticRegression(max_iter=300),
                    linear_model.LogisticRegression(max_iter=1000),
                    everything,
                ),
                "BernoulliNB": (benthic.BernoulliNB(), naive_bayes.BernoulliNB(), everything),
                "LinearSVC": (benthic.LinearSVC(), svm.LinearSVC(), everything),
                "DecisionTree": (
                    benthic.DecisionTreeClassifier(max_depth=9),
                    tree.DecisionTreeClassifier(max_depth=9, random_state=0),
                    everything,
                ),
                "RandomForest": (
                    benthic.RandomForestClassifier(**forest, n_jobs=2),
                    ensemble.RandomForestClassifier(**forest, n_jobs=2),
                    everything,
                ),
                "GradientBoosting": (
                    benthic.GradientBoostingClassifier(early_stopping=False, random_state=0),
                    ensemble.HistGradientBoostingClassifier(early_stopping=False, random_state=0),
                    everything,
                ),
            },
        ),
        "covertype": Task(
            covertype,
            {
                "SVC": (benthic.SVC(C=10.0), svm.SVC(C=10.0), 6000),
                "KNeighbors": (benthic.KNeighborsClassifier(3), neighbors.KNeighborsClassifier(3), everything),
                "GaussianNB": (benthic.GaussianNB(), naive_bayes.GaussianNB(), everything),
                "RandomForest": (
                    benthic.RandomForestClassifier(**forest, n_jobs=2),
                    ensemble.RandomForestClassifier(**forest, n_jobs=2),
                    everything,
                ),
                "GradientBoosting": (
                    benthic.GradientBoostingClassifier(early_stopping=False, random_state=0),
                    ensemble.HistGradientBoostingClassifier(early_stopping=False, random_state=0),
                    everything,
                ),
            },
        ),
        "california": Task(
            california,
            {
                "Ridge": (benthic.Ridge(), linear_model.Ridge(), everything),
                "Lasso": (benthic.Lasso(alpha=1e-3, tol=1e-9), linear_model.Lasso(alpha=1e-3, tol=1e-9), everything),
                "KNeighbors": (benthic.KNeighborsRegressor(8), neighbors.KNeighborsRegressor(8), everything),
                "SVR": (benthic.SVR(), svm.SVR(), 5000),
                "GaussianProcess": (
                    benthic.GaussianProcessRegressor(1.0 * RBF(1.0) + White(1.0), normalize_y=True),
                    gaussian_process.GaussianProcessRegressor(noisy, normalize_y=True),
                    1000,
                ),
                "RandomForest": (
                    benthic.RandomForestRegressor(**forest, n_jobs=2),
                    ensemble.RandomForestRegressor(**forest, n_jobs=2, max_features=1 / 3),
                    everything,
                ),
                "GradientBoosting": (
                    benthic.GradientBoostingRegressor(early_stopping=False, random_state=0),
                    ensemble.HistGradientBoostingRegressor(early_stopping=False, random_state=0),
                    everything,
                ),
            },
        ),
    }


def merits(model: Any, table: Table) -> np.ndarray:
    """For each held-out row: whether the answer is right, or minus its squared error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # steps used up are used up on both sides
        answers = model.fit(table.X, table.y).predict(table.X_test)
    if table.y.dtype.kind == "i":
        return (answers == table.y_test).astype(float)
    return -np.square(answers - table.y_test)


def run(quick: bool = False) -> Result:
    """Fit everything twice."""
    claims, settings = [], {}
    for name, task in tasks().items():
        table = task.table()
        for kind, (ours, peer, rows) in task.models.items():
            part = table.some(min(rows, 800) if quick else rows)
            one, two = merits(ours, part), merits(peer, part)
            gap = one - two
            error = max(float(gap.std(ddof=1)) / np.sqrt(len(gap)), 1e-9)
            settings[f"{name}, {kind}"] = {"benthic": one.mean(), "scikit-learn": two.mean(), "rows": len(part.X)}
            value = gap.mean() / error
            text = f"{name}, {kind}: ahead of scikit-learn, in standard errors"
            claims.append(Claim(text, Interval(value, value - 1.96, value + 1.96), ">=", -2.0, ""))
    return Result("classical", TITLE, claims, settings=settings)
