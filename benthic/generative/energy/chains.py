"""Chains on an energy: the package's Langevin and Hamiltonian kernels, from noise or from a store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from benthic.samplers.hamiltonian.hmc import HMC
from benthic.samplers.kernel import Kernel
from benthic.samplers.langevin.annealed import annealed_langevin, noise_levels
from benthic.samplers.langevin.overdamped import MALA, ULA, Langevin
from benthic.samplers.target import Target

SAMPLERS = ("auto", "langevin", "mala", "hmc")
ACCEPTANCE = {"mala": 0.574, "hmc": 0.65}  # Roberts & Rosenthal, 1998; Beskos et al., 2013
_LEAPFROGS = 5
_CHAINS = 4096  # chains that run at once


def target_of(network: nn.Module, width: int) -> Target:
    """The law proportional to exp(−energy) of rows (n, width), as samplers see it."""
    like = next(network.parameters())
    example = torch.zeros(width, dtype=like.dtype, device=like.device)
    return Target(lambda x: -network(x), example, batched=True)


def kernel_of(name: str, target: Target, step_size: float) -> Kernel:
    """The kernel of this name: ``langevin`` without a test, ``mala`` with one, or ``hmc``."""
    if name == "langevin":
        return ULA(target, step_size)
    if name == "mala":
        return MALA(target, step_size)
    return HMC(target, step_size, steps=_LEAPFROGS, jitter=0.0)


def resized(kernel: Kernel, step_size: float) -> Kernel:
    """The kernel with another step size."""
    if isinstance(kernel, Langevin):
        return kernel.tuned(step_size=step_size)
    return replace(kernel, step_size=step_size) if isinstance(kernel, HMC) else kernel


def walk(kernel: Kernel, start: Tensor, steps: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Where chains are after so many steps from ``start`` (chains, d), and the mean acceptance of the last step.

    Nothing is looked at on the host.
    """
    state = kernel.init(start)
    for _ in range(steps):
        state, info = kernel.step(state, generator)
    return state.position, info.accepted.mean()


def settle(kernel: Kernel, start: Tensor, steps: int, generator: torch.Generator) -> Tensor:
    """Where chains are after so many steps, in the first half of which the kernel is tuned if it can be."""
    state = kernel.init(start)
    tuner = kernel.adapter()
    rest = steps
    if tuner is not None and steps > 1:
        state, kernel = tuner.warm(state, steps // 2, generator)
        rest = steps - steps // 2
    _, trail = kernel.collect(state, 1, generator, thin=rest)
    return trail.positions[:, -1]


def groups_of(n: int) -> int:
    """How many groups ``in_groups`` makes of n chains."""
    return -(-n // _CHAINS)


def in_groups(function: Callable[[Tensor], Tensor], start: Tensor) -> Tensor:
    """``function`` of chains, some thousands at once."""
    return torch.cat([function(part) for part in start.split(_CHAINS)])


def anneal(
    network: Any,
    start: Tensor,
    levels: tuple[float, float, int],
    steps: int,
    generator: torch.Generator,
    step_size: float = 0.1,
    tick: Callable[[], Any] = lambda: None,
) -> Tensor:
    """Annealed Langevin from noise of the first level down to the last, by an energy trained on such noise.

    An energy that was told the level knows nothing of more noise than that, so that steps keep to it.

    levels: largest, smallest and how many. steps: in all. step_size: in units of the squared noise. tick: called after
    every step.
    """
    largest, smallest, count = levels
    sigmas = noise_levels(largest, smallest, count)

    def score(x: Tensor, sigma: Tensor) -> Tensor:
        with torch.enable_grad():
            leaf = x.detach().requires_grad_()
            (slope,) = torch.autograd.grad(network(leaf, sigma.to(leaf)).sum(), leaf)
        tick()
        return -slope

    return annealed_langevin(
        score,
        sigmas,
        start * largest,
        steps=max(1, steps // count),
        step_size=step_size,
        consistent=network.leveled,
        generator=generator,
    )
