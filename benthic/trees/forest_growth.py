"""The compiled part of random forests: one tree grown to the end on a bootstrap sample of binned rows.

A node looks at a few columns drawn anew and fills one small histogram for each. The gain of Gini's index and of
squared error is one formula: with :math:`S_k` the weight of class k, or the sum of target k, and W the weight,

.. math:: \\sum_k S_k^2 / W

is to be large in both children. Empty bins are skipped and an edge is put in the middle of the gap it lies in.
"""

from __future__ import annotations

import numpy as np
from numba import njit

MISSING = 255
GINI, ENTROPY = 0, 1  # squared error is scored as Gini's index
# entries of ``whole``
MAX_FEATURES, MIN_SPLIT, MIN_LEAF, MAX_DEPTH, MAX_LEAVES, CRITERION, WIDTH, CLASSES = range(8)
# columns of ``ints``
FEATURE, BIN, LEFT, START, STOP, DEPTH, MISSING_LEFT, NAMED = range(8)


@njit(cache=True, nogil=True, error_model="numpy")
def _random(state):
    """The next of the numbers 0 .. 2^64 - 1 (SplitMix64; Steele, Lea & Flood, 2014)."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(cache=True, nogil=True, error_model="numpy")
def _below(state, n):
    """A whole number from 0 to n - 1."""
    return np.int64(np.float64(_random(state) >> np.uint64(11)) * 2.0**-53 * n)


@njit(cache=True, nogil=True, error_model="numpy")
def draw_counts(seed: int, draws: int, counts: np.ndarray) -> None:
    """How often each row is in the bootstrap sample of the tree with this seed."""
    state = np.empty(1, np.uint64)
    state[0] = seed
    n = len(counts)
    for i in range(n):
        counts[i] = 0
    for _ in range(draws):
        counts[_below(state, n)] += 1


@njit(cache=True, nogil=True, error_model="numpy")
def _score(sums, at, weight, width, criterion):
    """What is to be large: sum of S² / W, or for entropy the sum of S log(S / W)."""
    total = 0.0
    if criterion == ENTROPY:
        for k in range(width):
            if sums[at, k] > 0:
                total += sums[at, k] * np.log(sums[at, k] / weight)
        return total
    for k in range(width):
        total += sums[at, k] * sums[at, k]
    return total / weight


@njit(cache=True, nogil=True, error_model="numpy")
def _fill(column, rows, start, stop, label, share, weight, classes, width, hist, count):
    """Sums of a column's bins over the rows of a node; returns the lowest and the highest bin that is not missing."""
    low, high = 256, -1
    for i in range(start, stop):
        b = np.int64(column[rows[i]])
        j = i - start
        w = weight[j]
        count[b] += 1
        hist[b, width] += w
        if classes:
            hist[b, label[j]] += w
        else:
            for k in range(width):
                hist[b, k] += share[j, k]
        if b != MISSING:
            low = min(low, b)
            high = max(high, b)
    return low, high


@njit(cache=True, nogil=True, error_model="numpy")
def _try(sums, width, rows, left_rows, fewest, lightest, criterion, parent):
    """Gain of the cut that parts sums[0] (left) from sums[2] (all); -inf when a side has too few rows or weight."""
    if left_rows < fewest or rows - left_rows < fewest:
        return -np.inf
    for k in range(width + 1):
        sums[1, k] = sums[2, k] - sums[0, k]
    if sums[0, width] <= 0.0 or sums[1, width] <= 0.0 or min(sums[0, width], sums[1, width]) < lightest:
        return -1.0
    left, right = np.int64(0), np.int64(1)
    above = _score(sums, left, sums[0, width], width, criterion)
    return above + _score(sums, right, sums[1, width], width, criterion) - parent


@njit(cache=True, nogil=True, error_model="numpy")
def _scan_numbers(hist, count, low, high, sums, whole, limits, rows, parent, best):
    """Try every edge; best: gain, bin, missing_left. The missing go right first, then left."""
    width, fewest, criterion = whole[WIDTH], whole[MIN_LEAF], whole[CRITERION]
    absent = count[MISSING]
    for missing_left in range(2 if absent else 1):
        left_rows = absent if missing_left else 0
        for k in range(width + 1):
            sums[0, k] = hist[MISSING, k] if missing_left else 0.0
        b = low
        while b <= high:
            left_rows += count[b]
            for k in range(width + 1):
                sums[0, k] += hist[b, k]
            after = b + 1
            while after <= high and count[after] == 0:
                after += 1
            if after > high and (absent == 0 or missing_left):
                break
            gain = _try(sums, width, rows, left_rows, fewest, limits[1], criterion, parent)
            if gain > best[0]:
                best[0] = gain
                best[1] = 254 if after > high else (b + after - 1) // 2
                best[2] = missing_left
            b = after


