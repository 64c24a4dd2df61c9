"""What the numbers say in plain words: what is wrong with a model, and which one to choose."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from benthic.leaderboard.contest.judging import Verdict
from benthic.leaderboard.contest.records import Budget, Finding, Line, Outcome

_COPIED_RATIO = 0.5  # of distances to training rows against held-out ones, below which a model is a copier
_COPIED_SHARE = 0.1  # of samples that are copies, beyond what held-out rows show
_SURE = 0.01
_MISSED = 0.4  # of the floor's coverage or precision, below which it is small
_REAL = 0.6  # of the floor's precision, from which on samples look real
_NARROW = 0.3  # of the spread of real rows
_REPEATED = 0.5  # of the distinct rows that held-out rows show
_TIED = 0.05  # probability of being best, from which on a model may be the best
_GOOD = 0.15  # normalized score that is nearly as good as real rows


def memorizes(seen: Sequence[Verdict], floor: Verdict) -> bool:
    """Whether most of a model's samples were found to hand back training rows.

    A sample does if it is surely nearer to training rows than chance allows, and by much: half the distance on average,
    or a tenth of the rows being copies beyond what held-out rows show.
    """
    found = [
        verdict.p_value <= _SURE
        and (verdict.ratio < _COPIED_RATIO * floor.ratio or verdict.copies > floor.copies + _COPIED_SHARE)
        for verdict in seen
    ]
    return bool(found) and sum(found) * 2 > len(found)


def collapsed(seen: Sequence[Verdict], floor: Verdict) -> str:
    """In what way samples are too much alike; empty if they are not."""
    cover, precise = (_relative(seen, floor, name) for name in ("coverage", "precision"))
    spread = _mean([verdict.spread for verdict in seen])
    distinct = _mean([verdict.distinct for verdict in seen]) / max(floor.distinct, 1e-300)
    if spread < _NARROW:
        return f"its samples have only {100 * spread:.0f} % of the spread of real rows"
    if distinct < _REPEATED:
        return f"only {100 * distinct * floor.distinct:.0f} % of its samples differ from one another"
    if cover < _MISSED and precise >= _REAL:
        return f"its samples look real but come near only {100 * cover * floor.scores['coverage'].value:.0f} % of them"
    return ""


def _relative(seen: Sequence[Verdict], floor: Verdict, name: str) -> float:
    return _mean([verdict.scores[name].value for verdict in seen]) / max(floor.scores[name].value, 1e-12)


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if len(values) else math.nan


def findings_of(
    line: Line, outcomes: Sequence[Outcome], seen: Sequence[Verdict], floor: Verdict
) -> tuple[Finding, ...]:
    """What there is to say of one model."""
    found: list[Finding] = []
    bad = [outcome for outcome in outcomes if outcome.status != "ok"]
    for status in dict.fromkeys(outcome.status for outcome in bad):
        some = [outcome for outcome in bad if outcome.status == status]
        share = "" if len(some) == len(outcomes) else f" in {len(some)} of {len(outcomes)} fits"
        found.append(Finding(status, f"{line.name} {_words(status)}{share}: {some[0].reason}."))
    if seen and memorizes(seen, floor):
        found.append(Finding("memorizes", f"{line.name} memorizes: {_copying(line)}; it is listed, not ranked."))
    way = collapsed(seen, floor) if seen else ""
    if line.origin == "baseline":
        return tuple(found)
    if way:
        found.append(Finding("collapsed", f"{line.name} has collapsed: {way}."))
    elif seen and _relative(seen, floor, "precision") < _MISSED and _relative(seen, floor, "coverage") < _MISSED:
        found.append(Finding("off the data", f"{line.name} makes rows that lie off the data."))
    if line.ranked and not found and line.quality <= _GOOD:
        found.append(Finding("good", f"{line.name} is nearly as good as held-out rows."))
    return tuple(found)


def _words(status: str) -> str:
    return {
        "failed": "failed",
        "out of budget": "ran out of budget",
        "not finite": "gave numbers that are not finite",
    }[status]


def _copying(line: Line) -> str:
    copies, ratio = line.extra["copies"], line.extra["memorization_ratio"]
    if copies >= 0.01:
        return f"{100 * copies:.0f} % of its samples are copies of training rows"
    return f"its samples are {ratio:.2f} times as far from training rows as from held-out ones"


# -- the whole ---------------------------------------------------------------------------------------------


def verdict_of(lines: Sequence[Line], budget: Budget) -> tuple[str, ...]:
    """Sentences that say what to choose and why, and what went wrong."""
    ranked = [line for line in lines if line.ranked]
    said = _choice(ranked, budget) if ranked else [_nobody(lines, budget)]
    troubles = [f.text for line in lines for f in line.findings if f.kind not in ("good", "best", "note")]
    return (*said, *_likelihoods(lines), *troubles)


def _nobody(lines: Sequence[Line], budget: Budget) -> str:
    if lines and all(line.status == "out of budget" for line in lines):
        return f"No model was done within {budget}; a larger budget is needed."
    return "No model can be ranked; what went wrong with each is said below."


def _choice(ranked: Sequence[Line], budget: Budget) -> list[str]:
    first = ranked[0]
    said = [f"Choose {first.name}: {_standing(first)}."]
    ties = [line for line in ranked[1:] if line.p_best >= _TIED]
    if ties:
        names = ", ".join(f"{line.name} ({100 * line.p_best:.0f} %)" for line in ties)
        said.append(f"It cannot be told apart for sure from {names}; more seeds or rows would.")
        quick = min([first, *ties], key=lambda line: line.seconds if line.seconds == line.seconds else math.inf)
        if quick is not first and quick.seconds < 0.5 * first.seconds:
            said.append(f"Of these {quick.name} is the quickest, {quick.seconds:.2g} s a fit.")
    models = [line for line in ranked if line.origin != "baseline"]
    if first.origin == "baseline" and models:
        said.append(
            f"That is a baseline: under {budget} no other model beats it; the best of them is {models[0].name}."
        )
    return said


def _standing(line: Line) -> str:
    ranks = f"rank {line.rank}" if line.rank_low == line.rank_high else f"rank {line.rank_low} to {line.rank_high}"
    return (
        f"{ranks}, the best with probability {100 * line.p_best:.0f} %, score {line.quality:.2f} "
        "(0 is as good as held-out rows, 1 as bad as the baseline)"
    )


def _likelihoods(lines: Sequence[Line]) -> list[str]:
    """The best likelihood of every kind that at least two models share, and what bounds prove."""
    said = []
    groups = dict.fromkeys(line.likelihood.group for line in lines if line.likelihood and line.ranked)
    for group in groups:
        members = [line for line in lines if line.ranked and line.likelihood and line.likelihood.group == group]
        if len(members) < 2:
            continue
        best = max(members, key=lambda line: line.likelihood.value if line.likelihood else -math.inf)
        score = best.likelihood
        if score is not None:
            chance = f", the best with probability {100 * score.p_best:.0f} %" if score.p_best == score.p_best else ""
            said.append(
                f"Of the {len(members)} likelihoods of kind {group}, that of {best.name} is largest: "
                f"{score.value:.4g} nats a row{chance}."
            )
    wins = {line.name: line.likelihood.wins for line in lines if line.likelihood is not None and line.likelihood.wins}
    return said + [
        f"The likelihood of {name} is certainly above that of {', '.join(others)}: its lower bound exceeds their exact "
        "values."
        for name, others in wins.items()
    ]
