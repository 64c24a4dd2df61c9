"""Lines: losses over training, ROC curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benthic.base.quiet import load
from benthic.pictures.canvas import new_figure


def loss_curve(history: Sequence[Mapping[str, Any]], title: str = "") -> Any:
    """Training loss, and held-out loss where there is one, against the epoch."""
    figure, axes = new_figure(5.0, 3.2)
    draw_losses(axes, history)
    axes.set_title(title)
    return figure


def draw_losses(axes: Any, history: Sequence[Mapping[str, Any]]) -> None:
    """The lines of ``loss_curve`` on axes that are there."""
    epochs = [entry["epoch"] for entry in history]
    for name, label in (("loss", "training"), ("val_loss", "held out")):
        if history and name in history[0]:
            axes.plot(epochs, [entry[name] for entry in history], label=label)
    axes.set(xlabel="epoch", ylabel="loss")
    axes.legend(frameon=False)


def roc_curve(y: np.ndarray, scores: np.ndarray, classes: np.ndarray, title: str = "") -> Any:
    """One-against-rest ROC of every class with its area; scores: (n, k)."""
    judges = load("sklearn.metrics")

    figure, axes = new_figure(4.4, 4.0)
    shown = range(1, 2) if len(classes) == 2 else range(len(classes))
    for k in shown:
        false, true, _ = judges.roc_curve(np.asarray(y) == classes[k], scores[:, k])
        axes.plot(false, true, linewidth=1.2, label=f"{classes[k]} ({judges.auc(false, true):.3f})")
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=0.8, linestyle="--")
    axes.set(xlabel="false positive rate", ylabel="true positive rate", title=title)
    axes.legend(frameon=False, fontsize="x-small", loc="lower right")
    return figure
