"""What learns from data adds up over data: the protocol between a learner and the loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from benthic.data.batch import Batch


class Stats:
    """Named sums over examples and the weight they were taken over; two of them add."""

    __slots__ = ("sums", "weight")

    def __init__(self, weight: float, sums: Mapping[str, Tensor]) -> None:
        self.weight = weight
        self.sums = dict(sums)

    def __iadd__(self, other: Stats) -> Stats:
        self.weight += other.weight
        for name, value in other.sums.items():
            self.sums[name] = self.sums[name] + value if name in self.sums else value
        return self

    def __getitem__(self, name: str) -> Tensor:
        return self.sums[name]


class Info(NamedTuple):
    """What an update reports: its loss, whether learning is finished, and more numbers to log.

    loss: summed over ``weight``; on an accelerator it may stay there as a tensor, read only now and then.
    """

    loss: float | Tensor
    done: bool = False
    logs: Mapping[str, float] | None = None
    weight: float = 1.0

    def mean(self) -> float:
        """The loss per unit of weight."""
        return float(self.loss) / self.weight


Again = Callable[[Callable[[Batch], Stats]], Stats]


class Learner(ABC):
    """Maps a batch to additive statistics, and updates itself from their sum.

    scope: ``batch`` updates after every batch, ``pass`` after all data (EM, Newton, L-BFGS).
    phases: names of the updates in turn; several players alternate, as a critic and a generator do.
    """

    scope: ClassVar[Literal["batch", "pass"]] = "batch"
    phases: tuple[str, ...] = ("fit",)

    def begin(self, phase: str) -> None:
        """Called before the statistics of each update, for example to clear gradients."""

    @abstractmethod
    def statistics(self, batch: Batch, phase: str, scale: float) -> Stats:
        """Sums over one batch. scale: what a gradient is multiplied with before it is added up."""

    @abstractmethod
    def update(self, stats: Stats, phase: str, again: Again) -> Info:
        """Learn from the summed statistics. again(fn): another summed pass over the same data."""

    def report(self, step: int) -> dict[str, float]:
        """More numbers to log at the end of an epoch, after so many updates."""
        return {}

    def evaluate(self, batch: Batch) -> Stats:
        """The sum named ``loss`` over held-out rows, without learning from them."""
        raise NotImplementedError(f"{type(self).__name__} cannot be evaluated on held-out rows")

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Everything that changes while learning, as plain values and tensors."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of ``state_dict``."""

    def best_state(self) -> dict[str, Any]:
        """What early stopping keeps of the best epoch and puts back at the end."""
        return dict(clone(self.state_dict()))

    def load_best(self, state: Mapping[str, Any]) -> None:
        """The inverse of ``best_state``."""
        self.load_state_dict(state)

    def finish(self) -> None:
        """Called once when learning is over, for example to put averaged weights in place."""


def clone(state: Any) -> Any:
    """A copy of nested values that later updates do not reach."""
    if isinstance(state, Tensor):
        return state.detach().clone()
    if isinstance(state, Mapping):
        return {key: clone(value) for key, value in state.items()}
    if isinstance(state, (list, tuple)):
        return type(state)(clone(value) for value in state)
    return state


def total_weight(batch: Batch) -> float:
    """Number of rows, or the sum of their weights."""
    return float(len(batch.X)) if batch.weight is None else float(torch.sum(batch.weight))
