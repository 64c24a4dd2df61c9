"""Trees grown on histograms of binned columns: the compiled part of gradient boosting.

Every row has a gradient and a curvature. A histogram holds their sums in every bin of every column; the best cut of
a node is read off its histogram (Ke et al., 2017). Sums are whole numbers: gradients are rounded to as many bits as
the number of rows leaves free in a word of 64, and share that word with the count of rows, so that one addition
does for both, the order of additions does not matter, and a child's histogram is its parent's less its sibling's,
exactly. Curvatures have a word of their own, or share the one word, both then rounded up or down at random, which
is right on average (Shi et al., 2022). Leaf values do not come from here but from the rows themselves.

One thread leads: it chooses what is done next, and every thread does its share of it, of the rows or of the columns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from benthic.trees.signals import met, post, prefetch

MISSING = 255
# columns of Grower.ints
FEATURE, BIN, LEFT, START, STOP, DEPTH, SLOT, MISSING_LEFT, NAMED, OPEN = range(10)
# columns of Grower.reals
GRADIENT, CURVATURE, GAIN, LOW, HIGH = range(5)
# entries of Grower.control
NODES, LEAVES, SMALL, LARGE, FREE, SLOTS, CUTTING, STAGE = range(8)
# entries of Grower.whole
MIN_ROWS, MAX_DEPTH, MAX_LEAVES, BY_DEPTH, MAX_FEATURES, SEED, COLUMNS, WORDS, SHIFT, LIFT, TOP = range(11)
# entries of Grower.scale
GRADIENT_UNIT, CURVATURE_UNIT, L2, MIN_CURVATURE, MIN_GAIN = range(5)
# entries of Grower.found
F_GAIN, F_FEATURE, F_BIN, F_MISSING, F_NAMED = range(5)
# what threads do together, and how the first line of Grower.meeting and the others are used
WAIT, PART, DIVIDE, ORDER, SEARCH, PLANT = range(6)
TURN, TASK = range(2)
DONE, SLOPE, BEND, PLACE = range(4)
AHEAD = 32  # rows between the one that is read and the one that is fetched
_FEW_ROWS = 4096  # below which one thread does what is divided by rows


class Grower(NamedTuple):
    """All that a tree needs while it grows; allocated once for many trees.

    words: (B, n) eight columns of bins each. rows, spare: row numbers, those of a node side by side, and some
    zeros. first: (n,) gradient and count of a row in one number, with its curvature between them or not; second:
    (n,) its curvature, if not all are the same. ordered: both, side by side, for the rows of the node whose
    histogram is next. hist: (slots, columns * 256 * words). ints, reals, subset: the nodes. control: counters.
    frontier, free: nodes that can be cut, slots that are free. found, found_subset: best cuts by part and child.
    bins, named, signs: (p,) bins, whether a column holds categories, its monotone sign. asked: (2, p) columns that
    a child may ask about. whole, scale: settings. ends: blocks of words where the parts of the threads end.
    meeting: what threads tell each other, a cache line each.

    A word is gradient << TOP, curvature << LIFT and count added up, the count below SHIFT. Where all curvatures are
    the same, LIFT is 0: the count is the curvature.
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
    ends: np.ndarray
    meeting: np.ndarray


