"""Compiled loops over the states of a field: Gibbs sweeps and sums along edges."""

from __future__ import annotations

import math

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def sweep(
    states: np.ndarray,
    unary: np.ndarray,
    starts: np.ndarray,
    beside: np.ndarray,
    tables: np.ndarray,
    beta: float,
    uniform: np.ndarray,
    free: np.ndarray,
) -> None:
    """Draw every variable of every row anew given the others, in place.

    states: (n, d). unary: (1 or n, d, k). Edges into variable i are ``starts[i]`` to ``starts[i + 1]``: their other
    ends ``beside``, and tables (2m, k there, k here), times beta. uniform: (n, d). free: (1 or n, d), what moves.
    """
    n, d = states.shape
    k = unary.shape[2]
    weight = np.empty(k)
    for row in range(n):
        own = row if unary.shape[0] > 1 else 0
        loose = row if free.shape[0] > 1 else 0
        for i in range(d):
            if not free[loose, i]:
                continue
            for s in range(k):
                weight[s] = unary[own, i, s]
            for e in range(starts[i], starts[i + 1]):
                there = states[row, beside[e]]
                for s in range(k):
                    weight[s] += beta * tables[e, there, s]
            top = weight[0]
            for s in range(1, k):
                top = max(top, weight[s])
            total = 0.0
            for s in range(k):
                total += math.exp(weight[s] - top)
                weight[s] = total
            level, drawn = uniform[row, i] * total, 0
            while drawn < k - 1 and weight[drawn] <= level:
                drawn += 1
            states[row, i] = drawn


@njit(cache=True, nogil=True)
def edge_sums(states: np.ndarray, first: np.ndarray, second: np.ndarray, tables: np.ndarray) -> np.ndarray:
    """(n,) the sum of the tables (m, k, k) of all edges at states (n, d)."""
    out = np.zeros(len(states))
    for row in range(len(states)):
        total = 0.0
        for e in range(len(first)):
            total += tables[e, states[row, first[e]], states[row, second[e]]]
        out[row] = total
    return out
