"""The report of a comparison: one self-contained HTML page that says what to choose, and shows why."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benthic.leaderboard.contest.showing import cells, charts, gallery, maps
from benthic.pictures.page import Page, Picture, Tags

if TYPE_CHECKING:
    from benthic.leaderboard.contest.results import Comparison

_TASKS = {
    "generate": "models that make new rows",
    "classify": "models that tell classes apart",
    "regress": "models that predict a number",
    "cluster": "models that find groups",
}
_SURE = {
    True: "Scores and ranks were computed again and again on rows and seeds drawn anew; the bars hold 95 % of what "
    "came out. Models whose bars overlap may well change places on other data.",
    False: "Every model saw the same folds, so what is hard about them cancels in the differences; the bars hold 95 % "
    "of what chance may have done. Models whose bars overlap may well change places on other data.",
}


def write_report(comparison: Comparison, path: str | Path, labels: Any = None) -> None:
    """Write the page of a comparison; an older one stays until this one is whole.

    labels: of the held-out rows, to color maps by.
    """
    report_page(comparison, labels).write(Path(path))


def report_page(comparison: Comparison, labels: Any = None) -> Page:
    """The page of a comparison, to be written or added to."""
    page = Page(f"Models compared on {comparison.data.name}", _subtitle(comparison))
    add_comparison(page, comparison, labels)
    return page


def add_comparison(page: Page, comparison: Comparison, labels: Any = None) -> None:
    """Verdict, table, pictures and details, below what the page has."""
    page.heading("What to choose")
    page.words(comparison.verdict or ("No model could be ranked; the table says why.",))
    _add_table(page, comparison)
    _section(page, "How sure the order is", _SURE[comparison.task == "generate"], _standings(comparison))
    if comparison.task == "generate":
        _section(page, "What they made", "", samples_pictures(comparison))
        _section(page, "Faithful, diverse, fast", "", _planes(comparison))
        _section(
            page,
            "How likely real rows are",
            "A bound, an estimate and an exact value are different things, and a density is not a mass: only models of "
            "one panel are ranked by their likelihood.",
            _one(
                "likelihood", "Log-likelihood", "Of rows that no model was fitted on.", charts.likelihoods(comparison)
            ),
        )
        _section(page, "What is inside", "", _inside(comparison, labels))
    _add_failures(page, comparison)
    _add_details(page, comparison)


def _section(page: Page, title: str, text: str, pictures: list[Picture]) -> None:
    if pictures:
        page.heading(title, text)
        page.pictures(pictures)


def _one(name: str, title: str, caption: str, figure: Any) -> list[Picture]:
    return [] if figure is None else [Picture(name, title, caption, figure)]


# -- words and numbers -------------------------------------------------------------------------------------


def _subtitle(comparison: Comparison) -> str:
    data = comparison.data
    shape = f"{data.columns} columns" if len(data.shape) < 2 else " × ".join(map(str, data.shape))
    spent = f"; made in {cells.time_words(comparison.seconds)}" if math.isfinite(comparison.seconds) else ""
    seeds = f"{len(comparison.seeds)} seed{'' if len(comparison.seeds) == 1 else 's'}"
    what = _TASKS.get(comparison.task, comparison.task)
    return f"{len(comparison.lines)} {what}; {data.rows} rows, {shape}; {comparison.budget}, {seeds}{spent}."


def _add_table(page: Page, comparison: Comparison) -> None:
    text = (
        "The score is the mean over the metrics, each scaled so that 0 is what real rows reach and 1 what the "
        "baseline does; lower is better. Values are followed by their standard errors."
        if comparison.task == "generate"
        else "Every value comes from rows the model was not fitted on and is followed by its standard error. The first "
        "metric ranks; the score is that metric on a scale from 0, perfect, to 1, guessing."
    )
    page.heading("All models", text)
    likely = any(line.likelihood is not None for line in comparison.lines)
    named = [f"{metric.replace('_', ' ')} {cells.arrow(comparison, metric)}" for metric in comparison.metrics]
    columns = ["rank", "model", "P(best)", "score", "fit", *named, *(["log-likelihood"] if likely else [])]
    rows = []
    for line in comparison.lines:
        row: list[Any] = [
            line.rank.replace("-", "–"),
            cells.tags_of(line),
            cells.chance(line),
            cells.score_cell(line),
            cells.time_words(line.seconds),
        ]
        row += [cells.metric_cell(line, metric) for metric in comparison.metrics]
        rows.append([*row, *([cells.likelihood_cell(line)] if likely else [])])
    page.table(columns, rows)


# -- pictures ----------------------------------------------------------------------------------------------


def _standings(comparison: Comparison) -> list[Picture]:
    found = _one(
        "ranks",
        "Scores and ranks",
        "Left the score with its interval, right the ranks each model may have, and how often it was the best.",
        charts.rank_intervals(comparison),
    )
    aim = "real rows" if comparison.task == "generate" else "a perfect answer"
    found += _one(
        "matrix",
        "Which metric sees what",
        f"The normalized score by metric: 0 (faint) is as good as {aim}, 1 as bad as the baseline.",
        charts.score_matrix(comparison),
    )
    if comparison.task != "generate":
        text = "Every metric with two standard errors; the dotted line is the baseline."
        found += _one("metrics", "Metrics", text, charts.metric_panels(comparison))
    return found


def samples_pictures(comparison: Comparison) -> list[Picture]:
    """Grids of pictures, points of the plane or columns of a table, whichever the data are."""
    found = _one(
        "samples",
        "Samples",
        "The first rows that each model made, not chosen; real ones above. All in the range of the data.",
        gallery.sample_grids(comparison),
    )
    if found:
        return found
    plane = comparison.data.columns == 2
    text = "Rows of each model over held-out ones in gray"
    text += "." if plane else ", seen from where held-out rows differ most."
    found = _one("plane", "Samples", text, gallery.plane_samples(comparison))
    text = "Strong color is likely. Where a model gives no density, that of its samples is drawn."
    found += _one("density", "Densities", text, maps.densities(comparison))
    if plane:
        return found
    text = "Every column of held-out rows and of as many rows from the model; the two should overlap."
    for name, figure in gallery.column_pictures(comparison).items():
        found += _one(f"columns-{name}", f"{name}: columns", text, figure)
    best = comparison.best
    if best is not None:
        text = f"Columns that depend most on each other, held out (gray) and from {best.name} (color)."
        found += _one("pairs", f"{best.name}: pairs of columns", text, gallery.pair_plot(comparison, best.name))
    return found


def _planes(comparison: Comparison) -> list[Picture]:
    found = _one(
        "precision-recall",
        "Precision and recall",
        "Up: its rows look real. Right: it makes all that is in the data. The star is what other real rows reach, "
        "squares are baselines, open marks are not ranked.",
        charts.precision_recall(comparison),
    )
    return found + _one(
        "time",
        "Quality against time",
        "Down is better, left is faster; the dashed line joins models that none beats in both.",
        charts.quality_against_time(comparison),
    )


def _inside(comparison: Comparison, labels: Any) -> list[Picture]:
    figure, missing = maps.latent_maps(comparison, None if labels is None else np.asarray(labels))
    text = "Held-out rows by the code each model gives them, seen from where codes differ most"
    text += "; colors are labels, which no model saw." if labels is not None else "."
    slow = "; ".join(f"{name}: {reason}" for name, reason in missing.items())
    return _one("latent", "Latent maps", f"{text} Not shown: {slow}." if slow else text, figure)


# -- the rest ----------------------------------------------------------------------------------------------


def _add_failures(page: Page, comparison: Comparison) -> None:
    failed = [o for o in comparison.outcomes if o.status != "ok"]
    lines = [line for line in comparison.lines if line.status != "ok" or (not line.ranked and line.reason)]
    if not failed and not lines:
        return
    page.heading("What went wrong", "These stay in the table, with the reason, so that nothing is hidden.")
    rows = [(o.name, str(o.seed), Tags(((o.status, "bad"),)), o.reason) for o in failed]
    said = {o.name for o in failed}
    rows += [
        (line.name, "all", Tags(((line.status if line.status != "ok" else "not ranked", "bad"),)), line.reason)
        for line in lines
        if line.name not in said
    ]
    page.table(("model", "seed", "", "reason"), rows)


def _add_details(page: Page, comparison: Comparison) -> None:
    floors = [
        (
            metric,
            f"{cells.short(comparison.floor.get(metric))} between real rows; 1 is {_reference(comparison, metric)}",
        )
        for metric in comparison.metrics
    ]
    if comparison.task == "generate" and floors:
        page.details("What 0 and 1 mean", floors)
    rows = [(line.name, cells.costs(line)) for line in comparison.lines if math.isfinite(line.seconds)]
    if rows:
        page.details("Time, memory, size", rows)
    if comparison.outcomes:
        page.details("All fits", [(f"{o.name}, seed {o.seed}", cells.fit_words(o)) for o in comparison.outcomes])
    settings: dict[str, Any] = {"task": comparison.task, "budget": comparison.budget, "seeds": comparison.seeds}
    if math.isfinite(comparison.overhead):
        settings["time beside the fits"] = f"{100 * comparison.overhead:.0f} % of the run"
    page.details("Settings", list({**settings, **comparison.settings}.items()))


def _scale(comparison: Comparison, metric: str) -> str:
    floor = cells.short(comparison.floor.get(metric))
    return f"0 is {floor}, reached between two halves of real rows; 1 is {_reference(comparison, metric)}"


def _reference(comparison: Comparison, metric: str) -> str:
    name = comparison.reference.get(metric, "")
    values = [line.scores[metric].baseline for line in comparison.lines if metric in line.scores]
    known = [value for value in values if math.isfinite(value)]
    return f"{name or 'the baseline'}{f' ({known[0]:.3g})' if known else ''}"
