"""Figures made without touching pyplot's global state."""

from __future__ import annotations

import base64
import io
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@cache
def _picture_class() -> type[Figure]:
    from matplotlib.figure import Figure

    class Picture(Figure):
        """A matplotlib figure that a notebook shows as it is, without pyplot."""

        def _repr_html_(self) -> str:
            return as_html(self)

    return Picture


def new_figure(width: float, height: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple[Any, Any]:
    """A figure of so many inches and its axes."""
    figure = _picture_class()(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, **options)


def settle(figure: Any) -> None:
    """Lay a figure out and leave it so: to draw it several times then costs a quarter."""
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
        figure.set_layout_engine("none")


def png(figure: Any, dpi: int = 110) -> bytes:
    """The figure as PNG."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi)
    return buffer.getvalue()


def as_html(figure: Any, alt: str = "") -> str:
    """The figure as an ``<img>`` that carries its own data."""
    data = base64.b64encode(png(figure)).decode()
    return f'<img alt="{alt}" src="data:image/png;base64,{data}">'
