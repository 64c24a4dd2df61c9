"""How good class labels and class probabilities are."""

from __future__ import annotations

from typing import Any

import numpy as np

from benthic.base.errors import InvalidInput
from benthic.base.estimate import Estimate, from_influence, mean_of, paired


def accuracy(y: Any, predicted: Any) -> Estimate:
    """The share of rows whose class was found.

    >>> accuracy(["a", "b", "b", "a"], ["a", "b", "a", "a"]).value
    0.75
    """
    truth, answer = paired(y, predicted, "accuracy")
    return mean_of(truth == answer)


def log_loss(y: Any, probabilities: Any, classes: Any) -> Estimate:
    r"""Mean negative log-probability of the true class, in nats.

    .. math:: -\frac1n \sum_i \log p_i(y_i)

    y: (n,) labels. probabilities: (n, k), columns in the order of ``classes``. A probability of zero, and
    that of a class the model does not know, counts as the smallest step of its floating type.

    >>> round(log_loss([0, 1], [[0.5, 0.5], [0.25, 0.75]], [0, 1]).value, 4)
    0.4904
    """
    truth, table = paired(y, probabilities, "log_loss")
    known, codes = _codes(truth, table, classes, "log_loss")
    table = table if table.dtype.kind == "f" else table.astype(np.float64)
    smallest = float(np.finfo(table.dtype).eps)
    of_truth = np.where(known, table[np.arange(len(truth)), codes], 0.0).astype(np.float64)
    return mean_of(-np.log(np.clip(of_truth, smallest, 1.0)))


def auc(positive: Any, scores: Any) -> Estimate:
    """Area under the ROC curve: the probability that a positive row scores above a negative one.

    Equal scores count half. The error is that of DeLong et al., 1988.

    positive: (n,) truth values. scores: (n,) larger where the model believes more in positive.

    >>> auc([False, False, True, True], [0.1, 0.4, 0.35, 0.8]).value
    0.75
    """
    truth, values = paired(positive, scores, "auc")
    truth = truth.astype(bool)
    if truth.all() or not truth.any():
        raise InvalidInput("auc: all rows are of one class; the area compares rows of two")
    area, influence = _area(truth, values.astype(np.float64))
    return from_influence(area, influence)


def macro_auc(y: Any, probabilities: Any, classes: Any) -> Estimate:
    """The areas of every class against the rest, averaged over the classes that occur.

    Two classes have one area, since both scores rank the rows the same way round.

    y: (n,) labels. probabilities: (n, k), columns in the order of ``classes``.
    """
    truth, table = paired(y, probabilities, "macro_auc")
    known, codes = _codes(truth, table, classes, "macro_auc")
    binary = table.shape[1] == 2 and bool(known.all())
    found = []
    for k in range(1, 2) if binary else range(table.shape[1]):
        positive = known & (codes == k)
        if positive.any() and not positive.all():
            found.append(_area(positive, table[:, k].astype(np.float64)))
    if not found:
        raise InvalidInput("macro_auc: all rows are of one class; the area compares rows of two")
    areas, influences = zip(*found, strict=True)
    return from_influence(float(np.mean(areas)), np.mean(influences, axis=0))


def _area(positive: np.ndarray, scores: np.ndarray) -> tuple[float, np.ndarray]:
    """The area, and the influence of every row on it, from ranks in which ties share their mean rank."""
    n, m = int(positive.sum()), int((~positive).sum())
    everywhere = _ranks(scores)
    # rows of the other class below a row, ties counted half
    below = everywhere[positive] - _ranks(scores[positive])  # (n,) negatives below each positive
    above = n - (everywhere[~positive] - _ranks(scores[~positive]))  # (m,) positives above each negative
    area = float(below.mean() / m)
    influence = np.empty(len(scores))
    influence[positive] = (below / m - area) * (len(scores) / n)
    influence[~positive] = (above / n - area) * (len(scores) / m)
    return area, influence


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 1; equal values share the mean of theirs."""
    _, position, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[position]


def _codes(y: np.ndarray, table: np.ndarray, classes: Any, where: str) -> tuple[np.ndarray, np.ndarray]:
    """Which labels are among the classes, and their columns (0 where they are not)."""
    labels = np.asarray(classes)
    if table.ndim != 2 or table.shape[1] != len(labels):
        raise InvalidInput(f"{where}: probabilities have shape {table.shape}, but there are {len(labels)} classes")
    place = {label: k for k, label in enumerate(labels.tolist())}
    codes = np.array([place.get(label, -1) for label in y.tolist()])
    return codes >= 0, np.maximum(codes, 0)
