"""Sequential minimal optimization, compiled: the steps of the kernel dual on the rows that are active.

The dual of every machine here has one form. With signed multipliers β and a kernel matrix K it is

    minimize  ½ βᵀKβ − zᵀβ + ε‖β‖₁   subject to  Σβ = 0,  lo ≤ β ≤ hi,

where classification has z = y, ε = 0 and β = αy (boxes [0, C] and [−C, 0]), and regression has z = y and boxes
[−C, C]. With g = z − Kβ the slope in the direction of growing β is g + up, and of falling β it is g + down, where the
offsets hold ∓ε, or −∞ and +∞ at a bound. At the optimum no slope up exceeds a slope down.
"""

from __future__ import annotations

import numpy as np
from numba import njit

DONE, NEED_ROW, PAUSE, STUCK = 0, 1, 2, 3
ASK, LINEAR, EXPONENTIAL = 0, 1, 2  # rows come from the caller, or are computed here from the sides of the product
LANES = 512  # a search keeps the best of every lane, which vector instructions can do, and then looks at one lane
# no-infinities is left out: the offsets hold infinities
_FAST = {"reassoc", "nsz", "nnan", "contract", "arcp"}
_LOG2E = np.float32(1.4426950408889634)
# 2^f = Σ c_k f^k on [-1/2, 1/2], relative error below 2e-8
_C1, _C2, _C3 = np.float32(0.69314718), np.float32(0.24022651), np.float32(0.05550411)
_C4, _C5, _C6 = np.float32(0.009618129), np.float32(0.0013333558), np.float32(0.00015403530)


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def _pick_up(g: np.ndarray, up: np.ndarray, best: np.ndarray) -> int:
    """Where the slope up is largest, from the best of every lane."""
    lane = 0
    for k in range(LANES):
        if best[k] > best[lane]:
            lane = k
    t, found = lane, lane
    while t < len(g):
        if g[t] + up[t] > g[found] + up[found]:
            found = t
        t += LANES
    return found


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def _steepest(g: np.ndarray, up: np.ndarray, best: np.ndarray) -> int:
    """Where the slope up is largest."""
    best[:] = -np.inf
    for start in range(0, len(g), LANES):
        here, lift = g[start : start + LANES], up[start : start + LANES]
        for k in range(len(here)):
            best[k] = max(best[k], here[k] + lift[k])
    return _pick_up(g, up, best)


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def _partner(
    g: np.ndarray,
    down: np.ndarray,
    diagonal: np.ndarray,
    row: np.ndarray,
    slope: float,
    own: float,
    tau: float,
    best: np.ndarray,
    least: np.ndarray,
) -> tuple[int, float]:
    """The partner that gains most by second-order information, or -1, and the least slope down of all."""
    best[:] = 0.0
    least[:] = np.inf
    for start in range(0, len(g), LANES):
        here, drop = g[start : start + LANES], down[start : start + LANES]
        theirs, shared = diagonal[start : start + LANES], row[start : start + LANES]
        for k in range(len(here)):
            fall = here[k] + drop[k]
            least[k] = min(least[k], fall)
            gap = max(slope - fall, 0.0)
            best[k] = max(best[k], gap * gap / max(own + theirs[k] - 2.0 * shared[k], tau))
    lane, low = 0, np.inf
    for k in range(LANES):
        if best[k] > best[lane]:
            lane = k
        low = least[k] if least[k] < low else low
    found, top = -1, 0.0
    t = lane
    while t < len(g):
        gap = slope - (g[t] + down[t])
        gain = gap * gap / max(own + diagonal[t] - 2.0 * row[t], tau)
        if gap > 0.0 and gain > top:
            top, found = gain, t
        t += LANES
    return found, low


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def _move(g: np.ndarray, up: np.ndarray, first: np.ndarray, second: np.ndarray, step: float, best: np.ndarray) -> int:
    """Change g by a step of two multipliers and return where the slope up is now largest."""
    best[:] = -np.inf
    for start in range(0, len(g), LANES):
        here, lift = g[start : start + LANES], up[start : start + LANES]
        one, two = first[start : start + LANES], second[start : start + LANES]
        for k in range(len(here)):
            value = here[k] - step * (one[k] - two[k])
            here[k] = value
            best[k] = max(best[k], value + lift[k])
    return _pick_up(g, up, best)


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def _row(i: int, kind: int, left: np.ndarray, right: np.ndarray, out: np.ndarray, whole: np.ndarray) -> None:
    """One row of the matrix: a product with every column, and its exponential where the kernel has one.

    left: (m, k). right: (k, m); k is a multiple of four. whole: (LANES,) integers to work with.
    """
    powers = whole.view(np.float32)
    for start in range(0, right.shape[1], LANES):
        size = min(LANES, right.shape[1] - start)
        part = out[start : start + size]
        part[:] = np.float32(0.0)
        for c in range(0, left.shape[1], 4):
            a0, a1, a2, a3 = left[i, c], left[i, c + 1], left[i, c + 2], left[i, c + 3]
            r0, r1 = right[c, start : start + size], right[c + 1, start : start + size]
            r2, r3 = right[c + 2, start : start + size], right[c + 3, start : start + size]
            for k in range(size):
                part[k] += (a0 * r0[k] + a1 * r1[k]) + (a2 * r2[k] + a3 * r3[k])
        if kind == EXPONENTIAL:
            for k in range(size):
                t = max(part[k] * _LOG2E, np.float32(-126.0))
                n = np.int32(t - np.float32(0.5))  # rounds towards zero, so to the nearest for negative numbers
                f = t - np.float32(n)
                p = _C3 + f * (_C4 + f * (_C5 + f * _C6))
                part[k] = np.float32(1.0) + f * (_C1 + f * (_C2 + f * p))
                whole[k] = (n + np.int32(127)) << np.int32(23)
            for k in range(size):
                part[k] *= powers[k]


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def weighted_rows(kind: int, left: np.ndarray, right: np.ndarray, values: np.ndarray, total: np.ndarray) -> None:
    """Add rows of the matrix between left and right, each times its value, to ``total``.

    left: (q, k). right: (k, m). values: (q,). total: (m,) in double precision.
    """
    row, whole = np.empty(len(total), np.float32), np.empty(LANES, np.int32)
    for i in range(len(values)):
        _row(i, kind, left, right, row, whole)
        value = values[i]
        for t in range(len(total)):
            total[t] += value * row[t]


