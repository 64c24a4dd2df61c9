"""A pass of k-means on a CUDA device that reads every row once and asks the host for nothing in between.

One kernel finds the nearest center of each row from half-precision products and notes which rows are in doubt and which
have moved; the few in doubt are judged again from products exact to single precision; a third kernel adds the rows that
moved to the sums of their new clusters and takes them from the old ones, as one product with a matrix of 1 and -1.

The rounding of products is taken for what it nearly always is and not for the worst it could be, so that of the rows
that lie between two clusters about one in a hundred thousand may go to the other one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from benthic.cluster import fused

LARGEST_SUMS = 1 << 14  # numbers of a table of sums that fit the registers of a program
_SAMPLE = 1 << 16  # rows that the size of each column is taken from
_DEVIATIONS = 3.0  # of the rounding of a difference of two scores, below which a row is in doubt
_ROUNDING = 0.6 * 2.0**-11 * math.sqrt(2)  # deviation of the rounding of such a difference, of its terms' length


class Tiles(NamedTuple):
    """Sizes of the kernels: rows, centers, warps and stages of the search; rows, warps and stages of the sums."""

    rows: int = 64
    centers: int = 32
    warps: int = 4
    stages: int = 2
    sum_rows: int = 64
    sum_warps: int = 8
    sum_stages: int = 2


def serves(X: Tensor, weight: Tensor | None, k: int) -> bool:
    """Whether these kernels serve k clusters of rows ``X``: plain float32 rows on a CUDA device, not too wide."""
    return weight is None and fused.available(X) and k * fused.padded_width(X.shape[1]) <= 8 * LARGEST_SUMS


if find_spec("triton") is not None:
    import triton
    import triton.language as tl

    @triton.jit
    def _search(
        x_ptr,
        c_ptr,
        half_ptr,
        labels_ptr,
        again_ptr,
        moved_ptr,
        old_ptr,
        count_ptr,
        n,
        d,
        blocks,
        scale,
        slack,
        grain,
        TRACK: tl.constexpr,
        HIGH: tl.constexpr,
        LOW: tl.constexpr,
        D: tl.constexpr,
        BM: tl.constexpr,
        BK: tl.constexpr,
        STAGES: tl.constexpr,
    ):
        rows = tl.program_id(0) * BM + tl.arange(0, BM)
        live = rows < n
        cols = tl.arange(0, D)
        there = live[:, None] & (cols < d)[None, :]
        x = tl.load(x_ptr + rows[:, None].to(tl.int64) * d + cols[None, :], mask=there, other=0.0) * scale
        xh = x.to(tl.float16)
        length = tl.sqrt(tl.sum(x * x, 1))
        inside = tl.arange(0, BK)
        # the two best scores of each column of tiles; the last bits of a score hold the number of its tile
        best = tl.full((BM, BK), float("-inf"), tl.float32)
        second = tl.full((BM, BK), float("-inf"), tl.float32)
        for t in tl.range(0, blocks, num_stages=STAGES):
            ks = t * BK + inside
            c = tl.load(c_ptr + ks[None, :] * D + cols[:, None])
            s = tl.dot(xh, c) - tl.load(half_ptr + ks)[None, :]
            s = ((s.to(tl.int32, bitcast=True) & HIGH) | t).to(tl.float32, bitcast=True)
            second = tl.maximum(second, tl.minimum(best, s))
            best = tl.maximum(best, s)
        top = tl.max(best, 1)
        column = tl.min(tl.where(best == top[:, None], inside[None, :], BK), 1)
        runner = tl.max(tl.where(inside[None, :] == column[:, None], second, best), 1)
        label = (top.to(tl.int32, bitcast=True) & LOW) * BK + column
        bound = slack * (length + 0.01) + grain * tl.abs(top)
        gap = top - runner
        sure = live & (gap >= bound)
        doubt = live & (gap < bound)
        if TRACK:
            before = tl.load(labels_ptr + rows, mask=live, other=0)
            moves = sure & (label != before)
            marks = doubt.to(tl.int32) + moves.to(tl.int32) * 65536
            many = tl.sum(marks)
            if many > 0:
                place = tl.cumsum(marks, 0)
                first = tl.atomic_add(count_ptr, many & 65535)
                tl.store(again_ptr + first + (place & 65535) - 1, rows, mask=doubt)
                other = tl.atomic_add(count_ptr + 1, many >> 16)
                tl.store(moved_ptr + other + (place >> 16) - 1, rows, mask=moves)
                tl.store(old_ptr + other + (place >> 16) - 1, before, mask=moves)
        else:
            marks = doubt.to(tl.int32)
            many = tl.sum(marks)
            if many > 0:
                first = tl.atomic_add(count_ptr, many)
                tl.store(again_ptr + first + tl.cumsum(marks, 0) - 1, rows, mask=doubt)
        tl.store(labels_ptr + rows, label, mask=sure)

    @triton.jit
    def _flow(
        x_ptr,
        moved_ptr,
        old_ptr,
        labels_ptr,
        count_ptr,
        sums_ptr,
        n,
        d,
        k,
        scale,
        unscale,
        LISTED: tl.constexpr,
        D: tl.constexpr,
        K: tl.constexpr,
        BM: tl.constexpr,
        STAGES: tl.constexpr,
    ):
        ks = tl.program_id(1) * K + tl.arange(0, K)
        cols = tl.arange(0, D)
        acc = tl.zeros((K, D), tl.float32)
        count = n
        if LISTED:
            count = tl.load(count_ptr + 1)
        for tile in tl.range(tl.program_id(0), tl.cdiv(count, BM), tl.num_programs(0), num_stages=STAGES):
            at = tile * BM + tl.arange(0, BM)
            live = at < count
            rows = at
            if LISTED:
                rows = tl.load(moved_ptr + at, mask=live, other=0)
            new = tl.load(labels_ptr + rows, mask=live, other=-1)
            there = live[:, None] & (cols < d)[None, :]
            x = tl.load(x_ptr + rows[:, None].to(tl.int64) * d + cols[None, :], mask=there, other=0.0) * scale
            high = x.to(tl.float16)
            low = (x - high.to(tl.float32)).to(tl.float16)
            hot = (new[None, :] == ks[:, None]).to(tl.float16)
            mine = live & (new >= tl.program_id(1) * K) & (new < tl.program_id(1) * K + K)
            one = tl.full((BM,), 1.0, tl.float64)
            tl.atomic_add(sums_ptr + new * (d + 1) + d, one, mask=mine)
            if LISTED:
                old = tl.load(old_ptr + at, mask=live, other=-1)
                hot -= (old[None, :] == ks[:, None]).to(tl.float16)
                left = live & (old >= tl.program_id(1) * K) & (old < tl.program_id(1) * K + K)
                tl.atomic_add(sums_ptr + old * (d + 1) + d, -one, mask=left)
            acc = tl.dot(hot, high, acc)
            acc = tl.dot(hot, low, acc)
        inside = (ks < k)[:, None] & (cols < d)[None, :]
        tl.atomic_add(sums_ptr + ks[:, None] * (d + 1) + cols[None, :], (acc * unscale).to(tl.float64), mask=inside)


class Swift:
    """Rows on a CUDA device and what is known of them between passes; see ``benthic.cluster.memory.Memory``.

    X: (n, d) float32. tiles: sizes of the kernels.
    """

    def __init__(self, X: Tensor, tiles: Tiles | None = None) -> None:
        from benthic.cluster.memory import square_of

        self._X, self.tiles = X.contiguous(), tiles or Tiles()
        n = len(X)
        self._largest = float(X.abs().max()) if n else 0.0
        self.square = square_of(X, None)
        sample = X[:: max(1, n // _SAMPLE)].double()
        self._sizes = sample.square().mean(0).cpu().numpy()  # mean squares of the columns
        self._again, self._moved, self._old = torch.empty(3, n, dtype=torch.int32, device=X.device)
        self._count = torch.zeros(2, dtype=torch.int32, device=X.device)
        self.labels: Tensor | None = None
        self._sums: Tensor | None = None

    def step(self, centers: Tensor) -> Any:
        """Assign the rows to centers (k, d), and give the sums of the clusters."""
        from benthic.cluster.memory import Sums

        n, d = self._X.shape
        k = len(centers)
        fresh = self.labels is None or self._sums is None or len(self._sums) != k
        if fresh:
            self.labels = torch.full((n,), -1, dtype=torch.int32, device=self._X.device)
            self._sums = torch.zeros(k, d + 1, dtype=torch.float64, device=self._X.device)
        self._count.zero_()
        if n:
            with torch.cuda.device(self._X.device):
                self._searched(centers, not fresh)
                self._added(k, not fresh)
        changed = n if fresh else int(self._count[1])
        return Sums(self._sums.clone(), changed)

    def costs(self, centers: Tensor) -> Tensor:
        """See ``Memory``."""
        from benthic.cluster.memory import squared_distances_to

        return squared_distances_to(self._X, centers, torch.as_tensor(self.labels))

    def doubtful(self) -> int:
        """How many rows the last pass judged twice."""
        return int(self._count[0])

    def state(self) -> dict[str, Any]:
        """See ``Memory``."""
        return {"labels": self.labels, "sums": self._sums}

    def load(self, state: Mapping[str, Any]) -> None:
        """See ``Memory``."""
        self.labels, self._sums = state["labels"].to(self._X.device), state["sums"].to(self._X.device)

    def _slack(self, centers: Tensor) -> float:
        """How close two scores of a row of unit length must be to be in doubt, before numbers are scaled."""
        terms = np.square(centers.numpy(), dtype=np.float64) @ self._sizes  # (k,) squared length of a score's terms
        spread = math.sqrt(float(terms.max()) / max(float(self._sizes.sum()), 1e-300))
        return _DEVIATIONS * _ROUNDING * spread

    def _searched(self, centers: Tensor, track: bool) -> None:
        """Fill the labels, and list the rows that moved."""
        n, d = self._X.shape
        tiles, made = self.tiles, fused.table_of(centers, self._largest, self._X)
        blocks = -(-len(centers) // tiles.centers)
        bits = (blocks - 1).bit_length()
        slack = made.scale * self._slack(made.centers)
        _search[(-(-n // tiles.rows),)](
            *(self._X, made.low, made.halves[1], self.labels, self._again, self._moved, self._old, self._count),
            *(n, d, blocks, made.scale, slack, 2.0 ** (bits - 21)),
            TRACK=track,
            HIGH=-(1 << bits),
            LOW=(1 << bits) - 1,
            D=made.width,
            BM=tiles.rows,
            BK=tiles.centers,
            STAGES=tiles.stages,
            num_warps=tiles.warps,
        )
        fused.judge_again(self._X, made, self._again, self._count, self.labels, (self._moved, self._old), track)

    def _added(self, k: int, listed: bool) -> None:
        """Bring the sums up to date with the rows that moved."""
        n, d = self._X.shape
        tiles, width = self.tiles, fused.padded_width(d)
        size = max(16, min(1 << (k - 1).bit_length(), LARGEST_SUMS // width))
        scale = fused.scale_of(self._largest)
        processors = torch.cuda.get_device_properties(self._X.device).multi_processor_count
        _flow[(min(processors, -(-n // tiles.sum_rows)), -(-k // size))](
            *(self._X, self._moved, self._old, self.labels, self._count, self._sums, n, d, k, scale, 1 / scale),
            LISTED=listed,
            D=width,
            K=size,
            BM=tiles.sum_rows,
            STAGES=tiles.sum_stages,
            num_warps=tiles.sum_warps,
        )
