"""Words after ``sample --given`` as what a fitted model understands: its own labels, or vectors of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benthic.base.condition import Condition
from benthic.base.errors import nearest
from benthic.cli.failure import Usage
from benthic.cli.given import check_told

_SHOWN = 12  # labels named in an error


def wish(model: Any, texts: Sequence[str], n: int, columns: Sequence[Any] = (), names: Sequence[str] = ()) -> Any:
    """What ``n`` draws are given, in turn; None when nothing was said and nothing is needed.

    columns: what the condition is called. names: of the labels 0, 1, ...
    """
    kind, told = type(model).__name__, getattr(model, "condition_", Condition())
    what = ", ".join(map(str, columns)) or "its condition"
    if not texts:
        if told.needed:
            raise Usage(f"this {kind} draws only given {what}; say it with --given {_example(told, names)}")
        return None
    check_told(model, texts)
    if len(texts) > n:
        raise Usage(f"-n {n} leaves some of the {len(texts)} conditions out; ask for at least -n {len(texts)}")
    if told.kind == "labels":
        found = np.array([label_of(text, told.classes, names, what) for text in texts])
    else:
        found = np.array([vector_of(text, told.width, what) for text in texts])
    return found[np.arange(n) % len(found)]


def named(held: np.ndarray, columns: Sequence[Any]) -> dict[str, np.ndarray]:
    """What rows were given, labels (n,) or vectors (n, k), as columns under the names they had in the data.

    >>> list(named(np.zeros((2, 2)), ["age", "height"])), list(named(np.zeros(2), []))
    (['age', 'height'], ['given'])
    """
    parts = [held] if held.ndim == 1 else list(held.T)
    names = [str(name) for name in columns]
    if len(names) != len(parts):
        names = ["given"] if len(parts) == 1 else [f"given_{j}" for j in range(len(parts))]
    return dict(zip(names, parts, strict=True))


def label_of(text: str, classes: Sequence[Any], names: Sequence[str] = (), what: str = "its condition") -> Any:
    """The label that a word stands for: as it is written, by its number, or by the name of its class.

    >>> label_of("3", (2, 3)), label_of("3.0", (2, 3)), label_of("3", ("2", "3")), label_of("b", (0, 1), ("a", "b"))
    (3, 3, '3', 1)
    """
    for label in classes:
        if str(label) == text or (isinstance(label, bool) and str(label).lower() == text.lower()):
            return label
    number = _number(text)
    for label in classes:
        if isinstance(label, (bool, int, float)) and label == number:
            return label
    if text in names and names.index(text) in classes:
        return names.index(text)
    known = _named(classes, names)
    hint = nearest(text, known) if number is None else ""
    shown = ", ".join(known[:_SHOWN]) + (", ..." if len(known) > _SHOWN else "")
    raise Usage(f"--given {text}: {what} has no label {text!r}{hint}; it has {shown}")


def vector_of(text: str, width: int, what: str = "its condition") -> list[float]:
    """Numbers with commas between them.

    >>> vector_of("0.5, -2", 2)
    [0.5, -2.0]
    """
    numbers = [_number(part) for part in text.split(",")]
    if any(number is None or not np.isfinite(number) for number in numbers):
        raise Usage(f"--given {text}: {what} is a vector of {_count(width)}, written {_vector(width)}")
    if len(numbers) != width:
        raise Usage(f"--given {text}: {what} has {_count(width)}, not {len(numbers)}; write {_vector(width)}")
    return [float(number) for number in numbers if number is not None]


def _named(classes: Sequence[Any], names: Sequence[str]) -> list[str]:
    """Labels as a person writes them: by name where every one has a name of its own."""
    named = [names[c] for c in classes if isinstance(c, int) and not isinstance(c, bool) and 0 <= c < len(names)]
    return named if len(named) == len(classes) else [str(label) for label in classes]


def _example(told: Condition, names: Sequence[str]) -> str:
    return _named(told.classes, names)[0] if told.kind == "labels" else _vector(told.width)


def _vector(width: int) -> str:
    return ",".join(["0.5", "1.5", "2.5"][:width]) + (",..." if width > 3 else "")


def _count(width: int) -> str:
    return "1 number" if width == 1 else f"{width} numbers"


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
