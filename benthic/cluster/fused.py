"""Kernels for CUDA devices: the nearest of many centers without storing distances, and sums of rows by label.

A distance is first taken from products of half-precision numbers, which a bound on their rounding makes safe: a row
whose two nearest centers are closer to each other than the bound is judged again from products that are exact to
single precision (each number as the sum of three bfloat16 numbers).
"""

from __future__ import annotations

import math
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

LARGEST_WIDTH = 128  # columns that fit a row block on the chip
LARGEST_KEY = 1 << 15  # labels are sorted as 16-bit numbers
_ROWS, _CENTERS, _EXACT_ROWS, _FAR, _RUN, _RUN_ROWS = 64, 32, 128, 64, 1024, 16
_ROUNDING = 2.0**-11  # of half precision
_NOWHERE = 3e38  # half the squared length of centers that only fill a block; infinity would make the bits a NaN
_HIGHEST = 13  # power of two that the largest number is scaled to, within half precision's range


def available(X: Tensor) -> bool:
    """Whether these kernels serve rows ``X``: float32 on a CUDA device, not too wide, and Triton is there."""
    return (
        X.is_cuda
        and X.dtype == torch.float32
        and X.shape[1] <= LARGEST_WIDTH
        and X.is_contiguous()
        and find_spec("triton") is not None
    )


