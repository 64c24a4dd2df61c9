"""Columns of a table, real and drawn, beside each other."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benthic.base.schema import is_frame, to_arrow
from benthic.pictures.canvas import new_figure


def columns_of(values: Any, names: Sequence[str] = ()) -> dict[str, list[Any]]:
    """Rows of a frame or an array as lists of values by column; dates as years, so that they can be counted in bins.

    names: of the columns of an array.

    >>> columns_of(np.array([[1.0, 2.0]]), ["a", "b"])
    {'a': [1.0], 'b': [2.0]}
    """
    if is_frame(values):
        table = to_arrow(values)
        return {name: _values(table.column(name)) for name in table.column_names}
    flat = np.asarray(values).reshape(len(values), -1)
    known = names if len(names) == flat.shape[1] else [f"x{j}" for j in range(flat.shape[1])]
    return {str(name): flat[:, j].tolist() for j, name in enumerate(known)}


def _values(column: Any) -> list[Any]:
    import pyarrow as pa

    if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
        seconds = column.cast(pa.timestamp("s"), safe=False).cast(pa.int64()).to_pylist()
        return [None if second is None else 1970 + second / 31_556_952 for second in seconds]
    return list((column.cast(pa.int64()) if pa.types.is_temporal(column.type) else column).to_pylist())


def marginals(
    real: Mapping[str, Sequence[Any]],
    drawn: Mapping[str, Sequence[Any]],
    labels: tuple[str, str] = ("data", "samples"),
) -> Any:
    """A histogram of every column of numbers and bars for every other one, the first twelve."""
    names = list(real)[:12]
    columns = min(4, len(names))
    rows = math.ceil(len(names) / columns)
    figure, grid = new_figure(2.3 * columns + 0.6, 1.9 * rows + 0.4, rows, columns, squeeze=False)
    for axes, name in zip(grid.flat, names, strict=False):
        _column(axes, real[name], drawn[name], labels)
        axes.set_title(str(name), fontsize="small")
        axes.tick_params(labelsize="x-small")
        axes.set_yticks([])
    for axes in grid.flat[len(names) :]:
        axes.set_axis_off()
    grid.flat[0].legend(frameon=False, fontsize="x-small")
    return figure


def _column(axes: Any, real: Sequence[Any], drawn: Sequence[Any], labels: tuple[str, str]) -> None:
    if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in real if value is not None):
        first, second = _numbers(real), _numbers(drawn)
        if not len(first):
            return
        low, high = np.quantile(np.concatenate([first, second]), [0.005, 0.995])
        edges = np.linspace(low, high if high > low else low + 1, 25)
        for values, label in ((first, labels[0]), (second, labels[1])):
            axes.hist(values, edges, density=True, alpha=0.55, label=label)
        return
    common = [value for value, _ in Counter(map(str, real)).most_common(8)]
    for offset, values, label in ((-0.2, real, labels[0]), (0.2, drawn, labels[1])):
        counts = Counter(map(str, values))
        heights = [counts[value] / max(len(values), 1) for value in common]
        axes.bar(np.arange(len(common)) + offset, heights, 0.4, alpha=0.75, label=label)
    axes.set_xticks(range(len(common)), [value[:8] for value in common], rotation=45, ha="right")


def _numbers(values: Sequence[Any]) -> np.ndarray:
    found = np.array([value for value in values if value is not None], dtype=float)
    return found[np.isfinite(found)]
