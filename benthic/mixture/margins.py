"""The picture of a mixture of products: every column by itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from benthic.base.errors import InvalidInput
from benthic.base.seeds import generator
from benthic.distributions.product import Product
from benthic.mixture.common import choose
from benthic.mixture.exponential_em import Components, log_joint
from benthic.pictures.canvas import new_figure

_SHOWN = 6
_DRAWS = 4000
_POINTS = 300


def draw_margins(
    product: Product,
    components: Components,
    points: np.ndarray | None,
    features: Sequence[int] | None,
    names: list[str],
) -> Any:
    """A figure with one panel a column: components in color, their sum in black, rows (n, d) below if given."""
    d = len(product.families)
    chosen = list(range(min(d, _SHOWN)) if features is None else features)
    for column in chosen:
        if not 0 <= column < d:
            raise InvalidInput(f"features names column {column}, but there are {d}, counted from 0")
    across = min(3, len(chosen))
    down = math.ceil(len(chosen) / across)
    figure, grid = new_figure(3.2 * across + 0.6, 2.4 * down + 0.4, down, across, squeeze=False)
    drawn = _draws(product, components) if points is None else points
    for axes, column in zip(grid.flat, chosen, strict=False):
        _panel(axes, product, components, column, drawn[:, column], points is not None)
        axes.set_xlabel(names[column])
    for axes in grid.flat[len(chosen) :]:
        axes.set_axis_off()
    figure.suptitle(f"{len(components.weights)} components")
    return figure


def _draws(product: Product, components: Components) -> np.ndarray:
    """Rows of the mixture, which say where its columns have their mass."""
    noise = generator(0, "picture")
    which = choose(components.weights.expand(_DRAWS, -1), noise)
    return product.draw(components.natural[which], noise).numpy()


def _panel(axes: Any, product: Product, components: Components, column: int, values: np.ndarray, shown: bool) -> None:
    values = values[np.isfinite(values)]
    low, high = np.quantile(values, [0.002, 0.998]) if len(values) else (0.0, 1.0)
    counts, step = product.families[column].support.whole, 1
    if counts:
        low, high = math.floor(low), math.ceil(high)
        step = math.ceil((high - low + 1) / _POINTS)
        x = np.arange(low, high + 1, step, dtype=float)
    else:
        x = np.linspace(low, high if high > low else low + 1, _POINTS)
    X = torch.full((len(x), len(product.families)), torch.nan, dtype=torch.float64)
    X[:, column] = product.families[column].support.pull_in(torch.from_numpy(x))
    parts = log_joint(product, components, product.read(X)).exp().numpy()  # (k, x)
    if shown:
        bins = np.arange(low - 0.5, high + step, step) if counts else np.linspace(x[0], x[-1], 41)
        axes.hist(values, bins, density=True, color="0.85")
    style = {"marker": ".", "markersize": 3} if counts else {}
    for part in parts:
        axes.plot(x, part, linewidth=1.0, **style)
    axes.plot(x, parts.sum(0), color="black", linewidth=1.4, **style)
    axes.set_ylabel(product.families[column].measure)
