"""Compiled EM: shares of components, products of Student's t, exponential families; tiles stay in the nearest cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

_TILE = 256  # rows at a time
_ROOM = 290.0  # decades that a product of factors may take before its logarithm
_LEAST = -600.0  # logarithm of the least share: what is next to nothing stays a normal number, which is quicker


@intrinsic
def _bits(context: Any, number: Any) -> tuple[Any, Callable[..., Any]]:
    """The 64 bits of a float64 as a whole number."""
    return types.int64(types.float64), _same_bits


@intrinsic
def _number(context: Any, bits: Any) -> tuple[Any, Callable[..., Any]]:
    """The float64 with these bits."""
    return types.float64(types.int64), _same_bits


def _same_bits(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    return builder.bitcast(values[0], context.get_value_type(signature.return_type))


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "arcp", "nsz"})
def _log(x: float) -> float:
    """The logarithm of a positive normal number, without a branch.

    The exponent by shifting, the rest by the series of the inverse hyperbolic tangent about 1, to 4e-16.
    """
    raw = _bits(x)
    lifted = raw + 0x95F6400000000  # carries into the exponent where the mantissa is above the square root of 2
    power = (lifted >> 52) - 1023
    m = _number(raw - (power << 52))
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
    whole = np.float64(np.int32(power)) + (x - x)  # what is not finite must not look like a number
    return whole * 0.6931471805599453 + 2.0 * (s + s * q * series)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def _exp(x: float) -> float:
    """The exponential of a number from -700 to 700, without a branch: powers of two, and Taylor's series."""
    power = np.floor(x * 1.4426950408889634 + 0.5)
    r = (x - power * 0.693147180369123816490) - power * 1.90821492927058770002e-10
    series = 1.0 / 479001600
    series = series * r + 1.0 / 39916800
    series = series * r + 1.0 / 3628800
    series = series * r + 1.0 / 362880
    series = series * r + 1.0 / 40320
    series = series * r + 1.0 / 5040
    series = series * r + 1.0 / 720
    series = series * r + 1.0 / 120
    series = series * r + 1.0 / 24
    series = series * r + 1.0 / 6
    series = series * r + 0.5
    series = series * r + 1.0
    series = series * r + 1.0
    return series * _number((np.int64(np.int32(power)) + 1023) << 52)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "arcp", "nsz"})
def _share_out(joint: np.ndarray, first: int, offset: np.ndarray, scale: np.ndarray, work: np.ndarray) -> float:
    """``shares_of`` for a tile that begins at ``first``, with weights ``scale`` (size,). work: memory (2, size)."""
    k, size = len(joint), len(scale)
    top, total = work[0], work[1]
    for b in range(size):
        top[b] = -np.inf
        total[b] = 0.0
    for i in range(k):
        row, shift = joint[i, first : first + size], offset[i]
        for b in range(size):
            x = row[b] + shift
            row[b] = x
            top[b] = top[b] if top[b] > x else x
    for i in range(k):
        row = joint[i, first : first + size]
        for b in range(size):
            x = row[b] - top[b]
            x = _exp(_LEAST if x < _LEAST else x)
            row[b] = x
            total[b] += x
    log_likelihood = 0.0
    for b in range(size):
        log_likelihood += scale[b] * (_log(total[b]) + top[b])
        total[b] = scale[b] / total[b]
    for i in range(k):
        row = joint[i, first : first + size]
        for b in range(size):
            row[b] *= total[b]
    return log_likelihood


@njit(cache=True, nogil=True)
def shares_of(joint: np.ndarray, offset: np.ndarray, weight: np.ndarray) -> float:
    """Turn log-densities (k, n), with ``offset`` (k,) added, into weighted shares in place.

    weight: (n,), or (0,) for ones. Returns the log-likelihood.
    """
    n, log_likelihood = joint.shape[1], 0.0
    ones, work = np.ones(_TILE), np.empty((2, _TILE))
    for first in range(0, n, _TILE):
        size = min(_TILE, n - first)
        scale = weight[first : first + size] if len(weight) else ones[:size]
        log_likelihood += _share_out(joint, first, offset, scale, work)
    return log_likelihood


