"""Answers beside the truth: confusion of classes, predicted against true numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benthic.pictures.canvas import new_figure


def confusion(y: np.ndarray, predicted: np.ndarray, classes: Sequence[Any], title: str = "") -> Any:
    """How often rows of each class (down) got each answer (across); a row of the table adds up to all."""
    names = list(classes)
    place = {name: k for k, name in enumerate(names)}
    counts = np.zeros((len(names), len(names)), dtype=int)
    for truth, answer in zip(np.asarray(y).tolist(), np.asarray(predicted).tolist(), strict=True):
        if truth in place:
            counts[place[truth], place[answer]] += 1
    side = min(6.0, 2.0 + 0.3 * len(names))
    figure, axes = new_figure(side + 0.4, side)
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    if len(names) <= 20:
        for (i, j), n in np.ndenumerate(counts):
            if n:
                axes.text(
                    j,
                    i,
                    n,
                    ha="center",
                    va="center",
                    fontsize=7,
                    color="white" if shares[i, j] > 0.5 else "black",
                )
        axes.set_xticks(range(len(names)), [str(name) for name in names], fontsize="small")
        axes.set_yticks(range(len(names)), [str(name) for name in names], fontsize="small")
    axes.set(xlabel="predicted", ylabel="true", title=title)
    return figure


def predicted_against_true(y: np.ndarray, predicted: np.ndarray, title: str = "") -> Any:
    """Every row as a point; on the dashed line the answer is right."""
    truth, answer = np.asarray(y, dtype=float).ravel(), np.asarray(predicted, dtype=float).ravel()
    figure, axes = new_figure(4.4, 4.0)
    ends = [min(truth.min(), answer.min()), max(truth.max(), answer.max())]
    axes.plot(ends, ends, color="0.6", linewidth=0.9, linestyle="--")
    axes.scatter(truth, answer, s=12, alpha=0.7, linewidth=0)
    axes.set(xlabel="true", ylabel="predicted", title=title)
    return figure
