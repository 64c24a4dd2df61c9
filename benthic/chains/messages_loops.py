"""Compiled messages along chains: sums over paths, best paths, and draws of paths.

Steps of all sequences lie one after the other. Sums are scaled to one at every step, which is quick; where that could
lose a state for good (because some moves are impossible, or nearly), a bound on what is lost is kept, and a sequence
that may lose something of weight is done over with logarithms.
"""

from __future__ import annotations

import numpy as np
from numba import njit

TINY = 1e-60  # moves at least this likely bring every state back at the next step, whatever was lost
_LOST = 1e-250  # what is less is dropped
_SMALL = 1e-150
_SEEN = 1e-220  # a state with more than this share is not changed by what was lost
_TOO_MUCH = -548.0  # logarithm of 1e-238: more than this may not be lost
_FAST = {"contract", "reassoc", "arcp"}


@njit(cache=True, nogil=True, fastmath=_FAST)
def forward_backward(start, weight, safe, likely, rows, offsets, begin, end, single, double, log_z):
    """Marginals of sequences ``begin`` to ``end``; log_z is NaN where logarithms are needed instead.

    start: (k,) and weight: (1 or total, k, k) are potentials of the first state and of the move into a step; safe:
    whether every weight is at least ``TINY``. likely: (.., k) potentials, of which each step has one of the ``rows``
    (total,); all of these up to factors.
    Writes single (total, k) and log_z (n,), with the factors left out; adds to double (1, k, k), or writes
    (total, k, k).
    """
    k = likely.shape[1]
    alpha = np.empty((_longest(offsets, begin, end), k))
    scale = np.empty(len(alpha))
    for n in range(begin, end):
        s, e = offsets[n], offsets[n + 1]
        log_z[n] = _forward(start, weight, safe, likely, rows, s, e, alpha, scale)
        if log_z[n] == log_z[n]:
            _backward(weight, likely, rows, s, e, alpha, scale, single, double)


@njit(cache=True, nogil=True)
def below_peaks(unary, peak, out):
    """The largest entry of each row, 0 if there is none, and the row less it."""
    k = unary.shape[1]
    for t in range(len(unary)):
        best = -np.inf
        for j in range(k):
            best = max(best, unary[t, j])
        best = 0.0 if best == -np.inf else best
        peak[t] = best
        for j in range(k):
            out[t, j] = unary[t, j] - best


@njit(cache=True, nogil=True)
def _longest(offsets, begin, end):
    longest = 0
    for n in range(begin, end):
        longest = max(longest, offsets[n + 1] - offsets[n])
    return longest


@njit(cache=True, nogil=True, fastmath=_FAST)
def _times(rows, r, w, out, q):
    """Row ``r`` times a matrix into row ``q``; four columns at a time stay in a register."""
    k = w.shape[0]
    j = 0
    while j + 4 <= k:
        c0, c1, c2, c3 = 0.0, 0.0, 0.0, 0.0
        for i in range(k):
            a = rows[r, i]
            c0 += a * w[i, j]
            c1 += a * w[i, j + 1]
            c2 += a * w[i, j + 2]
            c3 += a * w[i, j + 3]
        out[q, j], out[q, j + 1], out[q, j + 2], out[q, j + 3] = c0, c1, c2, c3
        j += 4
    while j < k:
        c0 = 0.0
        for i in range(k):
            c0 += rows[r, i] * w[i, j]
        out[q, j] = c0
        j += 1


@njit(cache=True, nogil=True)
def _watched(alpha, t, likely, row, c, dropped, lost):
    """A bound on the logarithm of all mass dropped so far, in units of the mass that was kept.

    Dropped mass grows at most by the largest likelihood of a state that has no mass to speak of; what flows into
    other states is too little to matter there.
    """
    largest = 1e-300
    for j in range(alpha.shape[1]):
        if alpha[t, j] < _SEEN * c:
            largest = max(largest, likely[row, j])
    lost += np.log(largest) - np.log(c)
    if dropped:
        fresh = np.log(_LOST * alpha.shape[1] / c)
        lost = max(lost, fresh) + np.log(2.0)
    return lost