@njit(cache=True, nogil=True)
def _together(mean: np.ndarray, inverse: np.ndarray, half: np.ndarray, reach: float) -> int:
    """How many factors of a component can be multiplied without overflow; one where the exponents differ."""
    largest = 1.0
    for j in range(len(mean)):
        if half[j] != half[0]:
            return 1
        largest = max(largest, 1.0 + (reach + abs(mean[j])) ** 2 * inverse[j])
    return max(1, int(_ROOM / max(np.log10(largest), 1e-3)))


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "arcp", "nsz"})
def _multiply(tile: np.ndarray, mean: np.ndarray, inverse: np.ndarray, size: int, factor: np.ndarray) -> None:
    """Multiply ``factor`` (size,) by 1 + (z − mean)² inverse of all rows of ``tile`` (c, size)."""
    c = len(mean)
    fours = c - c % 4
    for j in range(0, fours, 4):
        m0, m1, m2, m3 = mean[j], mean[j + 1], mean[j + 2], mean[j + 3]
        v0, v1, v2, v3 = inverse[j], inverse[j + 1], inverse[j + 2], inverse[j + 3]
        z0, z1, z2, z3 = tile[j], tile[j + 1], tile[j + 2], tile[j + 3]
        for b in range(size):
            e0, e1, e2, e3 = z0[b] - m0, z1[b] - m1, z2[b] - m2, z3[b] - m3
            one = (1.0 + e0 * e0 * v0) * (1.0 + e1 * e1 * v1)
            two = (1.0 + e2 * e2 * v2) * (1.0 + e3 * e3 * v3)
            factor[b] *= one * two
    for j in range(fours, c):
        m, v, z = mean[j], inverse[j], tile[j]
        for b in range(size):
            e = z[b] - m
            factor[b] *= 1.0 + e * e * v


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "arcp", "nsz"})
def _log_tile(
    tile: np.ndarray,
    mean: np.ndarray,
    inverse: np.ndarray,
    half: np.ndarray,
    step: int,
    row: np.ndarray,
    factor: np.ndarray,
) -> None:
    """Take the logarithms of one component's factors of a tile (c, size), ``step`` columns at once, from ``row``."""
    c, size = len(mean), len(row)
    for j in range(0, c, step):
        stop = min(c, j + step)
        factor[:] = 1.0
        _multiply(tile[j:stop], mean[j:stop], inverse[j:stop], size, factor)
        h = half[j]
        for b in range(size):
            row[b] -= h * _log(factor[b])


@njit(cache=True, nogil=True)
def log_densities(
    Z: np.ndarray,
    mean: np.ndarray,
    inverse: np.ndarray,
    half: np.ndarray,
    constant: np.ndarray,
    reach: float,
    out: np.ndarray,
) -> None:
    """Log-densities ``out`` (k, n) of columns Z (c, n) under products of t.

    mean: (k, c). inverse: (k, c) 1 / (ν scale²). half: (k, c) (ν + 1) / 2. constant: (k,). reach: how far from 0 the
    numbers of Z lie at most, which tells how many factors can be multiplied before the logarithm.
    """
    (k, c), n = mean.shape, Z.shape[1]
    tile, factor = np.empty((c, _TILE)), np.empty(_TILE)
    steps = [min(c, _together(mean[i], inverse[i], half[i], reach)) for i in range(k)]
    for first in range(0, n, _TILE):
        size = min(_TILE, n - first)
        for j in range(c):
            tile[j, :size] = Z[j, first : first + size]
        for i in range(k):
            row = out[i, first : first + size]
            row[:] = constant[i]
            _log_tile(tile, mean[i], inverse[i], half[i], steps[i], row, factor)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "arcp", "nsz"})
