"""A series and the fan of its forecast."""

from __future__ import annotations

from typing import Any

import numpy as np

from benthic.pictures.canvas import new_figure

_PANELS = 4
_SHADES = ("#d3e3f1", "#9fc5e2", "#64a2d0")  # from the widest interval to the narrowest


def draw_fan(recent: np.ndarray, mean: np.ndarray, spread: np.ndarray, level: float, title: str) -> Any:
    """Steps seen (t, d), expectations (h, d) and standard deviations (h, d) of those to come, in shades.

    The outermost shade holds a future number with probability ``level``, the inner ones with two and one thirds of it.
    """
    from scipy.stats import norm

    panels = min(recent.shape[1], _PANELS)
    figure, grid = new_figure(6.4, 1.0 + 2.0 * panels, panels, 1, squeeze=False, sharex=True)
    past, future = np.arange(1 - len(recent), 1), np.arange(0, len(mean) + 1)
    for j, axes in enumerate(grid[:, 0]):
        axes.plot(past, recent[:, j], color="0.25", linewidth=1.1)
        middle = np.concatenate([recent[-1:, j], mean[:, j]])
        width = np.concatenate([[0.0], spread[:, j]])
        for part, shade in zip((level, 2 * level / 3, level / 3), _SHADES, strict=True):
            half = norm.ppf(0.5 + 0.5 * part) * width
            axes.fill_between(future, middle - half, middle + half, color=shade, linewidth=0, label=f"{part:.0%}")
        axes.plot(future, middle, color="C0", linewidth=1.3)
        if recent.shape[1] > 1:
            axes.set_ylabel(f"number {j}")
    grid[0, 0].set_title(f"{title}: forecast of {len(mean)} steps", fontsize="medium")
    grid[0, 0].legend(frameon=False, fontsize="x-small", loc="upper left", title="holds", title_fontsize="x-small")
    grid[-1, 0].set_xlabel("steps from now")
    return figure
