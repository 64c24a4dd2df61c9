"""The picture of a density over one or two columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benthic.pictures.canvas import new_figure
from benthic.pictures.plane import box_around, density_map


def draw_density(log_density: Callable[[np.ndarray], np.ndarray], points: np.ndarray, label: str) -> Any:
    """A figure of exp(log_density) around points (n, 1) or (n, 2), with the points."""
    if points.shape[1] == 1:
        return _curve(log_density, points, label)
    figure, axes = new_figure(5.2, 4.4)
    density_map(axes, log_density, box_around(points), cells=100)
    axes.scatter(*points.T, s=4, color="C1", alpha=0.6, linewidth=0, label=label)
    axes.legend(loc="upper right", fontsize="small")
    axes.set(title="density of the flow")
    return figure


def _curve(log_density: Callable[[np.ndarray], np.ndarray], points: np.ndarray, label: str) -> Any:
    low, high = points.min(), points.max()
    air = 0.1 * max(high - low, 1e-12)
    x = np.linspace(low - air, high + air, 300)
    figure, axes = new_figure(5.2, 3.4)
    axes.hist(points[:, 0], bins=40, density=True, color="0.85", label=label)
    axes.plot(x, np.exp(log_density(x[:, None])), color="C0", linewidth=1.4)
    axes.legend(loc="upper right", fontsize="small")
    axes.set(ylabel="density", title="density of the flow")
    return figure
