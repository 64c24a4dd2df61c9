"""Pictures of clusters: rows and centers in a plane, the distortion of each pass, the choice of a number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benthic.pictures.canvas import new_figure

_SHOWN = 3000  # rows drawn


def draw_clusters(
    centers: np.ndarray, points: np.ndarray | None, labels: np.ndarray | None, distortions: np.ndarray | None
) -> Any:
    """Rows (n, d) by cluster with centers (k, d), both in the plane in which the centers spread most."""
    panels = 1 if distortions is None or len(distortions) < 2 else 2
    figure, axes = new_figure(5.0 * panels, 4.2, 1, panels)
    first = axes[0] if panels == 2 else axes
    names, project = _plane(centers)
    if points is not None and labels is not None:
        step = max(1, len(points) // _SHOWN)
        x, y = project(points[::step]).T
        first.scatter(x, y, c=labels[::step], s=6, cmap="tab20", alpha=0.7, linewidth=0)
    x, y = project(centers).T
    first.scatter(x, y, marker="X", s=70, color="black", edgecolor="white", linewidth=0.8)
    first.set(xlabel=names[0], ylabel=names[1], title=f"{len(centers)} clusters")
    if panels == 2:
        axes[1].plot(np.arange(1, len(distortions) + 1), distortions, marker="o", markersize=3)
        axes[1].set(xlabel="pass", ylabel="distortion", title="distortion of each pass")
    return figure


def _plane(centers: np.ndarray) -> tuple[tuple[str, str], Any]:
    """Names of two axes and the projection on them: the columns themselves if there are two, or leading directions."""
    d = centers.shape[1]
    if d == 1:
        return ("column 0", ""), lambda points: np.column_stack([points[:, 0], np.zeros(len(points))])
    if d == 2:
        return ("column 0", "column 1"), lambda points: points
    middle = centers.mean(0)
    axes = np.linalg.svd(centers - middle, full_matrices=False)[2][:2]
    if len(axes) < 2:
        axes = np.eye(d)[:2]
    return ("first direction", "second direction"), lambda points: (points - middle) @ axes.T


def draw_choice(found: Mapping[str, Any]) -> Any:
    """The criterion with its errors and the distortion for each number of clusters, the chosen one marked."""
    figure, axes = new_figure(8.4, 3.4, 1, 2)
    axes[0].errorbar(found["counts"], found["values"], yerr=found["errors"], marker="o", markersize=3, capsize=2)
    axes[0].set(xlabel="clusters", ylabel=found["criterion"], title=f"{found['best']} clusters by {found['criterion']}")
    axes[1].plot(found["counts"], found["distortions"], marker="o", markersize=3)
    axes[1].set(xlabel="clusters", ylabel="distortion", title="distortion")
    for each in axes:
        each.axvline(found["best"], color="0.6", linestyle="--", linewidth=0.9)
    return figure