if find_spec("triton") is not None:
    import triton
    import triton.language as tl

    @triton.jit
    def _prepare(c_ptr, half_ptr, low_ptr, parts_ptr, k, d, padded, scale, nowhere, D: tl.constexpr, BM: tl.constexpr):
        rows = tl.program_id(0) * BM + tl.arange(0, BM)
        cols = tl.arange(0, D)
        there = (rows < k)[:, None] & (cols < d)[None, :]
        c = tl.load(c_ptr + rows[:, None] * d + cols[None, :], mask=there, other=0.0)
        wide = c.to(tl.float64)
        half = tl.where(rows < k, (0.5 * tl.sum(wide * wide, 1)).to(tl.float32), nowhere)
        tl.store(half_ptr + rows, half)
        tl.store(half_ptr + padded + rows, tl.where(rows < k, half * scale * scale, nowhere))
        at = rows[:, None] * D + cols[None, :]
        tl.store(low_ptr + at, (c * scale).to(tl.float16))
        a = c.to(tl.bfloat16)
        rest = c - a.to(tl.float32)
        b = rest.to(tl.bfloat16)
        tl.store(parts_ptr + at, a)
        tl.store(parts_ptr + padded * D + at, b)
        tl.store(parts_ptr + 2 * padded * D + at, (rest - b.to(tl.float32)).to(tl.bfloat16))

    @triton.jit
    def _nearest(
        x_ptr,
        c_ptr,
        half_ptr,
        labels_ptr,
        again_ptr,
        count_ptr,
        n,
        d,
        blocks,
        scale,
        slack,
        D: tl.constexpr,
        BM: tl.constexpr,
        BK: tl.constexpr,
    ):
        rows = tl.program_id(0) * BM + tl.arange(0, BM)
        live = rows < n
        cols = tl.arange(0, D)
        there = live[:, None] & (cols < d)[None, :]
        x = tl.load(x_ptr + rows[:, None].to(tl.int64) * d + cols[None, :], mask=there, other=0.0) * scale
        xh = x.to(tl.float16)
        length = tl.sqrt(tl.sum(x * x, 1))
        best = tl.full((BM,), float("-inf"), tl.float32)
        second = tl.full((BM,), float("-inf"), tl.float32)
        label = tl.zeros((BM,), tl.int32)
        inside = tl.arange(0, BK)
        for t in tl.range(0, blocks, num_stages=2):
            ks = t * BK + inside
            c = tl.load(c_ptr + ks[None, :] * D + cols[:, None])
            s = tl.dot(xh, c) - tl.load(half_ptr + ks)[None, :]
            # the number of the center takes the last bits of its score, so that one maximum finds both
            s = ((s.to(tl.int32, bitcast=True) & (-BK)) | inside[None, :]).to(tl.float32, bitcast=True)
            m = tl.max(s, 1)
            low = tl.max(tl.where(s == m[:, None], float("-inf"), s), 1)
            second = tl.maximum(tl.minimum(m, best), tl.maximum(second, low))
            label = tl.where(m > best, t * BK + (m.to(tl.int32, bitcast=True) & (BK - 1)), label)
            best = tl.maximum(m, best)
        tl.store(labels_ptr + rows, label, mask=live)
        doubt = (live & (best - second < slack * (length + 0.01) + 2e-5 * tl.abs(best))).to(tl.int32)
        many = tl.sum(doubt)
        if many > 0:
            place = tl.atomic_add(count_ptr, many) + tl.cumsum(doubt) - 1
            tl.store(again_ptr + place, rows, mask=doubt > 0)

    @triton.jit
    def _judged_again(
        x_ptr,
        again_ptr,
        count_ptr,
        a_ptr,
        b_ptr,
        c_ptr,
        half_ptr,
        labels_ptr,
        moved_ptr,
        old_ptr,
        d,
        blocks,
        TRACK: tl.constexpr,
        D: tl.constexpr,
        BM: tl.constexpr,
        BK: tl.constexpr,
    ):
        count = tl.load(count_ptr)
        cols = tl.arange(0, D)
        for tile in tl.range(tl.program_id(0), tl.cdiv(count, BM), tl.num_programs(0)):
            at = tile * BM + tl.arange(0, BM)
            live = at < count
            rows = tl.load(again_ptr + at, mask=live, other=0)
            there = live[:, None] & (cols < d)[None, :]
            x = tl.load(x_ptr + rows[:, None].to(tl.int64) * d + cols[None, :], mask=there, other=0.0)
            xa = x.to(tl.bfloat16)
            rest = x - xa.to(tl.float32)
            xb = rest.to(tl.bfloat16)
            xc = (rest - xb.to(tl.float32)).to(tl.bfloat16)
            best = tl.full((BM,), float("-inf"), tl.float32)
            label = tl.zeros((BM,), tl.int32)
            for t in tl.range(0, blocks):
                ks = t * BK + tl.arange(0, BK)
                off = ks[None, :] * D + cols[:, None]
                ca, cb, cc = tl.load(a_ptr + off), tl.load(b_ptr + off), tl.load(c_ptr + off)
                s = tl.dot(xb, cb)
                s = tl.dot(xc, ca, s)
                s = tl.dot(xa, cc, s)
                s = tl.dot(xb, ca, s)
                s = tl.dot(xa, cb, s)
                s = tl.dot(xa, ca, s) - tl.load(half_ptr + ks)[None, :]
                m = tl.max(s, 1)
                first = tl.min(tl.where(s == m[:, None], ks[None, :], 2147483647), 1)
                label = tl.where(m > best, first, label)
                best = tl.maximum(m, best)
            if TRACK:
                before = tl.load(labels_ptr + rows, mask=live, other=0)
                moves = (live & (label != before)).to(tl.int32)
                place = tl.atomic_add(count_ptr + 1, tl.sum(moves)) + tl.cumsum(moves, 0) - 1
                tl.store(moved_ptr + place, rows, mask=moves > 0)
                tl.store(old_ptr + place, before, mask=moves > 0)
            tl.store(labels_ptr + rows, label, mask=live)

    @triton.jit
    def _runs(
        x_ptr,
        w_ptr,
        order_ptr,
        key_ptr,
        sums_ptr,
        n,
        d,
        WEIGHTED: tl.constexpr,
        D: tl.constexpr,
        R: tl.constexpr,
        BM: tl.constexpr,
    ):
        begin = tl.program_id(0) * R
        end = tl.minimum(begin + R, n)
        cols = tl.arange(0, D)
        key = tl.load(key_ptr + begin).to(tl.int32)
        last = tl.load(key_ptr + end - 1).to(tl.int32)
        while key <= last:
            acc = tl.zeros((BM, D), tl.float32)
            mass = tl.zeros((BM,), tl.float32)
            following = last + 1
            for start in tl.range(begin, end, BM, num_stages=3):
                at = start + tl.arange(0, BM)
                live = at < end
                keys = tl.load(key_ptr + at, mask=live, other=0).to(tl.int32)
                mine = live & (keys == key)
                following = tl.minimum(following, tl.min(tl.where(live & (keys > key), keys, last + 1)))
                row = tl.load(order_ptr + at, mask=mine, other=0)
                there = mine[:, None] & (cols < d)[None, :]
                x = tl.load(x_ptr + row[:, None] * d + cols[None, :], mask=there, other=0.0)
                if WEIGHTED:
                    w = tl.load(w_ptr + row, mask=mine, other=0.0)
                    x = x * w[:, None]
                    mass += w
                else:
                    mass += mine.to(tl.float32)
                acc += x
            tl.atomic_add(sums_ptr + key * (d + 1) + cols, tl.sum(acc, 0).to(tl.float64), mask=cols < d)
            tl.atomic_add(sums_ptr + key * (d + 1) + d, tl.sum(mass).to(tl.float64))
            key = following