@njit(cache=True, nogil=True, error_model="numpy")
def pack_gradients(
    gradient: np.ndarray,
    curvature: np.ndarray,
    units: np.ndarray,
    whole: np.ndarray,
    turn: int,
    first: np.ndarray,
    second: np.ndarray,
    start: int,
    stop: int,
) -> None:
    """Gradients and curvatures as whole numbers of their units; a gradient carries a count of one row.

    In one word they are rounded up or down at random, by row and ``turn``; in two words to the nearest.
    """
    by_gradient, by_curvature = 1.0 / units[0], 1.0 / units[1]
    lift, top = whole[LIFT], whole[TOP]
    if lift == 0:
        for i in range(start, stop):
            first[i] = (np.int64(np.rint(gradient[i] * by_gradient)) << top) + 1
        if whole[WORDS] == 2:
            for i in range(start, stop):
                second[i] = np.int64(np.rint(curvature[i] * by_curvature))
        return
    for i in range(start, stop):
        z = (np.uint64(turn) << np.uint64(40)) + np.uint64(i + 1)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
        slope = np.floor(gradient[i] * by_gradient + np.float64(z >> np.uint64(32)) * 2.0**-32)
        bend = np.floor(curvature[i] * by_curvature + np.float64(z & np.uint64(0xFFFFFFFF)) * 2.0**-32)
        first[i] = (np.int64(slope) << top) + (np.int64(bend) << lift) + 1


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
            prefetch(column, np.uint64(rows[np.uint64(i + AHEAD)]))
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
            prefetch(column, np.uint64(rows[np.uint64(i + AHEAD)]))
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
def _scan_numbers(h, base, feature, bins, ints, reals, whole, scale, missing_left, found):
    """Try every edge of a column; missing values go to one side. Columns free of constraints."""
    step, top, lift = whole[WORDS], whole[TOP], whole[LIFT]
    mask, field = (np.int64(1) << whole[SHIFT]) - 1, (np.int64(1) << (top - lift)) - 1
    absent = h[base + MISSING * step]
    last = bins - 1
    if absent != 0 and not missing_left:
        last += 1  # the cut between what is there and what is not
    rows, total, weight = ints[STOP] - ints[START], reals[GRADIENT], reals[CURVATURE]
    unit, by_count, l2 = scale[GRADIENT_UNIT], scale[CURVATURE_UNIT], scale[L2]
    least, fewest = scale[MIN_CURVATURE], whole[MIN_ROWS]
    sums = absent if missing_left else np.int64(0)
    curvature = h[base + MISSING * step + 1] if missing_left and step == 2 else np.int64(0)
    place, named = np.int64(-1), np.int64(0)
    parent = total * total / (weight + l2)
    bar = found[F_GAIN] + parent  # what the two children must bring
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
        slope = (sums >> top) * unit
        below = (curvature if step == 2 else (sums >> lift) & field) * by_count
        other, above = total - slope, weight - below
        if below < least or above < least:
            continue
        below += l2
        above += l2
        worth = slope * slope * above + other * other * below
        if worth > bar * (below * above):
            bar, place = worth / (below * above), b
    if place >= 0:
        _note(found, bar - parent, feature, place, missing_left, named)


@njit(cache=True, nogil=True, error_model="numpy")
def _gain(sums, curvature, left, ints, reals, whole, scale, sign):
    """What a cut gains whose left side has these sums, where values are bounded; -1 where it is not allowed."""
    rows, total, weight = ints[STOP] - ints[START], reals[GRADIENT], reals[CURVATURE]
    low, high, l2 = reals[LOW], reals[HIGH], scale[L2]
    slope, below = (sums >> whole[TOP]) * scale[GRADIENT_UNIT], curvature * scale[CURVATURE_UNIT]
    if min(left, rows - left) < whole[MIN_ROWS] or min(below, weight - below) < scale[MIN_CURVATURE]:
        return -1.0
    rise = _value(total - slope, weight - below, l2, low, high) - _value(slope, below, l2, low, high)
    if rise * sign < 0:
        return -1.0
    both = _worth(slope, below, l2, low, high) + _worth(total - slope, weight - below, l2, low, high)
    return both - _worth(total, weight, l2, low, high)


@njit(cache=True, nogil=True, error_model="numpy")
def _scan_bounded(h, base, feature, bins, ints, reals, whole, scale, missing_left, found, sign):
    """Try every edge of a column where values are bounded, or must not fall (or rise) along the column."""
    step, lift = whole[WORDS], whole[LIFT]
    mask, field = (np.int64(1) << whole[SHIFT]) - 1, (np.int64(1) << (whole[TOP] - lift)) - 1
    absent = h[base + MISSING * step]
    last = bins - 1
    if absent != 0 and not missing_left:
        last += 1
    sums = absent if missing_left else np.int64(0)
    curvature = h[base + MISSING * step + 1] if missing_left and step == 2 else np.int64(0)
    named = np.int64(0)
    for b in range(last):
        at = base + b * step
        if h[at] == 0:
            continue
        sums += h[at]
        curvature = curvature + h[at + 1] if step == 2 else (sums >> lift) & field
        gain = _gain(sums, curvature, sums & mask, ints, reals, whole, scale, sign)
        if gain > found[F_GAIN]:
            _note(found, gain, feature, b, missing_left, named)


