"""Whether a classifier can tell generated rows from real ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from benthic.base.errors import InvalidInput, nearest
from benthic.base.estimate import Estimate
from benthic.base.schema import Schema, is_frame, to_arrow
from benthic.base.seeds import np_generator
from benthic.data.splits import train_test
from benthic.leaderboard.scoring import is_classifier
from benthic.metrics.confusion import accuracy
from benthic.metrics.ranking import auc
from benthic.metrics.rows import plain

MODELS = ("trees", "mlp")
_FEW = 10


@dataclass(frozen=True)
class ClassifierTest:
    """How well a classifier tells generated rows from real ones it was not fitted on.

    accuracy: one half if they are of one law. auc: the chance that a generated row looks more generated than a real
    one, NaN for a classifier without scores. p_value: of the accuracy, if both are of one law. rows: judged.
    """

    accuracy: Estimate
    auc: Estimate
    p_value: float
    rows: int

    def __str__(self) -> str:
        return f"accuracy {self.accuracy}, auc {self.auc}, p = {self.p_value:.3g} on {self.rows} rows"


def classifier_two_sample(
    real: Any, generated: Any, model: Any = "trees", *, fraction: float = 0.5, seed: int = 0
) -> ClassifierTest:
    r"""A classifier two-sample test: fitted on some rows of both samples, judged on the others.

    .. math:: p = P\big(\mathrm{Binomial}(n, \tfrac12) \ge n \cdot \text{accuracy}\big)

    Lopez-Paz & Oquab, 2017. Equally many rows of both are used (the larger sample is cut at random), so chance is one
    half, and the binomial test is exact because no judged row was fitted. For the real rows take held-out ones: a model
    that copies its training rows puts the same row on both sides otherwise.

    real: (n, d), images, or a frame; generated: likewise, of the same columns. model: ``trees`` (gradient boosting,
    which takes missing values), ``mlp``, or any classifier, which is copied. fraction: of the rows to judge.

    >>> rng = np.random.default_rng(0)
    >>> test = classifier_two_sample(rng.normal(size=(100, 2)), rng.normal(size=(100, 2)) + 3)
    >>> test.accuracy.value > 0.9, test.p_value < 1e-6
    (True, True)
    """
    from scipy.stats import binom
    from sklearn.base import clone

    where = "classifier_two_sample"
    X, Y = _tables(where, real, generated)
    n = min(len(X), len(Y))
    if n < _FEW:
        raise InvalidInput(f"{where}: the smaller sample has {n} rows; at least {_FEW} are needed to fit and to judge")
    X, Y = (_cut(side, n, seed, name) for name, side in (("real", X), ("generated", Y)))
    labels = np.repeat([0, 1], n)
    parts = train_test(np.concatenate([X, Y]), labels, fraction, stratify=True, seed=seed)
    fitted = clone(_classifier(where, model, seed)).fit(parts[0], parts[2])
    rows, truth = parts[1], parts[3]
    answers = plain(fitted.predict(rows))
    right = int((answers == truth).sum())
    p_value = max(float(binom.sf(right - 1, len(truth), 0.5)), 5e-324)
    return ClassifierTest(accuracy(truth, answers), _area(fitted, rows, truth), p_value, len(truth))


def _area(fitted: Any, rows: np.ndarray, truth: np.ndarray) -> Estimate:
    if hasattr(fitted, "predict_proba"):
        return auc(truth, plain(fitted.predict_proba(rows))[:, 1])
    if hasattr(fitted, "decision_function"):
        return auc(truth, plain(fitted.decision_function(rows)))
    return Estimate(math.nan, math.nan)


def _classifier(where: str, model: Any, seed: int) -> Any:
    if model == "trees":
        from benthic.trees import GradientBoostingClassifier

        return GradientBoostingClassifier(random_state=seed)
    if model == "mlp":
        from benthic.supervised.mlp import MLPClassifier

        return MLPClassifier(random_state=seed, trainer={"verbose": False})
    if isinstance(model, str):
        raise InvalidInput(f"{where}: model is {model!r}; use one of {MODELS} or a classifier{nearest(model, MODELS)}")
    if not is_classifier(model):
        raise InvalidInput(f"{where}: {type(model).__name__} is not a classifier; it must answer with classes")
    return model


def _tables(where: str, real: Any, generated: Any) -> tuple[np.ndarray, np.ndarray]:
    """Both samples as rows of numbers; categories as zeros and ones."""
    if is_frame(real) != is_frame(generated):
        raise InvalidInput(f"{where}: one of real and generated is a frame and the other is not; pass the same kind")
    if is_frame(real):
        return _encoded(where, to_arrow(real), to_arrow(generated))
    sides = []
    for name, side in (("real", real), ("generated", generated)):
        rows = np.asarray(plain(side))
        if rows.ndim < 2:
            raise InvalidInput(f"{where}: {name} has shape {rows.shape}; a row for each example, (n, d), is needed")
        sides.append(rows.reshape(len(rows), -1))
    if sides[0].shape[1] != sides[1].shape[1]:
        raise InvalidInput(
            f"{where}: real has {sides[0].shape[1]} columns and generated {sides[1].shape[1]}; they must be the same"
        )
    return sides[0], sides[1]


def _encoded(where: str, real: Any, generated: Any) -> tuple[np.ndarray, np.ndarray]:
    """Frames as numbers, by the categories of both."""
    import pyarrow as pa

    if set(real.column_names) != set(generated.column_names):
        gone = sorted(set(real.column_names) ^ set(generated.column_names))
        raise InvalidInput(f"{where}: only one of the tables has the columns {gone}; both need the same columns")
    try:
        both = pa.concat_tables([real, generated.select(real.column_names)], promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidInput(f"{where}: the columns of both tables must be of the same types ({error})") from error
    both = both.unify_dictionaries()
    rows = Schema.infer(both).encode(both)
    return rows[: len(real)], rows[len(real) :]


def _cut(rows: np.ndarray, n: int, seed: int, name: str) -> np.ndarray:
    return rows if len(rows) == n else rows[np_generator(seed, name).permutation(len(rows))[:n]]
