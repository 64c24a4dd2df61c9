"""How good class probabilities are: proper scores, and the truth among the best few."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.estimate import Estimate
from benthic.metrics.binary import shown
from benthic.metrics.rows import coded, device_of, numbers, plain, same_rows, weighted_mean, weights_of


class Table:
    """Labels and a table of scores with one column a class.

    known: (n,) whether the label is among the classes. codes: (n,) its column, 0 where it is not. values: (n, k).
    law: whether the rows must be probabilities that add up to one.
    """

    def __init__(self, y: Any, values: Any, classes: Any, sample_weight: Any, where: str, law: bool = True) -> None:
        n = same_rows(where, y=y, probabilities=values)
        device = device_of(y, values)
        self.smallest = _step(values)
        table = numbers(values, where, "probabilities", device, infinite=not law)
        if table.ndim == 1:
            table = torch.stack([1 - table, table], 1)
        k = None if classes is None else len(plain(classes))
        labels, (codes,) = coded(where, classes, y=y)
        k = len(labels) if k is None else k
        if table.ndim != 2 or table.shape[1] != k:
            told = f"there are {k} classes" if classes is not None else f"y has {k} classes, {shown(labels.tolist())}"
            hint = "" if classes is not None else "; pass classes=... in the order of the columns"
            raise InvalidInput(f"{where}: probabilities have shape {tuple(table.shape)}, but {told}{hint}")
        if codes.ndim != 1:
            raise InvalidInput(f"{where}: y has shape {tuple(codes.shape)}; one label a row is needed")
        if law:
            _check_law(table, where)
        codes = codes.to(device)
        self.classes, self.values = labels[:k], table
        self.known, self.codes = codes < k, torch.where(codes < k, codes, 0)
        self.weights = weights_of(sample_weight, n, where, device)

    def of_truth(self) -> Tensor:
        """(n,) the value in the column of the true class, 0 if there is none."""
        found = self.values.gather(1, self.codes[:, None])[:, 0]
        return torch.where(self.known, found, 0.0)


def log_loss(y: Any, probabilities: Any, classes: Any = None, sample_weight: Any = None) -> Estimate:
    r"""Mean negative log-probability of the true class, in nats.

    .. math:: -\frac1n \sum_i \log p_i(y_i)

    y: (n,) labels. probabilities: (n, k), columns in the order of ``classes`` (sorted labels of ``y`` if None), or
    (n,) for the second of two classes. A probability of zero, and that of a class the model does not know, counts as
    the smallest step of its floating type.

    >>> round(log_loss([0, 1], [[0.5, 0.5], [0.25, 0.75]], [0, 1]).value, 4)
    0.4904
    """
    table = Table(y, probabilities, classes, sample_weight, "log_loss")
    return weighted_mean(-table.of_truth().clamp(table.smallest, 1.0).log(), table.weights)


def brier(y: Any, probabilities: Any, classes: Any = None, sample_weight: Any = None) -> Estimate:
    r"""Mean squared distance of the probabilities from the truth (Brier, 1950).

    .. math:: \frac1n \sum_i \sum_k \bigl(p_{ik} - [y_i = k]\bigr)^2

    Two classes count once, as :math:`(p - [y = 1])^2`. Arguments as for ``log_loss``; a label outside the classes
    is one to which the model gave probability zero.

    >>> brier([0, 1], [0.2, 0.6]).value
    0.1
    """
    table = Table(y, probabilities, classes, sample_weight, "brier")
    distance = (table.values**2).sum(1) - 2 * table.of_truth() + 1
    return weighted_mean(distance / 2 if table.values.shape[1] == 2 else distance, table.weights)


def top_k_accuracy(y: Any, scores: Any, k: int = 2, classes: Any = None, sample_weight: Any = None) -> Estimate:
    """The share of rows whose true class is among the ``k`` with the highest scores.

    scores: (n, number of classes), any real numbers. When classes tie for the last places, the row counts with the
    probability of being chosen if the tie is broken by lot.

    >>> top_k_accuracy([0, 1, 2], [[0.5, 0.3, 0.2], [0.5, 0.3, 0.2], [0.5, 0.3, 0.2]], k=2).value
    0.6667
    """
    where = "top_k_accuracy"
    table = Table(y, scores, classes, sample_weight, where, law=False)
    if not 1 <= k <= table.values.shape[1]:
        raise InvalidInput(f"{where}: k is {k}; it must lie between 1 and the {table.values.shape[1]} classes")
    own = table.values.gather(1, table.codes[:, None])
    above, tied = (table.values > own).sum(1), (table.values == own).sum(1)
    credit = ((k - above) / tied).clamp(0, 1).double()
    return weighted_mean(torch.where(table.known, credit, 0.0), table.weights)


def _step(values: Any) -> float:
    """The smallest step of the floating type at 1."""
    if isinstance(values, Tensor):
        return torch.finfo(values.dtype).eps if values.dtype.is_floating_point else torch.finfo(torch.float64).eps
    dtype = np.asarray(values).dtype
    return float(np.finfo(dtype if dtype.kind == "f" else np.float64).eps)


def _check_law(table: Tensor, where: str) -> None:
    sums = table.sum(1)
    off = (sums - 1).abs().max()
    if bool((table < -1e-6).any()) or bool((table > 1 + 1e-6).any()):
        raise InvalidInput(
            f"{where}: probabilities reach from {float(table.min()):.4g} to {float(table.max()):.4g}; they must lie "
            "between 0 and 1 (scores or logits are not probabilities)"
        )
    if float(off) > 1e-2:
        raise InvalidInput(
            f"{where}: the probabilities of a row add up to {float(sums[(sums - 1).abs().argmax()]):.4g}, not to 1"
        )
