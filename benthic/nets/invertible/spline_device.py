"""Rational-quadratic splines on CUDA devices as one kernel, with their gradient in another.

A spline of K bins has 3K - 1 numbers: K logits of widths, K of heights, K - 1 logarithms of inner slopes. They may
lie one after the other for each entry, or, as convolutions leave them, one plane after the other for each row.
"""

from __future__ import annotations

import math
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from benthic.nets.invertible.spline import LEAST, STEEPEST

_HAS_TRITON = find_spec("triton") is not None
_BLOCK = 128  # entries of one program


if _HAS_TRITON:
    import triton
    import triton.language as tl

    @triton.jit
    def _sizes(raw_ptr, base, stride, live, bins, bound, least, BINS: tl.constexpr):
        """Shares (BLOCK, BINS) of bins by their logits, their sizes, and their left ends."""
        j = tl.arange(0, BINS)[None, :]
        real = live[:, None] & (j < bins)
        logits = tl.load(raw_ptr + base[:, None] + j * stride, mask=real, other=-float("inf"))
        top = tl.max(tl.where(live[:, None], logits, 0.0), 1)
        powers = tl.where(real, tl.exp(logits - top[:, None]), 0.0)
        shares = powers / tl.maximum(tl.sum(powers, 1), 1e-30)[:, None]
        sizes = tl.where(real, 2 * bound * (least + (1 - least * bins) * shares), 0.0)
        return shares, sizes, tl.cumsum(sizes, 1) - sizes - bound

    @triton.jit
    def _entries(x_ptr, n, inner, outer_stride, inner_stride, bound, BLOCK: tl.constexpr):
        """A program's places, which of them there are, where their splines begin, their numbers, and those inside."""
        at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        live = at < n
        x = tl.load(x_ptr + at, mask=live, other=0.0)
        inside = live & (x > -bound) & (x < bound)
        base = (at // inner) * outer_stride + (at % inner) * inner_stride
        return at, live, base, x, inside, tl.where(inside, x, 0.0)

    @triton.jit
    def _bin(v, starts, bins, BINS: tl.constexpr):
        """The bin of each number by where bins start (BLOCK, BINS), and a mark there."""
        j = tl.arange(0, BINS)[None, :]
        k = tl.sum(((v[:, None] >= starts) & (j < bins)).to(tl.int32), 1) - 1
        k = tl.minimum(tl.maximum(k, 0), bins - 1)
        return k, j == k[:, None]

    @triton.jit
    def _pick(table, chosen):
        """The entry of each row of a table (BLOCK, BINS) where ``chosen`` is true."""
        return tl.sum(tl.where(chosen, table, 0.0), 1)

    @triton.jit
    def _slope(raw_ptr, where, there, steepest):
        """The slope of a knot, 1 at the ends, and its derivative by its number."""
        value = tl.load(raw_ptr + where, mask=there, other=0.0)
        bend = 1.0 / (1.0 + tl.abs(value) / steepest)
        slope = tl.exp(value * bend)
        return slope, tl.where(there, slope * bend * bend, 0.0)

    @triton.jit
    def _spline(
        x_ptr, raw_ptr, y_ptr, log_ptr, n, inner, outer_stride, inner_stride, stride, bins, bound, least, steepest,
        INVERSE: tl.constexpr, BINS: tl.constexpr, BLOCK: tl.constexpr,
    ):  # fmt: skip
        at, live, base, x, inside, v = _entries(x_ptr, n, inner, outer_stride, inner_stride, bound, BLOCK)
        _, widths, lefts = _sizes(raw_ptr, base, stride, live, bins, bound, least, BINS)
        _, heights, floors = _sizes(raw_ptr, base + bins * stride, stride, live, bins, bound, least, BINS)
        k, chosen = _bin(v, floors if INVERSE else lefts, bins, BINS)
        w, x0 = _pick(widths, chosen), _pick(lefts, chosen)
        h, y0 = _pick(heights, chosen), _pick(floors, chosen)
        w, h = tl.where(live, w, 1.0), tl.where(live, h, 1.0)
        d0, _ = _slope(raw_ptr, base + (2 * bins + k - 1) * stride, live & (k > 0), steepest)
        d1, _ = _slope(raw_ptr, base + (2 * bins + k) * stride, live & (k < bins - 1), steepest)
        s = h / w
        bend = d0 + d1 - 2 * s
        if INVERSE:
            e = v - y0
            a, b, c = h * (s - d0) + e * bend, h * d0 - e * bend, -s * e
            t = 2 * c / (-b - tl.sqrt(tl.maximum(b * b - 4 * a * c, 1.17549435e-38)))
        else:
            t = (v - x0) / w
        t = tl.minimum(tl.maximum(t, 0.0), 1.0)
        q = t * (1 - t)
        den = s + bend * q
        log = tl.log(s * s * (d1 * t * t + 2 * s * q + d0 * (1 - t) * (1 - t)) / (den * den))
        if INVERSE:
            found, log = x0 + t * w, -log
        else:
            found = y0 + h * (s * t * t + d0 * q) / den
        tl.store(y_ptr + at, tl.where(inside, found, x), mask=live)
        tl.store(log_ptr + at, tl.where(inside, log, 0.0), mask=live)

    @triton.jit
    def _store_sizes(grad_ptr, base, stride, live, bins, bound, least, shares, g_size, g_left, k, BINS: tl.constexpr):
        """Gradients of the logits of sizes: of the bin by its own, of those before it by its left end."""
        j = tl.arange(0, BINS)[None, :]
        g = tl.where(j == k[:, None], g_size[:, None], tl.where(j < k[:, None], g_left[:, None], 0.0))
        g = g * (2 * bound * (1 - least * bins))
        g = shares * (g - tl.sum(shares * g, 1)[:, None])
        tl.store(grad_ptr + base[:, None] + j * stride, g, mask=live[:, None] & (j < bins))

    @triton.jit
    def _backward(
        x_ptr, raw_ptr, gy_ptr, gl_ptr, gx_ptr, grad_ptr, n, inner, outer_stride, inner_stride, stride, bins, bound,
        least, steepest, BINS: tl.constexpr, BLOCK: tl.constexpr,
    ):  # fmt: skip
        at, live, base, _, inside, v = _entries(x_ptr, n, inner, outer_stride, inner_stride, bound, BLOCK)
        shares, widths, lefts = _sizes(raw_ptr, base, stride, live, bins, bound, least, BINS)
        rises, heights, _ = _sizes(raw_ptr, base + bins * stride, stride, live, bins, bound, least, BINS)
        j = tl.arange(0, BINS)[None, :]
        k, chosen = _bin(v, lefts, bins, BINS)
        w, x0, h = _pick(widths, chosen), _pick(lefts, chosen), _pick(heights, chosen)
        w, h = tl.where(live, w, 1.0), tl.where(live, h, 1.0)
        d0, r0 = _slope(raw_ptr, base + (2 * bins + k - 1) * stride, live & (k > 0), steepest)
        d1, r1 = _slope(raw_ptr, base + (2 * bins + k) * stride, live & (k < bins - 1), steepest)
        gy = tl.load(gy_ptr + at, mask=live, other=0.0)
        gl = tl.where(inside, tl.load(gl_ptr + at, mask=live, other=0.0), 0.0)
        g = tl.where(inside, gy, 0.0)
        s = h / w
        bend = d0 + d1 - 2 * s
        t = tl.minimum(tl.maximum((v - x0) / w, 0.0), 1.0)
        u = 1 - t
        q = t * u
        den = s + bend * q
        num = s * t * t + d0 * q
        top = d1 * t * t + 2 * s * q + d0 * u * u
        # backward through y = y0 + h num / den and log = 2 log s + log top - 2 log den
        g_num, g_top = g * h / den, gl / top
        g_den = -g * h * num / (den * den) - 2 * gl / den
        g_bend = g_den * q
        g_s = 2 * gl / s + 2 * g_top * q + g_num * t * t + g_den - 2 * g_bend
        g_d0 = g_top * u * u + g_num * q + g_bend
        g_d1 = g_top * t * t + g_bend
        g_q = 2 * g_top * s + g_num * d0 + g_den * bend
        g_t = 2 * g_top * (d1 * t - d0 * u) + 2 * g_num * s * t + g_q * (1 - 2 * t)
        g_h = g * num / den + g_s / w
        g_w = -(g_t * t + g_s * s) / w
        tl.store(gx_ptr + at, tl.where(inside, g_t / w, gy), mask=live)
        _store_sizes(grad_ptr, base, stride, live, bins, bound, least, shares, g_w, -g_t / w, k, BINS)
        _store_sizes(grad_ptr, base + bins * stride, stride, live, bins, bound, least, rises, g_h, g, k, BINS)
        slopes = tl.where(j == k[:, None] - 1, (g_d0 * r0)[:, None], tl.where(chosen, (g_d1 * r1)[:, None], 0.0))
        tl.store(grad_ptr + base[:, None] + (2 * bins + j) * stride, slopes, mask=live[:, None] & (j < bins - 1))


def _laid(raw: Tensor) -> tuple[Tensor, tuple[int, int, int, int]]:
    """The numbers (..., P) where they lie, copied if that is neither way, and (inner, outer, inner and own strides).

    Entries (n, P) whose numbers lie plane after plane are those of one row.
    """
    rows = raw if raw.ndim > 2 else raw[None]
    if rows.movedim(-1, 1).is_contiguous() and not raw.is_contiguous():
        inner = math.prod(rows.shape[1:-1])
        return raw, (inner, inner * raw.shape[-1], 1, inner)
    return raw.contiguous(), (1, raw.shape[-1], 0, 1)


def _settings(bins: int, bound: float) -> tuple[tuple[Any, ...], dict[str, int]]:
    sizes = {"BINS": max(2, triton.next_power_of_2(bins)), "BLOCK": _BLOCK}
    return (bins, float(bound), LEAST, STEEPEST), sizes


class _Spline(torch.autograd.Function):
    """The spline with its gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, raw: Tensor, bins: int, bound: float, inverse: bool) -> tuple[Tensor, Tensor]:
        x = x.contiguous()
        raw, places = _laid(raw)
        y, log = torch.empty_like(x), torch.empty_like(x)
        numbers, sizes = _settings(bins, bound)
        grid = (triton.cdiv(x.numel(), _BLOCK),)
        _spline[grid](x, raw, y, log, x.numel(), *places, *numbers, INVERSE=inverse, **sizes)
        ctx.save_for_backward(x, raw)
        ctx.shape = (bins, bound)
        return y, log

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        x, raw = ctx.saved_tensors
        _, places = _laid(raw)
        numbers, sizes = _settings(*ctx.shape)
        gx, found = torch.empty_like(x), torch.empty_like(raw)
        gy, gl = (gradient.contiguous() for gradient in gradients)
        grid = (triton.cdiv(x.numel(), _BLOCK),)
        _backward[grid](x, raw, gy, gl, gx, found, x.numel(), *places, *numbers, **sizes)
        return gx, found, None, None, None


def spline(x: Tensor, raw: Tensor, bins: int, bound: float, inverse: bool) -> tuple[Tensor, Tensor]:
    """y and log dy/dx; x: (...). raw: (..., 3 bins - 1). The way back has no gradient."""
    y, log = _Spline.apply(x, raw, bins, bound, inverse)
    return y, log
