r"""Stochastic-gradient Langevin and Hamiltonian rules, and the step schedules that go with them.

A rule moves chains by an estimate of the gradient of the log posterior; ``benthic.samplers.run_minibatches`` feeds it
minibatches through the training engine. Step sizes are in the scaling :math:`(\eta, \sqrt{2\eta})` throughout.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.settings import is_number, whole
from benthic.samplers.langevin.overdamped import normal_like

Memory = dict[str, Tensor]


class Force(NamedTuple):
    """What a minibatch says about the gradient.

    gradient: (chains, d), prior included. mean: (chains, d), the average over rows of the likelihood part.
    noise: (chains, d) estimated variance of ``gradient`` over minibatches, or None where it was not asked for.
    """

    gradient: Tensor
    mean: Tensor
    noise: Tensor | None = None


class Pace(NamedTuple):
    """Where a step stands: its factor of the step size, whether it is warm-up, and how hot the noise is."""

    factor: float = 1.0
    warming: bool = False
    temperature: float = 1.0


# -- preconditioning ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RMS:
    r"""A diagonal preconditioner from running squares of the mean gradient, as in RMSprop.

    .. math:: V \leftarrow \alpha V + (1 - \alpha) \bar g^2, \qquad G = 1 / (\lambda + \sqrt V)

    Li, Chen, Carlson & Carin, 2016. It moves in warm-up only: once it stands still, the correction
    :math:`\sum_j \partial G_{ij} / \partial \theta_j` that the paper leaves out is zero.

    decay: :math:`\alpha`. damping: :math:`\lambda`, which bounds the preconditioner.
    """

    decay: float = 0.99
    damping: float = 1e-3

    def __post_init__(self) -> None:
        if not 0 <= self.decay < 1:
            raise InvalidInput(f"RMS: decay is {self.decay}; it lies in [0, 1), for example 0.99")
        if not self.damping > 0:
            raise InvalidInput(f"RMS: damping is {self.damping}; it must be positive, for example 1e-3")

    def follow(self, memory: Memory, mean: Tensor, warming: bool) -> tuple[Memory, Tensor]:
        """The memory after one more mean gradient, and the preconditioner (chains, d)."""
        squares = memory.get("squares")
        if squares is None:
            squares = mean.square()
        elif warming:
            squares = self.decay * squares + (1 - self.decay) * mean.square()
        return {**memory, "squares": squares}, 1 / (self.damping + squares.sqrt())


# -- rules -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rule(ABC):
    """A way to move chains by stochastic gradients: settings only; what moves is in the position and the memory."""

    step_size: float

    @property
    def wants_noise(self) -> bool:
        """Whether the rule asks for an estimate of the gradient's variance."""
        return False

    @abstractmethod
    def begin(self, position: Tensor, generator: torch.Generator) -> Memory:
        """The memory of chains that start at ``position`` (chains, d)."""

    @abstractmethod
    def move(
        self, position: Tensor, memory: Memory, force: Force, pace: Pace, generator: torch.Generator
    ) -> tuple[Tensor, Memory]:
        """The next position (chains, d) and memory."""

    def _check(self, preconditioner: Any) -> None:
        name = type(self).__name__
        if not (math.isfinite(self.step_size) and self.step_size > 0):
            raise InvalidInput(f"{name}: step_size is {self.step_size}; it must be positive and finite")
        if isinstance(preconditioner, RMS) or preconditioner is None:
            return
        if not isinstance(preconditioner, Tensor) or preconditioner.ndim != 1 or not bool((preconditioner > 0).all()):
            raise InvalidInput(
                f"{name}: the preconditioner is {preconditioner!r:.60}; it is None, RMS() or a tensor (d,) of "
                "positive numbers, one a parameter"
            )


def _metric(setting: Any, memory: Memory, force: Force, warming: bool) -> tuple[Memory, Any]:
    """The preconditioner as a number or a tensor that broadcasts over (chains, d)."""
    if setting is None:
        return memory, 1.0
    if isinstance(setting, RMS):
        return setting.follow(memory, force.mean, warming)
    if len(setting) != force.gradient.shape[1]:
        raise InvalidInput(
            f"the preconditioner has {len(setting)} numbers for {force.gradient.shape[1]} parameters; give one each"
        )
    return memory, setting.to(force.gradient)


