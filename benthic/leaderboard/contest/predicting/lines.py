"""From the fits of every fold to one line a predictor, and to words about all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benthic.leaderboard.contest.predicting.baselines import NAME
from benthic.leaderboard.contest.predicting.fits import Fold, slug
from benthic.leaderboard.contest.predicting.scores import METRICS, Answers
from benthic.leaderboard.contest.predicting.standing import Standing, standings
from benthic.leaderboard.contest.records import Better, Contestant, Finding, Line, Outcome, Score, Status

_LEVEL = 0.05  # of the tests
_NOUNS = {"classify": "the shares of the classes", "regress": "the mean", "cluster": "clusters by lot"}
_WORST: tuple[Status, ...] = ("failed", "not finite", "out of budget")


def fits_of(folds: Sequence[Fold], name: str) -> list[Fold]:
    """The fits of one contestant, by seed and fold."""
    return sorted((fold for fold in folds if fold.name == name), key=lambda fold: (fold.seed, fold.fold))


# -- lines ---------------------------------------------------------------------------------------------------


def lines_of(
    field: Sequence[Contestant], folds: Sequence[Fold], task: str, metrics: Sequence[str], share: float, seed: int
) -> list[Line]:
    """One line a contestant, ranked by the first metric; those whose fits did not all end well follow, unranked."""
    fits = {one.name: fits_of(folds, one.name) for one in field}
    good = [one.name for one in field if fits[one.name] and all(fold.status == "ok" for fold in fits[one.name])]
    stood = {metric: _stood(metric, good, fits, task, share, seed) for metric in metrics}
    rank = next((metric for metric in metrics if stood[metric]), metrics[0])
    lines = [_line(one, fits[one.name], task, metrics, stood, rank) for one in field]
    sign = 1.0 if METRICS[task][rank][0] == "lower" else -1.0

    def order(line: Line) -> tuple[bool, float]:
        return (not line.ranked, sign * line.scores[rank].value if rank in line.scores else math.inf)

    return sorted(lines, key=order)


def _stood(
    metric: str, names: Sequence[str], fits: dict[str, list[Fold]], task: str, share: float, seed: int
) -> dict[str, Standing]:
    """Where each model that has the metric in every fit stands by it."""
    having = [name for name in names if all(metric in fold.scores for fold in fits[name])]
    if not having or len(fits[having[0]]) < 2:
        return {}
    scores = np.array([[fold.scores[metric] for fold in fits[name]] for name in having]).T  # (J, m)
    if not np.isfinite(scores).all():
        return {}
    return dict(zip(having, standings(scores, share, METRICS[task][metric][0], seed=seed), strict=True))


def _line(
    one: Contestant,
    fits: list[Fold],
    task: str,
    metrics: Sequence[str],
    stood: dict[str, dict[str, Standing]],
    rank: str,
) -> Line:
    status, reason = _ending(fits)
    done = [fold for fold in fits if not math.isnan(fold.seconds)]
    scores = {m: _score(m, task, stood[m], one.name) for m in metrics if one.name in stood[m]}
    place = stood[rank].get(one.name)
    extra = _calibration(fits, task) if status == "ok" else {}
    extra |= {f"{m} p": stood[m][one.name].p_value for m in scores}
    extra |= {"answer s": float(np.mean([f.answer_seconds for f in done]))} if done else {}
    numbers: dict[str, Any] = {
        "seconds": float(np.mean([fold.seconds for fold in done])) if done else math.nan,
        "memory": float(np.nanmax([fold.memory for fold in done])) if done else math.nan,
        "parameters": next((fold.parameters for fold in done if fold.parameters is not None), None),
        "fits": sum(fold.status == "ok" for fold in fits),
    }
    if place is None:
        why = reason or f"it gives no {rank}"
        findings = _notes(one, fits, status, why)
        return Line(one.name, one.origin, status, False, why, scores=scores, extra=extra, findings=findings, **numbers)
    score = scores[rank]
    low, high = sorted(_normalized(end, score.floor, score.baseline) for end in (place.low, place.high))
    return Line(
        one.name,
        one.origin,
        rank_low=place.rank_low,
        rank_high=place.rank_high,
        p_best=place.p_best,
        quality=score.normalized,
        quality_low=low,
        quality_high=high,
        scores=scores,
        extra=extra,
        findings=(*_standing_words(one, place, stood[rank], rank, task), *_notes(one, fits, status, reason)),
        **numbers,
    )


def _ending(fits: list[Fold]) -> tuple[Status, str]:
    """How the fits of a contestant ended: as the worst of them."""
    for status in _WORST:
        for fold in fits:
            if fold.status == status:
                good = sum(f.status == "ok" for f in fits)
                where = (
                    f" (seed {fold.seed}, fold {fold.fold + 1}; {good} of {len(fits)} fits ended well)" if good else ""
                )
                return status, f"{fold.reason}{where}"
    return "ok", ""


def _score(metric: str, task: str, stood: dict[str, Standing], name: str) -> Score:
    better: Better = "higher" if METRICS[task][metric][0] == "higher" else "lower"
    floor = METRICS[task][metric][1]
    base = stood[NAME].value if NAME in stood else math.nan
    found = stood[name]
    return Score(metric, found.value, found.stderr, floor, base, _normalized(found.value, floor, base), better)


def _normalized(value: float, floor: float, base: float) -> float:
    return (value - floor) / (base - floor) + 0.0 if base != floor else math.nan  # no minus zero


def _calibration(fits: list[Fold], task: str) -> dict[str, float]:
    """Means over seeds of what each seed's rows say together."""
    if any(not fold.answers for fold in fits):
        return {}
    found = []
    for seed in sorted({fold.seed for fold in fits}):
        answers = Answers()
        for fold in fits:
            if fold.seed == seed:
                answers.keep(fold.answers["truth"], fold.answers["said"], fold.answers["classes"])
        found.append(answers.calibration(task))
    return {name: float(np.mean([part[name] for part in found])) for name in found[0]}


