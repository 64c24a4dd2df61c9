"""Strong-Wolfe line search of Moré & Thuente as a value: each judgement of a trial gives the next one."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from benthic.base.errors import InvalidInput


class Trial(NamedTuple):
    """A step along the ray, the function there and its slope."""

    step: float
    value: float
    slope: float


ROUNDING = 0.01  # times √eps and the value: where values differ by less, the slopes are asked


@dataclass(frozen=True, slots=True)
class Wolfe:
    r"""A ray from a point where the function is ``value`` and falls with ``slope`` < 0; step: the trial t.

    .. math::

        f(x + t d) \le f(x) + c_1 t \langle \nabla f(x), d \rangle, \qquad
        |\langle \nabla f(x + t d), d \rangle| \le c_2 |\langle \nabla f(x), d \rangle|

    Moré & Thuente, 1994; trials by their safeguarded cubic and quadratic interpolation. A trial that is not
    finite becomes the far end of the interval. Where values differ by no more than ``noise``, rounding hides the
    decrease, and the mean of both slopes times the step stands for it, which makes the first condition the
    approximate one of Hager & Zhang (2005).

    sufficient: c1. curvature: c2. longest: the longest step tried. trials: how many at most.

    >>> search = Wolfe(value=1.0, slope=-2.0, step=3.0)  # (1 - t)² at 0
    >>> search.accepts(4.0, 4.0)
    False
    >>> search.next(4.0, 4.0).step
    1.0
    """

    value: float
    slope: float
    step: float = 1.0
    noise: float = 0.0
    sufficient: float = 1e-4
    curvature: float = 0.9
    longest: float = 1e20
    trials: int = 20
    best: Trial | None = None
    other: Trial | None = None
    bracketed: bool = False
    first_stage: bool = True
    width: float = math.inf
    width_before: float = math.inf
    last: bool = False

    def accepts(self, value: float, slope: float) -> bool:
        """Whether both conditions hold at the trial (the first alone at the last trial, or at the longest)."""
        if not self._low(self._seen(value, slope)):
            return False
        if abs(slope) <= -self.curvature * self.slope:
            return True
        ended = self.last or (self.step >= self.longest and slope <= self.sufficient * self.slope)
        return ended and value < self.value

    def next(self, value: float, slope: float) -> Wolfe:
        """The search with its next trial, after ``value`` and ``slope`` were found at this one."""
        best = self.best or Trial(0.0, self.value, self.slope)
        other = self.other or best
        if not (math.isfinite(value) and math.isfinite(slope)):
            far = Trial(self.step, math.inf, math.inf)
            nearer = best.step + 0.25 * (self.step - best.step)
            return self._moved(best, far, True, self.first_stage, nearer)
        value = self._seen(value, slope)
        trial = Trial(self.step, value, slope)
        first_stage = self.first_stage and not (self._low(value) and slope >= 0)
        low, high = self._limits(best, other)
        tilt = self.sufficient * self.slope if first_stage and value <= best.value and not self._low(value) else 0.0
        points = (_tilted(best, tilt), _tilted(other, tilt), _tilted(trial, tilt))
        step, bracketed = next_step(*points, self.bracketed, low, min(high, self.longest))
        best, other = narrowed(best, other, trial, points[2].value > points[0].value, points)
        return self._moved(best, other, bracketed, first_stage, step)

    @property
    def exhausted(self) -> bool:
        """Whether no trial is left: no longer any point between the ends, or too many trials."""
        return self.trials <= 0 or self.step <= 0.0

    def _seen(self, value: float, slope: float) -> float:
        if abs(value - self.value) <= self.noise:
            return self.value + 0.5 * self.step * (self.slope + slope)
        return value

    def _low(self, value: float) -> bool:
        return value <= self.value + self.sufficient * self.step * self.slope

    def _limits(self, best: Trial, other: Trial) -> tuple[float, float]:
        if self.bracketed:
            return min(best.step, other.step), max(best.step, other.step)
        if self.best is None:
            return 0.0, 5.0 * self.step
        return self.step + 1.1 * (self.step - best.step), self.step + 4.0 * (self.step - best.step)

    def _moved(self, best: Trial, other: Trial, bracketed: bool, first_stage: bool, step: float) -> Wolfe:
        width, before, last = self.width, self.width_before, False
        if bracketed:
            length = abs(other.step - best.step)
            if length >= 0.66 * before:
                step = best.step + 0.5 * (other.step - best.step)
            width, before = length, width
            low, high = min(best.step, other.step), max(best.step, other.step)
            last = not low < step < high or high - low <= 1e-14 * high
        step = min(max(step, 0.0), self.longest)
        if last or self.trials <= 2:
            step, last = best.step, True
        trials = 0 if self.last else self.trials - 1
        constants = (self.noise, self.sufficient, self.curvature, self.longest)
        interval = (best, other, bracketed, first_stage, width, before, last)
        return Wolfe(self.value, self.slope, step, *constants, trials, *interval)


def _tilted(point: Trial, tilt: float) -> Trial:
    """The point on the function less its promised decrease (the auxiliary function of Moré & Thuente)."""
    if not tilt:
        return point
    return Trial(point.step, point.value - point.step * tilt, point.slope - tilt)


def _cubic(a: Trial, b: Trial) -> tuple[float, float]:
    """Minimizer of the cubic through two trials, and the root of its discriminant (0: it has none)."""
    theta = 3.0 * (a.value - b.value) / (b.step - a.step) + a.slope + b.slope
    scale = max(abs(theta), abs(a.slope), abs(b.slope))
    inside = (theta / scale) ** 2 - (a.slope / scale) * (b.slope / scale) if scale > 0 else 0.0
    gamma = math.copysign(scale * math.sqrt(max(inside, 0.0)), b.step - a.step)
    q = 2.0 * gamma - a.slope + b.slope
    ratio = (gamma - a.slope + theta) / q if q else 1.0
    return a.step + ratio * (b.step - a.step), gamma


def next_step(best: Trial, other: Trial, trial: Trial, bracketed: bool, low: float, high: float) -> tuple[float, bool]:
    """The next trial step and whether a minimum is now bracketed (Moré & Thuente, 1994, section 4).

    best, other: ends of the interval, the first with the lower value. low, high: limits of the step.
    """
    t = trial.step
    if trial.value > best.value:
        cubic, _ = _cubic(trial, best)
        rise = (best.value - trial.value) / (t - best.step) + best.slope
        quadratic = best.step + 0.5 * best.slope / rise * (t - best.step)
        near = abs(cubic - best.step) < abs(quadratic - best.step)
        return (cubic if near else 0.5 * (cubic + quadratic)), True
    if trial.slope * best.slope < 0:
        cubic, _ = _cubic(trial, best)
        secant = _secant(trial, best)
        return (cubic if abs(cubic - t) > abs(secant - t) else secant), True
    if abs(trial.slope) < abs(best.slope):
        return _flatter(best, other, trial, bracketed, low, high), bracketed
    if bracketed:
        return (_cubic(trial, other)[0] if math.isfinite(other.value) else 0.5 * (t + other.step)), True
    return (high if t > best.step else low), False


def _secant(a: Trial, b: Trial) -> float:
    return a.step + a.slope / (a.slope - b.slope) * (b.step - a.step)


def _flatter(best: Trial, other: Trial, trial: Trial, bracketed: bool, low: float, high: float) -> float:
    """The third case: lower, of the same sign of slope, and flatter."""
    t = trial.step
    cubic, gamma = _cubic(trial, best)
    ahead = (cubic - t) * (t - best.step) > 0
    if not (ahead and gamma):
        cubic = high if t > best.step else low
    secant = _secant(trial, best)
    closer = abs(cubic - t) < abs(secant - t)
    if not bracketed:
        return min(max(secant if closer else cubic, low), high)
    step, limit = (cubic if closer else secant), t + 0.66 * (other.step - t)
    return min(step, limit) if t > best.step else max(step, limit)


def narrowed(best: Trial, other: Trial, trial: Trial, higher: bool, tilted: tuple[Trial, ...]) -> tuple[Trial, Trial]:
    """The interval after the trial: (best, other)."""
    if higher:
        return best, trial
    return trial, (best if tilted[2].slope * tilted[0].slope < 0 else other)


class Step(NamedTuple):
    """A step found along a ray: where, the value and slope there, trials made, and whether both conditions hold."""

    step: float
    value: float
    slope: float
    evaluations: int
    satisfied: bool


def strong_wolfe(
    function: Callable[[float], tuple[float, float]],
    value: float,
    slope: float,
    *,
    step: float = 1.0,
    sufficient: float = 1e-4,
    curvature: float = 0.9,
    trials: int = 30,
    longest: float = 1e20,
) -> Step:
    """A step that satisfies the strong Wolfe conditions, or the best one found.

    function: maps a step to the value and the slope there. value, slope: at step 0; the slope must be negative.

    >>> strong_wolfe(lambda t: ((1 - t) ** 2, 2 * t - 2), value=1.0, slope=-2.0, step=3.0)
    Step(step=1.0, value=0.0, slope=0.0, evaluations=2, satisfied=True)
    """
    if not slope < 0:
        raise InvalidInput(
            f"strong_wolfe: the slope at 0 is {slope:g}; it must be negative, so turn the direction around"
        )
    if not 0 < sufficient < curvature < 1:
        raise InvalidInput(
            f"strong_wolfe: sufficient={sufficient:g} and curvature={curvature:g}; they must rise from 0 to 1"
        )
    search = Wolfe(value, slope, step, sufficient=sufficient, curvature=curvature, longest=longest, trials=trials)
    evaluations, best = 0, Step(0.0, value, slope, 0, False)
    while not search.exhausted:
        found, bend = function(search.step)
        evaluations += 1
        low = found <= value + sufficient * search.step * slope
        good = low and abs(bend) <= -curvature * slope
        if good or (low and found < best.value):
            best = Step(search.step, found, bend, evaluations, good)
        if search.accepts(found, bend):
            break
        search = search.next(found, bend)
    return best._replace(evaluations=evaluations)
