"""From pairs of classes to all of them: weights, votes, scores."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput


def class_factors(setting: Any, classes: np.ndarray, codes: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """What multiplies C in each class: 1, given, or balanced by the weight of its rows.

    >>> class_factors("balanced", np.array([0, 1]), np.array([0, 0, 0, 1]), np.ones(4))
    array([0.66666667, 2.        ])
    """
    if setting is None:
        return np.ones(len(classes))
    if isinstance(setting, str) and setting == "balanced":
        counts = np.bincount(codes, weight, minlength=len(classes))
        return np.asarray(counts.sum() / (len(classes) * counts))
    if not isinstance(setting, Mapping):
        raise InvalidInput(f"class_weight is {setting!r}; use None, 'balanced' or a dict of labels and weights")
    known = classes.tolist()
    for label in setting:
        if label not in known:
            raise InvalidInput(f"class_weight names {label!r}, which is not among the classes {known}")
    factors = np.array([float(setting.get(label, 1.0)) for label in known])
    if not (factors > 0).all() or not np.isfinite(factors).all():
        raise InvalidInput("class_weight has weights that are not positive; drop the rows of a class that has none")
    return factors


def pair_weights(dual_coef: np.ndarray, n_support: np.ndarray) -> np.ndarray:
    """Coefficients (support vectors, pairs) from scikit-learn's layout (k - 1, support vectors)."""
    k, ends = len(n_support), np.cumsum(n_support)
    begins = ends - n_support
    pairs = list(combinations(range(k), 2))
    out = np.zeros((dual_coef.shape[1], len(pairs)))
    for column, (a, b) in enumerate(pairs):
        out[begins[a] : ends[a], column] = dual_coef[b - 1, begins[a] : ends[a]]
        out[begins[b] : ends[b], column] = dual_coef[a, begins[b] : ends[b]]
    return out


def _tally(values: Tensor) -> tuple[Tensor, Tensor]:
    """Votes and summed scores (n, k) from values of pairs (n, p), positive for the first class of a pair."""
    k = round((1 + (1 + 8 * values.shape[1]) ** 0.5) / 2)
    votes, scores = (torch.zeros(len(values), k, dtype=values.dtype, device=values.device) for _ in range(2))
    for column, (a, b) in enumerate(combinations(range(k), 2)):
        value = values[:, column]
        first = (value > 0).to(values.dtype)
        votes[:, a] += first
        votes[:, b] += 1 - first
        scores[:, a] += value
        scores[:, b] -= value
    return votes, scores


def winners(values: Tensor) -> Tensor:
    """The class with most votes; the first of several.

    >>> winners(torch.tensor([[1.0, -1.0, -2.0]]))
    tensor([2])
    """
    return _tally(values)[0].argmax(1)


def one_against_rest(values: Tensor) -> Tensor:
    """Votes (n, k) with scores squeezed into less than half a vote, as scikit-learn has it."""
    votes, scores = _tally(values)
    return votes + scores / (3 * (scores.abs() + 1))