def _add_four(
    tile: np.ndarray, share: np.ndarray, mean: np.ndarray, inverse: np.ndarray, out: np.ndarray, size: int, j: int
) -> None:
    """Add sums of w, w e and w e² of columns j to j + 3 to ``out`` (4, c), with w = share / (1 + e² inverse).

    The four weights come from one division: the share by the product of all factors.
    """
    m0, m1, m2, m3 = mean[j], mean[j + 1], mean[j + 2], mean[j + 3]
    v0, v1, v2, v3 = inverse[j], inverse[j + 1], inverse[j + 2], inverse[j + 3]
    z0, z1, z2, z3 = tile[j], tile[j + 1], tile[j + 2], tile[j + 3]
    mass0, mass1, mass2, mass3 = 0.0, 0.0, 0.0, 0.0
    one0, one1, one2, one3 = 0.0, 0.0, 0.0, 0.0
    two0, two1, two2, two3 = 0.0, 0.0, 0.0, 0.0
    for b in range(size):
        e0, e1, e2, e3 = z0[b] - m0, z1[b] - m1, z2[b] - m2, z3[b] - m3
        p0, p1, p2, p3 = 1.0 + e0 * e0 * v0, 1.0 + e1 * e1 * v1, 1.0 + e2 * e2 * v2, 1.0 + e3 * e3 * v3
        left, right = p0 * p1, p2 * p3
        both = share[b] / (left * right)
        left, right = both * right, both * left
        w0, w1, w2, w3 = left * p1, left * p0, right * p3, right * p2
        mass0, mass1, mass2, mass3 = mass0 + w0, mass1 + w1, mass2 + w2, mass3 + w3
        w0, w1, w2, w3 = w0 * e0, w1 * e1, w2 * e2, w3 * e3
        one0, one1, one2, one3 = one0 + w0, one1 + w1, one2 + w2, one3 + w3
        two0, two1, two2, two3 = two0 + w0 * e0, two1 + w1 * e1, two2 + w2 * e2, two3 + w3 * e3
    sums = ((mass0, mass1, mass2, mass3), (one0, one1, one2, one3), (two0, two1, two2, two3))
    for kind in range(3):
        for q in range(4):
            out[kind, j + q] += sums[kind][q]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "arcp", "nsz"})
def _add_one(z: np.ndarray, share: np.ndarray, m: float, v: float, out: np.ndarray, size: int) -> None:
    """The same of one column, with ``out`` (4,)."""
    mass, one, two = 0.0, 0.0, 0.0
    for b in range(size):
        e = z[b] - m
        w = share[b] / (1.0 + e * e * v)
        mass += w
        one += w * e
        two += w * e * e
    out[0] += mass
    out[1] += one
    out[2] += two


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "arcp", "nsz"})
def _total(share: np.ndarray) -> float:
    """The sum of shares (size,)."""
    total = 0.0
    for b in range(len(share)):
        total += share[b]
    return total


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "arcp", "nsz"})
def _lost(z: np.ndarray, share: np.ndarray, m: float, v: float, size: int) -> float:
    """The sum of share · log(1 + e² inverse) of one column."""
    total = 0.0
    for b in range(size):
        e = z[b] - m
        total += share[b] * _log(1.0 + e * e * v)
    return total


@njit(cache=True, nogil=True)
def _add_tile(
    tile: np.ndarray, share: np.ndarray, mean: np.ndarray, inverse: np.ndarray, learn: bool, out: np.ndarray
) -> None:
    """``moments`` of one component from a tile (c, size), with shares (size,) and ``out`` (4, c)."""
    c, size = len(mean), len(share)
    fours = c - c % 4
    for j in range(0, fours, 4):
        _add_four(tile, share, mean, inverse, out, size, j)
    for j in range(fours, c):
        _add_one(tile[j], share, mean[j], inverse[j], out[:, j], size)
    if learn:
        for j in range(c):
            out[3, j] -= _lost(tile[j], share, mean[j], inverse[j], size)


@njit(cache=True, nogil=True)
def moments(
    Z: np.ndarray, shares: np.ndarray, mean: np.ndarray, inverse: np.ndarray, learn: bool, out: np.ndarray
) -> None:
    """Add r / p, r e / p, r e² / p and, if ``learn``, −r log p to ``out`` (k, 4, c), with p = 1 + e² inverse.

    Z: (c, n). shares: (k, n) the weights r. mean, inverse: (k, c); e = z − mean.
    """
    (k, c), n = mean.shape, Z.shape[1]
    tile = np.empty((c, _TILE))
    for first in range(0, n, _TILE):
        size = min(_TILE, n - first)
        for j in range(c):
            tile[j, :size] = Z[j, first : first + size]
        for i in range(k):
            _add_tile(tile, shares[i, first : first + size], mean[i], inverse[i], learn, out[i])