# -- words ---------------------------------------------------------------------------------------------------


def _standing_words(
    one: Contestant, place: Standing, stood: dict[str, Standing], rank: str, task: str
) -> tuple[Finding, ...]:
    words = rank.replace("_", " ")
    if one.origin == "baseline":
        return (Finding("note", f"It answers {_NOUNS[task]}, without looking at the rows."),)
    if NAME in stood and not _better_than(place, stood[NAME], METRICS[task][rank][0]):
        return (Finding("weak", f"Its {words} is no better than that of {_NOUNS[task]}."),)
    if place.difference == 0 and place.p_value == 1.0:
        return (Finding("best", f"It has the best mean {words}."),)
    if place.p_value > _LEVEL:
        return (Finding("good", f"It cannot be told apart from the best by {words} (p = {place.p_value:.2g})."),)
    return (Finding("note", f"It is worse than the best by {words} (p = {place.p_value:.2g})."),)


def _better_than(place: Standing, base: Standing, better: str) -> bool:
    gap = place.value - base.value
    return gap > 0 if better == "higher" else gap < 0


def _notes(one: Contestant, fits: list[Fold], status: Status, reason: str) -> tuple[Finding, ...]:
    notes = [] if status == "ok" else [Finding(status, f"{one.name}: {reason}.")]
    told = next((fold.warning for fold in fits if fold.warning), "")
    notes += [Finding("note", f"It warned: {told}")] if told else []
    if not hasattr(one.model, "predict"):
        notes.append(Finding("note", "It labels only rows that it is fitted on, so it saw those it is judged on."))
    return tuple(notes)


def verdict_of(lines: Sequence[Line], task: str, metric: str) -> list[str]:
    """What to choose and why, and what went wrong, in sentences."""
    ranked = [line for line in lines if line.ranked and line.origin != "baseline"]
    words = metric.replace("_", " ")
    if not ranked:
        return [f"No model can be ranked by {words}; the table says why.", *_failures(lines)]
    first = ranked[0]
    if any(finding.kind == "weak" for finding in first.findings):
        return [f"No model does better than {_NOUNS[task]}: these columns may say nothing about it.", *_failures(lines)]
    score = first.scores[metric] if metric in first.scores else next(iter(first.scores.values()))
    known = f"{first.name} has the best {words}, {score.value:.4g} ± {score.stderr:.2g}"
    said = [f"{known}, and is the best of all with probability {100 * first.p_best:.0f} %."]
    near = [line for line in ranked[1:] if any(finding.kind == "good" for finding in line.findings)]
    said += _choice(first, near, words)
    weak = [line.name for line in ranked if any(finding.kind == "weak" for finding in line.findings)]
    said += [f"No better than {_NOUNS[task]}: {', '.join(weak)}."] if weak else []
    return [*said, *_calibrated(ranked, task), *_failures(lines)]


def _choice(first: Line, near: Sequence[Line], words: str) -> list[str]:
    if not near:
        return [f"Choose {first.name}: every other model is worse by more than chance explains."]
    names = ", ".join(line.name for line in near)
    quick = min((first, *near), key=lambda line: line.seconds)
    told = [f"By {words} {names} cannot be told apart from it."]
    if quick is first or quick.seconds > 0.5 * first.seconds:
        return [*told, f"Choose {first.name}, or whichever of these you understand best."]
    return [*told, f"Choose {quick.name} if time counts: it fits in {quick.seconds:.2g} s, not {first.seconds:.2g} s."]


def _calibrated(ranked: Sequence[Line], task: str) -> list[str]:
    known = [line for line in ranked if "calibration error" in line.extra]
    if not known or task == "cluster":
        return []
    best = min(known, key=lambda line: line.extra["calibration error"])
    off = 100 * best.extra["calibration error"]
    what = "its probabilities are" if task == "classify" else "the coverage of its 90 % intervals is"
    return [f"{best.name} is the best calibrated: {what} off by {off:.1f} points of a hundred."]


def _failures(lines: Sequence[Line]) -> list[str]:
    return [f"{line.name} {_VERBS[line.status]}: {line.reason}." for line in lines if line.status != "ok"]


_VERBS = {"failed": "failed", "not finite": "gave numbers that are not finite", "out of budget": "ran out of budget"}


# -- outcomes ------------------------------------------------------------------------------------------------


def outcomes_of(field: Sequence[Contestant], folds: Sequence[Fold], folder: Path | None) -> list[Outcome]:
    """One outcome a contestant and seed, over the folds of that seed."""
    found = []
    for one in field:
        fits = fits_of(folds, one.name)
        seeds = sorted({fold.seed for fold in fits})
        found += [merged([fold for fold in fits if fold.seed == seed], folder) for seed in seeds]
    return found


def merged(fits: Sequence[Fold], folder: Path | None = None) -> Outcome:
    """The fits of one contestant and seed as one outcome; seconds are of one fit, on average."""
    status, reason = _ending(list(fits))
    known = [fold.seconds for fold in fits if not math.isnan(fold.seconds)]
    held = [fold.memory for fold in fits if not math.isnan(fold.memory)]
    first = fits[0]
    return Outcome(
        first.name,
        first.seed,
        status,
        reason,
        float(np.mean(known)) if known else math.nan,
        memory=max(held) if held else math.nan,
        parameters=first.parameters,
        no_likelihood="a predictor has no likelihood of rows",
        folder=None if folder is None else folder / slug(first.name) / f"seed-{first.seed}",
    )
