"""Weights of classes: given, or balanced by how often each class occurs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.data.batch import Batch
from benthic.training.distributed import World
from benthic.training.intake import Intake, Prepare


def class_weighting(setting: Mapping[Any, float] | str | None, intake: Intake) -> Prepare | None:
    """What multiplies the weight of each row by that of its class; None when all classes weigh one.

    setting: None, a dict of labels and weights, or ``"balanced"``: total weight / (classes x weight of the class).
    """
    if setting is None:
        return None
    classes = intake.classes
    if classes is None:
        raise InvalidInput("class weights need labels")
    if isinstance(setting, Mapping):
        factors = _given(setting, classes)
    else:
        counts = _count(intake, len(classes))
        factors = torch.where(counts > 0, counts.sum() / (len(classes) * counts), 0.0)

    def prepare(batch: Batch) -> Batch:
        X, y, weight = batch
        if y is None:
            return batch
        own = factors.to(X)[y]
        return Batch(X, y, own if weight is None else own * weight)

    return prepare


def _given(weights: Mapping[Any, float], classes: np.ndarray) -> Tensor:
    unknown = [label for label in weights if label not in classes]
    if unknown:
        raise InvalidInput(f"class_weight names {unknown[0]!r}, which is not among the classes {classes.tolist()}")
    factors = torch.tensor([float(weights.get(label, 1.0)) for label in classes], dtype=torch.float64)
    if not bool((factors >= 0).all()) or float(factors.sum()) == 0:
        raise InvalidInput("class_weight has negative weights or only zeros; weights must be >= 0")
    return factors


def _count(intake: Intake, classes: int) -> Tensor:
    """Weight of the rows of each class, over all data."""
    feed = intake.feed(batch_size=1 << 16, seed=0, device=torch.device("cpu"), world=World())
    total = torch.zeros(classes, dtype=torch.float64)
    for part in feed.open(0):
        _, y, weight = part.batch
        if y is not None:
            total += torch.bincount(y, None if weight is None else weight.double(), minlength=classes)
    return total
