"""Exact neighbor search in compiled loops: over all points, over promising groups, over a tree of boxes.

Distances are reduced ones, which order points as the true ones do: the sum of squares (SQUARES), of absolute values
(SUM), the largest difference (LARGEST), the sum of powers (POWERS) and the number of columns that differ (DIFFER).
They are summed in float64 in one order everywhere, so every way finds the same neighbors; of equal distances the lower
index wins.
"""

from __future__ import annotations

import numpy as np
from numba import njit

SQUARES, SUM, LARGEST, POWERS, DIFFER = range(5)
# Lower bounds are shortened by so much, since they round too.
_SHY = 1 - 1e-13
_BLOCK = 256  # points that stay in a cache while several queries look at them


@njit(cache=True, nogil=True)
def _apart(X, row, Y, column, kind, p):
    """The reduced distance of a row of X and a row of Y."""
    d = X.shape[1]
    whole = d - d % 4
    a = b = c = e = 0.0
    if kind == SQUARES:
        for j in range(0, whole, 4):
            s, t = np.float64(X[row, j]) - Y[column, j], np.float64(X[row, j + 1]) - Y[column, j + 1]
            u, v = np.float64(X[row, j + 2]) - Y[column, j + 2], np.float64(X[row, j + 3]) - Y[column, j + 3]
            a, b, c, e = a + s * s, b + t * t, c + u * u, e + v * v
        for j in range(whole, d):
            s = np.float64(X[row, j]) - Y[column, j]
            a += s * s
    elif kind == SUM:
        for j in range(0, whole, 4):
            a += abs(np.float64(X[row, j]) - Y[column, j])
            b += abs(np.float64(X[row, j + 1]) - Y[column, j + 1])
            c += abs(np.float64(X[row, j + 2]) - Y[column, j + 2])
            e += abs(np.float64(X[row, j + 3]) - Y[column, j + 3])
        for j in range(whole, d):
            a += abs(np.float64(X[row, j]) - Y[column, j])
    elif kind == LARGEST:
        for j in range(d):
            a = max(a, abs(np.float64(X[row, j]) - Y[column, j]))
    elif kind == POWERS:
        for j in range(d):
            a += abs(np.float64(X[row, j]) - Y[column, j]) ** p
    else:
        for j in range(d):
            a += 1.0 if X[row, j] != Y[column, j] else 0.0
    return (a + b) + (c + e)


@njit(cache=True, nogil=True)
def _sift(best, where, size, value, index):
    """Put a pair at the top of the heap of the first ``size`` pairs, largest on top, in place of what was there."""
    i = 0
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        right = child + 1
        if right < size and (best[right] > best[child] or (best[right] == best[child] and where[right] > where[child])):
            child = right
        if best[child] < value or (best[child] == value and where[child] < index):
            break
        best[i], where[i] = best[child], where[child]
        i = child
    best[i], where[i] = value, index


@njit(cache=True, nogil=True)
def _offer(best, where, value, index):
    """Keep a pair if it is before the last one kept."""
    if value < best[0] or (value == best[0] and index < where[0]):
        _sift(best, where, len(best), value, index)


@njit(cache=True, nogil=True)
def _settle(best, where):
    """Turn the heap into ascending order."""
    for end in range(len(best) - 1, 0, -1):
        value, index = best[end], where[end]
        best[end], where[end] = best[0], where[0]
        _sift(best, where, end, value, index)


@njit(cache=True, nogil=True)
def scan(X, Y, own, kind, p, best, where, start, stop):
    """The nearest rows of Y for the rows start to stop of X, by looking at all of them.

    own: (n,) a row of Y that is out of the question, or -1. best, where: (n, k) results, here infinity and len(Y).
    """
    for left in range(0, len(Y), _BLOCK):
        for i in range(start, stop):
            near, index, skip = best[i], where[i], own[i]
            for j in range(left, min(left + _BLOCK, len(Y))):
                value = _apart(X, i, Y, j, kind, p)
                if value <= near[0] and j != skip:
                    _offer(near, index, value, j)
    for i in range(start, stop):
        _settle(best[i], where[i])