@dataclass(frozen=True)
class SGLD(Rule):
    r"""Stochastic-gradient Langevin dynamics.

    .. math:: \theta' = \theta + \eta\, G \Big(\nabla \log p(\theta) +
        \frac{N}{n} \sum_{i \in B} \nabla \log p(x_i \mid \theta)\Big) + \sqrt{2 \eta\, G}\; \xi

    Welling & Teh, 2011, whose step is :math:`\epsilon = 2 \eta`.

    step_size: :math:`\eta`. preconditioner: None, a tensor (d,) or ``RMS()`` (see ``psgld``).
    The law has an error of order :math:`\eta` even with all rows in each batch; see ``Polynomial`` for steps that fall.

    >>> SGLD(0.01).step_size
    0.01
    """

    preconditioner: Any = None

    def __post_init__(self) -> None:
        self._check(self.preconditioner)

    def begin(self, position: Tensor, generator: torch.Generator) -> Memory:
        """No memory."""
        return {}

    def move(
        self, position: Tensor, memory: Memory, force: Force, pace: Pace, generator: torch.Generator
    ) -> tuple[Tensor, Memory]:
        """A drift along the gradient and fresh noise."""
        memory, metric = _metric(self.preconditioner, memory, force, pace.warming)
        rate = metric * (self.step_size * pace.factor)
        spread = (2 * pace.temperature * rate) ** 0.5
        return position + rate * force.gradient + spread * normal_like(position, generator), memory


def psgld(step_size: float, decay: float = 0.99, damping: float = 1e-3) -> SGLD:
    """Preconditioned stochastic-gradient Langevin dynamics: ``SGLD`` with ``RMS(decay, damping)``.

    Li, Chen, Carlson & Carin, 2016.

    >>> psgld(0.01).preconditioner
    RMS(decay=0.99, damping=0.001)
    """
    return SGLD(step_size, RMS(decay, damping))


@dataclass(frozen=True)
class SGHMC(Rule):
    r"""Stochastic-gradient Hamiltonian Monte Carlo: momentum, friction, and noise that makes up for the friction.

    .. math:: v' = (1 - \alpha) v + \eta\, g(\theta) + \mathcal N\big(0, 2 (\alpha - \hat\beta) \eta\big), \qquad
        \theta' = \theta + v', \qquad \hat\beta = \tfrac12 \eta \hat V

    Chen, Fox & Guestrin, 2014, equation 15. :math:`g` is the minibatch estimate of the gradient of the log posterior
    and :math:`\hat V` an estimate of its variance. The velocity is kept in units of :math:`\sqrt\eta`, so steps that
    fall on a schedule leave its law alone. With :math:`\alpha = 1` the rule is ``SGLD`` at the same step size.

    step_size: :math:`\eta`. friction: :math:`\alpha` in (0, 1].
    noise: :math:`\hat V`; 0 leaves the minibatch noise unaccounted for, a number or tensor (d,) states it, and
    ``estimate`` measures it from the two halves of each batch, averaged over warm-up.
    preconditioner: None, a tensor (d,) or ``RMS()``, as in Springenberg, Klein, Falkner & Hutter, 2016.

    >>> SGHMC(0.01, friction=0.1).wants_noise
    False
    """

    friction: float = 0.05
    noise: Any = 0.0
    preconditioner: Any = None

    def __post_init__(self) -> None:
        self._check(self.preconditioner)
        if not 0 < self.friction <= 1:
            raise InvalidInput(f"SGHMC: friction is {self.friction}; it lies in (0, 1], for example 0.05")
        stated = self.noise if isinstance(self.noise, Tensor) else None
        if stated is None and self.noise != "estimate" and not is_number(self.noise):
            raise InvalidInput(f"SGHMC: noise is {self.noise!r}; it is a variance >= 0, a tensor (d,) or 'estimate'")
        if self.noise != "estimate" and bool((torch.as_tensor(self.noise) < 0).any()):
            raise InvalidInput("SGHMC: noise is a variance; it must be >= 0")

    @property
    def wants_noise(self) -> bool:
        """Whether the noise is estimated."""
        return isinstance(self.noise, str)

    def begin(self, position: Tensor, generator: torch.Generator) -> Memory:
        """Velocities from their law, in units of the root of the step size."""
        return {"velocity": normal_like(position, generator)}

    def move(
        self, position: Tensor, memory: Memory, force: Force, pace: Pace, generator: torch.Generator
    ) -> tuple[Tensor, Memory]:
        """New velocities from the force at ``position``, then positions follow them."""
        memory, metric = _metric(self.preconditioner, memory, force, pace.warming)
        rate = metric * (self.step_size * pace.factor)
        memory, variance = self._variance(memory, force, pace.warming)
        missing = (self.friction - 0.5 * rate * variance).clamp(min=0.0)
        push = (2 * pace.temperature * missing) ** 0.5 * normal_like(position, generator)
        root = rate**0.5
        velocity = (1 - self.friction) * memory["velocity"] + root * force.gradient + push
        return position + root * velocity, {**memory, "velocity": velocity}

    def _variance(self, memory: Memory, force: Force, warming: bool) -> tuple[Memory, Tensor]:
        if not self.wants_noise:
            return memory, torch.as_tensor(self.noise).to(force.gradient)
        if force.noise is None:
            raise InvalidInput("SGHMC: noise='estimate' needs batches of at least 2 rows; raise batch_size")
        fresh = "noise" not in memory
        count = memory.get("count", force.noise.new_zeros(()))
        kept = torch.zeros_like(force.noise) if fresh else memory["noise"]
        if warming or fresh:
            count = count + 1
            kept = kept + (force.noise - kept) / count
        return {**memory, "noise": kept, "count": count}, kept


