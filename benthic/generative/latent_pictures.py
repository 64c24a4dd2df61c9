"""Pictures of what a code means, for any model that encodes and decodes: walks, paths, maps and reconstructions.

Examples are pictures (n, c, h, w) or (n, h, w), rows that ``shape`` says how to fold into pictures, or plain rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from benthic.base.capabilities import to_numpy
from benthic.base.errors import InvalidInput
from benthic.base.schema import is_frame
from benthic.base.settings import whole
from benthic.pictures.canvas import new_figure
from benthic.pictures.curves import draw_losses
from benthic.pictures.grids import image_grid, scatter_map

METHODS = ("linear", "spherical")
_LINES = 12  # columns of a table that are drawn as lines
Shape = tuple[int, ...]


# -- codes ---------------------------------------------------------------------------------------------


def interpolate(first: Any, second: Any, steps: int = 9, method: str = "linear") -> np.ndarray:
    r"""Codes on the way from one to another, ends included, (steps, d).

    .. math:: z_t = \frac{\sin((1-t)\,\omega)}{\sin \omega} z_0 + \frac{\sin(t\,\omega)}{\sin \omega} z_1,
        \qquad \cos \omega = \frac{z_0 \cdot z_1}{\|z_0\| \|z_1\|}

    is the ``spherical`` way (Shoemake, 1985; White, 2016), which keeps the length of codes of equal length, as most of
    a normal prior's are; ``linear`` is the straight one. Codes on one line through 0 have only the straight way.

    >>> interpolate([1.0, 0.0], [0.0, 1.0], 3, "spherical").round(3).tolist()
    [[1.0, 0.0], [0.707, 0.707], [0.0, 1.0]]
    """
    a, b = (np.asarray(to_numpy(code), dtype=np.float64).ravel() for code in (first, second))
    if a.shape != b.shape:
        raise InvalidInput(f"interpolate: the codes have {len(a)} and {len(b)} numbers; both ends need as many")
    if method not in METHODS:
        raise InvalidInput(f"interpolate: method {method!r} is unknown; use 'linear' or 'spherical'")
    whole("interpolate: steps", steps, 2)
    t = np.linspace(0.0, 1.0, steps)[:, None]
    lengths = np.linalg.norm(a) * np.linalg.norm(b)
    angle = np.arccos(np.clip(a @ b / lengths, -1.0, 1.0)) if lengths > 0 else 0.0
    if method == "linear" or np.sin(angle) < 1e-6:
        return (1 - t) * a + t * b
    return np.asarray((np.sin((1 - t) * angle) * a + np.sin(t * angle) * b) / np.sin(angle))


def walk(center: Any, unit: int, values: Any) -> np.ndarray:
    """Codes equal to ``center`` (d,) but for one coordinate, which takes ``values`` (m,): (m, d).

    >>> walk([0.0, 5.0], 0, [-1.0, 1.0]).tolist()
    [[-1.0, 5.0], [1.0, 5.0]]
    """
    codes = np.tile(np.asarray(to_numpy(center), dtype=np.float64), (len(values), 1))
    codes[:, unit] = values
    return codes


# -- pictures of codes -----------------------------------------------------------------------------------


def traversals(
    model: Any,
    X: Any = None,
    *,
    units: Sequence[int] | None = None,
    steps: int = 9,
    reach: float = 2.5,
    shape: Shape | None = None,
) -> Any:
    """What each coordinate of the code does: decoded codes while one of them moves and the others rest.

    X: examples whose mean code is the place of rest and whose spread is the unit of ``reach``; without them codes are
    taken to be standard normal. units: which coordinates, by default the ten that vary most. Pictures become a grid
    with a row for each coordinate; tables become curves of their columns, standardized over the walk.
    """
    center, spread = _place(model, X)
    chosen = list(np.argsort(-spread, kind="stable")[:10]) if units is None else list(units)
    if not chosen or min(chosen) < 0 or max(chosen) >= len(center):
        raise InvalidInput(f"traversals: units are {chosen}; the code has coordinates 0 to {len(center) - 1}")
    places = np.linspace(-reach, reach, steps)
    codes = np.concatenate([walk(center, u, center[u] + spread[u] * places) for u in chosen])
    decoded = _decode(model, codes)
    images = _images(decoded, shape)
    if images is None:
        return _curves(_table(decoded).reshape(len(chosen), steps, -1), chosen, places, _names(model, decoded))
    return image_grid(images, columns=steps, rows_title=[f"z{u}" for u in chosen])


def interpolations(
    model: Any, first: Any, second: Any, *, steps: int = 9, method: str = "spherical", shape: Shape | None = None
) -> Any:
    """The decoded way from each example of ``first`` to that of ``second``: a row of pictures for every pair.

    method: see ``interpolate``. Tables become curves of their columns.
    """
    a, b = _encode(model, first), _encode(model, second)
    if len(a) != len(b):
        raise InvalidInput(f"interpolations: there are {len(a)} starts and {len(b)} ends; pass pairs")
    codes = np.concatenate([interpolate(*pair, steps, method) for pair in zip(a, b, strict=True)])
    decoded = _decode(model, codes)
    images = _images(decoded, shape)
    if images is not None:
        return image_grid(images, columns=steps)
    values = _table(decoded).reshape(len(a), steps, -1)
    return _curves(values, list(range(len(a))), np.linspace(0, 1, steps), _names(model, decoded), "pair ", "way")


def latent_map(model: Any, X: Any, labels: Any = None, *, title: str = "") -> Any:
    """The codes of examples as points of the plane, colored by label.

    Codes with more than two coordinates are seen from where they differ most (their two principal axes).
    """
    codes = _encode(model, X)
    names = ("z0", "z1") if codes.shape[1] <= 2 else ("first axis", "second axis")
    return scatter_map(principal_plane(codes), None if labels is None else np.asarray(labels), title, names)


def latent_grid(
    model: Any, X: Any = None, *, cells: int = 15, reach: float = 2.0, units: Sequence[int] = (0, 1), shape: Any = None
) -> Any:
    """Pictures decoded from a grid of codes over two coordinates, the others at rest: the plane as the model sees it.

    X, reach: see ``traversals``. units: the coordinates that go right and up.
    """
    center, spread = _place(model, X)
    if len(units) != 2 or len(center) < 2 or not 0 <= min(units) <= max(units) < len(center):
        raise InvalidInput(f"latent_grid: units are {tuple(units)}; two coordinates of {len(center)} are needed")
    across, up = (center[u] + spread[u] * np.linspace(-reach, reach, cells) for u in units)
    codes = np.concatenate([walk(walk(center, units[1], [y])[0], units[0], across) for y in up[::-1]])
    images = _images(_decode(model, codes), shape)
    if images is None:
        raise InvalidInput("latent_grid: the model decodes rows, not pictures; say shape=(height, width)")
    figure, axes = new_figure(5.0, 5.0)
    axes.imshow(tiled(images, cells), cmap="gray_r", extent=(across[0], across[-1], up[0], up[-1]), aspect="auto")
    axes.set(xlabel=f"z{units[0]}", ylabel=f"z{units[1]}")
    return figure


def reconstructions(model: Any, X: Any, *, count: int = 10, shape: Shape | None = None) -> Any:
    """Examples above what is left of them after going through the code.

    Tables become points: every standardized entry against what it was rebuilt as.
    """
    X = X[:count] if not is_frame(X) else X.head(count)
    rebuilt = model.reconstruct(X)
    images = _images(X, shape)
    other = _images(rebuilt, shape)
    if images is not None and other is not None:
        return image_grid(np.concatenate([images, other]), columns=len(images), rows_title=["given", "rebuilt"])
    figure, axes = new_figure(4.2, 4.0)
    given, found = _table(X), _table(rebuilt)
    center, scale = np.nanmean(given, 0), np.maximum(np.nanstd(given, 0), 1e-12)
    axes.scatter((given - center) / scale, (found - center) / scale, s=8, linewidth=0, alpha=0.6)
    axes.axline((0, 0), slope=1, color="0.6", linewidth=0.8, linestyle="--")
    axes.set(xlabel="given, standardized", ylabel="rebuilt")
    return figure


# -- the picture of a fitted model -------------------------------------------------------------------------


def training_picture(model: Any, X: Any = None, *, samples: bool = True) -> Any:
    """The loss over training, and beside it what the model does with its codes.

    X: examples to show. Pictures are shown above their reconstructions, tables as a map of their codes. Without
    examples there are samples of pictures, and of tables how much each coordinate of the code depends on the data.
    samples: whether the model can draw without being told more.
    """
    draw = _panel_of(model, X, samples)
    figure, axes = new_figure(5.0 if draw is None else 9.0, 3.4, 1, 1 if draw is None else 2, squeeze=False)
    draw_losses(axes[0, 0], model.history_)
    axes[0, 0].set_title(type(model).__name__)
    if draw is not None:
        draw(axes[0, 1])
    return figure


def _panel_of(model: Any, X: Any, samples: bool) -> Callable[[Any], None] | None:
    pictured = getattr(model, "_event_shape", None) is not None
    if X is not None:
        return partial(_draw_rebuilt, model, X[:8]) if pictured else partial(_draw_codes, model, X)
    if pictured and samples and hasattr(model, "sample"):
        return partial(_draw_samples, model)
    if getattr(model, "unit_activity_", None) is not None:
        return partial(_draw_activity, model)
    return None


def _draw_rebuilt(model: Any, X: Any, axes: Any) -> None:
    images, other = _images(X, None), _images(model.reconstruct(X), None)
    if images is not None and other is not None:
        _draw_tiles(axes, np.concatenate([images, other]), len(images), "given, and rebuilt")


def _draw_samples(model: Any, axes: Any) -> None:
    images = _images(model.sample(24, seed=0), None)
    if images is not None:
        _draw_tiles(axes, images, 6, "drawn from the model")


def _draw_tiles(axes: Any, images: np.ndarray, columns: int, title: str) -> None:
    axes.imshow(tiled(images, columns), cmap="gray_r")
    axes.set_axis_off()
    axes.set_title(title)


def _draw_codes(model: Any, X: Any, axes: Any) -> None:
    codes = principal_plane(_encode(model, X))
    second = codes[:, 1] if codes.shape[1] > 1 else np.zeros(len(codes))
    color = np.asarray(to_numpy(model.predict(X))) if hasattr(model, "predict") else None
    axes.scatter(codes[:, 0], second, s=6, linewidth=0, c=color, cmap="tab10" if color is not None else None)
    axes.set_title("codes" if model._n_features_out <= 2 else "codes, from where they differ most")


def _draw_activity(model: Any, axes: Any) -> None:
    values = np.asarray(model.unit_activity_).ravel()
    axes.bar(np.arange(len(values)), values)
    axes.set(title="what the code uses", xlabel="coordinate", ylabel="variance of its mean over the data")


# -- parts -----------------------------------------------------------------------------------------------


def principal_plane(codes: np.ndarray) -> np.ndarray:
    """Codes (n, d) along the two directions in which they differ most; up to two coordinates as they are."""
    codes = np.asarray(codes, dtype=np.float64)
    if codes.shape[1] <= 2:
        return codes
    centered = codes - codes.mean(0)
    return np.asarray(centered @ np.linalg.svd(centered, full_matrices=False)[2][:2].T)


def tiled(images: np.ndarray, columns: int) -> np.ndarray:
    """Pictures (n, h, w) or (n, 3, h, w) side by side in reading order, as one (rows h, columns w) with colors last.

    >>> tiled(np.arange(4).reshape(4, 1, 1), 2).tolist()
    [[0, 1], [2, 3]]
    """
    images = np.moveaxis(images, 1, -1) if images.ndim == 4 else images
    rows, (h, w), colors = len(images) // columns, images.shape[1:3], images.shape[3:]
    grid = images[: rows * columns].reshape(rows, columns, h, w, *colors)
    return np.moveaxis(grid, 2, 1).reshape(rows * h, columns * w, *colors)


def _encode(model: Any, X: Any) -> np.ndarray:
    return np.asarray(to_numpy(model.encode(X)), dtype=np.float64)


def _decode(model: Any, codes: np.ndarray) -> Any:
    decoded = model.decode(codes)
    return decoded if is_frame(decoded) else to_numpy(decoded)


def _place(model: Any, X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Where codes rest, and how far they spread, (d,) each."""
    if X is None:
        size = model._n_features_out
        return np.zeros(size), np.ones(size)
    codes = _encode(model, X)
    return codes.mean(0), codes.std(0)


