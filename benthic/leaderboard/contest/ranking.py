r"""From the scores of every fit to ranks with intervals, by a paired bootstrap over judged rows and seeds.

A model's quality with one seed is the mean over metrics of (value - floor) / (baseline - floor). A resample draws
judged rows and seeds with replacement, the same for all models, so that what is hard about the rows cancels:

.. math:: q^*_m = \frac1S \sum_{s \in \text{seeds}^*} q_{ms} + \frac1n \sum_i (w^*_i - 1)\, \psi_{mi}

with :math:`\psi_{mi}` the influence of row i on model m's mean quality (see ``rowwise``). A mean of few seeds varies
too little under resampling, by (S - 1)/S, which is put right; and a fit that failed ranks last in every resample that
draws it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benthic.base.likelihood import Likelihood
from benthic.base.seeds import np_generator
from benthic.leaderboard.contest.records import LikelihoodScore

RESAMPLES = 2000
LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class Quality:
    """The quality of one model with every seed.

    values: (S,), infinite for a fit that failed. of_rows: (n,) influence of the judged rows on their mean. noise:
    variance of a value from the rows that were sampled.
    """

    values: np.ndarray
    of_rows: np.ndarray
    noise: float = 0.0


@dataclass(frozen=True, eq=False)
class Standing:
    """Where one model stands: interval of ranks, probability of being best, mean and interval of its quality.

    sound: whether most resamples drew none of its fits that failed.
    """

    rank_low: int
    rank_high: int
    p_best: float
    mean: float
    low: float
    high: float
    sound: bool = True


def weights_of(n: int, resamples: int, seed: int, name: str) -> np.ndarray:
    """How often each of n rows is drawn in every resample, less 1 and over n, (resamples, n)."""
    source = np_generator(seed, "bootstrap", name)
    counts = source.multinomial(n, np.full(n, 1 / n), size=resamples)
    return (counts - 1) / n


def resampled(
    qualities: Mapping[str, Quality], resamples: int = RESAMPLES, seed: int = 0, shared: float = 0.0
) -> dict[str, np.ndarray]:
    """The quality of every model in every resample, (resamples,) each; infinite where a failed fit was drawn.

    shared: variance of what all of them have in common, the floor.
    """
    first = next(iter(qualities.values()))
    seeds, n = max(len(quality.values) for quality in qualities.values()), len(first.of_rows)
    weights = weights_of(n, resamples, seed, "rows")
    drawn = np_generator(seed, "bootstrap", "seeds").integers(0, seeds, (resamples, seeds))
    common = np_generator(seed, "bootstrap", "floor").normal(0, math.sqrt(shared), resamples)
    found = {}
    for at, (name, quality) in enumerate(qualities.items()):
        own = len(quality.values)
        means = quality.values[drawn % own].mean(1)
        good = quality.values[np.isfinite(quality.values)]
        center = good.mean()
        wide = math.sqrt(own / (own - 1)) if own > 1 else 1.0
        # seeds that happen to agree do not make the sampling noise of each of them go away
        unseen = max(0.0, quality.noise - (float(good.var(ddof=1)) if len(good) > 1 else 0.0))
        noise = np_generator(seed, "bootstrap", "samples", at).normal(0, math.sqrt(unseen / len(good)), resamples)
        found[name] = center + wide * (means - center) + weights @ quality.of_rows + noise + common
    return found


def rank(
    qualities: Mapping[str, Quality], resamples: int = RESAMPLES, seed: int = 0, shared: float = 0.0
) -> dict[str, Standing]:
    """Where every model stands; lower quality is better. shared: variance of the floor.

    >>> rows = np.zeros(50)
    >>> found = rank({"a": Quality(np.array([0.1, 0.2]), rows), "b": Quality(np.array([0.8, 0.9]), rows)})
    >>> found["a"].rank_high, found["b"].p_best
    (1, 0.0)
    """
    if not qualities:
        return {}
    drawn = resampled(qualities, resamples, seed, shared)
    table = np.stack(list(drawn.values()), 1)  # (resamples, models)
    return {
        name: _standing(quality.values, drawn[name], ranks, table)
        for (name, quality), ranks in zip(qualities.items(), _ranks(table).T, strict=True)
    }


def _ranks(table: np.ndarray) -> np.ndarray:
    """Ranks from 1 of every model in every resample; those that are equal share the middle."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(table, axis=1))


