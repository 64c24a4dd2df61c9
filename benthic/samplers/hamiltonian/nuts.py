"""The no-U-turn sampler, batched over chains that do not wait for one another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.settings import is_whole
from benthic.samplers.hamiltonian.hmc import Hamiltonian, HamiltonianInfo, HamiltonianState, Tune
from benthic.samplers.kernel import Trail


@dataclass(frozen=True)
class NUTS(Hamiltonian):
    """The no-U-turn sampler: a Hamiltonian trajectory that doubles until it turns back.

    Points of the trajectory are chosen by multinomial weights, biased towards later halves; it ends when the
    sum of momenta over any aligned subtree points against the momentum at one of its ends.
    Hoffman and Gelman, 2014; Betancourt, 2017; iterative as in Phan, Pradhan and Jankowiak, 2019.

    All chains take one leapfrog at a time together, each in its own tree: a chain whose trajectory is complete
    begins the next at once. ``step`` alone makes exactly one transition of every chain, and so waits for the
    deepest.

    max_depth: a trajectory has at most 2^max_depth - 1 steps.

    >>> from benthic.samplers.target import Target
    >>> target = Target(lambda x: -0.5 * (x**2).sum(), torch.zeros(2))
    >>> kernel = NUTS(target, step_size=0.5)
    >>> state = kernel.init(torch.zeros(4, 2))
    >>> state, trail = kernel.collect(state, 100, torch.Generator().manual_seed(0))
    >>> trail.positions.shape
    torch.Size([4, 100, 2])
    """

    max_depth: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_whole(self.max_depth, 1, 20):
            raise InvalidInput(f"NUTS: max_depth is {self.max_depth!r}; it must be an integer from 1 to 20")

    def step(self, state: HamiltonianState, generator: torch.Generator) -> tuple[HamiltonianState, HamiltonianInfo]:
        """One trajectory of every chain."""
        state, trail = self.collect(state, 1, generator)
        return state, HamiltonianInfo(*(trail.info[name][:, 0] for name in HamiltonianInfo._fields))

    def collect(
        self,
        state: HamiltonianState,
        draws: int,
        generator: torch.Generator,
        *,
        thin: int = 1,
        tick: Callable[[int], None] | None = None,
    ) -> tuple[HamiltonianState, Trail]:
        """``draws`` of every chain, in one loop of leapfrogs over all chains."""
        forest = self._forest(state, draws, generator, thin)
        forest.grow(tick=tick)
        return forest.state(), forest.trail()

    def stretch(
        self, state: HamiltonianState, transitions: int, generator: torch.Generator, tune: Tune, heard: Tensor
    ) -> tuple[HamiltonianState, Tensor]:
        """Warm up until chains have made ``transitions`` each on the average; a slow chain does not hold up others."""
        chains = len(state.position)
        forest = self._forest(state, 2 * transitions + 8, generator, 1)
        forest.grow(enough=transitions * int(heard.sum()), tune=tune, round_=chains, heard=heard)
        return forest.state(), forest.visited(heard)

    def _forest(self, state: HamiltonianState, draws: int, generator: torch.Generator, thin: int) -> Any:
        if state.position.device.type == "cpu":
            from benthic.samplers.hamiltonian.forest import Forest
        else:
            from benthic.samplers.hamiltonian.forest_masked import MaskedForest as Forest
        return Forest(self, state, draws, generator, thin)
