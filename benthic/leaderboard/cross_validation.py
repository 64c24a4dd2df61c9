"""Cross-validation: what a model is worth on rows it was not fitted on, and how well that is known."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benthic.base.errors import InvalidInput, nearest
from benthic.base.estimate import Estimate
from benthic.data.splits import take
from benthic.leaderboard.plans import Split, fold_plan
from benthic.leaderboard.scoring import Judge, Scoring, fitted, is_classifier
from benthic.metrics.comparing import resampled_estimate
from benthic.metrics.rows import device_of, plain, same_rows, weights_of


@dataclass(frozen=True)
class CrossValidation:
    """Scores of every fit.

    scores: by name, (J,) for J fits. better: ``higher`` or ``lower`` by name. train_rows, test_rows, seconds: (J,).
    undefined: measures that some fold could not give, such as the area of a fold of one class; they are left out.
    """

    scores: dict[str, np.ndarray]
    better: dict[str, str]
    train_rows: np.ndarray
    test_rows: np.ndarray
    seconds: np.ndarray
    undefined: tuple[str, ...] = ()

    @property
    def test_share(self) -> float:
        """Rows judged over rows fitted."""
        return float(self.test_rows.mean() / self.train_rows.mean())

    def of(self, name: str | None = None) -> np.ndarray:
        """The scores (J,) of that name; of the first without one."""
        name = next(iter(self.scores)) if name is None else name
        if name not in self.scores:
            known = ", ".join(self.scores)
            raise InvalidInput(f"CrossValidation: no scores {name!r}; there are {known}{nearest(name, self.scores)}")
        return self.scores[name]

    def estimate(self, name: str | None = None) -> Estimate:
        """The mean score and its standard error, corrected for the overlap of training sets."""
        return resampled_estimate(self.of(name), self.test_share)

    def interval(self, name: str | None = None, level: float = 0.95) -> tuple[float, float]:
        """Where the score lies with the given confidence, by Student's law with J - 1 degrees of freedom."""
        from scipy.stats import t as law

        found = self.estimate(name)
        reach = float(law.ppf((1 + level) / 2, len(self.of(name)) - 1)) * found.stderr
        return found.value - reach, found.value + reach

    def summary(self) -> str:
        """A line a score: mean, error, range."""
        lines = [f"{len(self.seconds)} fits of {self.train_rows.mean():g} rows, judged on {self.test_rows.mean():g}"]
        for name, values in self.scores.items():
            lines.append(f"{name:<16} {self.estimate(name)!s:<20} from {values.min():.4g} to {values.max():.4g}")
        return "\n".join([*lines, *(f"{name:<16} undefined in some folds" for name in self.undefined)])

    def plot(self, name: str | None = None, title: str = "") -> Any:
        """Every score as a point, the mean and its interval beside them."""
        from benthic.leaderboard.figures import draw_scores

        return draw_scores({"": self}, name, title)


def cross_validate(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    scoring: Scoring = None,
    k: int = 5,
    repeats: int = 1,
    stratify: bool | None = None,
    groups: Any = None,
    sample_weight: Any = None,
    seed: int = 0,
) -> CrossValidation:
    """Scores of unfitted copies of a model, each fitted on all folds but one and judged on that one.

    X: (n, ...) array, tensor or frame. y: (n,) or None. scoring: a measure's or scikit-learn scorer's name, a function
    of (model, X, y) where larger is better, several by name, or None for all measures that fit the model. k, repeats:
    folds, dealt out anew so often. stratify: whether folds keep the shares of the classes; None does for classifiers.
    groups: (n,) rows of one group stay together. sample_weight: (n,) given to ``fit`` and to the measures.

    >>> from sklearn.linear_model import LinearRegression
    >>> X = np.arange(20.0)[:, None]
    >>> cross_validate(LinearRegression(), X, 2 * X[:, 0] + 1, scoring="r2").estimate().value
    1.0
    """
    where = "cross_validate"
    n, weights = door(X, y, sample_weight, where)
    plan = plan_for(model, n, y, k, repeats, stratify, groups, seed, where)
    return run_plan([model] * len(plan), X, y, weights, plan, scoring, where)


