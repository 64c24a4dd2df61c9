"""One predictor on the folds of one seed: fitted on all but one, judged on that one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from benthic.base.errors import InvalidInput
from benthic.base.estimate import Estimate
from benthic.base.seeds import np_generator
from benthic.metrics.calibration import expected_calibration_error
from benthic.metrics.confusion import accuracy
from benthic.metrics.forecasts import interval_coverage
from benthic.metrics.multiclass import macro_auc
from benthic.metrics.probability import log_loss
from benthic.metrics.regression import r2, rmse
from benthic.metrics.rows import plain

# what each task is judged by, in order: the first ranks; whether higher is better, and the value of perfect answers
METRICS: dict[str, dict[str, tuple[str, float]]] = {
    "classify": {"accuracy": ("higher", 1.0), "log_loss": ("lower", 0.0), "auc": ("higher", 1.0)},
    "regress": {"rmse": ("lower", 0.0), "r2": ("higher", 1.0), "log_score": ("higher", math.nan)},
    "cluster": {"silhouette": ("higher", 1.0), "adjusted_rand": ("higher", 1.0), "mutual_information": ("higher", 1.0)},
}
_ONE_SIGMA = math.erf(1 / math.sqrt(2))  # probability within one standard deviation
_LEVEL = 0.9  # of the intervals whose coverage is counted
_MOST_ROWS = 4000  # rows among which the silhouette is computed


class NotFinite(InvalidInput):
    """A model answered with NaN or infinity."""


class Answers:
    """What a model said about the rows of folds, for numbers that need many rows: arrays by name, one a fold."""

    def __init__(self) -> None:
        self.truth: list[np.ndarray] = []
        self.said: list[np.ndarray] = []
        self.classes: list[np.ndarray] = []

    def keep(self, truth: np.ndarray, said: np.ndarray, classes: Any = None) -> None:
        """Add the rows of a fold."""
        self.truth.append(truth)
        self.said.append(said)
        self.classes.append(np.zeros(0) if classes is None else np.asarray(classes))

    def arrays(self) -> dict[str, np.ndarray]:
        """What was kept of one fold, as arrays by name; empty where nothing was."""
        if not self.said:
            return {}
        return {"truth": self.truth[0], "said": self.said[0], "classes": self.classes[0]}

    def calibration(self, task: str) -> dict[str, float]:
        """The error of confidences (classes), or the coverage of intervals (numbers), over all rows kept."""
        if not self.said:
            return {}
        truth = np.concatenate(self.truth)
        if task == "regress":
            covered: Estimate = interval_coverage(truth, *np.concatenate(self.said).T)
            return {"coverage of 90% intervals": covered.value, "calibration error": abs(covered.value - _LEVEL)}
        classes = np.unique(np.concatenate(self.classes))
        table = np.concatenate([_widened(p, c, classes) for p, c in zip(self.said, self.classes, strict=True)])
        return {"calibration error": expected_calibration_error(truth, table, classes).value}


def _widened(table: np.ndarray, known: Any, classes: np.ndarray) -> np.ndarray:
    wide = np.zeros((len(table), len(classes)))
    wide[:, np.searchsorted(classes, np.asarray(known))] = table
    return wide


def judged(
    task: str, model: Any, X: Any, y: np.ndarray | None, answers: Answers, space: np.ndarray
) -> dict[str, float]:
    """Every metric of the task that a fitted model has on these rows.

    answers: collects what calibration is computed from. space: (n, d) the rows as numbers, where clusters are judged.
    """
    if task == "cluster":
        return partition_scores(np.asarray(plain(model.predict(X))), space, y)
    if y is None:
        raise InvalidInput(f"compare: to {task} needs targets y")
    return _classes(model, X, y, answers) if task == "classify" else _numbers(model, X, y, answers)


# -- classes -------------------------------------------------------------------------------------------------


def _classes(model: Any, X: Any, y: np.ndarray, answers: Answers) -> dict[str, float]:
    said = np.asarray(plain(model.predict(X)))
    found = {"accuracy": accuracy(y, said).value}
    several = len(np.unique(y)) > 1
    if hasattr(model, "predict_proba"):
        classes = np.asarray(model.classes_)
        table = _finite(model.predict_proba(X), "predict_proba", model)
        found["log_loss"] = log_loss(y, table, classes).value
        if several and np.isin(y, classes).any():
            found["auc"] = macro_auc(y, table, classes).value
        answers.keep(y, table, classes)
    elif several and hasattr(model, "decision_function"):
        from sklearn.metrics import roc_auc_score

        scores = _finite(model.decision_function(X), "decision_function", model)
        if scores.ndim == 1:
            found["auc"] = float(roc_auc_score(y == np.asarray(model.classes_)[1], scores))
    return found


# -- numbers -------------------------------------------------------------------------------------------------


def _numbers(model: Any, X: Any, y: np.ndarray, answers: Answers) -> dict[str, float]:
    said = _finite(model.predict(X), "predict", model).reshape(len(y))
    found = {"rmse": rmse(y, said).value}
    if np.ptp(y) > 0:
        found["r2"] = r2(y, said).value
    law = predictive_law(model, X)
    if law is not None:
        center, spread, ends = law
        z = (y - center) / spread
        found["log_score"] = float((-0.5 * z**2 - np.log(spread) - 0.5 * math.log(2 * math.pi)).mean())
        answers.keep(y, ends)
    return found


def predictive_law(model: Any, X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Center and spread (n,) of the normal law nearest to what a regressor predicts, and (n, 2) its 90% interval.

    The law is that whose central 68% is the model's own interval of that level: exact for normal predictions, as those
    of a Gaussian process. scikit-learn's ``predict(X, return_std=True)`` is taken where there is no interval. None of a
    model that gives only numbers.
    """
    from sklearn.pipeline import Pipeline

    last = model
    while isinstance(last, Pipeline):
        X, last = last[:-1].transform(X), last.steps[-1][1]
    try:
        if hasattr(last, "predict_interval"):
            near, wide = (_ends(last.predict_interval(X, level)) for level in (_ONE_SIGMA, _LEVEL))
            center, spread = near.mean(1), np.ptp(near, axis=1) / 2
        elif "return_std" in _arguments(last.predict):
            center, spread = (plain(part).astype(np.float64).ravel() for part in last.predict(X, return_std=True))
            wide = center[:, None] + np.outer(spread, [-1.6448536269514722, 1.6448536269514722])
        else:
            return None
    except InvalidInput:  # a forest without errors out of the bag, least squares with as many columns as rows
        return None
    least = 1e-9 * max(float(np.abs(center).max()), 1e-300)
    return center, np.maximum(spread, least), wide


