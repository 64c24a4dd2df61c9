"""Comparisons that were never run, to draw and write."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from benthic.data import load
from benthic.leaderboard.contest.records import (
    Budget,
    DataFacts,
    Finding,
    LikelihoodScore,
    Line,
    Outcome,
    Score,
)
from benthic.leaderboard.contest.results import Comparison

METRICS = ("frechet", "coverage", "sliced_wasserstein")


def line(name: str, place: int, **facts: Any) -> Line:
    """A row whose numbers grow with its place."""
    scores = {
        metric: Score(metric, 0.2 + 0.3 * place, 0.03, 0.1, 3.0, 0.1 + 0.12 * place + 0.03 * k)
        for k, metric in enumerate(METRICS)
    }
    scores["coverage"] = Score("coverage", 0.9 - 0.1 * place, 0.02, 0.95, 0.1, 0.06 + 0.12 * place, "higher")
    defaults: dict[str, Any] = {
        "rank_low": max(1, place),
        "rank_high": place + 2,
        "p_best": 0.6 if place == 0 else 0.1,
        "quality": 0.1 + 0.12 * place,
        "quality_low": 0.05 + 0.12 * place,
        "quality_high": 0.2 + 0.12 * place,
        "scores": scores,
        "seconds": 12.0 / (1 + place),
        "sample_seconds": 0.1,
        "memory": 3e7,
        "parameters": 12345,
        "fits": 3,
        "extra": {"precision": 0.9 - 0.12 * place, "recall": 0.5 + 0.06 * place},
    }
    return Line(name, **(defaults | facts))


def broken() -> list[Line]:
    """Rows of what goes wrong."""
    quiet = {"scores": {}, "extra": {}, "quality": math.nan, "quality_low": math.nan, "quality_high": math.nan}
    copied = Finding("memorizes", "Its rows lie 40 times nearer to the rows it was fitted on than to others.")
    stopped = "the loss became NaN after step 12"
    return [
        line("copies", 5, ranked=False, reason="it memorizes", findings=(copied,)),
        line("broken", 6, ranked=False, status="not finite", reason=stopped, **quiet),
        line("slow <&>", 7, ranked=False, status="out of budget", reason="it took 70 s of 12 s", **quiet),
    ]


def images(folder: Path | None = None) -> Comparison:
    """Eight models of digits, three of them broken."""
    X = load("digits").X
    rng = np.random.default_rng(0)
    good = Finding("best", "Nothing else comes near.")
    exact = LikelihoodScore(95.0, 1.5, "exact", "exact", "density", 1, 2, 0.7, 2)
    lines = [
        line("GaussianMixture", 0, findings=(good,), likelihood=exact),
        line("spline flow", 1, likelihood=LikelihoodScore(92.0, 2.0, "exact", "exact", "density", 1, 2, 0.3, 2)),
        line("VAE", 2, likelihood=LikelihoodScore(60.0, 1.0, "elbo", "lower", "density", 1, 1, 1.0, 1)),
        line("WGAN", 3, findings=(Finding("collapsed", "It makes 3 of 10 kinds."),)),
        line("one Gaussian", 4, origin="baseline"),
        *broken(),
    ]
    noise = {"GaussianMixture": 0.05, "spline flow": 0.15, "VAE": 0.2, "WGAN": 0.3, "one Gaussian": 0.5, "copies": 0.0}
    outcomes = [
        Outcome(name, seed, seconds=10.0, sample_seconds=0.1, memory=3e7, samples=_near(X, level, rng), folder=folder)
        for name, level in noise.items()
        for seed in (0, 1, 2)
    ]
    outcomes += [Outcome("broken", seed, "not finite", lines[6].reason) for seed in (0, 1, 2)]
    outcomes.append(Outcome("slow <&>", 0, "out of budget", lines[7].reason, 70.0))
    return _comparison(DataFacts("digits", 1797, 64, "table", (64,), "digit"), lines, outcomes, X[:400])


def plane() -> Comparison:
    """Three models of points of the plane."""
    X = load("moons").X
    rng = np.random.default_rng(1)
    lines = [line("first", 0), line("second", 1), line("shuffled marginals", 2, origin="baseline"), *broken()]
    outcomes = [Outcome(name, 0, samples=_near(X, level, rng)) for name, level in (("first", 0.1), ("second", 0.4))]
    outcomes.append(Outcome("shuffled marginals", 0, samples=np.stack([rng.permutation(X[:, j]) for j in (0, 1)], 1)))
    return _comparison(DataFacts("moons", 2000, 2, "table", (2,)), lines, outcomes, X[:600])


def table(frame: Any) -> Comparison:
    """Two models of a frame."""
    rng = np.random.default_rng(2)
    lines = [line("first", 0), line("second", 1), line("shuffled marginals", 2, origin="baseline")]
    shuffled = frame.copy()
    for name in shuffled.columns:
        shuffled[name] = frame[name].sample(frac=1, random_state=0).to_numpy()
    outcomes = [Outcome("first", 0, samples=frame.sample(len(frame), replace=True, random_state=int(rng.integers(9))))]
    outcomes += [Outcome("shuffled marginals", 0, samples=shuffled)]
    facts = DataFacts("pets.csv", len(frame), frame.shape[1], "frame", (frame.shape[1],))
    return _comparison(facts, lines, outcomes, frame)


def predictors() -> Comparison:
    """Three classifiers."""
    lines = []
    for place, name in enumerate(("GradientBoostingClassifier", "LogisticRegression", "a constant")):
        scores = {
            "accuracy": Score("accuracy", 0.95 - 0.15 * place, 0.01, 1.0, 0.5, 0.1 + 0.3 * place, "higher"),
            "log_loss": Score("log_loss", 0.1 + 0.3 * place, 0.02, 0.0, 0.7, 0.15 + 0.4 * place, "lower"),
        }
        origin = "baseline" if place == 2 else "catalogue"
        lines.append(line(name, place, scores=scores, extra={}, origin=origin, sample_seconds=math.nan))
    facts = DataFacts("pets.csv", 120, 5, "frame", (5,), "kind")
    verdict = ("Choose GradientBoostingClassifier.", "It is right more often than the others.")
    return Comparison(
        "classify", facts, Budget.of("10s"), (0, 1, 2), tuple(lines), ("accuracy", "log_loss"), verdict=verdict
    )


def _near(X: np.ndarray, level: float, rng: np.random.Generator) -> np.ndarray:
    rows = rng.integers(len(X), size=300)
    return X[rows] + level * rng.normal(size=(300, X.shape[1]))


def _comparison(facts: DataFacts, lines: list[Line], outcomes: list[Outcome], real: Any) -> Comparison:
    return Comparison(
        "generate",
        facts,
        Budget.of("12s"),
        (0, 1, 2),
        tuple(lines),
        METRICS,
        {"frechet": 0.1, "coverage": 0.95, "sliced_wasserstein": 0.02, "precision": 0.97, "recall": 0.96},
        ("one Gaussian",),
        {"frechet": "one Gaussian"},
        (f"Choose {lines[0].name}.", "It has the lowest score and is the best in 60 % of all draws."),
        seconds=140.0,
        overhead=0.11,
        real=real,
        outcomes=tuple(outcomes),
    )
