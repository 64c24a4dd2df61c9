"""Many small pictures side by side, and points colored by class."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from benthic.pictures.canvas import new_figure


def image_grid(images: np.ndarray, columns: int = 10, title: str = "", rows_title: Sequence[str] = ()) -> Any:
    """Gray or color images (n, h, w), (n, 1, h, w) or (n, 3, h, w) in reading order."""
    images = np.asarray(images)
    if images.ndim == 4:
        images = images[:, 0] if images.shape[1] == 1 else np.moveaxis(images, 1, -1)
    n = len(images)
    columns = min(columns, n)
    rows = math.ceil(n / columns)
    figure, axes = new_figure(columns * 0.62, rows * 0.62 + 0.35 * bool(title), rows, columns, squeeze=False)
    low, high = float(images.min()), float(images.max())
    for i, cell in enumerate(axes.flat):
        cell.set_axis_off()
        if i < n:
            cell.imshow(images[i], cmap="gray_r", vmin=low, vmax=high)
    if title:
        figure.suptitle(title, fontsize="medium")
    for row, text in zip(axes, rows_title, strict=False):
        row[0].set_title(text, fontsize="x-small", loc="left")
    return figure


def scatter_map(points: np.ndarray, labels: np.ndarray | None = None, title: str = "", names: Any = None) -> Any:
    """The first two columns of ``points``, colored by label."""
    points = np.asarray(points)
    figure, axes = new_figure(4.8, 4.0)
    second = points[:, 1] if points.shape[1] > 1 else np.zeros(len(points))
    if labels is None:
        axes.scatter(points[:, 0], second, s=6, linewidth=0)
    else:
        for value in np.unique(labels):
            chosen = np.asarray(labels) == value
            axes.scatter(points[chosen, 0], second[chosen], s=7, linewidth=0, label=str(value))
        axes.legend(frameon=False, fontsize="x-small", markerscale=2)
    names = names or ("first", "second")
    axes.set(title=title, xlabel=str(names[0]), ylabel=str(names[1]))
    return figure
