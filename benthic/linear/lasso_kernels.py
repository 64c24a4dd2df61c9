"""Coordinate descent for the lasso and the elastic net, compiled by numba on first import.

Both kernels minimize, for given λ₁ (``l1``) and λ₂ (``l2``), one strength of the penalty from a warm start,

.. math:: \\tfrac12 \\|y - Xw\\|^2 + \\lambda_1 \\|w\\|_1 + \\tfrac{\\lambda_2}{2} \\|w\\|^2,

over a working set of coordinates that the strong rule proposes (Tibshirani et al., 2012) and that the optimality
conditions of all coordinates complete, until the duality gap of the whole problem is below ``tol``. Every six sweeps
the last iterates are extrapolated (Bertrand & Massias, 2021), which is kept where it lowers the objective.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_MEMORY = 5  # iterates that an extrapolation combines
_PART = 0.3  # of the gap asked for that the working set alone is solved to
_SETTLED = 1e-26  # of the square of y: what one coordinate gains when rounding is all that is left


@njit(cache=True, nogil=True)
def _gap(
    w: np.ndarray, slope: np.ndarray, square: float, product: float, l1: float, l2: float, positive: bool
) -> float:
    """Duality gap. slope: Xᵀr at w. square: rᵀr. product: rᵀy."""
    norm, absolute, squared = 0.0, 0.0, 0.0
    for j in range(len(w)):
        steep = slope[j] - l2 * w[j]
        if not positive:
            steep = abs(steep)
        norm = max(norm, steep)
        absolute += abs(w[j])
        squared += w[j] * w[j]
    share = l1 / norm if norm > l1 else 1.0
    return 0.5 * square * (1.0 + share * share) + l1 * absolute - share * product + 0.5 * l2 * (1 + share**2) * squared


@njit(cache=True, nogil=True)
def _shrink(z: float, l1: float, curvature: float, positive: bool) -> float:
    """The minimum along one coordinate."""
    if z > l1:
        return (z - l1) / curvature
    if z < -l1 and not positive:
        return (z + l1) / curvature
    return 0.0


@njit(cache=True, nogil=True)
def _mix(past: np.ndarray) -> np.ndarray:
    """Weights that combine the iterates (m + 1, k) into their limit (Anderson, 1965); they sum to one."""
    count = len(past) - 1
    inner = np.empty((count, count))
    for a in range(count):
        for b in range(a + 1):
            total = 0.0
            for j in range(past.shape[1]):
                total += (past[a + 1, j] - past[a, j]) * (past[b + 1, j] - past[b, j])
            inner[a, b] = inner[b, a] = total
    trace = 0.0
    for a in range(count):
        trace += inner[a, a]
    if not trace > 0.0:
        return np.zeros(0)
    for a in range(count):
        inner[a, a] += 1e-14 * trace
    z = np.linalg.solve(inner, np.ones(count))
    total = z.sum()
    return z / total if abs(total) > 0.0 and np.isfinite(total) else np.zeros(0)


@njit(cache=True, nogil=True)
def _propose(
    w: np.ndarray, slope: np.ndarray, squares: np.ndarray, l2: float, least: float, positive: bool
) -> np.ndarray:
    """Coordinates that are not zero or whose slope is at least ``least``."""
    chosen = np.empty(len(w), dtype=np.int64)
    count = 0
    for j in range(len(w)):
        steep = slope[j] - l2 * w[j]
        if squares[j] > 0.0 and (w[j] != 0.0 or steep >= least or (steep <= -least and not positive)):
            chosen[count] = j
            count += 1
    return chosen[:count].copy()


@njit(cache=True, nogil=True)
def _within(some: np.ndarray, chosen: np.ndarray) -> bool:
    """Whether all of one ascending list are in another."""
    place = 0
    for j in some:
        while place < len(chosen) and chosen[place] < j:
            place += 1
        if place == len(chosen) or chosen[place] != j:
            return False
    return True


@njit(cache=True, nogil=True)
def _worth(w: np.ndarray, square: float, l1: float, l2: float) -> float:
    """The objective. square: rᵀr."""
    absolute, squared = 0.0, 0.0
    for j in range(len(w)):
        absolute += abs(w[j])
        squared += w[j] * w[j]
    return 0.5 * square + l1 * absolute + 0.5 * l2 * squared


@njit(cache=True, nogil=True)
def _combine(mix: np.ndarray, past: np.ndarray) -> np.ndarray:
    out = np.zeros(past.shape[1])
    for a in range(len(mix)):
        for j in range(past.shape[1]):
            out[j] += mix[a] * past[a + 1, j]
    return out


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _dot(a: np.ndarray, b: np.ndarray) -> float:
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@njit(cache=True, nogil=True)
def _extrapolate_rows(
    X: np.ndarray, w: np.ndarray, r: np.ndarray, chosen: np.ndarray, past: np.ndarray, l1: float, l2: float
) -> None:
    """Put the limit of past iterates in place of the last one, if it is better."""
    mix = _mix(past)
    if len(mix) == 0:
        return
    n = len(r)
    found = _combine(mix, past)
    for k in range(len(chosen)):  # a sign that changed is not to be trusted
        if found[k] * w[chosen[k]] <= 0.0:
            found[k] = w[chosen[k]]
    residual = r.copy()
    for k in range(len(chosen)):
        change = found[k] - w[chosen[k]]
        if change != 0.0:
            x = X[chosen[k]]
            for i in range(n):
                residual[i] -= change * x[i]
    if _worth(found, _dot(residual, residual), l1, l2) < _worth(w[chosen], _dot(r, r), l1, l2):
        r[:] = residual
        for k in range(len(chosen)):
            w[chosen[k]] = found[k]


@njit(cache=True, nogil=True)
def _sweep_rows(
    X: np.ndarray,
    squares: np.ndarray,
    w: np.ndarray,
    r: np.ndarray,
    slope: np.ndarray,
    chosen: np.ndarray,
    l1: float,
    l2: float,
    positive: bool,
) -> float:
    """One round over the chosen coordinates; the most that one of them gained, twice over."""
    largest = 0.0
    for j in chosen:
        x = X[j]
        before = w[j]
        slope[j] = _dot(x, r)
        after = _shrink(slope[j] + before * squares[j], l1, squares[j] + l2, positive)
        change = after - before
        if change != 0.0:
            w[j] = after
            for i in range(len(r)):
                r[i] -= change * x[i]
            slope[j] -= change * squares[j]
            largest = max(largest, change * change * (squares[j] + l2))
    return largest


@njit(cache=True, nogil=True)
def _inside_rows(
    X: np.ndarray,
    y: np.ndarray,
    squares: np.ndarray,
    w: np.ndarray,
    r: np.ndarray,
    slope: np.ndarray,
    chosen: np.ndarray,
    l1: float,
    l2: float,
    positive: bool,
    tol: float,
    floor: float,
    sweeps: int,
) -> int:
    """Sweeps made over the working set until its own duality gap is below ``tol``."""
    past = np.empty((_MEMORY + 1, len(chosen)))
    held = 0
    for sweep in range(sweeps):
        largest = _sweep_rows(X, squares, w, r, slope, chosen, l1, l2, positive)
        past[held] = w[chosen]
        held += 1
        if held > _MEMORY:
            _extrapolate_rows(X, w, r, chosen, past, l1, l2)
            held = 0
        if largest <= floor:
            return sweep + 1
        if largest * len(chosen) <= tol or sweep % 10 == 9:
            for j in chosen:
                slope[j] = _dot(X[j], r)
            if _gap(w[chosen], slope[chosen], _dot(r, r), _dot(r, y), l1, l2, positive) <= tol:
                return sweep + 1
    return sweeps


@njit(cache=True, nogil=True)
def by_rows(
    X: np.ndarray,
    y: np.ndarray,
    squares: np.ndarray,
    w: np.ndarray,
    r: np.ndarray,
    slope: np.ndarray,
    l1: float,
    l2: float,
    before: float,
    positive: bool,
    tol: float,
    max_sweeps: int,
) -> tuple[float, int]:
    """Duality gap and sweeps; w, the residual r = y - Xw and slope = Xᵀr are brought up to date in place.

    X: (d, n), a feature a row. squares: (d,) their squared lengths. before: λ₁ of the warm start.
    """
    floor = _SETTLED * _dot(y, y)
    least = max(2.0 * l1 - before, 0.5 * l1)
    made = 0
    gap = _gap(w, slope, _dot(r, r), _dot(r, y), l1, l2, positive)
    while gap > tol and made < max_sweeps:
        chosen = _propose(w, slope, squares, l2, least, positive)
        if len(chosen) == 0:
            break
        sweeps = _inside_rows(
            X, y, squares, w, r, slope, chosen, l1, l2, positive, _PART * tol, floor, max_sweeps - made
        )
        made += sweeps
        np.dot(X, r, slope)
        gap = _gap(w, slope, _dot(r, r), _dot(r, y), l1, l2, positive)
        least = l1
        if sweeps == 1 and _within(_propose(w, slope, squares, l2, l1 * (1 + 1e-12), positive), chosen):
            break  # solved to rounding
    return gap, made


@njit(cache=True, nogil=True)
def _square(w: np.ndarray, slope: np.ndarray, products: np.ndarray, total: float) -> tuple[float, float]:
    """rᵀr and rᵀy from yᵀy, Xᵀy and the slopes Xᵀr."""
    answer, both = total, 0.0
    for j in range(len(w)):
        answer -= w[j] * products[j]
        both += w[j] * slope[j]
    return max(answer - both, 0.0), answer


@njit(cache=True, nogil=True)
def _extrapolate_gram(
    G: np.ndarray,
    products: np.ndarray,
    total: float,
    w: np.ndarray,
    slope: np.ndarray,
    chosen: np.ndarray,
    past: np.ndarray,
    l1: float,
    l2: float,
) -> None:
    mix = _mix(past)
    if len(mix) == 0:
        return
    found = _combine(mix, past)
    moved, steep = w.copy(), slope.copy()
    for k in range(len(chosen)):
        j = chosen[k]
        if found[k] * w[j] > 0.0:
            change = found[k] - w[j]
            moved[j] = found[k]
            for i in range(len(w)):
                steep[i] -= change * G[j, i]
    better = _worth(moved, _square(moved, steep, products, total)[0], l1, l2)
    if better < _worth(w, _square(w, slope, products, total)[0], l1, l2):
        w[:] = moved
        slope[:] = steep


@njit(cache=True, nogil=True)
def _sweep_gram(
    G: np.ndarray, w: np.ndarray, slope: np.ndarray, chosen: np.ndarray, l1: float, l2: float, positive: bool
) -> float:
    largest = 0.0
    for j in chosen:
        before, curvature = w[j], G[j, j]
        after = _shrink(slope[j] + before * curvature, l1, curvature + l2, positive)
        change = after - before
        if change != 0.0:
            w[j] = after
            g = G[j]
            for i in range(len(w)):
                slope[i] -= change * g[i]
            largest = max(largest, change * change * (curvature + l2))
    return largest


@njit(cache=True, nogil=True)
def by_gram(
    G: np.ndarray,
    products: np.ndarray,
    total: float,
    w: np.ndarray,
    slope: np.ndarray,
    l1: float,
    l2: float,
    positive: bool,
    tol: float,
    max_sweeps: int,
) -> tuple[float, int]:
    """Duality gap and sweeps; w and slope = Xᵀy - Gw are brought up to date in place.

    G: (d, d) XᵀX. products: (d,) Xᵀy. total: yᵀy.
    """
    floor = _SETTLED * total
    squares = np.diag(G).copy()
    past = np.empty((_MEMORY + 1, 0))
    chosen = np.empty(0, dtype=np.int64)
    held = made = 0
    gap = _gap(w, slope, *_square(w, slope, products, total), l1, l2, positive)
    while gap > tol and made < max_sweeps:
        if held == 0:
            chosen = _propose(w, slope, squares, l2, l1, positive)
            past = np.empty((_MEMORY + 1, len(chosen)))
        largest = _sweep_gram(G, w, slope, chosen, l1, l2, positive)
        made += 1
        past[held] = w[chosen]
        held += 1
        if held > _MEMORY:
            _extrapolate_gram(G, products, total, w, slope, chosen, past, l1, l2)
            held = 0
        if held == 0 or largest * len(chosen) <= tol:
            gap = _gap(w, slope, *_square(w, slope, products, total), l1, l2, positive)
        if largest <= floor:  # the working set is solved to rounding
            if _within(_propose(w, slope, squares, l2, l1 * (1 + 1e-12), positive), chosen):
                break
            held = 0
    return _gap(w, slope, *_square(w, slope, products, total), l1, l2, positive), made
