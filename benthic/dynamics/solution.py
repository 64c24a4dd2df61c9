"""What a solve returns: the states at the times asked for, and how it went."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.dynamics.packing import Packing, leaves, rebuild


class SolveError(RuntimeError):
    """A solve could not go on; the message says where, why, and what would work."""


@dataclass(frozen=True)
class Statistics:
    """Accepted and rejected steps, evaluations of the field, and why it stopped."""

    steps: int
    rejected: int
    evaluations: int
    reason: str


@dataclass(frozen=True)
class Dense:
    """The solution between its steps, piece by piece a polynomial.

    starts: (n,) where pieces begin. sizes: (n,) their signed lengths. states: (n, *shape) at the starts.
    coefficients: (n, q, *shape) of θ, θ², ... each times the length of its piece.
    """

    starts: Tensor
    sizes: Tensor
    states: Tensor
    coefficients: Tensor

    def __call__(self, t: Tensor) -> Tensor:
        """States (m, *shape) at times (m,)."""
        forward = bool(self.sizes[0] > 0)
        end = self.starts[-1] + self.sizes[-1]
        low, high = (self.starts[0], end) if forward else (end, self.starts[0])
        if bool(((t < low) | (t > high)).any()):
            raise InvalidInput(f"at: times must lie between {float(low):g} and {float(high):g}, where the solution is")
        sign = 1.0 if forward else -1.0
        piece = (torch.searchsorted(sign * self.starts, sign * t, right=True) - 1).clamp(min=0)
        theta = (t - self.starts[piece]) / self.sizes[piece]
        degree = self.coefficients.shape[1]
        powers = theta[:, None] ** torch.arange(1, degree + 1, device=t.device)
        weights = (powers * self.sizes[piece][:, None]).to(self.states.dtype)
        moved = torch.einsum("mq,mqs->ms", weights, self.coefficients[piece].flatten(2))
        return self.states[piece] + moved.view(len(t), *self.states.shape[1:])


@dataclass(frozen=True)
class Solution:
    """States at the requested times.

    t: (m,) the times. y: (m, *shape), or the structure of the state with m in front of every tensor.
    statistics: how it went. dense: the solution in between, if it was asked for. events: those that happened.
    """

    t: Tensor
    y: Any
    statistics: Statistics
    packing: Packing
    dense: Dense | None = None
    events: tuple[Any, ...] = ()

    @property
    def last(self) -> Any:
        """The state at the last time."""
        return rebuild(self.y, iter([part[-1] for part in leaves(self.y)]))

    def at(self, t: Any) -> Any:
        """The state at any times (m,) in between; needs ``dense=True``."""
        if self.dense is None:
            raise InvalidInput("at: the solution in between was not kept; solve with dense=True")
        times = torch.as_tensor(t, dtype=self.t.dtype, device=self.t.device)
        return self.packing.unpack(self.dense(times.reshape(-1)))