def _images(values: Any, shape: Shape | None) -> np.ndarray | None:
    """Pictures (n, h, w) or (n, 3, h, w); None when the values are rows of a table."""
    if is_frame(values):
        return None
    array = np.asarray(to_numpy(values), dtype=np.float64)
    if array.ndim == 2 and shape is None:
        return None
    if array.ndim == 2 and shape is not None:
        if np.prod(shape) != array.shape[1]:
            raise InvalidInput(f"shape is {tuple(shape)}, but examples have {array.shape[1]} numbers")
        array = array.reshape(len(array), *shape)
    if array.ndim == 4:
        array = array[:, 0] if array.shape[1] != 3 else np.clip(array, 0, 1)
    return array


def _table(values: Any) -> np.ndarray:
    """Rows as numbers; of a frame the columns that are."""
    if not is_frame(values):
        array = np.asarray(to_numpy(values), dtype=np.float64)
        return array.reshape(len(array), -1)
    return np.stack([np.asarray(values[name], dtype=np.float64) for name in _numeric(values)], 1)


def _numeric(frame: Any) -> list[Any]:
    kinds = ("int", "uint", "float", "bool", "Int", "UInt", "Float", "Bool")
    return [name for name in frame.columns if str(frame[name].dtype).startswith(kinds)]


