"""A forest grown by threads, one tree a seed, and the gain its columns brought."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benthic.base.progress import Bar
from benthic.base.threads import Crew
from benthic.trees import forest_growth as fg
from benthic.trees.binning import Bins
from benthic.trees.histogram_predict import join, tree_arrays


@dataclass(frozen=True)
class ForestPlan:
    """What every tree of a forest is grown from.

    codes: (p, n) bins. y: (n,) class codes. targets: (n, k). weights: (n,). whole: the settings of ``forest_growth``.
    limits: least gain of a cut, least weight of a leaf. draws: size of a bootstrap sample, 0 for none.
    """

    codes: np.ndarray
    bins: Bins
    y: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    whole: np.ndarray
    limits: np.ndarray
    draws: int

    def counts(self, seed: int) -> np.ndarray:
        """How often every row is in the sample of the tree with this seed."""
        return sample_counts(seed, self.codes.shape[1], self.draws)


def sample_counts(seed: int, n: int, draws: int) -> np.ndarray:
    """How often each of ``n`` rows is drawn for the tree with this seed; once each without a bootstrap (0 draws)."""
    counts = np.ones(n, dtype=np.int32)
    if draws:
        fg.draw_counts(seed, draws, counts)
    return counts


def grow_forest(plan: ForestPlan, seeds: np.ndarray, crew: Crew, bar: Bar) -> dict[str, np.ndarray]:
    """One tree for each seed; the result does not depend on the number of threads."""
    grown: list[dict[str, np.ndarray]] = [{}] * len(seeds)

    def work(t: int) -> None:
        grown[t] = grow_one(plan, int(seeds[t]))
        bar.tick()

    crew.each(work, range(len(seeds)))
    return join(grown)


def grow_one(plan: ForestPlan, seed: int) -> dict[str, np.ndarray]:
    """The tree of one seed as parallel arrays."""
    counts = plan.counts(seed)
    room = 2 * int((counts > 0).sum()) + 1
    room = min(room, 2 * int(plan.whole[fg.MAX_LEAVES]) + 1)
    ints = np.empty((room, 8), dtype=np.int64)
    gains, values = np.empty(room), np.empty((room, int(plan.whole[fg.WIDTH])))
    subsets = np.empty((room, 4), dtype=np.uint64)
    nodes = fg.grow(
        plan.codes,
        plan.bins.categorical,
        plan.y,
        plan.targets,
        plan.weights,
        counts,
        seed ^ 0x5DEECE66D,
        plan.whole,
        plan.limits,
        ints,
        gains,
        values,
        subsets,
    )
    ints = ints[:nodes]
    return tree_arrays(
        plan.bins,
        feature=ints[:, fg.FEATURE],
        place=ints[:, fg.BIN],
        left=ints[:, fg.LEFT],
        missing_left=ints[:, fg.MISSING_LEFT],
        named=ints[:, fg.NAMED],
        subsets=subsets[:nodes],
        value=values[:nodes],
        gain=gains[:nodes],
        rows=ints[:, fg.STOP] - ints[:, fg.START],
    )


def gain_importances(trees: dict[str, np.ndarray], p: int, by_tree: bool) -> np.ndarray:
    """Share (p,) of the gain that each column brought; ``by_tree`` gives every tree the same weight."""
    inner = trees["feature"] >= 0
    feature, gain = trees["feature"][inner], trees["gain"][inner].astype(np.float64)
    if not by_tree:
        total = np.bincount(feature, gain, p)
    else:
        tree = np.searchsorted(trees["start"], np.flatnonzero(inner), side="right") - 1
        size = np.bincount(tree, gain, len(trees["start"]) - 1)
        total = np.bincount(feature, gain / np.maximum(size[tree], 1e-300), p)
    return total / max(total.sum(), 1e-300)
