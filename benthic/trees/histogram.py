"""Trees grown on histograms of binned columns: the compiled part of gradient boosting.

Every row has a gradient and a curvature. A histogram holds their sums in every bin of every column; the best cut of
a node is read off its histogram (Ke et al., 2017). Sums are whole numbers: gradients are rounded to as many bits as
the number of rows leaves free in a word of 64, and share that word with the count of rows, so that one addition
does for both, the order of additions does not matter, and a child's histogram is its parent's less its sibling's,
exactly. Leaf values do not come from here but from the rows themselves.

The functions take the columns between two blocks, so that several threads can share a node.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

MISSING = 255
# columns of Grower.ints
FEATURE, BIN, LEFT, START, STOP, DEPTH, SLOT, MISSING_LEFT, NAMED, OPEN = range(10)
# columns of Grower.reals
GRADIENT, CURVATURE, GAIN, LOW, HIGH = range(5)
# entries of Grower.control
NODES, LEAVES, SMALL, LARGE, FREE, SLOTS = range(6)
# entries of Grower.whole
WORDS, SHIFT, MIN_ROWS, MAX_DEPTH, MAX_LEAVES, BY_DEPTH, MAX_FEATURES, SEED, COLUMNS = range(9)
# entries of Grower.scale
GRADIENT_UNIT, CURVATURE_UNIT, L2, MIN_CURVATURE, MIN_GAIN = range(5)
# entries of Grower.found
F_GAIN, F_FEATURE, F_BIN, F_MISSING, F_NAMED = range(5)


class Grower(NamedTuple):
    """All that a tree needs while it grows; allocated once for many trees.

    words: (B, n) eight columns of bins each. rows, spare: (n,) row numbers, those of a node side by side. first:
    (n,) gradient and count of a row in one number; second: (n,) its curvature, or (1,) when all are the same.
    ordered: (n * words,) both, side by side, for the rows of the node whose histogram is next.
    hist: (slots, columns * 256 * words). ints, reals, subset: the nodes. control: counters. frontier, free: nodes
    that can be cut, slots that are free. found, found_subset: best cuts by part and child. bins, named, signs: (p,)
    bins, whether a column holds categories, its monotone sign. asked: (2, p) columns that a child may ask about.
    """

    words: np.ndarray
    rows: np.ndarray
    spare: np.ndarray
    first: np.ndarray
    second: np.ndarray
    ordered: np.ndarray
    hist: np.ndarray
    ints: np.ndarray
    reals: np.ndarray
    subset: np.ndarray
    control: np.ndarray
    frontier: np.ndarray
    free: np.ndarray
    found: np.ndarray
    found_subset: np.ndarray
    bins: np.ndarray
    named: np.ndarray
    signs: np.ndarray
    asked: np.ndarray
    whole: np.ndarray
    scale: np.ndarray


@njit(cache=True, nogil=True, error_model="numpy")
def pack_gradients(
    gradient: np.ndarray,
    curvature: np.ndarray,
    units: np.ndarray,
    shift: int,
    first: np.ndarray,
    second: np.ndarray,
    start: int,
    stop: int,
) -> None:
    """Round gradients and curvatures to whole numbers of their units; a gradient carries a count of one row."""
    by_gradient, by_curvature = 1.0 / units[0], 1.0 / units[1]
    for i in range(start, stop):
        first[i] = (np.int64(np.rint(gradient[i] * by_gradient)) << shift) + 1
    if len(second) > 1:
        for i in range(start, stop):
            second[i] = np.int64(np.rint(curvature[i] * by_curvature))


@njit(cache=True, nogil=True, error_model="numpy")
def _fill_few(column, rows, start, stop, ordered, h, count):
    byte = np.uint64(255)
    for i in range(start, stop):
        c = column[np.uint64(rows[i])]
        v = ordered[np.uint64(i - start)]
        for k in range(count):
            h[np.uint64(k * 256) + (c & byte)] += v
            c >>= np.uint64(8)


@njit(cache=True, nogil=True, error_model="numpy")
def _fill_one(words, rows, start, stop, ordered, hist, low, high, columns):
    byte = np.uint64(255)
    for b in range(low, high):
        column = words[b]
        h = hist[b * 2048 : (b + 1) * 2048]
        for i in range(2048):
            h[i] = 0
        if columns - 8 * b < 8:
            _fill_few(column, rows, start, stop, ordered, h, columns - 8 * b)
            continue
        for i in range(start, stop):
            c = column[np.uint64(rows[i])]
            v = ordered[np.uint64(i - start)]
            h[c & byte] += v
            h[np.uint64(256) + ((c >> np.uint64(8)) & byte)] += v
            h[np.uint64(512) + ((c >> np.uint64(16)) & byte)] += v
            h[np.uint64(768) + ((c >> np.uint64(24)) & byte)] += v
            h[np.uint64(1024) + ((c >> np.uint64(32)) & byte)] += v
            h[np.uint64(1280) + ((c >> np.uint64(40)) & byte)] += v
            h[np.uint64(1536) + ((c >> np.uint64(48)) & byte)] += v
            h[np.uint64(1792) + (c >> np.uint64(56))] += v


@njit(cache=True, nogil=True, error_model="numpy")
def _fill_two(words, rows, start, stop, ordered, hist, low, high, columns):
    byte, one = np.uint64(255), np.uint64(1)
    for b in range(low, high):
        column = words[b]
        h = hist[b * 4096 : (b + 1) * 4096]
        for i in range(4096):
            h[i] = 0
        count = columns - 8 * b
        for i in range(start, stop):
            c = column[np.uint64(rows[i])]
            here = np.uint64(i - start) << one
            v, w = ordered[here], ordered[here + one]
            if count < 8:
                for k in range(count):
                    at = (np.uint64(k * 256) + (c & byte)) << one
                    h[at] += v
                    h[at + one] += w
                    c >>= np.uint64(8)
            else:
                for k in range(8):  # of a known length, so that it is unrolled
                    at = (np.uint64(k * 256) + (c & byte)) << one
                    above, below = h[at], h[at + one]
                    h[at], h[at + one] = above + v, below + w
                    c >>= np.uint64(8)


@njit(cache=True, nogil=True, error_model="numpy")
def _worth(gradient, curvature, l2, low, high):
    """Twice the drop of the quadratic model at its best value between the bounds."""
    below = curvature + l2
    value = min(max(-gradient / below, low), high)
    return -value * (2.0 * gradient + below * value)


@njit(cache=True, nogil=True, error_model="numpy")
def _value(gradient, curvature, l2, low, high):
    return min(max(-gradient / (curvature + l2), low), high)


@njit(cache=True, nogil=True, error_model="numpy")
def _note(found, gain, feature, place, missing_left, named):
    found[F_GAIN] = gain
    found[F_FEATURE] = feature
    found[F_BIN] = place
    found[F_MISSING] = missing_left
    found[F_NAMED] = named


@njit(cache=True, nogil=True, error_model="numpy")
def _scan_numbers(g, h, step, base, feature, node, part, child, missing_left):
    """Try every edge of a column; missing values go to one side. Columns free of constraints."""
    last = g.bins[feature] - 1
    absent = h[base + MISSING * step]
    if absent != 0 and not missing_left:
        last += 1  # the cut between what is there and what is not
    unit, shift = g.scale[GRADIENT_UNIT], g.whole[SHIFT]
    mask = (np.int64(1) << shift) - 1
    rows = g.ints[node, STOP] - g.ints[node, START]
    total, weight = g.reals[node, GRADIENT], g.reals[node, CURVATURE]
    l2, fewest, least = g.scale[L2], g.whole[MIN_ROWS], g.scale[MIN_CURVATURE]
    by_count = g.scale[CURVATURE_UNIT]
    sums = absent if missing_left else np.int64(0)
    curvature = h[base + MISSING * step + 1] if missing_left and step == 2 else np.int64(0)
    place, named = np.int64(-1), np.int64(0)
    parent = total * total / (weight + l2)
    bar = g.found[part, child, F_GAIN] + parent  # what the two children must bring
    for b in range(last):
        at = base + b * step
        if h[at] == 0:
            continue
        sums += h[at]
        left = sums & mask
        if step == 2:
            curvature += h[at + 1]
        if left < fewest:
            continue
        if rows - left < fewest:
            break
        slope = (sums >> shift) * unit
        below = (curvature if step == 2 else left) * by_count
        other, above = total - slope, weight - below
        if below < least or above < least:
            continue
        below += l2
        above += l2
        worth = slope * slope * above + other * other * below
        if worth > bar * (below * above):
            bar, place = worth / (below * above), b
    if place >= 0:
        _note(g.found[part, child], bar - parent, feature, place, missing_left, named)


@njit(cache=True, nogil=True, error_model="numpy")
def _scan_bounded(g, h, step, base, feature, node, part, child, missing_left):
    """Try every edge of a column where values are bounded, or must not fall (or rise) along the column."""
    last = g.bins[feature] - 1
    absent = h[base + MISSING * step]
    if absent != 0 and not missing_left:
        last += 1
    shift, l2 = g.whole[SHIFT], g.scale[L2]
    mask = (np.int64(1) << shift) - 1
    rows = g.ints[node, STOP] - g.ints[node, START]
    total, weight = g.reals[node, GRADIENT], g.reals[node, CURVATURE]
    low, high, sign = g.reals[node, LOW], g.reals[node, HIGH], g.signs[feature]
    sums = absent if missing_left else np.int64(0)
    curvature = h[base + MISSING * step + 1] if missing_left and step == 2 else np.int64(0)
    parent, named = _worth(total, weight, l2, low, high), np.int64(0)
    for b in range(last):
        at = base + b * step
        sums += h[at]
        left = sums & mask
        if step == 2:
            curvature += h[at + 1]
        if h[at] == 0 or min(left, rows - left) < g.whole[MIN_ROWS]:
            continue
        slope = (sums >> shift) * g.scale[GRADIENT_UNIT]
        below = (curvature if step == 2 else left) * g.scale[CURVATURE_UNIT]
        if min(below, weight - below) < g.scale[MIN_CURVATURE]:
            continue
        rise = _value(total - slope, weight - below, l2, low, high) - _value(slope, below, l2, low, high)
        if rise * sign < 0:
            continue
        gain = _worth(slope, below, l2, low, high) + _worth(total - slope, weight - below, l2, low, high) - parent
        if gain > g.found[part, child, F_GAIN]:
            _note(g.found[part, child], gain, feature, b, missing_left, named)


@njit(cache=True, nogil=True, error_model="numpy")
def _order_names(h, step, base, shift, unit, by_count, l2, order):
    """Categories with rows, by their own best value (Fisher, 1958); returns how many."""
    mask = (np.int64(1) << shift) - 1
    keys = np.empty(256)
    met = 0
    for b in range(256):
        at = base + b * step
        if h[at] == 0:
            continue
        weight = (h[at + 1] if step == 2 else h[at] & mask) * by_count
        key = (h[at] >> shift) * unit / max(weight + l2, 1e-300)
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
def _scan_names(g, h, step, base, feature, node, part, child):
    """Try the subsets of categories that can be best: the first few in the order of their values."""
    order = np.empty(256, np.int64)
    shift, l2 = g.whole[SHIFT], g.scale[L2]
    met = _order_names(h, step, base, shift, g.scale[GRADIENT_UNIT], g.scale[CURVATURE_UNIT], l2, order)
    mask = (np.int64(1) << shift) - 1
    rows = g.ints[node, STOP] - g.ints[node, START]
    total, weight = g.reals[node, GRADIENT], g.reals[node, CURVATURE]
    low, high = g.reals[node, LOW], g.reals[node, HIGH]
    parent = _worth(total, weight, l2, low, high)
    sums, curvature, place, none, named = np.int64(0), np.int64(0), -1, np.int64(0), np.int64(1)
    for i in range(met - 1):
        at = base + order[i] * step
        sums += h[at]
        left = sums & mask
        if step == 2:
            curvature += h[at + 1]
        slope = (sums >> shift) * g.scale[GRADIENT_UNIT]
        below = (curvature if step == 2 else left) * g.scale[CURVATURE_UNIT]
        few = min(left, rows - left) < g.whole[MIN_ROWS]
        if few or min(below, weight - below) < g.scale[MIN_CURVATURE]:
            continue
        gain = _worth(slope, below, l2, low, high) + _worth(total - slope, weight - below, l2, low, high) - parent
        if gain > g.found[part, child, F_GAIN]:
            place = i
            _note(g.found[part, child], gain, feature, i, none, named)
    if place >= 0:
        chosen = g.found_subset[part, child]
        for i in range(4):
            chosen[i] = 0
        for i in range(place + 1):
            chosen[order[i] >> 6] |= np.uint64(1) << np.uint64(order[i] & 63)


@njit(cache=True, nogil=True, error_model="numpy")
def _scan(g, node, part, child, low, high):
    """Best cut of a node over the columns of blocks ``low:high``."""
    h = g.hist[g.ints[node, SLOT]]
    step = g.whole[WORDS]
    bounded = g.reals[node, LOW] > -np.inf or g.reals[node, HIGH] < np.inf
    for feature in range(low * 8, min(high * 8, g.whole[COLUMNS])):
        if not g.asked[child, feature]:
            continue
        base = feature * 256 * step
        if g.named[feature]:
            _scan_names(g, h, step, base, feature, node, part, child)
            continue
        for missing_left in range(2):
            if missing_left and h[base + MISSING * step] == 0:
                break
            if bounded or g.signs[feature] != 0:
                _scan_bounded(g, h, step, base, feature, node, part, child, missing_left)
            else:
                _scan_numbers(g, h, step, base, feature, node, part, child, missing_left)


@njit(cache=True, nogil=True, error_model="numpy")
def work(g: Grower, part: int, low: int, high: int) -> None:
    """Histograms and best cuts of the two newest nodes (or of the root) over the columns of blocks ``low:high``."""
    small, large, step = g.control[SMALL], g.control[LARGE], g.whole[WORDS]
    hist = g.hist[g.ints[small, SLOT]]
    start, stop = g.ints[small, START], g.ints[small, STOP]
    if step == 1:
        _fill_one(g.words, g.rows, start, stop, g.ordered, hist, low, high, g.whole[COLUMNS])
    else:
        _fill_two(g.words, g.rows, start, stop, g.ordered, hist, low, high, g.whole[COLUMNS])
    if large >= 0:
        other = g.hist[g.ints[large, SLOT]]
        for i in range(low * 2048 * step, high * 2048 * step):
            other[i] -= hist[i]
    for child in range(2 if large >= 0 else 1):
        node = large if child else small
        g.found[part, child, F_GAIN] = g.scale[MIN_GAIN]
        g.found[part, child, F_FEATURE] = -1
        if g.ints[node, OPEN]:
            _scan(g, node, part, child, low, high)


@njit(cache=True, nogil=True, error_model="numpy")
def put_in_order(rows, first, second, ordered, start, stop, shift, step):
    """Copy gradients and curvatures of a node's rows side by side; returns their sums, in whole units."""
    slope, curvature = np.int64(0), np.int64(0)
    one = np.uint64(1)
    if step == 1:
        for i in range(start, stop):
            v = first[np.uint64(rows[i])]
            ordered[np.uint64(i - start)] = v
            slope += v >> shift
        return slope, stop - start
    for i in range(start, stop):
        r = np.uint64(rows[i])
        v, w = first[r], second[r]
        here = np.uint64(i - start) << one
        ordered[here], ordered[here + one] = v, w
        slope += v >> shift
        curvature += w
    return slope, curvature


