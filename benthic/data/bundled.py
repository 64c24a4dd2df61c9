"""Data that need no download: scikit-learn's small tables, and toys whose density is known."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benthic.base.errors import InvalidInput, nearest
from benthic.data.dataset import Dataset
from benthic.data.read import read
from benthic.data.toys import TOYS, toy

_TABLES = {
    "digits": ("digit", "1797 pictures of handwritten digits, 8x8 pixels between 0 and 1"),
    "iris": ("species", "150 flowers of 3 species of iris, 4 lengths in cm"),
    "wine": ("cultivar", "178 wines of 3 cultivars, 13 chemical measurements"),
    "breast_cancer": ("diagnosis", "569 biopsies, malignant or benign, 30 measurements of cell nuclei"),
    "diabetes": ("progression", "442 patients, 10 standardized measurements, progression after a year"),
}


def names() -> tuple[str, ...]:
    """What ``load`` knows by name.

    >>> "moons" in names()
    True
    """
    return (*_TABLES, *TOYS)


def load(
    name: str | Path,
    target: str | int | None = None,
    drop: Sequence[Any] = (),
    *,
    n: int = 2000,
    seed: int = 0,
) -> Dataset:
    """A bundled data set by name, or a file by path.

    target, drop: other columns to predict or to leave out. n, seed: how many rows of a toy to draw.

    >>> load("iris").X.shape
    (150, 4)
    """
    if str(name) in _TABLES:
        return _chosen(_table(str(name)), target, drop)
    if str(name) in TOYS:
        return _chosen(_toy(str(name), n, seed), target, drop)
    if Path(name).exists():
        return read(name, target, drop)
    raise InvalidInput(
        f"load: {str(name)!r} is neither a file nor a bundled set{nearest(str(name), names())}; "
        f"bundled are {', '.join(names())}"
    )


def _table(name: str) -> Dataset:
    from sklearn import datasets

    raw = getattr(datasets, f"load_{name}")()
    goal, description = _TABLES[name]
    X = raw.data / 16 if name == "digits" else raw.data
    classes = tuple(map(str, raw.get("target_names", ())))
    return Dataset(X, raw.target, name, description, goal, tuple(map(str, raw.feature_names)), classes)


def _toy(name: str, n: int, seed: int) -> Dataset:
    if n < 1:
        raise InvalidInput(f"load: n is {n}; a toy needs at least 1 row")
    made = toy(name)
    X, part = made.draw(n, seed)
    description = f"{n} points of the plane drawn from {name.replace('_', ' ')}, whose density is known"
    if made.parts == 1:
        return Dataset(X, None, name, description, None, ("x", "y"))
    return Dataset(X, part, name, description, "part", ("x", "y"), tuple(map(str, range(made.parts))))


def _chosen(data: Dataset, target: Any, drop: Sequence[Any]) -> Dataset:
    """The data set with another target or fewer columns."""
    if target in (None, data.target) and not drop:
        return data
    columns = list(data.feature_names)
    for column in (*drop, *([] if target in (None, data.target) else [target])):
        if column not in columns:
            raise InvalidInput(
                f"load: {data.name} has no column {column!r}"
                f"{nearest(str(column), [*columns, str(data.target)])}; "
                f"its columns are {', '.join(map(repr, columns))}"
            )
    kept = [j for j, column in enumerate(columns) if column not in (*drop, target)]
    if not kept:
        raise InvalidInput(f"load: no column of {data.name} is left to learn from; drop fewer")
    own = target in (None, data.target)
    y = data.y if own else np.array(data.X[:, columns.index(target)])
    return Dataset(
        data.X[:, kept],
        y,
        data.name,
        data.description,
        data.target if own else target,
        tuple(columns[j] for j in kept),
        data.target_names if own else (),
    )
