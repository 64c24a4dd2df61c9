"""The numbers that fit a model: chosen by what it can do."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from benthic.base.errors import InvalidInput
from benthic.base.estimate import Estimate
from benthic.metrics.classification import accuracy, log_loss, macro_auc
from benthic.metrics.density import log_likelihood
from benthic.metrics.regression import mae, r2, rmse


@dataclass(frozen=True)
class Measure:
    """One number about a model.

    better: ``higher`` or ``lower``. kind, bound: how a likelihood was obtained (see ``Likelihood``).
    """

    name: str
    value: float
    stderr: float
    better: str
    kind: str = ""
    bound: str = ""

    @property
    def key(self) -> str:
        """The name with its kind, so that a bound is never taken for an exact value."""
        return f"{self.name}[{self.kind}]" if self.kind else self.name


def judge(model: Any, X: Any, y: Any = None) -> dict[str, float]:
    """What a fitted model is worth on rows ``X`` (and their targets ``y``), as numbers by name.

    Classifiers: ``accuracy``, ``log_loss``, ``auc`` (macro average). Regressors: ``r2``, ``rmse``, ``mae``.
    Models with a likelihood: ``log_likelihood[kind]``, mean nats a row. Each has its standard error over rows
    beside it as ``..._stderr``.
    """
    answer: dict[str, float] = {}
    for measure in measures(model, X, y):
        answer[measure.key] = measure.value
        if math.isfinite(measure.stderr):
            answer[f"{measure.name}_stderr"] = measure.stderr
    return answer


def measures(model: Any, X: Any, y: Any = None) -> list[Measure]:
    """The same as ``judge``, with what each number means."""
    kind = answers_of(model)
    if kind is not None:
        if y is None:
            raise InvalidInput(f"judge: {type(model).__name__} is judged by its answers, so the targets y are needed")
        return _of_classes(model, X, _plain(y)) if kind == "classes" else _of_numbers(model, X, _plain(y))
    if hasattr(model, "likelihood"):
        found = model.likelihood(X)
        return [_measure("log_likelihood", log_likelihood(found), "higher", found.kind, found.bound)]
    raise InvalidInput(
        f"judge: {type(model).__name__} neither predicts nor has a likelihood; there is nothing to judge"
    )


def answers_of(model: Any) -> str | None:
    """What a model predicts: ``classes``, ``numbers``, or None when it is not a predictor."""
    from sklearn.base import is_classifier, is_regressor

    if not hasattr(model, "__sklearn_tags__"):
        return None
    return "classes" if is_classifier(model) else "numbers" if is_regressor(model) else None


def _of_classes(model: Any, X: Any, y: np.ndarray) -> list[Measure]:
    if not hasattr(model, "predict_proba"):
        return [_measure("accuracy", accuracy(y, _plain(model.predict(X))), "higher")]
    table = _plain(model.predict_proba(X))
    classes = np.asarray(model.classes_)
    found = [
        _measure("accuracy", accuracy(y, classes[table.argmax(1)]), "higher"),
        _measure("log_loss", log_loss(y, table, classes), "lower"),
    ]
    if len(np.unique(y)) > 1 and np.isin(y, classes).any():
        found.append(_measure("auc", macro_auc(y, table, classes), "higher"))
    return found


def _of_numbers(model: Any, X: Any, y: np.ndarray) -> list[Measure]:
    answer = _plain(model.predict(X))
    errors = [_measure("rmse", rmse(y, answer), "lower"), _measure("mae", mae(y, answer), "lower")]
    varies = bool((np.ptp(y.reshape(len(y), -1), axis=0) > 0).all())
    return [_measure("r2", r2(y, answer), "higher"), *errors] if varies else errors


def _measure(name: str, found: Estimate, better: str, kind: str = "", bound: str = "") -> Measure:
    return Measure(name, found.value, found.stderr, better, kind, bound)


def _plain(values: Any) -> np.ndarray:
    """Tensors, series and lists as NumPy."""
    return values.detach().cpu().numpy() if hasattr(values, "detach") else np.asarray(values)