@njit(cache=True, nogil=True, fastmath=_FAST)
def _forward(start, weight, safe, likely, rows, s, e, alpha, scale):
    """Filtered probabilities; their log-normalizer, or NaN if a state was lost."""
    k = likely.shape[1]
    many = weight.shape[0] > 1
    total, product, lost = 0.0, 1.0, -np.inf
    for j in range(k):
        alpha[0, j] = start[j]
    for t in range(e - s):
        if t > 0:
            _times(alpha, t - 1, weight[s + t] if many else weight[0], alpha, t)
        c, dropped = 0.0, False
        row = rows[s + t]
        for j in range(k):
            p = alpha[t, j] * likely[row, j]
            if p < _LOST:
                dropped |= alpha[t, j] > 0.0
                p = 0.0
            alpha[t, j] = p
            c += p
        if c < _SMALL:
            return np.nan
        if not safe:
            lost = _watched(alpha, t, likely, row, c, dropped, lost)
            if lost > _TOO_MUCH:
                return np.nan
        scale[t] = 1.0 / c
        product *= c
        if product < _SMALL:  # a logarithm now and then is cheaper than one a step
            total += np.log(product)
            product = 1.0
        for j in range(k):
            alpha[t, j] *= scale[t]
    return total + np.log(product)


@njit(cache=True, nogil=True, fastmath=_FAST)
def _backward(weight, likely, rows, s, e, alpha, scale, single, double):
    """Marginals of steps and of moves, from the last step to the first."""
    k = alpha.shape[1]
    many = weight.shape[0] > 1
    message = np.ones((1, k))
    ahead = np.empty((1, k))
    sums = np.zeros((k, k))
    turned = np.ascontiguousarray(weight[0].T)
    for j in range(k):
        single[e - 1, j] = alpha[e - s - 1, j]
    for t in range(e - s - 1, 0, -1):
        row = rows[s + t]
        for j in range(k):
            ahead[0, j] = likely[row, j] * message[0, j] * scale[t]
        if many:
            turned[:] = weight[s + t].T
        if double.shape[0] > 1 or many:
            _moves(alpha, turned, ahead, s, t, double)
        else:
            for i in range(k):
                a = alpha[t - 1, i]
                for j in range(k):
                    sums[i, j] += a * ahead[0, j]
        _times(ahead, 0, turned, message, 0)
        _meet(alpha, t - 1, message, single, s + t - 1)
    if double.shape[0] == 1 and not many:
        for i in range(k):
            for j in range(k):
                double[0, i, j] += sums[i, j] * weight[0, i, j]


@njit(cache=True, nogil=True, fastmath=_FAST)
def _meet(alpha, t, message, single, row):
    """The marginals of one step from what comes forward and backward."""
    for i in range(alpha.shape[1]):
        a = alpha[t, i]
        if a <= 0.0:  # a state that cannot be has no say, and its message may overflow
            message[0, i] = 0.0
        single[row, i] = a * message[0, i]


@njit(cache=True, nogil=True, fastmath=_FAST)
def _moves(alpha, turned, ahead, s, t, double):
    """Marginals of one move, apart or added to those of the others."""
    apart = double.shape[0] > 1
    k = len(turned)
    for i in range(k):
        for j in range(k):
            p = alpha[t - 1, i] * turned[j, i] * ahead[0, j]
            if apart:
                double[s + t, i, j] = p
            else:
                double[0, i, j] += p


@njit(cache=True, nogil=True, fastmath=_FAST)
def partition(start, weight, safe, likely, rows, offsets, begin, end, log_z):
    """Only the log-normalizers of sequences ``begin`` to ``end``."""
    alpha = np.empty((_longest(offsets, begin, end), likely.shape[1]))
    scale = np.empty(len(alpha))
    for n in range(begin, end):
        log_z[n] = _forward(start, weight, safe, likely, rows, offsets[n], offsets[n + 1], alpha, scale)


@njit(cache=True, nogil=True)
def _log_sum(values):
    best = -np.inf
    for value in values:
        best = max(best, value)
    if best == -np.inf:
        return best
    total = 0.0
    for value in values:
        total += np.exp(value - best)
    return best + np.log(total)


