"""What a conditional model learns beside the data: labels, vectors or pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.arrays import is_tensor
from benthic.base.errors import InvalidInput, nearest
from benthic.data.standardize import Standardizer
from benthic.generative.diffusion.process import Record
from benthic.generative.vae.conditions import (
    codes_of_labels,
    dimensions,
    one_or_many,
    rows_of_vectors,
)

KINDS = ("auto", "none", "labels", "vectors", "images")


@dataclass(frozen=True)
class ConditionKind(Record):
    """What is given with an example. kind: ``none``, ``labels``, ``vectors`` or ``images``. shape: of one."""

    kind: str = "none"
    shape: tuple[int, ...] = ()

    @classmethod
    def from_tree(cls, tree: Any) -> ConditionKind:
        """The value with these fields."""
        return cls(tree["kind"], tuple(tree["shape"]))

    @property
    def target(self) -> Any:
        """What this is for an ``Intake``."""
        return {"none": "none", "labels": "labels"}.get(self.kind, "numbers")


def kind_of(setting: str, y: Any, event: Sequence[int] | None) -> ConditionKind:
    """What ``y`` of a fit is: by default numbers with a fraction or with columns are vectors, the rest labels.

    >>> kind_of("auto", np.array([1, 2, 1]), None).kind, kind_of("auto", np.array([[0.5, 1.0]]), None).shape
    ('labels', (2,))
    """
    if setting not in KINDS:
        hint = nearest(str(setting), KINDS)
        raise InvalidInput(f"condition {setting!r} is unknown{hint}; use {', '.join(KINDS)}")
    if y is None or setting == "none":
        if setting not in ("auto", "none"):
            raise InvalidInput(
                f"condition={setting!r}, but there is no y to learn it from; pass y, or condition='none'"
            )
        return ConditionKind()
    if isinstance(y, (str, int)):  # the column of a file
        return ConditionKind("labels" if setting == "auto" else setting)
    y = y if is_tensor(y) else np.asarray(y)
    shape = tuple(y.shape)
    if setting == "auto":
        many = len(shape) > 1 and int(np.prod(shape[1:])) > 1
        setting = ("images" if len(shape) == 4 else "vectors") if many else "vectors" if _fractions(y) else "labels"
    if setting == "labels":
        if len(shape) > 1 and int(np.prod(shape[1:])) > 1:
            raise InvalidInput(f"y should be a 1d array, got an array of shape {shape} instead")
        return ConditionKind("labels")
    if setting == "images":
        if event is None or len(shape) != 4 or shape[2:] != tuple(event[1:]):
            raise InvalidInput(
                f"condition='images' takes pictures (n, c, h, w) as high and wide as the data; y has shape {shape}"
            )
        return ConditionKind("images", shape[1:])
    return ConditionKind("vectors", (int(np.prod(shape[1:])) if len(shape) > 1 else 1,))


def _fractions(y: Any) -> bool:
    """Whether there are numbers that are not whole."""
    if is_tensor(y):
        return bool(y.is_floating_point() and (y != y.round()).any())
    return bool(y.dtype.kind == "f" and (y != np.round(y)).any())


def flat_targets(y: Any, kind: ConditionKind) -> Any:
    """``y`` as an ``Intake`` takes it: labels (n,), or rows of numbers."""
    if y is None or isinstance(y, (str, int)) or kind.kind in ("none", "labels") or dimensions(y) < 2:
        return None if kind.kind == "none" else y
    y = y if is_tensor(y) else np.asarray(y)
    y = y.reshape(len(y), -1)
    return y[:, 0] if y.shape[1] == 1 else y


def encode_condition(given: Any, kind: ConditionKind, classes: Any, scales: Standardizer | None, n: int) -> Tensor:
    """What is given, one or ``n`` of them, as the network is told it, (n, ...)."""
    if kind.kind == "labels":
        return one_or_many(codes_of_labels(given, classes), n, "labels")
    width = int(np.prod(kind.shape))
    return one_or_many(scale_numbers(rows_of_vectors(given, width), kind, scales), n, kind.kind)


def scale_numbers(rows: Tensor, kind: ConditionKind, scales: Standardizer | None) -> Tensor:
    """Vectors or pictures in standard units, in their shape."""
    rows = rows[:, None] if rows.ndim == 1 else rows
    scaled = rows if scales is None else torch.as_tensor(scales.transform(rows))
    return scaled.reshape(len(rows), *kind.shape)
