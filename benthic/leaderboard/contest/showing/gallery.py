"""What the models of a comparison made: pictures in rows, points of a plane, columns of a table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from benthic.base.schema import is_frame
from benthic.leaderboard.contest.showing.charts import colors_of
from benthic.pictures.canvas import new_figure
from benthic.pictures.marginals import columns_of, marginals
from benthic.pictures.plane import box_around

if TYPE_CHECKING:
    from benthic.leaderboard.contest.results import Comparison

_MODELS = 12  # in one picture
_POINTS = 700  # drawn of each
_REAL = "real, held out"
_ACROSS, _DOWN = 16, 2  # pictures of each model


def image_shape(comparison: Comparison) -> tuple[int, int] | None:
    """Height and width where rows are pictures, flat or not."""
    shape = comparison.data.shape
    known = tuple(shape[-2:]) if len(shape) == 3 else comparison.settings.get("image")
    return None if known is None else (int(known[0]), int(known[1]))


def shown(comparison: Comparison) -> dict[str, Any]:
    """Rows that each model made, in the order of the table."""
    first = {outcome.name: outcome.samples for outcome in reversed(comparison.outcomes) if outcome.samples is not None}
    return {line.name: first[line.name] for line in comparison.lines if line.name in first}


def sample_grids(comparison: Comparison) -> Any:
    """Pictures of every model in rows of their own, real ones above."""
    size, made = image_shape(comparison), shown(comparison)
    if size is None or comparison.real is None or not made:
        return None
    rows = {_REAL: comparison.real, **dict(list(made.items())[:_MODELS])}
    images = {name: _images(values, size) for name, values in rows.items()}
    real = images[_REAL]
    low, high = (float(value) for value in np.nanquantile(real, [0.0, 1.0]))
    down = _DOWN if size[0] * _ACROSS < 1200 else 1
    height = 0.2 + (0.56 * down + 0.1) * len(images)
    figure, grid = new_figure(10.2, height, len(images), 2, squeeze=False, width_ratios=(1.5, 8.7))
    for (beside, cell), (name, values) in zip(grid, images.items(), strict=True):
        cell.imshow(_mosaic(values[: _ACROSS * down], low, high), cmap="gray_r", vmin=low, vmax=high, aspect="equal")
        weight = "bold" if name == _REAL else "normal"
        beside.text(1.0, 0.5, fill(name, 18), ha="right", va="center", fontsize=10, weight=weight)
        cell.set_axis_off()
        beside.set_axis_off()
    return figure


def _images(values: Any, size: tuple[int, int]) -> np.ndarray:
    """(n, h, w) gray or (n, h, w, 3)."""
    array = np.asarray(values, dtype=float)
    array = array.reshape(len(array), -1, *size)
    return array[:, 0] if array.shape[1] != 3 else np.moveaxis(array, 1, -1)


def _mosaic(images: np.ndarray, low: float, high: float) -> np.ndarray:
    """Pictures in reading order with a thin frame of ground between them, inside the range of the data."""
    images = np.clip(np.nan_to_num(images, nan=low), low, high)
    if images.ndim == 4:
        images = (images - low) / max(high - low, 1e-12)
    ground = 1.0 if images.ndim == 4 else low
    across = min(_ACROSS, len(images))
    down = math.ceil(len(images) / across)
    gap = max(1, images.shape[1] // 10)
    height, width = images.shape[1] + gap, images.shape[2] + gap
    sheet = np.full((down * height - gap, across * width - gap, *images.shape[3:]), ground)
    for i, image in enumerate(images):
        top, left = i // across * height, i % across * width
        sheet[top : top + images.shape[1], left : left + images.shape[2]] = image
    return sheet


def numbers_of(columns: Mapping[str, Sequence[Any]], like: Mapping[str, Sequence[Any]]) -> np.ndarray:
    """Rows as numbers (n, d): columns of numbers in standard deviations of ``like``, others a column for each value.

    >>> numbers_of({"a": [1.0, 3.0], "b": ["x", "y"]}, {"a": [1.0, 3.0], "b": ["x", "y"]})
    array([[-1.,  1.,  0.],
           [ 1.,  0.,  1.]])
    """
    parts = []
    for name, known in like.items():
        if _is_number(known):
            real = np.array([math.nan if v is None else v for v in known], dtype=float)
            values = np.array([math.nan if v is None else v for v in columns[name]], dtype=float)
            mean, spread = np.nanmean(real), np.nanstd(real)
            parts.append(np.nan_to_num((values - mean) / (spread if spread > 0 else 1.0))[:, None])
        else:
            kinds = sorted(set(map(str, known)))[:30]
            parts.append((np.array(list(map(str, columns[name])))[:, None] == np.array(kinds)).astype(float))
    return np.concatenate(parts, 1)


def _is_number(values: Sequence[Any]) -> bool:
    return all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values if v is not None)


def plane_samples(comparison: Comparison) -> Any:
    """Rows of every model over real ones: in the plane they lie in, or seen from where real rows differ most."""
    made = shown(comparison)
    if comparison.real is None or not made:
        return None
    names = comparison.settings.get("columns", ())
    real = columns_of(comparison.real, names)
    like = numbers_of(real, real)
    plane = like.shape[1] == 2 and not is_frame(comparison.real)
    base = np.asarray(comparison.real, dtype=float).reshape(len(like), -1) if plane else like
    turn = np.eye(2) if plane else np.linalg.svd(base - base.mean(0), full_matrices=False)[2][:2].T
    if turn.shape[1] < 2:
        return None
    center = np.zeros(2) if plane else base.mean(0) @ turn
    points = {}
    for name, values in list(made.items())[:_MODELS]:
        own = np.asarray(values, dtype=float) if plane else numbers_of(columns_of(values, names), real)
        points[name] = own.reshape(len(own), -1) @ turn - center
    labels = ("", "") if not plane else tuple(map(str, real))
    return small_planes(base @ turn - center, points, colors_of(comparison), labels)


def small_planes(
    real: np.ndarray, points: Mapping[str, np.ndarray], colors: Mapping[str, str], labels: tuple[str, ...] = ("", "")
) -> Any:
    """Points of every model over real ones in gray, all on the same scales; the outermost of either are cut off."""
    figure, grid = small_grid(len(points))
    low, high = np.nanquantile(real, [0.002, 0.998], axis=0)
    box = box_around(np.stack([low, high]), 0.15)
    for axes, (name, own) in zip(grid.flat, points.items(), strict=False):
        axes.scatter(*real[:_POINTS, :2].T, s=4, color="#b4bcc4", linewidth=0)
        axes.scatter(*own[:_POINTS, :2].T, s=4, color=colors[name], alpha=0.65, linewidth=0)
        axes.set_title(name, fontsize=9)
        axes.set(xlim=box[:2], ylim=box[2:], xticks=[], yticks=[], xlabel=labels[0], ylabel=labels[1])
    return figure


def small_grid(n: int) -> tuple[Any, Any]:
    """Axes for so many small pictures, the rest left empty."""
    columns = min(4, n)
    rows = math.ceil(n / columns)
    side = 2.35 if n > 3 else 3.0
    figure, grid = new_figure(side * columns, (side - 0.1) * rows, rows, columns, squeeze=False)
    for axes in grid.flat[n:]:
        axes.set_axis_off()
    return figure, grid


def column_pictures(comparison: Comparison, most: int = 3) -> dict[str, Any]:
    """Every column of the data beside that of the best models, by model."""
    made, names = shown(comparison), comparison.settings.get("columns", ())
    if comparison.real is None:
        return {}
    chosen = [line.name for line in comparison.lines if line.ranked and line.origin != "baseline" and line.name in made]
    real = columns_of(comparison.real, names)
    return {name: marginals(real, columns_of(made[name], names), ("held out", name)) for name in chosen[:most]}


def pair_plot(comparison: Comparison, name: str, most: int = 4) -> Any:
    """Pairs of the columns that depend most on each other, real rows in gray below those of a model."""
    made = shown(comparison)
    names = comparison.settings.get("columns", ())
    if comparison.real is None or name not in made:
        return None
    real, own = columns_of(comparison.real, names), columns_of(made[name], names)
    numeric = {key: _floats(values) for key, values in real.items() if _is_number(values)}
    numeric = {key: values for key, values in numeric.items() if np.nanstd(values) > 0}
    if len(numeric) < 3:
        return None
    chosen = _dependent(numeric, most)
    side = len(chosen)
    figure, grid = new_figure(1.9 * side, 1.8 * side, side, side, squeeze=False)
    color = colors_of(comparison)[name]
    for (i, j), axes in np.ndenumerate(grid):
        first, second = chosen[j], chosen[i]
        pairs = ((numeric[first], numeric[second], "#b4bcc4"), (_floats(own[first]), _floats(own[second]), color))
        low, high = np.nanquantile(numeric[first], [0.002, 0.998])
        edges = np.linspace(low, high if high > low else low + 1, 25)
        for x, y, shade in pairs:
            if i == j:
                axes.hist(x[np.isfinite(x)], edges, density=True, color=shade, alpha=0.6)
            else:
                axes.scatter(x[:_POINTS], y[:_POINTS], s=7, color=shade, alpha=0.7, linewidth=0)
        axes.set(xlim=(low, high), xticks=[], yticks=[])
        if i != j:
            axes.set_ylim(*np.nanquantile(numeric[second], [0.002, 0.998]))
        axes.set_xlabel(first if i == side - 1 else "", fontsize=8.5)
        axes.set_ylabel(second if j == 0 else "", fontsize=8.5)
    return figure


def _floats(values: Sequence[Any]) -> np.ndarray:
    return np.array([math.nan if v is None else v for v in values], dtype=float)


def _dependent(columns: Mapping[str, np.ndarray], most: int) -> list[str]:
    """Names of the columns with the largest correlations to any other, in their order."""
    names = list(columns)
    table = np.nan_to_num(np.stack([columns[name] for name in names]))
    strength = np.abs(np.nan_to_num(np.corrcoef(table)) - np.eye(len(names))).max(0)
    best = sorted(np.argsort(-strength, kind="stable")[:most].tolist())
    return [names[k] for k in best]
