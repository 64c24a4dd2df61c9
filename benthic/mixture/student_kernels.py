"""Compiled sums of products of Student's t: rows in blocks that stay in the nearest cache."""

from __future__ import annotations

import numpy as np
from numba import njit

_BLOCK = 256  # rows at a time
_TOGETHER = 8  # factors multiplied before a logarithm is taken; in the units of the table none reaches 1e30


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "arcp", "nsz"})
def _log_(values: np.ndarray, bits: np.ndarray, n: int) -> None:
    """The logarithm of n positive normal numbers in place; ``bits`` is the same memory as whole numbers.

    The exponent by shifting, the rest by the series of the inverse hyperbolic tangent about 1, to 4e-16.
    """
    for i in range(n):
        raw = bits[i]
        lifted = raw + 0x95F6400000000  # carries into the exponent where the mantissa is above the square root of 2
        power = (lifted >> 52) - 1023
        bits[i] = raw - (power << 52)
        m = values[i]
        s = (m - 1.0) / (m + 1.0)
        q = s * s
        series = 1.0 / 21
        series = series * q + 1.0 / 19
        series = series * q + 1.0 / 17
        series = series * q + 1.0 / 15
        series = series * q + 1.0 / 13
        series = series * q + 1.0 / 11
        series = series * q + 1.0 / 9
        series = series * q + 1.0 / 7
        series = series * q + 1.0 / 5
        series = series * q + 1.0 / 3
        values[i] = power * 0.6931471805599453 + 2.0 * (s + s * q * series)


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "arcp", "nsz"})
def log_densities(
    Z: np.ndarray,
    mean: np.ndarray,
    inverse: np.ndarray,
    half: np.ndarray,
    constant: np.ndarray,
    shared: bool,
    out: np.ndarray,
) -> None:
    """Log-densities ``out`` (k, n) of rows Z (n, c) under products of t.

    mean: (k, c). inverse: (k, c) 1 / (ν scale²). half: (k, c) (ν + 1) / 2. constant: (k,). shared: whether a
    component has one ν for all columns, so that their factors can be multiplied before the logarithm.
    """
    (k, c), n = mean.shape, len(Z)
    turned = np.empty((c, _BLOCK))
    factor = np.empty(_BLOCK)
    bits = factor.view(np.int64)
    total = np.empty(_BLOCK)
    for first in range(0, n, _BLOCK):
        size = min(_BLOCK, n - first)
        for b in range(size):
            for j in range(c):
                turned[j, b] = Z[first + b, j]
        for i in range(k):
            for b in range(size):
                total[b] = constant[i]
                factor[b] = 1.0
            for j in range(c):
                m, v = mean[i, j], inverse[i, j]
                row = turned[j]
                for b in range(size):
                    e = row[b] - m
                    factor[b] *= 1.0 + e * e * v
                if not shared or j % _TOGETHER == _TOGETHER - 1 or j == c - 1:
                    _log_(factor, bits, size)
                    h = half[i, j]
                    for b in range(size):
                        total[b] -= h * factor[b]
                        factor[b] = 1.0
            for b in range(size):
                out[i, first + b] = total[b]


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "arcp", "nsz"})
def moments(
    Z: np.ndarray,
    shares: np.ndarray,
    mean: np.ndarray,
    inverse: np.ndarray,
    gain: np.ndarray,
    learn: bool,
    out: np.ndarray,
) -> None:
    """Add r u, r u e, r u e² and, if ``learn``, r log u to ``out`` (4, k, c), with e = z − mean.

    shares: (k, n). gain: (k, c) (ν + 1) / ν, so that u is gain / (1 + e² inverse).
    """
    (k, c), n = mean.shape, len(Z)
    turned = np.empty((c, _BLOCK))
    factor = np.empty(_BLOCK)
    bits = factor.view(np.int64)
    for first in range(0, n, _BLOCK):
        size = min(_BLOCK, n - first)
        for b in range(size):
            for j in range(c):
                turned[j, b] = Z[first + b, j]
        for i in range(k):
            share = shares[i, first : first + size]
            for j in range(c):
                m, v = mean[i, j], inverse[i, j]
                row = turned[j]
                mass, one, two = 0.0, 0.0, 0.0
                for b in range(size):
                    e = row[b] - m
                    w = share[b] / (1.0 + e * e * v)
                    mass += w
                    one += w * e
                    two += w * e * e
                g = gain[i, j]
                out[0, i, j] += g * mass
                out[1, i, j] += g * one
                out[2, i, j] += g * two
                if learn:
                    for b in range(size):
                        e = row[b] - m
                        factor[b] = 1.0 + e * e * v
                    _log_(factor, bits, size)
                    lost, held = 0.0, 0.0
                    for b in range(size):
                        lost += share[b] * factor[b]
                        held += share[b]
                    out[3, i, j] += held * np.log(g) - lost
