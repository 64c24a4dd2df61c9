"""Growth of a binary tree by exact splits: columns are sorted once, and their order is parted at every split.

Breiman, Friedman, Olshen & Stone, 1984. Kernels and what they call stand in one file, since numba's cache does not
notice changes elsewhere.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

# What only kernels call needs no way in from Python, which shortens its compilation.
_inner = njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)

GINI, ENTROPY, SQUARES = range(3)
# Columns of the whole numbers and of the real numbers kept of each node.
FEATURE, LEFT, RIGHT, MISSING_LEFT, DEPTH, START, END, SUBSET, PARENT = range(9)
THRESHOLD, WEIGHT, IMPURITY, GAIN = range(4)
_TIE = 1e-12  # gains closer than this share of the node's total count as equal; the first feature wins


class Rows(NamedTuple):
    """The data of a tree.

    X: (d, n) a row for each attribute, NaN where missing. categories: (d,) how many, 0 for numbers. codes: (n,)
    classes. Y: (n, m) numbers to predict; overwritten. weight: (n,). table: v log2 v for whole v, from 0 on.
    """

    X: Any
    categories: Any
    codes: Any
    Y: Any
    weight: Any
    table: Any


class Limits(NamedTuple):
    """When to stop. max_depth and max_leaves are -1 for no limit."""

    criterion: int
    components: int
    max_depth: int
    max_leaves: int
    min_split: int
    min_leaf: int
    max_features: int
    min_weight: float
    min_decrease: float
    random: bool


@_inner
def _uniform(state: Any) -> float:
    """A number in [0, 1) by xorshift (Marsaglia, 2003)."""
    x = state[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    state[0] = x
    return (x >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@_inner
def _x_log_x(value: float, table: Any) -> float:
    """Value times its logarithm, looked up where the value is a whole number."""
    if value < len(table) and value == int(value):
        return table[int(value)]
    return value * math.log2(value) if value > 0.0 else 0.0


@_inner
def _score(total: Any, left: Any, sign: float, weight: float, rows: Rows, criterion: int) -> float:
    """Minus the impurity times the weight of ``sign * total - left``, up to a constant that all parts share."""
    score = 0.0
    for j in range(total.shape[0]):
        value = abs(sign * total[j] - left[j])
        score += _x_log_x(value, rows.table) if criterion == ENTROPY else value * value
    return score - _x_log_x(weight, rows.table) if criterion == ENTROPY else score / weight


@_inner
def _add(sums: Any, r: int, rows: Rows, criterion: int) -> None:
    if criterion == SQUARES:
        for j in range(sums.shape[0]):
            sums[j] += rows.weight[r] * rows.Y[r, j]
    else:
        sums[rows.codes[r]] += rows.weight[r]


class Span(NamedTuple):
    """The sorted rows start:stop of a column, and what already lies left and right of them.

    left_weight, left_rows: what is left before the scan (missing values). right_rows: missing values at the right.
    weight: of all. at: the only threshold to try, NaN for all. tie: what counts as equal.
    """

    start: int
    stop: int
    left_weight: float
    left_rows: int
    right_rows: int
    weight: float
    at: float
    tie: float


@_inner
def _scan_gini(x: Any, order: Any, span: Span, rows: Rows, total: Any, left: Any, limits: Limits) -> tuple[float, int]:
    """The best score and place to cut sorted rows, by running sums of squares. ``left`` is overwritten."""
    codes, w, start, stop, extra = rows.codes, rows.weight, span.start, span.stop, span.right_rows
    square, rest = 0.0, 0.0
    for j in range(total.shape[0]):
        square += left[j] * left[j]
        rest += (total[j] - left[j]) ** 2
    best, place, wl, at = -np.inf, -1, span.left_weight, span.at
    here = x[order[start]]
    for i in range(start, stop if extra > 0 else stop - 1):
        r = order[i]
        wi, before = w[r], left[codes[r]]
        square += wi * (2.0 * before + wi)
        rest -= wi * (2.0 * (total[codes[r]] - before) - wi)
        left[codes[r]] = before + wi
        wl += wi
        following = x[order[i + 1]] if i + 1 < stop else np.inf
        if following > here and (at != at or (here <= at and at < following)):
            score = square / wl + rest / (span.weight - wl)
            if score > best + span.tie and _allowed(span, limits, wl, i):
                best, place = score, i
        here = following
    return best, place


@_inner
def _scan_squares(
    x: Any, order: Any, span: Span, rows: Rows, total: Any, left: Any, limits: Limits
) -> tuple[float, int]:
    """The same for one number to predict."""
    y, w, start, stop, extra = rows.Y, rows.weight, span.start, span.stop, span.right_rows
    best, place, wl, at = -np.inf, -1, span.left_weight, span.at
    low, all_of = left[0], total[0]
    here = x[order[start]]
    for i in range(start, stop if extra > 0 else stop - 1):
        r = order[i]
        low += w[r] * y[r, 0]
        wl += w[r]
        following = x[order[i + 1]] if i + 1 < stop else np.inf
        if following > here and (at != at or (here <= at and at < following)):
            score = low * low / wl + (all_of - low) * (all_of - low) / (span.weight - wl)
            if score > best + span.tie and _allowed(span, limits, wl, i):
                best, place = score, i
        here = following
    return best, place


@_inner
def _scan_any(x: Any, order: Any, span: Span, rows: Rows, total: Any, left: Any, limits: Limits) -> tuple[float, int]:
    """The same for any criterion and any number of targets, the sums weighed anew at every boundary."""
    start, stop, extra, criterion = span.start, span.stop, span.right_rows, limits.criterion
    best, place, wl, at = -np.inf, -1, span.left_weight, span.at
    here = x[order[start]]
    for i in range(start, stop if extra > 0 else stop - 1):
        _add(left, order[i], rows, criterion)
        wl += rows.weight[order[i]]
        following = x[order[i + 1]] if i + 1 < stop else np.inf
        if following > here and (at != at or (here <= at and at < following)):
            score = _score(total, left, 0.0, wl, rows, criterion)
            score += _score(total, left, 1.0, span.weight - wl, rows, criterion)
            if score > best + span.tie and _allowed(span, limits, wl, i):
                best, place = score, i
        here = following
    return best, place


@_inner
def _allowed(span: Span, limits: Limits, left_weight: float, place: int) -> bool:
    """Whether both sides of a cut after ``place`` have rows and weight enough."""
    left = span.left_rows + place - span.start + 1
    right = span.stop - 1 - place + span.right_rows
    light = min(left_weight, span.weight - left_weight)
    return left >= limits.min_leaf and right >= limits.min_leaf and light >= limits.min_weight


@njit(inline="always")
def _scan(x: Any, order: Any, span: Span, rows: Rows, total: Any, left: Any, limits: Limits) -> tuple[float, int]:
    if limits.criterion == GINI:
        return _scan_gini(x, order, span, rows, total, left, limits)
    if limits.criterion == SQUARES and limits.components == 1:
        return _scan_squares(x, order, span, rows, total, left, limits)
    return _scan_any(x, order, span, rows, total, left, limits)


@njit(inline="always")
def _middle(x: Any, order: Any, place: int, stop: int) -> float:
    """The threshold of a cut after ``place``: halfway to the next value, infinity before missing values."""
    if place + 1 >= stop:
        return np.inf
    low, high = x[order[place]], x[order[place + 1]]
    middle = 0.5 * low + 0.5 * high
    return low if middle >= high else middle


@_inner
def _number_split(
    f: int, start: int, end: int, rows: Rows, order: Any, total: Any, limits: Limits, state: Any, tie: float
) -> tuple[bool, float, float, bool]:
    """The best threshold of a column of numbers: whether it varies, score, threshold, whether missing go left."""
    x, line, stop, weight = rows.X[f], order[f], end, 0.0
    while stop > start and math.isnan(x[line[stop - 1]]):
        stop -= 1
    missing, low, high = end - stop, x[line[start]], x[line[max(stop - 1, start)]]
    if stop == start or (missing == 0 and low == high):
        return False, -np.inf, 0.0, False
    at = np.nan
    if limits.random:
        at = low + (high - low) * _uniform(state)
        at = low if at >= high else at
    for i in range(start, end):
        weight += rows.weight[line[i]]
    left, lost = np.zeros(limits.components), 0.0
    best, place, to_left = -np.inf, -1, False
    for trial in range(2 if missing > 0 else 1):  # missing values to the right, then to the left
        left[:] = 0.0
        if trial == 1:
            for i in range(stop, end):
                _add(left, line[i], rows, limits.criterion)
                lost += rows.weight[line[i]]
        span = Span(start, stop, lost, missing * trial, missing * (1 - trial), weight, at, tie)
        score, where = _scan(x, line, span, rows, total, left, limits)
        if score > best + tie:
            best, place, to_left = score, where, trial == 1
    if missing == 0:
        to_left = 2 * (place + 1 - start) > end - start  # rows that lack the value later follow the larger side
    if place < 0:
        return True, -np.inf, 0.0, False
    inside = place + 1 < stop
    return True, best, at if inside and limits.random else _middle(x, line, place, stop), to_left


@njit(inline="always")
def _tally(f: int, start: int, end: int, rows: Rows, order: Any, limits: Limits) -> tuple[Any, Any, Any]:
    """Sums, weights and rows of every category of a column in a node; missing is the last."""
    slots = rows.categories[f] + 1
    sums, weights, counts = np.zeros((slots, limits.components)), np.zeros(slots), np.zeros(slots, np.int64)
    for i in range(start, end):
        r = order[0, i]
        value = rows.X[f, r]
        slot = slots - 1 if math.isnan(value) else int(value)
        _add(sums[slot], r, rows, limits.criterion)
        weights[slot] += rows.weight[r]
        counts[slot] += 1
    return sums, weights, counts


@_inner
def _rank(keys: Any, items: Any) -> None:
    """Sort ``items`` by ``keys[item]`` (Shell, 1959)."""
    gap = len(items) // 2
    while gap > 0:
        for i in range(gap, len(items)):
            item, k = items[i], i
            while k >= gap and keys[items[k - gap]] > keys[item]:
                items[k] = items[k - gap]
                k -= gap
            items[k] = item
        gap //= 2


@njit(inline="always")
def _cut_categories(
    ranked: Any, sums: Any, weights: Any, counts: Any, total: Any, rows: Rows, limits: Limits, least: float
) -> tuple[float, int]:
    """The best score above ``least`` and place to cut ranked categories; the place is -1 if there is none."""
    weight, n = 0.0, 0
    for slot in ranked:
        weight += weights[slot]
        n += counts[slot]
    left, wl, n_left, best, place = np.zeros(limits.components), 0.0, 0, least, -1
    for cut in range(len(ranked) - 1):
        slot = ranked[cut]
        for j in range(limits.components):
            left[j] += sums[slot, j]
        wl += weights[slot]
        n_left += counts[slot]
        if min(n_left, n - n_left) < limits.min_leaf or min(wl, weight - wl) < limits.min_weight:
            continue
        score = _score(total, left, 0.0, wl, rows, limits.criterion)
        score += _score(total, left, 1.0, weight - wl, rows, limits.criterion)
        if score > best:
            best, place = score, cut
    return best, place


@_inner
def _category_split(
    f: int, start: int, end: int, rows: Rows, order: Any, total: Any, limits: Limits, tie: float, members: Any
) -> tuple[bool, float]:
    """The best set of categories to go left: whether they vary, and the score; ``members`` says
    0 for right, 1 for left, 2 for those that no row has.

    Categories are ranked by their mean and cut as numbers are, which is exact for two classes and for one number
    (Fisher, 1958; Breiman et al., 1984, theorem 4.5); for more classes every class against the rest is tried.
    """
    sums, weights, counts = _tally(f, start, end, rows, order, limits)
    present = np.zeros(len(counts), np.int64)
    several = 0
    for slot in range(len(counts)):
        if counts[slot] > 0:
            present[several] = slot
            several += 1
    present = present[:several]
    best, keys = -np.inf, np.zeros(len(weights))
    if several < 2:
        return False, best
    first = 1 if limits.criterion != SQUARES and limits.components == 2 else 0
    for j in range(first, limits.components):
        for slot in present:
            keys[slot] = sums[slot, j] / weights[slot]
        _rank(keys, present)
        score, place = _cut_categories(present, sums, weights, counts, total, rows, limits, best + tie)
        if place >= 0:
            best = score
            for slot in range(len(counts)):
                members[slot] = 0 if counts[slot] > 0 else 2
            for cut in range(place + 1):
                members[present[cut]] = 1
    return True, best


@njit(inline="always")
def _spread(start: int, end: int, rows: Rows, order: Any, total: Any, weight: float, limits: Limits) -> float:
    """The impurity of a node. Numbers are first shifted to mean zero in the node, so that no digits cancel."""
    impurity = 0.0
    if limits.criterion == GINI:
        for value in total:
            impurity += value / weight * (1.0 - value / weight)
        return impurity
    if limits.criterion == ENTROPY:
        return max(-_score(total, total, 0.0, weight, rows, limits.criterion) / weight, 0.0)
    for i in range(start, end):
        r = order[0, i]
        for j in range(limits.components):
            rows.Y[r, j] -= total[j] / weight
            impurity += rows.weight[r] * rows.Y[r, j] ** 2
    return impurity / (weight * limits.components)


@njit(inline="always")
def _search(
    node: int, rows: Rows, limits: Limits, order: Any, ints: Any, floats: Any, total: Any, work: Any, state: Any
) -> bool:
    """Write the best split of a node into its row; whether there is one whose gain suffices.

    work: (2, slots + d) the categories that go left in the first line; the second line ends with the features.
    """
    start, end, d = ints[node, START], ints[node, END], len(rows.X)
    tie = _TIE * floats[node, WEIGHT]
    if limits.criterion == SQUARES:
        tie *= limits.components * floats[node, IMPURITY]
    best, seen, features = -np.inf, 0, work[1, -d:]
    for k in range(d):
        if limits.max_features < d or limits.random:
            other = k + int(_uniform(state) * (d - k))
            features[k], features[other] = features[other], features[k]
        f = features[k]
        if rows.categories[f] > 0:
            threshold, to_left = 0.0, False
            varies, score = _category_split(f, start, end, rows, order, total, limits, tie, work[1, :-d])
        else:
            varies, score, threshold, to_left = _number_split(f, start, end, rows, order, total, limits, state, tie)
        if score > best + tie:
            best = score
            ints[node, FEATURE], ints[node, MISSING_LEFT], floats[node, THRESHOLD] = f, int(to_left), threshold
            for slot in range(rows.categories[f] + 1):
                work[0, slot] = work[1, slot]
        seen += int(varies)
        if seen >= limits.max_features:
            break
    gain = best - _score(total, total, 0.0, floats[node, WEIGHT], rows, limits.criterion)
    gain /= floats[0, WEIGHT] * (limits.components if limits.criterion == SQUARES else 1)
    floats[node, GAIN] = max(gain, 0.0)
    return ints[node, FEATURE] >= 0 and floats[node, GAIN] + 2.3e-16 >= limits.min_decrease


@njit(inline="always")
def _mark(node: int, rows: Rows, order: Any, ints: Any, floats: Any, subsets: Any, goes: Any) -> int:
    """Write into ``goes`` which rows of a node go left; returns how many."""
    f, threshold, count = ints[node, FEATURE], floats[node, THRESHOLD], 0
    categorical = rows.categories[f] > 0
    for i in range(ints[node, START], ints[node, END]):
        r = order[0, i]
        value = rows.X[f, r]
        if categorical:
            left = subsets[ints[node, SUBSET], rows.categories[f] if math.isnan(value) else int(value)] == 1
        elif math.isnan(value):
            left = ints[node, MISSING_LEFT] == 1
        else:
            left = value <= threshold
        goes[r] = left
        count += left
    return count


@_inner
def _part(line: Any, start: int, end: int, goes: Any, buffer: Any) -> None:
    """Rows that go left before the others, both in the order they had."""
    a, b = start, 0
    for i in range(start, end):
        r = line[i]
        g = goes[r]
        line[a] = r
        buffer[b] = r
        a += g
        b += 1 - g
    for i in range(b):
        line[a + i] = buffer[i]


@_inner
def _open(node: int, rows: Rows, limits: Limits, order: Any, ints: Any, floats: Any, values: Any, total: Any) -> bool:
    """Fill in what a new node holds, its sums in ``total``; whether it may be split."""
    start, end, weight = ints[node, START], ints[node, END], 0.0
    total[:] = 0.0
    for i in range(start, end):
        _add(total, order[0, i], rows, limits.criterion)
        weight += rows.weight[order[0, i]]
    impurity = _spread(start, end, rows, order, total, weight, limits)
    for j in range(limits.components):
        values[node, j] = total[j]
        if limits.criterion == SQUARES:
            values[node, j] = total[j] / weight + (values[ints[node, PARENT], j] if node > 0 else 0.0)
            total[j] = 0.0
    floats[node, WEIGHT], floats[node, IMPURITY] = weight, impurity
    ints[node, FEATURE] = ints[node, LEFT] = ints[node, RIGHT] = ints[node, SUBSET] = -1
    return (
        end - start >= max(limits.min_split, 2 * limits.min_leaf)
        and impurity > 1e-15 * floats[0, IMPURITY]
        and (limits.max_depth < 0 or ints[node, DEPTH] < limits.max_depth)
    )


@njit(inline="always")
def _pick(frontier: Any, count: int, floats: Any, best_first: bool) -> int:
    """Take the next node to split off the frontier: the newest, or that of the largest gain."""
    chosen = count - 1
    if best_first:
        for i in range(count):
            if floats[frontier[i], GAIN] > floats[frontier[chosen], GAIN]:
                chosen = i
    node = frontier[chosen]
    for i in range(chosen, count - 1):
        frontier[i] = frontier[i + 1]
    return node


@njit(inline="always")
def _children(node: int, count: int, n_left: int, ints: Any) -> None:
    """Two new nodes ``count`` and ``count + 1`` below ``node``, over the rows that it had."""
    start, end = ints[node, START], ints[node, END]
    ints[node, LEFT], ints[node, RIGHT] = count, count + 1
    for child in (count, count + 1):
        ints[child, DEPTH], ints[child, PARENT] = ints[node, DEPTH] + 1, node
        ints[child, START] = start if child == count else start + n_left
        ints[child, END] = start + n_left if child == count else end


@njit(cache=True, nogil=True)
def grow(
    rows: Rows, limits: Limits, order: Any, state: Any, ints: Any, floats: Any, values: Any, subsets: Any
) -> tuple[int, int]:
    """Fill in the nodes of a tree, parents before children. Returns how many nodes and sets of categories there are.

    order: (d, n) the rows of every column in increasing order, missing last; it is overwritten. state: (1,) of the
    random numbers, not zero. ints: (most, 9), floats: (most, 4), values: (most, m) of the nodes. subsets: (most,
    slots) the categories that go left, a line for each split of categories.
    """
    d, n = rows.X.shape
    goes, buffer, totals = np.zeros(n, np.uint8), np.zeros(n, np.int32), np.zeros((2, limits.components))
    work, frontier = np.zeros((2, subsets.shape[1] + d), np.int64), np.zeros(len(ints), np.int64)
    for f in range(d):
        work[1, subsets.shape[1] + f] = f
    ints[0, START], ints[0, END], ints[0, DEPTH], ints[0, PARENT] = 0, n, 0, -1
    floats[0, IMPURITY] = 0.0
    fresh, used, waiting = ints[0, START], ints[0, START], ints[0, START]
    count, leaves = fresh + 1, fresh + 1
    splittable = np.zeros(2, np.bool_)
    splittable[0] = _open(fresh, rows, limits, order, ints, floats, values, totals[0])
    while True:
        for child in range(count - 1, fresh - 1, -1):  # the newest nodes, the left one last so that it comes first
            if splittable[child - fresh] and _search(
                child, rows, limits, order, ints, floats, totals[child - fresh], work, state
            ):
                if rows.categories[ints[child, FEATURE]] > 0:
                    for slot in range(subsets.shape[1]):
                        subsets[used, slot] = work[0, slot]
                    ints[child, SUBSET], used = used, used + 1
                frontier[waiting] = child
                waiting += 1
            else:
                ints[child, FEATURE] = -1
        if waiting == 0 or leaves == limits.max_leaves:
            break
        node = _pick(frontier, waiting, floats, limits.max_leaves > 0)
        start, end, waiting, fresh = ints[node, START], ints[node, END], waiting - 1, count
        _children(node, count, _mark(node, rows, order, ints, floats, subsets, goes), ints)
        _part(order[0], start, end, goes, buffer)
        for side in range(2):
            splittable[side] = _open(fresh + side, rows, limits, order, ints, floats, values, totals[side])
        if splittable[0] or splittable[1]:
            for f in range(1, d):
                _part(order[f], start, end, goes, buffer)
        count, leaves = count + 2, leaves + 1
    for i in range(waiting):
        ints[frontier[i], FEATURE] = -1
    return count, used
