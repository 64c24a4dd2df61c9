"""Sums over the rows of each class, taken in one pass or a few."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from benthic.data.batch import Batch
from benthic.training.learner import Again, Info, Learner, Stats, total_weight

Sums = dict[str, Tensor]
Count = Callable[[Batch, Mapping[str, Tensor]], Sums]


class Tally(Learner):
    """Named sums of passes in turn; each pass sees the sums of those before it.

    steps: a name and a function of a batch and the sums so far, for every pass.
    """

    scope: ClassVar[Literal["batch", "pass"]] = "pass"

    def __init__(self, steps: Sequence[tuple[str, Count]]) -> None:
        self._steps = dict(steps)
        self.phases = tuple(self._steps)
        self.sums: Sums = {}

    def statistics(self, batch: Batch, phase: str, scale: float) -> Stats:
        """The sums of one block, in float64."""
        return Stats(total_weight(batch), self._steps[phase](batch, self.sums))

    def update(self, stats: Stats, phase: str, again: Again) -> Info:
        """Keep the sums."""
        self.sums |= stats.sums
        return Info(0.0, done=phase == self.phases[-1])

    def run(self, batch: Batch) -> Sums:
        """The sums over one batch alone."""
        for count in self._steps.values():
            self.sums |= count(batch, self.sums)
        return self.sums

    def state_dict(self) -> dict[str, Any]:
        """The sums so far."""
        return {"sums": dict(self.sums)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        self.sums = dict(state["sums"])


def members(batch: Batch, classes: int) -> Tensor:
    """How much each row counts for each class, (n, k), float64."""
    if batch.y is None:
        raise ValueError("a classifier's batch needs labels")
    one = torch.nn.functional.one_hot(batch.y.long(), classes).double()
    return one if batch.weight is None else one * batch.weight.double()[:, None]


def observed(X: Tensor, member: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The values with zeros for gaps (n, d), and the weight of those seen, (k, d); and which were, (n, d)."""
    seen = ~torch.isnan(X)
    if bool(seen.all()):
        return X.double(), member.sum(0)[:, None].expand(-1, X.shape[1]).clone(), seen
    return torch.where(seen, X, 0.0).double(), member.T @ seen.double(), seen
