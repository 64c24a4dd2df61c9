"""Dual coordinate descent for linear machines, compiled."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def _shuffle(order: np.ndarray, size: int, state: np.ndarray) -> None:
    """Shuffle the first ``size`` entries with a generator of our own (xorshift), so that no global one moves."""
    x = state[0]
    for k in range(size - 1, 0, -1):
        x ^= x << np.uint64(13)
        x ^= x >> np.uint64(7)
        x ^= x << np.uint64(17)
        other = np.int64(x % np.uint64(k + 1))
        order[k], order[other] = order[other], order[k]
    state[0] = x


@njit(cache=True, nogil=True)
def _project(slope: float, alpha: float, upper: float) -> float:
    """The part of a slope that a bound does not forbid."""
    if alpha <= 0.0:
        return min(slope, 0.0)
    if alpha >= upper:
        return max(slope, 0.0)
    return slope


@njit(cache=True, nogil=True, fastmath={"reassoc", "nsz", "contract"})  # sums in vector lanes; infinities stay
def coordinate_descent(
    X: np.ndarray,
    y: np.ndarray,
    upper: np.ndarray,
    ridge: np.ndarray,
    alpha: np.ndarray,
    w: np.ndarray,
    tol: float,
    passes: int,
    state: np.ndarray,
) -> tuple[int, float]:
    """Minimize ½‖Σ αyx‖² + ½ Σ ridge α² − Σα over 0 ≤ α ≤ upper, one multiplier at a time.

    Hsieh, Chang, Lin, Keerthi & Sundararajan, 2008, with their shrinking: rows at a bound whose gradient keeps them
    there sit out until the others are done.

    X: (n, d). y: (n,) signs. upper, ridge: (n,). alpha: (n,) and w: (d,) = Σ αyx are the state. state: (1,) seed.
    Returns passes made and the spread of the projected gradient.
    """
    n, d = X.shape
    bend = np.empty(n)
    for i in range(n):
        total = ridge[i]
        for c in range(d):
            total += X[i, c] * X[i, c]
        bend[i] = max(total, 1e-300)
    order = np.arange(n)
    size, above, below, spread = n, np.inf, -np.inf, np.inf
    for done in range(1, passes + 1):
        _shuffle(order, size, state)
        top, bottom = -np.inf, np.inf
        k = 0
        while k < size:
            i = order[k]
            slope = -1.0 + ridge[i] * alpha[i]
            for c in range(d):
                slope += y[i] * w[c] * X[i, c]
            projected = _project(slope, alpha[i], upper[i])
            if projected == 0.0 and (slope > above or slope < below):
                size -= 1
                order[k], order[size] = order[size], order[k]
                continue
            top, bottom = max(top, projected), min(bottom, projected)
            if projected != 0.0:
                old = alpha[i]
                alpha[i] = min(max(old - slope / bend[i], 0.0), upper[i])
                change = (alpha[i] - old) * y[i]
                for c in range(d):
                    w[c] += change * X[i, c]
            k += 1
        spread = max(top - bottom, 0.0) if size > 0 else 0.0
        if spread <= tol:
            if size == n:
                return done, spread
            size, above, below = n, np.inf, -np.inf
            continue
        above = top if top > 0.0 else np.inf
        below = bottom if bottom < 0.0 else -np.inf
    return passes, spread
