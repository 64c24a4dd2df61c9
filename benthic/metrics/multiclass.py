"""Areas under ROC and precision-recall curves for several classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput, nearest
from benthic.base.estimate import Estimate
from benthic.metrics.probability import Table
from benthic.metrics.ranking import Steps, area_of, average_precision_of
from benthic.metrics.rows import estimate

_SCHEMES = ("ovr", "ovo")
_AVERAGES = ("macro", "weighted", "micro")
Part = tuple[Tensor, Tensor, Tensor, Tensor]


def macro_auc(y: Any, probabilities: Any, classes: Any = None, sample_weight: Any = None) -> Estimate:
    """The areas of every class against the rest, averaged over the classes that occur.

    Two classes have one area, since both scores rank the rows the same way round.

    y: (n,) labels. probabilities: (n, k), columns in the order of ``classes``.

    >>> macro_auc(["a", "b", "c"], [[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.4, 0.3, 0.3]]).value
    0.9167
    """
    return multiclass_auc(y, probabilities, classes, sample_weight=sample_weight, where="macro_auc")


def multiclass_auc(
    y: Any,
    probabilities: Any,
    classes: Any = None,
    scheme: str = "ovr",
    average: str = "macro",
    sample_weight: Any = None,
    where: str = "multiclass_auc",
) -> Estimate:
    """Area under the ROC curve for several classes, over those that occur.

    y: (n,) labels. probabilities: (n, k), columns in the order of ``classes`` (sorted labels of ``y`` if None).
    scheme: ``ovr`` sets each class against the rest, ``ovo`` each pair of classes against each other, which does
    not change with their shares (Hand & Till, 2001). average: ``macro``; ``weighted`` by the rows of the class or
    pair; ``micro``, all cells of the table as one ranking (``ovr`` only). where: the name that errors begin with.

    >>> table = [[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.4, 0.3, 0.3]]
    >>> multiclass_auc(["a", "b", "c"], table, scheme="ovo").value
    0.9167
    """
    if scheme not in _SCHEMES:
        raise InvalidInput(f"{where}: scheme={scheme!r} is none of {', '.join(_SCHEMES)}{nearest(scheme, _SCHEMES)}")
    if average not in _AVERAGES or (scheme, average) == ("ovo", "micro"):
        allowed = _AVERAGES if scheme == "ovr" else _AVERAGES[:2]
        raise InvalidInput(f"{where}: average={average!r} is none of {', '.join(allowed)} for scheme={scheme!r}")
    table = Table(y, probabilities, classes, sample_weight, where, law=False)
    if average == "micro":
        return _micro(table, area_of, where)
    parts = list(_pairs(table) if scheme == "ovo" else _rests(table, area_of))
    return _average(parts, average, table.weights, where)


def multiclass_average_precision(
    y: Any, probabilities: Any, classes: Any = None, average: str = "macro", sample_weight: Any = None
) -> Estimate:
    """Average precision of each class against the rest, averaged over the classes that occur.

    Arguments as for ``multiclass_auc``; two classes are averaged too, since this area depends on the side.

    >>> multiclass_average_precision([0, 1, 1], [[0.6, 0.4], [0.5, 0.5], [0.1, 0.9]]).value
    1.0
    """
    where = "multiclass_average_precision"
    if average not in _AVERAGES:
        raise InvalidInput(f"{where}: average={average!r} is none of {', '.join(_AVERAGES)}")
    table = Table(y, probabilities, classes, sample_weight, where, law=False)
    if average == "micro":
        return _micro(table, average_precision_of, where)
    return _average(list(_rests(table, average_precision_of, both=True)), average, table.weights, where)


def _rests(table: Table, function: Callable[[Tensor], Tensor], both: bool = False) -> Iterator[Part]:
    """For each class: the area, the influence of every row, and which rows give the class its weight."""
    k = table.values.shape[1]
    binary = k == 2 and not both and bool(table.known.all())
    for column in range(1, 2) if binary else range(k):
        positive = table.known & (table.codes == column)
        if _both_weigh(positive, table.weights):
            steps = Steps.of(positive, table.values[:, column], table.weights)
            yield *steps.influence(function), positive, _share(positive, table.weights)


def _pairs(table: Table) -> Iterator[Part]:
    """The same for each pair of classes, whose area is the mean of both ways to score it."""
    total = table.weights.sum()
    for first, second in combinations(range(table.values.shape[1]), 2):
        rows = table.known & ((table.codes == first) | (table.codes == second))
        weights = table.weights[rows]
        truth = table.codes[rows] == first
        if not rows.any() or not _both_weigh(truth, weights):
            continue
        one, its = Steps.of(truth, table.values[rows, first], weights).influence(area_of)
        other, others = Steps.of(~truth, table.values[rows, second], weights).influence(area_of)
        deviations = torch.zeros_like(table.weights)
        deviations[rows] = (its + others) / 2 * (total / weights.sum())
        yield (one + other) / 2, deviations, rows, _share(rows, table.weights)


def _average(parts: list[Part], average: str, weights: Tensor, where: str) -> Estimate:
    if not parts:
        raise InvalidInput(f"{where}: all rows are of one class; the area compares rows of two")
    areas, deviations = torch.stack([part[0] for part in parts]), torch.stack([part[1] for part in parts])
    if average == "macro":
        return estimate(areas.mean(), deviations.mean(0), weights)
    members, shares = torch.stack([part[2] for part in parts]).double(), torch.stack([part[3] for part in parts])
    value = shares @ areas / shares.sum()
    # a row moves the areas, and by being there the shares that weigh them
    moved = shares @ deviations + (members - shares[:, None]).T @ (areas - value)
    return estimate(value, moved / shares.sum(), weights)


def _micro(table: Table, function: Callable[[Tensor], Tensor], where: str) -> Estimate:
    n, k = table.values.shape
    truth = (table.codes[:, None] == torch.arange(k, device=table.codes.device)) & table.known[:, None]
    spread = table.weights[:, None].expand(n, k).reshape(-1)
    if not _both_weigh(truth.reshape(-1), spread):
        raise InvalidInput(f"{where}: none of the labels is among the classes")
    value, deviations = Steps.of(truth.reshape(-1), table.values.reshape(-1), spread).influence(function)
    return estimate(value, deviations.reshape(n, k).mean(1), table.weights)


def _both_weigh(positive: Tensor, weights: Tensor) -> bool:
    return bool((weights[positive] > 0).any()) and bool((weights[~positive] > 0).any())


def _share(rows: Tensor, weights: Tensor) -> Tensor:
    return weights[rows].sum() / weights.sum()
