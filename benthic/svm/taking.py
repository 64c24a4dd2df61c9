"""Training rows in memory: from arrays, frames, files or sources."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.estimator import Estimator
from benthic.base.validation import speaking
from benthic.training.intake import Intake, Target


class Taken(NamedTuple):
    """Rows (n, d) in double precision, targets or codes (n,), weights (n,), and the classes."""

    X: Tensor
    y: np.ndarray
    weight: np.ndarray
    classes: np.ndarray


def take(estimator: Estimator, X: Any, y: Any, sample_weight: Any, target: Target) -> Taken:
    """Check and gather everything ``fit`` was given; a machine needs all rows at once."""
    intake = Intake(estimator, X, y, target=target, sample_weight=sample_weight)
    rows, targets, weights = intake.sample(intake.rows, 0)
    weight = np.ones(len(rows)) if weights is None else weights.double().cpu().numpy()
    classes = np.empty(0) if intake.classes is None else intake.classes
    with speaking(estimator, "fit"):
        if targets is None:
            raise InvalidInput("requires y to be passed, but the target y is None")
        if targets.ndim > 1:
            raise InvalidInput(f"y should be a 1d array, got an array of shape {tuple(targets.shape)} instead")
        values = targets.cpu().numpy() if target == "labels" else targets.double().cpu().numpy()
        if target == "labels":
            _check_present(classes, values, weight)
    return Taken(rows.double().cpu(), values, weight, classes)


def _check_present(classes: np.ndarray, codes: np.ndarray, weight: np.ndarray) -> None:
    present = np.unique(codes[weight > 0])
    if len(present) == 1:
        only = classes.tolist()[present[0]]
        raise InvalidInput(
            f"sample_weight leaves rows of only one class, {only!r}; a classifier needs at least 2 classes"
        )
    if len(present) < len(classes):
        missing = np.delete(classes, present).tolist()[0]
        raise InvalidInput(f"sample_weight leaves no row of class {missing!r}; drop that class")
