"""Coordinate descent on a quadratic with an L1 term, compiled on first use."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np


def _descend(
    H: np.ndarray, q: np.ndarray, w: np.ndarray, l1: np.ndarray, tol: float, max_sweeps: int
) -> int:  # compiled by numba; plain Python runs it too
    """Sweeps made; ``w`` and the gradient ``q`` at it are updated in place."""
    m = len(w)
    active = np.ones(m, dtype=np.bool_)
    everything = True
    for sweep in range(max_sweeps):
        largest = 0.0
        for j in range(m):
            curvature = H[j, j]
            if not active[j] or curvature <= 0.0:
                continue
            before = w[j]
            z = before - q[j] / curvature
            threshold = l1[j] / curvature
            after = 0.0
            if z > threshold:
                after = z - threshold
            elif z < -threshold:
                after = z + threshold
            change = after - before
            active[j] = after != 0.0 or change != 0.0 or l1[j] == 0.0
            if change == 0.0:
                continue
            w[j] = after
            for i in range(m):
                q[i] += change * H[j, i]
            largest = max(largest, change * change * curvature)
        if largest <= tol:
            if everything:
                return sweep + 1
            active[:] = True  # the few that move have settled: ask all again
        everything = largest <= tol
    return max_sweeps


@cache
def _compiled() -> Callable[..., int]:
    import numba

    kernel: Callable[..., int] = numba.njit(cache=True)(_descend)
    return kernel


def descend(
    hessian: np.ndarray, gradient: np.ndarray, start: np.ndarray, l1: np.ndarray, tol: float, max_sweeps: int = 1000
) -> tuple[np.ndarray, int]:
    r"""The minimum of a quadratic plus weighted absolute values, by cyclic coordinate descent.

    .. math:: \min_w \; g^T (w - w_0) + \tfrac12 (w - w_0)^T H (w - w_0) + \sum_j \lambda_j |w_j|

    Friedman, Hastie & Tibshirani, 2010: sweeps over the entries that move until they settle, then over all.

    hessian: (m, m). gradient: (m,) at ``start``. l1: (m,) λ, zero for free entries. tol: twice the most that one
    entry may gain in the last sweep. Returns w and the number of sweeps.

    >>> w, _ = descend(np.eye(2), np.array([-3.0, 0.5]), np.zeros(2), np.ones(2), 1e-12)
    >>> w
    array([2., 0.])
    """
    w, q = np.array(start, dtype=np.float64), np.array(gradient, dtype=np.float64)
    arguments: tuple[Any, ...] = (np.ascontiguousarray(hessian), q, w, np.asarray(l1, dtype=np.float64))
    sweeps = _compiled()(*arguments, float(tol), int(max_sweeps))
    return w, int(sweeps)
