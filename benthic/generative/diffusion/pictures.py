"""Pictures and films of points on their way from noise to data."""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import Any

import numpy as np
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.generative.diffusion.sampling import Path
from benthic.pictures.canvas import new_figure

_MOST = 400  # lines in a picture


def draw_trajectory(path: Path, title: str = "") -> Any:
    """A figure of the ways of points: lines in the plane, curves over the moves for one column, rows of pictures.

    path: from :func:`~benthic.generative.diffusion.sampling.trajectory`; states (m, n, 1), (m, n, 2), (m, n, h, w) or
    (m, n, c, h, w) with one or three channels.
    """
    states = _array(path)
    if states.ndim == 3 and states.shape[2] == 2:
        return _plane(states, title)
    if states.ndim == 3 and states.shape[2] == 1:
        return _curves(states[:, :, 0], title)
    return _strips(_as_pictures(states), title)


def save_film(path: Path, file: str | FilePath, *, frames_per_second: float = 12.0, columns: int = 8) -> FilePath:
    """Write the way of points as a GIF that moves: a scatter in the plane, or a sheet of pictures.

    path: as for :func:`draw_trajectory`, with two columns or pictures. columns: of the sheet. Needs Pillow, which
    matplotlib brings along. The last frame stays for a second.
    """
    if not frames_per_second > 0:
        raise InvalidInput(f"save_film: frames_per_second={frames_per_second}; it must be positive")
    from PIL import Image

    states = _array(path)
    flat = states.ndim == 3 and states.shape[2] == 2
    if states.ndim == 3 and not flat:
        raise InvalidInput(f"save_film: states {states.shape} are neither points of a plane (m, n, 2) nor pictures")
    frames = _scatters(states, path.times) if flat else _sheets(_as_pictures(states), columns)
    images = [Image.fromarray(frame) for frame in frames]
    pause = int(1000 / frames_per_second)
    durations = [pause] * (len(images) - 1) + [1000 + pause]
    target = FilePath(file)
    images[0].save(target, format="GIF", save_all=True, append_images=images[1:], duration=durations, loop=0)
    return target


def _array(path: Path) -> np.ndarray:
    states = path.states
    if not isinstance(states, Tensor) or states.ndim < 3 or not len(states):
        raise InvalidInput("draw_trajectory: states must have the shape (m, n, *event)")
    return states.detach().cpu().double().numpy()


def _as_pictures(states: np.ndarray) -> np.ndarray:
    """(m, n, h, w, c) between 0 and 1; every frame is scaled by itself, since noise may be a hundred times as large."""
    if states.ndim == 4:
        states = states[:, :, None]
    if states.ndim != 5 or states.shape[2] not in (1, 3):
        raise InvalidInput(
            f"draw_trajectory: states {states.shape} are neither points of a line or a plane nor pictures "
            "(m, n, c, h, w) with one or three channels"
        )
    low, high = (np.quantile(states, q, axis=(1, 2, 3, 4), keepdims=True) for q in (0.01, 0.99))
    return np.moveaxis(np.clip((states - low) / np.maximum(high - low, 1e-12), 0, 1), 2, -1)


def _plane(states: np.ndarray, title: str) -> Any:
    figure, axes = new_figure(5.2, 5.0)
    shown = states[:, :_MOST]
    axes.plot(shown[:, :, 0], shown[:, :, 1], color="0.6", linewidth=0.4, alpha=0.5, zorder=1)
    axes.scatter(*states[0].T, s=5, color="C0", linewidth=0, label="noise", zorder=2)
    axes.scatter(*states[-1].T, s=5, color="C1", linewidth=0, label="samples", zorder=3)
    axes.legend(loc="upper right", fontsize="small")
    axes.set(title=title or "from noise to data", aspect="equal")
    return figure


def _curves(states: np.ndarray, title: str) -> Any:
    figure, axes = new_figure(6.0, 3.6)
    axes.plot(states[:, :_MOST], color="C0", linewidth=0.5, alpha=0.4)
    axes.set(xlabel="move", ylabel="x", title=title or "from noise to data")
    return figure


def _strips(pictures: np.ndarray, title: str, rows: int = 6, columns: int = 9) -> Any:
    """A row for each sample, a column for some of the moves."""
    moves = np.unique(np.linspace(0, len(pictures) - 1, min(columns, len(pictures))).round().astype(int))
    count = min(rows, pictures.shape[1])
    sheet = np.concatenate([np.concatenate(list(pictures[moves, i]), 1) for i in range(count)], 0)
    figure, axes = new_figure(0.8 * len(moves), 0.85 * count)
    axes.imshow(sheet.squeeze(-1) if sheet.shape[-1] == 1 else sheet, cmap="gray", vmin=0, vmax=1)
    axes.set_axis_off()
    axes.set_title(title or "from noise to data", fontsize="medium")
    return figure


def _scatters(states: np.ndarray, times: Tensor) -> list[np.ndarray]:
    """A frame for each state, (h, w, 3) bytes; the view closes in as the points do."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    frames = []
    for state, t in zip(states, times.tolist(), strict=True):
        figure, axes = new_figure(3.6, 3.6)
        center = np.median(state, 0)
        reach = 1.1 * max(np.quantile(np.abs(state - center), 0.995), 1e-9)
        axes.scatter(*state.T, s=4, color="C1", linewidth=0)
        axes.set(xlim=(center[0] - reach, center[0] + reach), ylim=(center[1] - reach, center[1] + reach))
        axes.set_title(f"t = {t:.3g}", fontsize="small")
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        frames.append(np.asarray(canvas.buffer_rgba())[..., :3].copy())
    return frames


def _sheets(pictures: np.ndarray, columns: int) -> list[np.ndarray]:
    """A frame for each state: pictures side by side, (h, w, 3) bytes."""
    m, n, h, w, c = pictures.shape
    columns = max(1, min(columns, n))
    rows = -(-n // columns)
    padded = np.zeros((m, rows * columns, h, w, c))
    padded[:, :n] = pictures
    sheet = padded.reshape(m, rows, columns, h, w, c).transpose(0, 1, 3, 2, 4, 5)
    sheet = sheet.reshape(m, rows * h, columns * w, c)  # (m, H, W, c)
    scale = max(1, 256 // max(sheet.shape[1:3]))
    large = sheet.repeat(scale, 1).repeat(scale, 2)
    colors = np.broadcast_to(large, (*large.shape[:3], 3)) if c == 1 else large
    return list((255 * colors).round().astype(np.uint8))
