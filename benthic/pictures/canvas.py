"""Figures made without touching pyplot's global state."""

from __future__ import annotations

import base64
import io
from typing import Any


def new_figure(width: float, height: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple[Any, Any]:
    """A figure of so many inches and its axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, **options)


def png(figure: Any, dpi: int = 110) -> bytes:
    """The figure as PNG."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi)
    return buffer.getvalue()


def as_html(figure: Any, alt: str = "") -> str:
    """The figure as an ``<img>`` that carries its own data."""
    data = base64.b64encode(png(figure)).decode()
    return f'<img alt="{alt}" src="data:image/png;base64,{data}">'