def run_plan(
    models: Sequence[Any], X: Any, y: Any, weights: np.ndarray | None, plan: list[Split], scoring: Scoring, where: str
) -> CrossValidation:
    """Fit and judge one model a split."""
    judge = Judge(scoring, where)
    found, seconds = [], []
    for number, (model, (train, test)) in enumerate(zip(models, plan, strict=True)):
        check_classes(model, y, train, f"{where}: fold {number + 1} of {len(plan)}")
        started = time.perf_counter()
        fresh = fitted(model, X, y, weights, train, where)
        seconds.append(time.perf_counter() - started)
        part = None if weights is None else weights[test]
        found.append(judge(fresh, take(X, test), None if y is None else take(y, test), part))
    every = [name for name in judge.better if all(name in scores for scores in found)]
    return CrossValidation(
        {name: np.array([scores[name] for scores in found]) for name in every},
        {name: judge.better[name] for name in every},
        np.array([len(train) for train, _ in plan]),
        np.array([len(test) for _, test in plan]),
        np.array(seconds),
        tuple(name for name in judge.better if name not in every),
    )


def cross_predict(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    method: str = "predict",
    k: int = 5,
    stratify: bool | None = None,
    groups: Any = None,
    sample_weight: Any = None,
    seed: int = 0,
) -> np.ndarray:
    """What a model answers for each row when that row was not fitted.

    method: ``predict``, ``predict_proba``, ``decision_function`` or another verb that gives a row a row. Columns of
    ``predict_proba`` are all classes of ``y``, sorted; a class that a fold never saw has probability 0 there.
    Returns (n,) or (n, m), NumPy.

    >>> from sklearn.linear_model import LinearRegression
    >>> X = np.arange(6.0)[:, None]
    >>> cross_predict(LinearRegression(), X, X[:, 0], k=3).round(6)
    array([0., 1., 2., 3., 4., 5.])
    """
    where = "cross_predict"
    n, weights = door(X, y, sample_weight, where)
    answer: np.ndarray | None = None
    for train, test in plan_for(model, n, y, k, 1, stratify, groups, seed, where):
        check_classes(model, y, train, where)
        fresh = fitted(model, X, y, weights, train, where)
        if not hasattr(fresh, method):
            raise InvalidInput(f"{where}: {type(model).__name__} has no {method}; name a verb that it has")
        part = plain(getattr(fresh, method)(take(X, test)))
        if method == "predict_proba":
            part = _all_columns(part, fresh.classes_, np.unique(plain(y)))
        if answer is None:
            answer = np.empty((n, *part.shape[1:]), dtype=plain(y).dtype if part.dtype.kind in "US" else part.dtype)
        answer[test] = part
    return answer


def plan_for(
    model: Any, n: int, y: Any, k: int, repeats: int, stratify: bool | None, groups: Any, seed: int, where: str
) -> list[Split]:
    """The folds that suit a model: classifiers keep the shares of the classes unless told otherwise."""
    stratify = is_classifier(model) if stratify is None else stratify
    if stratify and y is None:
        raise InvalidInput(f"{where}: stratify needs labels; pass y, or stratify=False")
    return fold_plan(n, k, repeats, y if stratify else None, groups, seed, where)


def check_classes(model: Any, y: Any, rows: np.ndarray, where: str) -> None:
    """Refuse to fit a classifier on one class only."""
    if y is not None and is_classifier(model):
        found = np.unique(plain(y)[rows])
        if len(found) < 2:
            raise InvalidInput(
                f"{where} would be fitted on the class {found[0]!r} only; use stratify=True, fewer folds or more rows"
            )


def door(X: Any, y: Any, sample_weight: Any, where: str) -> tuple[int, np.ndarray | None]:
    """The number of rows, and the weights as NumPy."""
    arrays = {"X": X} if y is None else {"X": X, "y": y}
    n = same_rows(where, **arrays)
    if sample_weight is None:
        return n, None
    return n, plain(weights_of(sample_weight, n, where, device_of()))


def _all_columns(part: np.ndarray, known: Any, classes: np.ndarray) -> np.ndarray:
    table = np.zeros((len(part), len(classes)), dtype=part.dtype)
    table[:, np.searchsorted(classes, plain(known))] = part
    return table
