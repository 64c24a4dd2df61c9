"""Ranks with intervals: the bootstrap, likelihoods within one kind, and the true order on laws that are known."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

from benthic.base.likelihood import Bound, Likelihood, Measure
from benthic.data.toys import rings_of_gaussians
from benthic.leaderboard.contest.comparing import compare
from benthic.leaderboard.contest.ranking import Quality, rank, rank_likelihoods, resampled, weights_of
from tests.leaderboard.contest.planted import Known

N = 200


def quality(center: float, spread: float = 0.0, rows: np.ndarray | None = None, noise: float = 0.0) -> Quality:
    values = center + spread * np.array([-1.0, 0.0, 1.0])
    return Quality(values, np.zeros(N) if rows is None else rows, noise)


def test_weights_are_those_of_a_bootstrap() -> None:
    weights = weights_of(50, 400, 0, "rows")
    np.testing.assert_allclose(weights.sum(1), 0, atol=1e-12)
    # a multinomial count has variance 1 - 1/n
    assert (50 * weights).var() == pytest.approx(1 - 1 / 50, rel=0.05)


def test_the_spread_of_resamples_is_the_standard_error() -> None:
    rows = np.random.default_rng(0).normal(size=N)
    rows -= rows.mean()
    drawn = resampled({"a": quality(0.0, 0.0, rows)}, 8000)["a"]
    assert drawn.std() == pytest.approx(rows.std() / math.sqrt(N), rel=0.05)
    seeds = resampled({"a": quality(0.0, 0.3)}, 8000)["a"]
    # values -0.3, 0, 0.3: the error of their mean is 0.3 / sqrt(3)
    assert seeds.std() == pytest.approx(0.3 / math.sqrt(3), rel=0.05)
    sampled = resampled({"a": quality(0.0, 0.0, noise=0.09)}, 8000)["a"]
    assert sampled.std() == pytest.approx(0.3 / math.sqrt(3), rel=0.05)


def test_what_is_hard_about_the_rows_cancels_between_models() -> None:
    rows = 10 * np.random.default_rng(0).normal(size=N)
    found = rank({"a": quality(0.0, 0.0, rows), "b": quality(0.1, 0.0, rows)})
    assert (found["a"].rank_low, found["a"].rank_high) == (1, 1)
    assert found["a"].p_best == 1
    assert found["a"].high - found["a"].low > 1  # though each on its own is hardly known


def test_equal_models_share_ranks_and_chances() -> None:
    source = np.random.default_rng(0)
    found = rank({name: quality(0.0, 0.0, source.normal(size=N)) for name in "abc"})
    assert all((one.rank_low, one.rank_high) == (1, 3) for one in found.values())
    assert sum(one.p_best for one in found.values()) == pytest.approx(1)
    assert all(0.2 < one.p_best < 0.5 for one in found.values())


def test_a_failed_fit_ranks_last_where_it_is_drawn() -> None:
    broken = Quality(np.array([0.0, 0.0, math.inf]), np.zeros(N))
    found = rank({"broken": broken, "sound": quality(0.5)})
    # drawing three of three seeds misses the failed one with probability (2/3)^3
    assert found["broken"].p_best == pytest.approx(8 / 27, abs=0.04)
    assert (found["broken"].rank_low, found["broken"].rank_high) == (1, 2)
    assert found["broken"].mean == 0


def test_intervals_hold_the_true_rank_about_as_often_as_they_say() -> None:
    """40 repeats of three models with means 0, 0.1, 0.2 and noisy rows: nearly all intervals must hold the truth."""
    held = 0
    for repeat in range(40):
        source = np.random.default_rng(repeat)
        noise = source.normal(size=(3, N))
        models = {}
        for at, name in enumerate("abc"):
            values = 0.1 * at + noise[at].mean() + 0.05 * source.normal(size=3)
            models[name] = Quality(values, noise[at] - noise[at].mean())
        found = rank(models, 1000, repeat)
        held += sum(one.rank_low <= at + 1 <= one.rank_high for at, one in enumerate(found.values()))
    assert held / 120 > 0.9


def likelihood(
    values: np.ndarray, kind: str = "exact", bound: Bound = "exact", measure: Measure = "density"
) -> Likelihood:
    return Likelihood(values, np.zeros_like(values), kind, bound, measure)


def test_likelihoods_rank_within_one_kind_and_measure_only() -> None:
    rows = np.random.default_rng(0).normal(size=N)
    found = rank_likelihoods(
        {
            "good": [likelihood(rows), likelihood(rows + 0.01)],
            "bad": [likelihood(rows - 1)],
            "bound": [likelihood(rows - 0.5, "elbo", "lower")],
            "mass": [likelihood(rows - 90, measure="mass")],
            "memorizer": [likelihood(rows + 50)],
            "none": [],
        },
        ["good", "bad", "bound", "mass"],
    )
    assert "none" not in found
    assert (found["good"].rank_low, found["good"].group_size) == (1, 2)
    assert found["bad"].rank_low == 2
    assert found["bound"].group_size == 1
    assert found["memorizer"].rank_low is None
    assert found["bound"].wins == ("bad",)
    assert found["good"].wins == ()
    assert found["mass"].wins == ()
    assert found["mass"].manner == "exact, mass"


def test_a_bound_that_is_not_surely_above_wins_nothing() -> None:
    source = np.random.default_rng(0)
    found = rank_likelihoods(
        {
            "exact": [likelihood(source.normal(size=N))],
            "bound": [likelihood(source.normal(size=N) + 0.05, "elbo", "lower")],
        },
        ["exact", "bound"],
    )
    assert found["bound"].wins == ()


def test_a_bound_above_in_a_few_rows_but_below_in_all_wins_nothing() -> None:
    rows = np.random.default_rng(0).normal(size=N)
    wild = rows + 1
    wild[-1] -= 1e4
    found = rank_likelihoods(
        {"exact": [likelihood(rows[: N // 2])], "bound": [likelihood(wild, "elbo", "lower")]}, ["exact", "bound"]
    )
    assert found["bound"].wins == ()
    assert found["bound"].manner == "elbo"


# -- the true order ------------------------------------------------------------------------------------------

TRUTH = rings_of_gaussians(8, 2.0, 0.2)
LAWS = {
    "truth": TRUTH,
    "twin": rings_of_gaussians(8, 2.0, 0.202),
    "wider": rings_of_gaussians(8, 2.0, 0.3),
    "smaller": rings_of_gaussians(8, 1.8, 0.3),
    "seven": rings_of_gaussians(8, 1.6, 0.4),
    "blurred": rings_of_gaussians(8, 1.2, 0.7),
}
ROWS = 4000


@cache
def divergences() -> tuple[dict[str, float], dict[tuple[str, str], float]]:
    """KL(truth | law) by 100 000 draws, and how many standard errors of 600 rows lie between each two."""
    X = TRUTH.sample(100_000, seed=99)
    logs = {name: np.asarray(law.log_prob(X)) for name, law in LAWS.items()}
    apart = {}
    for a in LAWS:
        for b in LAWS:
            gap = logs[a] - logs[b]
            apart[a, b] = float(gap.mean() / (gap.std() / math.sqrt(600) + 1e-12))
    return {name: float((logs["truth"] - log).mean()) for name, log in logs.items()}, apart


@pytest.mark.parametrize("repeat", range(5))
@pytest.mark.spec("I-03")
def test_the_order_is_the_true_order_wherever_the_gap_is_significant(repeat: int) -> None:
    truth, apart = divergences()
    X = TRUTH.sample(ROWS, seed=repeat)
    models = {name: Known(law) for name, law in LAWS.items()}
    found = compare(models, X, budget=5, n_jobs=0, progress=False, random_state=10 * repeat)
    pairs = [pair for pair, errors in apart.items() if errors > 5]
    assert len(pairs) == 14  # all but the truth and its twin
    for better, worse in pairs:
        assert truth[better] < truth[worse]
        one, other = found.line(better), found.line(worse)
        assert one.quality < other.quality, (better, worse)
        assert one.likelihood is not None
        assert other.likelihood is not None
        assert one.likelihood.value > other.likelihood.value
        assert one.likelihood.rank_high is not None
        assert other.likelihood.rank_low is not None
        assert one.likelihood.rank_high <= other.likelihood.rank_low
    first, twin = found.line("truth"), found.line("twin")
    assert first.rank_low == twin.rank_low == 1
    assert first.rank_high >= 2 or twin.rank_high >= 2  # what cannot be told apart is not told apart
    assert first.quality_low <= 0 <= first.quality_high  # the truth is as good as real rows
