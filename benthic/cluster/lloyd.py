"""Lloyd's iteration as a learner: a pass sums the rows of each cluster, an update moves the centers to the means."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from benthic.cluster.memory import Memory, memory_of, nearest
from benthic.data.batch import Batch
from benthic.training.learner import Again, Info, Learner, Stats, total_weight

_ALIKE = 1e-20  # of the sum of squares: rounding of the mean of equal rows


class Lloyd(Learner):
    r"""Lloyd, 1982, from several starts one after another; the distortion never rises.

    .. math:: J = \sum_i w_i \min_j \|x_i - c_j\|^2

    start: centers (k, d) of start number i. starts: how many. tol: a start ends when the centers together move by
    less (squared). max_iter: passes of a start. bounded: skip rows by bounds. remember: keep what is known of each
    row between passes; without it (data on disk) every pass looks at all. precision: as in ``memory_of``.
    """

    scope = "pass"

    def __init__(
        self,
        start: Callable[[int], Tensor],
        *,
        starts: int = 1,
        tol: float = 0.0,
        max_iter: int = 300,
        bounded: bool = True,
        remember: bool = True,
        precision: str = "exact",
    ) -> None:
        self._start, self.starts, self._tol, self._max_iter = start, starts, tol, max_iter
        self._bounded, self._remember, self._precision = bounded, remember, precision
        self.number = 0
        self.best: dict[str, Any] = {}
        self._restart()

    def _restart(self) -> None:
        self.centers = self._start(self.number).double()
        self.iteration, self.converged = 0, False
        self.distortions: list[float] = []
        self.masses = torch.zeros(len(self.centers), dtype=torch.float64)
        self._memories: list[Memory] = []
        self._stored: list[Any] = []

    # -- a pass ------------------------------------------------------------------------------------------

    def begin(self, phase: str) -> None:
        """The next batch is the first of a pass."""
        self._at = 0

    @torch.no_grad()
    def statistics(self, batch: Batch, phase: str, scale: float) -> Stats:
        """Sums of each cluster over a batch."""
        if self._at == len(self._memories):
            self._meet(batch)
        memory = self._memories[self._at]
        found = memory.step(self.centers)
        if self._remember:
            self._at += 1
        else:
            self._memories.clear()
        wide = {"dtype": torch.float64, "device": found.sums.device}
        return Stats(
            total_weight(batch),
            {
                "sums": found.sums,
                "square": torch.tensor(memory.square, **wide),
                "changed": torch.tensor(float(found.changed), **wide),
            },
        )

    def _meet(self, batch: Batch) -> None:
        """Begin to remember a batch, from where a checkpoint left off if there is one."""
        bounded = self._bounded and self._remember
        memory = memory_of(batch.X, batch.weight, bounded, len(self.centers), self._precision)
        if self._stored:
            memory.load(self._stored.pop(0))
        self._memories.append(memory)

    # -- an update ---------------------------------------------------------------------------------------

    def update(self, stats: Stats, phase: str, again: Again) -> Info:
        """Move the centers; end a start when nothing changes any more."""
        sums = stats["sums"].cpu()
        totals, masses = sums[:, :-1], sums[:, -1]
        inner = (self.centers * totals).sum()
        distortion = float(stats["square"]) - 2 * float(inner) + float((masses * self.centers.square().sum(1)).sum())
        distortion = max(distortion, 0.0)
        self.distortions.append(distortion)
        self.masses = masses
        self.iteration += 1
        fixed = self.iteration > 1 and float(stats["changed"]) == 0
        if not fixed:
            self._move(totals, masses, stats, again)
        ends = fixed or self.converged or self.iteration >= self._max_iter
        self.converged = self.converged or fixed
        logs = {"distortion": distortion, "start": self.number}
        if ends:
            self._end(distortion)
        return Info(distortion, done=self.number >= self.starts, logs=logs, weight=stats.weight)

    def _move(self, totals: Tensor, masses: Tensor, stats: Stats, again: Again) -> None:
        full = masses > 1e-12 * masses.sum()
        centers = torch.where(full[:, None], totals / torch.where(full, masses, 1.0)[:, None], self.centers)
        if not bool(full.all()):
            centers = self._repaired(centers, masses, full, float(stats["square"]), again)
        else:
            self.converged = float((centers - self.centers).square().sum()) <= self._tol
        self.centers = centers

    def _repaired(self, centers: Tensor, masses: Tensor, full: Tensor, square: float, again: Again) -> Tensor:
        """Give centers without rows to the clusters with the largest distortion, one column's deviation away.

        An empty center may stand anywhere without raising the distortion, so it never rises. A cluster of equal rows
        has nothing to give but what rounding left of their mean. square: of all rows from the origin.
        """
        spread = again(lambda batch: _spread(batch, self.centers, centers))["spread"].cpu()  # (k, d)
        order = torch.argsort(spread.sum(1), descending=True, stable=True)
        empty = (~full).nonzero()[:, 0]
        centers = centers.clone()
        for place, donor in zip(empty.tolist(), order.tolist(), strict=False):
            if not float(masses[donor]) > 0 or float(spread[donor].sum()) <= _ALIKE * square:
                break
            column = int(spread[donor].argmax())
            centers[place] = centers[donor]
            centers[place, column] += math.sqrt(float(spread[donor, column] / masses[donor]))
        return centers

    def _end(self, distortion: float) -> None:
        """Keep this start if it is the best, and go on to the next."""
        if not self.best or distortion < self.best["distortion"] * (1 - 1e-9):
            self.best = {
                "centers": self.centers,
                "masses": self.masses,
                "distortion": distortion,
                "distortions": list(self.distortions),
                "iterations": self.iteration,
                "converged": self.converged,
            }
        self.number += 1
        if self.number < self.starts:
            self._restart()

    def finish(self) -> None:
        """Take the best start, also when the budget ended in the middle of one."""
        if self.number < self.starts and self.distortions:
            self.number, distortion = self.starts, self.distortions[-1]
            self._end(distortion)
        self.centers = self.best["centers"]

    def assign(self, data: Callable[[], Batch], rows: int) -> tuple[Tensor, Tensor]:
        """The number of the nearest center of each row (n,), and the squared distance to it.

        data: gives the rows as they were trained on. rows: how many they are.
        """
        if len(self._memories) == 1 and len(self._memories[0].labels) == rows:
            memory = self._memories[0]
            memory.step(self.centers)  # knows most of it already
            return torch.as_tensor(memory.labels), memory.costs(self.centers)
        batch = data()
        return nearest(batch.X, self.centers.to(batch.X))

    # -- state ---------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The current start and the best one so far."""
        return {
            "number": self.number,
            "iteration": self.iteration,
            "converged": self.converged,
            "centers": self.centers,
            "masses": self.masses,
            "distortions": list(self.distortions),
            "best": dict(self.best),
            "memories": [memory.state() for memory in self._memories],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        self.number, self.iteration, self.converged = state["number"], state["iteration"], state["converged"]
        self.centers, self.masses = state["centers"], state["masses"]
        self.distortions, self.best = list(state["distortions"]), dict(state["best"])
        self._memories, self._stored = [], list(state["memories"])


def _spread(batch: Batch, assigned_by: Tensor, centers: Tensor) -> Stats:
    """Weighted squared deviations of rows from the centers of their clusters, by cluster and column."""
    labels = nearest(batch.X, assigned_by.to(batch.X))[0].long()
    gaps = (batch.X.double() - centers.to(batch.X.device)[labels]).square()
    if batch.weight is not None:
        gaps *= batch.weight.double()[:, None]
    spread = torch.zeros_like(centers, device=batch.X.device).index_add_(0, labels, gaps)
    return Stats(total_weight(batch), {"spread": spread})
