"""Walks down a tree on the CPU, compiled."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

# What only kernels call needs no way in from Python, which shortens its compilation.
_inner = njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)


@_inner
def _next(value: float, node: int, feature: Any, threshold: Any, first: Any, branches: Any, categories: Any) -> int:
    """The node that a value leads to, or -1."""
    if math.isnan(value):
        return -1
    if categories[feature[node]] > 0:
        return branches[first[node] + int(value)]
    return branches[first[node] + (1 if value > threshold[node] else 0)]


@njit(cache=True, nogil=True)
def find_leaves_by_thresholds(X: Any, feature: Any, threshold: Any, pairs: Any, missing: Any, leaves: Any) -> None:
    """Write the leaf of every row of X (n, d) into ``leaves`` where every question has a threshold.

    pairs: (nodes, 2) the nodes below each; a leaf leads to itself. Eight rows walk side by side, so that the processor
    need not wait for one node before it asks for the next row's.
    """
    at = np.zeros(8, np.int32)
    for base in range(0, len(X), 8):
        rows = min(8, len(X) - base)
        at[:] = 0
        moving = True
        while moving:
            moving = False
            for k in range(rows):
                node = at[k]
                value = X[base + k, feature[node]]
                new = missing[node] if value != value else pairs[node, 1 if value > threshold[node] else 0]
                moving |= new != node
                at[k] = new
        for k in range(rows):
            leaves[base + k] = at[k]


@njit(cache=True, nogil=True)
def find_leaves(
    X: Any,
    feature: Any,
    threshold: Any,
    first: Any,
    ways: Any,
    branches: Any,
    missing: Any,
    categories: Any,
    leaves: Any,
) -> None:
    """Write the leaf of every row of X (n, d) into ``leaves`` (n,)."""
    for i in range(len(X)):
        node = 0
        while feature[node] >= 0:
            child = _next(X[i, feature[node]], node, feature, threshold, first, branches, categories)
            node = child if child >= 0 else missing[node]
        leaves[i] = node


@njit(cache=True, nogil=True)
def spread_rows(
    X: Any,
    feature: Any,
    threshold: Any,
    first: Any,
    ways: Any,
    branches: Any,
    missing: Any,
    categories: Any,
    weight: Any,
    value: Any,
    out: Any,
    leaves: Any,
) -> None:
    """Add the values of the leaves of every row to ``out`` (n, m) by shares; ``leaves`` gets that of the largest share.

    A row without the value asked for goes down every branch in proportion to the training weight there.
    """
    stack, shares = [0] * len(feature), [0.0] * len(feature)
    for i in range(len(X)):
        stack[0], shares[0], waiting, largest = 0, 1.0, 1, -1.0
        while waiting > 0:
            waiting -= 1
            node, share = stack[waiting], shares[waiting]
            if feature[node] < 0:
                for j in range(value.shape[1]):
                    out[i, j] += share * value[node, j]
                if share > largest:
                    leaves[i], largest = node, share
                continue
            child = _next(X[i, feature[node]], node, feature, threshold, first, branches, categories)
            if child >= 0:
                stack[waiting], shares[waiting], waiting = child, share, waiting + 1
                continue
            total = 0.0
            for way in range(ways[node]):
                if branches[first[node] + way] >= 0:
                    total += weight[branches[first[node] + way]]
            for way in range(ways[node]):
                child = branches[first[node] + way]
                if child >= 0:
                    stack[waiting], shares[waiting], waiting = child, share * weight[child] / total, waiting + 1
