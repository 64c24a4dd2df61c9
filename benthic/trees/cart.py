"""CART: the compiled growth of a binary tree, from arrays to a ``Tree``."""

from __future__ import annotations

from typing import Any

import numpy as np

from benthic.trees import cart_kernels as kernels
from benthic.trees.structure import Tree, from_binary

CRITERIA = {"gini": kernels.GINI, "entropy": kernels.ENTROPY, "squared_error": kernels.SQUARES}
_TABLE = 1 << 20  # whole weights up to which logarithms are looked up


def grow_cart(
    X: np.ndarray,
    categories: np.ndarray,
    target: np.ndarray,
    weight: np.ndarray,
    criterion: str,
    limits: dict[str, Any],
    state: np.ndarray,
    classes: int = 0,
) -> Tree:
    """Grow a binary tree by exact splits.

    X: (d, n) attributes, NaN where missing. categories: (d,) how many, 0 for numbers. target: (n,) codes of
    ``classes`` classes, or (n, m) numbers. weight: (n,) positive. limits: the other fields of
    ``cart_kernels.Limits``. state: (1,) of the random numbers.
    """
    n = X.shape[1]
    classify = criterion != "squared_error"
    center = np.zeros(1) if classify else np.average(target, axis=0, weights=weight)
    rows = kernels.Rows(
        X,
        categories,
        target.astype(np.int32) if classify else np.zeros(1, np.int32),
        np.zeros((1, 1)) if classify else np.ascontiguousarray(target - center, dtype=np.float64),
        np.ascontiguousarray(weight, dtype=np.float64),
        _table(weight) if criterion == "entropy" else np.zeros(1),
    )
    settings = kernels.Limits(
        criterion=CRITERIA[criterion], components=classes if classify else target.shape[1], **limits
    )
    most = _most_nodes(n, settings)
    ints, floats = np.empty((most, 9), np.int64), np.empty((most, 4))  # memory is taken only where it is written
    values = np.empty((most, settings.components))
    slots = int(categories.max()) + 1 if len(categories) else 1
    subsets = np.empty((most if slots > 1 else 1, slots), np.uint8)
    order = np.argsort(X, axis=1).astype(np.int32)
    count, used = kernels.grow(rows, settings, order, state, ints, floats, values, subsets)
    return _tree(ints[:count].copy(), floats[:count].copy(), values[:count] + center, subsets[:used], categories)


def _table(weight: np.ndarray) -> np.ndarray:
    whole = np.arange(min(int(weight.sum()) + 2, _TABLE), dtype=np.float64)
    return whole * np.log2(np.maximum(whole, 1.0))


def _most_nodes(n: int, limits: kernels.Limits) -> int:
    most = 2 * n - 1
    if limits.max_leaves > 0:
        most = min(most, 2 * limits.max_leaves - 1)
    if 0 <= limits.max_depth < 40:
        most = min(most, 2 ** (limits.max_depth + 1) - 1)
    return most + 2


def _tree(
    ints: np.ndarray, floats: np.ndarray, values: np.ndarray, subsets: np.ndarray, categories: np.ndarray
) -> Tree:
    names = {
        "feature": kernels.FEATURE,
        "left": kernels.LEFT,
        "right": kernels.RIGHT,
        "missing_left": kernels.MISSING_LEFT,
        "depth": kernels.DEPTH,
        "subset": kernels.SUBSET,
        "parent": kernels.PARENT,
    }
    grown: dict[str, Any] = {name: np.ascontiguousarray(ints[:, place]) for name, place in names.items()}
    grown["subset"] = np.where(grown["feature"] >= 0, grown["subset"], -1)
    reals = {
        "threshold": kernels.THRESHOLD,
        "weight": kernels.WEIGHT,
        "impurity": kernels.IMPURITY,
        "gain": kernels.GAIN,
    }
    grown |= {name: np.ascontiguousarray(floats[:, place]) for name, place in reals.items()}
    inner = grown["feature"] >= 0
    grown["threshold"] = np.where(inner & (grown["subset"] < 0), grown["threshold"], 0.0)
    grown |= {"rows": ints[:, kernels.END] - ints[:, kernels.START], "value": values, "subsets": subsets}
    return from_binary(grown, categories)
