"""Centers that follow small batches, each at a rate of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from benthic.base.seeds import generator
from benthic.cluster.memory import nearest, sums_by_label
from benthic.data.batch import Batch
from benthic.training.learner import Again, Info, Learner, Stats, total_weight

_RARE = 0.01  # of the rows of the largest cluster: a center with fewer is moved to a row of the batch
_EVERY = 20  # batches between such moves


class MiniBatch(Learner):
    """Sculley, 2010: a center is the mean of all rows that were nearest to it when their batch came.

    centers: (k, d) to start from. seed: decides which rows rare centers move to.
    """

    scope = "batch"

    def __init__(self, centers: Tensor, *, seed: int) -> None:
        self.centers = centers.double()
        self.counts = torch.zeros(len(centers), dtype=torch.float64)
        self._seed, self._step = seed, 0
        self._rows: Tensor | None = None

    @torch.no_grad()
    def statistics(self, batch: Batch, phase: str, scale: float) -> Stats:
        """Sums of each cluster over a batch, and the distortion before the centers move."""
        labels, costs = nearest(batch.X, self.centers.to(batch.X))
        sums = sums_by_label(batch.X, labels, len(self.centers), batch.weight)
        wide = costs.double()
        self._rows = batch.X
        loss = wide.sum() if batch.weight is None else wide @ batch.weight.double()
        return Stats(total_weight(batch), {"sums": sums, "loss": loss})

    def update(self, stats: Stats, phase: str, again: Again) -> Info:
        """Move each center to the mean of the rows it has had so far."""
        sums = stats["sums"].cpu()
        self.counts += sums[:, -1]
        seen = self.counts > 0
        step = (sums[:, :-1] - sums[:, -1:] * self.centers) / torch.where(seen, self.counts, 1.0)[:, None]
        self.centers = self.centers + step
        self._step += 1
        if self._step % _EVERY == 0:
            self._move_rare()
        return Info(float(stats["loss"]), weight=stats.weight)

    def _move_rare(self) -> None:
        rare = (self.counts < _RARE * self.counts.max()).nonzero()[:, 0]
        if self._rows is None or not len(rare) or len(self._rows) < len(rare):
            return
        chosen = torch.randperm(len(self._rows), generator=generator(self._seed, "rare", self._step))[: len(rare)]
        self.centers[rare] = self._rows[chosen.to(self._rows.device)].double().cpu()
        self.counts[rare] = self.counts[~torch.isin(torch.arange(len(self.counts)), rare)].min()

    def assign(self, data: Callable[[], Batch], rows: int) -> tuple[Tensor, Tensor]:
        """The number of the nearest center of each row (n,) of ``data()``, and the squared distance to it."""
        batch = data()
        return nearest(batch.X, self.centers.to(batch.X))

    def state_dict(self) -> dict[str, Any]:
        """Centers, how many rows they have had, and batches seen."""
        return {"centers": self.centers, "counts": self.counts, "step": self._step}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        self.centers, self.counts, self._step = state["centers"], state["counts"], state["step"]