@njit(cache=True, nogil=True)
def forward_backward_logs(first, pair, unary, s, e, single, double, at):
    """The same marginals of steps ``s`` to ``e`` by logarithms; zeros if no path is possible.

    first, pair, unary: logarithms, of ``unary`` only these steps (e - s, k). at: row of ``double`` (.., k, k) to add
    to, or -1 to write the row of each step.
    """
    k = unary.shape[1]
    alpha = forward_logs(first, pair, unary, s, 0, e - s)
    log_z = _log_sum(alpha[e - s - 1])
    possible = log_z > -np.inf
    beta = np.zeros(k)
    terms = np.empty((k, k))
    for t in range(e - s - 1, -1, -1):
        for j in range(k):
            single[s + t, j] = np.exp(alpha[t, j] + beta[j] - log_z) if possible else 0.0
        if t == 0:
            break
        w = pair[s + t] if pair.shape[0] > 1 else pair[0]
        row = at if at >= 0 else s + t
        for i in range(k):
            for j in range(k):
                terms[i, j] = w[i, j] + unary[t, j] + beta[j]
                p = np.exp(alpha[t - 1, i] + terms[i, j] - log_z) if possible else 0.0
                double[row, i, j] = p if at < 0 else double[row, i, j] + p
        for i in range(k):
            beta[i] = _log_sum(terms[i])
    return log_z


@njit(cache=True, nogil=True)
def forward_logs(first, pair, unary, s, begin, end):
    """Log-sums over all paths that end in each state, (end - begin, k).

    unary: rows ``begin`` to ``end`` are the sequence's; its moves are those into steps ``s`` onward.
    """
    k = unary.shape[1]
    many = pair.shape[0] > 1
    alpha = np.empty((end - begin, k))
    terms = np.empty(k)
    for j in range(k):
        alpha[0, j] = first[j] + unary[begin, j]
    for t in range(1, end - begin):
        w = pair[s + t] if many else pair[0]
        for j in range(k):
            for i in range(k):
                terms[i] = alpha[t - 1, i] + w[i, j]
            alpha[t, j] = _log_sum(terms) + unary[begin + t, j]
    return alpha


@njit(cache=True, nogil=True)
def best_paths(first, pair, unary, offsets, begin, end, path, score):
    """The path of largest potential of each sequence; of equal ones the lower state numbers. Viterbi, 1967."""
    k = unary.shape[1]
    many = pair.shape[0] > 1
    came = np.empty((_longest(offsets, begin, end), k), dtype=np.int32)
    value = np.empty(k)
    nxt = np.empty(k)
    for n in range(begin, end):
        s, e = offsets[n], offsets[n + 1]
        for j in range(k):
            value[j] = first[j] + unary[s, j]
        for t in range(1, e - s):
            w = pair[s + t] if many else pair[0]
            for j in range(k):
                best, arg = value[0] + w[0, j], 0
                for i in range(1, k):
                    v = value[i] + w[i, j]
                    if v > best:
                        best, arg = v, i
                nxt[j] = best + unary[s + t, j]
                came[t, j] = arg
            value[:] = nxt
        state = 0
        for j in range(1, k):
            if value[j] > value[state]:
                state = j
        score[n] = value[state]
        for t in range(e - s - 1, 0, -1):
            path[s + t] = state
            state = came[t, state]
        path[s] = state


@njit(cache=True, nogil=True)
def drawn_paths(first, pair, unary, offsets, begin, end, level, path, log_z):
    """A path of each sequence drawn by its probability: sums forward, draws backward.

    level: (total,) uniform numbers in [0, 1).
    """
    k = unary.shape[1]
    many = pair.shape[0] > 1
    terms = np.empty(k)
    for n in range(begin, end):
        s, e = offsets[n], offsets[n + 1]
        alpha = forward_logs(first, pair, unary, s, s, e)
        log_z[n] = _log_sum(alpha[e - s - 1])
        state = -1
        for t in range(e - s - 1, -1, -1):
            for i in range(k):
                terms[i] = alpha[t, i]
                if state >= 0:
                    terms[i] += pair[s + t + 1, i, state] if many else pair[0, i, state]
            state = _drawn(terms, level[s + t])
            path[s + t] = state


@njit(cache=True, nogil=True)
def _drawn(logs, level):
    """The index at which the cumulative probability passes ``level``; -1 has none to choose from."""
    total = _log_sum(logs)
    passed, last = 0.0, 0
    for i in range(len(logs)):
        if logs[i] == -np.inf:
            continue
        last = i
        passed += np.exp(logs[i] - total)
        if level < passed:
            return i
    return last
