r"""The no-U-turn tree of every chain, one leaf further: the branchy part of NUTS, compiled for CPUs.

A trajectory is a binary tree of leapfrog points, doubled forward or backward at random. A chain keeps its two
ends, its proposal, and, for the half being built, one checkpoint for each level of that half, so memory is
logarithmic in the length. Positions are whitened, so that the mass is one.

Betancourt, 2017 (multinomial weights, generalized criterion); the checkpoints are those of Phan, Pradhan and
Jankowiak, 2019. Every chain has its own tree; a chain whose tree is complete stores a draw and plants the next
tree at once, so no chain waits for another.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

# Rows of ``vec`` (rows, chains, d): the moving leaf, both ends, the proposals of the tree and of its new half,
# and the sums of momenta of both.
Z, P, G, ZL, PL, GL, ZR, PR, GR, ZT, GT, ZH, GH, RHO_T, RHO_H = range(15)
# Rows of ``num`` (rows, chains): step size, energy at the root, log weights, log densities and energies of both
# proposals, sum of acceptance probabilities.
STEP, ROOT, LW_T, LW_H, LP_T, LP_H, EN_T, EN_H, ACCEPT = range(9)
# Rows of ``cnt`` (rows, chains): depth, leaf in the new half, direction, leapfrogs so far, transitions done,
# normals used.
DEPTH, LEAF, WAY, STEPS, DONE, USED = range(6)
# Rows of the report (rows, chains, draws).
R_ACCEPT, R_ENERGY, R_STEPS, R_DEPTH, R_DIVERGENT, R_DENSITY = range(6)
VECTORS, NUMBERS, COUNTS, REPORTS = 15, 9, 6, 6


@njit(cache=True, fastmath=False)
def _turning(first: Any, last: Any, rho: Any, minus: Any, plus: Any) -> bool:
    """Whether the momentum at either end points against the sum of momenta; half of both ends is left out of it.

    The sum is rho - minus + plus.
    """
    at_first, at_last = 0.0, 0.0
    for i in range(first.shape[0]):
        total = rho[i] - minus[i] + plus[i] - 0.5 * (first[i] + last[i])
        at_first += first[i] * total
        at_last += last[i] * total
    return at_first <= 0 or at_last <= 0


@njit(cache=True)
def _log_add(a: float, b: float) -> float:
    """log(e^a + e^b)."""
    top = max(a, b)
    if top == -np.inf:
        return top
    return top + math.log1p(math.exp(-abs(a - b)))


@njit(cache=True)
def _plant(c: int, vec: Any, num: Any, cnt: Any, normals: Any, step: float, way: float) -> None:
    """A new tree at the proposal of the last, with a fresh momentum, about to go one way."""
    kinetic = 0.0
    for i in range(vec.shape[2]):
        p = normals[cnt[USED, c], c, i]
        kinetic += 0.5 * p * p
        vec[PL, c, i] = vec[PR, c, i] = vec[RHO_T, c, i] = p
        vec[ZL, c, i] = vec[ZR, c, i] = vec[ZT, c, i]
        vec[GL, c, i] = vec[GR, c, i] = vec[GT, c, i]
    cnt[USED, c] += 1
    num[STEP, c] = step
    num[ROOT, c] = num[EN_T, c] = kinetic - num[LP_T, c]
    num[LW_T, c] = num[ACCEPT, c] = 0.0
    cnt[DEPTH, c] = cnt[STEPS, c] = 0
    _branch(c, vec, num, cnt, way)


@njit(cache=True)
def _branch(c: int, vec: Any, num: Any, cnt: Any, way: float) -> None:
    """An empty new half that grows from one end."""
    forward = way < 0.5
    cnt[WAY, c] = 1 if forward else -1
    cnt[LEAF, c] = 0
    num[LW_H, c] = -np.inf
    for i in range(vec.shape[2]):
        vec[Z, c, i] = vec[ZR, c, i] if forward else vec[ZL, c, i]
        vec[P, c, i] = vec[PR, c, i] if forward else vec[PL, c, i]
        vec[G, c, i] = vec[GR, c, i] if forward else vec[GL, c, i]
        vec[RHO_H, c, i] = 0.0


@njit(cache=True)
def _drift(c: int, vec: Any, num: Any, cnt: Any) -> None:
    """Half a kick and the move: to where the gradient is needed next."""
    step = num[STEP, c] * cnt[WAY, c]
    for i in range(vec.shape[2]):
        vec[P, c, i] += 0.5 * step * vec[G, c, i]
        vec[Z, c, i] += step * vec[P, c, i]


@njit(cache=True)
def _leaf(c: int, vec: Any, num: Any, cnt: Any, value: float, slope: Any, uniform: float) -> float:
    """Complete the leapfrog, weigh the leaf, perhaps propose it. Returns how much energy it has above the root."""
    step = num[STEP, c] * cnt[WAY, c]
    kinetic = 0.0
    for i in range(vec.shape[2]):
        vec[G, c, i] = slope[c, i]
        vec[P, c, i] += 0.5 * step * slope[c, i]
        vec[RHO_H, c, i] += vec[P, c, i]
        kinetic += 0.5 * vec[P, c, i] * vec[P, c, i]
    rise = kinetic - value - num[ROOT, c]
    if not math.isfinite(rise):
        rise = np.inf
    num[ACCEPT, c] += min(1.0, math.exp(-rise)) if rise > 0 else 1.0
    cnt[STEPS, c] += 1
    num[LW_H, c] = _log_add(num[LW_H, c], -rise)
    if math.log(uniform) < -rise - num[LW_H, c]:  # multinomial within the half
        num[LP_H, c], num[EN_H, c] = value, kinetic - value
        for i in range(vec.shape[2]):
            vec[ZH, c, i] = vec[Z, c, i]
            vec[GH, c, i] = slope[c, i]
    return rise


@njit(cache=True)
def _turns_inside(c: int, vec: Any, cnt: Any, mark: Any) -> bool:
    """Keep a checkpoint at an even leaf; at an odd one compare with the first leaf of every subtree it completes."""
    leaf, level, ones = cnt[LEAF, c], 0, 0
    rest = leaf >> 1
    while rest > 0:  # how many subtrees are open above
        level += rest & 1
        rest >>= 1
    if leaf % 2 == 0:
        for i in range(vec.shape[2]):
            mark[0, c, level, i] = vec[P, c, i]
            mark[1, c, level, i] = vec[RHO_H, c, i]
        return False
    while (leaf >> ones) & 1:
        ones += 1
    for back in range(ones):
        k = level - back
        if _turning(mark[0, c, k], vec[P, c], vec[RHO_H, c], mark[1, c, k], mark[0, c, k]):
            return True
    return False


@njit(cache=True)
def _join(c: int, vec: Any, num: Any, cnt: Any, uniform: float) -> bool:
    """Join a complete half to the tree. Returns whether the whole tree turns."""
    end = (ZR, PR, GR) if cnt[WAY, c] > 0 else (ZL, PL, GL)
    take = math.log(uniform) < num[LW_H, c] - num[LW_T, c]  # biased towards the new half
    if take:
        num[LP_T, c], num[EN_T, c] = num[LP_H, c], num[EN_H, c]
    for i in range(vec.shape[2]):
        vec[end[0], c, i], vec[end[1], c, i], vec[end[2], c, i] = vec[Z, c, i], vec[P, c, i], vec[G, c, i]
        vec[RHO_T, c, i] += vec[RHO_H, c, i]
        if take:
            vec[ZT, c, i], vec[GT, c, i] = vec[ZH, c, i], vec[GH, c, i]
    num[LW_T, c] = _log_add(num[LW_T, c], num[LW_H, c])
    cnt[DEPTH, c] += 1
    return _turning(vec[PL, c], vec[PR, c], vec[RHO_T, c], vec[P, c], vec[P, c])


@njit(cache=True)
def _store(c: int, vec: Any, num: Any, cnt: Any, diverged: bool, draws: Any, report: Any, thin: int) -> None:
    """A transition is complete: keep it if it is the thin-th."""
    row, cnt[DONE, c] = cnt[DONE, c] // thin, cnt[DONE, c] + 1
    if cnt[DONE, c] % thin == 0:
        for i in range(vec.shape[2]):
            draws[c, row, i] = vec[ZT, c, i]
        report[R_ACCEPT, c, row] = num[ACCEPT, c] / max(cnt[STEPS, c], 1)
        report[R_ENERGY, c, row], report[R_DENSITY, c, row] = num[EN_T, c], num[LP_T, c]
        report[R_STEPS, c, row], report[R_DEPTH, c, row] = cnt[STEPS, c], cnt[DEPTH, c]
        report[R_DIVERGENT, c, row] = diverged


@njit(cache=True)
def plant(vec: Any, num: Any, cnt: Any, normals: Any, step: float, uniforms: Any) -> None:
    """Plant a tree in every chain, and move to where the first gradient is needed."""
    for c in range(vec.shape[1]):
        _plant(c, vec, num, cnt, normals, step, uniforms[c, 2])
        _drift(c, vec, num, cnt)


@njit(cache=True)
def grow(
    vec: Any,
    num: Any,
    cnt: Any,
    mark: Any,
    value: Any,
    slope: Any,
    normals: Any,
    uniforms: Any,
    draws: Any,
    report: Any,
    settings: Any,
    news: Any,
) -> None:
    """One leaf more in every chain that still has draws to make.

    value: (chains,) log density at ``vec[Z]``. slope: (chains, d) its gradient. uniforms: (chains, 3).
    settings: step size for new trees, greatest depth, greatest rise of energy, transitions wanted, thin.
    news: adds up acceptance probabilities, transitions and divergences, and counts the chains at work and the
    normals used by the chain that used most.
    """
    step, depth, rise, wanted, thin = settings[0], int(settings[1]), settings[2], int(settings[3]), int(settings[4])
    news[3] = news[4] = 0
    for c in range(vec.shape[1]):
        if cnt[DONE, c] >= wanted:
            continue
        diverged = not (_leaf(c, vec, num, cnt, value[c], slope, uniforms[c, 0]) <= rise)
        ended = diverged or _turns_inside(c, vec, cnt, mark)
        cnt[LEAF, c] += 1
        if not ended and cnt[LEAF, c] == 1 << cnt[DEPTH, c]:
            ended = _join(c, vec, num, cnt, uniforms[c, 1]) or cnt[DEPTH, c] >= depth
            if not ended:
                _branch(c, vec, num, cnt, uniforms[c, 2])
        if ended:
            news[0] += num[ACCEPT, c] / cnt[STEPS, c]
            news[1] += 1
            news[2] += diverged
            _store(c, vec, num, cnt, diverged, draws, report, thin)
            if cnt[DONE, c] >= wanted:
                continue
            _plant(c, vec, num, cnt, normals, step, uniforms[c, 2])
        news[3] += 1
        news[4] = max(news[4], cnt[USED, c])
        _drift(c, vec, num, cnt)