@njit(cache=True, nogil=True, error_model="numpy")
def _order_names(h, base, whole, scale, order):
    """Categories with rows, by their own best value (Fisher, 1958); returns how many."""
    step, lift, top = whole[WORDS], whole[LIFT], whole[TOP]
    field = (np.int64(1) << (top - lift)) - 1
    keys = np.empty(256)
    found = 0
    for b in range(256):
        at = base + b * step
        if h[at] == 0:
            continue
        weight = (h[at + 1] if step == 2 else (h[at] >> lift) & field) * scale[CURVATURE_UNIT]
        key = (h[at] >> top) * scale[GRADIENT_UNIT] / max(weight + scale[L2], 1e-300)
        i = found
        while i > 0 and keys[i - 1] > key:
            keys[i] = keys[i - 1]
            order[i] = order[i - 1]
            i -= 1
        keys[i] = key
        order[i] = b
        found += 1
    return found


@njit(cache=True, nogil=True, error_model="numpy")
def _scan_names(h, base, feature, ints, reals, whole, scale, found, chosen):
    """Try the subsets of categories that can be best: the first few in the order of their values."""
    order = np.empty(256, np.int64)
    step, lift = whole[WORDS], whole[LIFT]
    mask, field = (np.int64(1) << whole[SHIFT]) - 1, (np.int64(1) << (whole[TOP] - lift)) - 1
    count = _order_names(h, base, whole, scale, order)
    sums, curvature, place, none, named = np.int64(0), np.int64(0), -1, np.int64(0), np.int64(1)
    for i in range(count - 1):
        at = base + order[i] * step
        sums += h[at]
        curvature = curvature + h[at + 1] if step == 2 else (sums >> lift) & field
        gain = _gain(sums, curvature, sums & mask, ints, reals, whole, scale, none)
        if gain > found[F_GAIN]:
            place = i
            _note(found, gain, feature, i, none, named)
    if place >= 0:
        for i in range(4):
            chosen[i] = 0
        for i in range(place + 1):
            chosen[order[i] >> 6] |= np.uint64(1) << np.uint64(order[i] & 63)


@njit(cache=True, nogil=True, error_model="numpy")
def _scan(h, ints, reals, bins, names, signs, asked, whole, scale, found, chosen, low, high):
    """Best cut of a node over the columns of blocks ``low:high``."""
    found[F_GAIN], found[F_FEATURE] = scale[MIN_GAIN], -1
    bounded = reals[LOW] > -np.inf or reals[HIGH] < np.inf
    for feature in range(low * 8, min(high * 8, whole[COLUMNS])):
        if not asked[feature]:
            continue
        base = feature * 256 * whole[WORDS]
        if names[feature]:
            _scan_names(h, base, feature, ints, reals, whole, scale, found, chosen)
            continue
        for side in range(2):
            if side and h[base + MISSING * whole[WORDS]] == 0:
                break
            if bounded or signs[feature] != 0:
                sign = signs[feature]
                _scan_bounded(h, base, feature, bins[feature], ints, reals, whole, scale, side, found, sign)
            else:
                _scan_numbers(h, base, feature, bins[feature], ints, reals, whole, scale, side, found)


@njit(cache=True, nogil=True, error_model="numpy")
def _fill(words, rows, ordered, hists, ints, control, whole, low, high):
    """Histograms of the two newest nodes (or of the root) over the columns of blocks ``low:high``."""
    small, large, step = control[SMALL], control[LARGE], whole[WORDS]
    hist = hists[ints[small, SLOT]]
    start, stop = ints[small, START], ints[small, STOP]
    if step == 1:
        _fill_one(words, rows, start, stop, ordered, hist, low, high, whole[COLUMNS])
    else:
        _fill_two(words, rows, start, stop, ordered, hist, low, high, whole[COLUMNS])
    if large >= 0:
        other = hists[ints[large, SLOT]]
        for i in range(low * 2048 * step, high * 2048 * step):
            other[i] -= hist[i]


@njit(cache=True, nogil=True, error_model="numpy")
def _search(g, part, low, high):
    """Histograms and best cuts of the two newest nodes (or of the root) over the columns of blocks ``low:high``."""
    ints, reals, hists, control, whole, scale = g.ints, g.reals, g.hist, g.control, g.whole, g.scale
    bins, names, signs, found, chosen = g.bins, g.named, g.signs, g.found[part], g.found_subset[part]
    _fill(g.words, g.rows, g.ordered, hists, ints, control, whole, low, high)
    for child in range(2):
        node, asked = control[LARGE] if child else control[SMALL], g.asked[child]
        best, names_left = found[child], chosen[child]
        if node < 0 or not ints[node, OPEN]:
            best[F_GAIN], best[F_FEATURE] = scale[MIN_GAIN], -1
            continue
        h, whats, sums = hists[ints[node, SLOT]], ints[node], reals[node]
        _scan(h, whats, sums, bins, names, signs, asked, whole, scale, best, names_left, low, high)


