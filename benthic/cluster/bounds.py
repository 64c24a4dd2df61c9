"""Loops over rows that k-means makes on a processor: which rows may have a new nearest center, and which one it is.

Hamerly, 2010: the distance to the own center has an upper bound, that to any other a lower one; both are kept up
to date with how far centers moved, and as long as they do not cross the row need not be looked at.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

_FAST = {"contract", "reassoc", "nsz", "arcp"}


@njit(cache=True, nogil=True, fastmath=_FAST)
def screen(X, centers, labels, upper, lower, moved, apart, begin, end, slack, active):
    """Update the bounds of rows begin..end and list those that fail them in ``active``; how many they are.

    moved: (k + 3,) how far each center moved, then the largest move, the second largest, and whose the largest is.
    apart: (k,) half the distance of each center to its nearest neighbor.
    """
    k, d = centers.shape
    largest, second, whose = moved[k], moved[k + 1], int(moved[k + 2])
    count = 0
    for i in range(begin, end):
        j = labels[i]
        high = upper[i] + moved[j]
        low = lower[i] - (second if j == whose else largest)
        limit = max(low, apart[j])
        if high > limit:
            total = X[i, 0] * 0
            for f in range(d):
                gap = X[i, f] - centers[j, f]
                total += gap * gap
            high = math.sqrt(total) * (1 + slack)
            if high > limit:
                active[begin + count] = i
                count += 1
        upper[i] = high
        lower[i] = low
    return count


@njit(cache=True, nogil=True, fastmath=_FAST)
def choose(scores, begin, end, rows, squares, reach, slack, labels, upper, lower):
    """Nearest centers of the columns begin..end of ``scores`` and new bounds; how many labels changed.

    scores: (k, m) half the squared length of a center less its product with a row. rows: (m,) which rows they are.
    squares: (n,) squared lengths of all rows. reach: the largest squared length of a center.
    """
    k = scores.shape[0]
    step = 256
    best = np.empty(step, scores.dtype)
    second = np.empty(step, scores.dtype)
    found = np.empty(step, np.int32)
    changed = 0
    for first in range(begin, end, step):
        size = min(step, end - first)
        for r in range(size):
            best[r] = math.inf
            second[r] = math.inf
            found[r] = 0
        for j in range(k):
            line = scores[j, first : first + size]
            for r in range(size):
                s = line[r]
                b = best[r]
                nearer = s < b
                second[r] = min(second[r], max(s, b))
                found[r] = j if nearer else found[r]
                best[r] = min(s, b)
        for r in range(size):
            i = rows[first + r]
            error = slack * (squares[i] + reach)
            upper[i] = math.sqrt(max(squares[i] + 2 * best[r], 0.0) + error)
            lower[i] = math.sqrt(max(squares[i] + 2 * second[r] - error, 0.0))
            changed += labels[i] != found[r]
            labels[i] = found[r]
    return changed


@njit(cache=True, nogil=True, fastmath=_FAST)
def pick(scores, X, weight, start, labels, sums):
    """Nearest centers of the rows of ``X`` after ``start``, one a column of ``scores``; how many labels changed.

    Rows whose label changes move from the sums (k, d + 1) of the old label, if they had one, to those of the new. Takes
    less time than ``choose`` and ``resum``, but leaves the bounds as they were.
    """
    k, m = scores.shape
    d = X.shape[1]
    weighted = weight.shape[0] > 0
    step = 512
    best = np.empty(step, scores.dtype)
    found = np.empty(step, np.int32)
    changed = 0
    for first in range(0, m, step):
        size = min(step, m - first)
        for r in range(size):
            best[r] = scores[0, first + r]
            found[r] = 0
        for j in range(1, k):
            line = scores[j, first : first + size]
            for r in range(size):
                s = line[r]
                b = best[r]
                found[r] = j if s < b else found[r]
                best[r] = min(s, b)
        for r in range(size):
            i = start + first + r
            old, new = labels[i], found[r]
            if old != new:
                changed += 1
                labels[i] = new
                w = weight[i] if weighted else 1.0
                for f in range(d):
                    sums[new, f] += w * X[i, f]
                sums[new, d] += w
                if old >= 0:
                    for f in range(d):
                        sums[old, f] -= w * X[i, f]
                    sums[old, d] -= w
    return changed


@njit(cache=True, nogil=True, fastmath=_FAST)
def lengths(X, weight, begin, end, squares):
    """Squared lengths of rows begin..end of ``X``; their weighted sum, in double precision."""
    weighted = weight.shape[0] > 0
    whole = 0.0
    for i in range(begin, end):
        total = 0.0
        for f in range(X.shape[1]):
            x = np.float64(X[i, f])
            total += x * x
        squares[i] = total
        whole += total * weight[i] if weighted else total
    return whole


@njit(cache=True, nogil=True, fastmath=_FAST)
def costs(X, centers, labels, begin, end, squares):
    """Squared distances of rows begin..end of ``X`` to the centers that their labels name."""
    for i in range(begin, end):
        j = labels[i]
        total = X[i, 0] * 0
        for f in range(X.shape[1]):
            gap = X[i, f] - centers[j, f]
            total += gap * gap
        squares[i] = total
    return 0.0


@njit(cache=True, nogil=True, fastmath=_FAST)
def resum(X, weight, before, labels, rows, begin, end, sums):
    """Move rows whose label changed from the sums (k, d + 1) of the old label, if it had one, to those of the new."""
    d = X.shape[1]
    weighted = weight.shape[0] > 0
    for at in range(begin, end):
        i = rows[at]
        old, new = before[at], labels[i]
        if old != new:
            w = weight[i] if weighted else 1.0
            for f in range(d):
                sums[new, f] += w * X[i, f]
            sums[new, d] += w
            if old >= 0:
                for f in range(d):
                    sums[old, f] -= w * X[i, f]
                sums[old, d] -= w
