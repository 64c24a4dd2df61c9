"""What fitted models of a comparison hold: densities of the plane, and maps of their codes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from benthic.base.catalogue import catalogue
from benthic.base.errors import InvalidInput
from benthic.base.schema import is_frame
from benthic.data.splits import take
from benthic.leaderboard.contest.contestants import needs_labels
from benthic.leaderboard.contest.showing.gallery import shown, small_grid
from benthic.pictures.plane import Box, box_around, density_map

if TYPE_CHECKING:
    from benthic.leaderboard.contest.results import Comparison

_MODELS = 8  # in one picture
_PATIENCE = 3.0  # seconds that one model's part of a picture may take
_LEAST, _MOST, _KINDS = 60, 800, 20  # rows of a map, and labels that are told apart by color
_CELLS = (160, 96, 60)  # across a picture of a density: as fine as there is time for


def densities(comparison: Comparison) -> Any:
    """The density each model learned of rows of two numbers; of samples, where it has none of its own."""
    if comparison.real is None or is_frame(comparison.real) or np.shape(comparison.real)[1:] != (2,):
        return None
    real = np.asarray(comparison.real, dtype=float)
    low, high = np.quantile(real, [0.002, 0.998], axis=0)
    box = box_around(np.stack([low, high]), 0.15)
    made = shown(comparison)
    names = [line.name for line in comparison.lines if line.name in made][: _MODELS + 4]
    if not names:
        return None
    figure, grid = small_grid(len(names))
    for axes, name in zip(grid.flat, names, strict=False):
        model = fitted(comparison, name) if comparison.seen is None else None  # a density of the labels too is no map
        exact = _draw_density(axes, model, np.asarray(made[name], dtype=float), box)
        axes.set_title(name if exact else f"{name} (of samples)", fontsize=9)
        axes.set(xticks=[], yticks=[])
    return figure


def _draw_density(axes: Any, model: Any, rows: np.ndarray, box: Box) -> bool:
    """Color the plane by the model's density, or by that of its rows; whether it was the model's."""
    if hasattr(model, "log_prob"):
        corner = np.array([[box[0], box[2]], [box[1], box[3]]])
        some = np.random.default_rng(0).uniform(corner[0], corner[1], (256, 2))
        begin = time.perf_counter()
        model.log_prob(some)
        each = (time.perf_counter() - begin) / len(some)
        for cells in _CELLS:
            if each * cells**2 < _PATIENCE:
                density_map(axes, model.log_prob, box, cells)
                return True
    _draw_counts(axes, rows, box)
    return False


def _draw_counts(axes: Any, rows: np.ndarray, box: Box, cells: int = 80) -> None:
    """A smooth histogram of rows (n, 2)."""
    from scipy.ndimage import gaussian_filter

    rows = rows[np.isfinite(rows).all(1)]
    counts, _, _ = np.histogram2d(rows[:, 0], rows[:, 1], cells, [box[:2], box[2:]])
    values = gaussian_filter(counts.T, 1.6)
    axes.imshow(values, origin="lower", extent=box, cmap="Blues", aspect="auto", interpolation="bilinear")
    axes.set(xlim=box[:2], ylim=box[2:])


def latent_maps(comparison: Comparison, labels: np.ndarray | None = None) -> tuple[Any, dict[str, str]]:
    """Held-out rows by their codes, seen from where codes differ most; colors are labels the models never saw.

    Returns the figure, or None where there are no codes, and by name why a model with codes is not in it.
    """
    codes, missing = _all_codes(comparison)
    if not codes:
        return None, missing
    figure, grid = small_grid(len(codes))
    kinds = np.unique(labels) if labels is not None else np.empty(0)
    for axes, (name, points) in zip(grid.flat, codes.items(), strict=False):
        if labels is not None and len(kinds) <= _KINDS:
            for place, kind in enumerate(kinds):
                chosen = np.asarray(labels)[: len(points)] == kind
                axes.scatter(*points[chosen].T, s=6, linewidth=0, color=_shade(place, len(kinds)), label=str(kind))
        else:
            axes.scatter(*points.T, s=6, linewidth=0)
        axes.set_title(name, fontsize=9)
        axes.set(xticks=[], yticks=[])
    if 0 < len(kinds) <= _KINDS:
        handles = grid.flat[0].get_legend_handles_labels()
        across = min(len(kinds), 5 * grid.shape[1])
        figure.legend(*handles, loc="outside lower center", ncols=across, frameon=False, fontsize=8, markerscale=2)
    return figure, missing


def _all_codes(comparison: Comparison) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Codes in the plane by model, and by model why there are none."""
    codes: dict[str, np.ndarray] = {}
    missing: dict[str, str] = {}
    for line in comparison.lines:
        model = fitted(comparison, line.name) if comparison.real is not None and line.status == "ok" else None
        if not hasattr(model, "encode"):
            continue
        if _searches(model):
            missing[line.name] = "it has no encoder, and to search for codes takes long"
            continue
        try:
            codes[line.name] = _codes(model, _rows_for(comparison, model))
        except ValueError as error:
            missing[line.name] = str(error)
        if len(codes) == _MODELS:
            break
    return codes, missing


def _rows_for(comparison: Comparison, model: Any) -> Any:
    """Held-out rows as a model saw rows when it was fitted."""
    return comparison.real if comparison.seen is None or needs_labels(model) else comparison.seen


def _searches(model: Any) -> bool:
    """Whether a model finds codes by an inversion of its generator, many seconds long."""
    entry = catalogue().get(type(model).__name__)
    return entry is not None and entry.family == "gan" and entry.name != "InfoGAN"


def _shade(place: int, n: int) -> Any:
    from matplotlib import colormaps

    return colormaps["tab10" if n <= 10 else "tab20"](place)


def _codes(model: Any, real: Any) -> np.ndarray:
    """Codes in the plane of as many rows as there is time for."""
    total = int(real.shape[0])
    few = min(10, total)
    begin = time.perf_counter()
    model.encode(take(real, np.arange(few)))
    each = (time.perf_counter() - begin) / few
    n = min(total, _MOST, int(_PATIENCE / max(each, 1e-9)))
    if n < min(_LEAST, total):
        raise InvalidInput(f"finding a code takes {each:.2g} s a row")
    codes = np.asarray(model.encode(take(real, np.arange(n))), dtype=float).reshape(n, -1)
    if codes.shape[1] < 2 or not np.isfinite(codes).all():
        raise InvalidInput("its codes are single numbers or not finite")
    centered = codes - codes.mean(0)
    turn = np.linalg.svd(centered, full_matrices=False)[2][:2].T if codes.shape[1] > 2 else np.eye(2)
    return np.asarray(centered @ turn)


def fitted(comparison: Comparison, name: str) -> Any:
    """The saved fit of a model, or None where none was kept."""
    try:
        return comparison.model(name)
    except InvalidInput:
        return None
