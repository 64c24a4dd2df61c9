"""Compiled sums over steps for what hidden states emit."""

from __future__ import annotations

from numba import njit

_FAST = {"contract", "reassoc"}


@njit(cache=True, nogil=True, fastmath=_FAST)
def diagonal_log_prob(values, means, scales, terms, constants, out):
    """Log-densities of diagonal Gaussians, gaps (NaN) left out.

    values: (t, d). means, scales, terms: (d, c) means, inverse deviations, logarithms of deviations with their share
    of the constant. constants: (c,) added. out: (t, c).
    """
    c = len(constants)
    d = values.shape[1]
    for t in range(len(values)):
        for j in range(c):
            out[t, j] = constants[j]
        for a in range(d):
            x = values[t, a]
            if x == x:
                for j in range(c):
                    z = (x - means[a, j]) * scales[a, j]
                    out[t, j] -= 0.5 * z * z + terms[a, j]


@njit(cache=True, nogil=True, fastmath=_FAST)
def diagonal_sums(values, shares, means, mass, first, second):
    """Add weights, differences from the means and their squares over observed entries to (d, c) sums each."""
    c = shares.shape[1]
    d = values.shape[1]
    for t in range(len(values)):
        for a in range(d):
            x = values[t, a]
            if x == x:
                for j in range(c):
                    gap = x - means[a, j]
                    part = shares[t, j] * gap
                    mass[a, j] += shares[t, j]
                    first[a, j] += part
                    second[a, j] += part * gap


@njit(cache=True, nogil=True)
def symbol_counts(codes, shares, counts):
    """Add the shares (t, k) of each step to the row of its symbol, (m, k); missing symbols (-1) add nothing."""
    k = shares.shape[1]
    for t in range(len(codes)):
        code = codes[t]
        if code >= 0:
            for j in range(k):
                counts[code, j] += shares[t, j]


@njit(cache=True, nogil=True)
def walk(start, moves, level, length, path):
    """States of n paths of the same length, one after the other, by cumulative probabilities and uniform numbers."""
    k = len(start)
    for s in range(0, len(path), length):
        state = 0
        while state < k - 1 and level[s] >= start[state]:
            state += 1
        path[s] = state
        for t in range(s + 1, s + length):
            after = 0
            while after < k - 1 and level[t] >= moves[state, after]:
                after += 1
            state = after
            path[t] = state