@njit(cache=True, nogil=True, error_model="numpy")
def _put_in_order(rows, first, second, ordered, ints, whole, part, parts, mine):
    """Copy a share of the gradients and curvatures of a node side by side, and add them up."""
    start, low, high = _share(ints, part, parts)
    slope, curvature, one = np.int64(0), np.int64(0), np.uint64(1)
    top, lift, step = whole[TOP], whole[LIFT], whole[WORDS]
    field = (np.int64(1) << (top - lift)) - 1
    for i in range(low, high):
        r = np.uint64(rows[i])
        prefetch(first, np.uint64(rows[np.uint64(i + AHEAD)]))
        v = first[r]
        slope += v >> top
        if step == 1:
            ordered[np.uint64(i - start)] = v
            curvature += (v >> lift) & field
        else:
            here = np.uint64(i - start) << one
            ordered[here], ordered[here + one] = v, second[r]
            curvature += second[r]
    mine[SLOPE], mine[BEND] = slope, curvature


@njit(cache=True, nogil=True, error_model="numpy")
def _share(ints, part, parts):
    """Where a node's rows start, and where a thread's share of them starts and stops."""
    start, stop = ints[START], ints[STOP]
    return start, start + (stop - start) * part // parts, start + (stop - start) * (part + 1) // parts


@njit(cache=True, nogil=True, error_model="numpy")
def _total(ints, reals, control, scale, signs, meeting, parts):
    """Exact sums of gradient and curvature of the smaller child; the larger has the rest."""
    slope, curvature = np.int64(0), np.int64(0)
    for part in range(parts):
        slope += meeting[part + 1, SLOPE]
        curvature += meeting[part + 1, BEND]
    small, large, node = control[SMALL], control[LARGE], control[CUTTING]
    reals[small, GRADIENT] = slope * scale[GRADIENT_UNIT]
    reals[small, CURVATURE] = curvature * scale[CURVATURE_UNIT]
    if large >= 0:
        reals[large, GRADIENT] = reals[node, GRADIENT] - reals[small, GRADIENT]
        reals[large, CURVATURE] = reals[node, CURVATURE] - reals[small, CURVATURE]
        if signs[ints[node, FEATURE]] != 0 and not ints[node, NAMED]:
            _bounds(reals, scale[L2], node, ints[node, LEFT], signs[ints[node, FEATURE]])


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
def _settle(ints, reals, subset, control, frontier, free, found, chosen, node, child):
    """Keep the best of the cuts the parts found; a node without one gives its histogram back."""
    best = 0
    for part in range(1, len(found)):
        if found[part, child, F_GAIN] > found[best, child, F_GAIN]:
            best = part
    if found[best, child, F_FEATURE] < 0:
        _give_slot(ints, free, control, node)
        return
    ints[node, FEATURE] = np.int64(found[best, child, F_FEATURE])
    ints[node, BIN] = np.int64(found[best, child, F_BIN])
    ints[node, MISSING_LEFT] = np.int64(found[best, child, F_MISSING])
    ints[node, NAMED] = np.int64(found[best, child, F_NAMED])
    reals[node, GAIN] = found[best, child, F_GAIN]
    for i in range(4):
        subset[node, i] = chosen[best, child, i]
    frontier[control[FREE]] = node
    control[FREE] += 1


@njit(cache=True, nogil=True, error_model="numpy")
def _next(ints, reals, control, frontier, how):
    """Take the node to cut next from the frontier: the best, with ``how`` 1 the shallowest, with 2 the newest."""
    best = 0
    for i in range(1, control[FREE]):
        here, there = frontier[i], frontier[best]
        if how == 1:
            if ints[here, DEPTH] < ints[there, DEPTH]:
                best = i
        elif how == 2 or reals[here, GAIN] > reals[there, GAIN]:
            best = i
    node = frontier[best]
    control[FREE] -= 1
    for i in range(best, control[FREE]):
        frontier[i] = frontier[i + 1]
    return node