def _names(model: Any, decoded: Any) -> list[str]:
    if is_frame(decoded):
        return [str(name) for name in _numeric(decoded)]
    known = getattr(model, "feature_names_in_", None)
    count = _table(decoded).shape[1]
    return [str(n) for n in known] if known is not None and len(known) == count else [f"x{j}" for j in range(count)]


def _curves(
    values: np.ndarray,
    units: Sequence[int],
    places: np.ndarray,
    names: Sequence[str],
    word: str = "z",
    axis: str = "standard deviations",
) -> Any:
    """One panel a walk: the columns of the decoded rows (walks, steps, columns) that move most."""
    flat = values.reshape(-1, values.shape[-1])
    scale = np.maximum(flat.std(0), 1e-12)
    moving = np.argsort(-np.ptp(values / scale, axis=1).max(0), kind="stable")[:_LINES]
    columns = min(len(units), 4)
    rows = -(-len(units) // columns)
    figure, axes = new_figure(2.4 * columns + 1.2, 1.9 * rows + 0.5, rows, columns, squeeze=False, sharey=True)
    for panel, unit, walked in zip(axes.flat, units, values, strict=False):
        for j in sorted(moving):
            panel.plot(places, (walked[:, j] - flat[:, j].mean()) / scale[j], linewidth=1.2, label=names[j])
        panel.set_title(f"{word}{unit}", fontsize="small")
    for panel in list(axes.flat)[len(units) :]:
        panel.set_axis_off()
    for panel in axes[-1]:
        panel.set_xlabel(axis, fontsize="small")
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(), loc="outside right center", fontsize="x-small", frameon=False
    )
    return figure
