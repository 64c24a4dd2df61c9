"""Many short chains: Hamiltonian trajectories of one length for all, found by the ChEES criterion."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.settings import whole
from benthic.samplers.hamiltonian.adaptation import HamiltonianWarmup, covariance, plan
from benthic.samplers.hamiltonian.hmc import Hamiltonian, HamiltonianInfo, HamiltonianState
from benthic.samplers.kernel import Kernel, Tuner


@dataclass(frozen=True)
class ChEES(Hamiltonian):
    r"""Hamiltonian Monte Carlo for many chains, with the trajectory length that maximizes ChEES.

    The change in the estimator of the expected square,

    .. math:: \tfrac14 E\left[ (\|x' - m'\|^2 - \|x - m\|^2)^2 \right]

    is climbed in warm-up by its gradient with respect to the length of the trajectory, averaged over chains
    (Hoffman, Radul and Sountsov, 2021). All chains take the same number of leapfrogs, so none waits. The length
    of a trajectory is uniform between 0 and ``longest``, so that it never falls into step with a period.

    longest: of trajectories, in units of whitened time. max_steps: leapfrogs of a trajectory, at most. accept: the
    harmonic mean over chains that the step size is tuned to.

    >>> from benthic.samplers.target import Target
    >>> target = Target(lambda x: -0.5 * (x**2).sum(), torch.zeros(2))
    >>> kernel, stream = ChEES(target), torch.Generator().manual_seed(0)
    >>> state = kernel.init(target.start(64, stream))
    >>> state, kernel = kernel.adapter().warm(state, 150, stream)
    >>> 1 < kernel.longest < 8  # pi brings a rotation to the other side
    True
    """

    accept: float = 0.651
    longest: float = 2.0
    max_steps: int = 512

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.longest > 0:
            raise InvalidInput(f"ChEES: longest is {self.longest}; it must be positive")
        whole("ChEES: max_steps", self.max_steps)

    def step(self, state: HamiltonianState, generator: torch.Generator) -> tuple[HamiltonianState, HamiltonianInfo]:
        """One trajectory of every chain."""
        following, info, _, _ = self.propose(state, generator, self.steps_of(self.share(generator)))
        return following, info

    def share(self, generator: torch.Generator) -> float:
        """The length of the next trajectory as a share of the longest."""
        return float(torch.rand((), generator=generator, device=generator.device))

    def steps_of(self, share: float) -> int:
        """Leapfrogs that make up a share of the longest trajectory."""
        return max(1, min(math.ceil(share * self.longest / self.step_size), self.max_steps))

    def adapter(self) -> Tuner:
        """Finds step size, mass and length of trajectories, from all chains."""
        return ChEESWarmup(self)


class ChEESWarmup(HamiltonianWarmup):
    """The warm-up of Hamiltonian kernels, with a trajectory length that climbs its criterion beside the step size.

    The length follows Adam on its logarithm, with the second moment only.
    """

    rate, decay = 0.05, 0.95

    def __init__(self, kernel: ChEES) -> None:
        super().__init__(kernel)
        self._square, self._count = 0.0, 0

    def warm(
        self,
        state: HamiltonianState,
        transitions: int,
        generator: torch.Generator,
        tick: Callable[[int], None] | None = None,
    ) -> tuple[HamiltonianState, Kernel]:
        """The state after warm-up, and the tuned kernel."""
        if len(state.position) < 2:
            raise InvalidInput("ChEES: there is one chain; its criterion is a mean over chains, take 16 or more")
        first, middle, last, dense = plan(self.kernel, transitions, len(state.position))
        kernel = self._opening(state, dense, generator)
        kernel = replace(kernel, longest=8 * kernel.step_size)
        for index, size in enumerate([first, *middle, last]):
            visited, lengths = [state.position], [math.log(kernel.longest)]
            for _ in range(size):
                state, kernel = self._transition(kernel, state, generator)
                visited.append(state.position)
                lengths.append(math.log(kernel.longest))
                if tick is not None:
                    tick(1)
            half = lengths[len(lengths) // 2 :]
            kernel = replace(kernel, step_size=self._rule.average, longest=math.exp(sum(half) / len(half)))
            if 0 < index <= len(middle) and kernel.mass != "unit":
                longest = kernel.longest if index > 1 else 2.0  # whitened: of the width of the law
                kernel = replace(kernel, inverse_mass=covariance(torch.cat(visited), dense), longest=longest)
                kernel = self._restart(kernel, state, generator)
        return state, kernel

    def _transition(
        self, kernel: ChEES, state: HamiltonianState, generator: torch.Generator
    ) -> tuple[HamiltonianState, ChEES]:
        """One transition, and the kernel with the step size and length to go on with."""
        share = kernel.share(generator)
        following, info, end, momentum = kernel.propose(state, generator, kernel.steps_of(share))
        harmonic = 1 / float((1 / info.accepted.clamp(min=0.05)).mean())  # a lost chain does not rule all
        slope = _criterion_slope(kernel, state, end, momentum, info.accepted) * share * kernel.longest
        step = self._tune(harmonic)
        longest = math.exp(min(max(math.log(kernel.longest) + self._adam(slope), math.log(step)), 20.0))
        longest = min(longest, step * kernel.max_steps)
        return following, replace(kernel, step_size=step, longest=longest)

    def _adam(self, slope: float) -> float:
        """The change of the log length."""
        if not math.isfinite(slope):
            return 0.0
        self._count += 1
        self._square = self.decay * self._square + (1 - self.decay) * slope**2
        root = math.sqrt(self._square / (1 - self.decay**self._count))
        return self.rate * slope / root if root > 0 else 0.0


def _criterion_slope(
    kernel: ChEES, state: HamiltonianState, end: HamiltonianState, momentum: Tensor, accepted: Tensor
) -> float:
    """The gradient of the criterion with respect to time, averaged over chains by their acceptance."""
    white = kernel.white
    before, after = white.back(state.position), white.back(end.position)
    good = accepted > 1e-4
    weights = torch.where(good, accepted, torch.zeros_like(accepted))
    after = torch.where(good[:, None], after, torch.zeros_like(after))
    momentum = torch.where(good[:, None], momentum, torch.zeros_like(momentum))
    total = weights.sum().clamp(min=1e-12)
    centre = (weights[:, None] * after).sum(0) / total
    apart = after - centre
    change = (apart**2).sum(-1) - ((before - before.mean(0)) ** 2).sum(-1)
    return float((weights * change * (apart * momentum).sum(-1)).sum() / total)
