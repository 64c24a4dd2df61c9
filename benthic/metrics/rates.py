"""Rates of finding a class: precision, recall, specificity, F-scores, averaged over classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput, nearest
from benthic.base.estimate import Estimate
from benthic.metrics.binary import positive_label
from benthic.metrics.confusion import Cells
from benthic.metrics.rows import estimate, of_cells, plain

AVERAGES = ("binary", "micro", "macro", "weighted")


class Hits(NamedTuple):
    """Sums of weights, one a class: true and false positives, false and true negatives."""

    tp: Tensor
    fp: Tensor
    fn: Tensor
    tn: Tensor


Rate = Callable[[Hits], tuple[Tensor, Tensor]]


def hits(table: Tensor) -> Hits:
    """One class against the rest, for each class of a confusion matrix (k, k)."""
    tp, total = table.diagonal(), table.sum()
    missed = table - torch.diag(tp)
    fn, fp = missed.sum(1), missed.sum(0)
    tn = total - tp - fn - fp
    return Hits(tp, fp, fn, torch.where(tn > 1e-12 * total, tn, 0.0))  # rounding leaves no rows that are not there


def average_rate(rate: Rate, found: Hits, average: str, zero_division: float) -> Tensor:
    """A rate of every class, averaged; classes are the entries of ``found``.

    ``micro`` divides sums over classes, ``macro`` is the plain mean, ``weighted`` weighs by rows of the class.
    """
    above, below = rate(found)
    if average == "micro":
        above, below = above.sum(dim=-1, keepdim=True), below.sum(dim=-1, keepdim=True)
    defined = below > 0
    empty = torch.as_tensor(zero_division, dtype=above.dtype, device=above.device)
    each = torch.where(defined, above / torch.where(defined, below, 1.0), empty)
    kept = defined | ~empty.isnan()  # NaN says: leave such classes out
    if not bool(kept.any()):
        return empty
    if average == "weighted":
        support = (found.tp + found.fn)[kept]
        if bool((support > 0).any()):  # else the classes that are left have no rows, and count alike
            return (support * each[kept]).sum() / support.sum()
    return each[kept].mean()


def precision_of(h: Hits) -> tuple[Tensor, Tensor]:
    """Right among those called positive."""
    return h.tp, h.tp + h.fp


def recall_of(h: Hits) -> tuple[Tensor, Tensor]:
    """Found among the positive."""
    return h.tp, h.tp + h.fn


def specificity_of(h: Hits) -> tuple[Tensor, Tensor]:
    """Left alone among the negative."""
    return h.tn, h.tn + h.fp


def negative_predictive_value_of(h: Hits) -> tuple[Tensor, Tensor]:
    """Right among those called negative."""
    return h.tn, h.tn + h.fn


def iou_of(h: Hits) -> tuple[Tensor, Tensor]:
    """Intersection and union."""
    return h.tp, h.tp + h.fp + h.fn


def fbeta_of(beta: float) -> Rate:
    """Weighted harmonic mean of precision and recall."""

    def rate(h: Hits) -> tuple[Tensor, Tensor]:
        above = (1 + beta**2) * h.tp
        return above, above + beta**2 * h.fn + h.fp

    return rate


def _measure(
    where: str,
    rate: Rate,
    y: Any,
    predicted: Any,
    average: str,
    positive: Any,
    labels: Sequence[Any] | None,
    zero_division: float,
    sample_weight: Any,
) -> Estimate:
    if average not in AVERAGES:
        raise InvalidInput(
            f"{where}: average={average!r} is none of {', '.join(AVERAGES)}{nearest(str(average), AVERAGES)}"
        )
    cells = Cells(y, predicted, labels, sample_weight, where)
    chosen = _chosen(cells, average, positive, labels, where)
    return cells.measure(
        lambda table: average_rate(rate, Hits(*(part[chosen] for part in hits(table))), average, zero_division)
    )


def _chosen(cells: Cells, average: str, positive: Any, labels: Sequence[Any] | None, where: str) -> list[int]:
    """The places of the classes that are averaged."""
    found = cells.classes.tolist()
    if average != "binary":
        return list(range(len(found) if labels is None else len(plain(labels))))
    label = positive_label(cells.classes, positive, where)
    if label not in found:
        raise InvalidInput(f"{where}: the positive label {label!r} occurs neither in y nor in predicted")
    return [found.index(label)]


def precision(
    y: Any,
    predicted: Any,
    average: str = "binary",
    positive: Any = None,
    labels: Sequence[Any] | None = None,
    zero_division: float = 0.0,
    sample_weight: Any = None,
) -> Estimate:
    r"""The share of right ones among the rows called positive: positive predictive value.

    .. math:: \frac{TP}{TP + FP}

    average: ``binary`` looks at the label ``positive`` (1 or True if not given); ``micro`` counts all classes
    together, ``macro`` is the mean over classes, ``weighted`` the mean weighted by rows of each class. labels: the
    classes to average over. zero_division: the value where nothing was called positive; NaN leaves the class out.

    >>> precision([1, 1, 0, 0], [1, 0, 1, 0]).value
    0.5
    """
    return _measure("precision", precision_of, y, predicted, average, positive, labels, zero_division, sample_weight)


def recall(
    y: Any,
    predicted: Any,
    average: str = "binary",
    positive: Any = None,
    labels: Sequence[Any] | None = None,
    zero_division: float = 0.0,
    sample_weight: Any = None,
) -> Estimate:
    r"""The share of positive rows that were found: sensitivity, true positive rate.

    .. math:: \frac{TP}{TP + FN}

    Arguments as for ``precision``.

    >>> recall(["a", "a", "b"], ["a", "b", "b"], average="macro").value
    0.75
    """
    return _measure("recall", recall_of, y, predicted, average, positive, labels, zero_division, sample_weight)


def specificity(
    y: Any,
    predicted: Any,
    average: str = "binary",
    positive: Any = None,
    labels: Sequence[Any] | None = None,
    zero_division: float = 0.0,
    sample_weight: Any = None,
) -> Estimate:
    r"""The share of negative rows that were left alone: true negative rate.

    .. math:: \frac{TN}{TN + FP}

    Arguments as for ``precision``.

    >>> specificity([1, 0, 0, 0], [1, 1, 0, 0]).value
    0.6667
    """
    return _measure(
        "specificity", specificity_of, y, predicted, average, positive, labels, zero_division, sample_weight
    )


def negative_predictive_value(
    y: Any,
    predicted: Any,
    average: str = "binary",
    positive: Any = None,
    labels: Sequence[Any] | None = None,
    zero_division: float = 0.0,
    sample_weight: Any = None,
) -> Estimate:
    r"""The share of right ones among the rows called negative.

    .. math:: \frac{TN}{TN + FN}

    Arguments as for ``precision``.

    >>> negative_predictive_value([1, 1, 0, 0], [1, 0, 0, 0]).value
    0.6667
    """
    rate = negative_predictive_value_of
    where = "negative_predictive_value"
    return _measure(where, rate, y, predicted, average, positive, labels, zero_division, sample_weight)


def fbeta(
    y: Any,
    predicted: Any,
    beta: float = 1.0,
    average: str = "binary",
    positive: Any = None,
    labels: Sequence[Any] | None = None,
    zero_division: float = 0.0,
    sample_weight: Any = None,
) -> Estimate:
    r"""Harmonic mean of precision and recall in which recall counts ``beta`` times as much (van Rijsbergen, 1979).

    .. math:: \frac{(1 + \beta^2) TP}{(1 + \beta^2) TP + \beta^2 FN + FP}

    Arguments as for ``precision``.

    >>> fbeta([1, 1, 0, 0], [1, 0, 0, 0], beta=2).value
    0.5556
    """
    if not 0 <= beta < float("inf"):
        raise InvalidInput(f"fbeta: beta is {beta}; it must be zero or more, and finite")
    return _measure(
        "fbeta", fbeta_of(float(beta)), y, predicted, average, positive, labels, zero_division, sample_weight
    )


def f1(
    y: Any,
    predicted: Any,
    average: str = "binary",
    positive: Any = None,
    labels: Sequence[Any] | None = None,
    zero_division: float = 0.0,
    sample_weight: Any = None,
) -> Estimate:
    """``fbeta`` with beta 1: precision and recall count the same.

    >>> f1([1, 1, 0, 0], [1, 0, 0, 0]).value
    0.6667
    """
    return fbeta(y, predicted, 1.0, average, positive, labels, zero_division, sample_weight)


@dataclass(frozen=True)
class ClassReport:
    """Precision, recall, F1 and rows of every class, as ``Estimate`` by label; ``str`` makes a table."""

    precision: dict[Any, Estimate]
    recall: dict[Any, Estimate]
    f1: dict[Any, Estimate]
    support: dict[Any, float]

    def __str__(self) -> str:
        width = max(5, *(len(str(label)) for label in self.support))
        columns = (self.precision, self.recall, self.f1)
        lines = [f"{'class':<{width}} {'precision':>16} {'recall':>16} {'F1':>16} {'rows':>8}"]
        for label, rows in self.support.items():
            cells = " ".join(f"{column[label]!s:>16}" for column in columns)
            lines.append(f"{label!s:<{width}} {cells} {rows:>8g}")
        return "\n".join(lines)


def class_report(y: Any, predicted: Any, zero_division: float = 0.0, sample_weight: Any = None) -> ClassReport:
    """Precision, recall and F1 of each class against the rest, with standard errors.

    >>> class_report(["a", "b", "b"], ["a", "b", "a"]).recall["b"].value
    0.5
    """
    cells = Cells(y, predicted, None, sample_weight, "class_report")
    names = cells.classes.tolist()
    truth, answer = cells.flat // len(names), cells.flat % len(names)

    def one(rate: Rate, k: int) -> Estimate:
        pairs = (truth == k) * 2 + (answer == k).long()  # against the rest: a two by two table
        value, deviations = of_cells(
            lambda table: average_rate(rate, Hits(*(part[1:] for part in hits(table))), "macro", zero_division),
            pairs,
            (2, 2),
            cells.weights,
        )
        return estimate(value, deviations, cells.weights)

    columns = [
        {name: one(rate, k) for k, name in enumerate(names)} for rate in (precision_of, recall_of, fbeta_of(1.0))
    ]
    return ClassReport(*columns, dict(zip(names, cells.table.sum(1).tolist(), strict=True)))