@njit(cache=True, nogil=True, error_model="numpy")
def _goes_left(code, place, missing_left, named, subset):
    if named:
        return (subset[code >> np.uint64(6)] >> (code & np.uint64(63))) & np.uint64(1)
    if code == np.uint64(MISSING):
        return np.uint64(missing_left)
    return np.uint64(code <= np.uint64(place))


@njit(cache=True, nogil=True, error_model="numpy")
def _divide(words, rows, spare, ints, subset, part, parts, mine):
    """Put the rows of a share that go left first, and those that go right into ``spare``, in their old order."""
    _, low, high = _share(ints, part, parts)
    column, shift = words[ints[FEATURE] >> 3], np.uint64(8 * (ints[FEATURE] & 7))
    place, missing_left, named = ints[BIN], ints[MISSING_LEFT], ints[NAMED]
    left, right = np.uint64(low), np.uint64(low)
    for i in range(low, high):
        prefetch(column, np.uint64(rows[np.uint64(i + AHEAD)]))
        r = rows[i]
        code = (column[np.uint64(r)] >> shift) & np.uint64(255)
        side = _goes_left(code, place, missing_left, named, subset)
        rows[left] = r
        spare[right] = r
        left += side
        right += np.uint64(1) - side
    mine[PLACE] = np.int64(left)


@njit(cache=True, nogil=True, error_model="numpy")
def _join(rows, spare, ints, meeting, parts):
    """Put the shares that ``_divide`` made one after the other; returns where the right side starts."""
    middle = meeting[1, PLACE]
    for part in range(1, parts):
        _, low, _ = _share(ints, part, parts)
        for i in range(low, meeting[part + 1, PLACE]):
            rows[middle] = rows[i]
            middle += 1
    at = middle
    for part in range(parts):
        _, low, high = _share(ints, part, parts)
        for i in range(low, low + high - meeting[part + 1, PLACE]):
            rows[at] = spare[i]
            at += 1
    return middle


@njit(cache=True, nogil=True, error_model="numpy")
def _bounds(reals, l2, node, left, sign):
    """Children along a monotone column keep to their own side of the middle of their values."""
    low, high, right = reals[node, LOW], reals[node, HIGH], left + 1
    a = _value(reals[left, GRADIENT], reals[left, CURVATURE], l2, low, high)
    b = _value(reals[right, GRADIENT], reals[right, CURVATURE], l2, low, high)
    lower, upper = (left, right) if sign > 0 else (right, left)
    reals[lower, HIGH] = 0.5 * (a + b)
    reals[upper, LOW] = 0.5 * (a + b)


@njit(cache=True, nogil=True, error_model="numpy")
def _cut(ints, reals, subset, control, whole, hist, middle):
    """Make the two children of a node whose rows are divided; the smaller will have its histogram filled."""
    node = control[CUTTING]
    start, stop, depth = ints[node, START], ints[node, STOP], ints[node, DEPTH]
    low, high = reals[node, LOW], reals[node, HIGH]
    left = _new_node(ints, reals, control, whole, start, middle, depth + 1, low, high)
    right = _new_node(ints, reals, control, whole, middle, stop, depth + 1, low, high)
    ints[node, LEFT] = left
    small, large = (left, right) if middle - start <= stop - middle else (right, left)
    at = (ints[node, FEATURE] * 256 + MISSING) * whole[WORDS]
    if hist[ints[node, SLOT], at] == 0:  # no missing value was seen: the larger side takes those to come
        ints[node, MISSING_LEFT] = large == left
    elif ints[node, NAMED]:
        ints[node, MISSING_LEFT] = np.int64(subset[node, 3] >> np.uint64(63))
    ints[large, SLOT] = ints[node, SLOT]
    control[SMALL], control[LARGE] = small, large
    control[LEAVES] += 1


@njit(cache=True, nogil=True, error_model="numpy")
def _pick(ints, reals, control, frontier, whole):
    """Choose the next node to cut; PART when the tree is grown."""
    if control[FREE] > 0 and control[LEAVES] < whole[MAX_LEAVES]:
        control[CUTTING] = _next(ints, reals, control, frontier, whole[BY_DEPTH])
        return DIVIDE
    for i in range(control[FREE]):  # leaves that were not cut lose the cut they had in mind
        ints[frontier[i], FEATURE] = -1
        reals[frontier[i], GAIN] = 0.0
    return PART


