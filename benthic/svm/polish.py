"""The last digits: with the free rows known, the optimum solves a linear system."""

from __future__ import annotations

import numpy as np

from benthic.svm.gram import Gram
from benthic.svm.smo import offsets

_FREE = 300  # most free rows
_ENTRIES = 3_000_000  # most entries of the matrix between all rows and the free ones
_ROUNDS = 30  # rows that may meet a bound on the way


def polish(
    gram: Gram, z: np.ndarray, lo: np.ndarray, hi: np.ndarray, epsilon: float, beta: np.ndarray, g: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    r"""Solve for the multipliers strictly between their bounds, the others held.

    .. math:: K_{FF} \delta + b = g_F \mp \epsilon, \qquad \mathbf 1^T \delta = 0

    A multiplier that meets a bound on the way stays there and the rest is solved again. Returns new multipliers and
    slopes where the violation of the optimality conditions became smaller, else None.
    """
    up, down = np.empty_like(g), np.empty_like(g)
    offsets(beta, lo, hi, epsilon, up, down)
    free = np.flatnonzero((beta != 0) & np.isfinite(up) & np.isfinite(down))
    if not 1 <= len(free) <= _FREE or len(free) * len(g) > _ENTRIES:
        return None
    before = violation(g, up, down)
    columns = gram.block(np.arange(len(g)), free)  # (n, free)
    beta, g = beta.copy(), g.copy()
    for _ in range(_ROUNDS):
        delta = _newton(columns[free], g[free] - epsilon * np.sign(beta[free]), float(beta.sum()))
        share = _share(beta[free], delta, lo[free], hi[free])
        step = delta * share.min(initial=1.0)
        beta[free] = _snap(beta[free] + step, share, lo[free], hi[free], delta)
        g -= columns @ step
        stay = share > share.min(initial=1.0) if share.min(initial=1.0) < 1 else np.ones(len(free), dtype=bool)
        if stay.all() or not stay.any():
            break
        free, columns = free[stay], columns[:, stay]
    offsets(beta, lo, hi, epsilon, up, down)
    return (beta, g) if violation(g, up, down) < before else None


def violation(g: np.ndarray, up: np.ndarray, down: np.ndarray) -> float:
    """By how much the largest slope up exceeds the least slope down; zero or less at the optimum."""
    return float((g + up).max() - (g + down).min())


def _newton(K: np.ndarray, slopes: np.ndarray, excess: float) -> np.ndarray:
    """The change of the free multipliers that makes their slopes equal and their sum zero."""
    from scipy.linalg import lstsq

    m = len(K)
    system = np.zeros((m + 1, m + 1))
    system[:m, :m] = K
    scale = max(float(np.abs(np.diag(K)).mean()), 1e-300)
    system[m, :m] = system[:m, m] = scale
    right = np.append(slopes, -excess * scale)
    return np.asarray(lstsq(system, right, cond=1e-12, lapack_driver="gelsy")[0])[:m]


def _share(beta: np.ndarray, delta: np.ndarray, lo: np.ndarray, hi: np.ndarray) -> np.ndarray:
    """What share of the step each multiplier can go before it meets its bound, or zero."""
    top, bottom = np.where(beta < 0, 0.0, hi), np.where(beta > 0, 0.0, lo)
    room = np.where(delta > 0, top - beta, bottom - beta)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(delta != 0, room / delta, np.inf)
    return np.maximum(share, 0.0)


def _snap(moved: np.ndarray, share: np.ndarray, lo: np.ndarray, hi: np.ndarray, delta: np.ndarray) -> np.ndarray:
    """Put a multiplier that met its bound exactly there."""
    least = share.min(initial=1.0)
    met = (share <= least) & (share < 1)
    ends = np.where(delta > 0, np.where(moved > hi / 2, hi, 0.0), np.where(moved < lo / 2, lo, 0.0))
    return np.where(met, ends, moved)