@njit(cache=True, nogil=True)
def _group(X, i, Y, number, width, size, skip, best, where):
    """Look at the columns of a group: every ``count``-th of its tile, which has ``count`` groups."""
    n = len(Y)
    per = width // size
    tile = number // per
    left = tile * width
    count = min(per, (n - left) // size)
    j = left + number - tile * per
    for _ in range(size):
        value = _apart(X, i, Y, j, SQUARES, 2.0)
        if value <= best[0] and j != skip:
            _offer(best, where, value, j)
        j += count


@njit(cache=True, nogil=True)
def refine(X, Y, own, minima, reach, unit, width, size, best, where, start, stop):
    """The nearest rows of Y, where ``minima`` (n, groups) are lower bounds for groups of them.

    A column of minima stands for ``size`` rows of Y; the bound is on unit times the squared distance, less reach (n,).
    First the k most promising groups are measured, which gives a distance that all k neighbors keep; then every other
    group whose bound is not above it. So the result is exact, whatever the bounds; good ones make it fast.
    """
    n, groups, k = len(Y), minima.shape[1], best.shape[1]
    first = min(k, groups)
    low, chosen = np.empty(first), np.empty(first, np.int64)
    for i in range(start, stop):
        low[:], chosen[:] = np.inf, groups
        row = minima[i]
        for g in range(groups):
            if row[g] < low[0]:
                _sift(low, chosen, first, row[g], g)
        for j in range(n - n % size, n):
            if j != own[i]:
                _offer(best[i], where[i], _apart(X, i, Y, j, SQUARES, 2.0), j)
        for g in chosen:
            if g < groups:
                _group(X, i, Y, g, width, size, own[i], best[i], where[i])
                row[g] = np.inf
        limit = best[i, 0] * unit + reach[i]
        for g in range(groups):
            if row[g] <= limit and row[g] < np.inf:
                _group(X, i, Y, g, width, size, own[i], best[i], where[i])
                limit = best[i, 0] * unit + reach[i]
        _settle(best[i], where[i])


# ------------------------------------------------------------------------------------------------------ the tree


@njit(cache=True, nogil=True)
def _swap(points, order, i, j):
    order[i], order[j] = order[j], order[i]
    for c in range(points.shape[1]):
        points[i, c], points[j, c] = points[j, c], points[i, c]


@njit(cache=True, nogil=True)
def _select(points, order, axis, low, high, middle):
    """Order the rows low to high so that none before ``middle`` is above it along an axis (Hoare, 1961)."""
    while low < high:
        center = (low + high) // 2
        if points[center, axis] < points[low, axis]:
            _swap(points, order, center, low)
        if points[high, axis] < points[low, axis]:
            _swap(points, order, high, low)
        if points[high, axis] < points[center, axis]:
            _swap(points, order, high, center)
        pivot = points[center, axis]
        i, j = low, high
        while i <= j:
            while points[i, axis] < pivot:
                i += 1
            while points[j, axis] > pivot:
                j -= 1
            if i <= j:
                _swap(points, order, i, j)
                i += 1
                j -= 1
        if middle <= j:
            high = j
        elif middle >= i:
            low = i
        else:
            return


@njit(cache=True, nogil=True)
def plant(points, order, ends, lower, upper):
    """Build a balanced tree in place: node i has the children 2i+1 and 2i+2, which share its rows evenly.

    points: (n, d) rows, put into the order of the tree, as order (n,). ends: (nodes, 2) first and last row of a node.
    lower, upper: (nodes, d) the smallest box around its points. Bentley, 1975; splits along the widest side.
    """
    nodes, d = lower.shape
    ends[0, 0], ends[0, 1] = 0, len(points)
    for node in range(nodes):
        start, stop = ends[node, 0], ends[node, 1]
        axis, widest = 0, -1.0
        for c in range(d):
            low = high = points[start, c]
            for i in range(start + 1, stop):
                low, high = min(low, points[i, c]), max(high, points[i, c])
            lower[node, c], upper[node, c] = low, high
            if np.float64(high) - low > widest:
                axis, widest = c, np.float64(high) - low
        if 2 * node + 1 < nodes:
            middle = (start + stop) // 2
            _select(points, order, axis, start, stop - 1, middle)
            ends[2 * node + 1, 0], ends[2 * node + 1, 1] = start, middle
            ends[2 * node + 2, 0], ends[2 * node + 2, 1] = middle, stop


@njit(cache=True, nogil=True)
def _outside(X, row, lower, upper, node, kind, p):
    """A lower bound on the reduced distance from a point to all points in a box."""
    total = 0.0
    for j in range(X.shape[1]):
        x = np.float64(X[row, j])
        gap = max(max(lower[node, j] - x, x - upper[node, j]), 0.0)
        if kind == SQUARES:
            total += gap * gap
        elif kind == SUM:
            total += gap
        elif kind == LARGEST:
            total = max(total, gap)
        else:
            total += gap**p
    return total * _SHY


@njit(cache=True, nogil=True)
def descend(X, points, order, ends, lower, upper, own, kind, p, best, where, start, stop):
    """The nearest points for the rows start to stop of X, by walking down the tree (Friedman et al., 1977)."""
    nodes = len(ends)
    stack, bounds = np.empty(128, np.int64), np.empty(128)
    for i in range(start, stop):
        near, index = best[i], where[i]
        stack[0], bounds[0], top = 0, 0.0, 1
        while top > 0:
            top -= 1
            node, bound = stack[top], bounds[top]
            if bound > near[0]:
                continue
            left = 2 * node + 1
            if left >= nodes:
                for r in range(ends[node, 0], ends[node, 1]):
                    value = _apart(X, i, points, r, kind, p)
                    if value <= near[0] and order[r] != own[i]:
                        _offer(near, index, value, order[r])
                continue
            one = _outside(X, i, lower, upper, left, kind, p)
            two = _outside(X, i, lower, upper, left + 1, kind, p)
            far = left + 1 if one <= two else left
            stack[top], bounds[top] = far, max(one, two)  # the farther one waits
            stack[top + 1], bounds[top + 1] = 2 * left + 1 - far, min(one, two)
            top += 2
        _settle(near, index)