@njit(cache=True, nogil=True)
def _set_offsets(
    t: int, beta: np.ndarray, lo: np.ndarray, hi: np.ndarray, epsilon: float, up: np.ndarray, down: np.ndarray
) -> None:
    up[t] = -np.inf if beta[t] >= hi[t] else (-epsilon if beta[t] >= 0.0 else epsilon)
    down[t] = np.inf if beta[t] <= lo[t] else (-epsilon if beta[t] > 0.0 else epsilon)


@njit(cache=True, nogil=True)
def offsets(beta: np.ndarray, lo: np.ndarray, hi: np.ndarray, epsilon: float, up: np.ndarray, down: np.ndarray) -> None:
    """Fill the offsets of both slopes from the multipliers."""
    for t in range(len(beta)):
        _set_offsets(t, beta, lo, hi, epsilon, up, down)


@njit(cache=True, nogil=True)
def _free_slot(owners: np.ndarray, slots: np.ndarray, stamps: np.ndarray, counts: np.ndarray, held: int) -> int:
    """An empty slot, or the one unused for longest, which is then emptied; never ``held``."""
    if counts[4] < len(owners):
        counts[4] += 1
        return counts[4] - 1
    oldest = 1 if held == 0 else 0
    for slot in range(len(owners)):
        if stamps[slot] < stamps[oldest] and slot != held:
            oldest = slot
    slots[owners[oldest]] = -1
    return oldest


@njit(cache=True, nogil=True)
def _slot_of(
    i: int,
    held: int,
    kind: int,
    left: np.ndarray,
    right: np.ndarray,
    cache: np.ndarray,
    owners: np.ndarray,
    slots: np.ndarray,
    stamps: np.ndarray,
    counts: np.ndarray,
    whole: np.ndarray,
) -> int:
    """The slot that holds row i, computed now if it must be, or -1 where only the caller can compute it."""
    slot = slots[i]
    if slot < 0:
        counts[2] = i
        if kind == ASK:
            return -1
        slot = _free_slot(owners, slots, stamps, counts, held)
        _row(i, kind, left, right, cache[slot], whole)
        owners[slot], slots[i] = i, slot
    stamps[slot] = counts[3]
    return slot