def _blocks(count: int, size: int) -> int:
    return -(-count // size)


class Table(NamedTuple):
    """Centers made ready for the kernels.

    centers: (k, d) on the CPU. halves: (2, padded) half their squared lengths, and the same scaled. low: (padded, D)
    in half precision, scaled. parts: (3, padded, D) in bfloat16. scale: a power of two. width: D, columns with padding.
    """

    centers: Tensor
    halves: Tensor
    low: Tensor
    parts: Tensor
    scale: float
    width: int


def padded_width(d: int) -> int:
    """The power of two that d columns are padded to."""
    return max(16, 1 << (d - 1).bit_length())


def scale_of(largest: float) -> float:
    """The power of two that brings numbers of this size within half precision's range."""
    return 2.0 ** (_HIGHEST - math.ceil(math.log2(max(largest, 1e-30))))


def table_of(centers: Tensor, largest: float, X: Tensor) -> Table:
    """Centers (k, d), best on the CPU, for rows X whose numbers are at most ``largest``; made ready on the device."""
    centers = centers.detach().cpu().float().contiguous()
    k, d = centers.shape
    D, padded = padded_width(d), _blocks(k, _FAR) * _FAR
    scale = scale_of(max(largest, float(np.abs(centers.numpy()).max())))
    half = torch.empty(2, padded, device=X.device)
    low = torch.empty(padded, D, dtype=torch.float16, device=X.device)
    parts = torch.empty(3, padded, D, dtype=torch.bfloat16, device=X.device)
    with torch.cuda.device(X.device):
        _prepare[(padded // 16,)](centers.to(X.device), half, low, parts, k, d, padded, scale, _NOWHERE, D=D, BM=16)
    return Table(centers, half, low, parts, scale, D)


def nearest(X: Tensor, centers: Tensor, largest: float) -> Tensor:
    """The number (int32) of the nearest center of each row, (n,).

    X: (n, d) float32. centers: (k, d), best on the CPU. largest: a bound on the size of every number of X.
    Equal to what single-precision products give; of centers that these cannot tell apart, the first.
    """
    n, d = X.shape
    k = len(centers)
    made = table_of(centers, largest, X)
    reach = made.scale * math.sqrt(float(np.square(made.centers.numpy(), dtype=np.float64).sum(1).max()))
    labels, again = torch.empty(2, n, dtype=torch.int32, device=X.device)
    count = torch.zeros(2, dtype=torch.int32, device=X.device)
    slack = 4 * _ROUNDING * reach
    with torch.cuda.device(X.device):
        _nearest[(_blocks(n, _ROWS),)](
            *(X, made.low, made.halves[1], labels, again, count, n, d, _blocks(k, _CENTERS), made.scale, slack),
            D=made.width,
            BM=_ROWS,
            BK=_CENTERS,
            num_warps=4,
        )
        judge_again(X, made, again, count, labels, (again, again), False)
    return labels


def judge_again(
    X: Tensor, made: Table, again: Tensor, count: Tensor, labels: Tensor, moved: tuple[Tensor, Tensor], track: bool
) -> None:
    """Label the first count[0] rows of ``again`` from products exact to single precision.

    moved: where rows whose label changes and their old labels are added after the first count[1], if ``track``.
    """
    n, d = X.shape
    rows = _EXACT_ROWS if made.width <= 64 else _EXACT_ROWS // 2  # what fits the memory of a processor
    programs = min(4 * torch.cuda.get_device_properties(X.device).multi_processor_count, _blocks(n, rows))
    _judged_again[(programs,)](
        *(X, again, count, *made.parts, made.halves[0], labels, *moved, d, made.halves.shape[1] // _FAR),
        TRACK=track,
        D=made.width,
        BM=rows,
        BK=_FAR,
        num_warps=8,
    )


def sums_by_label(X: Tensor, labels: Tensor, k: int, weight: Tensor | None, rows: Tensor | None = None) -> Tensor:
    """Sums of rows and of their weights for each label, (k, d + 1) in float64.

    rows: numbers of the rows to take, all if None; ``labels`` are then those of these rows.
    """
    keys, order = torch.sort(labels.to(torch.uint8 if k <= 256 else torch.int16), stable=True)
    order = order if rows is None else rows[order]
    d = X.shape[1]
    sums = torch.zeros(k, d + 1, dtype=torch.float64, device=X.device)
    if len(order):
        weights: Any = X if weight is None else weight
        with torch.cuda.device(X.device):
            _runs[(_blocks(len(order), _RUN),)](
                *(X, weights, order, keys, sums, len(order), d),
                WEIGHTED=weight is not None,
                D=padded_width(d),
                R=_RUN,
                BM=_RUN_ROWS,
                num_warps=4,
            )
    return sums
