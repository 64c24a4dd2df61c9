"""The picture of a mixture: ellipses over two columns, or a curve over one."""

from __future__ import annotations

from typing import Any

import numpy as np

from benthic.base.errors import InvalidInput
from benthic.mixture.parameters import Gaussians
from benthic.pictures.canvas import new_figure
from benthic.pictures.plane import ellipses


def draw_mixture(mixture: Gaussians, points: np.ndarray | None, features: tuple[int, int], names: list[str]) -> Any:
    """A figure of the components in two columns, with rows (n, d) under them if given."""
    for column in features[: mixture.d]:
        if not 0 <= column < mixture.d:
            raise InvalidInput(f"features names column {column}, but there are {mixture.d}, counted from 0")
    if mixture.d == 1:
        return _curve(mixture, points, names[0])
    figure, axes = new_figure(5.2, 4.4)
    chosen = list(features)
    if points is not None:
        axes.scatter(*points[:, chosen].T, s=5, color="0.55", alpha=0.5, linewidth=0)
    means = mixture.means[:, chosen].numpy()
    covariances = mixture.matrices[:, chosen][:, :, chosen].numpy()
    ellipses(axes, means, covariances, mixture.weights.numpy())
    axes.autoscale_view()
    axes.set(xlabel=names[chosen[0]], ylabel=names[chosen[1]], title=f"{mixture.k} components")
    return figure


def _curve(mixture: Gaussians, points: np.ndarray | None, name: str) -> Any:
    means, deviations = mixture.means[:, 0].numpy(), mixture.matrices[:, 0, 0].sqrt().numpy()
    low, high = (means - 4 * deviations).min(), (means + 4 * deviations).max()
    x = np.linspace(low, high, 400)
    z = (x - means[:, None]) / deviations[:, None]  # (k, 400)
    parts = mixture.weights.numpy()[:, None] * np.exp(-0.5 * z**2) / (deviations[:, None] * np.sqrt(2 * np.pi))
    figure, axes = new_figure(5.2, 3.4)
    if points is not None:
        shown = points[np.isfinite(points[:, 0]), 0]
        axes.hist(shown, bins=40, density=True, color="0.85")
    for part in parts:
        axes.plot(x, part, linewidth=1.0)
    axes.plot(x, parts.sum(0), color="black", linewidth=1.4)
    axes.set(xlabel=name, ylabel="density", title=f"{mixture.k} components")
    return figure