@njit(cache=True, nogil=True)
def smo(
    g: np.ndarray,
    up: np.ndarray,
    down: np.ndarray,
    beta: np.ndarray,
    lo: np.ndarray,
    hi: np.ndarray,
    diagonal: np.ndarray,
    kind: int,
    left: np.ndarray,
    right: np.ndarray,
    cache: np.ndarray,
    owners: np.ndarray,
    slots: np.ndarray,
    stamps: np.ndarray,
    numbers: np.ndarray,
    counts: np.ndarray,
    epsilon: float,
    tol: float,
) -> int:
    """Run steps of two multipliers until optimal, until a row is missing, or for as many steps as were allowed.

    Working sets by second-order information (Fan, Chen & Lin, 2005, WSS 2).

    kind, left, right: how rows are computed (see ``_row``). cache: (slots, m) kernel rows. owners: (slots,) the row
    in each slot or -1. slots: (m,) the slot of each row or -1. stamps: (slots,) time of last use. numbers:
    [violation, least curvature seen]. counts: [steps made, steps allowed, row wanted, clock, slots filled].
    Returns DONE, NEED_ROW or PAUSE; all arrays hold the state, so a later call goes on.
    """
    tau = 1e-12
    best, least, whole = np.empty(LANES), np.empty(LANES), np.empty(LANES, np.int32)
    i = _steepest(g, up, best)
    while True:
        counts[3] += 1
        one = _slot_of(i, -1, kind, left, right, cache, owners, slots, stamps, counts, whole)
        if one < 0:
            return NEED_ROW
        first = cache[one]
        slope = g[i] + up[i]
        j, low = _partner(g, down, diagonal, first, slope, diagonal[i], tau, best, least)
        numbers[0] = slope - low
        if j < 0 or slope - low <= tol:
            return DONE
        if counts[0] >= counts[1]:
            return PAUSE
        two = _slot_of(j, one, kind, left, right, cache, owners, slots, stamps, counts, whole)
        if two < 0:
            return NEED_ROW
        bend = diagonal[i] + diagonal[j] - 2.0 * first[j]
        numbers[1] = min(numbers[1], bend)
        step = (slope - (g[j] + down[j])) / max(bend, tau)
        # a multiplier stops at its bound and at zero, where the slope of the absolute value turns
        end_i = 0.0 if beta[i] < 0.0 else hi[i]
        end_j = 0.0 if beta[j] > 0.0 else lo[j]
        room_i, room_j = end_i - beta[i], beta[j] - end_j
        step = min(step, room_i, room_j)
        beta[i] = end_i if step == room_i else beta[i] + step
        beta[j] = end_j if step == room_j else beta[j] - step
        _set_offsets(i, beta, lo, hi, epsilon, up, down)
        _set_offsets(j, beta, lo, hi, epsilon, up, down)
        counts[0] += 1
        i = _move(g, up, first, cache[two], step, best)


@njit(cache=True, nogil=True)
def compact(buffer: np.ndarray, width: int, owners: np.ndarray, keep: np.ndarray, place: np.ndarray) -> int:
    """Keep the columns ``keep`` of the cached rows whose owners stay, packed from the front of the buffer.

    owners: (slots,) the row held by each slot or -1; it is rewritten in the new numbering. keep: ascending old
    numbers. place: (old m,) the new number of a row or -1. Returns how many slots are filled.
    """
    filled, short = 0, len(keep)
    for slot in range(len(owners)):
        if owners[slot] < 0 or place[owners[slot]] < 0:
            continue
        source, target = slot * width, filled * short
        for k in range(short):  # never overtakes what is still to be read
            buffer[target + k] = buffer[source + keep[k]]
        owners[filled] = place[owners[slot]]
        filled += 1
    for slot in range(filled, len(owners)):
        owners[slot] = -1
    return filled
