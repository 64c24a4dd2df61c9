"""Pictures of naive Bayes: the law of every class, feature by feature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benthic.pictures.canvas import new_figure

_MANY = 40  # features from which their names no longer fit beside each other
_SHOWN = 6


def plot_table(table: np.ndarray, features: Sequence[str], classes: Sequence[str], what: str, ax: Any = None) -> Any:
    """A map of chances. table: (k, d) their logarithms. Returns the figure."""
    if ax is None:
        _, ax = new_figure(7.2, max(2.2, 1.2 + 0.28 * len(classes)))
    image = ax.imshow(np.exp(table), aspect="auto", cmap="Blues", vmin=0.0, interpolation="nearest")
    ax.figure.colorbar(image, ax=ax, label=what)
    ax.set_yticks(np.arange(len(classes)), classes)
    if len(features) <= _MANY:
        ax.set_xticks(np.arange(len(features)), features, rotation=90 if len(features) > 8 else 0)
    ax.set_xlabel("feature")
    ax.set_ylabel("class")
    return ax.figure


def plot_laws(
    mean: np.ndarray,
    var: np.ndarray,
    prior: np.ndarray,
    names: Sequence[str],
    classes: Sequence[str],
    rows: np.ndarray | None = None,
    features: Sequence[int] | None = None,
) -> Any:
    """Normal densities of the classes, weighted by their priors, in some features. Returns the figure.

    rows: (n, d) data to show as a histogram. features: which, else those whose means differ most.
    """
    shown = list(features) if features is not None else []
    if features is None:
        center = prior @ mean
        apart = prior @ (mean - center) ** 2 / np.maximum(prior @ var, 1e-300)
        shown = sorted(np.argsort(-apart)[:_SHOWN].tolist())
    figure, axes = _panels(len(shown))
    for ax, j in zip(axes, shown, strict=True):
        spread = np.sqrt(var[:, j])
        grid = np.linspace((mean[:, j] - 3.5 * spread).min(), (mean[:, j] + 3.5 * spread).max(), 300)
        if rows is not None:
            ax.hist(rows[np.isfinite(rows[:, j]), j], bins=30, density=True, color="0.88")
        for c, label in enumerate(classes):
            z = (grid - mean[c, j]) / spread[c]
            ax.plot(grid, prior[c] * np.exp(-0.5 * z**2) / (spread[c] * np.sqrt(2 * np.pi)), label=label)
        ax.set_xlabel(names[j])
        ax.set_yticks([])
    axes[0].legend(frameon=False, fontsize="small")
    return figure


def plot_categories(
    tables: Sequence[np.ndarray], names: Sequence[str], labels: Sequence[Sequence[str]], classes: Sequence[str]
) -> Any:
    """Chances of the categories of each class in the first columns. tables: (k, categories) each."""
    figure, axes = _panels(min(len(tables), _SHOWN))
    for ax, table, name, values in zip(axes, tables, names, labels, strict=False):
        width = 0.8 / len(classes)
        for c, label in enumerate(classes):
            ax.bar(np.arange(table.shape[1]) + (c - (len(classes) - 1) / 2) * width, table[c], width, label=label)
        if len(values) <= 12:
            ax.set_xticks(np.arange(len(values)), values, fontsize="small", rotation=45 if len(values) > 4 else 0)
        ax.set_xlabel(name)
    axes[0].set_ylabel("chance")
    axes[0].legend(frameon=False, fontsize="small")
    return figure


def _panels(count: int) -> tuple[Any, list[Any]]:
    columns = min(count, 3)
    rows = -(-count // columns)
    figure, axes = new_figure(2.6 * columns + 0.6, 2.3 * rows + 0.3, rows, columns, squeeze=False)
    flat = list(axes.ravel())
    for ax in flat[count:]:
        ax.set_axis_off()
    return figure, flat[:count]
