"""The widest margin by which a hyperplane separates two classes, with a certificate either way."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_CLOSE = 1e-9  # relative distance of the two bounds at which the margin counts as found
_ADDED = 64  # most rows that a round adds
_ROUNDS = 500


class Separation(NamedTuple):
    """Bounds of the widest margin, and who attains them.

    direction: (d,) of length one; every row has z·direction >= margin. margin: largest margin found, negative if
    none separates. upper: distance of the convex hull of the rows from the origin, which no margin exceeds.
    weights: (n,) >= 0, sum one: the convex combination nearest the origin.
    """

    direction: np.ndarray
    margin: float
    upper: float
    weights: np.ndarray

    @property
    def separable(self) -> bool:
        """Whether a hyperplane was found; the rows themselves prove it."""
        return self.margin > 0


def widest_margin(Z: np.ndarray) -> Separation:
    r"""The widest margin through the origin over rows z = y x.

    .. math:: \gamma = \max_{\|w\| = 1} \min_i z_i^T w = \min_{\lambda \ge 0, \sum \lambda = 1} \|Z^T \lambda\|

    The right side, a point of a convex hull nearest the origin, is found by nonnegative least squares (Lawson &
    Hanson, 1974) over few rows, to which those that violate the margin most are added until none does. If classes
    cannot be separated, ``upper`` is zero but for rounding: the origin is a convex combination of the rows.

    Z: (n, d).

    >>> found = widest_margin(np.array([[1.0, 1.0], [1.0, -1.0], [3.0, 0.0]]))
    >>> round(found.margin, 6), found.direction.round(6).tolist()
    (1.0, [1.0, 0.0])
    """
    scale = float(np.linalg.norm(Z, axis=1).max()) or 1.0
    rows = Z / scale
    chosen = np.argsort(rows @ rows.mean(0))[: min(2 * Z.shape[1] + 2, len(Z))]
    best = Separation(np.zeros(Z.shape[1]), -np.inf, np.inf, np.zeros(len(Z)))
    for _ in range(_ROUNDS):
        point, inner = _nearest(rows[chosen])
        length = float(np.linalg.norm(point))
        weights = np.zeros(len(Z))
        weights[chosen] = inner
        if length <= _CLOSE:
            return best._replace(
                margin=min(best.margin, 0.0) if best.margin <= 0 else best.margin, upper=length * scale
            )
        margins = rows @ (point / length)
        lowest = float(margins.min())
        if lowest > best.margin / scale or not np.isfinite(best.margin):
            best = Separation(point / length, lowest * scale, length * scale, weights)
        if lowest >= length * (1 - _CLOSE):
            break
        new = np.setdiff1d(np.argsort(margins)[:_ADDED][np.sort(margins)[:_ADDED] < length * (1 - _CLOSE)], chosen)
        if not len(new):
            break
        chosen = np.concatenate([chosen[inner > 0], new])
    return best


def _nearest(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The point of the convex hull of rows (m, d) nearest the origin, and its weights (m,)."""
    from scipy.optimize import nnls

    stacked = np.vstack([rows.T, np.ones(len(rows))])
    right = np.zeros(len(stacked))
    right[-1] = 1.0
    weights, _ = nnls(stacked, right, maxiter=30 * max(stacked.shape))
    weights = weights / weights.sum()
    return weights @ rows, weights
