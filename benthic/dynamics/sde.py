"""Stochastic differential equations: methods as pure steps, and one function that solves."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput, nearest
from benthic.base.seeds import seed_of
from benthic.dynamics.brownian import BrownianPath
from benthic.dynamics.concrete import all_finite
from benthic.dynamics.noise import Noise, Term, converted
from benthic.dynamics.solution import SolveError, Statistics

SENSES = ("ito", "stratonovich")


@dataclass(frozen=True)
class Equation:
    """Drift and noise, in the sense that a method takes them."""

    drift: Term
    noise: Noise


Advance = Callable[[Equation, Tensor, float, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class StochasticMethod:
    """A step and what is known of it.

    advance: (equation, t, h, y, dW) to the next state. sense: of its drift. strong, additive: orders of the error
    of a path, in general and for a diffusion that does not depend on the state. weak: order of expectations.
    commutative: whether the strong order needs diagonal or scalar noise. evaluations: of the drift, a step.
    """

    name: str
    advance: Advance
    sense: str
    strong: float
    weak: float
    additive: float
    commutative: bool = False
    evaluations: int = 1


def _euler_maruyama(eq: Equation, t: Tensor, h: float, y: Tensor, dw: Tensor) -> Tensor:
    return y + h * eq.drift(t, y) + eq.noise.apply(eq.noise.term(t, y), dw)


def _milstein(eq: Equation, t: Tensor, h: float, y: Tensor, dw: Tensor) -> Tensor:
    correction = 0.5 * eq.noise.along_itself(t, y) * (dw**2 - abs(h))
    return _euler_maruyama(eq, t, h, y, dw) + correction


def _heun(eq: Equation, t: Tensor, h: float, y: Tensor, dw: Tensor) -> Tensor:
    f, g = eq.drift(t, y), eq.noise.term(t, y)
    guess = y + h * f + eq.noise.apply(g, dw)
    slope = 0.5 * h * (f + eq.drift(t + h, guess))
    return y + slope + 0.5 * eq.noise.apply(g + eq.noise.term(t + h, guess), dw)


def _midpoint(eq: Equation, t: Tensor, h: float, y: Tensor, dw: Tensor) -> Tensor:
    half = y + 0.5 * h * eq.drift(t, y) + 0.5 * eq.noise.apply(eq.noise.term(t, y), dw)
    middle = t + 0.5 * h
    return y + h * eq.drift(middle, half) + eq.noise.apply(eq.noise.term(middle, half), dw)


def _predictor_corrector(eq: Equation, t: Tensor, h: float, y: Tensor, dw: Tensor) -> Tensor:
    f, moved = eq.drift(t, y), eq.noise.apply(eq.noise.term(t, y), dw)
    guess = y + h * f + moved
    return y + 0.5 * h * (f + eq.drift(t + h, guess)) + moved


# Kloeden & Platen, 1992, chapters 10 and 15; the Heun and midpoint schemes converge to Stratonovich solutions.
STOCHASTIC = {
    method.name: method
    for method in (
        StochasticMethod("euler_maruyama", _euler_maruyama, "ito", 0.5, 1.0, 1.0),
        StochasticMethod("milstein", _milstein, "ito", 1.0, 1.0, 1.0, commutative=True),
        StochasticMethod("stochastic_heun", _heun, "stratonovich", 1.0, 1.0, 1.0, commutative=True, evaluations=2),
        StochasticMethod("stochastic_midpoint", _midpoint, "stratonovich", 1.0, 1.0, 1.0, True, 2),
        StochasticMethod("predictor_corrector", _predictor_corrector, "ito", 0.5, 1.0, 1.0, evaluations=2),
    )
}


@dataclass(frozen=True)
class StochasticSolution:
    """States (m, *shape) at the requested times t (m,), the path that drove them, and how it went."""

    t: Tensor
    y: Tensor
    path: BrownianPath
    statistics: Statistics

    @property
    def last(self) -> Tensor:
        """The state at the last time."""
        return self.y[-1]


def solve_sde(
    drift: Term,
    diffusion: Term,
    y0: Tensor,
    t: Any,
    *,
    step: float,
    method: str | StochasticMethod = "euler_maruyama",
    noise: str = "diagonal",
    sense: str = "ito",
    seed: int | None = None,
    path: BrownianPath | None = None,
) -> StochasticSolution:
    r"""A solution of a stochastic differential equation along one Brownian path.

    .. math:: dy = f(t, y)\, dt + g(t, y)\, dW \qquad \text{or} \qquad dy = f\, dt + g \circ dW

    drift, diffusion: f and g, called with a time () and a state. y0: (..., d). t: times, rising or falling; the
    steps between two of them are equal and at most ``step`` long.
    method: ``euler_maruyama``, ``milstein``, ``stochastic_heun``, ``stochastic_midpoint``,
    ``predictor_corrector``. noise: ``diagonal``, ``scalar`` or ``general`` (see ``Noise``). sense: ``ito`` or
    ``stratonovich``, that of the equation; a method of the other sense gets a converted drift.
    seed: decides the path, the same one when the step is halved. path: a path of one's own instead.
    Gradients flow through the steps.

    >>> zero = torch.zeros(1000, 1)
    >>> walk = solve_sde(lambda t, y: -y, lambda t, y: torch.ones_like(y), zero, [0.0, 5.0], step=0.1, seed=0)
    >>> bool((walk.last.var() - 0.5).abs() < 0.1)
    True
    """
    chosen = _method_of(method)
    if sense not in SENSES:
        raise InvalidInput(f"solve_sde: sense={sense!r}{nearest(str(sense), SENSES)}; use ito or stratonovich")
    times = _grid(t, step)
    if not (isinstance(y0, Tensor) and y0.is_floating_point() and y0.dim() >= 1):
        raise InvalidInput("solve_sde: the state must be a floating-point tensor (..., d)")
    kind = Noise(diffusion, noise)
    shape = kind.check(_tensor(times[0], y0), y0)
    if chosen.name == "milstein" and noise == "general":
        raise InvalidInput("solve_sde: milstein needs diagonal or scalar noise; use stochastic_heun or euler_maruyama")
    counts = [max(1, math.ceil(abs(b - a) / step - 1e-9)) for a, b in pairwise(times)]
    path = path or _path(times, counts, shape, y0, seed)
    if path.shape != shape:
        raise InvalidInput(f"solve_sde: the path has shape {path.shape}; {noise} noise of this state needs {shape}")
    equation = Equation(converted(drift, kind, sense, chosen.sense), kind)
    y, states = y0.contiguous(), [y0]
    for (begin, end), count in zip(pairwise(times), counts, strict=True):
        y = _cross(chosen, equation, path, (begin, end, count), y)
        if not all_finite(y):
            raise SolveError(f"solve_sde: the state is not finite between t={begin:.6g} and t={end:.6g}; shorten step")
        states.append(y)
    statistics = Statistics(sum(counts), 0, chosen.evaluations * sum(counts), "reached the last time")
    return StochasticSolution(
        torch.tensor(times, dtype=y0.dtype, device=y0.device), torch.stack(states), path, statistics
    )


def reversed_in_time(drift: Term, diffusion: Term, score: Term) -> tuple[Term, Term]:
    r"""The equation, for falling times, whose solutions have the same laws; g must not depend on the state.

    .. math:: dy = \big( f(t, y) - g(t)^2 \nabla \log p_t(y) \big) dt + g(t)\, d\bar W

    Anderson, 1982. score: ∇ log p_t(y), called with a time and a state. Returns drift and diffusion for
    ``solve_sde`` with times that fall.
    """
    return lambda t, y: drift(t, y) - diffusion(t, y) ** 2 * score(t, y), diffusion


def _cross(
    method: StochasticMethod, equation: Equation, path: BrownianPath, span: tuple[float, float, int], y: Tensor
) -> Tensor:
    """Equal steps from one requested time to the next."""
    begin, end, count = span
    h = (end - begin) / count
    before = path(begin)
    for i in range(count):
        after = path(end if i == count - 1 else begin + (i + 1) * h)
        y = method.advance(equation, _tensor(begin + i * h, y), h, y, after - before)
        before = after
    return y


def _path(times: list[float], counts: list[int], shape: tuple[int, ...], y: Tensor, seed: int | None) -> BrownianPath:
    """A path whose tree meets the steps where they are all equally long: cells are the odd part of their number."""
    total = sum(counts)
    return BrownianPath(
        times[0], times[-1], shape, seed=seed_of(seed), cells=total // (total & -total), dtype=y.dtype, device=y.device
    )


def _method_of(method: str | StochasticMethod) -> StochasticMethod:
    if isinstance(method, StochasticMethod):
        return method
    if method not in STOCHASTIC:
        hint = nearest(str(method), STOCHASTIC)
        raise InvalidInput(f"solve_sde: method {method!r} is unknown{hint}; there are {', '.join(STOCHASTIC)}")
    return STOCHASTIC[method]


def _grid(t: Any, step: float) -> list[float]:
    times: list[float] = torch.as_tensor(t, dtype=torch.float64).reshape(-1).tolist()
    gaps = [b - a for a, b in pairwise(times)]
    if not gaps or not (all(gap > 0 for gap in gaps) or all(gap < 0 for gap in gaps)):
        raise InvalidInput("solve_sde: give at least two times that rise or fall strictly")
    if not (math.isfinite(step) and step > 0):
        raise InvalidInput(f"solve_sde: step={step}; the length of a step must be positive")
    return times


def _tensor(t: float, y: Tensor) -> Tensor:
    return torch.full((), t, dtype=y.dtype, device=y.device)
