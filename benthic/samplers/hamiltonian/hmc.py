"""Hamiltonian Monte Carlo with a leapfrog of a set, or jittered, number of steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput, nearest
from benthic.base.settings import whole
from benthic.samplers.hamiltonian.whitening import Whitened, root_of
from benthic.samplers.kernel import Kernel, Tuner
from benthic.samplers.target import Target

MASSES = ("auto", "diagonal", "dense", "unit")
Tune = Callable[[float], float]  # mean acceptance -> step size to go on with


class HamiltonianState(NamedTuple):
    """Where chains are, the log density there and its gradient."""

    position: Tensor
    log_density: Tensor
    gradient: Tensor


class HamiltonianInfo(NamedTuple):
    """What a transition did: mean acceptance probability, whether it diverged, its energy, leapfrog steps."""

    accepted: Tensor
    divergent: Tensor
    energy: Tensor
    steps: Tensor


def leapfrog(
    value_and_grad: Callable[[Tensor], tuple[Tensor, Tensor]],
    position: Tensor,
    momentum: Tensor,
    gradient: Tensor,
    step_size: float | Tensor,
    steps: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    r"""Leapfrog steps of unit mass: half a kick, a drift, half a kick.

    .. math::

        p \leftarrow p + \tfrac{h}{2} \nabla \log \pi(x), \quad x \leftarrow x + h p, \quad
        p \leftarrow p + \tfrac{h}{2} \nabla \log \pi(x)

    Reversible, volume preserving, of second order (Duane et al., 1987; Neal, 2011).

    value_and_grad: rows (chains, d) to log density (chains,) and gradient (chains, d).
    Returns position, momentum, log density and gradient at the end.

    >>> def normal(x):
    ...     return -0.5 * (x**2).sum(-1), -x
    >>> x, p = torch.zeros(1, 1, dtype=torch.float64), torch.ones(1, 1, dtype=torch.float64)
    >>> x, p, value, slope = leapfrog(normal, x, p, -x, 0.01, 157)  # a quarter of a turn
    >>> x
    tensor([[1.0000]], dtype=torch.float64)
    """
    momentum = momentum + 0.5 * step_size * gradient
    for index in range(steps):
        position = position + step_size * momentum
        value, gradient = value_and_grad(position)
        momentum = momentum + (step_size if index < steps - 1 else 0.5 * step_size) * gradient
    return position, momentum, value, gradient


@dataclass(frozen=True)
class Hamiltonian(Kernel):
    """What Hamiltonian kernels share: a step size, a mass, and how both are found in warm-up.

    inverse_mass: None for one, (d,) variances, or (d, d) a covariance, of the parameters about.
    accept: the acceptance probability the step size is tuned to. mass: what warm-up estimates: "diagonal",
    "dense", "unit" (nothing), or "auto": dense where dimensions are few for the draws seen.
    max_rise: a trajectory whose energy rises by more has diverged.
    """

    target: Target
    step_size: float = 0.1
    inverse_mass: Tensor | None = None
    accept: float = 0.8
    mass: str = "auto"
    max_rise: float = 1000.0

    def __post_init__(self) -> None:
        name = type(self).__name__
        if not isinstance(self.target, Target):
            raise InvalidInput(f"{name}: target is a {type(self.target).__name__}; give Target(log_density, example)")
        if not 0 < self.step_size < float("inf"):
            raise InvalidInput(f"{name}: step_size is {self.step_size}; it must be positive")
        if not 0 < self.accept < 1:
            raise InvalidInput(f"{name}: accept is {self.accept}; it must be between 0 and 1, 0.8 is usual")
        if self.mass not in MASSES:
            raise InvalidInput(f"{name}: mass is {self.mass!r}; choose from {MASSES}{nearest(self.mass, MASSES)}")
        object.__setattr__(self, "white", Whitened(self.target, root_of(self.inverse_mass, self.target)))

    def init(self, position: Tensor) -> HamiltonianState:
        """Chains at (chains, d), with density and gradient."""
        return HamiltonianState(position, *self.target.value_and_grad(position))

    def adapter(self) -> Tuner:
        """Dual averaging of the step size, windows for the mass, pooled over chains."""
        from benthic.samplers.hamiltonian.adaptation import HamiltonianWarmup

        return HamiltonianWarmup(self)

    def stretch(
        self, state: HamiltonianState, transitions: int, generator: torch.Generator, tune: Tune, heard: Tensor
    ) -> tuple[HamiltonianState, Tensor]:
        """Warm up for about ``transitions`` of every chain; ``tune`` gives the next step size as acceptances come in.

        heard: (chains,) which of them have a say in it. Returns the state and the positions that these visited (n, d).
        """
        kernel: Any = self
        visited = []
        for _ in range(transitions):
            state, info = kernel.step(state, generator)
            visited.append(state.position)
            kernel = replace(kernel, step_size=tune(float(info.accepted[heard].mean())))
        return state, torch.cat([rows[heard] for rows in visited])

    def propose(
        self, state: HamiltonianState, generator: torch.Generator, steps: int
    ) -> tuple[HamiltonianState, HamiltonianInfo, HamiltonianState, Tensor]:
        """A trajectory of ``steps`` leapfrogs for every chain, accepted or not.

        Returns the next state, the report, the state at the end of the trajectory and the whitened momentum there.
        """
        white: Whitened = self.white
        noise = _like(state.position, generator)
        z, p, value, slope = leapfrog(
            white.value_and_grad, white.back(state.position), noise, white.slope(state.gradient), self.step_size, steps
        )
        before = 0.5 * (noise**2).sum(-1) - state.log_density
        after = 0.5 * (p**2).sum(-1) - value
        rise = torch.nan_to_num(after - before, nan=float("inf"), posinf=float("inf"))
        accepted = torch.exp(-rise.clamp(min=0))
        taken = torch.rand(len(z), generator=generator, dtype=z.dtype, device=z.device) < accepted
        end = HamiltonianState(white.out(z), value, white.unslope(slope))
        chosen = HamiltonianState(
            torch.where(taken[:, None], end.position, state.position),
            torch.where(taken, end.log_density, state.log_density),
            torch.where(taken[:, None], end.gradient, state.gradient),
        )
        energy = torch.where(taken, after, before)
        count = torch.full_like(taken, steps, dtype=torch.int64)
        return chosen, HamiltonianInfo(accepted, rise > self.max_rise, energy, count), end, p


@dataclass(frozen=True)
class HMC(Hamiltonian):
    r"""Hamiltonian Monte Carlo: a leapfrog trajectory with a fresh momentum, accepted by its change of energy.

    .. math:: H(x, v) = -\log \pi(x) + \tfrac12 v^\top M^{-1} v, \qquad \dot x = M^{-1} v

    Duane et al., 1987; Neal, 2011.

    steps: leapfrog steps of a trajectory. jitter: with 0 < jitter <= 1 their number is uniform within that
    fraction of ``steps``, drawn for each transition, which breaks periods.

    >>> target = Target(lambda x: -0.5 * (x**2).sum(), torch.zeros(2))
    >>> kernel = HMC(target, step_size=0.5, steps=5)
    >>> state, info = kernel.step(kernel.init(torch.zeros(3, 2)), torch.Generator().manual_seed(0))
    >>> state.position.shape, info.accepted.shape
    (torch.Size([3, 2]), torch.Size([3]))
    """

    steps: int = 10
    jitter: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("HMC: steps", self.steps)
        if not 0 <= self.jitter <= 1:
            raise InvalidInput(f"HMC: jitter is {self.jitter}; it must be between 0 and 1")

    def step(self, state: HamiltonianState, generator: torch.Generator) -> tuple[HamiltonianState, HamiltonianInfo]:
        """One trajectory of every chain."""
        following, info, _, _ = self.propose(state, generator, self.length(generator))
        return following, info

    def length(self, generator: torch.Generator) -> int:
        """The number of leapfrog steps of the next trajectory."""
        low = max(1, round(self.steps * (1 - self.jitter)))
        high = max(low, round(self.steps * (1 + self.jitter)))
        if low == high:
            return low
        return int(torch.randint(low, high + 1, (), generator=generator, device=generator.device))


def _like(position: Tensor, generator: torch.Generator) -> Tensor:
    """Standard normals of the shape of a position."""
    return torch.randn(position.shape, generator=generator, dtype=position.dtype, device=position.device)
