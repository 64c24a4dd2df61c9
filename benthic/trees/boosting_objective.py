"""What boosting descends: a named loss, the softmax loss of several classes, or any torch function.

Scores are (K, n): a row for each of K columns of trees. An objective gives the best constant scores, then slopes and
curvatures at the scores reached, and the values of a new tree's leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from benthic.base.threads import Crew
from benthic.trees.histogram_grower import GrownTree
from benthic.trees.losses import (
    ABSOLUTE,
    QUANTILE,
    Loss,
    TorchLoss,
    first_score,
    leaf_quantiles,
    leaf_values,
    respond,
)


@dataclass
class Response:
    """Slopes (K, n) and curvatures (K, n) at the scores, or (1, 1) when all are one; the mean loss."""

    gradient: np.ndarray
    curvature: np.ndarray
    loss: float = 0.0
    sizes: list[tuple[float, float]] = field(default_factory=list)


class Objective(Protocol):
    """The face that boosting sees."""

    columns: int
    flat: bool

    def start(self) -> np.ndarray:
        """The best constant scores (K,)."""

    def respond(self, raw: np.ndarray) -> Response:
        """Slopes and curvatures at scores (K, n)."""

    def values(self, raw: np.ndarray, k: int, answer: Response, tree: GrownTree, l2: float) -> np.ndarray:
        """The step of every leaf of a tree for column ``k``."""

    def loss(self, raw: np.ndarray, y: np.ndarray, weight: np.ndarray) -> float:
        """The mean loss of other rows."""


class NamedObjective:
    """One column of scores and a loss of ``losses``. weight: (n,), or (1,) when all rows count one."""

    columns = 1

    def __init__(self, loss: Loss, y: np.ndarray, weight: np.ndarray, crew: Crew) -> None:
        self.named, self.y, self.weight, self.crew = loss, y, weight, crew
        self.flat = loss.flat and len(weight) == 1
        self.total = float(weight.sum()) if len(weight) > 1 else float(len(y))
        self._answer = Response(np.empty((1, len(y))), np.ones((1, 1)) if self.flat else np.empty((1, len(y))))

    def start(self) -> np.ndarray:
        """The best constant score, (1,)."""
        return np.array([first_score(self.named, self.y, self.weight)])

    def respond(self, raw: np.ndarray) -> Response:
        """Slopes and curvatures at scores (1, n)."""
        found = self._answer

        def work(low: int, high: int) -> np.ndarray:
            report = np.zeros(3)
            code, level = self.named.code, self.named.level
            slope, bend = found.gradient[0], found.curvature[0]
            respond(code, level, raw[0], self.y, self.weight, slope, bend, report, low, high)
            return report

        reports = np.stack(self.crew.blocks(len(self.y), work))
        found.loss = float(reports[:, 0].sum()) / self.total
        found.sizes = [(float(reports[:, 1].max()), float(reports[:, 2].max()))]
        return found

    def values(self, raw: np.ndarray, k: int, answer: Response, tree: GrownTree, l2: float) -> np.ndarray:
        """The step of every leaf: Newton's, or the minimum over the leaf where Newton's is not."""
        leaves, out = tree.leaves, np.empty(len(tree.leaves))
        starts, stops = tree.start[leaves], tree.stop[leaves]

        def work(part: int) -> None:
            some = slice(part, None, parts)
            found = np.empty(len(leaves[some]))
            code, level, slope, bend = self.named.code, self.named.level, answer.gradient[0], answer.curvature[0]
            low, high = starts[some].copy(), stops[some].copy()
            if code in (ABSOLUTE, QUANTILE):
                leaf_quantiles(raw[0], self.y, tree.rows, low, high, level if code == QUANTILE else 0.5, found)
            else:
                leaf_values(code, level, raw[0], self.y, self.weight, slope, bend, tree.rows, low, high, l2, found)
            out[some] = found

        parts = self.crew.size if len(self.y) > 20_000 else 1
        self.crew.each(work, range(parts))
        return out

    def loss(self, raw: np.ndarray, y: np.ndarray, weight: np.ndarray) -> float:
        """The mean loss of other rows."""
        report, spare, y = np.zeros(3), np.empty(len(y)), y.astype(np.float64)
        respond(self.named.code, self.named.level, raw[0], y, weight, spare, np.ones(1), report, 0, len(y))
        return float(report[0]) / (float(weight.sum()) if len(weight) > 1 else len(y))


class SoftmaxObjective:
    r"""Several classes: a column of trees each, :math:`p_k \propto e^{F_k}`; curvature is its diagonal p (1 - p)."""

    flat = False

    def __init__(self, codes: np.ndarray, classes: int, weight: np.ndarray) -> None:
        self.y, self.columns, self.weight = codes, classes, weight

    def start(self) -> np.ndarray:
        """Logarithms of the shares of the classes."""
        weight = None if len(self.weight) == 1 else self.weight
        share = np.bincount(self.y, weight, self.columns)
        logs = np.log(np.maximum(share / share.sum(), 1e-12))
        return logs - logs.mean()

    def respond(self, raw: np.ndarray) -> Response:
        """Slopes and curvatures at scores (K, n)."""
        logs = _log_softmax(raw)
        P, rows = np.exp(logs), np.arange(len(self.y))
        bend = np.maximum(P * (1 - P), 1e-16) * self.weight
        slope = P
        slope[self.y, rows] -= 1
        slope *= self.weight
        loss = float(np.average(-logs[self.y, rows], weights=_weights(self.weight, len(rows))))
        sizes = [(float(np.abs(a).max()), float(b.max())) for a, b in zip(slope, bend, strict=True)]
        return Response(slope, bend, loss, sizes)

    def values(self, raw: np.ndarray, k: int, answer: Response, tree: GrownTree, l2: float) -> np.ndarray:
        """Newton's step of every leaf."""
        return newton_values(answer.gradient[k], answer.curvature[k], tree, l2)

    def loss(self, raw: np.ndarray, y: np.ndarray, weight: np.ndarray) -> float:
        """The mean loss of other rows."""
        picked = _log_softmax(raw)[y, np.arange(len(y))]
        return float(np.average(-picked, weights=_weights(weight, len(y))))


