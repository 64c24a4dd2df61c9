"""The strong-Wolfe search: both conditions on hard functions, few trials, and many rays as one by one."""

from __future__ import annotations

import math

import pytest
import torch

from benthic.base.errors import InvalidInput
from benthic.optim import WolfeRows, strong_wolfe

pytestmark = pytest.mark.spec("D-02")


def fraction(t, b=2.0):
    return -t / (t * t + b), (t * t - b) / (t * t + b) ** 2


def quintic(t, b=0.004):
    return (t + b) ** 5 - 2 * (t + b) ** 4, 5 * (t + b) ** 4 - 8 * (t + b) ** 3


def wavy(t, b=0.01, waves=39):
    if t <= 1 - b:
        value, slope = 1 - t, -1.0
    elif t >= 1 + b:
        value, slope = t - 1, 1.0
    else:
        value, slope = (t - 1) ** 2 / (2 * b) + b / 2, (t - 1) / b
    angle = waves * math.pi * t / 2
    return value + 2 * (1 - b) / (waves * math.pi) * math.sin(angle), slope + (1 - b) * math.cos(angle)


def yanai(b1, b2):
    def gap(b):
        return math.sqrt(1 + b * b) - b

    def function(t):
        first, second = math.hypot(1 - t, b2), math.hypot(t, b1)
        return gap(b1) * first + gap(b2) * second, gap(b1) * (t - 1) / first + gap(b2) * t / second

    return function


# Moré & Thuente, 1994, tables 1 to 6: function, c1, c2
HARD = [
    (fraction, 1e-3, 0.1),
    (quintic, 0.0999, 0.1),
    (wavy, 0.0999, 0.1),
    (yanai(0.001, 0.001), 0.000999, 0.001),
    (yanai(0.01, 0.001), 0.000999, 0.001),
    (yanai(0.001, 0.01), 0.000999, 0.001),
]


@pytest.mark.parametrize("step", [1e-3, 1e-1, 1e1, 1e3])
@pytest.mark.parametrize(("function", "sufficient", "curvature"), HARD)
def test_the_hard_functions_of_more_and_thuente(function, sufficient, curvature, step):
    value, slope = function(0.0)
    found = strong_wolfe(function, value, slope, step=step, sufficient=sufficient, curvature=curvature)
    assert found.satisfied
    at, bend = function(found.step)
    assert at <= value + sufficient * found.step * slope
    assert abs(bend) <= curvature * abs(slope)
    assert found.evaluations <= 17  # the largest count in their tables is 16


@pytest.mark.parametrize("curvature", [0.9, 0.1, 1e-3])
@pytest.mark.parametrize("seed", range(15))
def test_both_conditions_hold_on_random_functions(seed, curvature):
    g = torch.Generator().manual_seed(seed)
    a, w, p = (torch.rand(4, generator=g, dtype=torch.float64).tolist() for _ in range(3))
    bowl = 0.1 + a[0]

    def function(t):
        waves = sum(ai * math.sin(6 * wi * t + 6 * pi) for ai, wi, pi in zip(a, w, p, strict=True))
        bends = sum(6 * ai * wi * math.cos(6 * wi * t + 6 * pi) for ai, wi, pi in zip(a, w, p, strict=True))
        return waves + bowl * (t - 3) ** 2, bends + 2 * bowl * (t - 3)

    value, slope = function(0.0)
    if slope > 0:
        flipped = function

        def function(t):
            found, bend = flipped(-t)
            return found, -bend

        slope = -slope
    found = strong_wolfe(function, value, slope, step=10.0 ** (seed % 5 - 2), curvature=curvature)
    at, bend = function(found.step)
    assert found.satisfied and at <= value + 1e-4 * found.step * slope and abs(bend) <= curvature * abs(slope)


def test_a_wall_that_is_not_finite_is_approached_from_inside():
    def barrier(t):
        return (-math.log(1 - t) - 3 * t, 1 / (1 - t) - 3) if t < 1 else (math.nan, math.nan)

    found = strong_wolfe(barrier, *barrier(0.0), step=50.0, curvature=0.1)
    assert found.satisfied and found.step == pytest.approx(2 / 3, abs=0.1)


def test_a_ray_that_falls_forever_ends_at_the_longest_step():
    found = strong_wolfe(lambda t: (-t, -1.0), 0.0, -1.0, longest=1e6)
    assert found.step == 1e6 and not found.satisfied


def test_a_ray_that_only_rises_gives_no_step():
    found = strong_wolfe(lambda t: (t, 1.0), 0.0, -1.0)  # the slope at 0 is a lie
    assert found.step == 0.0 and not found.satisfied and found.evaluations <= 30


@pytest.mark.parametrize(("function", "sufficient", "curvature"), HARD)
def test_many_rays_make_the_trials_of_each_alone(function, sufficient, curvature):
    steps = torch.logspace(-3, 3, 25, dtype=torch.float64)
    value, slope = function(0.0)
    alone = [
        strong_wolfe(function, value, slope, step=t, sufficient=sufficient, curvature=curvature) for t in steps.tolist()
    ]
    rows = torch.arange(len(steps))
    search = WolfeRows(steps, sufficient=sufficient, curvature=curvature, trials=30)
    start = torch.full_like(steps, value)
    search.start(rows, start, torch.full_like(steps, slope), steps, torch.zeros_like(steps))
    found, evaluations = torch.zeros_like(steps), torch.zeros(len(steps), dtype=torch.long)
    left = rows
    while len(left):
        at = torch.tensor([function(t) for t in search.step.tolist()], dtype=torch.float64)
        good = search.accepts(*at.T)[left]
        evaluations[left] += 1
        found[left[good]] = search.step[left[good]]
        left = left[~good]
        ended = search.next(left, at[left, 0], at[left, 1])
        left = left[~ended]
    assert evaluations.tolist() == [step.evaluations for step in alone]
    # the same formulas in the same precision; rounding grows a little in the interpolation
    torch.testing.assert_close(found, torch.tensor([s.step for s in alone], dtype=torch.float64), rtol=1e-6, atol=0)


def test_a_direction_that_does_not_fall_is_refused():
    with pytest.raises(InvalidInput, match="strong_wolfe: the slope at 0 is 1"):
        strong_wolfe(lambda t: (t, 1.0), 0.0, 1.0)
    with pytest.raises(InvalidInput, match="strong_wolfe: sufficient=0.5 and curvature=0.1"):
        strong_wolfe(lambda t: (-t, -1.0), 0.0, -1.0, sufficient=0.5, curvature=0.1)
