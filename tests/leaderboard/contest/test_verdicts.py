"""Broken models are exposed: each fault is planted, and the verdict has to say so in words."""

from __future__ import annotations

import math

import numpy as np
import pytest

import benthic
from benthic.data.toys import rings_of_gaussians
from benthic.leaderboard.contest.baselines import ResampledRows
from benthic.leaderboard.contest.comparing import compare
from benthic.leaderboard.contest.records import Budget, Finding, LikelihoodScore, Line
from benthic.leaderboard.contest.results import Comparison
from benthic.leaderboard.contest.verdicts import verdict_of
from tests.leaderboard.contest.planted import Collapsed, Failing, Known, Modes, NotFinite, Slow

TRUTH = rings_of_gaussians()


@pytest.fixture(scope="module")
def table() -> Comparison:
    models = {
        "sound": Known(TRUTH),
        "collapsed": Collapsed(),
        "few modes": Modes(),
        "repeating": Collapsed(40, 0.0),
        "copier": ResampledRows(),
        "blurred copier": Collapsed(10**6, 0.002),
        "nan": NotFinite(),
        "failing": Failing(),
        "unlucky": Failing(only=1),
        "slow": Slow(1.6),
    }
    return compare(models, TRUTH.sample(1500, seed=0), budget=0.5, n_jobs=0, progress=False)


def kinds(line: Line) -> set[str]:
    return {finding.kind for finding in line.findings}


def said(table: Comparison, *words: str) -> bool:
    return any(all(word in sentence for word in words) for sentence in table.verdict)


@pytest.mark.spec("I-03")
def test_a_sound_model_is_found_sound(table: Comparison) -> None:
    line = table.line("sound")
    assert line.ranked
    assert line.rank_low == 1
    assert kinds(line) == {"good"}
    assert table.best is line
    # the mixture among the baselines can do this as well: which of the two comes first is chance
    assert said(table, "Choose sound", "probability") or said(table, "cannot be told apart", "sound")


@pytest.mark.spec("I-03")
@pytest.mark.parametrize("name", ["collapsed", "few modes"])
def test_a_collapsed_sampler_is_exposed(table: Comparison, name: str) -> None:
    line = table.line(name)
    assert "collapsed" in kinds(line)
    assert said(table, f"{name} has collapsed")
    assert line.quality > 0.5


def test_a_sampler_that_repeats_itself_is_exposed(table: Comparison) -> None:
    assert kinds(table.line("repeating")) & {"collapsed", "memorizes"}
    assert table.line("repeating").extra["distinct"] < 0.5


@pytest.mark.spec("I-03")
@pytest.mark.parametrize("name", ["copier", "blurred copier"])
def test_a_memorizer_is_listed_but_not_ranked(table: Comparison, name: str) -> None:
    line = table.line(name)
    assert not line.ranked
    assert line.rank == "-"
    assert math.isnan(line.p_best)
    assert "memorizes" in kinds(line)
    assert said(table, f"{name} memorizes", "copies of training rows", "not ranked")
    assert line.scores["energy"].value < table.line("one Gaussian").scores["energy"].value  # though it scores well


@pytest.mark.spec("I-03")
def test_samples_that_are_not_finite_are_exposed(table: Comparison) -> None:
    line = table.line("nan")
    assert (line.status, line.ranked) == ("not finite", False)
    assert said(table, "nan gave numbers that are not finite", "NaN")


@pytest.mark.spec("I-03")
def test_failures_stay_in_the_table_with_the_reason(table: Comparison) -> None:
    line = table.line("failing")
    assert (line.status, line.ranked) == ("failed", False)
    assert "no luck today" in line.reason
    assert said(table, "failing failed", "no luck today")
    slow = table.line("slow")
    assert (slow.status, slow.ranked) == ("out of budget", False)
    assert said(table, "slow ran out of budget")
    assert slow.scores  # what it made is judged all the same


def test_one_failed_seed_widens_the_ranks(table: Comparison) -> None:
    line = table.line("unlucky")
    assert line.ranked
    assert line.status == "ok"
    assert "failed" in kinds(line)
    assert said(table, "unlucky failed in 1 of 3 fits")
    assert line.rank_high == sum(other.ranked for other in table.lines)  # where the failed fit is drawn it is last


def test_baselines_are_not_blamed(table: Comparison) -> None:
    for name in ("shuffled columns", "one Gaussian"):
        assert not kinds(table.line(name)) - {"good"}


def test_ranked_lines_come_first_and_in_order(table: Comparison) -> None:
    ranked = [line.ranked for line in table.lines]
    assert ranked == sorted(ranked, reverse=True)
    lucky = ["failed" not in kinds(line) for line in table.lines if line.ranked]
    assert lucky == sorted(lucky, reverse=True)  # where most resamples hold a failed fit, a quality is no advice
    qualities = [line.quality for line in table.lines if line.ranked and "failed" not in kinds(line)]
    assert qualities == sorted(qualities)
    assert sum(line.p_best for line in table.lines if line.ranked) == pytest.approx(1)


def test_a_baseline_that_wins_is_said_to() -> None:
    X = np.random.default_rng(0).normal(size=(600, 2)) @ np.array([[1.0, 0.9], [0.0, 0.3]])
    found = compare({"bad": Collapsed(30, 0.6)}, X, budget=1, n_jobs=0, progress=False)
    assert found.lines[0].origin == "baseline"
    assert any("That is a baseline" in sentence for sentence in found.verdict)
    assert found.best is not None
    assert found.best.name == "bad"


def test_a_verdict_without_anyone_ranked() -> None:
    late = Line("a", status="out of budget", ranked=False, reason="late")
    assert "a larger budget is needed" in verdict_of([late], Budget())[0]
    failed = Line("a", status="failed", ranked=False, findings=(Finding("failed", "a failed: why."),))
    sentences = verdict_of([failed], Budget())
    assert "No model can be ranked" in sentences[0]
    assert sentences[-1] == "a failed: why."


def test_ties_and_bounds_are_put_into_words() -> None:
    first = Line("a", p_best=0.6, rank_low=1, rank_high=2, quality=0.1, seconds=20.0)
    exact = LikelihoodScore(-3.0, 0.1, "exact", "exact", "density", p_best=0.2)
    bound = LikelihoodScore(-1.0, 0.1, "elbo", "lower", "density", wins=("c",))
    second = Line("b", p_best=0.4, rank_low=1, rank_high=2, quality=0.12, seconds=1.0, likelihood=bound)
    third = Line("c", p_best=0.0, rank_low=3, rank_high=3, quality=0.9, seconds=1.0, likelihood=exact)
    text = " ".join(verdict_of([first, second, third], Budget()))
    assert "cannot be told apart for sure from b (40 %)" in text
    assert "Of these b is the quickest" in text
    assert "The likelihood of b is certainly above that of c" in text


def test_the_spread_of_pictures_shows_a_collapse_too() -> None:
    digits = benthic.data.bundled.load("digits")
    X = digits.X[:600].reshape(-1, 1, 8, 8)
    found = compare({"one picture": Collapsed(1, 0.05)}, X, budget=2, seeds=2, n_jobs=0, progress=False)
    assert "collapsed" in kinds(found.line("one picture"))
