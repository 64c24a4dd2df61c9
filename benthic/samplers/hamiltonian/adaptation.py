"""Warm-up: the step size by dual averaging, the mass from what all chains visited, in doubling windows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from benthic.samplers.hamiltonian.hmc import Hamiltonian, HamiltonianState, leapfrog
from benthic.samplers.kernel import Adapter, Kernel, SamplerStopped

SMALLEST = 1e-8  # of a step in whitened coordinates, where one is the width of the law
GAMMA = 0.3  # pooled acceptances are less noisy than those of one chain, and smaller moves do
_FEWER = 1e-4  # of the step that suits most chains, at which one that still refuses has no say in the shared step
DENSE_LIMIT = 100  # dimensions up to which "auto" takes a dense mass


class DualAveraging:
    r"""A step size whose acceptance probability averages to ``accept``.

    .. math::

        \log h_{t+1} = \mu - \frac{\sqrt t}{\gamma (t + t_0)} \sum_{s \le t} (\delta - a_s), \qquad
        \log \bar h_{t+1} = t^{-\kappa} \log h_{t+1} + (1 - t^{-\kappa}) \log \bar h_t

    Hoffman and Gelman, 2014, with their constants; mu is ``log(push * step)``.

    >>> rule = DualAveraging(1.0, 0.8)
    >>> for _ in range(500):
    ...     _ = rule.update(math.exp(-rule.step))  # accepted with probability exp(-h)
    >>> round(math.exp(-rule.average), 2)
    0.8
    """

    def __init__(self, step: float, accept: float = 0.8, *, push: float = 10.0, gamma: float = 0.05) -> None:
        self.step, self.average, self.accept = step, step, accept
        self._mu, self._gamma = math.log(push * step), gamma
        self._gap, self._count = 0.0, 0

    def update(self, accepted: float) -> float:
        """The next step size to try, after one with acceptance probability ``accepted``."""
        self._count += 1
        t = self._count
        weight = 1 / (t + 10)
        self._gap = (1 - weight) * self._gap + weight * (self.accept - (accepted if math.isfinite(accepted) else 0.0))
        log_step = self._mu - math.sqrt(t) / self._gamma * self._gap
        self.step = math.exp(log_step)
        share = t**-0.75
        self.average = math.exp(share * log_step + (1 - share) * math.log(self.average))
        return self.step


def windows(transitions: int, chains: int = 1) -> tuple[int, list[int], int]:
    """How a warm-up is divided: a first stretch for the step alone, doubling windows for the mass, a last stretch.

    As in Stan, but the first window is shorter when several chains fill it together.

    >>> windows(1000)
    (75, [25, 50, 100, 200, 400], 150)
    >>> windows(100, chains=256)
    (8, [5, 10, 20, 42], 15)
    """
    if transitions < 20:
        return transitions, [], 0
    first, last = round(0.075 * transitions), round(0.15 * transitions)
    size = min(25, max(5, 100 // chains))
    left, sizes = transitions - first - last, []
    while left > 0:
        take = size if left - size >= 2 * size else left
        sizes.append(take)
        left, size = left - take, 2 * size
    return first, sizes, last


def covariance(rows: Tensor, dense: bool) -> Tensor:
    """The inverse mass from rows visited (n, d): variances (d,), or a covariance (d, d), shrunk a little.

    The weight of the shrinkage towards 0.001 falls as 5 / (n + 5), as in Stan. A covariance of fewer than 10 d
    rows is only its diagonal.
    """
    n, d = rows.shape
    share, floor = n / (n + 5), 1e-3 * 5 / (n + 5)
    variances = share * rows.var(0) + floor
    if not dense or n < 10 * d:
        return torch.diag(variances) if dense else variances
    return share * torch.cov(rows.mT).reshape(d, d) + floor * torch.eye(d, dtype=rows.dtype, device=rows.device)


def plan(kernel: Hamiltonian, transitions: int, chains: int) -> tuple[int, list[int], int, bool]:
    """The windows of a warm-up, and whether the mass will be dense.

    "auto" takes a dense mass where the last window will hold ten rows a dimension or more.
    """
    first, middle, last = windows(transitions, chains)
    d = kernel.target.dim
    seen = max(middle, default=0) * chains
    dense = 1 < d <= DENSE_LIMIT and seen >= 10 * d if kernel.mass == "auto" else kernel.mass == "dense"
    return first, middle, last, dense


class HamiltonianWarmup:
    """Finds the step size and mass of a Hamiltonian kernel, from all chains together.

    The step size is shared by chains; the mass is estimated from what all of them visited in windows that
    double, so with many chains a short warm-up is enough.
    """

    def __init__(self, kernel: Hamiltonian) -> None:
        self.kernel = kernel
        self._rule = DualAveraging(kernel.step_size, kernel.accept)

    def warm(
        self,
        state: HamiltonianState,
        transitions: int,
        generator: torch.Generator,
        tick: Callable[[int], None] | None = None,
    ) -> tuple[HamiltonianState, Kernel]:
        """The state after warm-up, and the tuned kernel."""
        first, middle, last, dense = plan(self.kernel, transitions, len(state.position))
        kernel = self._opening(state, dense, generator)
        for index, size in enumerate([first, *middle, last]):
            if size > 0:
                state, rows = kernel.stretch(state, size, generator, self._tune, self._heard)
                kernel = replace(kernel, step_size=self._rule.average)
            if 0 < index <= len(middle) and kernel.mass != "unit":
                kernel = self._restart(replace(kernel, inverse_mass=covariance(rows, dense)), state, generator)
            if tick is not None:
                tick(size)
        return state, kernel

    def _opening(self, state: HamiltonianState, dense: bool, generator: torch.Generator) -> Any:
        """The kernel to begin with: its mass in the form it will have, a reasonable step."""
        kernel = self.kernel
        if kernel.inverse_mass is None and kernel.mass != "unit":
            ones = torch.ones(kernel.target.dim, dtype=state.position.dtype, device=state.position.device)
            kernel = replace(kernel, inverse_mass=torch.diag(ones) if dense else ones)
        return self._restart(kernel, state, generator)

    def _restart(self, kernel: Any, state: HamiltonianState, generator: torch.Generator) -> Any:
        """A kernel with a reasonable step for its mass, from which dual averaging starts again."""
        step, self._heard = first_step(kernel, state, generator)
        self._rule = DualAveraging(step, kernel.accept, push=1.0, gamma=GAMMA)
        return replace(kernel, step_size=step)

    def _tune(self, accepted: float) -> float:
        """The next step size; stops where it collapses."""
        step = self._rule.update(accepted)
        if step < SMALLEST:
            raise _collapsed(step, self.kernel)
        return step


def first_step(kernel: Hamiltonian, state: HamiltonianState, generator: torch.Generator) -> tuple[float, Tensor]:
    """A step whose single leapfrog is accepted with a probability near 0.8, on the average of chains.

    Hoffman and Gelman, 2014, algorithm 4: doubled or halved until the acceptance crosses. Also (chains,) which have a
    say in it: not those that are lost, which still refuse a step far smaller than suits most.
    """
    white: Any = kernel.white
    z, slope = white.back(state.position), white.slope(state.gradient)
    p = torch.randn(z.shape, generator=generator, dtype=z.dtype, device=z.device)
    before = 0.5 * (p**2).sum(-1) - state.log_density

    def accepted(step: float) -> Tensor:
        _, q, value, _ = leapfrog(white.value_and_grad, z, p, slope, step, 1)
        rise = torch.nan_to_num(0.5 * (q**2).sum(-1) - value - before, nan=float("inf"), posinf=float("inf"))
        return torch.exp(-rise.clamp(min=0))

    step = kernel.step_size
    shares = accepted(step)
    grow = float(shares.mean()) > 0.8
    own = torch.where(shares > 0.8, step, 0.0)  # the step that suits each chain, 0 while there is none
    while True:
        trial = step * 2 if grow else step / 2
        if not grow and trial < _FEWER * float(own.median()):  # the others are lost where they are
            return float(own[own > 0].median()), own > 0
        if trial < SMALLEST or trial > 1 / SMALLEST:
            raise _collapsed(trial, kernel) if not grow else _flat(kernel)
        shares = accepted(trial)
        own = torch.where((shares > 0.8) & (own == 0), trial, own)
        good = float(shares.mean()) > 0.8
        if grow and not good:
            return step, torch.ones_like(own, dtype=torch.bool)
        step = trial
        if good and not grow:
            return step, torch.ones_like(own, dtype=torch.bool)


def _collapsed(step: float, kernel: Hamiltonian) -> SamplerStopped:
    return SamplerStopped(
        f"{type(kernel).__name__}: the step size collapsed to {step:.0e}, so nearly no proposal was accepted; the "
        "density may jump, be nan beside the chains or have a wrong gradient. Constrain the parameters "
        "(Target(..., constraints=...)), start elsewhere, rescale them, or use float64"
    )


def _flat(kernel: Hamiltonian) -> SamplerStopped:
    return SamplerStopped(
        f"{type(kernel).__name__}: every step size is accepted, however large; the density is flat where the "
        "chains start, so it may be improper: give it a prior"
    )


class StepSizeAdapter(Adapter):
    """Tunes ``step_size`` of any kernel that is a dataclass, to an acceptance probability.

    accept: the probability aimed at. Chains share the step size.
    """

    def __init__(self, kernel: Any, accept: float) -> None:
        self.kernel, self.accept = kernel, accept
        self._rule = DualAveraging(float(kernel.step_size), accept)

    def begin(self, state: Any, transitions: int, generator: torch.Generator) -> Kernel:
        """The kernel as it was given."""
        return self.kernel

    def update(self, state: Any, info: Any) -> Kernel:
        """The kernel with the next step size to try."""
        step = self._rule.update(float(info.accepted.mean()))
        if step < 1e-12:
            raise _collapsed(step, self.kernel)
        return replace(self.kernel, step_size=step)

    def finish(self) -> Kernel:
        """The kernel with the averaged step size."""
        return replace(self.kernel, step_size=self._rule.average)
