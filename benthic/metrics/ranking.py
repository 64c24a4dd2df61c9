"""How well scores put positive rows before negative ones: curves over all thresholds, and areas under them.

Rows of equal score pass a threshold together, so every number is exact under ties.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.estimate import Estimate
from benthic.metrics.binary import positives
from benthic.metrics.rows import device_of, estimate, mirror, numbers, of_cells, same_rows, weights_of


@dataclass(frozen=True)
class RocCurve:
    """Rates over falling thresholds; the first threshold is infinite, where nothing is called positive.

    false_positive_rate, true_positive_rate, thresholds: (t + 1,) for t different scores. area: under the curve.
    """

    false_positive_rate: Any
    true_positive_rate: Any
    thresholds: Any
    area: Estimate

    def plot(self, title: str = "") -> Any:
        """The curve as a picture, with the diagonal of chance."""
        from benthic.metrics.figures import draw_roc

        return draw_roc({"": self}, title)


@dataclass(frozen=True)
class PrecisionRecallCurve:
    """Precision and recall over rising thresholds, ending at precision 1 and recall 0.

    precision, recall: (t + 1,) and thresholds: (t,) for t different scores. average_precision: the area below the
    steps. prevalence: the share of positive rows, which is the precision of chance.
    """

    precision: Any
    recall: Any
    thresholds: Any
    average_precision: Estimate
    prevalence: float

    def plot(self, title: str = "") -> Any:
        """The steps as a picture, with the line of chance."""
        from benthic.metrics.figures import draw_precision_recall

        return draw_precision_recall({"": self}, title)


@dataclass(frozen=True)
class DetCurve:
    """Both kinds of error over falling thresholds, the first of them infinite (Martin et al., 1997).

    false_positive_rate, false_negative_rate, thresholds: (t + 1,). equal_error_rate: where the two cross, on the
    straight line between neighboring thresholds.
    """

    false_positive_rate: Any
    false_negative_rate: Any
    thresholds: Any
    equal_error_rate: float

    def plot(self, title: str = "") -> Any:
        """The curve on axes on which two normal laws make a straight line."""
        from benthic.metrics.figures import draw_det

        return draw_det({"": self}, title)


def roc_curve(y: Any, scores: Any, positive: Any = None, sample_weight: Any = None) -> RocCurve:
    """True against false positive rate for every threshold (score at or above it means positive).

    y: (n,) labels. scores: (n,) larger where the model believes more in ``positive`` (1 or True if not given).

    >>> roc_curve([0, 0, 1, 1], [0.1, 0.4, 0.4, 0.8]).true_positive_rate
    array([0. , 0.5, 1. , 1. ])
    """
    steps = Steps(y, scores, positive, sample_weight, "roc_curve")
    true, false = steps.passed()
    found = (mirror(steps.from_nothing(part / part[-1], 0.0), y, scores) for part in (false, true))
    thresholds = mirror(steps.from_nothing(steps.thresholds, torch.inf), y, scores)
    return RocCurve(*found, thresholds, steps.measure(area_of))


def precision_recall_curve(
    y: Any, scores: Any, positive: Any = None, sample_weight: Any = None
) -> PrecisionRecallCurve:
    """Precision and recall for every threshold (score at or above it means positive).

    Arguments as for ``roc_curve``.

    >>> precision_recall_curve([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]).recall
    array([1. , 1. , 0.5, 0.5, 0. ])
    """
    steps = Steps(y, scores, positive, sample_weight, "precision_recall_curve")
    true, false = steps.passed()
    called = true + false
    precision = torch.where(called > 0, true / torch.where(called > 0, called, 1.0), 0.0)
    ends = (steps.from_nothing(precision, 1.0).flip(0), steps.from_nothing(true / true[-1], 0.0).flip(0))
    found = (mirror(part, y, scores) for part in (*ends, steps.thresholds.flip(0)))
    share = float(true[-1] / called[-1])
    return PrecisionRecallCurve(*found, steps.measure(average_precision_of), share)


def det_curve(y: Any, scores: Any, positive: Any = None, sample_weight: Any = None) -> DetCurve:
    """False negative against false positive rate for every threshold.

    Arguments as for ``roc_curve``.

    >>> det_curve([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]).equal_error_rate
    0.5
    """
    steps = Steps(y, scores, positive, sample_weight, "det_curve")
    true, false = (steps.from_nothing(part / part[-1], 0.0) for part in steps.passed())
    missed = 1 - true
    gap = false - missed  # from -1 up to 1
    after = int((gap >= 0).nonzero()[0])
    share = float(gap[after] / (gap[after] - gap[after - 1]))
    crossing = float(false[after] + share * (false[after - 1] - false[after]))
    thresholds = steps.from_nothing(steps.thresholds, torch.inf)
    return DetCurve(*(mirror(part, y, scores) for part in (false, missed, thresholds)), crossing)


def auc(y: Any, scores: Any, positive: Any = None, sample_weight: Any = None) -> Estimate:
    """Area under the ROC curve: the probability that a positive row scores above a negative one.

    Equal scores count half. The error is that of DeLong et al., 1988. Arguments as for ``roc_curve``.

    >>> auc([False, False, True, True], [0.1, 0.4, 0.35, 0.8]).value
    0.75
    """
    return Steps(y, scores, positive, sample_weight, "auc").measure(area_of)


def average_precision(y: Any, scores: Any, positive: Any = None, sample_weight: Any = None) -> Estimate:
    r"""Precision averaged over the steps of recall.

    .. math:: \sum_t (R_t - R_{t-1}) P_t

    Arguments as for ``roc_curve``.

    >>> average_precision([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]).value
    0.8333
    """
    return Steps(y, scores, positive, sample_weight, "average_precision").measure(average_precision_of)


class Steps:
    """Rows grouped by equal score, highest first; a measure is a function of the table (t, 2) of their weights."""

    def __init__(self, y: Any, scores: Any, positive: Any, sample_weight: Any, where: str) -> None:
        n = same_rows(where, y=y, scores=scores)
        device = device_of(y, scores)
        values = numbers(scores, where, "scores", device, infinite=True)
        if values.ndim != 1:
            raise InvalidInput(f"{where}: scores have shape {tuple(values.shape)}; one a row is needed, ({n},)")
        truth = positives(y, positive, where).to(device)
        weights = weights_of(sample_weight, n, where, device)
        self._set(truth, values, weights)
        if not bool((self.table().sum(0) > 0).all()):
            raise InvalidInput(f"{where}: the rows that weigh anything are of one class; rows of two are compared")

    @classmethod
    def of(cls, truth: Tensor, values: Tensor, weights: Tensor) -> Steps:
        """The same from checked tensors: truth values, scores, weights, each (n,)."""
        steps = cls.__new__(cls)
        steps._set(truth, values, weights)
        return steps

    def _set(self, truth: Tensor, values: Tensor, weights: Tensor) -> None:
        found, place = torch.unique(-values, return_inverse=True)
        self.thresholds, self.weights = -found, weights
        self.flat = place * 2 + truth.long()  # (n,)
        self.shape = (len(found), 2)

    def table(self) -> Tensor:
        """(t, 2) sums of weights: negative, positive."""
        return torch.bincount(self.flat, self.weights, minlength=2 * self.shape[0]).reshape(self.shape)

    def passed(self) -> tuple[Tensor, Tensor]:
        """(t,) weight of positive and of negative rows at or above each threshold."""
        negative, positive = self.table().cumsum(0).T
        return positive, negative

    def from_nothing(self, values: Tensor, first: float) -> Tensor:
        """Values with the one for a threshold above all scores before them."""
        return torch.cat([values.new_tensor([first]), values])

    def influence(self, function: Any) -> tuple[Tensor, Tensor]:
        """The value of a function of the table, and the influence of every row on it."""
        return of_cells(function, self.flat, self.shape, self.weights)

    def measure(self, function: Any) -> Estimate:
        """A function of the table with its standard error over rows."""
        return estimate(*self.influence(function), self.weights)


def area_of(table: Tensor) -> Tensor:
    """Share of pairs in which the positive row is above; ties count half. table: (t, 2), highest first."""
    negative, positive = table.unbind(1)
    below = negative.sum() - negative.cumsum(0) + negative / 2
    return positive @ below / (positive.sum() * negative.sum())


def average_precision_of(table: Tensor) -> Tensor:
    """Precision weighted by the positives of each step. table: (t, 2), highest first."""
    positive = table[:, 1]
    called = table.sum(1).cumsum(0)
    share = positive.cumsum(0) / torch.where(called > 0, called, 1.0)
    return positive @ share / positive.sum()
