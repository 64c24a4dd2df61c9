"""A person's text in the hands of other programs: a terminal or a spreadsheet shows it and obeys nothing in it."""

from __future__ import annotations

import re

_OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all control characters but tabs and ends of lines
FORMULA = r"^([=+\-@\t\r\n])"  # how a cell begins that spreadsheets compute


def visible(text: str) -> str:
    r"""A text with its control characters spelled out, so that colors, titles and moves of the cursor are only read.

    >>> print(visible("\x1b[31mred\x1b[0m"))
    \x1b[31mred\x1b[0m
    """
    return _OBEYED.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def inert(cell: str) -> str:
    """A cell of a CSV file with an apostrophe before it, where a spreadsheet would take it for a formula.

    >>> inert("=cmd|' /C calc'!A0"), inert("a=b")
    ("'=cmd|' /C calc'!A0", 'a=b')
    """
    return re.sub(FORMULA, r"'\1", cell)
