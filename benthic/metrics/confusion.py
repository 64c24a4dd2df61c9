"""The table of true against answered classes, and numbers read off it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput, nearest
from benthic.base.estimate import Estimate
from benthic.metrics.rows import coded, device_of, estimate, mirror, of_cells, plain, same_rows, weights_of

_OVER = {"truth": 1, "predicted": 0, "all": None}


@dataclass(frozen=True)
class ConfusionMatrix:
    """How often rows of each class (down) got each answer (across).

    classes: (k,) labels. counts: (k, k) counts, or sums of weights; NumPy, or a tensor for tensors.
    """

    classes: np.ndarray
    counts: Any

    def shares(self, over: str = "truth") -> Any:
        """Counts divided by the sums ``over`` the ``truth`` (a row adds up to one), ``predicted`` or ``all``.

        A class without rows keeps zeros.
        """
        if over not in _OVER:
            raise InvalidInput(f"shares: over={over!r} is none of {', '.join(_OVER)}{nearest(over, _OVER)}")
        counts = torch.as_tensor(self.counts).to(torch.float64)
        axis = _OVER[over]
        sums = counts.sum() if axis is None else counts.sum(axis, keepdim=True)
        return mirror(counts / torch.where(sums > 0, sums, 1.0), self.counts)

    def plot(self, over: str = "truth", title: str = "") -> Any:
        """The table as a picture: color is the share, the number in a cell the count."""
        from benthic.metrics.figures import draw_confusion

        return draw_confusion(self, over, title)


def confusion_matrix(
    y: Any, predicted: Any, labels: Sequence[Any] | None = None, sample_weight: Any = None
) -> ConfusionMatrix:
    """Counts of rows by true class and answer; with weights, their sums.

    y, predicted: (n,) labels of any type. labels: the classes to show, in this order; rows with others are
    left out. Without them all that occur, sorted.

    >>> confusion_matrix(["cat", "dog", "dog"], ["cat", "cat", "dog"]).counts
    array([[1, 0],
           [1, 1]])
    """
    where = "confusion_matrix"
    cells = Cells(y, predicted, labels, sample_weight, where)
    k = len(cells.classes) if labels is None else len(plain(labels))
    if not bool((cells.table.sum(1)[:k] > 0).any()):
        raise InvalidInput(f"{where}: none of the listed labels occurs in y; list labels that do")
    counts = cells.table[:k, :k]
    return ConfusionMatrix(cells.classes[:k], mirror(counts.long() if sample_weight is None else counts, y, predicted))


class Cells:
    """Rows sorted into the cells of a confusion matrix; a measure is a function of the table of their weights."""

    def __init__(self, y: Any, predicted: Any, labels: Sequence[Any] | None, sample_weight: Any, where: str) -> None:
        n = same_rows(where, y=y, predicted=predicted)
        self.classes, (truth, answer) = coded(where, labels, y=y, predicted=predicted)
        if truth.ndim != 1 or answer.ndim != 1:
            shapes = f"{tuple(truth.shape)} and {tuple(answer.shape)}"
            raise InvalidInput(f"{where}: y and predicted have shapes {shapes}; one label a row is needed")
        self.weights = weights_of(sample_weight, n, where, device_of(y, predicted))
        k = len(self.classes)
        self.shape = (k, k)
        self.flat = truth * k + answer  # (n,)

    @property
    def table(self) -> Tensor:
        """(k, k) sums of weights."""
        return torch.bincount(self.flat, self.weights, minlength=self.shape[0] ** 2).reshape(self.shape)

    def measure(self, function: Callable[[Tensor], Tensor]) -> Estimate:
        """A function of the table with its standard error over rows."""
        value, deviations = of_cells(function, self.flat, self.shape, self.weights)
        return estimate(value, deviations, self.weights)


def accuracy(y: Any, predicted: Any, sample_weight: Any = None) -> Estimate:
    """The share of rows whose class was found.

    >>> accuracy(["a", "b", "b", "a"], ["a", "b", "a", "a"]).value
    0.75
    """
    cells = Cells(y, predicted, None, sample_weight, "accuracy")
    return cells.measure(lambda table: table.diagonal().sum() / table.sum())


def balanced_accuracy(y: Any, predicted: Any, sample_weight: Any = None, adjusted: bool = False) -> Estimate:
    """The mean recall of the classes that occur, so that a rare class counts as much as a common one.

    adjusted: whether chance is moved to 0, keeping 1 for perfect answers; this needs two classes in ``y``.

    >>> balanced_accuracy([0, 0, 0, 1], [0, 0, 0, 0]).value
    0.5
    """
    where = "balanced_accuracy"
    cells = Cells(y, predicted, None, sample_weight, where)
    occurs = cells.table.sum(1) > 0
    k = int(occurs.sum())
    if adjusted and k < 2:
        raise InvalidInput(f"{where}: y has one class, where chance is already perfect; use adjusted=False")

    def recall(table: Tensor) -> Tensor:
        found = (table.diagonal()[occurs] / table.sum(1)[occurs]).mean()
        return (found - 1 / k) / (1 - 1 / k) if adjusted else found

    return cells.measure(recall)


def matthews(y: Any, predicted: Any, sample_weight: Any = None) -> Estimate:
    r"""Matthews correlation of truth and answer, for any number of classes (the R_K of Gorodkin, 2004).

    .. math:: \frac{W \operatorname{tr} C - \sum_k t_k p_k}{\sqrt{(W^2 - \sum_k p_k^2)(W^2 - \sum_k t_k^2)}}

    C is the confusion matrix with row sums t, column sums p and total W. Where the truth or the answer is one
    class only the value is 0 by convention, and its error unknown.

    >>> round(matthews([1, 1, 1, 0], [1, 0, 1, 1]).value, 4)
    -0.3333
    """

    def correlation(table: Tensor) -> Tensor:
        table = table / table.sum()
        truth, answer = table.sum(1), table.sum(0)
        spread = (1 - (truth**2).sum()) * (1 - (answer**2).sum())
        if min(int((truth > 0).sum()), int((answer > 0).sum())) < 2:
            return torch.zeros(())
        return (table.diagonal().sum() - truth @ answer) / spread.sqrt()

    return Cells(y, predicted, None, sample_weight, "matthews").measure(correlation)


def cohen_kappa(
    y: Any,
    predicted: Any,
    weights: str | None = None,
    labels: Sequence[Any] | None = None,
    sample_weight: Any = None,
) -> Estimate:
    """Agreement of two raters beyond what chance gives with their habits (Cohen, 1960 and 1968).

    weights: how bad a disagreement of i and j is, None (all the same), ``linear`` or ``quadratic`` in the
    distance of their places among the classes. labels: the order of the classes; all that occur must be in it.

    >>> cohen_kappa(["a", "a", "b", "b"], ["a", "b", "b", "b"]).value
    0.5
    """
    where = "cohen_kappa"
    if weights not in (None, "linear", "quadratic"):
        raise InvalidInput(f"{where}: weights={weights!r} is none of None, 'linear', 'quadratic'")
    cells = Cells(y, predicted, labels, sample_weight, where)
    if labels is not None and len(cells.classes) > len(plain(labels)):
        raise InvalidInput(f"{where}: label {cells.classes[-1]!r} occurs but is not among the listed labels")
    place = torch.arange(cells.shape[0], device=cells.flat.device, dtype=torch.float64)
    gap = (place[:, None] - place).abs()  # (k, k)
    cost = gap**2 if weights == "quadratic" else gap if weights == "linear" else (gap > 0).double()
    table = cells.table
    if not float((cost * torch.outer(table.sum(1), table.sum(0))).sum()) > 0:
        raise InvalidInput(f"{where}: both raters give one and the same class only, so chance agreement is complete")

    def kappa(table: Tensor) -> Tensor:
        expected = (cost * torch.outer(table.sum(1), table.sum(0))).sum() / table.sum()
        return 1 - (cost * table).sum() / expected

    return cells.measure(kappa)
