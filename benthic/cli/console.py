"""What is printed: tables on a terminal, plain columns elsewhere, JSON for programs."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Sequence
from typing import Any

from benthic.base.errors import InvalidInput
from benthic.base.harmless import visible


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]], title: str = "") -> None:
    """Print rows under their names; with lines and colors when a person looks."""
    columns, title = [_cell(name) for name in columns], _cell(title)
    cells = [[_cell(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        head = Text(title, style="table.title") if title else None  # as Text, square brackets are no markup
        drawn = Table(title=head, title_justify="left", header_style="bold cyan")
        for name in columns:
            drawn.add_column(Text(name))
        for row in cells:
            drawn.add_row(*(Text(cell) for cell in row))
        Console().print(drawn)
        return
    if title:
        print(title)
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    for row in [list(columns), *cells]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _cell(value: Any) -> str:
    return visible(str(value)).replace("\n", " ")


def as_json(value: Any) -> None:
    """Print one JSON document; numbers that JSON cannot write become null."""
    text = json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False)
    print(re.sub("[\x7f-\x9f]", lambda found: f"\\u{ord(found[0]):04x}", text))  # JSON spells out the other controls


def answer(text: str = "") -> None:
    """A line of the answer, or several."""
    print(visible(text))


def say(text: str) -> None:
    """A remark for the person, beside the answer."""
    print(visible(text), file=sys.stderr, flush=True)


def plain(value: Any, finite: bool = True) -> Any:
    """Only what JSON and YAML can hold: records and tuples opened, NumPy numbers made plain.

    finite: whether NaN and infinities become None, since JSON has no word for them.

    >>> plain((1, 2.5, float("nan")))
    [1, 2.5, None]
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) or not finite else None
    if isinstance(value, dict):
        return {_key(key): plain(held, finite) for key, held in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, finite) for item in value]
    if hasattr(value, "to_tree"):
        return plain(value.to_tree(), finite)
    if hasattr(value, "tolist"):
        return plain(value.tolist(), finite)
    raise InvalidInput(f"{value!r:.80} is an object, which a file of settings cannot hold; use a named setting")


def _key(key: Any) -> Any:
    return key if isinstance(key, (str, int, bool)) else str(key)
