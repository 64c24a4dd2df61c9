"""The perceptron's passes over the rows, compiled by numba on first import."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def _side(Z: np.ndarray, i: int, w: np.ndarray) -> float:
    total = 0.0
    for j in range(len(w)):
        total += Z[i, j] * w[j]
    return total


@njit(cache=True, nogil=True)
def mistakes(Z: np.ndarray, w: np.ndarray) -> int:
    """Rows on the wrong side of the hyperplane, or on it."""
    count = 0
    for i in range(len(Z)):
        if _side(Z, i, w) <= 0.0:
            count += 1
    return count


@njit(cache=True, nogil=True)
def one_pass(
    Z: np.ndarray,
    order: np.ndarray,
    w: np.ndarray,
    counts: np.ndarray,
    moments: np.ndarray,
    state: np.ndarray,
    pocket: np.ndarray,
    pocket_counts: np.ndarray,
) -> int:
    """Mistakes of one pass over rows z = y (x, 1) in the given order; all else is brought up to date in place.

    counts: (n,) updates made with each row. moments: (n,) sums of the times of those updates. state: rows seen,
    updates, correct answers in a row, the longest such run of the pocket, mistakes of the pocket. pocket,
    pocket_counts: the best weights so far and their counts; weights that answered longer than those are judged on
    all rows before they change (Gallant, 1990, with ratchet).
    """
    wrong = 0
    for place in range(len(order) + 1):
        right = place < len(order) and _side(Z, order[place], w) > 0.0
        if right:
            state[0] += 1
            state[2] += 1
            continue
        if state[2] > state[3] and state[4] > 0:
            errors = mistakes(Z, w)
            if errors < state[4]:
                state[3], state[4] = state[2], errors
                pocket[:] = w
                pocket_counts[:] = counts
        if place < len(order):
            i = order[place]
            for j in range(len(w)):
                w[j] += Z[i, j]
            moments[i] += state[0]
            state[0] += 1
            state[1] += 1
            state[2] = 0
            counts[i] += 1.0
            wrong += 1
    return wrong
