"""Underdamped Langevin dynamics over a batch of chains: positions with momenta and friction."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.samplers.langevin.overdamped import Unadjusted, normal_like
from benthic.samplers.target import Target


class BAOABState(NamedTuple):
    """Position, log density and gradient as in ``LangevinState``; momentum (chains, d) where its law is white."""

    position: Tensor
    log_density: Tensor
    gradient: Tensor
    momentum: Tensor


class BAOABInfo(NamedTuple):
    """accepted: (chains,) ones. energy: (chains,) potential plus kinetic."""

    accepted: Tensor
    energy: Tensor


class BAOAB(Unadjusted):
    r"""Underdamped Langevin, split into kick, drift, friction with noise, drift, kick.

    .. math:: dx = \Sigma\, p\, dt, \qquad dp = \nabla \log \pi(x)\, dt - \gamma p\, dt
        + \sqrt{2 \gamma}\, \Sigma^{-1/2} dW

    Leimkuhler & Matthews, 2013. Positions are exact on Gaussian targets for every stable step, :math:`h < 2` times the
    smallest standard deviation; elsewhere their law is off by order :math:`h^2`.

    step_size: :math:`h`, in units of time (one scaling only). friction: :math:`\gamma`.
    inverse_mass: :math:`\Sigma`, as in ``ULA``. A start draws no momenta: they begin at zero.

    >>> target = Target(lambda x: -0.5 * (x ** 2).sum(), torch.zeros(2))
    >>> BAOAB(target, 0.5, friction=1.0).init(torch.zeros(3, 2)).momentum.shape
    torch.Size([3, 2])
    """

    def __init__(
        self, target: Target, step_size: float, *, friction: float = 1.0, inverse_mass: Tensor | None = None
    ) -> None:
        super().__init__(target, step_size, inverse_mass=inverse_mass)
        if not (math.isfinite(friction) and friction >= 0):
            raise InvalidInput(f"BAOAB: friction is {friction}; it must be >= 0 and finite")
        self.friction = friction

    def init(self, position: Tensor) -> BAOABState:
        """Chains at rest."""
        return BAOABState(position, *self.target.value_and_grad(position), torch.zeros_like(position))

    def step(self, state: BAOABState, generator: torch.Generator) -> tuple[BAOABState, BAOABInfo]:
        """One step of length h; one gradient."""
        h, keep = self.step_size, math.exp(-self.friction * self.step_size)
        p = state.momentum + 0.5 * h * self.metric.into(state.gradient)  # B
        x = state.position + 0.5 * h * self.metric.out(p)  # A
        p = keep * p + math.sqrt(1 - keep * keep) * normal_like(p, generator)  # O
        x = x + 0.5 * h * self.metric.out(p)  # A
        value, slope = self.target.value_and_grad(x)
        p = p + 0.5 * h * self.metric.into(slope)  # B
        energy = 0.5 * p.square().sum(-1) - value
        return BAOABState(x, value, slope, p), BAOABInfo(torch.ones_like(value), energy)
