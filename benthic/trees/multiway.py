"""ID3 and C4.5: a branch for every category, gains per bit, rows without a value in fractions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from benthic.trees.multiway_kernels import CUT, GAIN, INFO, VALID, weigh_attributes
from benthic.trees.structure import Tree


@dataclass(frozen=True)
class Plan:
    """How a multi-way tree grows.

    c45: thresholds keep C4.5's least weights and a split needs a gain; ID3 splits until rows are of one class or
    attributes run out. ratio: gains are divided by the split information among attributes of at least average gain.
    costs: (d,) of the attributes or None; power: of the cost in Nunez' measure, or None for Tan's.
    """

    c45: bool
    entropy: bool = True
    ratio: bool = True
    penalty: bool = False
    max_depth: int = -1
    max_leaves: int = -1
    min_split: int = 2
    min_leaf: float = 1.0
    min_decrease: float = 0.0
    max_features: int | None = None
    costs: np.ndarray | None = None
    power: float | None = None


@dataclass
class _Node:
    rows: np.ndarray
    weight: np.ndarray
    counts: np.ndarray
    depth: int
    parent: int
    used: frozenset[int]
    feature: int = -1
    cut: float = 0.0
    gain: float = 0.0
    ways: list[int] = field(default_factory=list)


def attribute_scores(found: np.ndarray, plan: Plan) -> np.ndarray:
    r"""What attributes are chosen by, (d,), minus infinity for those out of question.

    The gain, or the gain ratio among attributes whose gain is at least the average (Quinlan, 1993, section 2.2.3).
    With costs the measure S becomes :math:`S^2 / c` (Tan & Schlimmer, 1990) or
    :math:`(2^S - 1) / (c + 1)^w` (Núñez, 1988).

    found: (d, 4) of ``weigh_attributes``.
    """
    gain, valid = found[:, GAIN], found[:, VALID] > 0
    if plan.c45:
        valid &= gain > 1e-10
    score = gain.copy()
    if plan.ratio and valid.any():
        valid &= gain >= gain[valid].mean() - 1e-9
        score = gain / np.where(found[:, INFO] > 0, found[:, INFO], np.inf)
    score = np.maximum(score, 0.0)
    if plan.costs is not None:
        score = score**2 / plan.costs if plan.power is None else (2**score - 1) / (plan.costs + 1) ** plan.power
    return np.where(valid, score, -np.inf)


def grow_multiway(
    X: np.ndarray,
    categories: np.ndarray,
    codes: np.ndarray,
    weight: np.ndarray,
    classes: int,
    plan: Plan,
    generator: np.random.Generator,
) -> Tree:
    """Grow the tree of a classifier.

    X: (d, n) attributes, NaN where missing. categories: (d,) how many, 0 for numbers. codes: (n,) classes.
    weight: (n,) positive.
    """
    grower = _Grower(X, categories, codes, classes, plan, generator)
    grower.grow(weight)
    return grower.tree()


def root_gains(
    X: np.ndarray, categories: np.ndarray, codes: np.ndarray, weight: np.ndarray, classes: int, plan: Plan
) -> np.ndarray:
    """Gain, split information, threshold and whether it may be used, (d, 4), of every attribute over all rows."""
    grower = _Grower(X, categories, codes, classes, plan, np.random.default_rng(0))
    grower._node(np.arange(len(weight)), weight, 0, -1, frozenset())
    return grower.weigh(grower.nodes[0])


class _Grower:
    def __init__(
        self,
        X: np.ndarray,
        categories: np.ndarray,
        codes: np.ndarray,
        classes: int,
        plan: Plan,
        generator: np.random.Generator,
    ) -> None:
        self.X, self.categories, self.codes = X, categories, codes
        self.classes, self.plan, self.generator = classes, plan, generator
        self.numbers = np.flatnonzero(categories == 0)
        self.sorted = {int(f): np.unique(X[f][~np.isnan(X[f])]) for f in self.numbers}
        self.nodes: list[_Node] = []

    def grow(self, weight: np.ndarray) -> None:
        """Split nodes, the newest first, or that of the largest gain where leaves are limited."""
        frontier = [self._node(np.arange(len(weight)), weight, 0, -1, frozenset())]
        self.total = float(weight.sum())
        self._search(self.nodes[0])
        leaves = 1
        while frontier:
            most = max(frontier, key=lambda n: self.nodes[n].gain) if self.plan.max_leaves > 0 else frontier[-1]
            frontier.remove(most)
            node = self.nodes[most]
            parts = list(self._parts(node)) if node.feature >= 0 else []
            if not parts or 0 < self.plan.max_leaves < leaves + len(parts) - 1:
                node.feature = -1
                continue
            leaves += len(parts) - 1
            node.ways = [-1] * (int(self.categories[node.feature]) or 2)
            used = node.used | {node.feature} if self.categories[node.feature] else node.used
            for way, rows, share in reversed(parts):
                node.ways[way] = self._node(rows, share, node.depth + 1, most, used)
                self._search(self.nodes[-1])
                frontier.append(node.ways[way])

    def _node(self, rows: np.ndarray, weight: np.ndarray, depth: int, parent: int, used: frozenset[int]) -> int:
        counts = np.bincount(self.codes[rows], weight, minlength=self.classes)
        self.nodes.append(_Node(rows, weight, counts, depth, parent, used))
        return len(self.nodes) - 1

    def _search(self, node: _Node) -> None:
        """Choose the attribute of a node, if it is to be split."""
        plan, weight = self.plan, float(node.counts.sum())
        pure = weight - node.counts.max() <= 1e-12 * weight
        if pure or len(node.rows) < plan.min_split or weight < 2 * plan.min_leaf or node.depth == plan.max_depth:
            return
        found = self.weigh(node)
        scores = attribute_scores(found, plan)
        best = int(np.flatnonzero(scores >= scores.max() - 1e-12)[0]) if np.isfinite(scores.max()) else -1
        gain = max(float(found[best, GAIN]), 0.0) * weight / self.total
        if best < 0 or gain + 1e-15 < plan.min_decrease:
            return
        node.feature, node.gain = best, gain
        if not self.categories[best]:
            # the largest value of the data below the midpoint, as C4.5 reports it
            values = self.sorted[best]
            node.cut = float(values[np.searchsorted(values, found[best, CUT], side="right") - 1])

    def weigh(self, node: _Node) -> np.ndarray:
        """Gains and split information of the attributes in a node."""
        X = np.ascontiguousarray(self.X[:, node.rows])
        order = np.zeros(X.shape, np.int64)
        if len(self.numbers):
            order[self.numbers] = np.argsort(X[self.numbers], axis=1)
        plan, d = self.plan, len(X)
        usable = np.ones(d, bool)
        usable[list(node.used)] = False
        if plan.max_features is not None and plan.max_features < d:
            drawn = np.zeros(d, bool)
            drawn[self.generator.choice(d, plan.max_features, replace=False)] = True
            usable &= drawn
        least = -plan.min_leaf if plan.c45 else plan.min_leaf
        return weigh_attributes(
            X, order, self.codes[node.rows], node.weight, self.categories, usable, self.classes, plan.entropy,
            float(plan.min_leaf), float(least), plan.penalty,
        )  # fmt: skip

    def _parts(self, node: _Node) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Branch, rows and weights below a node; rows without the value go down every branch by its share."""
        values = self.X[node.feature, node.rows]
        known = ~np.isnan(values)
        way = values if self.categories[node.feature] else values > node.cut
        branch = np.where(known, way, -1).astype(np.int64)
        weights = np.bincount(branch[known], node.weight[known])
        total = weights.sum()
        for b in np.flatnonzero(weights > 0):
            here = (branch == b) | ~known
            share = node.weight[here] * np.where(branch[here] == b, 1.0, weights[b] / total)
            yield int(b), node.rows[here], share

    def tree(self) -> Tree:
        """The nodes as parallel arrays."""
        nodes = self.nodes
        inner = [node.feature >= 0 for node in nodes]
        spans = [node.ways if split else [] for node, split in zip(nodes, inner, strict=True)]
        ways = np.array([len(span) for span in spans], np.int64)
        counts = np.array([node.counts for node in nodes])
        weight = counts.sum(1)
        return Tree(
            feature=np.array([node.feature for node in nodes], np.int64),
            threshold=np.array([node.cut for node in nodes]),
            first=np.cumsum(ways) - ways,
            ways=ways,
            branches=np.array([child for span in spans for child in span], np.int64),
            missing=np.full(len(nodes), -1, np.int64),
            parent=np.array([node.parent for node in nodes], np.int64),
            depth=np.array([node.depth for node in nodes], np.int64),
            rows=np.array([len(node.rows) for node in nodes], np.int64),
            weight=weight,
            impurity=class_impurity(counts / weight[:, None], self.plan.entropy),
            gain=np.array([node.gain if split else 0.0 for node, split in zip(nodes, inner, strict=True)]),
            value=counts,
            categories=self.categories,
        )


def class_impurity(shares: np.ndarray, entropy: bool) -> np.ndarray:
    """Entropy in bits, or Gini's index, of class shares (nodes, k)."""
    if not entropy:
        return (shares * (1 - shares)).sum(1)
    return -(shares * np.log2(np.where(shares > 0, shares, 1.0))).sum(1) + 0.0
