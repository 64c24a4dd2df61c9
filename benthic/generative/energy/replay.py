"""Chains that live as long as training does, as part of what a learner remembers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from benthic.base.seeds import stream
from benthic.data.batch import Batch
from benthic.training.gradient import GradientLearner
from benthic.training.learner import Stats, total_weight


class Replay:
    """A store of points (count, d) where chains were left, to be taken up again (Tieleman, 2008; Du & Mordatch, 2019).

    The store is read and written in place on its device, without a word from the host. step_size: of the kernel that
    moves the chains, where it follows how often they are accepted.

    >>> replay = Replay(torch.zeros(5, 2))
    >>> places = replay.pick(3)
    >>> replay.points[places].shape, len(set(places.tolist()))
    (torch.Size([3, 2]), 3)
    """

    def __init__(self, points: Tensor, step_size: float = 0.0) -> None:
        self.points, self.step_size = points.detach().clone(), step_size

    def pick(self, count: int) -> Tensor:
        """So many different places of the store, (count,), at random."""
        if count == len(self.points):
            return torch.arange(count, device=self.points.device)
        return (
            torch.rand(len(self.points), generator=stream(self.points.device), device=self.points.device)
            .topk(count)
            .indices
        )

    @torch.no_grad()
    def put(self, places: Tensor, points: Tensor) -> None:
        """Leave chains at these places; they must differ."""
        self.points.index_copy_(0, places, points.to(self.points.dtype))


class ReplayLearner(GradientLearner):
    """A gradient learner whose chains are part of its state, so that a resumed run goes on with them.

    judge: the loss of held-out rows, summed; without it there is nothing to judge them by.
    """

    def __init__(
        self, *args: Any, replay: Replay | None = None, judge: Callable[[Batch], Tensor] | None = None, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self.replay, self._judge_held = replay, judge

    @torch.no_grad()
    def evaluate(self, batch: Batch) -> Stats:
        """The loss of held-out rows, by the judge where there is one."""
        if self._judge_held is None:
            return super().evaluate(batch)
        return Stats(total_weight(batch), {"loss": self._judge_held(batch)})

    def state_dict(self) -> dict[str, Any]:
        """The players' states, and where the chains are."""
        held = {} if self.replay is None else {"replay": self.replay.points, "step_size": self.replay.step_size}
        return super().state_dict() | held

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        super().load_state_dict(state)
        if self.replay is not None:
            self.replay.points.copy_(state["replay"])
            self.replay.step_size = float(state["step_size"])
