"""What a Markov chain sampler is: a start, and a step over a batch of chains."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor


class State(Protocol):
    """What moves: a named tuple of tensors whose first dimension is chains."""

    @property
    def position(self) -> Tensor:
        """(chains, d) where the chains are, unconstrained."""

    @property
    def log_density(self) -> Tensor:
        """(chains,) log density there."""


class Info(Protocol):
    """What a step reports: a named tuple of tensors whose first dimension is chains."""

    @property
    def accepted(self) -> Tensor:
        """(chains,) probability with which the proposal was accepted; 1 where always."""


class Trail(NamedTuple):
    """What chains left behind.

    positions: (chains, draws, d). info: name -> (chains, draws, ...).
    """

    positions: Tensor
    info: dict[str, Tensor]


class Kernel(ABC):
    """A Markov kernel that leaves a law invariant, applied to many chains at once.

    A kernel holds settings only (target, step size, mass); everything that moves is in the state, so a step is
    pure: the same state and the same generator give the same result. Global random state is never touched.
    """

    target: Any

    @abstractmethod
    def init(self, position: Tensor) -> Any:
        """The state of chains at ``position`` (chains, d)."""

    @abstractmethod
    def step(self, state: Any, generator: torch.Generator) -> tuple[Any, Any]:
        """One transition of every chain: the next state, and what happened."""

    def adapter(self) -> Tuner | None:
        """Something that tunes this kernel in warm-up, or None where there is nothing to tune."""
        return None

    def collect(
        self,
        state: Any,
        draws: int,
        generator: torch.Generator,
        *,
        thin: int = 1,
        tick: Callable[[int], None] | None = None,
    ) -> tuple[Any, Trail]:
        """Go on for ``draws * thin`` transitions and keep every ``thin``-th; ``tick(n)`` is told of n more of them.

        Returns the last state and the trail (chains, draws, d). Kernels whose chains need not wait for one
        another override this.
        """
        positions, infos = [], []
        for index in range(draws * thin):
            state, info = self.step(state, generator)
            if index % thin == thin - 1:
                positions.append(state.position)
                infos.append(info)
            if tick is not None:
                tick(1)
        report = {name: torch.stack([getattr(one, name) for one in infos], dim=1) for name in infos[0]._fields}
        return state, Trail(torch.stack(positions, dim=1), report)


class Tuner(Protocol):
    """What warms chains up."""

    def warm(
        self, state: Any, transitions: int, generator: torch.Generator, tick: Callable[[int], None] | None = None
    ) -> tuple[Any, Kernel]:
        """The whole warm-up: the state it ends in and the tuned kernel."""


class Adapter(ABC):
    """Tunes a kernel step by step while chains warm up; it may keep sums, the kernels it returns are new values."""

    @abstractmethod
    def begin(self, state: Any, transitions: int, generator: torch.Generator) -> Kernel:
        """The kernel to start a warm-up of ``transitions`` with."""

    @abstractmethod
    def update(self, state: Any, info: Any) -> Kernel:
        """The kernel to go on with, after one more transition led to ``state`` and reported ``info``."""

    @abstractmethod
    def finish(self) -> Kernel:
        """The kernel to collect draws with; raises with advice where no setting worked."""

    def warm(
        self, state: Any, transitions: int, generator: torch.Generator, tick: Callable[[int], None] | None = None
    ) -> tuple[Any, Kernel]:
        """The whole warm-up: the state it ends in and the tuned kernel."""
        kernel = self.begin(state, transitions, generator)
        for _ in range(transitions):
            state, info = kernel.step(state, generator)
            kernel = self.update(state, info)
            if tick is not None:
                tick(1)
        return state, self.finish()


class SamplerStopped(RuntimeError):
    """Chains cannot go on usefully (a step size that collapsed, no proposal accepted); the message says what to do."""
