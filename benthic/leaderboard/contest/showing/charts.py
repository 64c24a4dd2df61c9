"""Charts of a comparison: who ranks where, what it cost, which metric saw what."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from benthic.pictures.canvas import new_figure

if TYPE_CHECKING:
    from benthic.leaderboard.contest.records import Line
    from benthic.leaderboard.contest.results import Comparison

# told apart by people who see few colors (Okabe & Ito, 2008; Tol, 2021), and readable on white and on black
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#882255", "#117733", "#999933", "#332288")
_GRAY, _SOFT = "#7f8c99", "#aab4be"
_ENOUGH = 24  # models in one chart
_NEAR = ((6, 4), (6, -11), (-6, 4), (-6, -11), (0, 8), (0, -15), (6, 14), (-6, 14), (6, -22), (-6, -22))


def colors_of(comparison: Comparison) -> dict[str, str]:
    """One color a model, the same in every picture; baselines are gray."""
    own = [line.name for line in comparison.lines if line.origin != "baseline"]
    colors = {name: _COLORS[place % len(_COLORS)] for place, name in enumerate(own)}
    return colors | {line.name: _GRAY for line in comparison.lines if line.origin == "baseline"}


def rank_intervals(comparison: Comparison) -> Any:
    """Score and rank of every ranked model with their 95 % intervals, and its probability of being best."""
    lines = [line for line in comparison.lines if line.ranked and line.rank_low is not None][:_ENOUGH]
    if not lines:
        return None
    scored = any(math.isfinite(line.quality) for line in lines)
    height = 1.1 + 0.36 * len(lines)
    figure, axes = new_figure(8.6, height, 1, 2 if scored else 1, sharey=True, squeeze=False)
    colors = colors_of(comparison)
    if scored:
        _scores(axes[0, 0], lines, colors, comparison.task)
    ranks = axes[0, -1]
    for place, line in enumerate(lines):
        low, high = float(line.rank_low or 1), float(line.rank_high or line.rank_low or 1)
        style = {"color": colors[line.name], "linewidth": 7, "solid_capstyle": "round", "marker": "o", "markersize": 7}
        ranks.plot([low, high], [place, place], markeredgewidth=0, **style)
        if math.isfinite(line.p_best):
            ranks.annotate(
                f"{100 * line.p_best:.0f} %",
                (1.02, place),
                xycoords=("axes fraction", "data"),
                va="center",
                fontsize=8.5,
            )
    last = max(line.rank_high or 1 for line in lines)
    ranks.set(xlabel="rank (1 is best)", xlim=(0.6, last + 0.4))
    ranks.set_xticks(range(1, last + 1))
    ranks.grid(axis="x", color=_SOFT, alpha=0.3)
    ranks.annotate("is best", (1.02, 1.01), xycoords="axes fraction", fontsize=8.5, color=_GRAY, va="bottom")
    _names(axes[0, 0], [line.name for line in lines])
    return figure


def _scores(axes: Any, lines: Sequence[Line], colors: Mapping[str, str], task: str) -> None:
    for place, line in enumerate(lines):
        reach = _reach(line.quality, line.quality_low, line.quality_high)
        axes.errorbar(line.quality, place, xerr=reach, fmt="o", color=colors[line.name], capsize=3, markersize=6)
    ends = [line.quality_high if math.isfinite(line.quality_high) else line.quality for line in lines]
    words = ("real rows", "baseline") if task == "generate" else ("perfect", "guessing")
    for value, word in zip((0.0, 1.0), words, strict=True):
        axes.axvline(value, color=_GRAY, linewidth=1, linestyle=":")
        axes.annotate(
            word, (value, 1.01), xycoords=("data", "axes fraction"), fontsize=8.5, color=_GRAY, ha="center", va="bottom"
        )
    axes.set_xlabel("score, lower is better")
    axes.grid(axis="x", color=_SOFT, alpha=0.3)
    if max(ends) > 5:
        axes.set_xscale("symlog", linthresh=1.0)


def _names(axes: Any, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)


def score_matrix(comparison: Comparison) -> Any:
    """Normalized score of every model by every metric; faint is as good as real rows, strong as bad as the baseline."""
    lines = [line for line in comparison.lines if line.scores][:_ENOUGH]
    metrics = [m for m in comparison.metrics if any(_normalized(line, m) is not None for line in lines)]
    if not lines or not metrics:
        return None
    values = np.array([[_normalized(line, m) if m in line.scores else math.nan for m in metrics] for line in lines])
    values = values.astype(float)
    figure, axes = new_figure(2.6 + 0.95 * len(metrics), 1.3 + 0.34 * len(lines))
    axes.imshow(np.ma.masked_invalid(np.clip(values, 0, 1.5)), cmap="Oranges", vmin=0, vmax=1.5, aspect="auto")
    for (i, j), value in np.ndenumerate(values):
        text = "–" if not math.isfinite(value) else f"{value:.2f}" if abs(value) < 10 else f"{value:.0f}"
        axes.text(j, i, text, ha="center", va="center", fontsize=8.5, color="white" if value > 1 else "black")
    axes.set_xticks(range(len(metrics)), [m.replace("_", " ") for m in metrics], rotation=25, ha="left")
    axes.tick_params(top=True, bottom=False, labeltop=True, labelbottom=False, length=0)
    axes.set_yticks(range(len(lines)), [line.name for line in lines])
    for side in axes.spines.values():
        side.set_visible(False)
    return figure


def _normalized(line: Line, metric: str) -> float | None:
    score = line.scores.get(metric)
    return None if score is None or not math.isfinite(score.normalized) else score.normalized


def metric_panels(comparison: Comparison) -> Any:
    """Every metric in a panel of its own: the value of each model with two standard errors."""
    lines = [line for line in comparison.lines if line.scores][:_ENOUGH]
    metrics = [m for m in comparison.metrics if any(m in line.scores for line in lines)][:8]
    if not lines or not metrics:
        return None
    columns = min(3, len(metrics))
    rows = math.ceil(len(metrics) / columns)
    figure, grid = new_figure(
        1.6 + 2.6 * columns, rows * (0.9 + 0.3 * len(lines)), rows, columns, squeeze=False, sharey=True
    )
    colors = colors_of(comparison)
    for axes, metric in zip(grid.flat, metrics, strict=False):
        for place, line in enumerate(lines):
            score = line.scores.get(metric)
            if score is None or not math.isfinite(score.value):
                continue
            error = 2 * score.stderr if math.isfinite(score.stderr) else 0.0
            axes.errorbar(score.value, place, xerr=error, fmt="o", color=colors[line.name], capsize=2, markersize=5)
        known = [line.scores[metric] for line in lines if metric in line.scores]
        if math.isfinite(known[0].baseline):
            axes.axvline(known[0].baseline, color=_GRAY, linewidth=1, linestyle=":")
        axes.set_title(f"{metric.replace('_', ' ')} ({known[0].better} is better)", fontsize=9)
        axes.grid(axis="x", color=_SOFT, alpha=0.3)
    for axes in grid.flat[len(metrics) :]:
        axes.set_axis_off()
    _names(grid[0, 0], [line.name for line in lines])
    return figure


def number_of(line: Line, name: str) -> float:
    """A number of a line, whether it ranks or not; NaN where it has none."""
    score = line.scores.get(name)
    return float(line.extra.get(name, math.nan)) if score is None else score.value


def precision_recall(comparison: Comparison) -> Any:
    """Every model in the plane of recall (how much of the data it covers) and precision (how real its rows are)."""
    found = {line.name: (number_of(line, "recall"), number_of(line, "precision")) for line in comparison.lines}
    points = {name: point for name, point in found.items() if all(map(math.isfinite, point))}
    if len(points) < 2:
        return None
    figure, axes = new_figure(5.4, 4.6)
    floor = comparison.floor.get("recall", math.nan), comparison.floor.get("precision", math.nan)
    if all(map(math.isfinite, floor)):
        points = {**points, "real rows": floor}
    _points(axes, comparison, points)
    axes.set(
        xlabel="recall: share of the data the model can make", ylabel="precision: share of its rows that look real"
    )
    left, bottom = (max(-0.04, min(place) - 0.1) for place in zip(*points.values(), strict=True))
    axes.set(xlim=(left, 1.0 + 0.1 * (1 - left)), ylim=(bottom, 1.0 + 0.1 * (1 - bottom)))
    axes.grid(color=_SOFT, alpha=0.3)
    _label(figure, axes, points)
    return figure


def quality_against_time(comparison: Comparison) -> Any:
    """Every ranked model by the time of a fit and its score; the line joins those that none beats in both."""
    lines = [
        line for line in comparison.lines if math.isfinite(line.seconds) and math.isfinite(line.quality) and line.ranked
    ]
    if len(lines) < 2:
        return None
    figure, axes = new_figure(5.4, 4.6)
    points = {line.name: (max(line.seconds, 1e-3), line.quality) for line in lines}
    colors = colors_of(comparison)
    for line in lines:
        reach = _reach(line.quality, line.quality_low, line.quality_high)
        axes.errorbar(*points[line.name], yerr=reach, fmt="none", color=colors[line.name], alpha=0.5, capsize=2)
    _points(axes, comparison, points)
    front = _front(points.values())
    axes.plot(*np.array(front).T, color=_GRAY, linewidth=1, linestyle="--", zorder=0)
    axes.set_xscale("log")
    if max(y for _, y in points.values()) > 5:
        axes.set_yscale("symlog", linthresh=1.0)
    axes.margins(0.16, 0.12)
    _plain_ticks(axes)
    axes.set(xlabel="seconds a fit", ylabel="score, lower is better")
    axes.grid(color=_SOFT, alpha=0.3)
    _label(figure, axes, points)
    return figure


def _plain_ticks(axes: Any) -> None:
    """Plain numbers on a logarithmic axis."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axes.get_xlim()
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 60 * low else (1.0,), numticks=12))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _front(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Points that no other is both faster and better than, by time.

    >>> _front([(1.0, 5.0), (2.0, 6.0), (3.0, 1.0)])
    [(1.0, 5.0), (3.0, 1.0)]
    """
    found: list[tuple[float, float]] = []
    for point in sorted(points):
        if not found or point[1] < found[-1][1]:
            found.append(point)
    return found


def likelihoods(comparison: Comparison) -> Any:
    """Mean log-likelihood of held-out rows; only models of one panel may be compared by it."""
    groups: dict[str, list[Line]] = {}
    for line in comparison.lines:
        if line.likelihood is not None and math.isfinite(line.likelihood.value):
            groups.setdefault(line.likelihood.group, []).append(line)
    if not groups:
        return None
    sizes = [len(lines) for lines in groups.values()]
    figure, grid = new_figure(
        6.4,
        0.75 * len(groups) + 0.36 * sum(sizes) + 0.2,
        len(groups),
        1,
        squeeze=False,
        height_ratios=sizes,
        sharex=True,
    )
    colors = colors_of(comparison)
    for axes, (group, lines) in zip(grid[:, 0], groups.items(), strict=True):
        ordered = sorted(lines, key=_likely, reverse=True)
        for place, line in enumerate(ordered):
            found = line.likelihood
            if found is None:
                continue
            error = 2 * found.stderr if math.isfinite(found.stderr) else 0.0
            marker = {"lower": ">", "upper": "<"}.get(found.bound, "o")
            axes.errorbar(found.value, place, xerr=error, fmt=marker, color=colors[line.name], capsize=3, markersize=6)
        _names(axes, [line.name for line in ordered])
        bound = {"lower": ", a lower bound", "upper": ", an upper bound"}.get(_bound(ordered[0]), "")
        axes.set_title(f"{group}{bound}", fontsize=9, loc="left")
        axes.grid(axis="x", color=_SOFT, alpha=0.3)
    grid[-1, 0].set_xlabel("nats a row, higher is better; bars are two standard errors")
    return figure


def _bound(line: Line) -> str:
    return "" if line.likelihood is None else line.likelihood.bound


def _likely(line: Line) -> float:
    return -math.inf if line.likelihood is None else line.likelihood.value


# -- marks and names ---------------------------------------------------------------------------------------


def _reach(value: float, low: float, high: float) -> list[list[float]] | None:
    if not (math.isfinite(low) and math.isfinite(high)):
        return None
    return [[max(0.0, value - low)], [max(0.0, high - value)]]


def _points(axes: Any, comparison: Comparison, points: Mapping[str, tuple[float, float]]) -> None:
    """Full marks for ranked models, open ones for those that are not, squares for baselines, a star for real rows."""
    colors = colors_of(comparison)
    lines = {line.name: line for line in comparison.lines}
    for name, (x, y) in points.items():
        line = lines.get(name)
        if line is None:
            axes.scatter(x, y, marker="*", s=130, color="black", zorder=3)
            continue
        face = colors[name] if line.ranked else "none"
        marker = "s" if line.origin == "baseline" else "o"
        axes.scatter(x, y, marker=marker, s=46, facecolor=face, edgecolor=colors[name], linewidth=1.6, zorder=3)


def _label(figure: Any, axes: Any, points: Mapping[str, tuple[float, float]]) -> None:
    """Write every name beside its point, where it covers no other name and no point if there is such a place."""
    from matplotlib.transforms import Bbox

    figure.draw_without_rendering()
    scale = figure.dpi / 72
    marks = {name: axes.transData.transform(point) for name, point in points.items()}
    taken = [Bbox.from_bounds(x - 5 * scale, y - 5 * scale, 10 * scale, 10 * scale) for x, y in marks.values()]
    frame = axes.get_window_extent()
    for name, point in points.items():
        best: tuple[float, Any, Any] | None = None
        for dx, dy in _NEAR:
            side = "left" if dx > 0 else "right" if dx < 0 else "center"
            text = axes.annotate(name, point, (dx, dy), textcoords="offset points", ha=side, fontsize=8.5)
            box = text.get_window_extent()
            text.remove()
            cost = sum(_overlap(box, other) for other in taken) + 3 * (box.width * box.height - _overlap(box, frame))
            if best is None or cost < best[0]:
                best = (cost, (dx, dy, side), box)
            if cost <= 0:
                break
        if best is not None:
            (dx, dy, side), box = best[1], best[2]
            axes.annotate(name, point, (dx, dy), textcoords="offset points", ha=side, fontsize=8.5)
            taken.append(box)


def _overlap(first: Any, second: Any) -> float:
    width = min(first.x1, second.x1) - max(first.x0, second.x0)
    height = min(first.y1, second.y1) - max(first.y0, second.y0)
    return float(max(0.0, width) * max(0.0, height))