@njit(cache=True, nogil=True, error_model="numpy")
def _order(hist, count, width, classes, sums, order):
    """Categories with rows by their mean: of the second of two classes, of the commonest of more, of the target."""
    lead = width - 1
    if classes and width > 2:
        lead = 0
        for k in range(width):
            if sums[2, k] > sums[2, lead]:
                lead = k
    if not classes:
        lead = 0
    keys = np.empty(256)
    met = 0
    for b in range(256):
        if count[b] == 0:
            continue
        key = hist[b, lead] / max(hist[b, width], 1e-300)
        i = met
        while i > 0 and keys[i - 1] > key:
            keys[i] = keys[i - 1]
            order[i] = order[i - 1]
            i -= 1
        keys[i] = key
        order[i] = b
        met += 1
    return met


@njit(cache=True, nogil=True, error_model="numpy")
def _scan_names(hist, count, sums, whole, limits, rows, parent, best, subset):
    """Try the first few categories in the order of their means."""
    width = whole[WIDTH]
    order = np.empty(256, np.int64)
    met = _order(hist, count, width, whole[CLASSES], sums, order)
    for k in range(width + 1):
        sums[0, k] = 0.0
    left_rows, place = 0, -1
    for i in range(met - 1):
        left_rows += count[order[i]]
        for k in range(width + 1):
            sums[0, k] += hist[order[i], k]
        gain = _try(sums, width, rows, left_rows, whole[MIN_LEAF], limits[1], whole[CRITERION], parent)
        if gain > best[0]:
            best[0] = gain
            place = i
    if place < 0:
        return
    best[1], best[2] = 0, 0
    for i in range(4):
        subset[i] = 0
    for i in range(place + 1):
        subset[order[i] >> 6] |= np.uint64(1) << np.uint64(order[i] & 63)


@njit(cache=True, nogil=True, error_model="numpy")
def _goes_left(code, place, missing_left, named, subset):
    if named:
        return ((subset[code >> 6] >> np.uint64(code & 63)) & np.uint64(1)) != 0
    if code == MISSING:
        return missing_left != 0
    return code <= place


@njit(cache=True, nogil=True, error_model="numpy")
def _look(
    node,
    codes,
    named,
    rows,
    label,
    share,
    weight,
    whole,
    limits,
    state,
    features,
    hist,
    count,
    sums,
    ints,
    subsets,
    gains,
    best,
):
    """Find the best cut of a node among columns drawn at random; those without two values do not end the search."""
    start, stop = ints[node, START], ints[node, STOP]
    width, classes, p = whole[WIDTH], whole[CLASSES], len(features)
    second = np.int64(2)
    parent = _score(sums, second, sums[2, width], width, whole[CRITERION])
    # a cut that gains nothing may open the way to one that does, as for XOR; rounding can make its gain negative
    best[0] = -1e-12 * sums[2, width]
    chosen, uneven = np.int64(-1), 0
    trial = np.zeros(4, np.uint64)
    for i in range(p):
        if i >= whole[MAX_FEATURES] and uneven:
            break
        j = i + _below(state, p - i)
        features[i], features[j] = features[j], features[i]
        f = features[i]
        low, high = _fill(codes[f], rows, start, stop, label, share, weight, classes, width, hist, count)
        if low < high or (count[MISSING] and high >= 0):
            uneven += 1
            before = best[0]
            if named[f]:
                _scan_names(hist, count, sums, whole, limits, stop - start, parent, best, trial)
            else:
                _scan_numbers(hist, count, low, high, sums, whole, limits, stop - start, parent, best)
            if best[0] > before:
                chosen = f
                for k in range(4):
                    subsets[node, k] = trial[k]
        count[MISSING], low = 0, min(low, 255)
        for k in range(width + 1):
            hist[MISSING, k] = 0.0
        for b in range(low, high + 1):
            if count[b]:
                count[b] = 0
                for k in range(width + 1):
                    hist[b, k] = 0.0
    ints[node, FEATURE] = chosen
    if chosen >= 0:
        gains[node] = max(best[0], 0.0)
        ints[node, BIN], ints[node, MISSING_LEFT] = np.int64(best[1]), np.int64(best[2])
        ints[node, NAMED] = named[chosen]


@njit(cache=True, nogil=True, error_model="numpy")
def _gather(node, ints, rows, y, targets, weights, counts, whole, label, share, weight, sums, values):
    """Copy what the node's rows carry side by side, and sum it up; returns whether all rows are alike."""
    start, stop, width = ints[node, START], ints[node, STOP], whole[WIDTH]
    for k in range(width + 1):
        sums[2, k] = 0.0
    alike = True
    for i in range(start, stop):
        r, j = rows[i], i - start
        w = weights[r] * counts[r]
        weight[j] = w
        sums[2, width] += w
        if whole[CLASSES]:
            label[j] = y[r]
            sums[2, y[r]] += w
            alike = alike and y[r] == label[0]
        else:
            for k in range(width):
                share[j, k] = w * targets[r, k]
                sums[2, k] += share[j, k]
                alike = alike and targets[r, k] == targets[rows[start], k]
    for k in range(width):
        values[node, k] = sums[2, k] / max(sums[2, width], 1e-300)
    return alike