def _ends(found: Any) -> np.ndarray:
    """An interval as (n, 2), whether it came so or as a pair."""
    if isinstance(found, tuple):
        return np.stack([plain(end).astype(np.float64).ravel() for end in found], 1)
    return np.asarray(plain(found), dtype=np.float64).reshape(-1, 2)


def _arguments(function: Any) -> Mapping[str, Any]:
    import inspect

    return inspect.signature(function).parameters


# -- clusters ------------------------------------------------------------------------------------------------


def partition_scores(labels: np.ndarray, space: np.ndarray, y: np.ndarray | None) -> dict[str, float]:
    """How good a partition of rows is: by their distances, and by the true classes where they are known.

    labels: (n,) of the clusters; -1 is noise to scikit-learn, here a cluster like any other. space: (n, d).
    Rows all in one cluster have silhouette 0. Of many rows some are drawn for the silhouette.

    >>> space = np.array([[0.0], [0.1], [5.0], [5.1]])
    >>> round(partition_scores(np.array([0, 0, 1, 1]), space, np.array([3, 3, 4, 4]))["adjusted_rand"], 3)
    1.0
    """
    import torch
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    from benthic.cluster.choosing import silhouette

    rows = np.arange(len(space))
    if len(rows) > _MOST_ROWS:
        rows = np.sort(np_generator(0, "silhouette").choice(len(rows), _MOST_ROWS, replace=False))
    values, codes = np.unique(labels[rows], return_inverse=True)
    found = {"silhouette": 0.0}
    if len(values) > 1:
        found["silhouette"] = silhouette(torch.as_tensor(space[rows]).double(), torch.as_tensor(codes))
    if y is not None:
        found["adjusted_rand"] = float(adjusted_rand_score(y, labels))
        found["mutual_information"] = float(normalized_mutual_info_score(y, labels))
    return found


def cluster_all(model: Any, X: Any, test: np.ndarray) -> np.ndarray:
    """Labels of the test rows by a model that only labels the rows it is fitted on, so that it is fitted on all."""
    labels: np.ndarray = np.asarray(plain(model.fit_predict(X)))
    chosen: np.ndarray = labels[test]
    return chosen


def _finite(values: Any, verb: str, model: Any) -> np.ndarray:
    found = np.asarray(plain(values), dtype=np.float64)
    bad = int((~np.isfinite(found)).sum())
    if bad:
        raise NotFinite(f"{type(model).__name__}.{verb} gave {bad} values that are not finite")
    return found
