"""Growing one tree after another on the same bins, and keeping them as parallel arrays."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from benthic.base.threads import Crew, threads
from benthic.trees import histogram as hg
from benthic.trees.binning import Bins, pack
from benthic.trees.signals import LINE

_EXACT = 5_000  # rows below which gradients are not rounded to few bits
_FEWEST_BITS = 8  # of a gradient and a curvature together that share a word
_NAP = 2e-5  # seconds a thread sleeps that has waited long
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
        signs = np.zeros(p, np.int64) if rules.monotonic is None else np.asarray(rules.monotonic, np.int64)
        whole = [rules.min_samples_leaf, rules.max_depth or n + 1, leaves, order, rules.max_features or p, 0, p]
        whole += [step, n.bit_length(), 0, n.bit_length()]
        blocks = len(words)
        parts = min(self.crew.size, threads(-1), blocks) if n * p > _SMALL_WORK else 1  # they wait awake: one a core
        ends = [round(p * k / parts / 8) for k in range(parts)]  # the last block may be nearly empty
        self.parts = parts
        self.grower = hg.Grower(
            words=words,
            rows=np.zeros(n + hg.AHEAD, dtype=np.uint32),
            spare=np.empty(n, dtype=np.uint32),
            first=np.empty(n, dtype=np.int64),
            second=np.empty(n if second_order else 1, dtype=np.int64),
            ordered=np.empty(n * step, dtype=np.int64),
            hist=np.empty((slots, blocks * 2048 * step), dtype=np.int64),
            ints=np.zeros((nodes, 10), dtype=np.int64),
            reals=np.zeros((nodes, 5)),
            subset=np.zeros((nodes, 4), dtype=np.uint64),
            control=np.zeros(8, dtype=np.int64),
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
            ends=np.array([*ends, blocks], dtype=np.int64),
            meeting=np.zeros((parts + 1, LINE), dtype=np.int64),
        )

    def grow(
        self,
        gradient: np.ndarray,
        curvature: np.ndarray,
        sizes: tuple[float, float],
        chosen: np.ndarray | None = None,
        seed: int = 0,
        turn: int = 0,
    ) -> GrownTree:
        """One tree for gradients (n,) and curvatures (n,), none below 0, or (1,) when they are all one.

        sizes: the largest of either in size. chosen: sorted rows that take part. seed: chooses columns. turn: how
        many trees there were before; gradients are rounded differently every time.
        """
        g = self.grower
        units = np.maximum(sizes, 1e-300) / 2.0 ** np.array(self._bits(curvature, sizes[1]))
        if len(g.second) == 1:
            units[1] = 1.0
        g.scale[[hg.GRADIENT_UNIT, hg.CURVATURE_UNIT]] = units
        g.whole[hg.SEED] = seed
        self.crew.split(
            self.rows,
            lambda low, high: hg.pack_gradients(
                gradient, curvature, units, g.whole, turn, g.first, g.second, low, high
            ),
        )
        count = self.rows if chosen is None else len(chosen)
        g.rows[:count] = np.arange(count, dtype=np.uint32) if chosen is None else chosen
        self._plant(count)
        if self.parts > 1:
            self.crew.together(self._grow)
        else:
            self._grow(0)
        return self._harvest(count)

    def _bits(self, curvature: np.ndarray, largest: float) -> tuple[int, int]:
        """Bits of a row's gradient and curvature, so that sums have room; decides whether they share a word.

        They do where enough bits are left, and where curvatures are not so unequal that most would be lost.
        """
        g, count = self.grower, self.rows.bit_length()
        free = 63 - 3 * count
        g.whole[[hg.LIFT, hg.TOP]] = 0, count
        if len(g.second) == 1:
            return 62 - 2 * count, 0
        g.whole[hg.WORDS] = 2
        bend = min((free - 2) // 2, 20)
        if self.rows < _EXACT or free < _FEWEST_BITS or curvature.mean() * 2.0**bend < 4 * largest:
            return 62 - 2 * count, 62 - count
        g.whole[[hg.WORDS, hg.LIFT, hg.TOP]] = 1, count, 2 * count + bend
        return min(free - bend, 30), bend

    def _plant(self, count: int) -> None:
        """Make the root: it holds the first ``count`` of the rows."""
        g = self.grower
        g.control[:] = 0
        g.free[:] = np.arange(len(g.free))[::-1]
        g.control[[hg.NODES, hg.LEAVES, hg.LARGE, hg.STAGE]] = 1, 1, -1, hg.PLANT
        g.control[hg.SLOTS] = len(g.free) - 1
        g.ints[0] = 0
        g.ints[0, [hg.FEATURE, hg.LEFT, hg.STOP, hg.SLOT]] = -1, -1, count, g.free[-1]
        g.ints[0, hg.OPEN] = count >= 2 * g.whole[hg.MIN_ROWS]
        g.reals[0] = 0.0, 0.0, 0.0, -np.inf, np.inf

    def _grow(self, part: int) -> None:
        """A thread's part in growing a tree. Compiled threads wait for each other awake, then doze here."""
        g = self.grower
        try:
            while part < self.parts and not hg.take_part(g, part, self.parts):
                time.sleep(_NAP)
        except BaseException:
            if part == 0:
                hg.part_all(g.meeting)
            raise

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