# -- schedules ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Polynomial:
    r"""Steps that fall as :math:`(1 + t / b)^{-\gamma}`, with :math:`\gamma` in (1/2, 1] (Welling & Teh, 2011).

    power: :math:`\gamma`; smaller values, down to 0, do not let the bias vanish in the limit but may mix better.
    offset: :math:`b`, after how many steps the fall begins to show.

    >>> round(Polynomial(power=0.5, offset=1.0)(3, 100), 3)
    0.5
    """

    power: float = 0.55
    offset: float = 100.0

    def __post_init__(self) -> None:
        if not 0 <= self.power <= 1:
            raise InvalidInput(f"Polynomial: power is {self.power}; it lies in [0, 1], for example 0.55")
        if not self.offset > 0:
            raise InvalidInput(f"Polynomial: offset is {self.offset}; it must be positive")

    def __call__(self, step: int, total: int) -> float:
        """The factor of the step size."""
        return float((1 + step / self.offset) ** -self.power)


@dataclass(frozen=True)
class Cyclic:
    r"""Half cosines that start again: large steps find a new mode, small ones sample it.

    .. math:: \eta_t = \frac{\eta_0}{2} \Big(\cos\frac{\pi\,(t \bmod L)}{L} + 1\Big), \qquad L = \lceil T / M \rceil

    Zhang, Li, Zhang, Chen & Wilson, 2020. In the first part of each cycle there is no noise and no draw is kept.

    cycles: :math:`M`. exploration: that part, in [0, 1).

    >>> Cyclic(2)(0, 100), Cyclic(2)(50, 100), Cyclic(2).sampling(10, 100)
    (1.0, 1.0, False)
    """

    cycles: int = 4
    exploration: float = 0.5

    def __post_init__(self) -> None:
        whole("Cyclic: cycles", self.cycles)
        if not 0 <= self.exploration < 1:
            raise InvalidInput(f"Cyclic: exploration is {self.exploration}; it lies in [0, 1)")

    def _phase(self, step: int, total: int) -> float:
        length = math.ceil(total / self.cycles)
        return (step % length) / length

    def __call__(self, step: int, total: int) -> float:
        """The factor of the step size."""
        return 0.5 * (math.cos(math.pi * self._phase(step, total)) + 1)

    def sampling(self, step: int, total: int) -> bool:
        """Whether this step is in the sampling part of its cycle."""
        return self._phase(step, total) >= self.exploration
