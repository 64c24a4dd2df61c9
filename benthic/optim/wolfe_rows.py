"""The strong-Wolfe search of ``wolfe`` for many rays at once: every row has its own interval and its own trial."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Trials(NamedTuple):
    """Steps along the rays, the function there and its slopes, each (B,)."""

    step: Tensor
    value: Tensor
    slope: Tensor


class WolfeRows:
    """Searches along B rays, moved on by ``next``; the rules are those of ``Wolfe``.

    numbers: (13, B), one row each of the names below. flags: (4, B).
    """

    VALUE, SLOPE, STEP, NOISE, BEST, OTHER, WIDTH, BEFORE, LEFT = 0, 1, 2, 3, 4, 7, 10, 11, 12
    BRACKETED, SECOND, LAST, TRIED = 0, 1, 2, 3

    def __init__(
        self, like: Tensor, sufficient: float = 1e-4, curvature: float = 0.9, longest: float = 1e20, trials: int = 20
    ) -> None:
        self.sufficient, self.curvature, self.longest, self.trials = sufficient, curvature, longest, trials
        self.numbers = like.new_zeros(13, len(like))
        self.flags = torch.zeros(4, len(like), dtype=torch.bool, device=like.device)

    @property
    def step(self) -> Tensor:
        """The present trial of every ray."""
        return self.numbers[self.STEP]

    def start(self, rows: Tensor, value: Tensor, slope: Tensor, step: Tensor, noise: Tensor) -> None:
        """Begin anew on some rows, from values and slopes there."""
        zero, far = torch.zeros_like(value), torch.full_like(value, torch.inf)
        left = torch.full_like(value, self.trials)
        ends = (zero, value, slope) * 2
        self.numbers[:, rows] = torch.stack((value, slope, step, noise, *ends, far, far, left))
        self.flags[:, rows] = False

    def keep(self, rows: Tensor) -> None:
        """Go on with these rows alone."""
        self.numbers, self.flags = self.numbers[:, rows], self.flags[:, rows]

    def accepts(self, value: Tensor, slope: Tensor) -> Tensor:
        """Which rows satisfy both conditions at their trial (B,)."""
        start, fall, step, noise = self.numbers[:4]
        low = _seen(value, slope, start, fall, step, noise) <= start + self.sufficient * step * fall
        flat = slope.abs() <= -self.curvature * fall
        ended = self.flags[self.LAST] | ((step >= self.longest) & (slope <= self.sufficient * fall))
        return low & (flat | (ended & (value < start)))

    def next(self, rows: Tensor, value: Tensor, slope: Tensor) -> Tensor:
        """Move the trials of some rows on; which of them have none left (a mask over ``rows``)."""
        numbers, flags = self.numbers[:, rows], self.flags[:, rows]
        start, fall, t, noise = numbers[:4]
        value = _seen(value, slope, start, fall, t, noise)
        best, other = Trials(*numbers[4:7]), Trials(*numbers[7:10])
        bracketed, second, last, tried = flags
        low = value <= start + self.sufficient * t * fall
        second = second | (low & (slope >= 0))
        tilt = torch.where(~second & (value <= best.value) & ~low, self.sufficient * fall, 0.0)
        trial = Trials(t, value, slope)
        ends = tuple(_tilted(point, tilt) for point in (best, other, trial))
        limits = self._limits(t, best, other, bracketed, tried)
        step, bracketed = next_steps(*ends, bracketed, *limits)
        finite = value.isfinite() & slope.isfinite()
        step = torch.where(finite, step, best.step + 0.25 * (t - best.step))
        bracketed = bracketed | ~finite
        higher = (ends[2].value > ends[0].value) | ~finite
        turned = ends[2].slope * ends[0].slope < 0
        value, slope = torch.where(finite, value, torch.inf), torch.where(finite, slope, torch.inf)
        other = _choose(higher, Trials(t, value, slope), _choose(turned, best, other))
        best = _choose(higher, best, Trials(t, value, slope))
        return self._store(rows, numbers, last, best, other, bracketed, second, step)

    def _limits(
        self, t: Tensor, best: Trials, other: Trials, bracketed: Tensor, tried: Tensor
    ) -> tuple[Tensor, Tensor]:
        ahead = t - best.step
        low = torch.where(tried, t + 1.1 * ahead, 0.0)
        high = torch.where(tried, t + 4.0 * ahead, 5.0 * t)
        low = torch.where(bracketed, torch.minimum(best.step, other.step), low)
        high = torch.where(bracketed, torch.maximum(best.step, other.step), high)
        return low, high.clamp(max=self.longest)

    def _store(
        self,
        rows: Tensor,
        numbers: Tensor,
        last: Tensor,
        best: Trials,
        other: Trials,
        bracketed: Tensor,
        second: Tensor,
        step: Tensor,
    ) -> Tensor:
        width, before, left = numbers[self.WIDTH :]
        length = (other.step - best.step).abs()
        step = torch.where(bracketed & (length >= 0.66 * before), best.step + 0.5 * (other.step - best.step), step)
        before = torch.where(bracketed, width, before)
        width = torch.where(bracketed, length, width)
        low, high = torch.minimum(best.step, other.step), torch.maximum(best.step, other.step)
        closed = bracketed & (~((low < step) & (step < high)) | (high - low <= 1e-14 * high))
        ending = closed | (left <= 2)
        step = torch.where(ending, best.step, step.clamp(0.0, self.longest))
        left = torch.where(last, 0.0, left - 1)
        self.numbers[2, rows] = step
        self.numbers[4:, rows] = torch.stack((*best, *other, width, before, left))
        self.flags[:, rows] = torch.stack((bracketed, second, ending, torch.ones_like(ending)))
        return (left <= 0) | (step <= 0)


def _seen(value: Tensor, slope: Tensor, start: Tensor, fall: Tensor, step: Tensor, noise: Tensor) -> Tensor:
    """Values, or where rounding hides the difference from the start, what the slopes tell."""
    return torch.where((value - start).abs() <= noise, start + 0.5 * step * (fall + slope), value)


def _choose(mask: Tensor, first: Trials, second: Trials) -> Trials:
    return Trials(*(torch.where(mask, a, b) for a, b in zip(first, second, strict=True)))


def _tilted(point: Trials, tilt: Tensor) -> Trials:
    return Trials(point.step, point.value - point.step * tilt, point.slope - tilt)


def _cubic(a: Trials, b: Trials) -> tuple[Tensor, Tensor]:
    """Minimizers of the cubics through pairs of trials, and the roots of their discriminants."""
    theta = 3.0 * (a.value - b.value) / (b.step - a.step) + a.slope + b.slope
    scale = torch.maximum(torch.maximum(theta.abs(), a.slope.abs()), b.slope.abs())
    inside = (theta / scale) ** 2 - (a.slope / scale) * (b.slope / scale)
    gamma = torch.copysign(scale * inside.clamp(min=0.0).sqrt(), b.step - a.step)
    q = 2.0 * gamma - a.slope + b.slope
    ratio = torch.where(q == 0, 1.0, (gamma - a.slope + theta) / q)
    return a.step + ratio * (b.step - a.step), gamma


def next_steps(
    best: Trials, other: Trials, trial: Trials, bracketed: Tensor, low: Tensor, high: Tensor
) -> tuple[Tensor, Tensor]:
    """The next trial of every row and whether a minimum is bracketed: ``wolfe.next_step`` by masks."""
    t = trial.step
    cubic, gamma = _cubic(trial, best)
    secant = t + trial.slope / (trial.slope - best.slope) * (best.step - t)
    rise = (best.value - trial.value) / (t - best.step) + best.slope
    quadratic = best.step + 0.5 * best.slope / rise * (t - best.step)
    near = (cubic - best.step).abs() < (quadratic - best.step).abs()
    higher = torch.where(near, cubic, 0.5 * (cubic + quadratic))
    turned = torch.where((cubic - t).abs() > (secant - t).abs(), cubic, secant)
    flatter = _flatter(best, other, t, cubic, gamma, secant, bracketed, low, high)
    inside = torch.where(other.value.isfinite(), _cubic(trial, other)[0], 0.5 * (t + other.step))
    steeper = torch.where(bracketed, inside, torch.where(t > best.step, high, low))
    is_higher = trial.value > best.value
    is_turned = trial.slope * best.slope < 0
    step = torch.where(trial.slope.abs() < best.slope.abs(), flatter, steeper)
    step = torch.where(is_higher, higher, torch.where(is_turned, turned, step))
    return step, bracketed | is_higher | is_turned


def _flatter(
    best: Trials,
    other: Trials,
    t: Tensor,
    cubic: Tensor,
    gamma: Tensor,
    secant: Tensor,
    bracketed: Tensor,
    low: Tensor,
    high: Tensor,
) -> Tensor:
    onwards = t > best.step
    ahead = ((cubic - t) * (t - best.step) > 0) & (gamma != 0)
    cubic = torch.where(ahead, cubic, torch.where(onwards, high, low))
    closer = (cubic - t).abs() < (secant - t).abs()
    free = torch.minimum(torch.maximum(torch.where(closer, secant, cubic), low), high)
    step, limit = torch.where(closer, cubic, secant), t + 0.66 * (other.step - t)
    held = torch.where(onwards, torch.minimum(step, limit), torch.maximum(step, limit))
    return torch.where(bracketed, held, free)
