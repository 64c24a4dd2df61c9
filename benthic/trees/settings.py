"""Checks of the settings that only trees have: each returns the number meant, or says what would work."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from benthic.base.errors import InvalidInput
from benthic.base.settings import is_real, is_whole, whole

MOST_TREES = 1_000_000  # of an ensemble, and rounds of boosting: more take days and do not improve it


def limit(name: str, value: Any, least: int) -> int:
    """A whole number of at least ``least``; None is no limit, given back as -1."""
    found = whole(name, value, least, optional=True)
    return -1 if found is None else int(found)


def count_or_share(name: str, value: Any, least: int, rows: int) -> int:
    """A number of rows: a whole number of at least ``least``, or a share of all rows between 0 and 1."""
    if is_whole(value, least):
        return int(value)
    if not is_whole(value) and is_real(value) and 0 < value <= 1:
        return max(least, math.ceil(float(value) * rows))
    raise InvalidInput(f"{name} is {value!r}; it must be a whole number of at least {least} or a share in (0, 1]")


def feature_count(value: Any, d: int) -> int:
    """How many of ``d`` features to look at: None, a whole number, a share, ``"sqrt"`` or ``"log2"``."""
    if value is None:
        return d
    if isinstance(value, str) and value in ("sqrt", "log2"):
        return max(1, int(math.sqrt(d) if value == "sqrt" else math.log2(d)))
    if is_whole(value, 1):
        return min(int(value), d)
    if not is_whole(value) and is_real(value) and 0 < value <= 1:
        return max(1, int(value * d))
    raise InvalidInput(
        f"max_features is {value!r}; use None, a whole number of at least 1, a share in (0, 1], 'sqrt' or 'log2'"
    )


def class_factors(setting: Any, classes: np.ndarray, codes: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """What the weight of the rows of each class is multiplied by, (k,).

    setting: None, ``{label: weight}``, or ``"balanced"``: total weight / (classes x weight of the class).
    """
    if setting is None:
        return np.ones(len(classes))
    if isinstance(setting, str) and setting == "balanced":
        held = np.bincount(codes, weight, minlength=len(classes))
        return np.where(held > 0, held.sum() / (len(classes) * np.where(held > 0, held, 1.0)), 0.0)
    if not isinstance(setting, Mapping):
        raise InvalidInput(f"class_weight is {setting!r}; use None, 'balanced' or a dict of labels and weights")
    known = classes.tolist()
    unknown = [label for label in setting if label not in known]
    if unknown:
        raise InvalidInput(f"class_weight names {unknown[0]!r}, which is not among the classes {known}")
    factors = np.array([float(setting.get(label, 1.0)) for label in known])
    if not np.isfinite(factors).all() or (factors < 0).any() or not factors.any():
        raise InvalidInput("class_weight has weights that are negative or not finite, or only zeros; use weights >= 0")
    return factors
