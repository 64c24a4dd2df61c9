"""The way an optimizer takes over a function, and its picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from benthic.base.errors import InvalidInput
from benthic.optim.build import Setting, optimizer_of
from benthic.optim.objective import Function, check_function, check_start
from benthic.optim.schedules import Schedule, schedule_of


class Path(NamedTuple):
    """Points, the first dimension the step, and the values there (steps + 1,)."""

    points: Tensor
    values: Tensor


def trajectory(
    f: Function,
    x0: Any,
    optimizer: Setting = "sgd",
    steps: int = 100,
    *,
    lr: float = 0.01,
    schedule: str | Mapping[str, Any] | Schedule | None = None,
) -> Path:
    """The points that a first-order optimizer visits.

    f: maps a tensor of the shape of ``x0`` to a scalar. optimizer, lr: as in ``optimizer_of``. schedule: as in
    ``schedule_of``. The path ends early where the value is no longer finite.

    >>> path = trajectory(lambda x: (x**2).sum(), [1.0], "sgd", steps=2, lr=0.25)
    >>> path.points[:, 0], path.values
    (tensor([1.0000, 0.5000, 0.2500], dtype=torch.float64), tensor([1.0000, 0.2500, 0.0625], dtype=torch.float64))
    """
    if steps < 0:
        raise InvalidInput(f"trajectory: steps={steps}; it must be at least 0")
    start = check_start(x0, False, "trajectory")
    check_function(f, start, False, False, "trajectory")
    x = nn.Parameter(start.clone())
    taken = optimizer_of(optimizer, [x], lr)
    factor = schedule_of(schedule)
    points, values = [], []
    for step in range(steps + 1):
        taken.zero_grad()
        with torch.enable_grad():
            value = f(x)
        points.append(x.detach().clone())
        values.append(value.detach().reshape(()))
        if step == steps or not bool(value.isfinite()):
            break
        value.backward()
        for group in taken.param_groups:
            group["lr"] = lr * factor(step, steps)
        taken.step()
    return Path(torch.stack(points), torch.stack(values))


def plot_paths(
    f: Function,
    paths: Mapping[str, Path | Tensor],
    *,
    box: Sequence[float] | None = None,
    minima: Any = None,
    levels: int = 30,
    cells: int = 160,
    axes: Any = None,
) -> Any:
    """Contours of a function of the plane, with paths drawn over them.

    f: maps a tensor (2,) to a scalar. paths: from name to points (steps, 2) or what ``trajectory`` gives. box: (left,
    right, bottom, top), around the paths by default. minima: points (k, 2) marked by stars. levels: of the contours,
    which are even in the logarithm of the height above the lowest cell. axes: to draw into; a new figure otherwise.
    Returns the figure.
    """
    from benthic.pictures.canvas import new_figure
    from benthic.pictures.plane import box_around

    drawn = {name: _points(path, name) for name, path in paths.items()}
    if not drawn and box is None:
        raise InvalidInput("plot_paths: there is neither a path nor a box; pass at least one of them")
    left, right, bottom, top = box if box is not None else box_around(np.concatenate([*drawn.values()]), 0.15)
    figure, axes = (axes.figure, axes) if axes is not None else new_figure(5.6, 4.4)
    x, y = np.linspace(left, right, cells), np.linspace(bottom, top, cells)
    grid = torch.as_tensor(np.stack(np.meshgrid(x, y), -1))  # (cells, cells, 2)
    with torch.no_grad():
        heights = torch.vmap(f)(grid.reshape(-1, 2)).reshape(cells, cells).numpy()
    above = np.log1p(heights - heights.min())
    axes.contour(x, y, above, levels=levels, cmap="Greys", linewidths=0.6, alpha=0.7)
    for name, points in drawn.items():
        axes.plot(points[:, 0], points[:, 1], marker=".", markersize=3, linewidth=1.1, label=name)
    if minima is not None:
        axes.plot(*np.asarray(minima, dtype=float).reshape(-1, 2).T, "k*", markersize=9, linewidth=0)
    axes.set(xlim=(left, right), ylim=(bottom, top))
    if drawn:
        axes.legend(frameon=False, fontsize="small")
    return figure


def _points(path: Path | Tensor, name: str) -> np.ndarray:
    points = torch.as_tensor(path.points if isinstance(path, Path) else path).detach().cpu().double()
    if points.ndim != 2 or points.shape[1] != 2:
        raise InvalidInput(
            f"plot_paths: path {name!r} has shape {tuple(points.shape)}; points of the plane are (steps, 2)"
        )
    return points[points.isfinite().all(1)].numpy()
