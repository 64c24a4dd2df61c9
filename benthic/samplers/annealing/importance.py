"""Annealed importance sampling along a geometric path, with Hamiltonian moves, forward and in reverse."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.seeds import generator as stream_of
from benthic.base.seeds import seed_of
from benthic.base.settings import is_number, is_whole, whole
from benthic.samplers.annealing.weights import AnnealedWeights
from benthic.samplers.hamiltonian.hmc import leapfrog

LogDensity = Callable[[Tensor], Tensor]
_SETTLE = 20  # moves at the first temperature in which the step size settles
_RATE = 0.3  # by which the logarithm of the step size follows the acceptance
_WARM = 0.2  # smoothing of the acceptance that it follows


def annealing_temperatures(count: int, steepness: float = 4.0) -> Tensor:
    r"""``count`` + 1 inverse temperatures from 0 to 1, closest together at both ends, (count + 1,) float64.

    .. math:: \beta_k \propto \sigma\!\left(\delta \left(\tfrac{2k}{K} - 1\right)\right) - \sigma(-\delta)

    Grosse et al., 2015. steepness: :math:`\delta`; 0 spaces them evenly.

    >>> annealing_temperatures(4).round(decimals=2).tolist()
    [0.0, 0.1, 0.5, 0.9, 1.0]
    """
    whole("annealing_temperatures: count", count)
    if not 0 <= steepness < math.inf:
        raise InvalidInput(f"annealing_temperatures: steepness is {steepness}; it must be at least 0")
    even = torch.linspace(0, 1, count + 1, dtype=torch.float64)
    if not steepness:
        return even
    curve = torch.sigmoid(steepness * (2 * even - 1))
    return (curve - curve[0]) / (curve[-1] - curve[0])


@dataclass(frozen=True)
class Annealing:
    r"""A geometric path :math:`\log f_\beta = (1-\beta) \log f_0 + \beta \log f_1` and the moves along it.

    log_start, log_target: from points (chains, \*batch, d) to (chains, \*batch), differentiable; neither needs to be
    normalized. Rows of the batch are problems of their own, solved side by side. temperatures: they rise from 0 to 1.
    leapfrogs: steps of a Hamiltonian move, of which there is one at each temperature in between. step_sizes: a number,
    or (transitions, \*batch), one for each of the temperatures in between; ``tuned`` finds them.
    """

    log_start: LogDensity
    log_target: LogDensity
    temperatures: Tensor
    step_sizes: float | Tensor = 0.2
    leapfrogs: int = 5

    def __post_init__(self) -> None:
        steps = self.temperatures
        rises = steps.ndim == 1 and len(steps) > 1 and bool((steps.diff() > 0).all())
        if not rises or float(steps[0]) != 0 or float(steps[-1]) != 1:
            raise InvalidInput("Annealing: temperatures do not rise from 0 to 1; use annealing_temperatures(count)")
        whole("Annealing: leapfrogs", self.leapfrogs)
        if is_number(self.step_sizes) and not 0 < self.step_sizes < math.inf:
            raise InvalidInput(f"Annealing: step_sizes is {self.step_sizes}; it must be positive")

    @property
    def transitions(self) -> int:
        """How many moves a chain makes."""
        return len(self.temperatures) - 2

    def forward(self, start: Tensor, generator: torch.Generator) -> AnnealedWeights:
        r"""Chains from draws of the start (chains, \*batch, d) towards the target (Neal, 2001)."""
        _check_points(self, start)
        betas, x, accepted = self.temperatures.tolist(), start.detach(), []
        total = betas[1] * self._gain(x)
        for k in range(1, len(betas) - 1):
            x, chance = self._move(x, betas[k], self._step_size(k, x), generator)
            accepted.append(chance.mean(0))
            total = total + (betas[k + 1] - betas[k]) * self._gain(x)
        return AnnealedWeights(total, x, _stacked(accepted, total))

    def reverse(self, exact: Tensor, generator: torch.Generator) -> AnnealedWeights:
        r"""Chains from exact draws of the target (chains, \*batch, d) back to the start (Grosse et al., 2015)."""
        _check_points(self, exact)
        betas, x, accepted = self.temperatures.tolist(), exact.detach(), []
        total = (1 - betas[-2]) * self._gain(x)
        for k in range(len(betas) - 2, 0, -1):
            x, chance = self._move(x, betas[k], self._step_size(k, x), generator)
            accepted.insert(0, chance.mean(0))
            total = total + (betas[k] - betas[k - 1]) * self._gain(x)
        return AnnealedWeights(total, x, _stacked(accepted, total), reverse=True)

    def tuned(self, start: Tensor, generator: torch.Generator, accept: float = 0.65) -> Annealing:
        """The same path with step sizes, for each temperature and row, whose moves are accepted so often.

        They come from chains of their own, which do not count: fixed moves keep the mean weight unbiased.
        """
        if not 0 < accept < 1:
            raise InvalidInput(f"Annealing.tuned: accept is {accept}; it must be between 0 and 1, 0.65 is usual")
        _check_points(self, start)
        if self.transitions < 1:
            return self
        x, found = start.detach(), []
        log_step = torch.zeros_like(x[0, ..., 0]) + torch.log(torch.as_tensor(self._step_size(1, x))).to(x)
        mean = torch.full_like(log_step, accept)
        for k in [1] * _SETTLE + list(range(1, self.transitions + 1)):
            x, chance = self._move(x, float(self.temperatures[k]), log_step.exp(), generator)
            mean = (1 - _WARM) * mean + _WARM * chance.mean(0)
            log_step = log_step + _RATE * (mean - accept)
            found.append(log_step.exp())
        return replace(self, step_sizes=torch.stack(found[_SETTLE:]))

    def _step_size(self, k: int, like: Tensor) -> float | Tensor:
        return self.step_sizes[k - 1].to(like) if isinstance(self.step_sizes, Tensor) else self.step_sizes

    @torch.no_grad()
    def _gain(self, x: Tensor) -> Tensor:
        """log f_1 − log f_0."""
        return self.log_target(x) - self.log_start(x)

    def _slope(self, x: Tensor, beta: float) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            leaf = x.detach().requires_grad_()
            value = (1 - beta) * self.log_start(leaf) + beta * self.log_target(leaf)
            (gradient,) = torch.autograd.grad(value.sum(), leaf)
        return value.detach(), gradient

    def _move(
        self, x: Tensor, beta: float, step_size: float | Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """A Hamiltonian move at one temperature: the next points and the probability of acceptance."""
        step = step_size[..., None] if isinstance(step_size, Tensor) else step_size
        momentum = torch.randn(x.shape, generator=generator, dtype=x.dtype, device=x.device)
        value, gradient = self._slope(x, beta)
        place, speed, after, _ = leapfrog(
            lambda point: self._slope(point, beta), x, momentum, gradient, step, self.leapfrogs
        )
        rise = (0.5 * speed.square().sum(-1) - after) - (0.5 * momentum.square().sum(-1) - value)
        chance = torch.exp(-torch.nan_to_num(rise, nan=math.inf, posinf=math.inf).clamp(min=0))
        uniform = torch.rand(chance.shape, generator=generator, dtype=x.dtype, device=x.device)
        return torch.where((uniform < chance)[..., None], place, x), chance


def annealed_importance(
    log_start: LogDensity,
    log_target: LogDensity,
    start: Tensor,
    *,
    exact: Tensor | None = None,
    temperatures: int | Sequence[float] | Tensor = 200,
    leapfrogs: int = 5,
    step_size: float = 0.2,
    accept: float = 0.65,
    pilot: int = 2,
    generator: torch.Generator | None = None,
    seed: int | None = None,
) -> AnnealedWeights:
    r"""The ratio of the normalizers of two densities, by chains that walk from one to the other.

    .. math:: \log w = \sum_{k=1}^K (\beta_k - \beta_{k-1}) \log \frac{f_1(x_{k-1})}{f_0(x_{k-1})}, \qquad
        E[w] = \frac{Z_1}{Z_0}

    where :math:`x_0 \sim f_0 / Z_0` and :math:`x_k` follows from :math:`x_{k-1}` by a Hamiltonian move that leaves
    :math:`f_0^{1-\beta_k} f_1^{\beta_k}` invariant. Neal, 2001; moves as in Wu et al., 2017. The value of the result is
    a lower bound in expectation. With ``exact`` draws of the target, which simulated data have, chains run in reverse
    and the value is an upper bound: together they enclose the truth (Grosse et al., 2015).

    log_start, log_target: see ``Annealing``. start: draws of the start, (chains, \*batch, d). temperatures: how many
    steps there are between 0 and 1 (see ``annealing_temperatures``), or their values. step_size: of the moves, where
    tuning begins. accept: the acceptance it is tuned to. pilot: how many of the chains, the first, only tune the step
    size, with draws of their own, so that the estimate is unbiased; 0 leaves the step size as it is.

    >>> wide = lambda x: -0.5 * (x / 2).square().sum(-1)  # a normal law of scale 2, without its constant
    >>> unit = lambda x: -0.5 * x.square().sum(-1)
    >>> start = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
    >>> found = annealed_importance(unit, wide, start, temperatures=100, seed=0)
    >>> bool(abs(found.value - 3 * math.log(2)) < 4 * found.stderr)
    True
    """
    stream = generator or stream_of(seed_of(seed), "annealed importance", device=start.device)
    if is_whole(temperatures):
        betas = annealing_temperatures(temperatures)
    else:
        betas = torch.as_tensor(temperatures, dtype=torch.float64)
    path = Annealing(log_start, log_target, betas, step_size, leapfrogs)
    if not is_whole(pilot, 0, max(len(start), 1) - 1):
        raise InvalidInput(
            f"annealed_importance: pilot is {pilot!r} of {len(start)} chains; some must be left to count"
        )
    if pilot:
        path = path.tuned(start[:pilot], stream, accept)
    return path.forward(start[pilot:], stream) if exact is None else path.reverse(exact, stream)


def _check_points(path: Annealing, x: Tensor) -> None:
    if x.ndim < 2 or not x.is_floating_point() or not len(x):
        raise InvalidInput(f"annealed_importance: points have shape {tuple(x.shape)}; they are floats (chains, ..., d)")
    for name, log_density in (("log_start", path.log_start), ("log_target", path.log_target)):
        with torch.no_grad():
            value = log_density(x)
        if not isinstance(value, Tensor) or value.shape != x.shape[:-1]:
            shape = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise InvalidInput(
                f"annealed_importance: {name} of points {tuple(x.shape)} gives {shape}; one number a point, "
                f"{tuple(x.shape[:-1])}, is needed"
            )
        if bool(torch.isnan(value).any()):
            raise InvalidInput(f"annealed_importance: {name} is NaN at some of the points that chains begin at")


def _stacked(accepted: list[Tensor], like: Tensor) -> Tensor:
    return torch.stack(accepted) if accepted else like.new_zeros((0, *like.shape[1:]))
