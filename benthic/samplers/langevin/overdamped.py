r"""Langevin dynamics over a batch of chains: unadjusted and Metropolis-adjusted.

Two scalings of the same step are in use, :math:`(\eta, \sqrt{2 \eta})` for drift and noise and
:math:`(\epsilon / 2, \sqrt \epsilon)`; they are equal at :math:`\epsilon = 2 \eta`. This house takes the first, so
``step_size`` is :math:`\eta`; ``scaling="half"`` reads it as :math:`\epsilon`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from itertools import accumulate
from typing import Any, Literal, NamedTuple, Self

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput, nearest
from benthic.samplers.hamiltonian.adaptation import DualAveraging, covariance, windows
from benthic.samplers.kernel import Adapter, Kernel, SamplerStopped, Trail
from benthic.samplers.target import Target

Scaling = Literal["full", "half"]
_FACTORS = {"full": 1.0, "half": 0.5}


class Preconditioner:
    r"""A constant metric: the inverse :math:`\Sigma = L L^\top` of a mass matrix, by its factor.

    inverse_mass: None (identity), a tensor (d,) of variances, or (d, d) positive definite; the covariance of the
    target is the best choice.

    >>> Preconditioner(torch.tensor([4.0, 9.0])).out(torch.ones(1, 2))
    tensor([[2., 3.]])
    """

    def __init__(self, inverse_mass: Tensor | None = None) -> None:
        self.inverse_mass = inverse_mass
        self.root: Tensor | None = None
        if inverse_mass is None:
            return
        if inverse_mass.ndim == 1:
            if not bool((inverse_mass > 0).all()):
                raise InvalidInput("inverse_mass has entries that are not positive; variances are")
            self.root = inverse_mass.sqrt()
            return
        if inverse_mass.ndim != 2 or inverse_mass.shape[0] != inverse_mass.shape[1]:
            raise InvalidInput(f"inverse_mass has shape {tuple(inverse_mass.shape)}; it must be (d,) or (d, d)")
        root, wrong = torch.linalg.cholesky_ex(inverse_mass)
        if bool(wrong) or not torch.allclose(inverse_mass, inverse_mass.mT, rtol=1e-4):
            raise InvalidInput("inverse_mass is not symmetric positive definite; a covariance is")
        self.root = root

    def out(self, z: Tensor) -> Tensor:
        """Rows L z, from where noise is white to where the target lives."""
        if self.root is None:
            return z
        return z * self.root if self.root.ndim == 1 else z @ self.root.mT

    def into(self, slope: Tensor) -> Tensor:
        """Rows of the transpose of L times a gradient: the gradient where noise is white."""
        if self.root is None:
            return slope
        return slope * self.root if self.root.ndim == 1 else slope @ self.root


class LangevinState(NamedTuple):
    """Where chains are: position (chains, d), log density (chains,) and its gradient (chains, d)."""

    position: Tensor
    log_density: Tensor
    gradient: Tensor


class LangevinInfo(NamedTuple):
    """accepted: (chains,) acceptance probability."""

    accepted: Tensor


class Langevin(Kernel):
    """What the kernels share: the target, the step and the metric."""

    target: Target

    def __init__(
        self,
        target: Target,
        step_size: float,
        *,
        inverse_mass: Tensor | None = None,
        scaling: Scaling = "full",
    ) -> None:
        name = type(self).__name__
        if not (math.isfinite(step_size) and step_size > 0):
            raise InvalidInput(f"{name}: step_size is {step_size}; it must be positive and finite")
        if scaling not in _FACTORS:
            raise InvalidInput(
                f"{name}: scaling {scaling!r} is unknown{nearest(str(scaling), _FACTORS)}; 'full' is (η, √2η), "
                "'half' is (ε/2, √ε)"
            )
        if inverse_mass is not None and len(inverse_mass) != target.dim:
            raise InvalidInput(
                f"{name}: inverse_mass has shape {tuple(inverse_mass.shape)}; the target has {target.dim} dimensions"
            )
        self.target = target
        self.step_size = step_size * _FACTORS[scaling]
        self.metric = Preconditioner(inverse_mass)

    def tuned(self, *, step_size: float | None = None, inverse_mass: Tensor | None = None) -> Self:
        """The same kernel with another step (in the scaling (η, √2η)) or another metric."""
        other = copy.copy(self)
        if step_size is not None:
            other.step_size = step_size
        if inverse_mass is not None:
            other.metric = Preconditioner(inverse_mass)
        return other

    def init(self, position: Tensor) -> Any:
        """The state of chains at ``position`` (chains, d)."""
        return LangevinState(position, *self.target.value_and_grad(position))


class Unadjusted(Langevin):
    """A kernel that accepts everything, so its chains can run away."""

    def collect(
        self,
        state: Any,
        draws: int,
        generator: torch.Generator,
        *,
        thin: int = 1,
        tick: Callable[[int], None] | None = None,
    ) -> tuple[Any, Trail]:
        """As every kernel does; chains that ran away are an error that says what to change."""
        state, trail = super().collect(state, draws, generator, thin=thin, tick=tick)
        return state, self._checked(trail)

    def _checked(self, trail: Trail) -> Trail:
        """A trail of finite positions, or advice."""
        lost = ~trail.positions.isfinite().all(-1).all(-1)
        if bool(lost.any()):
            raise SamplerStopped(
                f"{type(self).__name__}: {int(lost.sum())} of {len(lost)} chains ran away to infinity; the step size "
                f"{self.step_size:g} is too large for this target, try {self.step_size / 10:.1g}, or MALA, which "
                "rejects such steps"
            )
        return trail


class ULA(Unadjusted):
    r"""Unadjusted Langevin: Euler steps of the diffusion whose law is the target.

    .. math:: x' = x + \eta\, \Sigma \nabla \log \pi(x) + \sqrt{2 \eta}\, L \xi, \qquad \Sigma = L L^\top

    Roberts & Tweedie, 1996. The law it converges to is off by order :math:`\eta`: on a standard normal target it is
    normal with variance :math:`1 / (1 - \eta / 2)`, and it exists for :math:`\eta < 2`.

    target: a ``Target``. step_size: :math:`\eta`. inverse_mass: :math:`\Sigma`, None, (d,) or (d, d).
    scaling: ``full`` is :math:`(\eta, \sqrt{2\eta})`; ``half`` reads the step as :math:`\epsilon` of
    :math:`(\epsilon/2, \sqrt\epsilon)`.

    >>> target = Target(lambda x: -0.5 * (x ** 2).sum(), torch.zeros(2))
    >>> state = ULA(target, 0.1).init(torch.zeros(5, 2))
    >>> state, info = ULA(target, 0.1).step(state, torch.Generator().manual_seed(0))
    >>> state.position.shape, info.accepted.tolist()
    (torch.Size([5, 2]), [1.0, 1.0, 1.0, 1.0, 1.0])
    """

    def step(self, state: LangevinState, generator: torch.Generator) -> tuple[LangevinState, LangevinInfo]:
        """One step of every chain; nothing is rejected."""
        white = math.sqrt(2 * self.step_size) * normal_like(state.position, generator)
        white = white + self.step_size * self.metric.into(state.gradient)
        moved = self.init(state.position + self.metric.out(white))
        return moved, LangevinInfo(torch.ones_like(state.log_density))


class MALA(Langevin):
    r"""Metropolis-adjusted Langevin: the step of ``ULA`` as a proposal, so the law is exact.

    .. math:: \log \alpha = \log\frac{\pi(x')}{\pi(x)} + \tfrac12 \|\xi\|^2
        - \tfrac12 \Big\| \xi + \sqrt{\eta / 2}\; L^\top \big(\nabla \log \pi(x) + \nabla \log \pi(x')\big) \Big\|^2

    Roberts & Tweedie, 1996; the acceptance of 0.574 that the step is tuned for is Roberts & Rosenthal, 1998.

    step_size, inverse_mass, scaling: as in ``ULA``; in warm-up the step is tuned by dual averaging and the metric to
    the variances (``dense=True``: covariance) of the chains, unless ``adapt=False``.

    >>> from benthic.samplers.running import run
    >>> target = Target(lambda x: -0.5 * (x ** 2).sum(), torch.zeros(2))
    >>> draws = run(MALA(target), chains=64, draws=200, warmup=200, seed=0).values["x"]
    >>> bool((draws.var() - 1).abs() < 0.1)
    True
    """

    def __init__(
        self,
        target: Target,
        step_size: float | None = None,
        *,
        inverse_mass: Tensor | None = None,
        scaling: Scaling = "full",
        dense: bool = False,
        adapt: bool = True,
        acceptance: float = 0.574,
    ) -> None:
        if not 0 < acceptance < 1:
            raise InvalidInput(f"MALA: acceptance is {acceptance}; it lies between 0 and 1, best near 0.574")
        natural = 0.5 * target.dim ** (-1 / 3) / _FACTORS.get(scaling, 1.0)
        step = natural if step_size is None else step_size
        super().__init__(target, step, inverse_mass=inverse_mass, scaling=scaling)
        self.dense, self.adapt, self.acceptance = dense, adapt, acceptance

    def step(self, state: LangevinState, generator: torch.Generator) -> tuple[LangevinState, LangevinInfo]:
        """Propose, then accept or stay, chain by chain."""
        eta = self.step_size
        xi = normal_like(state.position, generator)
        here = self.metric.into(state.gradient)
        proposal = self.init(state.position + self.metric.out(eta * here + math.sqrt(2 * eta) * xi))
        back = xi + math.sqrt(eta / 2) * (here + self.metric.into(proposal.gradient))
        log_ratio = proposal.log_density - state.log_density + 0.5 * (xi.square().sum(-1) - back.square().sum(-1))
        accepted = torch.nan_to_num(log_ratio, nan=-math.inf).clamp(max=0.0).exp()
        chosen = torch.rand(accepted.shape, generator=generator, dtype=accepted.dtype, device=accepted.device)
        return _choose(chosen < accepted, proposal, state), LangevinInfo(accepted)

    def adapter(self) -> Adapter | None:
        """Dual averaging of the step and windows for the metric."""
        return LangevinAdapter(self) if self.adapt else None


def _choose(take: Tensor, new: LangevinState, old: LangevinState) -> LangevinState:
    rows = take[:, None]
    return LangevinState(
        torch.where(rows, new.position, old.position),
        torch.where(take, new.log_density, old.log_density),
        torch.where(rows, new.gradient, old.gradient),
    )


class LangevinAdapter(Adapter):
    r"""Tunes the step of ``MALA`` to its acceptance by dual averaging, and its metric in windows of growing length.

    Hoffman & Gelman, 2014, section 3.2; windows as for Hamiltonian kernels. All chains are pooled.
    """

    def __init__(self, kernel: MALA) -> None:
        self.kernel = kernel
        self._rule = DualAveraging(kernel.step_size, kernel.acceptance)

    def begin(self, state: LangevinState, transitions: int, generator: torch.Generator) -> Kernel:
        """Start with the kernel as it is."""
        self._first, middle, _ = windows(transitions, len(state.position))
        self._careful = transitions // 5
        self._ends = set(accumulate(middle, initial=self._first)) - {self._first}
        self._time, self._seen = 0, 1.0
        self._rows: list[Tensor] = []
        return self.kernel

    def update(self, state: LangevinState, info: LangevinInfo) -> Kernel:
        """Follow the acceptance; at the end of a window take its variances as the metric."""
        self._time += 1
        accepted = self._pooled(info.accepted)
        self._seen += 0.02 * (accepted - self._seen)
        self.kernel = self.kernel.tuned(step_size=self._rule.update(accepted))
        if self._time > self._first:
            self._rows.append(state.position)
        if self._time in self._ends:
            found = covariance(torch.cat(self._rows), self.kernel.dense)
            self.kernel = self.kernel.tuned(step_size=self._rule.average, inverse_mass=found)
            self._rule = DualAveraging(self.kernel.step_size, self.kernel.acceptance)
            self._rows = []
        return self.kernel

    def finish(self) -> Kernel:
        """The averaged step."""
        step = self._rule.average
        if not step > 1e-10 or self._seen < 1e-3:
            raise SamplerStopped(
                f"MALA: the step size collapsed to {step:.1g} with acceptance {self._seen:.2g}; the density may be "
                "discontinuous or its gradient wrong, or the chains started far out: pass start= or a longer warmup"
            )
        return self.kernel.tuned(step_size=step)

    def _pooled(self, accepted: Tensor) -> float:
        """The mean acceptance; at first the harmonic one, which a single chain that is stuck far out brings down."""
        if self._time > self._careful:
            return float(accepted.mean())
        return float(1 / (1 / accepted.clamp(min=1e-3)).mean())


def normal_like(like: Tensor, generator: torch.Generator) -> Tensor:
    """Standard normal noise of the shape, type and device of ``like``."""
    return torch.randn(like.shape, generator=generator, dtype=like.dtype, device=like.device)
