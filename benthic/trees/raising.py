"""C4.5's pruning with subtree raising: a node may also give way to its largest branch."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from benthic.trees.multiway import class_impurity
from benthic.trees.pruning import _SLACK, prune_by_errors, upper_error
from benthic.trees.structure import Tree

_DEEPEST = 250  # levels that the recursion below may go down


@dataclass
class _Branch:
    """A node with what hangs below it."""

    feature: int
    threshold: float
    counts: np.ndarray
    rows: int
    ways: list[_Branch | None] = field(default_factory=list)


def prune_with_raising(
    tree: Tree, X: np.ndarray, codes: np.ndarray, weight: np.ndarray, confidence: float = 0.25, entropy: bool = True
) -> Tree:
    """Replace subtrees by leaves or by their largest branches, where the pessimistic errors do not grow.

    All rows of a node are sent down the branch that takes its place, so a question that only its other branches
    justified disappears. Quinlan, 1993, section 4.2. For multi-way trees of classes; trees deeper than 250 levels
    are pruned by replacement only.

    X: (d, n) attributes, codes: (n,) classes, weight: (n,), all as the tree was grown on. entropy: whether impurities
    are entropies, else Gini's.
    """
    if int(tree.depth.max()) > _DEEPEST:
        return prune_by_errors(tree, confidence)
    pruner = _Pruner(X, codes, tree, confidence)
    root, _ = pruner.prune(_hang(tree, 0), np.arange(len(weight)), weight)
    return _flat(root, tree, entropy)


class _Pruner:
    def __init__(self, X: np.ndarray, codes: np.ndarray, tree: Tree, confidence: float) -> None:
        self.X, self.codes, self.confidence = X, codes, confidence
        self.categories, self.classes = tree.categories, tree.value.shape[1]
        self.known: dict[tuple[float, float], float] = {}

    def prune(self, branch: _Branch, rows: np.ndarray, weight: np.ndarray) -> tuple[_Branch, float]:
        """The branch as it should be for these rows, and its pessimistic errors."""
        counts, alone = self._alone(rows, weight)
        leaf = _Branch(-1, 0.0, counts, len(rows))
        if branch.feature < 0:
            return leaf, alone
        ways: list[_Branch | None] = [None] * len(branch.ways)
        below, heaviest, largest = 0.0, -1.0, branch
        for way, child, part, share in self._divide(branch, rows, weight):
            ways[way], errors = self.prune(child, part, share)
            below += errors
            if share.sum() > heaviest:
                heaviest, largest = float(share.sum()), child
        raised = self._errors(largest, rows, weight, below + _SLACK) if heaviest >= 0 else np.inf
        if heaviest < 0 or (alone <= below + _SLACK and alone <= raised + _SLACK):
            return leaf, alone
        if raised <= below + _SLACK:
            return self.prune(largest, rows, weight)
        return replace(branch, counts=counts, rows=len(rows), ways=ways), below

    def _alone(self, rows: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, float]:
        """Weights of classes, and the pessimistic errors of a leaf with these rows."""
        counts = np.bincount(self.codes[rows], weight, minlength=self.classes)
        total = float(counts.sum())
        errors = max(total - float(counts.max()), 0.0)
        key = (round(errors, 9), round(total, 9))  # leaves of equal counts are many
        if key not in self.known:
            self.known[key] = float(total * upper_error(errors, total, self.confidence))
        return counts, self.known[key]

    def _errors(self, branch: _Branch, rows: np.ndarray, weight: np.ndarray, most: float) -> float:
        """The pessimistic errors of a branch as it is, if these rows came down it; infinity once above ``most``."""
        parts = self._divide(branch, rows, weight) if branch.feature >= 0 else []
        if not parts:
            return self._alone(rows, weight)[1]
        total = 0.0
        for _, child, part, share in sorted(parts, key=lambda part: -len(part[2])):
            total += self._errors(child, part, share, most - total)
            if total > most:
                return np.inf
        return total

    def _divide(
        self, branch: _Branch, rows: np.ndarray, weight: np.ndarray
    ) -> list[tuple[int, _Branch, np.ndarray, np.ndarray]]:
        """Way, child, rows and weights below a branch; rows without a way go down all of them in fractions."""
        values = self.X[branch.feature, rows]
        known = ~np.isnan(values)
        way = values if self.categories[branch.feature] else values > branch.threshold
        place = np.where(known, way, -1).astype(np.int64)
        open_way = np.array([child is not None for child in branch.ways] + [False])  # the last is for -1
        place = np.where(open_way[place], place, -1)
        held = np.bincount(place[place >= 0], weight[place >= 0], minlength=len(branch.ways))
        parts = []
        for b, child in enumerate(branch.ways):
            if child is not None and held[b] > 0:
                here = (place == b) | (place < 0)
                share = weight[here] * np.where(place[here] == b, 1.0, held[b] / held.sum())
                parts.append((b, child, rows[here], share))
        return parts


def _hang(tree: Tree, node: int) -> _Branch:
    span = tree.branches[tree.first[node] : tree.first[node] + tree.ways[node]] if tree.feature[node] >= 0 else ()
    below = [_hang(tree, int(child)) if child >= 0 else None for child in span]
    return _Branch(int(tree.feature[node]), float(tree.threshold[node]), tree.value[node], int(tree.rows[node]), below)


def _flat(root: _Branch, like: Tree, entropy: bool) -> Tree:
    """The parallel arrays of a branch, categories from ``like``; gains are decreases of impurity."""
    nodes, parent, depth, stack = [], [], [], [(root, -1, 0)]
    place: dict[int, int] = {}
    while stack:
        branch, above, level = stack.pop()
        place[id(branch)] = len(nodes)
        nodes.append(branch)
        parent.append(above)
        depth.append(level)
        stack += [(child, place[id(branch)], level + 1) for child in branch.ways[::-1] if child is not None]
    spans = [[-1 if child is None else place[id(child)] for child in node.ways] for node in nodes]
    ways = np.array([len(span) for span in spans], np.int64)
    counts = np.array([node.counts for node in nodes])
    weight, above = counts.sum(1), np.array(parent, np.int64)
    impurity = class_impurity(counts / weight[:, None], entropy)
    gain = np.where(ways > 0, weight * impurity, 0.0)
    np.subtract.at(gain, above[1:], (weight * impurity)[1:])
    return replace(
        like,
        feature=np.array([node.feature for node in nodes], np.int64),
        threshold=np.array([node.threshold for node in nodes]),
        first=np.cumsum(ways) - ways,
        ways=ways,
        branches=np.array([child for span in spans for child in span], np.int64),
        missing=np.full(len(nodes), -1, np.int64),
        parent=above,
        depth=np.array(depth, np.int64),
        rows=np.array([node.rows for node in nodes], np.int64),
        weight=weight,
        impurity=impurity,
        gain=np.maximum(gain, 0.0) / weight[0],
        value=counts,
    )
