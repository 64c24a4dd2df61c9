"""A directed acyclic graph in layers: parents above children, bars of probabilities inside the nodes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from benthic.pictures.canvas import new_figure

Bars = Mapping[str, tuple[np.ndarray, Sequence[Any] | None]]
Size = tuple[float, float]
_GAP, _DROP, _BEND = 0.4, 0.6, 0.14  # inches between nodes, between layers, and for an arrow that passes by


def plot_dag(
    layers: Sequence[Sequence[str]],
    parents: Mapping[str, Sequence[str]],
    *,
    bars: Bars | None = None,
    shaded: Collection[str] = (),
) -> Any:
    """A picture of a graph; arrows that skip a layer go around the nodes there.

    layers: names from top to bottom, each below its parents. parents: from name to the names with arrows to it.
    bars: from name to probabilities of its states and their names (or None). shaded: names drawn gray.
    Sugiyama, Tagawa & Toda, 1981.
    """
    bars = bars or {}
    wide = max([len(name) for row in layers for name in row] + [6]) * 0.1 + 0.35
    size = {name: _size(bars.get(name), wide) for row in layers for name in row}
    heights = [max(size[name][1] for name in row) for row in layers]
    rows, routes = _routes(layers, parents)
    _uncross(rows, routes)
    place, width = _places(rows, heights, size)
    total = sum(heights) + _DROP * (len(rows) - 1)
    figure, axes = new_figure(max(2.4, width + 0.4), max(1.6, total + 0.5))
    for route in routes:
        _arrow(axes, route, place, size, heights)
    for name in size:
        _node(axes, name, place[name], size[name], bars.get(name), name in shaded)
    axes.set(xlim=(-0.5 * width - 0.1, 0.5 * width + 0.1), ylim=(-total - 0.15, 0.15), aspect="equal")
    axes.axis("off")
    return figure


def _size(bar: tuple[np.ndarray, Any] | None, wide: float) -> Size:
    """Width and height of a node in inches."""
    return (wide, 0.42) if bar is None else (max(wide, 1.5), 0.42 + 0.2 * len(bar[0]))


def _routes(
    layers: Sequence[Sequence[str]], parents: Mapping[str, Sequence[str]]
) -> tuple[list[list[Any]], list[list[Any]]]:
    """Layers with a place kept for every arrow that passes, and arrows as paths from layer to layer."""
    depth = {name: i for i, row in enumerate(layers) for name in row}
    rows: list[list[Any]] = [list(row) for row in layers]
    routes: list[list[Any]] = []
    for name in depth:
        for parent in parents[name]:
            passed = [(parent, name, i) for i in range(depth[parent] + 1, depth[name])]
            for stop in passed:
                rows[stop[2]].append(stop)
            routes.append([parent, *passed, name])
    return rows, routes


def _uncross(rows: list[list[Any]], routes: Sequence[Sequence[Any]]) -> None:
    """Sort every layer by the mean place of its neighbors in the next one, downwards and upwards."""
    above: dict[Any, list[Any]] = {item: [] for row in rows for item in row}
    below: dict[Any, list[Any]] = {item: [] for row in rows for item in row}
    for route in routes:
        for upper, lower in pairwise(route):
            above[lower].append(upper)
            below[upper].append(lower)
    for _ in range(6):
        for row in rows[1:]:
            _by_neighbors(row, rows, above)
        for row in rows[-2::-1]:
            _by_neighbors(row, rows, below)


def _by_neighbors(row: list[Any], rows: Sequence[Sequence[Any]], neighbors: Mapping[Any, Sequence[Any]]) -> None:
    place = {item: (i + 0.5) / len(items) for items in rows for i, item in enumerate(items)}

    def mean(item: Any) -> float:
        around = [place[other] for other in neighbors[item]]
        return sum(around) / len(around) if around else place[item]

    row.sort(key=mean)


def _places(
    rows: Sequence[Sequence[Any]], heights: Sequence[float], size: Mapping[str, Size]
) -> tuple[dict[Any, tuple[float, float]], float]:
    """Centers of nodes and of passing arrows, and the width of the widest layer."""
    place, y, widest = {}, 0.0, 0.0
    for row, height in zip(rows, heights, strict=True):
        widths = [size[item][0] if item in size else _BEND for item in row]
        total = sum(widths) + _GAP * (len(row) - 1)
        x = -0.5 * total
        for item, width in zip(row, widths, strict=True):
            place[item] = (x + 0.5 * width, y - 0.5 * height)
            x += width + _GAP
        y -= height + _DROP
        widest = max(widest, total)
    return place, widest


def _arrow(
    axes: Any,
    route: Sequence[Any],
    place: Mapping[Any, tuple[float, float]],
    size: Mapping[str, Size],
    heights: Sequence[float],
) -> None:
    """From the lower side of a node to the upper side of another, upright past the nodes between."""
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path

    start, end = route[0], route[-1]
    first, last = place[route[1]][0], place[route[-2]][0]
    tail = _foot(place[start], size[start], first, -0.5)
    head = _foot(place[end], size[end], last, 0.5)
    points, codes = [tail], [Path.MOVETO]
    for stop in route[1:-1]:
        x, y = place[stop]
        half, bend = 0.5 * heights[stop[2]], 0.5 * _DROP
        before = points[-1]
        points += [(before[0], before[1] - bend), (x, y + half + bend), (x, y + half), (x, y - half)]
        codes += [Path.CURVE4] * 3 + [Path.LINETO]
    if len(route) > 2:
        before = points[-1]
        points += [(before[0], before[1] - 0.5 * _DROP), (head[0], head[1] + 0.5 * _DROP), head]
        codes += [Path.CURVE4] * 3
    else:
        points, codes = [tail, head], [Path.MOVETO, Path.LINETO]
    axes.add_patch(
        FancyArrowPatch(path=Path(points, codes), arrowstyle="-|>", mutation_scale=11, color="0.35", linewidth=1.1)
    )


def _foot(center: tuple[float, float], size: Size, towards: float, side: float) -> tuple[float, float]:
    """Where an arrow leaves or meets a node: on its side, a little towards the other end."""
    lean = max(-0.35 * size[0], min(0.35 * size[0], 0.25 * (towards - center[0])))
    return center[0] + lean, center[1] + side * size[1]


def _node(axes: Any, name: str, center: tuple[float, float], size: Size, bar: tuple | None, shaded: bool) -> None:
    from matplotlib.patches import FancyBboxPatch

    (x, y), (width, height) = center, size
    axes.add_patch(
        FancyBboxPatch(
            (x - 0.5 * width, y - 0.5 * height),
            width,
            height,
            boxstyle="round,pad=0,rounding_size=0.12",
            facecolor="0.86" if shaded else "white",
            edgecolor="0.2",
            linewidth=1.2,
        )
    )
    top = y + 0.5 * height
    axes.text(x, top - 0.21, name, ha="center", va="center", fontsize=9, weight="bold" if bar else "normal")
    if bar is None:
        return
    probabilities, labels = bar
    left, most = x - 0.02, 0.5 * width - 0.32
    for i, p in enumerate(probabilities):
        level = top - 0.42 - 0.2 * i - 0.06
        text = str(labels[i]) if labels is not None else str(i)
        axes.text(left - 0.05, level, text, ha="right", va="center", fontsize=7)
        axes.barh(level, most * float(p), left=left, height=0.13, color="C0")
        axes.text(left + most * float(p) + 0.04, level, f"{float(p):.2f}", ha="left", va="center", fontsize=6.5)
