"""Phase portraits: a field of the plane, and the curves that follow it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from benthic.base.errors import InvalidInput
from benthic.dynamics.events import Event
from benthic.dynamics.ode import solve
from benthic.dynamics.packing import Field
from benthic.pictures.canvas import new_figure


def phase_portrait(
    field: Field,
    box: tuple[float, float, float, float],
    starts: Any = None,
    *,
    time: float = 10.0,
    at: float = 0.0,
    arrows: int = 21,
    axes: Any = None,
) -> Any:
    """Arrows of a field (t, y) of the plane, and its integral curves through given points.

    box: (left, right, bottom, top). starts: (n, 2) points through which curves go, forward and backward by ``time``
    or until they are far outside. at: the time at which the arrows are drawn. axes: where to draw; None makes a
    figure, which is returned.

    >>> picture = phase_portrait(lambda t, y: torch.stack([y[..., 1], -y[..., 0]], -1), (-2, 2, -2, 2), [[1.0, 0.0]])
    """
    left, right, bottom, top = box
    if not (left < right and bottom < top):
        raise InvalidInput(f"phase_portrait: box is {box}; it must be (left, right, bottom, top)")
    figure = None
    if axes is None:
        figure, axes = new_figure(5.0, 4.6)
    grid = torch.cartesian_prod(
        torch.linspace(left, right, arrows, dtype=torch.float64),
        torch.linspace(bottom, top, arrows, dtype=torch.float64),
    )
    with torch.no_grad():
        slope = field(torch.tensor(at, dtype=torch.float64), grid)
        length = slope.norm(dim=1, keepdim=True)
        slope = slope / length.clamp(min=1e-12)
        axes.quiver(
            *grid.T.numpy(), *slope.T.numpy(), length[:, 0].log1p().numpy(), cmap="Blues", width=0.003, scale=32
        )
        for color, start in enumerate(np.atleast_2d([] if starts is None else starts)):
            if start.size:
                _curve(axes, field, torch.tensor(start, dtype=torch.float64), box, time, at, f"C{color % 10}")
    axes.set(xlim=(left, right), ylim=(bottom, top))
    return figure


def _curve(axes: Any, field: Field, start: torch.Tensor, box: Any, time: float, at: float, color: str) -> None:
    """The curve through a point, both ways, cut where it is twice as far out as the box."""
    middle = torch.tensor([(box[0] + box[1]) / 2, (box[2] + box[3]) / 2], dtype=torch.float64)
    reach = 2 * max(box[1] - box[0], box[3] - box[2])
    away = Event(lambda t, y: (y - middle).norm() - reach)
    for end in (at + time, at - time):
        found = solve(field, start, np.linspace(at, end, 400), events=[away], rtol=1e-6, atol=1e-8)
        axes.plot(*found.y.T.numpy(), color=color, linewidth=1.2)
    axes.plot(*start.numpy(), "o", color=color, markersize=4)
