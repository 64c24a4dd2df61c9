"""From judged samples to the lines of the table: normalized scores, ranks, and what there is to say of each model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.likelihood import Likelihood
from benthic.leaderboard.contest.judging import METRICS, Verdict
from benthic.leaderboard.contest.ranking import Quality, Standing, rank, rank_likelihoods
from benthic.leaderboard.contest.records import Contestant, Line, Outcome, Score, Status
from benthic.leaderboard.contest.verdicts import findings_of, memorizes

REFERENCES = ("shuffled columns", "one Gaussian")
_SHOWN = ("precision", "recall", "density", "coverage")
_SHARES = (*_SHOWN, "tstr")
_ORDER: tuple[Status, ...] = ("not finite", "out of budget", "failed")


@dataclass(frozen=True, eq=False)
class Judged:
    """All fits of one contestant, and what each sample is worth (None where there is none)."""

    contestant: Contestant
    outcomes: tuple[Outcome, ...]
    verdicts: tuple[Verdict | None, ...]

    @property
    def good(self) -> list[Verdict]:
        """Of the fits that ended well."""
        pairs = zip(self.outcomes, self.verdicts, strict=True)
        return [verdict for outcome, verdict in pairs if verdict is not None and outcome.status == "ok"]

    @property
    def known(self) -> list[Verdict]:
        """Of all fits that left samples."""
        return [verdict for verdict in self.verdicts if verdict is not None]


@dataclass(frozen=True)
class Scale:
    """What turns one metric into a normalized score: its floor, and the gap from there to the baseline.

    sign: 1 where lower is better, -1 where higher is.
    """

    metric: str
    floor: float
    baseline: float
    gap: float
    sign: float
    reference: str

    def normalized(self, value: float) -> float:
        """0 as good as real rows, 1 as bad as the baseline."""
        return self.sign * (value - self.floor) / self.gap

    def counted(self, value: float) -> float:
        """The normalized score as it ranks: beyond 1 by its logarithm, so that one wild metric drowns no other."""
        plain = self.normalized(value)
        return plain if plain <= 1 else 1 + math.log(plain)

    def slope(self, value: float) -> float:
        """The derivative of ``counted``."""
        return self.sign / (self.gap * max(self.normalized(value), 1.0))


def scales_of(floor: Verdict, judged: Sequence[Judged], metrics: Sequence[str]) -> dict[str, Scale]:
    """The scale of every metric: its baseline is the worst of the plain ones.

    Where that is hardly worse than real rows, twice the error of the floor stands for the gap, so that noise is not
    blown up.
    """
    found = {}
    for metric in metrics:
        sign = 1.0 if METRICS[metric][0] == "lower" else -1.0
        rows = floor.scores[metric]
        means = {
            one.contestant.name: float(np.mean([v.scores[metric].value for v in one.known]))
            for one in judged
            if one.contestant.name in REFERENCES and one.known
        }
        worst = max(((sign * mean, name) for name, mean in means.items()), default=(math.nan, ""))[1]
        baseline = means.get(worst, math.nan)
        least = 1 / len(rows.of_real) if metric in _SHARES else 1e-12  # one row more or less
        guard = max(2 * math.sqrt(_variance(rows.of_real) + _variance(rows.of_made)), least)
        gap = sign * (baseline - rows.value)
        found[metric] = Scale(metric, rows.value, baseline, max(gap, guard) if gap == gap else guard, sign, worst)
    return found


def _variance(influences: Tensor) -> float:
    """Of the mean that rows with these influences make."""
    return float(influences.var()) / len(influences)


def quality_of(one: Judged, floor: Verdict, scales: Mapping[str, Scale]) -> Quality:
    """The mean normalized score of every fit, and how judged and sampled rows move it."""
    values = []
    for outcome, verdict in zip(one.outcomes, one.verdicts, strict=True):
        usable = verdict is not None and outcome.status == "ok"
        values.append(_mean_score(verdict, scales) if usable and verdict is not None else math.inf)
    rows, noises = [], []
    for verdict in one.good:
        units = {m: scale.slope(verdict.scores[m].value) / len(scales) for m, scale in scales.items()}
        rows.append(
            _total([u * (verdict.scores[m].of_real - floor.scores[m].of_real) for m, u in units.items()]).numpy()
        )
        noises.append(_variance(_total([u * verdict.scores[m].of_made for m, u in units.items()])))
    return Quality(np.array(values), np.mean(rows, 0), float(np.mean(noises)))


def _total(parts: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(parts)).sum(0)


def _mean_score(verdict: Verdict, scales: Mapping[str, Scale]) -> float:
    return float(np.mean([scale.counted(verdict.scores[metric].value) for metric, scale in scales.items()]))


def lines_of(
    judged: Sequence[Judged], floor: Verdict, metrics: Sequence[str], seed: int = 0
) -> tuple[list[Line], dict[str, Scale]]:
    """The lines of the table, ranked ones first and in order, and the scales of the metrics."""
    scales = scales_of(floor, judged, metrics)
    ranked = [one for one in judged if one.good and not memorizes(one.good, floor)]
    qualities = {one.contestant.name: quality_of(one, floor, scales) for one in ranked}
    halves = _total([scale.sign / scale.gap / len(scales) * floor.scores[m].of_made for m, scale in scales.items()])
    standings = rank(qualities, seed=seed, shared=_variance(halves))
    likely = {one.contestant.name: _likelihoods(one) for one in judged}
    places = rank_likelihoods(likely, list(standings), seed=seed)
    lines = []
    for one in judged:
        name = one.contestant.name
        line = _line(one, floor, scales, standings.get(name))
        line = Line(**{**vars(line), "likelihood": places.get(name)})
        lines.append(Line(**{**vars(line), "findings": findings_of(line, one.outcomes, one.known, floor)}))
    lines.sort(
        key=lambda line: (
            not line.ranked,
            line.status != "ok",
            line.ranked and not standings[line.name].sound,  # a quality that it rarely reaches is no advice
            line.quality if line.quality == line.quality else math.inf,
        )
    )
    return lines, scales


def _likelihoods(one: Judged) -> list[Likelihood]:
    found = [outcome.likelihood for outcome in one.outcomes if outcome.likelihood is not None]
    return [each for each in found if (each.kind, each.measure) == (found[0].kind, found[0].measure)]


def _line(one: Judged, floor: Verdict, scales: Mapping[str, Scale], standing: Standing | None) -> Line:
    outcomes = one.outcomes
    good = [outcome for outcome in outcomes if outcome.status == "ok"]
    status: Status = "ok" if good else next(s for s in _ORDER if any(o.status == s for o in outcomes))
    reason = next((outcome.reason for outcome in outcomes if outcome.status == status), "")
    if good and standing is None:
        reason = "it hands back training rows"
    seen = one.good or one.known
    place: dict[str, Any] = {} if standing is None else _place(standing)
    if standing is None and seen:
        place = {"quality": float(np.mean([_mean_score(v, scales) for v in seen]))}
    return Line(
        one.contestant.name,
        one.contestant.origin,
        status,
        standing is not None,
        reason,
        scores={metric: _score(metric, seen, scale) for metric, scale in scales.items()} if seen else {},
        no_likelihood=next((o.no_likelihood for o in outcomes if o.no_likelihood), ""),
        seconds=_mean([outcome.seconds for outcome in outcomes]),
        sample_seconds=_mean([outcome.sample_seconds for outcome in outcomes]),
        memory=_mean([outcome.memory for outcome in outcomes]),
        parameters=next((outcome.parameters for outcome in outcomes if outcome.parameters is not None), None),
        fits=len(outcomes),
        extra=_extra(seen, floor),
        **place,
    )


def _place(standing: Standing) -> dict[str, Any]:
    return {
        "rank_low": standing.rank_low,
        "rank_high": standing.rank_high,
        "p_best": standing.p_best,
        "quality": standing.mean,
        "quality_low": standing.low,
        "quality_high": standing.high,
    }


def _mean(values: Sequence[float]) -> float:
    finite = [value for value in values if math.isfinite(value)]
    return float(np.mean(finite)) if finite else math.nan


def _score(metric: str, seen: Sequence[Verdict], scale: Scale) -> Score:
    """One metric over the seeds; its error counts judged rows, and seeds or sampled rows, whichever vary more."""
    values = np.array([verdict.scores[metric].value for verdict in seen])
    of_rows = _variance(_total([v.scores[metric].of_real for v in seen]) / len(seen))
    sampled = float(np.mean([_variance(v.scores[metric].of_made) for v in seen]))
    seeds = float(values.var(ddof=1)) if len(values) > 1 else 0.0
    error = math.sqrt(of_rows + max(seeds, sampled) / len(values))
    value, better = float(values.mean()), METRICS[metric][0]
    return Score(metric, value, error, scale.floor, scale.baseline, scale.normalized(value), better)


def _extra(seen: Sequence[Verdict], floor: Verdict) -> dict[str, float]:
    """Numbers that do not rank."""
    if not seen:
        return {}
    found = {name: float(np.mean([verdict.scores[name].value for verdict in seen])) for name in _SHOWN}
    for name in ("spread", "distinct", "ratio", "copies"):
        found[name] = float(np.mean([getattr(verdict, name) for verdict in seen]))
    ratio = found.pop("ratio")
    found["memorization_ratio"] = ratio / floor.ratio if floor.ratio > 0 else 1.0  # of few values all rows are known
    chances = [verdict.p_value for verdict in seen if verdict.p_value == verdict.p_value]
    found["memorization_p"] = float(np.median(chances)) if chances else math.nan
    return found