@njit(cache=True, nogil=True)
def student_step(
    Z: np.ndarray,
    mean: np.ndarray,
    inverse: np.ndarray,
    half: np.ndarray,
    constant: np.ndarray,
    reach: float,
    weight: np.ndarray,
    learn: bool,
    count: np.ndarray,
    out: np.ndarray,
) -> float:
    """``log_densities``, ``shares_of`` and ``moments`` in one sweep; the log-likelihood is returned.

    constant: (k,), with the logarithms of the weights of the components. count: (k,), to which shares are added.
    """
    (k, c), n = mean.shape, Z.shape[1]
    tile, factor, joint = np.empty((c, _TILE)), np.empty(_TILE), np.empty((k, _TILE))
    steps = [min(c, _together(mean[i], inverse[i], half[i], reach)) for i in range(k)]
    ones, work, log_likelihood = np.ones(_TILE), np.empty((2, _TILE)), 0.0
    for first in range(0, n, _TILE):
        size = min(_TILE, n - first)
        for j in range(c):
            tile[j, :size] = Z[j, first : first + size]
        joint[:] = 0.0
        for i in range(k):
            _log_tile(tile, mean[i], inverse[i], half[i], steps[i], joint[i, :size], factor)
        scale = weight[first : first + size] if len(weight) else ones[:size]
        log_likelihood += _share_out(joint, 0, constant, scale, work)
        for i in range(k):
            _add_tile(tile, joint[i, :size], mean[i], inverse[i], learn, out[i])
            count[i] += _total(joint[i, :size])
    return log_likelihood


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "arcp", "nsz"})
def _add_products(tile: np.ndarray, by: np.ndarray, row: np.ndarray) -> None:
    """Add ``by`` (P,) times a tile (P, size) to ``row`` (size,)."""
    P, size = len(by), len(row)
    fours = P - P % 4
    for j in range(0, fours, 4):
        a0, a1, a2, a3 = by[j], by[j + 1], by[j + 2], by[j + 3]
        t0, t1, t2, t3 = tile[j], tile[j + 1], tile[j + 2], tile[j + 3]
        for b in range(size):
            row[b] += a0 * t0[b] + a1 * t1[b] + a2 * t2[b] + a3 * t3[b]
    for j in range(fours, P):
        a, t = by[j], tile[j]
        for b in range(size):
            row[b] += a * t[b]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "arcp", "nsz"})
def _add_sums(tile: np.ndarray, share: np.ndarray, out: np.ndarray) -> float:
    """Add the sums of a tile (P, size), by shares (size,), to ``out`` (P,); the sum of shares is returned."""
    P, size = len(out), len(share)
    fours = P - P % 4
    for j in range(0, fours, 4):
        t0, t1, t2, t3 = tile[j], tile[j + 1], tile[j + 2], tile[j + 3]
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for b in range(size):
            r = share[b]
            s0, s1, s2, s3 = s0 + r * t0[b], s1 + r * t1[b], s2 + r * t2[b], s3 + r * t3[b]
        out[j] += s0
        out[j + 1] += s1
        out[j + 2] += s2
        out[j + 3] += s3
    for j in range(fours, P):
        t, s = tile[j], 0.0
        for b in range(size):
            s += share[b] * t[b]
        out[j] += s
    return _total(share)


@njit(cache=True, nogil=True)
def linear_step(
    T: np.ndarray, eta: np.ndarray, constant: np.ndarray, weight: np.ndarray, count: np.ndarray, out: np.ndarray
) -> float:
    """E step of exponential families in one sweep over statistics T (P, n); the log-likelihood is returned.

    eta: (k, P). constant: (k,) logarithms of the weights of components, less their log-partition functions.
    weight: (n,), or (0,) for ones. count: (k,), to which shares are added. out: (k, P), to which shares times
    statistics are added.
    """
    (k, P), n = eta.shape, T.shape[1]
    tile, joint = np.empty((P, _TILE)), np.empty((k, _TILE))
    ones, work, log_likelihood = np.ones(_TILE), np.empty((2, _TILE)), 0.0
    for first in range(0, n, _TILE):
        size = min(_TILE, n - first)
        for j in range(P):
            tile[j, :size] = T[j, first : first + size]
        joint[:] = 0.0
        for i in range(k):
            _add_products(tile, eta[i], joint[i, :size])
        scale = weight[first : first + size] if len(weight) else ones[:size]
        log_likelihood += _share_out(joint, 0, constant, scale, work)
        for i in range(k):
            count[i] += _add_sums(tile, joint[i, :size], out[i])
    return log_likelihood