@njit(cache=True, nogil=True, error_model="numpy")
def _totals(g, node):
    """Exact sums of gradient and curvature of a node, whose rows are put in order for its histogram."""
    start, stop = g.ints[node, START], g.ints[node, STOP]
    step, shift = g.whole[WORDS], g.whole[SHIFT]
    slope, curvature = put_in_order(g.rows, g.first, g.second, g.ordered, start, stop, shift, step)
    g.reals[node, GRADIENT] = slope * g.scale[GRADIENT_UNIT]
    g.reals[node, CURVATURE] = curvature * g.scale[CURVATURE_UNIT]


@njit(cache=True, nogil=True, error_model="numpy")
def ask(asked, whole, node):
    """Choose the columns that a node may ask about."""
    p, wanted = whole[COLUMNS], whole[MAX_FEATURES]
    state = np.uint64(whole[SEED]) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(node + 1)
    for j in range(p):  # selection sampling: column j is taken with probability wanted / remaining
        state += np.uint64(0x9E3779B97F4A7C15)
        z = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        draw = np.float64((z ^ (z >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53
        asked[j] = draw * (p - j) < wanted
        wanted -= asked[j]


@njit(cache=True, nogil=True, error_model="numpy")
def _new_node(ints, reals, control, whole, start, stop, depth, low, high):
    node = control[NODES]
    control[NODES] += 1
    row = ints[node]
    row[FEATURE], row[LEFT], row[SLOT] = -1, -1, -1
    row[START], row[STOP], row[DEPTH] = start, stop, depth
    row[MISSING_LEFT], row[NAMED] = 0, 0
    row[OPEN] = stop - start >= 2 * whole[MIN_ROWS] and depth < whole[MAX_DEPTH]
    reals[node, GAIN] = 0.0
    reals[node, LOW] = low
    reals[node, HIGH] = high
    return node


@njit(cache=True, nogil=True, error_model="numpy")
def _take_slot(ints, free, control, node):
    control[SLOTS] -= 1
    ints[node, SLOT] = free[control[SLOTS]]


@njit(cache=True, nogil=True, error_model="numpy")
def _give_slot(ints, free, control, node):
    free[control[SLOTS]] = ints[node, SLOT]
    control[SLOTS] += 1


@njit(cache=True, nogil=True, error_model="numpy")
def _settle(g, node, child, parts):
    """Keep the best of the cuts the parts found; a node without one gives its histogram back."""
    best = 0
    for part in range(1, parts):
        if g.found[part, child, F_GAIN] > g.found[best, child, F_GAIN]:
            best = part
    if g.found[best, child, F_FEATURE] < 0:
        _give_slot(g.ints, g.free, g.control, node)
        return
    g.ints[node, FEATURE] = np.int64(g.found[best, child, F_FEATURE])
    g.ints[node, BIN] = np.int64(g.found[best, child, F_BIN])
    g.ints[node, MISSING_LEFT] = np.int64(g.found[best, child, F_MISSING])
    g.ints[node, NAMED] = np.int64(g.found[best, child, F_NAMED])
    g.reals[node, GAIN] = g.found[best, child, F_GAIN]
    for i in range(4):
        g.subset[node, i] = g.found_subset[best, child, i]
    g.frontier[g.control[FREE]] = node
    g.control[FREE] += 1


@njit(cache=True, nogil=True, error_model="numpy")
def _next(g):
    """Take the node to cut next from the frontier: the best, with BY_DEPTH 1 the shallowest, with 2 the newest."""
    best = 0
    for i in range(1, g.control[FREE]):
        here, there = g.frontier[i], g.frontier[best]
        if g.whole[BY_DEPTH] == 1:
            if g.ints[here, DEPTH] < g.ints[there, DEPTH]:
                best = i
        elif g.whole[BY_DEPTH] == 2 or g.reals[here, GAIN] > g.reals[there, GAIN]:
            best = i
    node = g.frontier[best]
    g.control[FREE] -= 1
    for i in range(best, g.control[FREE]):
        g.frontier[i] = g.frontier[i + 1]
    return node


@njit(cache=True, nogil=True, error_model="numpy")
def _goes_left(code, place, missing_left, named, subset):
    if named:
        return (subset[code >> np.uint64(6)] >> (code & np.uint64(63))) & np.uint64(1)
    if code == np.uint64(MISSING):
        return np.uint64(missing_left)
    return np.uint64(code <= np.uint64(place))


@njit(cache=True, nogil=True, error_model="numpy")
def _partition(g, node):
    """Put the rows that go left first, both sides in their old order; returns where the right side starts."""
    start, stop, feature = g.ints[node, START], g.ints[node, STOP], g.ints[node, FEATURE]
    column = g.words[feature >> 3]
    shift = np.uint64(8 * (feature & 7))
    place, missing_left, named = g.ints[node, BIN], g.ints[node, MISSING_LEFT], g.ints[node, NAMED]
    subset, rows, spare = g.subset[node], g.rows, g.spare
    left, right = np.uint64(start), np.uint64(0)
    for i in range(start, stop):
        r = rows[i]
        code = (column[np.uint64(r)] >> shift) & np.uint64(255)
        side = _goes_left(code, place, missing_left, named, subset)
        rows[left] = r
        spare[right] = r
        left += side
        right += np.uint64(1) - side
    for i in range(right):
        rows[left + np.uint64(i)] = spare[i]
    return np.int64(left)


@njit(cache=True, nogil=True, error_model="numpy")
def _bounds(g, node, left, right):
    """Children along a monotone column keep to their own side of the middle of their values."""
    sign = g.signs[g.ints[node, FEATURE]]
    if sign == 0 or g.ints[node, NAMED]:
        return
    low, high, l2 = g.reals[node, LOW], g.reals[node, HIGH], g.scale[L2]
    a = _value(g.reals[left, GRADIENT], g.reals[left, CURVATURE], l2, low, high)
    b = _value(g.reals[right, GRADIENT], g.reals[right, CURVATURE], l2, low, high)
    middle = 0.5 * (a + b)
    lower, upper = (left, right) if sign > 0 else (right, left)
    g.reals[lower, HIGH] = middle
    g.reals[upper, LOW] = middle


@njit(cache=True, nogil=True, error_model="numpy")
def _cut(g, node):
    """Divide a node's rows among two children; the smaller will have its histogram filled."""
    start, stop, depth = g.ints[node, START], g.ints[node, STOP], g.ints[node, DEPTH]
    middle = _partition(g, node)
    low, high = g.reals[node, LOW], g.reals[node, HIGH]
    left = _new_node(g.ints, g.reals, g.control, g.whole, start, middle, depth + 1, low, high)
    right = _new_node(g.ints, g.reals, g.control, g.whole, middle, stop, depth + 1, low, high)
    g.ints[node, LEFT] = left
    small, large = (left, right) if middle - start <= stop - middle else (right, left)
    _totals(g, small)
    for column in (GRADIENT, CURVATURE):
        g.reals[large, column] = g.reals[node, column] - g.reals[small, column]
    _bounds(g, node, left, right)
    at = (g.ints[node, FEATURE] * 256 + MISSING) * g.whole[WORDS]
    if g.hist[g.ints[node, SLOT], at] == 0:  # no missing value was seen: the larger side takes those to come
        g.ints[node, MISSING_LEFT] = large == left
    elif g.ints[node, NAMED]:
        g.ints[node, MISSING_LEFT] = np.int64(g.subset[node, 3] >> np.uint64(63))
    g.ints[large, SLOT] = g.ints[node, SLOT]
    g.control[SMALL], g.control[LARGE] = small, large
    g.control[LEAVES] += 1


@njit(cache=True, nogil=True, error_model="numpy")
def advance(g: Grower, parts: int) -> bool:
    """Keep what ``work`` found and cut the next node; False when the tree is grown."""
    for child in range(1, -1, -1):  # the smaller last, so that the newest node is small: few histograms stay open
        node = g.control[LARGE] if child else g.control[SMALL]
        if node >= 0:
            _settle(g, node, child, parts)
    while g.control[FREE] > 0 and g.control[LEAVES] < g.whole[MAX_LEAVES]:
        node = _next(g)
        _cut(g, node)
        small, large = g.control[SMALL], g.control[LARGE]
        last = g.control[LEAVES] >= g.whole[MAX_LEAVES]
        if last or not (g.ints[small, OPEN] or g.ints[large, OPEN]):
            _give_slot(g.ints, g.free, g.control, large)  # nothing below can be cut: their histograms are not needed
            continue
        _take_slot(g.ints, g.free, g.control, small)
        for child in range(2):
            node = large if child else small
            ask(g.asked[child], g.whole, node)
        return True
    for i in range(g.control[FREE]):  # leaves that were not cut lose the cut they had in mind
        node = g.frontier[i]
        g.ints[node, FEATURE] = -1
        g.reals[node, GAIN] = 0.0
    return False


@njit(cache=True, nogil=True, error_model="numpy")
def leaf_of_rows(g: Grower, rows: np.ndarray, leaf: np.ndarray) -> None:
    """The node in which each of ``rows`` ends, read off its bins; for rows that took no part."""
    for i in range(len(rows)):
        r = np.uint64(rows[i])
        node = 0
        while g.ints[node, LEFT] >= 0:
            feature = g.ints[node, FEATURE]
            code = (g.words[feature >> 3, r] >> np.uint64(8 * (feature & 7))) & np.uint64(255)
            side = _goes_left(code, g.ints[node, BIN], g.ints[node, MISSING_LEFT], g.ints[node, NAMED], g.subset[node])
            node = g.ints[node, LEFT] + (0 if side else 1)
        leaf[i] = node
