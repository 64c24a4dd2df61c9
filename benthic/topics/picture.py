"""Pictures of topics: a map by their distances and bars of their leading words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benthic.pictures.canvas import new_figure

_PANELS = 6


def topic_distances(topics: np.ndarray) -> np.ndarray:
    """Jensen-Shannon distances of topics (rows that sum to one), (topics, topics): 0 equal, 1 without common words.

    >>> topic_distances(np.array([[1.0, 0.0], [0.0, 1.0]])).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    logs = np.where(topics > 0, topics * np.log2(np.maximum(topics, 1e-300)), 0.0).sum(1)
    apart = np.zeros((len(topics), len(topics)))
    for k, topic in enumerate(topics):
        middle = (topics + topic) / 2
        mixed = np.where(middle > 0, middle * np.log2(np.maximum(middle, 1e-300)), 0.0).sum(1)
        apart[k] = (logs + logs[k]) / 2 - mixed
    apart = np.sqrt(np.clip((apart + apart.T) / 2, 0.0, 1.0))
    np.fill_diagonal(apart, 0.0)
    return apart


def topic_map(topics: np.ndarray) -> np.ndarray:
    """Places of topics in a plane by classical scaling of their distances (Torgerson, 1952), (topics, 2).

    >>> topic_map(np.eye(2)).round(3).tolist()
    [[0.5, 0.0], [-0.5, 0.0]]
    """
    squared = topic_distances(topics) ** 2
    centered = squared - squared.mean(0) - squared.mean(1)[:, None] + squared.mean()
    values, vectors = np.linalg.eigh(-centered / 2)
    places = np.zeros((len(topics), 2))
    for axis, at in enumerate(np.argsort(-values)[:2]):
        if values[at] > 1e-12:
            direction = vectors[:, at] * np.sign(vectors[np.abs(vectors[:, at]).argmax(), at])
            places[:, axis] = direction * np.sqrt(values[at])
    return places


def draw_topics(topics: np.ndarray, shares: np.ndarray, words: Sequence[Sequence[tuple[str, float]]]) -> Any:
    """A map of the topics (topics, words), as large as their shares, and the leading words of the largest ones."""
    shown = np.argsort(-shares, kind="stable")[:_PANELS]
    rows = 2 if len(shown) > 3 else 1
    columns = -(-len(shown) // rows)
    wide = {"width_ratios": [1.9] + [1.0] * columns}
    figure, axes = new_figure(4.4 + 2.3 * columns, 1.2 + 2.3 * rows, rows, columns + 1, gridspec_kw=wide)
    axes = np.asarray(axes).reshape(rows, columns + 1)
    space = axes[0, 0].get_gridspec()
    for each in axes[:, 0]:
        each.remove()
    _draw_map(figure.add_subplot(space[:, 0]), topic_map(topics), shares, shown)
    for panel, place in enumerate(axes[:, 1:].ravel()):
        if panel >= len(shown):
            place.set_axis_off()
            continue
        k = shown[panel]
        names, values = zip(*reversed(words[k]), strict=True)
        place.barh(range(len(names)), values, color=f"C{panel}", height=0.7)
        place.set_yticks(range(len(names)), [name[:16] for name in names], fontsize=8)
        place.locator_params(axis="x", nbins=3)
        place.tick_params(axis="x", labelsize=7)
        place.set_title(f"topic {k}: {100 * shares[k]:.1f} %", fontsize=9)
        place.spines[["top", "right"]].set_visible(False)
    return figure


def _draw_map(axes: Any, places: np.ndarray, shares: np.ndarray, shown: np.ndarray) -> None:
    colors = ["0.75"] * len(places)
    for panel, k in enumerate(shown):
        colors[k] = f"C{panel}"
    axes.scatter(*places.T, s=60 + 2500 * shares, c=colors, alpha=0.7, edgecolor="white", linewidth=0.8)
    for k, (x, y) in enumerate(places):
        axes.annotate(str(k), (x, y), ha="center", va="center", fontsize=7)
    axes.margins(0.18)
    axes.set_aspect("equal", adjustable="datalim")
    axes.set(title="topics by distance", xticks=[], yticks=[])