@njit(cache=True, nogil=True, error_model="numpy")
def _prepare(ints, control, free, asked, whole):
    """Give the smaller child a histogram; False where nothing below the two can be cut, so that none is needed."""
    small, large = control[SMALL], control[LARGE]
    if large >= 0:
        if control[LEAVES] >= whole[MAX_LEAVES] or not (ints[small, OPEN] or ints[large, OPEN]):
            _give_slot(ints, free, control, large)
            return False
        _take_slot(ints, free, control, small)
        ask(asked[1], whole, large)
    ask(asked[0], whole, small)
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def _next_task(g, parts):
    """What all threads do next, after all have done the task before; PART when the tree is grown."""
    ints, reals, control, whole, frontier, free = g.ints, g.reals, g.control, g.whole, g.frontier, g.free
    before = control[STAGE]
    used = parts if _worth_sharing(ints, control, before) else 1
    if before == PLANT:
        return ORDER
    if before == DIVIDE:
        middle = _join(g.rows, g.spare, ints[control[CUTTING]], g.meeting, used)
        _cut(ints, reals, g.subset, control, whole, g.hist, middle)
        return ORDER
    if before == ORDER:
        _total(ints, reals, control, g.scale, g.signs, g.meeting, used)
        if _prepare(ints, control, free, g.asked, whole):
            return SEARCH
        return _pick(ints, reals, control, frontier, whole)
    for child in range(1, -1, -1):  # the smaller last, so that the newest node is small: few histograms stay open
        node = control[LARGE] if child else control[SMALL]
        if node >= 0:
            _settle(ints, reals, g.subset, control, frontier, free, g.found, g.found_subset, node, child)
    return _pick(ints, reals, control, frontier, whole)


@njit(cache=True, nogil=True, error_model="numpy")
def _worth_sharing(ints, control, task):
    node = control[CUTTING] if task == DIVIDE else control[SMALL]
    return task == SEARCH or ints[node, STOP] - ints[node, START] >= _FEW_ROWS


@njit(cache=True, nogil=True, error_model="numpy")
def _do(g, task, part, parts):
    """A thread's part of a task."""
    mine = g.meeting[part + 1]
    if task == DIVIDE:
        node = g.control[CUTTING]
        _divide(g.words, g.rows, g.spare, g.ints[node], g.subset[node], part, parts, mine)
    elif task == ORDER:
        small = g.ints[g.control[SMALL]]
        _put_in_order(g.rows, g.first, g.second, g.ordered, small, g.whole, part, parts, mine)
    else:
        _search(g, part, g.ends[part], g.ends[part + 1])


@njit(cache=True, nogil=True, error_model="numpy")
def _lead(g, parts):
    """Once all have done the last task, give out the next; WAIT when one of them lets wait long."""
    meeting, control = g.meeting, g.control
    turn = meeting[0, TURN]
    for part in range(1, parts):
        if not met(meeting[part + 1], DONE, turn):
            return WAIT
    task = _next_task(g, parts)
    control[STAGE] = task
    if task == PART:
        part_all(meeting)
    elif parts > 1 and _worth_sharing(g.ints, control, task):
        meeting[0, TASK] = task
        post(meeting[0], TURN, turn + 1)
    return task


@njit(cache=True, nogil=True, error_model="numpy")
def part_all(meeting: np.ndarray) -> None:
    """Tell the threads that follow that the tree is grown, or given up."""
    meeting[0, TASK] = PART
    post(meeting[0], TURN, meeting[0, TURN] + 1)


@njit(cache=True, nogil=True, error_model="numpy")
def take_part(g: Grower, part: int, parts: int) -> bool:
    """Do the tasks of a part until the tree is grown, part 0 leading; False when others let wait long: call again."""
    meeting, mine = g.meeting, g.meeting[part + 1]
    while True:
        if part == 0:
            task = _lead(g, parts)
        else:
            task = meeting[0, TASK] if met(meeting[0], TURN, mine[DONE] + 1) else np.int64(WAIT)
        if task < DIVIDE:
            mine[DONE] += part > 0 and task == PART
            return task == PART
        _do(g, task, part, parts if part > 0 or _worth_sharing(g.ints, g.control, task) else 1)
        if part > 0:
            post(mine, DONE, mine[DONE] + 1)


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
