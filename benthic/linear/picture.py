"""The picture of a linear model: its coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benthic.pictures.canvas import new_figure

_MANY = 40  # features from which their names no longer fit beside each other


def plot_coefficients(coef: np.ndarray, features: Sequence[str], classes: Sequence[str], ax: Any = None) -> Any:
    """Draw coefficients (r, d): bars for one row, a map for several. Returns the figure.

    ax: the axes to draw on; without it a new figure is made.
    """
    if ax is None:
        bars = min(int(coef.any(0).sum()), _MANY)
        _, ax = new_figure(6.4, max(2.0, 0.9 + 0.24 * bars)) if len(coef) == 1 else new_figure(7.2, 4.2)
    (_bars if len(coef) == 1 else _map)(coef, features, classes, ax)
    return ax.figure


def _bars(coef: np.ndarray, features: Sequence[str], classes: Sequence[str], ax: Any) -> None:
    order = np.argsort(np.abs(coef[0]))
    order = order[coef[0, order] != 0][-_MANY:]
    values = coef[0, order]
    ax.barh(np.arange(len(order)), values, color=np.where(values < 0, "#3b6fb5", "#c8553d"))
    ax.set_yticks(np.arange(len(order)), [features[i] for i in order])
    ax.axvline(0.0, color="0.3", linewidth=0.8)
    ax.set_xlabel(f"change of the log-odds of {classes[-1]} per unit")
    if len(order) < coef.shape[1]:
        ax.set_title(f"{len(order)} of {coef.shape[1]} features", fontsize="medium")


def _map(coef: np.ndarray, features: Sequence[str], classes: Sequence[str], ax: Any) -> None:
    limit = float(np.abs(coef).max()) or 1.0
    image = ax.imshow(coef, aspect="auto", cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest")
    ax.figure.colorbar(image, ax=ax, label="coefficient")
    ax.set_yticks(np.arange(len(classes)), classes)
    if len(features) <= _MANY:
        ax.set_xticks(np.arange(len(features)), features, rotation=90 if len(features) > 8 else 0)
    ax.set_xlabel("feature")
    ax.set_ylabel("class")
