"""The picture of a trained diffusion model."""

from __future__ import annotations

from typing import Any

import numpy as np

from benthic.generative.latent_pictures import tiled
from benthic.pictures.canvas import new_figure
from benthic.pictures.curves import draw_losses

_TILES, _POINTS, _STEPS = 16, 500, 30


def draw_levels(axes: Any, levels: np.ndarray, losses: np.ndarray) -> None:
    """The loss at each noise level σ/α."""
    axes.plot(levels, losses, marker="o", markersize=3, linewidth=1.2)
    axes.set(xlabel="noise σ/α", ylabel="loss", xscale="log", title="loss by noise level")
    if bool((losses > 0).all()):
        axes.set_yscale("log")


def diffusion_picture(model: Any) -> Any:
    """Losses over training and by noise level; beside them samples, where they can be seen."""
    shown = (len(model._event) == 3 or model._event == (2,)) and model._knows_null
    figure, axes = new_figure(10.5 if shown else 7.5, 3.2, 1, 3 if shown else 2)
    draw_losses(axes[0], model.history_)
    axes[0].set_title(type(model).__name__)
    keep = np.isfinite(model.levels_)
    draw_levels(axes[1], model.levels_[keep], model.level_losses_[keep])
    if shown:
        _draw_samples(model, axes[2])
    return figure


def _draw_samples(model: Any, axes: Any) -> None:
    steps = min(model._setting("steps"), _STEPS)
    if len(model._event) == 3:
        images = np.asarray(_numbers(model.sample(_TILES, seed=0, steps=steps)), dtype=float)
        images = images if images.shape[1] in (1, 3) else images[:, :1]  # other channels are no colors
        low, high = images.min(), images.max()
        axes.imshow(np.squeeze(tiled((images - low) / max(high - low, 1e-12), 4)), cmap="gray")
        axes.axis("off")
    else:
        points = _numbers(model.sample(_POINTS, seed=0, steps=steps))
        axes.scatter(*np.asarray(points).T, s=4, linewidth=0)
    axes.set_title("samples")


def _numbers(values: Any) -> Any:
    values = values.detach().cpu() if hasattr(values, "detach") else values
    return np.asarray(values)
