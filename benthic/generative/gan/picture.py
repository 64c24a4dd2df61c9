"""The picture of an adversarial model: how the game went, and what the generator makes."""

from __future__ import annotations

from typing import Any

import numpy as np

from benthic.base.capabilities import to_numpy
from benthic.base.frames import is_frame
from benthic.generative.latent_pictures import tiled
from benthic.pictures.canvas import new_figure


def game_picture(model: Any) -> Any:
    """Losses of all players over training, and beside them samples or what was watched."""
    figure, axes = new_figure(9.0, 3.4, 1, 2, squeeze=False)
    _draw_lines(axes[0, 0], model.history_, "_loss", "mean loss")
    axes[0, 0].set_title(type(model).__name__)
    _draw_samples(axes[0, 1], model)
    return figure


def _draw_lines(axes: Any, history: list[dict[str, Any]], ending: str, label: str) -> None:
    for name in sorted({key for entry in history for key in entry if key.endswith(ending) and key != "val_loss"}):
        points = [(entry["step"], entry[name]) for entry in history if name in entry]
        axes.plot(*zip(*points, strict=True), linewidth=1.0, label=name.removesuffix(ending))
    axes.set(xlabel="update", ylabel=label)
    axes.legend(frameon=False)


def _draw_samples(axes: Any, model: Any) -> None:
    pictured = getattr(model, "_event_shape", None)
    if pictured is not None and len(pictured) == 3:
        images = np.asarray(to_numpy(model.sample(24, seed=0)), dtype=np.float64)
        images = np.clip(images, 0, 1) if images.shape[1] == 3 else images[:, 0]
        axes.imshow(tiled(images, 6), cmap="gray_r")
        axes.set_axis_off()
        axes.set_title("drawn from the model")
        return
    drawn = None if model._width != 2 else model.sample(1000, seed=0)
    if drawn is not None and not is_frame(drawn):
        points = np.asarray(to_numpy(drawn), dtype=np.float64).reshape(-1, 2)
        axes.scatter(points[:, 0], points[:, 1], s=3, linewidth=0, alpha=0.6)
        axes.set_title("drawn from the model")
        return
    _draw_lines(axes, model.history_, "_gradient", "norm of the gradient")
    axes.set_yscale("log")
