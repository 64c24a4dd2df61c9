"""Which of two labels counts as positive."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.metrics.rows import coded


def positive_label(classes: np.ndarray, positive: Any, where: str) -> Any:
    """The positive one among labels: the one asked for, else 1 or True of {0, 1}, {-1, 1}, {False, True}.

    >>> positive_label(np.array(["ham", "spam"]), "spam", "auc")
    'spam'
    """
    found = classes.tolist()
    if positive is not None:
        if positive not in found and len(found) > 1:
            raise InvalidInput(f"{where}: positive={positive!r} is not among the labels {shown(found)}")
        return positive
    if set(found) <= {0, 1} or set(found) <= {-1, 1}:
        return 1
    if len(found) > 2:
        raise InvalidInput(
            f"{where}: there are {len(found)} labels, {shown(found)}; say positive=... to set one against the rest, "
            "or use a multi-class average"
        )
    raise InvalidInput(f"{where}: the labels are {shown(found)}; say which one counts by positive=...")


def positives(y: Any, positive: Any, where: str) -> Tensor:
    """Truth values of labels, (n,), both kinds present."""
    classes, (codes,) = coded(where, y=y)
    if codes.ndim != 1:
        raise InvalidInput(f"{where}: y has shape {tuple(codes.shape)}; one label a row is needed")
    label = positive_label(classes, positive, where)
    place = classes.tolist().index(label) if label in classes.tolist() else -1
    truth = codes == place
    if bool(truth.all()) or not bool(truth.any()):
        raise InvalidInput(f"{where}: all rows are of one class; rows of two are compared")
    return truth


def shown(labels: list[Any], most: int = 5) -> str:
    """A few labels for a message.

    >>> shown(["a", "b"])
    "'a', 'b'"
    """
    names = ", ".join(repr(label) for label in labels[:most])
    return names + (", ..." if len(labels) > most else "")
