"""Gains and split information of every attribute in a node of a multi-way tree, compiled."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

# What only kernels call needs no way in from Python, which shortens its compilation.
_inner = njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)

# Columns of what is found for each attribute.
GAIN, INFO, CUT, VALID = range(4)


@_inner
def _impurity(counts: Any, weight: float, entropy: bool) -> float:
    """Entropy in bits or Gini's index of weights of classes."""
    total = 0.0
    for count in counts:
        if count > 0.0:
            share = count / weight
            total += -share * math.log2(share) if entropy else share * (1.0 - share)
    return total


@_inner
def _bits(part: float, weight: float) -> float:
    return -part / weight * math.log2(part / weight) if part > 0.0 else 0.0


@_inner
def _by_category(
    x: Any, codes: Any, w: Any, slots: int, classes: int, entropy: bool, min_leaf: float, found: Any
) -> None:
    """A branch for each category; rows without a value count as a group of their own in the split information."""
    counts, weights = np.zeros((slots, classes)), np.zeros(slots)
    total, known, weight = np.zeros(classes), 0.0, 0.0
    for i in range(len(x)):
        weight += w[i]
        if not math.isnan(x[i]):
            counts[int(x[i]), codes[i]] += w[i]
            weights[int(x[i])] += w[i]
            total[codes[i]] += w[i]
            known += w[i]
    large, after, info = 0, 0.0, _bits(weight - known, weight)
    for v in range(slots):
        if weights[v] > 0.0:
            large += weights[v] >= min_leaf
            after += weights[v] * _impurity(counts[v], weights[v], entropy)
            info += _bits(weights[v], weight)
    if large >= 2:
        found[GAIN] = (known * _impurity(total, known, entropy) - after) / weight
        found[INFO], found[VALID] = info, 1.0


@_inner
def _by_threshold(
    x: Any, order: Any, codes: Any, w: Any, classes: int, entropy: bool, least: float, penalty: bool, found: Any
) -> None:
    """Two branches; ``order`` sorts x with missing values last. ``least`` is what either side must weigh."""
    total, known, weight, stop = np.zeros(classes), 0.0, 0.0, 0
    for i in order:
        weight += w[i]
        if not math.isnan(x[i]):
            total[codes[i]] += w[i]
            known += w[i]
            stop += 1
    if least < 0.0:  # C4.5: a tenth of an even share of a class, but at most 25 cases
        least = max(-least, min(0.1 * known / classes, 25.0))
    before, left, right = known * _impurity(total, known, entropy), np.zeros(classes), total.copy()
    best, tries, wl = -np.inf, 0, 0.0
    for k in range(stop - 1):
        i = order[k]
        left[codes[i]] += w[i]
        right[codes[i]] -= w[i]
        wl += w[i]
        if x[order[k + 1]] <= x[i] or wl < least - 1e-9 or known - wl < least - 1e-9:
            continue
        tries += 1
        after = wl * _impurity(left, wl, entropy) + (known - wl) * _impurity(right, known - wl, entropy)
        gain = (before - after) / weight
        if gain > best + 1e-12:
            best = gain
            found[CUT] = 0.5 * x[i] + 0.5 * x[order[k + 1]]
            found[INFO] = _bits(wl, weight) + _bits(known - wl, weight) + _bits(weight - known, weight)
    if tries > 0:
        found[GAIN], found[VALID] = best - (math.log2(tries) / weight if penalty else 0.0), 1.0


@njit(cache=True, nogil=True)
def weigh_attributes(
    X: Any,
    order: Any,
    codes: Any,
    w: Any,
    categories: Any,
    usable: Any,
    classes: int,
    entropy: bool,
    min_leaf: float,
    least: float,
    penalty: bool,
) -> Any:
    """Gain, split information, threshold and whether it may be used, (d, 4), of every attribute of a node.

    X: (d, n) values. order: (d, n) places of X in increasing order, missing last; read for numbers only. least: the
    weight that either side of a threshold needs; below 0, minus it together with C4.5's own rule.
    """
    found = np.zeros((len(X), 4))
    for f in range(len(X)):
        if not usable[f]:
            continue
        if categories[f] > 0:
            _by_category(X[f], codes, w, categories[f], classes, entropy, min_leaf, found[f])
        else:
            _by_threshold(X[f], order[f], codes, w, classes, entropy, least, penalty, found[f])
    return found
