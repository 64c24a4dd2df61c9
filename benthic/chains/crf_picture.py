"""The weights of a chain field as two tables of colors."""

from __future__ import annotations

from typing import Any

import numpy as np

from benthic.pictures.canvas import new_figure

_FEATURES = 30  # columns that are shown, those of the largest weights


def draw_weights(moves: np.ndarray, features: np.ndarray, labels: list[str]) -> Any:
    """Moves (k, k) from row to column, and features (k, d), blue below zero and red above."""
    k, d = features.shape
    shown = np.arange(d) if d <= _FEATURES else np.sort(np.abs(features).max(0).argsort()[::-1][:_FEATURES])
    figure, (left, right) = new_figure(
        3.2 + 0.25 * min(k, 12) + 0.22 * len(shown), 2.2 + 0.24 * min(k, 20), 1, 2, width_ratios=[k + 2, len(shown) + 2]
    )
    for axes, table, names in ((left, moves, labels), (right, features[:, shown], [str(j) for j in shown])):
        limit = float(np.abs(table).max()) or 1.0
        image = axes.imshow(table, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
        axes.set_xticks(range(len(names)), names, rotation=90 if max(map(len, names)) > 2 else 0, fontsize="x-small")
        axes.set_yticks(range(k), labels, fontsize="x-small")
        figure.colorbar(image, ax=axes, shrink=0.8).ax.tick_params(labelsize="x-small")
    left.set(title="moves", ylabel="from", xlabel="to")
    right.set(title="features", xlabel="feature")
    return figure
