"""Overlap of masks and of sets: intersection over union, and Dice."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AnySet
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput, nearest
from benthic.base.estimate import Estimate
from benthic.metrics.binary import positive_label
from benthic.metrics.rates import Hits, Rate, average_rate, fbeta_of, hits, iou_of
from benthic.metrics.rows import coded, device_of, estimate, numbers, plain, weighted_mean, with_slope

_AVERAGES = ("binary", "micro", "macro", "weighted", "images")


def iou(
    y: Any,
    predicted: Any,
    average: str = "binary",
    positive: Any = None,
    labels: Sequence[Any] | None = None,
    zero_division: float = 0.0,
    sample_weight: Any = None,
) -> Estimate:
    r"""Intersection over union (Jaccard, 1901) of true and answered regions.

    .. math:: \frac{|A \cap B|}{|A \cup B|} = \frac{TP}{TP + FP + FN}

    y, predicted: (n, ...) labels, such as (n, h, w) masks, or (n,) labels of rows; two Python sets do too.
    average: ``binary``, ``micro``, ``macro`` and ``weighted`` as for ``precision``, over all pixels; ``images`` is
    the mean over images of each image's own macro value, over the classes that occur in it. sample_weight: (n,) or a
    weight a pixel; zero ignores it. zero_division: the value where a region is neither there nor answered. The error
    is over the n images, since the pixels of one are not independent.

    >>> iou([[1, 1, 0], [0, 1, 0]], [[1, 0, 0], [0, 1, 1]]).value
    0.5
    >>> iou({"a", "b"}, {"b", "c"}).value
    0.3333
    """
    return _overlap("iou", iou_of, y, predicted, average, positive, labels, zero_division, sample_weight)


def dice(
    y: Any,
    predicted: Any,
    average: str = "binary",
    positive: Any = None,
    labels: Sequence[Any] | None = None,
    zero_division: float = 0.0,
    sample_weight: Any = None,
) -> Estimate:
    r"""Dice's coefficient (1945) of true and answered regions, which is also their F1.

    .. math:: \frac{2 |A \cap B|}{|A| + |B|} = \frac{2 TP}{2 TP + FP + FN}

    Arguments as for ``iou``; with J the intersection over union it equals 2J / (1 + J).

    >>> dice([[1, 1, 0], [0, 1, 0]], [[1, 0, 0], [0, 1, 1]]).value
    0.6667
    """
    return _overlap("dice", fbeta_of(1.0), y, predicted, average, positive, labels, zero_division, sample_weight)


def _overlap(
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
    if isinstance(y, AnySet) and isinstance(predicted, AnySet):
        return _of_sets(rate, y, predicted, zero_division)
    if average not in _AVERAGES:
        raise InvalidInput(
            f"{where}: average={average!r} is none of {', '.join(_AVERAGES)}{nearest(str(average), _AVERAGES)}"
        )
    masks = _Masks(y, predicted, labels, sample_weight, where)
    if average == "binary":
        label = positive_label(masks.classes, positive, where)
        if label not in masks.classes.tolist():
            return Estimate(float(zero_division), float("nan"))
        chosen = [masks.classes.tolist().index(label)]
    else:
        chosen = list(range(len(masks.classes) if labels is None else len(plain(labels))))

    if average == "images":
        return _over_images(rate, masks, chosen, zero_division, where)
    found, slope = with_slope(
        lambda table: average_rate(rate, Hits(*(part[chosen] for part in hits(table))), average, zero_division),
        torch.bincount(masks.cells.reshape(-1), masks.weights.reshape(-1), minlength=masks.k**2).reshape(masks.k, -1),
    )
    # the value is the same for a common factor, so the influences of the images add up to zero
    deviations = (masks.weights * slope.reshape(-1)[masks.cells]).sum(1)  # (n,)
    counted = (masks.images > 0).double()
    return estimate(found, deviations * counted.sum(), counted)


def _over_images(rate: Rate, masks: _Masks, chosen: list[int], zero_division: float, where: str) -> Estimate:
    """The mean over images of the macro value over the classes that occur in each."""
    if masks.cells.shape[1] == 1:
        raise InvalidInput(f"{where}: average='images' needs masks (n, h, w); for labels (n,) use another average")
    tables = (torch.bincount(*pair, minlength=masks.k**2) for pair in zip(masks.cells, masks.weights, strict=True))
    parts = (Hits(*(part[chosen] for part in hits(table.reshape(masks.k, -1)))) for table in tables)
    each = torch.stack([average_rate(rate, part, "macro", float("nan")) for part in parts])  # (n,)
    return weighted_mean(each.nan_to_num(zero_division), masks.images)


class _Masks:
    """The cell of the confusion matrix that each pixel falls in; cells, weights: (n, pixels)."""

    def __init__(self, y: Any, predicted: Any, labels: Sequence[Any] | None, sample_weight: Any, where: str) -> None:
        shapes = tuple(np.shape(y)), tuple(np.shape(predicted))
        if shapes[0] != shapes[1] or not shapes[0] or 0 in shapes[0]:
            raise InvalidInput(f"{where}: y has shape {shapes[0]} and predicted {shapes[1]}; masks must match")
        self.classes, (truth, answer) = coded(where, labels, y=y, predicted=predicted)
        self.k = len(self.classes)
        self.cells = (truth * self.k + answer).reshape(len(truth), -1)
        weights = self._pixel_weights(sample_weight, truth, where, device_of(y, predicted))
        self.weights = weights.reshape(len(truth), -1)
        self.images = self.weights.amax(1)

    @staticmethod
    def _pixel_weights(sample_weight: Any, truth: Tensor, where: str, device: torch.device) -> Tensor:
        if sample_weight is None:
            return torch.ones(truth.shape, dtype=torch.float64, device=device)
        found = numbers(sample_weight, where, "sample_weight", device)
        if found.shape not in (truth.shape, truth.shape[:1]):
            raise InvalidInput(
                f"{where}: sample_weight has shape {tuple(found.shape)}; one a mask, ({len(truth)},), or one a pixel, "
                f"{tuple(truth.shape)}, is needed"
            )
        if bool((found < 0).any()) or not bool((found > 0).any()):
            raise InvalidInput(f"{where}: sample_weight must be zero or more, and not all zero")
        return found.reshape(found.shape + (1,) * (truth.ndim - found.ndim)).expand(truth.shape)


def _of_sets(rate: Rate, y: AnySet[Any], predicted: AnySet[Any], zero_division: float) -> Estimate:
    sizes = [len(y & predicted), len(predicted - y), len(y - predicted), 0]
    found = Hits(*(torch.tensor([float(size)], dtype=torch.float64) for size in sizes))
    return Estimate(float(average_rate(rate, found, "macro", zero_division)), float("nan"))
