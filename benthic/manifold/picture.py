"""Pictures of projections."""

from __future__ import annotations

from typing import Any

import numpy as np

from benthic.pictures.canvas import new_figure


def draw_spectrum(ratio: np.ndarray, codes: np.ndarray | None) -> Any:
    """Bars of the share of variance of each direction and its running sum; rows in the first plane, if given."""
    panels = 2 if codes is not None and codes.shape[1] > 1 else 1
    figure, axes = new_figure(4.6 * panels, 3.8, 1, panels)
    first = axes[0] if panels == 2 else axes
    at = np.arange(1, len(ratio) + 1)
    first.bar(at, ratio, color="0.75")
    first.plot(at, np.cumsum(ratio), marker="o", markersize=3, color="C0")
    first.set(xlabel="direction", ylabel="share of variance", title="each and together", ylim=(0, 1.02))
    if panels == 2:
        axes[1].scatter(codes[:, 0], codes[:, 1], s=6, alpha=0.6, linewidth=0)
        axes[1].set(xlabel="first direction", ylabel="second direction", title="rows")
    return figure


def draw_plane(codes: np.ndarray, labels: np.ndarray | None, title: str, names: tuple[str, str] = ("", "")) -> Any:
    """Rows in a plane, (n, m), by label if given; one direction is drawn as a histogram."""
    figure, axes = new_figure(5.4, 4.4)
    groups = [None] if labels is None else list(np.unique(labels))
    for i, group in enumerate(groups):
        chosen = slice(None) if labels is None else labels == group
        name = None if labels is None or len(groups) > 20 else str(group)
        if codes.shape[1] == 1:
            axes.hist(codes[chosen, 0], bins=40, alpha=0.6, label=name)
        else:
            axes.scatter(
                codes[chosen, 0], codes[chosen, 1], s=7, alpha=0.7, linewidth=0, color=f"C{i % 10}", label=name
            )
    if labels is not None and len(groups) <= 20:
        axes.legend(frameon=False, fontsize=8, markerscale=2)
    axes.set(title=title, xlabel=names[0], ylabel=names[1])
    return figure