def _standing(values: np.ndarray, drawn: np.ndarray, ranks: np.ndarray, table: np.ndarray) -> Standing:
    tails = (1 - LEVEL) / 2, (1 + LEVEL) / 2
    low, high = (float(np.quantile(ranks, tail, method="nearest")) for tail in tails)
    least = table.min(1)
    winners = (table == least[:, None]).sum(1)
    p_best = float(((drawn == least) / winners).mean())
    good = values[np.isfinite(values)]
    spread = [float(np.quantile(drawn[np.isfinite(drawn)], tail)) for tail in tails]
    sound = bool(np.isfinite(np.median(drawn)))
    return Standing(math.floor(low), math.ceil(high), p_best, float(good.mean()), spread[0], spread[1], sound)


# -- likelihoods -------------------------------------------------------------------------------------------


def rank_likelihoods(
    found: Mapping[str, Sequence[Likelihood]], ranked: Sequence[str], resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, LikelihoodScore]:
    """Mean log-likelihoods, ranked among models of one kind and measure only.

    found: for every model the likelihoods of the judged rows, one a seed, of the first rows where there was no time for
    all. ranked: names of the models that take part in a ranking. A lower bound of one model certainly above the exact
    value of another, in the same measure, counts as a win over it; nothing else is said across kinds.
    """
    scores = {name: _mean_likelihood(several) for name, several in found.items() if several}
    rows = {name: _per_row(several) for name, several in found.items() if several}
    for group in {score.group for score in scores.values()}:
        names = [name for name, score in scores.items() if score.group == group and name in ranked]
        standings = rank({name: _as_quality(found[name], rows, names) for name in names}, resamples, seed)
        for name, standing in standings.items():
            places = {"rank_low": standing.rank_low, "rank_high": standing.rank_high, "p_best": standing.p_best}
            scores[name] = _replaced(scores[name], {**places, "group_size": len(names)})
    for name in scores:
        wins = tuple(other for other in scores if _wins(scores, rows, name, other))
        scores[name] = _replaced(scores[name], {"wins": wins})
    return scores


def _replaced(score: LikelihoodScore, changes: dict[str, object]) -> LikelihoodScore:
    return LikelihoodScore(**{**vars(score), **changes})


def _per_row(several: Sequence[Likelihood]) -> np.ndarray:
    """(n,) the mean over seeds of every row's value, for the rows that all seeds have."""
    n = min(len(one.value) for one in several)
    mean: np.ndarray = np.mean([one.value[:n] for one in several], 0)
    return mean


def _mean_likelihood(several: Sequence[Likelihood]) -> LikelihoodScore:
    rows, first = _per_row(several), several[0]
    means = np.array([one.value.mean() for one in several])
    variance = rows.var(ddof=1) / len(rows) if len(rows) > 1 else math.nan
    variance += means.var(ddof=1) / len(means) if len(means) > 1 else 0.0
    return LikelihoodScore(float(rows.mean()), math.sqrt(variance), first.kind, first.bound, first.measure)


def _as_quality(several: Sequence[Likelihood], rows: Mapping[str, np.ndarray], names: Sequence[str]) -> Quality:
    """Likelihoods as a quality, lower is better, on the rows that all of the names have."""
    n = min(len(rows[name]) for name in names)
    values = -np.array([one.value[:n].mean() for one in several])
    row = -np.mean([one.value[:n] for one in several], 0)
    noise = float(np.mean([np.square(one.stderr[:n]).sum() / n**2 for one in several]))
    return Quality(values, row - row.mean(), noise)


def _wins(scores: Mapping[str, LikelihoodScore], rows: Mapping[str, np.ndarray], name: str, other: str) -> bool:
    one, two = scores[name], scores[other]
    if name == other or one.measure != two.measure or one.bound != "lower" or two.bound != "exact":
        return False
    n = min(len(rows[name]), len(rows[other]))
    gap = rows[name][:n] - rows[other][:n]
    seeds = [
        max(0.0, score.stderr**2 - rows[key].var(ddof=1) / len(rows[key])) for key, score in ((name, one), (other, two))
    ]
    error = math.sqrt(gap.var(ddof=1) / n + sum(seeds)) if n > 1 else math.inf
    return bool(gap.mean() > 1.96 * error and one.value > two.value)  # in all rows as in those that both have
