"""Brownian paths that a seed decides: the same path at any step size."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput

_MASK = (1 << 64) - 1


def _mix(seed: int, *words: int) -> int:
    """A number of 63 bits that depends on all words (the finalizer of SplitMix64, Steele et al., 2014)."""
    state = seed & _MASK
    for word in words:
        state = (state + 0x9E3779B97F4A7C15 * (2 * word + 1)) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        state ^= state >> 31
    return state >> 1


class BrownianPath:
    r"""A path of Brownian motion between two times, as a function of time.

    .. math:: W(t) - W(s) \sim N(0, \lvert t - s \rvert I)

    Cells of equal length get independent increments; inside a cell, midpoints are drawn given their neighbors
    (Lévy, 1948), as deep as a time needs, each from a seed of its own (the virtual Brownian tree of Li et al.,
    2020). So a solve with half the step sees the same path, and nothing is stored but the last few points.
    Below ``depth`` halvings of a cell the path is a straight line.

    t0, t1: the ends, in either order; W(t0) = 0. shape, dtype, device: of W. cells: how many.

    >>> path = BrownianPath(0.0, 1.0, (2,), seed=3)
    >>> bool(torch.equal(path(0.25), BrownianPath(0.0, 1.0, (2,), seed=3)(0.25)))
    True
    """

    def __init__(
        self,
        t0: float,
        t1: float,
        shape: Sequence[int],
        *,
        seed: int,
        cells: int = 1,
        depth: int = 24,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        if not (math.isfinite(t0) and math.isfinite(t1)) or t0 == t1:
            raise InvalidInput(f"BrownianPath: from t={t0} to t={t1}; the ends must be finite and differ")
        if cells < 1 or depth < 0:
            raise InvalidInput(f"BrownianPath: cells={cells} and depth={depth}; at least 1 cell and depth 0 are needed")
        self.t0, self.t1, self.shape, self.seed = t0, t1, tuple(shape), seed
        self.cells, self.depth, self.dtype, self.device = cells, depth, dtype, torch.device(device)
        self._scale = math.sqrt(abs(t1 - t0) / cells)
        self._generator = torch.Generator(device=self.device)
        self._corner = (0, torch.zeros(self.shape, dtype=dtype, device=self.device))
        self._branch: list[tuple[int, int, Tensor, Tensor]] = []  # nested intervals: level, index, ends

    def __call__(self, t: float) -> Tensor:
        """W(t)."""
        place = (t - self.t0) / (self.t1 - self.t0) * self.cells
        whole = round(place)
        if abs(place - whole) < 1e-9 * max(1.0, place):
            place = whole
        if not 0 <= place <= self.cells:
            raise InvalidInput(f"BrownianPath: t={t} lies outside of {self.t0} to {self.t1}")
        cell = min(math.floor(place), self.cells - 1)
        return self._inside(cell, place - cell)

    def increment(self, begin: float, end: float) -> Tensor:
        """W(end) − W(begin)."""
        return self(end) - self(begin)

    def _noise(self, *words: int) -> Tensor:
        self._generator.manual_seed(_mix(self.seed, *words))
        return torch.randn(self.shape, generator=self._generator, dtype=self.dtype, device=self.device)

    def _at_corner(self, cell: int) -> Tensor:
        """W where a cell begins, from the last corner that was asked for or from the start."""
        last, value = self._corner
        if last > cell:
            last, value = 0, torch.zeros_like(value)
        for i in range(last, cell):
            value = value + self._scale * self._noise(0, i)
        self._corner = (cell, value)
        return value

    def _inside(self, cell: int, fraction: float) -> Tensor:
        """W at a fraction of a cell: down the tree of halves, starting where the last descent agrees."""
        left = self._at_corner(cell)
        if fraction == 0.0:
            return left
        right = left + self._scale * self._noise(0, cell)
        if fraction == 1.0:
            return right
        branch = self._branch if self._branch and self._branch[0][1] == cell else []
        kept = [(0, cell, left, right)]
        for level in range(1, self.depth + 1):
            index, position = math.floor(fraction * 2**level), fraction * 2**level
            _, parent, left, right = kept[-1]
            if len(branch) > level and branch[level][1] == (cell << level) + index:
                kept.append(branch[level])
            else:
                spread = 0.5 * self._scale * 2 ** (-(level - 1) / 2)
                middle = 0.5 * (left + right) + spread * self._noise(level, parent)
                ends = (middle, right) if index % 2 else (left, middle)
                kept.append((level, (cell << level) + index, *ends))
                branch = []
            if abs(position - round(position)) < 1e-7:
                self._branch = kept
                return kept[-1][2] if round(position) == index else kept[-1][3]
        self._branch = kept
        _, _, left, right = kept[-1]
        part = fraction * 2**self.depth - math.floor(fraction * 2**self.depth)
        return left + part * (right - left)
