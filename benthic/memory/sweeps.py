"""One unit after another, compiled: the asynchronous dynamics of a Hopfield network."""

from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True)
def sweep(states, fields, W, order, still, active):
    """Visit every unit of every active row once, in the given order, and flip those that disagree with their field.

    states: (n, d) of 1 and -1. fields: (n, d) of W x - bias, kept up to date. still: a field no larger leaves a unit
    as it is. active: (n,) rows that move; those without a flip are cleared. Returns the number of flips.
    """
    flips = 0
    for r in range(len(states)):
        if not active[r]:
            continue
        before = flips
        for i in order:
            field = fields[r, i]
            if abs(field) <= still or (field > 0) == (states[r, i] > 0):
                continue
            states[r, i] = -states[r, i]
            change = 2.0 * states[r, i]
            for j in range(W.shape[1]):
                fields[r, j] += change * W[i, j]
            flips += 1
        active[r] = flips > before
    return flips
