"""A tree as parallel arrays, one entry a node, and the walks down it."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.trees.walking import find_leaves, find_leaves_by_thresholds, spread_rows
from benthic.trees.walking_torch import leaves_on_device, spread_on_device


@dataclass(frozen=True)
class Tree:
    """The nodes of a tree, the root first and parents before children.

    feature: attribute asked, -1 in a leaf. threshold: numbers up to it take the first branch. first, ways: where the
    branches of a node begin in ``branches``, and how many there are: two for numbers, one for each category else.
    branches: the node each branch leads to, -1 for none. missing: the node for rows that lack the value; -1 sends
    them down every branch in shares of its weight. parent, depth: of each node. rows, weight: what reached it in
    training. impurity: there. gain: decrease of the impurity by the split, times the share of the weight that reached
    the node. value: (nodes, m) weights of the classes, or means. categories: (d,) of each attribute, 0 for numbers.
    """

    feature: np.ndarray
    threshold: np.ndarray
    first: np.ndarray
    ways: np.ndarray
    branches: np.ndarray
    missing: np.ndarray
    parent: np.ndarray
    depth: np.ndarray
    rows: np.ndarray
    weight: np.ndarray
    impurity: np.ndarray
    gain: np.ndarray
    value: np.ndarray
    categories: np.ndarray

    @property
    def node_count(self) -> int:
        """How many nodes there are."""
        return len(self.feature)

    @property
    def leaves(self) -> np.ndarray:
        """The nodes that ask nothing."""
        return np.flatnonzero(self.feature < 0)

    @property
    def fractional(self) -> bool:
        """Whether a row that lacks a value goes down several branches."""
        return bool(((self.feature >= 0) & (self.missing < 0)).any())

    def children(self, node: int) -> list[int]:
        """The nodes below a node, each once, in the order of the branches; one for missing values alone comes last."""
        if self.feature[node] < 0:
            return []
        span = [*self.branches[self.first[node] : self.first[node] + self.ways[node]], self.missing[node]]
        return list(dict.fromkeys(int(child) for child in span if child >= 0))

    def leaf_of(self, X: Tensor) -> Tensor:
        """The leaf (n,) of every row of attributes (n, d); that of the largest share where rows are split up."""
        return self._walk(X, np.zeros((self.node_count, 1)))[1]

    def answer(self, X: Tensor, value: np.ndarray) -> Tensor:
        """The value (nodes, m) of the leaf of every row, averaged over leaves by shares: (n, m) in float64."""
        if not self.fractional:
            leaves = self.leaf_of(X)
            return torch.as_tensor(value, device=X.device)[leaves]
        return self._walk(X, value)[0]

    def _walk(self, X: Tensor, value: np.ndarray) -> tuple[Tensor, Tensor]:
        if X.device.type != "cpu":
            if self.fractional:
                return spread_on_device(self, X.double(), value)
            return X.new_zeros(0), leaves_on_device(self, X.double())
        rows = np.ascontiguousarray(X.numpy(), dtype=np.float64)
        leaves = np.empty(len(rows), np.int64)
        split = self.feature, self.threshold, self.first, self.ways, self.branches, self.missing, self.categories
        if not self.fractional:
            if not self.categories.any():
                find_leaves_by_thresholds(rows, *self._pairs(), leaves)
            else:
                find_leaves(rows, *split, leaves)
            return X.new_zeros(0), torch.from_numpy(leaves)
        out = np.zeros((len(rows), value.shape[1]))
        spread_rows(rows, *split, self.weight, np.ascontiguousarray(value), out, leaves)
        return torch.from_numpy(out), torch.from_numpy(leaves)

    def _pairs(self) -> tuple[np.ndarray, ...]:
        """Features, thresholds, pairs of children and ways of missing values, in which a leaf leads to itself.

        Small types keep large trees in the cache.
        """
        leaf, own = self.feature < 0, np.arange(self.node_count, dtype=np.int32)
        pairs = np.repeat(own[:, None], 2, axis=1)
        pairs[~leaf] = self.branches.reshape(-1, 2)
        feature, missing = np.maximum(self.feature, 0).astype(np.int32), self.missing.astype(np.int32)
        return feature, self.threshold, pairs, np.where(leaf, own, missing)

    def importances(self) -> np.ndarray:
        """Total gain of every attribute, (d,), as shares of all gain."""
        inner = self.feature >= 0
        total = np.bincount(self.feature[inner], self.gain[inner], minlength=len(self.categories))
        return total / total.sum() if total.sum() > 0 else total

    def cut(self, leaf: np.ndarray) -> Tree:
        """The tree in which the nodes marked by ``leaf`` (nodes,) ask nothing more."""
        keep = np.ones(self.node_count, bool)
        for node in range(1, self.node_count):
            parent = self.parent[node]
            keep[node] = keep[parent] and not leaf[parent]
        feature = np.where(leaf, -1, self.feature)[keep]
        number = np.append(np.cumsum(keep) - 1, -1)  # the last stands for no node
        ways = np.where(feature >= 0, self.ways[keep], 0)
        spans = [self.branches[a : a + b] for a, b in zip(self.first[keep], ways, strict=True)]
        kept = {f.name: getattr(self, f.name)[keep] for f in fields(self) if f.name not in ("branches", "categories")}
        kept |= {
            "feature": feature,
            "ways": ways,
            "first": np.cumsum(ways) - ways,
            "branches": number[np.concatenate([*spans, np.zeros(0, np.int64)]).astype(np.int64)],
            "missing": np.where(feature >= 0, number[self.missing[keep]], -1),
            "parent": number[self.parent[keep]],
            "gain": np.where(feature >= 0, self.gain[keep], 0.0),
        }
        return replace(self, **kept)

    def arrays(self) -> dict[str, np.ndarray]:
        """The fields by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


def from_binary(grown: dict[str, Any], categories: np.ndarray) -> Tree:
    """A tree from the nodes of a binary one, with sets of categories spelled out as branches.

    grown: feature, threshold, left, right, missing_left, subset (a line of ``subsets`` or -1) and the fields that a
    tree keeps. Categories that no row of the node has follow the missing values.
    """
    feature, left, right = grown["feature"], grown["left"], grown["right"]
    inner = feature >= 0
    heavier = grown["rows"][left] > grown["rows"][right]
    to_left = np.where(grown["subset"] >= 0, heavier, grown["missing_left"] == 1)
    missing = np.where(inner, np.where(to_left, left, right), -1)
    ways = np.where(inner, np.where(grown["subset"] >= 0, categories[feature], 2), 0)
    first = np.cumsum(ways) - ways
    branches = np.empty(int(ways.sum()), np.int64)
    plain = inner & (grown["subset"] < 0)
    branches[first[plain]], branches[first[plain] + 1] = left[plain], right[plain]
    for node in np.flatnonzero(inner & (grown["subset"] >= 0)):
        side = grown["subsets"][grown["subset"][node], : ways[node] + 1]
        ends = np.array([right[node], left[node], missing[node]])[side]  # 0 right, 1 left, 2 never seen here
        branches[first[node] : first[node] + ways[node]] = ends[:-1]
        missing[node] = ends[-1]
    names = ("feature", "threshold", "parent", "depth", "rows", "weight", "impurity", "value")
    gain = np.where(inner, grown["gain"], 0.0)
    own = {name: grown[name] for name in names}
    return Tree(first=first, ways=ways, branches=branches, missing=missing, gain=gain, categories=categories, **own)
