"""Rational-quadratic splines on the CPU in one pass over the numbers, with their gradient in another.

A spline of K bins has 3K - 1 numbers: K logits of widths, K of heights, K - 1 logarithms of inner slopes. Kernels and
what they call stay in this file, as the compiler's cache wants it.
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from benthic.nets.invertible.spline import LEAST, STEEPEST

_SPLIT = 1 << 13  # numbers from which on two threads share the work
_Rows = np.ndarray


_FAST = {"contract", "arcp", "nsz", "reassoc"}


@njit(cache=True, nogil=True, fastmath=_FAST)
def _total(raw: _Rows, i: int, start: int, bins: int, powers: _Rows, zero: float, low: float, high: float) -> float:
    """The sum of the exponentials of some logits; where they overflowed, they are taken anew below the largest."""
    total = powers[i, start]
    for j in range(start + 1, start + bins):
        total += powers[i, j]
    if low < total < high:
        return total
    top = raw[i, start]
    for j in range(start + 1, start + bins):
        top = max(top, raw[i, j])
    total = zero
    for j in range(start, start + bins):
        powers[i, j] = math.exp(raw[i, j] - top)
        total += powers[i, j]
    return total


@njit(cache=True, nogil=True)
def _slope(raw: float, one: float, steepest: float) -> float:
    """The slope of a knot: exp of its number, softly bounded."""
    return math.exp(raw / (one + abs(raw) / steepest))


@njit(cache=True, nogil=True)
def _steering(raw: float, slope: float, one: float, steepest: float) -> float:
    """The derivative of a slope by its number."""
    bend = one / (one + abs(raw) / steepest)
    return slope * bend * bend


@njit(cache=True, nogil=True, fastmath=_FAST)
def spline_kernel(
    v_in: _Rows,
    raw: _Rows,
    powers: _Rows,
    totals: _Rows,
    out: _Rows,
    log: _Rows,
    bins: int,
    numbers: _Rows,
    inverse: bool,
) -> None:
    """y and log dy/dx of x (m,) under splines raw (m, 3K-1), or the inverse; powers are the exponentials of raw.

    Where raw has one row, it is that of all. totals (m, 2) keeps one over the sums of exponentials for the gradient.
    """
    bound, zero, one, two, low, high, room, size, steepest = numbers
    shared = len(raw) == 1
    for at in range(len(v_in)):
        v, i = v_in[at], 0 if shared else at
        if not (v > -bound and v < bound):
            out[at] = v
            log[at] = zero
            continue
        across = room / _total(raw, i, 0, bins, powers, zero, low, high)
        upward = room / _total(raw, i, bins, bins, powers, zero, low, high)
        if not shared:
            totals[i, 0], totals[i, 1] = across, upward
        x0, y0, k = -bound, -bound, 0
        w = size + across * powers[i, 0]
        h = size + upward * powers[i, bins]
        while k < bins - 1 and v >= (y0 + h if inverse else x0 + w):
            x0 += w
            y0 += h
            k += 1
            w = size + across * powers[i, k]
            h = size + upward * powers[i, bins + k]
        d0, d1, j = one, one, 2 * bins + k
        if k > 0:
            d0 = _slope(raw[i, j - 1], one, steepest)
        if k < bins - 1:
            d1 = _slope(raw[i, j], one, steepest)
        s = h / w
        bend = d0 + d1 - two * s
        if inverse:
            e = min(v - y0, h)
            b = h * d0 - e * bend
            c = -s * e
            root = math.sqrt(max(b * b - two * two * (h * (s - d0) + e * bend) * c, zero))
            t = min(two * c / (-b - root), one)
        else:
            t = min((v - x0) / w, one)
        q = t * (one - t)
        den = s + bend * q
        rise = math.log(s * s * (d1 * t * t + two * s * q + d0 * (one - t) * (one - t)) / (den * den))
        if inverse:
            out[at], log[at] = x0 + t * w, -rise
        else:
            out[at], log[at] = y0 + h * (s * t * t + d0 * q) / den, rise


@njit(cache=True, nogil=True, fastmath=_FAST)
def _through_softmax(
    powers: _Rows, i: int, start: int, bins: int, k: int, below: float, at: float, scale: float, room: float, out: _Rows
) -> None:
    """The gradient of logits, where sizes before bin k have gradient ``below`` and bin k has ``at``."""
    mean = at * powers[i, start + k]
    for j in range(start, start + k):
        mean += below * powers[i, j]
    mean *= scale / room
    for j in range(start, start + bins):
        out[i, j] = -scale * powers[i, j] * mean
    for j in range(start, start + k):
        out[i, j] += scale * powers[i, j] * below
    out[i, start + k] += scale * powers[i, start + k] * at


@njit(cache=True, nogil=True, fastmath=_FAST)
def gradient_kernel(
    x: _Rows,
    raw: _Rows,
    powers: _Rows,
    totals: _Rows,
    gy: _Rows,
    gl: _Rows,
    gx: _Rows,
    graw: _Rows,
    bins: int,
    numbers: _Rows,
) -> None:
    """Gradients of x (m,) and raw (m, 3K-1) from those of y and of log dy/dx."""
    bound, zero, one, two, _, _, room, size, steepest = numbers
    for i in range(len(x)):
        v = x[i]
        if not (v > -bound and v < bound):
            gx[i] = gy[i]
            for j in range(3 * bins - 1):
                graw[i, j] = zero
            continue
        across, upward = totals[i, 0], totals[i, 1]
        x0, k = -bound, 0
        w = size + across * powers[i, 0]
        while k < bins - 1 and v >= x0 + w:
            x0 += w
            k += 1
            w = size + across * powers[i, k]
        h = size + upward * powers[i, bins + k]
        d0, d1, j = one, one, 2 * bins + k
        if k > 0:
            d0 = _slope(raw[i, j - 1], one, steepest)
        if k < bins - 1:
            d1 = _slope(raw[i, j], one, steepest)
        s = h / w
        t = min((v - x0) / w, one)
        u = one - t
        q = t * u
        bend = d0 + d1 - two * s
        over = one / (s + bend * q)
        num = s * t * t + d0 * q
        steep = one / (d1 * t * t + two * s * q + d0 * u * u)
        # y = y0 + h num / den and log = 2 log s + log rise - 2 log den, with over = 1 / den and steep = 1 / rise
        a, b = gy[i] * h * over * over, gl[i]
        den_t, den_s = bend * (u - t), one - two * q
        g_t = a * ((two * s * t + d0 * (u - t)) / over - num * den_t)
        g_t += b * (two * (d1 * t + s * (u - t) - d0 * u) * steep - two * den_t * over)
        g_s = a * (t * t / over - num * den_s) + b * (two / s + two * q * steep - two * den_s * over)
        g_0 = a * (q / over - num * q) + b * (u * u * steep - two * q * over)
        g_1 = -a * num * q + b * (t * t * steep - two * q * over)
        gx[i] = g_t / w
        _through_softmax(powers, i, 0, bins, k, -g_t / w, -(g_s * s + g_t * t) / w, across, room, graw)
        _through_softmax(powers, i, bins, bins, k, gy[i], gy[i] * num * over + g_s / w, upward, room, graw)
        for m in range(2 * bins, 3 * bins - 1):
            graw[i, m] = zero
        if k > 0:
            graw[i, j - 1] = g_0 * _steering(raw[i, j - 1], d0, one, steepest)
        if k < bins - 1:
            graw[i, j] = g_1 * _steering(raw[i, j], d1, one, steepest)


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, (os.cpu_count() or 1) - 1), thread_name_prefix="spline")


def _share_out(kernel: Any, arrays: list[np.ndarray], *more: Any) -> None:
    """Run a kernel over its rows, on as many threads as torch uses; arrays of one row go to all of them."""
    rows = len(arrays[0])
    threads = min(torch.get_num_threads(), os.cpu_count() or 1) if rows >= _SPLIT else 1
    if threads == 1:
        kernel(*arrays, *more)
        return
    cuts = [rows * i // threads for i in range(threads + 1)]
    pieces = [[array[a:b] if len(array) > 1 else array for array in arrays] for a, b in pairwise(cuts)]
    others = [_pool().submit(kernel, *piece, *more) for piece in pieces[1:]]
    kernel(*pieces[0], *more)
    for other in others:
        other.result()


@cache
def _numbers(dtype: torch.dtype, bins: int, bound: float) -> np.ndarray:
    """Constants in the type of the rows: whole numbers in the kernels would make them float64."""
    kind = np.float32 if dtype == torch.float32 else np.float64
    room, size = 2 * bound * (1 - LEAST * bins), 2 * bound * LEAST
    return np.array([bound, 0.0, 1.0, 2.0, 1e-30, 1e30, room, size, STEEPEST], kind)


def _run(x: Tensor, raw: Tensor, bins: int, bound: float, inverse: bool) -> tuple[Tensor, ...]:
    """The result, its logarithm of slopes, and what the gradient needs."""
    powers, totals = torch.exp(raw), raw.new_empty(len(raw), 2)
    found, log = torch.empty_like(x), torch.empty_like(x)
    arrays = [t.numpy() for t in (x, raw, powers, totals, found, log)]
    _share_out(spline_kernel, arrays, bins, _numbers(x.dtype, bins, bound), inverse)
    return found, log, powers, totals


class _Spline(torch.autograd.Function):
    """x (m,) and raw (m, 3K-1) to y and log dy/dx."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, raw: Tensor, bins: int, bound: float) -> tuple[Tensor, Tensor]:
        y, log, powers, totals = _run(x.detach(), raw.detach(), bins, bound, False)
        ctx.save_for_backward(x, raw, powers, totals)
        ctx.setting = (bins, bound)
        return y, log

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gy: Tensor, gl: Tensor) -> tuple[Tensor, Tensor, None, None]:
        kept = ctx.saved_tensors
        bins, bound = ctx.setting
        gx, graw = torch.empty_like(kept[0]), torch.empty_like(kept[1])
        arrays = [t.detach().numpy() for t in (*kept, gy.contiguous(), gl.contiguous(), gx, graw)]
        _share_out(gradient_kernel, arrays, bins, _numbers(gx.dtype, bins, bound))
        return gx, graw, None, None


def spline(x: Tensor, raw: Tensor, bins: int, bound: float) -> tuple[Tensor, Tensor]:
    """y and log dy/dx, both like x (...,), for raw (..., 3K-1) on the CPU; once differentiable."""
    y, log = _Spline.apply(x.reshape(-1).contiguous(), raw.reshape(-1, raw.shape[-1]).contiguous(), bins, bound)
    return y.reshape(x.shape), log.reshape(x.shape)


def spline_inverse(y: Tensor, raw: Tensor, bins: int, bound: float) -> tuple[Tensor, Tensor]:
    """x and log dx/dy; not differentiable."""
    flat, raw = y.detach().reshape(-1).contiguous(), raw.detach()
    if raw.ndim == 2 and raw.stride(0) == 0:  # one spline for all, its logits below overflow
        sizes = raw[:1, : 2 * bins].reshape(2, bins)
        rows = torch.cat([(sizes - sizes.amax(1, keepdim=True)).reshape(1, -1), raw[:1, 2 * bins :]], 1)
    else:
        rows = raw.reshape(-1, raw.shape[-1]).contiguous()
    x, log, *_ = _run(flat, rows, bins, bound, True)
    return x.reshape(y.shape), log.reshape(y.shape)