class TorchObjective:
    """Any torch function ``loss(raw, y)``; one column of scores, or one a class."""

    flat = False

    def __init__(self, function: Callable[..., Any], y: np.ndarray, columns: int = 1) -> None:
        self.columns, self._loss = columns, TorchLoss(function, y)

    def start(self) -> np.ndarray:
        """The best constant score; zeros for several columns."""
        n = len(self._loss.truth)
        if self.columns > 1:
            return np.zeros(self.columns)
        return self._loss.leaf_values(np.zeros(n), np.zeros(n, dtype=np.int64), 1, 0.0)

    def respond(self, raw: np.ndarray) -> Response:
        """Slopes and curvatures at scores (K, n), by automatic differentiation."""
        total, slope, bend = self._loss.respond(self._shaped(raw))
        slope, bend = (np.ascontiguousarray(part.reshape(raw.shape[1], -1).T) for part in (slope, bend))
        sizes = [(float(np.abs(a).max()), float(b.max())) for a, b in zip(slope, bend, strict=True)]
        return Response(slope, bend, total / raw.shape[1], sizes)

    def _shaped(self, raw: np.ndarray) -> np.ndarray:
        return raw[0].copy() if self.columns == 1 else np.ascontiguousarray(raw.T)

    def values(self, raw: np.ndarray, k: int, answer: Response, tree: GrownTree, l2: float) -> np.ndarray:
        """The best step of every leaf for one column of scores, Newton's for several."""
        if self.columns > 1:
            return newton_values(answer.gradient[k], answer.curvature[k], tree, l2)
        leaves = tree.leaves
        leaf = np.full(raw.shape[1], -1, dtype=np.int64)
        for place, node in enumerate(leaves):
            leaf[tree.rows[tree.start[node] : tree.stop[node]]] = place
        return self._loss.leaf_values(raw[0], leaf, len(leaves), l2)

    def loss(self, raw: np.ndarray, y: np.ndarray, weight: np.ndarray) -> float:
        """The mean loss of other rows."""
        return float(self._loss.losses(self._shaped(raw), y).mean())


def newton_values(gradient: np.ndarray, curvature: np.ndarray, tree: GrownTree, l2: float) -> np.ndarray:
    r"""The step :math:`-\sum g / (\sum h + \lambda)` of every leaf."""
    leaves = tree.leaves
    order = np.argsort(tree.start[leaves])
    edges = tree.start[leaves][order]
    slope = np.add.reduceat(gradient[tree.rows], edges)
    bend = np.add.reduceat(curvature[tree.rows], edges)
    out = np.empty(len(leaves))
    out[order] = -slope / np.maximum(bend + l2, 1e-300)
    return out


def _weights(weight: np.ndarray, n: int) -> np.ndarray | None:
    return weight if len(weight) == n and n > 1 else None


def _log_softmax(raw: np.ndarray) -> np.ndarray:
    shifted = raw - raw.max(0)
    return shifted - np.log(np.exp(shifted).sum(0))
