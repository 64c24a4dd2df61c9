"""The picture of a mixture of laws: every variable by itself, or directions in the plane."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.seeds import generator
from benthic.mixture.common import choose
from benthic.mixture.law import Law, Panel
from benthic.mixture.law_em import Components
from benthic.pictures.canvas import new_figure

_SHOWN = 6
_DRAWS = 4000
_POINTS = 300


def draw_margins(
    laws: Sequence[Law],
    components: Components,
    points: np.ndarray | None,
    features: Sequence[int] | None,
    names: list[str],
) -> Any:
    """A figure with one panel a variable: components in color, their sum in black, rows (n, width) below if given."""
    panels = sorted(((panel, i) for i, law in enumerate(laws) for panel in law.panels()), key=lambda p: p[0].columns)
    if not panels:
        return _directions(laws[0], components, points, names)
    chosen = list(range(min(len(panels), _SHOWN)) if features is None else features)
    for column in chosen:
        if not 0 <= column < len(panels):
            raise InvalidInput(f"features names column {column}, but there are {len(panels)}, counted from 0")
    across = min(3, len(chosen))
    down = math.ceil(len(chosen) / across)
    figure, grid = new_figure(3.2 * across + 0.6, 2.4 * down + 0.4, down, across, squeeze=False)
    for axes, number in zip(grid.flat, chosen, strict=False):
        panel, owner = panels[number]
        margin = _Margin(laws[owner], components, owner)
        values = margin.draws(panel, len(names)) if points is None else points[:, panel.columns]
        if panel.kind == "levels":
            _bars(axes, margin, panel, None if points is None else values, names)
        else:
            _curve(axes, margin, panel, values[:, 0], points is not None)
            axes.set_xlabel(names[panel.columns[0]])
    for axes in grid.flat[len(chosen) :]:
        axes.set_axis_off()
    figure.suptitle(f"{len(components.weights.value)} components")
    return figure


class _Margin:
    """One law of a mixture."""

    def __init__(self, law: Law, components: Components, number: int) -> None:
        self.law, self.parameters = law, components.parameters[number]
        self.weights = components.weights.value

    def draws(self, panel: Panel, width: int) -> np.ndarray:
        """Values of the mixture, which say where its columns have their mass."""
        noise = generator(0, "picture")
        which = choose(self.weights.expand(_DRAWS, -1), noise)
        drawn = self.law.draw(which, self.parameters, noise)
        return drawn[:, [self.law.columns.index(c) for c in panel.columns]].numpy()

    def __call__(self, panel: Panel, values: Tensor) -> np.ndarray:
        """What each component gives to values (x, columns of the panel), all else unknown, (k, x)."""
        X = torch.full((len(values), max(self.law.columns) + 1), torch.nan, dtype=torch.float64)
        X[:, panel.columns] = values
        log = self.law.kernel(self.law.read(X), self.parameters) + self.law.base(X)
        return (self.weights[:, None] * log.exp()).numpy()


def _curve(axes: Any, margin: _Margin, panel: Panel, values: np.ndarray, shown: bool) -> None:
    values = values[np.isfinite(values)]
    low, high = np.quantile(values, [0.002, 0.998]) if len(values) else (0.0, 1.0)
    counts, step = panel.kind == "counts", 1
    if counts:
        low, high = math.floor(low), math.ceil(high)
        step = math.ceil((high - low + 1) / _POINTS)
        x = np.arange(low, high + 1, step, dtype=float)
    else:
        x = np.linspace(low, high if high > low else low + 1, _POINTS)
    place = [margin.law.columns.index(c) for c in panel.columns]
    full = torch.from_numpy(x)[:, None].expand(-1, len(margin.law.columns))
    parts = margin(panel, margin.law.pull_in(full.clone())[:, place])
    if shown:
        bins = np.arange(low - 0.5, high + step, step) if counts else np.linspace(x[0], x[-1], 41)
        axes.hist(values, bins, density=True, color="0.85")
    style = {"marker": ".", "markersize": 3} if counts else {}
    for part in parts:
        axes.plot(x, part, linewidth=1.0, **style)
    axes.plot(x, parts.sum(0), color="black", linewidth=1.4, **style)
    axes.set_ylabel("mass" if counts else "density")


def _bars(axes: Any, margin: _Margin, panel: Panel, values: np.ndarray | None, names: list[str]) -> None:
    """Stacked shares of the components in every level."""
    if panel.levels:
        at, labels = torch.tensor(panel.levels)[:, None], [f"{level:g}" for level in panel.levels]
        title = names[panel.columns[0]]
    else:
        at = torch.eye(len(panel.columns))
        title, labels = _common(names, panel.columns)
    parts = margin(panel, at.double())
    place, bottom = np.arange(len(labels)), np.zeros(len(labels))
    for part in parts:
        axes.bar(place, part, 0.7, bottom)
        bottom += part
    if values is not None:
        codes = values[:, 0][:, None] == np.array(panel.levels) if panel.levels else values
        seen = ~np.isnan(values[:, 0])
        axes.plot(place, codes[seen].mean(0), "_", color="black", markersize=14)
    axes.set_xticks(place[:20], labels[:20], rotation=30 if max(map(len, labels)) > 4 else 0)
    axes.set(xlabel=title, ylabel="mass")


def _common(names: list[str], columns: list[int]) -> tuple[str, list[str]]:
    """The name of a variable and its levels, from encoded names such as ``city=Bern``."""
    parts = [names[column].partition("=") for column in columns]
    return parts[0][0], [level or name for name, _, level in parts]


def _directions(law: Law, components: Components, points: np.ndarray | None, names: list[str]) -> Any:
    """Directions in the plane of the first two columns, with the mean direction of each component as an arrow."""
    noise = generator(0, "picture")
    if points is None:
        which = choose(components.weights.value.expand(1000, -1), noise)
        points = law.draw(which, components.parameters[0], noise).numpy()
    unit = law.read(torch.from_numpy(np.asarray(points, dtype=np.float64))).numpy()
    directions = components.parameters[0]["direction"].numpy()
    figure, axes = new_figure(4.4, 4.4)
    axes.scatter(unit[:, 0], unit[:, 1], s=5, color="0.6", alpha=0.5, linewidth=0)
    for number, (direction, weight) in enumerate(zip(directions, components.weights.value.tolist(), strict=True)):
        axes.annotate(
            "", direction[:2], (0, 0), arrowprops={"arrowstyle": "->", "color": f"C{number}", "lw": 1 + 4 * weight}
        )
    axes.set(xlim=(-1.1, 1.1), ylim=(-1.1, 1.1), aspect="equal", xlabel=names[0], ylabel=names[1])
    axes.set_title(f"{len(directions)} components")
    return figure
