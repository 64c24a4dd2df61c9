"""Backtracking: what it accepts, how fast it shortens, and that it ends."""

from __future__ import annotations

import math

import pytest

from benthic.optim.linesearch import Search, backtrack

pytestmark = pytest.mark.spec("F-02")


def test_the_next_trial_minimizes_the_parabola_through_what_is_known():
    # f(t) = (t - 0.3)^2 has f(0) = 0.09, f'(0) = -0.6; interpolation finds its minimum in one go
    search = Search(value=0.09, slope=-0.6)
    assert not search.accepts(0.49)
    assert search.shorter(0.49).step == pytest.approx(0.3)


def test_an_accepted_step_lowers_the_objective_by_the_promised_part():
    def wall(t):
        return math.exp(20 * t) - 40 * t

    step = backtrack(wall, value=1.0, slope=-20.0)
    assert step is not None
    assert wall(step) <= 1.0 - 1e-4 * step * 20.0


def test_infinite_and_undefined_trials_are_shortened():
    step = backtrack(lambda t: -math.log(0.2 - t) if t < 0.15 else math.inf, value=-math.log(0.2), slope=-1.0)
    assert step is None  # the objective rises along this ray
    step = backtrack(lambda t: math.nan if t > 0.5 else -t, value=0.0, slope=-1.0)
    assert step == pytest.approx(0.1)


def test_the_slope_decides_where_values_drown_in_rounding():
    search = Search(value=1.0, slope=-1e-20, noise=1e-12)
    assert search.accepts(1.0 + 1e-15, slope=-1e-21)
    assert not search.accepts(1.0 + 1e-15, slope=1e-19)
    assert not search.accepts(1.0 + 1e-9, slope=-1e-21)