@njit(cache=True, nogil=True, error_model="numpy")
def _part(node, codes, rows, spare, ints, subsets):
    """Put the rows that go left first; returns where the right side starts, and whether a value was missing."""
    start, stop = ints[node, START], ints[node, STOP]
    column, place, missing_left, named = (
        codes[ints[node, FEATURE]],
        ints[node, BIN],
        ints[node, MISSING_LEFT],
        ints[node, NAMED],
    )
    left, right, absent = start, 0, False
    for i in range(start, stop):
        r = rows[i]
        code = np.int64(column[r])
        absent = absent or code == MISSING
        side = _goes_left(code, place, missing_left, named, subsets[node])
        rows[left] = r
        spare[right] = r
        left += side
        right += not side
    for i in range(right):
        rows[left + i] = spare[i]
    if not absent:  # the larger side takes the missing values to come
        ints[node, MISSING_LEFT] = left - start >= right
    elif named:
        ints[node, MISSING_LEFT] = np.int64(subsets[node, 3] >> np.uint64(63))
    return left


@njit(cache=True, nogil=True, error_model="numpy")
def _new(ints, gains, node, start, stop, depth):
    ints[node, FEATURE] = -1
    ints[node, LEFT] = -1
    ints[node, START] = start
    ints[node, STOP] = stop
    ints[node, DEPTH] = depth
    ints[node, MISSING_LEFT] = 0
    ints[node, NAMED] = 0
    gains[node] = 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _pick(frontier, size, gains, whole, nodes_limit):
    """The place in the frontier of the node to cut: the newest, or the best when leaves are counted."""
    best = size - 1
    if whole[MAX_LEAVES] < nodes_limit:
        for i in range(size):
            if gains[frontier[i]] > gains[frontier[best]]:
                best = i
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def grow(
    codes: np.ndarray,
    named: np.ndarray,
    y: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray,
    counts: np.ndarray,
    seed: int,
    whole: np.ndarray,
    limits: np.ndarray,
    ints: np.ndarray,
    gains: np.ndarray,
    values: np.ndarray,
    subsets: np.ndarray,
) -> int:
    """Grow one tree into ``ints``, ``gains``, ``values`` and ``subsets``; returns its number of nodes.

    codes: (p, n) bins. y: (n,) classes, or targets: (n, k). weights, counts: (n,) weight of a row and how often it
    is in the sample. seed: draws the columns. limits: least gain of a cut and least weight of a leaf.
    """
    n = 0
    for r in range(len(counts)):
        n += counts[r] > 0
    width = whole[WIDTH]
    rows, spare = np.empty(n, np.uint32), np.empty(n, np.uint32)
    n = 0
    for r in range(len(counts)):
        if counts[r] > 0:
            rows[n] = r
            n += 1
    label, weight = np.empty(n, np.int64), np.empty(n)
    share = np.empty((1 if whole[CLASSES] else n, width))
    hist, count, sums = np.zeros((256, width + 1)), np.zeros(256, np.int64), np.zeros((3, width + 1))
    features, state, best = np.empty(codes.shape[0], np.int64), np.empty(1, np.uint64), np.zeros(3)
    for j in range(len(features)):
        features[j] = j
    state[0] = seed
    frontier, size, nodes, leaves, none = np.empty(n + 1, np.int64), 0, 1, 1, np.int64(0)
    _new(ints, gains, none, none, np.int64(n), none)
    first, last = np.int64(0), np.int64(1)
    while True:
        for node in range(first, last):
            alike = _gather(node, ints, rows, y, targets, weights, counts, whole, label, share, weight, sums, values)
            m = ints[node, STOP] - ints[node, START]
            if alike or m < whole[MIN_SPLIT] or m < 2 * whole[MIN_LEAF] or ints[node, DEPTH] >= whole[MAX_DEPTH]:
                continue
            _look(
                node,
                codes,
                named,
                rows,
                label,
                share,
                weight,
                whole,
                limits,
                state,
                features,
                hist,
                count,
                sums,
                ints,
                subsets,
                gains,
                best,
            )
            if ints[node, FEATURE] >= 0 and gains[node] >= limits[0]:
                frontier[size] = node
                size += 1
        if size == 0 or leaves >= whole[MAX_LEAVES]:
            break
        at = _pick(frontier, size, gains, whole, np.int64(n))
        node = frontier[at]
        size -= 1
        frontier[at] = frontier[size]
        middle = _part(node, codes, rows, spare, ints, subsets)
        ints[node, LEFT] = nodes
        first, last = nodes, nodes + 2
        _new(ints, gains, first, ints[node, START], middle, ints[node, DEPTH] + 1)
        _new(ints, gains, first + 1, middle, ints[node, STOP], ints[node, DEPTH] + 1)
        nodes += 2
        leaves += 1
    return nodes
