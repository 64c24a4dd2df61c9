"""Backtracking line search as a value: each judgement of a trial gives the next one.

A search that owns no function fits everywhere: a plain loop calls its objective, a learner that sees data
pass by pass judges the trial of the last pass and proposes the next.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

_SHORTEST = 2.0**-40


@dataclass(frozen=True)
class Search:
    r"""A ray from a point where the objective is ``value`` and falls with ``slope`` < 0.

    .. math:: f(x + t d) \le f(x) + c_1 t \langle \nabla f(x), d \rangle

    Armijo, 1966; trial steps by safeguarded quadratic interpolation (Nocedal & Wright, 2006, section 3.5).
    For a composite objective the slope is the decrease its model predicts (Lee, Sun & Saunders, 2014).

    Where values differ by no more than ``noise``, the slope at the trial decides, which rounding blurs less
    (approximate Wolfe condition of Hager & Zhang, 2005). step: the trial t.

    >>> search = Search(value=1.0, slope=-4.0)
    >>> search.accepts(3.0)
    False
    >>> round(search.shorter(3.0).step, 3)
    0.333
    """

    value: float
    slope: float
    step: float = 1.0
    noise: float = 0.0
    sufficient: float = 1e-4

    def accepts(self, value: float, slope: float | None = None) -> bool:
        """Whether the objective at the trial is low enough; not a number never is.

        slope: of the objective along the ray at the trial, where known.
        """
        if value <= self.value + self.sufficient * self.step * self.slope:
            return True
        if not abs(value - self.value) <= self.noise:
            return False
        return slope is None or slope <= (2 * self.sufficient - 1) * self.slope

    def shorter(self, value: float) -> Search:
        """The search with its next trial, after ``value`` was found at this one."""
        factor = 0.1
        if math.isfinite(value):
            # minimum of the parabola through f(0), f'(0) and f(step)
            bend = value - self.value - self.step * self.slope
            factor = -0.5 * self.step * self.slope / bend if bend > 0 else 0.5
        return replace(self, step=self.step * min(max(factor, 0.1), 0.5))

    @property
    def exhausted(self) -> bool:
        """Whether the step is too short to matter."""
        return self.step < _SHORTEST


def backtrack(function: Callable[[float], float], value: float, slope: float, step: float = 1.0) -> float | None:
    """The first step that the search accepts for ``function`` of the step; None when there is none.

    >>> backtrack(lambda t: (1 - t) ** 2, value=1.0, slope=-2.0, step=3.0)
    1.0
    """
    search = Search(value, slope, step)
    while not search.exhausted:
        found = function(search.step)
        if search.accepts(found):
            return search.step
        search = search.shorter(found)
    return None
