"""Points of the plane: a density under them, ellipses over them, two sets beside each other."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benthic.pictures.canvas import new_figure

Box = tuple[float, float, float, float]


def box_around(points: np.ndarray, margin: float = 0.08) -> Box:
    """(left, right, bottom, top) with some air around the points."""
    low, high = points.min(0), points.max(0)
    air = margin * np.maximum(high - low, 1e-12)
    low, high = low - air, high + air
    return float(low[0]), float(high[0]), float(low[1]), float(high[1])


def density_map(axes: Any, log_prob: Callable[[np.ndarray], np.ndarray], box: Box, cells: int = 160) -> None:
    """Color a plane by exp(log_prob) of its points (n, 2)."""
    x, y = np.linspace(*box[:2], cells), np.linspace(*box[2:], cells)
    grid = np.stack(np.meshgrid(x, y), -1).reshape(-1, 2)
    values = np.exp(np.asarray(log_prob(grid))).reshape(cells, cells)
    axes.imshow(values, origin="lower", extent=box, cmap="Blues", aspect="auto", interpolation="bilinear")
    axes.set(xlim=box[:2], ylim=box[2:])


def ellipses(axes: Any, means: np.ndarray, covariances: np.ndarray, weights: np.ndarray | None = None) -> None:
    """One and two standard deviations of Gaussians: means (k, 2), covariances (k, 2, 2), weights (k,)."""
    from matplotlib.patches import Ellipse

    for k, (mean, covariance) in enumerate(zip(means, covariances, strict=True)):
        lengths, directions = np.linalg.eigh(covariance)  # ascending
        angle = math.degrees(math.atan2(directions[1, 1], directions[0, 1]))
        for reach in (1.0, 2.0):
            size = 2 * reach * np.sqrt(np.maximum(lengths, 0))
            axes.add_patch(
                Ellipse(
                    mean,
                    size[1],
                    size[0],
                    angle=angle,
                    fill=False,
                    edgecolor=f"C{k % 10}",
                    linewidth=1.4 / reach,
                )
            )
        size = 20 if weights is None else 15 + 60 * float(weights[k])
        axes.scatter(*mean, s=size, color=f"C{k % 10}", marker="x", linewidth=1.2)


def side_by_side(first: np.ndarray, second: np.ndarray, titles: Sequence[str]) -> Any:
    """Two sets of points on the same scales."""
    figure, both = new_figure(7.0, 3.4, 1, 2, sharex=True, sharey=True)
    box = box_around(np.asarray(first, dtype=float))
    for axes, points, title in zip(both, (first, second), titles, strict=True):
        axes.scatter(points[:, 0], points[:, 1], s=5, alpha=0.6, linewidth=0)
        axes.set(title=title, xlim=box[:2], ylim=box[2:])
    return figure
