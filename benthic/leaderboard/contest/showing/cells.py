"""Cells and phrases of the report of a comparison: numbers with errors, times, framed words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

from benthic.pictures.page import Short, Tags

if TYPE_CHECKING:
    from benthic.leaderboard.contest.records import Finding, Line, Outcome
    from benthic.leaderboard.contest.results import Comparison

_BAD = ("collapsed", "memorizes", "not finite", "failed", "out of budget", "unstable")


def tags_of(line: Line) -> Tags:
    """The name of a model and what there is to say of it, as framed words and sentences."""
    words: list[tuple[str, Literal["good", "bad", "plain"]]] = []
    if line.origin == "baseline":
        words.append(("baseline", "plain"))
    if line.status != "ok":
        words.append((line.status, "bad"))
    words += [(found.kind, _tone(found)) for found in line.findings if found.kind not in ("note", line.status)]
    if not line.ranked and line.status == "ok":
        words.append(("not ranked", "bad" if line.origin != "baseline" else "plain"))
    sentences = list(dict.fromkeys(f.text for f in line.findings)) or [line.reason]
    return Tags(tuple(dict.fromkeys(words)), " ".join(sentences), line.name)


def _tone(finding: Finding) -> Literal["good", "bad", "plain"]:
    return "good" if finding.kind in ("good", "best") else "bad" if finding.kind in _BAD else "plain"


def arrow(comparison: Comparison, metric: str) -> str:
    """Which way a metric gets better."""
    better = [line.scores[metric].better for line in comparison.lines if metric in line.scores]
    return "↑" if better and better[0] == "higher" else "↓"


def chance(line: Line) -> str:
    """The probability of being best."""
    return f"{100 * line.p_best:.0f} %" if line.ranked and math.isfinite(line.p_best) else "–"


def score_cell(line: Line) -> Any:
    """The score over all metrics, with its interval."""
    if not math.isfinite(line.quality):
        return "–"
    span = f"{line.quality_low:.2f} to {line.quality_high:.2f}" if math.isfinite(line.quality_low) else ""
    return Short(f"{line.quality:.2f}", span)


def metric_cell(line: Line, metric: str) -> Any:
    """The value of one metric, with its error."""
    score = line.scores.get(metric)
    if score is None or not math.isfinite(score.value):
        return "–"
    return Short(short(score.value), f"± {error_words(score.stderr)}" if score.stderr > 1e-12 else "")


def error_words(value: float) -> str:
    """Two digits of an error, never as a power of ten when it is large.

    >>> error_words(0.0234), error_words(123.4)
    ('0.023', '123')
    """
    return f"{value:.2g}" if value < 100 else f"{value:.0f}"


def likelihood_cell(line: Line) -> Any:
    """The likelihood as what it is: exact, a bound or an estimate, and how it was found."""
    found = line.likelihood
    if found is None or not math.isfinite(found.value):
        return "–"
    sign = {"lower": "≥ ", "upper": "≤ ", "estimate": "≈ "}.get(found.bound, "")
    return Short(f"{sign}{found.value:.4g} ± {error_words(found.stderr)}", found.manner)


def time_words(seconds: float) -> str:
    """A time in seconds or minutes; a dash where it is not known."""
    if not math.isfinite(seconds):
        return "–"
    if seconds < 0.01:
        return "<\u00a00.01\u00a0s"
    if seconds < 60:
        return f"{seconds:.2g}\u00a0s" if seconds < 10 else f"{seconds:.0f}\u00a0s"
    return f"{seconds // 60:.0f}\u00a0min {seconds % 60:.0f}\u00a0s"


def size_words(held: float) -> str:
    """So many bytes in megabytes."""
    return "–" if not math.isfinite(held) else f"{held / 2**20:.0f} MB"


def count_words(n: int | None) -> str:
    """A number with its thousands apart."""
    return "–" if n is None else f"{n:,}"


def costs(line: Line) -> str:
    """What a fit and its samples took."""
    parts = {
        "fit": time_words(line.seconds),
        "sampling": time_words(line.sample_seconds),
        "memory": size_words(line.memory),
        "parameters": count_words(line.parameters),
    }
    return ", ".join(f"{name} {text}" for name, text in parts.items() if text != "–")


def fit_words(outcome: Outcome) -> str:
    """How one fit ended."""
    text = f"{outcome.status}, {time_words(outcome.seconds)}"
    text += f", sampling {time_words(outcome.sample_seconds)}" if math.isfinite(outcome.sample_seconds) else ""
    text += f", {size_words(outcome.memory)}" if math.isfinite(outcome.memory) else ""
    return text + (f": {outcome.reason}" if outcome.reason else "")


def short(value: float | None) -> str:
    """Three digits of a number."""
    if value is None or not math.isfinite(value):
        return "unknown"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
