"""Pictures of predictors that keep their examples: class regions, and a curve through the targets."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.capabilities import to_numpy
from benthic.base.errors import InvalidInput
from benthic.pictures.canvas import new_figure

_GRID = 160
_MOST = 2000  # points drawn


def names_of(model: Any, width: int) -> list[str]:
    """Names of the encoded columns."""
    names = getattr(getattr(model, "schema_", None), "encoded_names", None)
    if names is None:
        names = getattr(model, "feature_names_in_", None)
    return [f"column {i}" for i in range(width)] if names is None else [str(name) for name in names]


def _check(model: Any, width: int, *columns: int) -> None:
    for column in columns:
        if not 0 <= column < width:
            raise InvalidInput(f"{type(model).__name__}.plot: there is no column {column}; it has {width}")


def _span(values: np.ndarray) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    margin = 0.06 * (high - low) or 1.0
    return low - margin, high + margin


def plot_regions(model: Any, rows: Tensor, features: tuple[int, int], codes: np.ndarray | None) -> Any:
    """Points (n, d) over two columns, colored by class, on the classes predicted around them."""
    width = rows.shape[1]
    features = features if width > 1 else (0, 0)
    _check(model, width, *features)
    if codes is None:
        codes = to_numpy(model._probabilities(rows).argmax(1))
    points = to_numpy(rows)
    first, second = points[:, features[0]], points[:, features[1]]
    across, up = np.linspace(*_span(first), _GRID), np.linspace(*_span(second), _GRID)
    grid = torch.as_tensor(np.tile(np.median(points, 0), (_GRID * _GRID, 1))).to(rows)
    a, b = np.meshgrid(across, up)
    grid[:, features[0]], grid[:, features[1]] = (torch.as_tensor(part.ravel()).to(rows) for part in (a, b))
    shown = to_numpy(model._probabilities(grid).argmax(1)).reshape(_GRID, _GRID)
    figure, axes = new_figure(5.4, 4.2)
    colors = [f"C{i % 10}" for i in range(len(model.classes_))]
    edges = np.arange(len(colors) + 1) - 0.5
    axes.contourf(across, up, shown, levels=edges, colors=colors, alpha=0.22)
    for code, label in enumerate(model.classes_):
        mine = np.flatnonzero(codes == code)[:_MOST]
        axes.scatter(first[mine], second[mine], s=14, color=colors[code], edgecolor="white", linewidth=0.4, label=label)
    names = names_of(model, width)
    axes.set(xlabel=names[features[0]], ylabel=names[features[1]], title=f"{model.n_neighbors} nearest neighbors")
    axes.legend(frameon=False, fontsize="x-small", loc="best")
    return figure


def plot_slice(model: Any, rows: Tensor, targets: Tensor, feature: int, level: float | None = None) -> Any:
    """Targets against one column, the prediction along it, and an interval where a level is given."""
    _check(model, rows.shape[1], feature)
    points, values = to_numpy(rows), to_numpy(targets).reshape(len(rows), -1)[:, 0]
    line = np.tile(np.median(points, 0), (4 * _GRID, 1))
    line[:, feature] = np.linspace(*_span(points[:, feature]), len(line))
    asked = torch.as_tensor(line).to(rows)
    curve = to_numpy(model._prediction(asked)).reshape(len(line), -1)[:, 0]
    figure, axes = new_figure(5.6, 3.6)
    shown = np.linspace(0, len(points) - 1, min(len(points), _MOST)).astype(int)
    axes.scatter(points[shown, feature], values[shown], s=9, color="0.55", linewidth=0, label="examples")
    axes.plot(line[:, feature], curve, color="C3", linewidth=1.5, label="prediction")
    if level is not None:
        low, high = to_numpy(model._interval(asked, level)).reshape(len(line), -1, 2)[:, 0].T
        axes.fill_between(line[:, feature], low, high, color="C3", alpha=0.15, linewidth=0, label=f"{level:.0%}")
    axes.set(xlabel=names_of(model, rows.shape[1])[feature], ylabel="target")
    axes.legend(frameon=False, fontsize="x-small")
    return figure
