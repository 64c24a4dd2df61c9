"""What k-means remembers of a block of rows between passes: labels, bounds, and the sums of each cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from benthic.base.threads import one_torch_thread, standing_crew
from benthic.cluster import fused
from benthic.cluster.swift import Swift, serves

_SCORES = {"cpu": 1 << 18, "cuda": 1 << 27}  # scores held at once
_SMALL = 1 << 16  # scores below which threads do not pay
_CROWD = 0.4  # share of rows that fail their bounds above which looking at all of them is as quick
_FIRST = 2  # passes at the beginning, in which centers move too far for bounds
_REST = 2  # passes without bounds after such a crowd; twice as many after the next


class Sums(NamedTuple):
    """Of each cluster the weighted sum of its rows and its weight, (k, d + 1) float64, and how many rows changed."""

    sums: Tensor
    changed: int


class Memory(Protocol):
    """Takes the centers of a pass, and gives the sums of the clusters they make of its rows."""

    labels: Any
    square: float  # the weighted sum of squared lengths of rows

    def step(self, centers: Tensor) -> Sums:
        """Assign the rows to centers (k, d)."""

    def costs(self, centers: Tensor) -> Tensor:
        """The squared distance of each row to the center (k, d) that its label names, (n,)."""

    def state(self) -> dict[str, Any]:
        """For a checkpoint: what makes the next passes bit for bit those of a run that was never stopped."""

    def load(self, state: Mapping[str, Any]) -> None:
        """The inverse of ``state``."""


def memory_of(X: Tensor, weight: Tensor | None, bounded: bool, k: int = 1, precision: str = "exact") -> Memory:
    """A memory for rows X (n, d) of k clusters.

    bounded: whether to skip rows by bounds, where that is implemented (processors). precision: ``"exact"`` to single
    precision, or ``"fast"`` where that is implemented (plain float32 rows on a CUDA device).
    """
    if X.device.type == "cpu":
        return OnProcessor(X, weight, bounded)
    return Swift(X) if precision == "fast" and serves(X, weight, k) else OnDevice(X, weight)


class OnProcessor:
    """Rows in main memory: products of blocks by the linear-algebra library, the rest in compiled loops."""

    def __init__(self, X: Tensor, weight: Tensor | None, bounded: bool) -> None:
        self._tensor, self.bounded = X.contiguous(), bounded
        self._X = self._tensor.numpy()
        self._weight = np.empty(0) if weight is None else weight.double().numpy()
        n = len(X)
        self._squares, self.square = self._each("lengths", self._weight)
        self.labels = np.full(n, -1, dtype=np.int32)
        self._upper, self._lower = np.zeros((2, n), dtype=self._X.dtype)
        self._all, self._active = np.arange(n), np.empty(n, dtype=np.int64)
        self._slack = 8 * float(np.finfo(self._X.dtype).eps)
        self._centers: Tensor | None = None
        self._sums = np.zeros((0, 0))
        self._resting, self._rest = _FIRST, _REST

    def step(self, centers: Tensor) -> Sums:
        """See ``Memory``."""
        centers = centers.to(self._tensor.dtype).contiguous()
        k, d = centers.shape
        if self._centers is None or self._centers.shape != centers.shape:
            self._sums = np.zeros((k, d + 1))
            self.labels[:] = -1
            rows = None
        else:
            rows = self._suspects(centers)
        changed = self._assign(centers, rows)
        self._centers = centers.clone()
        return Sums(torch.from_numpy(self._sums.copy()), changed)

    def state(self) -> dict[str, Any]:
        """See ``Memory``."""
        return {
            "labels": torch.from_numpy(self.labels.copy()),
            "upper": torch.from_numpy(self._upper.copy()),
            "lower": torch.from_numpy(self._lower.copy()),
            "sums": torch.from_numpy(self._sums.copy()),
            "centers": self._centers,
            "resting": [self._resting, self._rest],
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """See ``Memory``."""
        self.labels, self._sums = state["labels"].numpy().copy(), state["sums"].numpy().copy()
        self._upper, self._lower = state["upper"].numpy().copy(), state["lower"].numpy().copy()
        self._centers, (self._resting, self._rest) = state["centers"], state["resting"]

    def _each(self, measure: str, *given: Any) -> tuple[np.ndarray, float]:
        """A number of each row, by a loop of ``benthic.cluster.bounds``; the sum of what the loop returns."""
        from benthic.cluster import bounds

        loop, found = getattr(bounds, measure), np.empty(len(self._X), dtype=self._X.dtype)
        crew = standing_crew(_threads(self._X.size))
        sums = crew.parts(len(found), lambda part, begin, end: loop(self._X, *given, begin, end, found))
        return found, float(sum(sums))

    def costs(self, centers: Tensor) -> Tensor:
        """The squared distance of each row to the center (k, d) that its label names, (n,)."""
        return torch.from_numpy(self._each("costs", centers.to(self._tensor).numpy(), self.labels)[0])

    def _suspects(self, centers: Tensor) -> np.ndarray | None:
        """Rows to look at: those that fail their bounds, or None for all after a pass where most did."""
        if not self.bounded or self._resting:
            self._resting = max(self._resting - 1, 0)
            return None
        rows = self._screened(centers)
        if rows is not None and len(rows) <= _CROWD * len(self._X):
            return rows
        self._resting = self._rest
        self._rest *= 2
        return None

    def _screened(self, centers: Tensor) -> np.ndarray | None:
        """Numbers of the rows whose bounds do not say that they stay; None if those of the first ones already tell."""
        from benthic.cluster.bounds import screen

        moved, apart = _moves(centers, self._centers, self._slack)
        C, n = centers.numpy(), len(self._X)
        threads = _threads(n * centers.shape[1])

        def work(part: int, begin: int, end: int) -> list[tuple[int, int]] | None:
            found = []
            for start, stop in _sections(begin, end):
                count = screen(
                    *(self._X, C, self.labels, self._upper, self._lower, moved, apart),
                    *(start, stop, self._slack, self._active),
                )
                found.append((start, count))
                if start == begin and count > _CROWD * (stop - start):
                    return None
            return found

        total = 0
        for part in standing_crew(threads).parts(n, work):
            if part is None:
                return None
            for start, count in part:  # side by side, without another array
                self._active[total : total + count] = self._active[start : start + count]
                total += count
        return self._active[:total]

    def _assign(self, centers: Tensor, rows: np.ndarray | None) -> int:
        """Label these rows, or all, and bring the sums up to date; how many labels changed."""
        from benthic.cluster.bounds import choose, pick, resum

        half = 0.5 * centers.square().sum(1, keepdim=True)
        reach = 2 * float(half.max())
        k, d = centers.shape
        n = len(self._X) if rows is None else len(rows)
        threads = _threads(n * k)
        size = max(256, _SCORES["cpu"] // k)
        added = np.zeros((threads, k, d + 1))
        plain = rows is None and (not self.bounded or self._resting > 0)  # no one asks for bounds in the next pass

        def work(part: int, begin: int, end: int) -> int:
            changed = 0
            most = min(size, end - begin)
            memory = torch.empty(k * most, dtype=centers.dtype)
            gathered = torch.empty(most if rows is not None else 0, d, dtype=centers.dtype)
            for start in range(begin, end, size):
                stop = min(start + size, end)
                some = self._all[start:stop] if rows is None else rows[start:stop]
                if rows is None:
                    block = self._tensor[start:stop]
                else:
                    block = gathered[: len(some)]
                    torch.index_select(self._tensor, 0, torch.from_numpy(some), out=block)
                out = memory[: k * len(some)].view(k, len(some))
                scores = torch.addmm(half, centers, block.T, alpha=-1, out=out).numpy()
                if plain:
                    changed += pick(scores, self._X, self._weight, start, self.labels, added[part])
                    continue
                before = self.labels[start:stop].copy() if rows is None else self.labels[some]
                changed += choose(
                    *(scores, 0, len(some), some, self._squares, reach, self._slack),
                    *(self.labels, self._upper, self._lower),
                )
                resum(self._X, self._weight, before, self.labels, some, 0, len(some), added[part])
            return changed

        with one_torch_thread():
            changed = sum(standing_crew(threads).parts(n, work))
        self._sums += added.sum(0)
        return int(changed)


def _sections(begin: int, end: int) -> list[tuple[int, int]]:
    """The first eighth of begin..end, and the rest."""
    middle = begin + (end - begin + 7) // 8
    return [(begin, middle), (middle, end)] if middle < end else [(begin, end)]


def _threads(numbers: int) -> int:
    return 1 if numbers < _SMALL else torch.get_num_threads()


def _moves(centers: Tensor, before: Tensor | None, slack: float) -> tuple[np.ndarray, np.ndarray]:
    """How far centers moved, with the two largest moves and whose the largest is; half the way to the next center."""
    dtype = centers.numpy().dtype
    wide = centers.numpy().astype(np.float64)
    old = wide if before is None else before.numpy().astype(np.float64)
    moved = np.linalg.norm(wide - old, axis=1) * (1 + slack)
    order = np.argsort(moved)
    extra = [moved[order[-1]], moved[order[-2]] if len(moved) > 1 else 0.0, float(order[-1])]
    squares = np.square(wide).sum(1)
    gaps = np.maximum(squares[:, None] + squares[None] - 2 * wide @ wide.T, 0.0)
    np.fill_diagonal(gaps, np.inf)
    error = 1e-14 * squares.max()  # of the expanded square
    apart = 0.5 * np.sqrt(np.maximum(gaps.min(1) - error, 0.0)) * (1 - slack)
    return np.concatenate([moved, extra]).astype(dtype), apart.astype(dtype)


class OnDevice:
    """Rows on an accelerator: every row is assigned in every pass, and sums change by the rows whose label did."""

    def __init__(self, X: Tensor, weight: Tensor | None) -> None:
        self._X, self._weight = X.contiguous(), None if weight is None else weight.to(X.dtype)
        self._largest = float(X.abs().max()) if len(X) else 0.0
        self.square = square_of(X, weight)
        self.labels: Tensor | None = None
        self._sums: Tensor | None = None

    def step(self, centers: Tensor) -> Sums:
        """See ``Memory``."""
        labels = _labels(self._X, centers, self._largest)
        before, k = self.labels, len(centers)
        self.labels = labels
        if before is None or self._sums is None or len(self._sums) != k:
            self._sums = sums_by_label(self._X, labels, k, self._weight)
            return Sums(self._sums.clone(), len(labels))
        rows = (labels != before).nonzero()[:, 0]
        if 4 * len(rows) > len(labels):
            self._sums = sums_by_label(self._X, labels, k, self._weight)
        elif len(rows):
            self._sums = (
                self._sums
                + sums_by_label(self._X, labels[rows], k, self._weight, rows)
                - sums_by_label(self._X, before[rows], k, self._weight, rows)
            )
        return Sums(self._sums.clone(), len(rows))

    def costs(self, centers: Tensor) -> Tensor:
        """See ``Memory``."""
        return squared_distances_to(self._X, centers, torch.as_tensor(self.labels))

    def state(self) -> dict[str, Any]:
        """See ``Memory``."""
        return {"labels": self.labels, "sums": self._sums}

    def load(self, state: Mapping[str, Any]) -> None:
        """See ``Memory``."""
        self.labels, self._sums = state["labels"].to(self._X.device), state["sums"].to(self._X.device)


def square_of(X: Tensor, weight: Tensor | None) -> float:
    """The weighted sum of squared lengths of rows X (n, d), in double precision."""
    rows = max(256, _SCORES.get(X.device.type, _SCORES["cpu"]) // X.shape[1])
    squares = [block.double().square().sum(1) for block in X.split(rows)]
    total = torch.cat(squares) if squares else X.new_zeros(0, dtype=torch.float64)
    return float(total.sum() if weight is None else total @ weight.double())


def nearest(X: Tensor, centers: Tensor) -> tuple[Tensor, Tensor]:
    """The number of the nearest center of each row and the squared distance to it, (n,) each.

    >>> nearest(torch.tensor([[0.0], [5.0]]), torch.tensor([[1.0], [4.0]]))
    (tensor([0, 1], dtype=torch.int32), tensor([1., 1.]))
    """
    labels = _labels(X, centers)
    return labels, squared_distances_to(X, centers, labels)


def squared_distances_to(X: Tensor, centers: Tensor, labels: Tensor) -> Tensor:
    """The squared distance of each row to the center its label names, (n,)."""
    centers, labels = centers.to(X), labels.to(X.device)
    rows = max(256, _SCORES.get(X.device.type, _SCORES["cpu"]) // X.shape[1])
    pairs = zip(X.split(rows), labels.split(rows), strict=True)
    costs = [(block - centers[chosen]).square_().sum(1) for block, chosen in pairs]
    return torch.cat(costs) if costs else X.new_zeros(0)


def _labels(X: Tensor, centers: Tensor, largest: float | None = None) -> Tensor:
    """The number of the nearest center of each row. largest: the size of the largest number of X, if known."""
    if fused.available(X):
        return fused.nearest(X, centers, float(X.abs().max()) if largest is None else largest)
    centers = centers.to(X)
    half = 0.5 * centers.square().sum(1)
    rows = max(256, _SCORES.get(X.device.type, _SCORES["cpu"]) // len(centers))
    parts = [torch.addmm(half, block, centers.T, alpha=-1).argmin(1).int() for block in X.split(rows)]
    return torch.cat(parts) if parts else X.new_zeros(0, dtype=torch.int32)


def sums_by_label(X: Tensor, labels: Tensor, k: int, weight: Tensor | None, rows: Tensor | None = None) -> Tensor:
    """Sums of rows and of their weights for each label, (k, d + 1) in float64; ``rows`` names them if not all."""
    if fused.available(X) and k <= fused.LARGEST_KEY:
        return fused.sums_by_label(X, labels, k, weight, rows)
    sums = torch.zeros(k, X.shape[1] + 1, dtype=torch.float64, device=X.device)
    taken = X if rows is None else X[rows]
    w = None if weight is None else (weight if rows is None else weight[rows]).double()
    wide = taken.double() if w is None else taken.double() * w[:, None]
    sums[:, :-1].index_add_(0, labels.long(), wide)
    sums[:, -1].index_add_(0, labels.long(), wide.new_ones(len(wide)) if w is None else w)
    return sums
