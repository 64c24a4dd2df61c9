"""Growing one tree after another on the same bins, and keeping them as parallel arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benthic.base.threads import Crew
from benthic.trees import histogram as hg
from benthic.trees.binning import Bins, pack

_SMALL_NODE = 60_000  # rows times columns of a node below which one thread fills its histogram
_SMALL_WORK = 200_000  # rows times columns of a tree below which one thread grows it


@dataclass(frozen=True)
class GrowthRules:
    """What limits a tree.

    max_leaf_nodes, max_depth: None is no limit. min_samples_leaf: fewest rows of a leaf. l2: added to the curvature of
    a leaf. growth: ``"leaf"`` cuts the leaf that gains most, ``"depth"`` the shallowest. max_features: columns a
    node may ask about. monotonic: (p,) signs or None. min_gain: a cut must gain more.
    """

    max_leaf_nodes: int | None = 31
    max_depth: int | None = None
    min_samples_leaf: int = 20
    l2: float = 0.0
    growth: str = "leaf"
    max_features: int | None = None
    monotonic: np.ndarray | None = None
    min_gain: float = 0.0
    min_curvature: float = 1e-3


@dataclass(frozen=True)
class GrownTree:
    """One tree, before its leaves have values.

    feature: (m,) column asked about, -1 at a leaf. bin: the last bin that goes left. left: (m,) the left child, the
    right one follows it. missing_left, named: (m,) whether missing values go left, whether the question is about
    categories. subset: (m, 4) categories that go left, as bits. gain, low, high: (m,) drop of the objective, bounds
    of the value. start, stop: (m,) the node's place in ``rows``. rows: (n,) row numbers, leaf by leaf.
    """

    feature: np.ndarray
    bin: np.ndarray
    left: np.ndarray
    missing_left: np.ndarray
    named: np.ndarray
    subset: np.ndarray
    gain: np.ndarray
    low: np.ndarray
    high: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    rows: np.ndarray

    @property
    def leaves(self) -> np.ndarray:
        """The nodes that are leaves."""
        return np.flatnonzero(self.left < 0)


class HistogramGrower:
    """Grows trees on one binned table; the work space is made once.

    codes: (p, n) bins. second_order: whether rows differ in curvature.
    """

    def __init__(
        self, codes: np.ndarray, bins: Bins, rules: GrowthRules, second_order: bool, crew: Crew | None = None
    ) -> None:
        p, n = codes.shape
        self.rows, self.columns, self.crew = n, p, crew or Crew(1)
        words = pack(codes)
        leaves = min(rules.max_leaf_nodes or n, max(n // rules.min_samples_leaf, 1))
        slots = leaves + 1 if rules.max_leaf_nodes else n.bit_length() + 3
        nodes, step = 2 * leaves + 1, 2 if second_order else 1
        order = {"leaf": 0, "depth": 1}[rules.growth] if rules.max_leaf_nodes else 2
        shift = max(n.bit_length(), 1)
        signs = np.zeros(p, np.int64) if rules.monotonic is None else np.asarray(rules.monotonic, np.int64)
        whole = [step, shift, rules.min_samples_leaf, rules.max_depth or n + 1, leaves, order]
        whole += [rules.max_features or p, 0, p]
        blocks = len(words)
        parts = min(self.crew.size, blocks) if n * p > _SMALL_WORK else 1
        ends = [round(p * k / parts / 8) for k in range(parts)]  # the last block may be nearly empty
        self.blocks = [*ends, blocks]
        self.grower = hg.Grower(
            words=words,
            rows=np.arange(n, dtype=np.uint32),
            spare=np.empty(n, dtype=np.uint32),
            first=np.empty(n, dtype=np.int64),
            second=np.empty(n if second_order else 1, dtype=np.int64),
            ordered=np.empty(n * step, dtype=np.int64),
            hist=np.empty((slots, blocks * 2048 * step), dtype=np.int64),
            ints=np.zeros((nodes, 10), dtype=np.int64),
            reals=np.zeros((nodes, 5)),
            subset=np.zeros((nodes, 4), dtype=np.uint64),
            control=np.zeros(6, dtype=np.int64),
            frontier=np.zeros(nodes, dtype=np.int64),
            free=np.arange(slots),
            found=np.zeros((parts, 2, 5)),
            found_subset=np.zeros((parts, 2, 4), dtype=np.uint64),
            bins=bins.counts.astype(np.int64),
            named=bins.categorical,
            signs=signs,
            asked=np.ones((2, p), dtype=np.uint8),
            whole=np.array(whole, dtype=np.int64),
            scale=np.array([1.0, 1.0, rules.l2, rules.min_curvature, rules.min_gain]),
        )

    def grow(
        self,
        gradient: np.ndarray,
        curvature: np.ndarray,
        sizes: tuple[float, float],
        chosen: np.ndarray | None = None,
        seed: int = 0,
    ) -> GrownTree:
        """One tree for gradients (n,) and curvatures (n,), or (1,) when they are all one.

        sizes: the largest of either in size. chosen: sorted rows that take part. seed: chooses columns.
        """
        g = self.grower
        free = 62 - int(g.whole[hg.SHIFT])  # bits left for a sum over all rows
        units = np.array([max(size, 1e-300) / 2.0**bits for size, bits in zip(sizes, self._bits(free), strict=True)])
        if len(g.second) == 1:
            units[1] = 1.0
        g.scale[hg.GRADIENT_UNIT], g.scale[hg.CURVATURE_UNIT] = units
        g.whole[hg.SEED] = seed
        shift = int(g.whole[hg.SHIFT])
        self.crew.split(
            self.rows,
            lambda low, high: hg.pack_gradients(gradient, curvature, units, shift, g.first, g.second, low, high),
        )
        count = self.rows if chosen is None else len(chosen)
        g.rows[:count] = np.arange(count, dtype=np.uint32) if chosen is None else chosen
        self._plant(count)
        self._grow()
        return self._harvest(count)

    def _plant(self, count: int) -> None:
        """Make the root: it holds the first ``count`` of the rows."""
        g = self.grower
        g.control[:] = 0
        g.free[:] = np.arange(len(g.free))[::-1]
        g.control[[hg.NODES, hg.LEAVES, hg.LARGE]] = 1, 1, -1
        g.control[hg.SLOTS] = len(g.free) - 1
        g.ints[0] = 0
        g.ints[0, [hg.FEATURE, hg.LEFT, hg.STOP, hg.SLOT]] = -1, -1, count, g.free[-1]
        g.ints[0, hg.OPEN] = count >= 2 * g.whole[hg.MIN_ROWS]
        shift, step = int(g.whole[hg.SHIFT]), int(g.whole[hg.WORDS])
        slope, bend = hg.put_in_order(g.rows, g.first, g.second, g.ordered, 0, count, shift, step)
        units = g.scale[[hg.GRADIENT_UNIT, hg.CURVATURE_UNIT]]
        g.reals[0] = slope * units[0], bend * units[1], 0.0, -np.inf, np.inf
        hg.ask(g.asked[0], g.whole, 0)

    def _bits(self, free: int) -> tuple[int, int]:
        return free - int(self.grower.whole[hg.SHIFT]), free

    def _grow(self) -> None:
        """Cut node after node; large ones are shared by the threads, small ones are not worth it."""
        g, ends, crew = self.grower, self.blocks, self.crew
        parts = len(ends) - 1

        def part(k: int) -> None:
            if k < parts:
                hg.work(g, k, ends[k], ends[k + 1])

        while True:
            small = int(g.control[hg.SMALL])
            rows = int(g.ints[small, hg.STOP] - g.ints[small, hg.START])
            used = parts if rows * self.columns >= _SMALL_NODE else 1
            if used > 1:
                crew.together(part)
            else:
                hg.work(g, 0, 0, ends[-1])
            if not hg.advance(g, used):
                return

    def _harvest(self, count: int) -> GrownTree:
        g = self.grower
        m = int(g.control[hg.NODES])
        ints, reals = g.ints[:m].copy(), g.reals[:m].copy()
        return GrownTree(
            feature=np.where(ints[:, hg.LEFT] >= 0, ints[:, hg.FEATURE], -1),
            bin=ints[:, hg.BIN],
            left=ints[:, hg.LEFT],
            missing_left=ints[:, hg.MISSING_LEFT],
            named=ints[:, hg.NAMED],
            subset=g.subset[:m].copy(),
            gain=reals[:, hg.GAIN],
            low=reals[:, hg.LOW],
            high=reals[:, hg.HIGH],
            start=ints[:, hg.START],
            stop=ints[:, hg.STOP],
            rows=g.rows[:count],
        )

    def place(self, rows: np.ndarray) -> np.ndarray:
        """The leaf in which each of ``rows`` ends in the newest tree."""
        leaf = np.empty(len(rows), dtype=np.int64)
        hg.leaf_of_rows(self.grower, rows, leaf)
        return leaf
