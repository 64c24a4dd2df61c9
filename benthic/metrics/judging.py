"""The numbers that fit a model: chosen by what it can do."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from benthic.base.catalogue import catalogue
from benthic.base.errors import InvalidInput
from benthic.base.estimate import Estimate, mean_of
from benthic.metrics.confusion import accuracy
from benthic.metrics.density import log_likelihood
from benthic.metrics.embedding import trustworthiness
from benthic.metrics.multiclass import macro_auc
from benthic.metrics.probability import log_loss
from benthic.metrics.regression import mae, r2, rmse
from benthic.metrics.rows import plain


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


def judge(model: Any, X: Any, y: Any = None, sample_weight: Any = None, *, given: Any = None) -> dict[str, float]:
    """What a fitted model is worth on rows ``X`` (and their targets ``y``), as numbers by name.

    Classifiers: ``accuracy``, ``log_loss``, ``auc`` (macro average). Regressors: ``r2``, ``rmse``, ``mae``.
    Models with a likelihood: ``log_likelihood[kind]``, mean nats a row. Clusters around centers: ``distortion``, the
    mean squared distance to the nearest. Others that rebuild rows: ``reconstruction_error``, mean squared. Maps:
    ``trustworthiness``, how few neighbors on the map are strangers in the data. Models that label the steps of
    sequences: ``accuracy`` over steps. Each has its standard error over
    rows beside it as ``..._stderr``. sample_weight: (n,) how much each row counts. given: conditions, one or one a row,
    under which a likelihood is asked for; the other numbers do not depend on them.
    """
    answer: dict[str, float] = {}
    for measure in measures(model, X, y, sample_weight, given=given):
        answer[measure.key] = measure.value
        if math.isfinite(measure.stderr):
            answer[f"{measure.name}_stderr"] = measure.stderr
    return answer


def measures(model: Any, X: Any, y: Any = None, sample_weight: Any = None, *, given: Any = None) -> list[Measure]:
    """The same as ``judge``, with what each number means."""
    kind = answers_of(model)
    if kind is not None:
        if y is None:
            raise InvalidInput(f"judge: {type(model).__name__} is judged by its answers, so the targets y are needed")
        judged = _of_classes if kind == "classes" else _of_numbers
        return judged(model, X, plain(y), None if sample_weight is None else plain(sample_weight))
    if labels_steps(model):
        return _of_steps(model, X, y)
    if hasattr(model, "likelihood"):
        found = model.likelihood(X) if given is None else model.likelihood(X, given=given)
        return [_measure("log_likelihood", log_likelihood(found, sample_weight), "higher", found.kind, found.bound)]
    if hasattr(model, "cluster_centers_"):
        nearest = plain(model.transform(X)).astype(np.float64).min(1)
        return [_measure("distortion", mean_of(nearest**2), "lower")]
    if hasattr(model, "reconstruct"):
        gaps = plain(model.reconstruct(X)).astype(np.float64) - plain(X).astype(np.float64)
        return [_measure("reconstruction_error", mean_of(np.square(gaps).reshape(len(gaps), -1).mean(1)), "lower")]
    if hasattr(model, "embedding_") or hasattr(model, "metric_"):
        Z = plain(model.transform(X))
        near = min(5, (len(Z) - 1) // 2)
        return [_measure("trustworthiness", trustworthiness(X, Z, near), "higher")] if near else []
    raise InvalidInput(
        f"judge: {type(model).__name__} neither predicts nor has a likelihood; there is nothing to judge"
    )


def judgeable(model: Any) -> bool:
    """Whether a fitted model does something whose worth is a number; one that only rewrites columns does not."""
    verbs = ("likelihood", "cluster_centers_", "reconstruct", "embedding_", "metric_")
    return answers_of(model) is not None or labels_steps(model) or any(hasattr(model, verb) for verb in verbs)


def answers_of(model: Any) -> str | None:
    """What a model predicts: ``classes``, ``numbers``, or None when it is not a predictor."""
    from sklearn.base import is_classifier, is_regressor

    if not hasattr(model, "__sklearn_tags__"):
        return None
    return "classes" if is_classifier(model) else "numbers" if is_regressor(model) else None


def labels_steps(model: Any) -> bool:
    """Whether a model gives every step of a sequence a label."""
    entry = catalogue().get(type(model).__name__)
    return entry is not None and "label" in entry.tasks


def _of_steps(model: Any, X: Any, y: Any) -> list[Measure]:
    """The share of steps that get their label; its error is over sequences, whose steps depend on one another."""
    if y is None:
        raise InvalidInput(f"judge: {type(model).__name__} is judged by its labels, so the true ones y are needed")
    pairs = zip(model.predict(X), y, strict=True)
    hits = [np.asarray(plain(made)) == np.asarray(plain(true)) for made, true in pairs]
    lengths = np.array([len(hit) for hit in hits], dtype=np.float64)
    rate = float(sum(hit.sum() for hit in hits) / lengths.sum())
    gaps = np.array([hit.sum() for hit in hits]) - rate * lengths
    spread = float(np.sqrt(np.square(gaps).sum()) / lengths.sum())
    return [_measure("accuracy", Estimate(rate, spread), "higher")]


def _of_classes(model: Any, X: Any, y: np.ndarray, w: np.ndarray | None) -> list[Measure]:
    if not hasattr(model, "predict_proba"):
        return [_measure("accuracy", accuracy(y, plain(model.predict(X)), w), "higher")]
    table = plain(model.predict_proba(X))
    classes = np.asarray(model.classes_)
    found = [
        _measure("accuracy", accuracy(y, classes[table.argmax(1)], w), "higher"),
        _measure("log_loss", log_loss(y, table, classes, w), "lower"),
    ]
    counted = y if w is None else y[w > 0]
    if len(np.unique(counted)) > 1 and np.isin(counted, classes).any():
        found.append(_measure("auc", macro_auc(y, table, classes, w), "higher"))
    return found


def _of_numbers(model: Any, X: Any, y: np.ndarray, w: np.ndarray | None) -> list[Measure]:
    answer = plain(model.predict(X))
    errors = [_measure("rmse", rmse(y, answer, w), "lower"), _measure("mae", mae(y, answer, w), "lower")]
    counted = y if w is None else y[w > 0]
    varies = bool((np.ptp(counted.reshape(len(counted), -1), axis=0) > 0).all())
    return [_measure("r2", r2(y, answer, w), "higher"), *errors] if varies else errors


def _measure(name: str, found: Estimate, better: str, kind: str = "", bound: str = "") -> Measure:
    return Measure(name, found.value, found.stderr, better, kind, bound)
