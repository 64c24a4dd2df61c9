"""Learning-rate schedules as pure functions of progress.

A schedule maps ``(step, total)`` to a factor of the base rate; it has no state, so a resumed run needs
nothing but the step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from benthic.base.errors import InvalidInput, nearest
from benthic.base.settings import is_whole

Schedule = Callable[[int, int], float]


def constant(step: int, total: int) -> float:
    """The base rate throughout."""
    return 1.0


def linear(step: int, total: int) -> float:
    """Straight down to zero."""
    return 1.0 - step / max(total, 1)


def cosine(step: int, total: int) -> float:
    """Half a cosine down to zero (Loshchilov & Hutter, 2017).

    >>> cosine(0, 10), round(cosine(5, 10), 3)
    (1.0, 0.5)
    """
    return 0.5 * (1.0 + math.cos(math.pi * min(step, total) / max(total, 1)))


_NAMED: dict[str, Schedule] = {"constant": constant, "linear": linear, "cosine": cosine}


def with_warmup(schedule: Schedule, warmup: float, floor: float = 0.0) -> Schedule:
    """Rise linearly over ``warmup`` (a fraction of the run, or a number of steps above 1), then follow.

    floor: the factor never falls below this after the warm-up.
    """

    def factor(step: int, total: int) -> float:
        rise = round(warmup * total) if warmup <= 1 else int(warmup)
        if step < rise:
            return (step + 1) / rise
        return floor + (1.0 - floor) * schedule(step - rise, max(total - rise, 1))

    return factor


def in_steps(parts: int, factor: float) -> Schedule:
    """The run in so many equal parts, in each of which the rate is ``factor`` times that of the one before.

    >>> [round(in_steps(2, 0.5)(step, 6), 3) for step in range(6)]
    [1.0, 1.0, 1.0, 0.5, 0.5, 0.5]
    """

    def rate(step: int, total: int) -> float:
        return float(factor ** (min(step, total - 1) * parts // max(total, 1)))

    return rate


def _steps(options: dict[str, Any]) -> Schedule:
    parts, factor = options.pop("parts", 10), options.pop("factor", 0.5)
    if options or not is_whole(parts, 1) or not 0 < factor <= 1:
        raise InvalidInput(
            "schedule 'steps' takes parts, a whole number of at least 1, and factor, between 0 and 1: "
            '{"name": "steps", "parts": 30, "factor": 0.9}'
        )
    return in_steps(parts, factor)


def schedule_of(setting: str | Mapping[str, Any] | Schedule | None) -> Schedule:
    """A schedule from ``"cosine"``, ``{"name": "cosine", "warmup": 0.05, "floor": 0.1}`` or a function.

    ``{"name": "steps", "parts": 30, "factor": 0.9}`` lowers the rate thirty times, see ``in_steps``.

    >>> schedule_of({"name": "constant", "warmup": 4})(0, 100)
    0.25
    """
    if setting is None:
        return constant
    if callable(setting):
        return setting
    options = {"name": setting} if isinstance(setting, str) else dict(setting)
    name = options.pop("name", "constant")
    if name == "steps":
        return _steps(options)
    warmup, floor = options.pop("warmup", 0.0), options.pop("floor", 0.0)
    if name == "warmup_cosine":
        name, warmup = "cosine", warmup or 0.05
    if name not in _NAMED or options:
        wrong = name if name not in _NAMED else next(iter(options))
        raise InvalidInput(
            f"schedule {wrong!r} is unknown{nearest(wrong, _NAMED)}; use {', '.join(_NAMED)}, steps, warmup_cosine or "
            "a dict with name, warmup and floor"
        )
    chosen = _NAMED[name]
    return chosen if name == "constant" and not warmup else with_warmup(chosen, warmup, floor)
