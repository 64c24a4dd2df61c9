"""The DETEST problems: solutions are at most twice as wrong as SciPy's at the same tolerances, problem by problem."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from benchmarks.detest import errors, ours, ratios
from benchmarks.problems import NON_STIFF, STIFF, by_scipy, reference

pytestmark = pytest.mark.spec("E-01")

# The states at time 20 as Enright & Pryce (1987) print them, of problems without a closed form.
PUBLISHED = {
    "A5": [-7.887826688964196e-01],
    "B1": [6.761876008576667e-01, 1.860816099640036e-01],
    "B4": [9.826950928005993e-01, 2.198447081694832e00, 9.129452507276399e-01],
    "C5": [-4.792730224323733, -2.420550725448973, -9.212509306014886e-01],
    "E2": [2.008149762174948, -4.250887527320057e-02],
    "E3": [-1.004178858647128e-01, 2.411400132095954e-01],
}
# The same for stiff problems, of Hairer & Wanner (1996).
PUBLISHED_STIFF = {
    "van der Pol 1000": [1.706167732170483, -8.928097010247975e-04],
    "HIRES": [
        7.371312573325668e-04,
        1.442485726316185e-04,
        5.888729740967575e-05,
        1.175651343283149e-03,
        2.386356198831331e-03,
        6.238968252742796e-03,
        2.849998395185769e-03,
        2.850001604814231e-03,
    ],
}


def geometric_mean(values):
    return np.exp(np.log(values).mean())


def test_there_are_25_problems():
    assert list(NON_STIFF) == [f"{letter}{number}" for letter in "ABCDE" for number in range(1, 6)]


@pytest.mark.parametrize("name", [name for name, problem in NON_STIFF.items() if problem.exact is not None])
def test_closed_forms_solve_their_equations(name):
    problem = NON_STIFF[name]
    by_steps = by_scipy(problem, "DOP853", 1e-13, problem.times())
    # errors of the steps grow along orbits: at most some hundred times the tolerance
    np.testing.assert_allclose(reference(problem), by_steps, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", PUBLISHED)
def test_references_end_where_the_literature_says(name):
    wanted = np.array(PUBLISHED[name])
    np.testing.assert_allclose(reference(NON_STIFF[name])[-1, : len(wanted)], wanted, rtol=0, atol=1e-11)


@cache
def found(name):
    """Ratios at every tolerance from 1e-3 to 1e-9."""
    return ratios(NON_STIFF[name], "dormand_prince")


@pytest.mark.parametrize("name", NON_STIFF)
def test_errors_are_at_most_twice_those_of_scipy(name):
    # A single error may cross zero at one tolerance, where its ratio says nothing; the mean over tolerances does.
    assert geometric_mean(found(name)["end"]) <= 2
    assert geometric_mean(found(name)["largest"]) <= 2


@pytest.mark.slow
def test_most_single_runs_keep_the_limit_too():
    for key in ("end", "largest"):
        grid = np.array([found(name)[key] for name in NON_STIFF])
        assert np.median(grid) <= 1
        assert (grid > 2).mean() <= 0.1


@pytest.mark.parametrize("name", PUBLISHED_STIFF)
def test_stiff_errors_are_at_most_twice_those_of_scipy(name):
    problem, wanted = STIFF[name], np.array(PUBLISHED_STIFF[name])
    times = problem.times(2)
    mine = ours(problem, "radau", 1e-6, times)[-1]
    theirs = by_scipy(problem, "Radau", 1e-6, times)[-1]
    assert np.abs(mine - wanted).max() <= 2 * np.abs(theirs - wanted).max()


@pytest.mark.slow
def test_robertson_is_at_most_twice_as_wrong_as_by_scipy():
    problem = STIFF["Robertson"]
    mine = errors(problem, ours(problem, "radau", 1e-6, problem.times()))
    theirs = errors(problem, by_scipy(problem, "Radau", 1e-6, problem.times()))
    assert mine.max() <= 2 * theirs.max()
