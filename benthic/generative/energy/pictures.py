"""Pictures of fitted energies and machines."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from benthic.base.capabilities import to_numpy
from benthic.generative.latent_pictures import tiled
from benthic.pictures.canvas import new_figure
from benthic.pictures.curves import draw_losses
from benthic.pictures.plane import box_around, density_map

_UNITS = 24


def machine_picture(model: Any) -> Any:
    """The loss over training, and the weights of the hidden units that have the largest: as pictures, or as a map."""
    check_is_fitted(model)
    weights = to_numpy(model.network_.weight.detach().double())  # (visible, hidden)
    figure, axes = new_figure(9.0, 3.4, 1, 2)
    draw_losses(axes[0], model.history_)
    axes[0].set(title=type(model).__name__, ylabel="free energy, rows minus chains")
    chosen = np.argsort(-np.linalg.norm(weights, axis=0), kind="stable")[:_UNITS]
    shape = _side(model)
    if shape is None:
        shown = weights[:, np.sort(chosen)]
        reach = max(float(np.abs(shown).max()), 1e-12)
        image = axes[1].imshow(shown, aspect="auto", cmap="coolwarm", vmin=-reach, vmax=reach)
        axes[1].set(title="weights", xlabel="hidden unit", ylabel="visible unit")
        figure.colorbar(image, ax=axes[1])
        return figure
    columns = min(6, len(chosen))
    units = (weights[:, chosen] / np.abs(weights[:, chosen]).max(0)).T.reshape(len(chosen), *shape)
    axes[1].imshow(tiled(units, columns), cmap="coolwarm", vmin=-1, vmax=1)
    axes[1].set_axis_off()
    axes[1].set_title("weights of hidden units")
    return figure


def energy_picture(model: Any, X: Any = None) -> Any:
    """The energy over two columns as a map, or the loss beside the energies of rows and of samples."""
    check_is_fitted(model)
    event = getattr(model, "_event_shape", None)
    pictured = event is not None
    drawn = model.sample(24 if pictured else 300, seed=0)
    if model._width == 2 and not pictured and getattr(model, "schema_", None) is None:
        return _energy_map(model, np.asarray(to_numpy(drawn if X is None else X), dtype=float), X is None)
    figure, axes = new_figure(9.0, 3.4, 1, 2)
    draw_losses(axes[0], model.history_)
    axes[0].set_title(type(model).__name__)
    if event is not None and len(event) == 3 and event[0] == 1:
        images = np.asarray(to_numpy(drawn), dtype=float)[:, 0]
        axes[1].imshow(tiled(images, 6), cmap="gray_r")
        axes[1].set_axis_off()
        axes[1].set_title("drawn from noise")
        return figure
    groups = {"samples": drawn} if X is None else {"samples": drawn, "rows": X}
    for label, rows in groups.items():
        axes[1].hist(to_numpy(model.energy(rows)), bins=40, density=True, alpha=0.5, label=label)
    axes[1].set(xlabel="energy", ylabel="density")
    axes[1].legend(frameon=False)
    return figure


def _energy_map(model: Any, points: np.ndarray, drawn: bool) -> Any:
    figure, axes = new_figure(5.2, 4.4)

    def log_density(grid: np.ndarray) -> np.ndarray:
        energies = np.asarray(to_numpy(model.energy(grid)))
        return np.asarray(energies.min() - energies)

    density_map(axes, log_density, box_around(points), cells=100)
    axes.scatter(*points.T, s=4, color="C1", alpha=0.6, linewidth=0, label="samples" if drawn else "rows")
    axes.legend(loc="upper right", fontsize="small")
    axes.set(title="exp(-energy)")
    return figure


def _side(model: Any) -> tuple[int, int] | None:
    """Height and width of gray pictures, also of square ones whose rows came flat."""
    event = getattr(model, "_event_shape", None)
    if event is not None:
        return (event[1], event[2]) if len(event) == 3 and event[0] == 1 else None
    side = round(model._width**0.5)
    named = hasattr(model, "feature_names_in_")
    return (side, side) if side >= 8 and side * side == model._width and not named else None
