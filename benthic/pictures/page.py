"""One self-contained HTML page: numbers with error bars, pictures with a sentence each, light and dark."""

from __future__ import annotations

import base64
import html
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from benthic.base.files import write_atomic
from benthic.pictures.canvas import png, settle
from benthic.pictures.style import STYLE


@dataclass(frozen=True)
class Picture:
    """A figure with a file name, a title and a sentence that says what to see in it."""

    name: str
    title: str
    caption: str
    figure: Any

    def png(self) -> bytes:
        """The picture on a transparent ground, so that it suits a light and a dark page."""
        settle(self.figure)
        self.figure.patch.set_alpha(0)
        for axes in self.figure.axes:
            axes.patch.set_alpha(0)
            for side in ("top", "right"):
                axes.spines[side].set_visible(False)
        return png(self.figure, dpi=130)

    def save(self, folder: Path) -> None:
        """Write it on white paper as a file of its own."""
        settle(self.figure)
        self.figure.patch.set(facecolor="white", alpha=1)
        write_atomic(folder / f"{self.name}.png", png(self.figure))


@dataclass(frozen=True)
class Number:
    """A value with its standard error, for a cell of a table."""

    value: float
    stderr: float
    digits: int = 4

    @property
    def error(self) -> str:
        """The error, where it is known."""
        return f"± {self.stderr:.2g}" if math.isfinite(self.stderr) else ""

    def __str__(self) -> str:
        return f"{self.value:.{self.digits}g} {self.error}".rstrip()


@dataclass(frozen=True)
class Tags:
    """A name, short words in colored frames, and a sentence below them, for a cell of a table.

    words: pairs of a word and its tone, ``good``, ``bad`` or ``plain``.
    """

    words: tuple[tuple[str, Literal["good", "bad", "plain"]], ...] = ()
    note: str = ""
    name: str = ""

    def __str__(self) -> str:
        return "; ".join(filter(None, (self.name, ", ".join(word for word, _ in self.words), self.note)))


@dataclass(frozen=True)
class Short:
    """A text that stays on one line, with a softer one below it, for a cell of a table."""

    text: str
    below: str = ""

    def __str__(self) -> str:
        return f"{self.text} ({self.below})" if self.below else self.text


@dataclass
class Page:
    """A page that is built from top to bottom and written as one file."""

    title: str
    subtitle: str = ""
    parts: list[str] = field(default_factory=list)

    def heading(self, title: str, text: str = "") -> None:
        """A section and what it is about."""
        self.parts.append(f"<h2>{_safe(title)}</h2>" + (f"<p>{_safe(text)}</p>" if text else ""))

    def chapter(self, title: str, text: str = "") -> None:
        """A part of the page that holds several sections."""
        self.parts.append(f'<h2 class="chapter">{_safe(title)}</h2>' + (f"<p>{_safe(text)}</p>" if text else ""))

    def code(self, text: str) -> None:
        """A line to type."""
        self.parts.append(f'<div class="words"><code>{_safe(text)}</code></div>')

    def words(self, sentences: Sequence[str]) -> None:
        """Sentences in a frame of their own, the first one stressed."""
        body = "".join(f"<p>{_safe(sentence)}</p>" for sentence in sentences)
        self.parts.append(f'<div class="words">{body}</div>')

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Rows under their names; ``Number`` cells show their error, ``Tags`` their frames."""
        head = "".join(f"<th>{_safe(name)}</th>" for name in columns)
        body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
        self.parts.append(
            f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
        )

    def pictures(self, pictures: Sequence[Picture]) -> None:
        """Pictures side by side, each with its sentence."""
        cards = "".join(map(_card, pictures))
        self.parts.append(f'<div class="grid">{cards}</div>')

    def details(self, title: str, rows: Sequence[Sequence[Any]]) -> None:
        """A table that opens on demand."""
        body = "".join(f"<tr><td>{_safe(str(k))}</td><td><code>{_safe(str(v))}</code></td></tr>" for k, v in rows)
        table = f'<div class="scroll"><table><tbody>{body}</tbody></table></div>'
        self.parts.append(f"<details><summary>{_safe(title)}</summary>{table}</details>")

    def html(self) -> str:
        """The whole page; nothing in it is loaded from elsewhere."""
        from benthic import __version__

        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            '<meta name="color-scheme" content="light dark">'
            f"<title>{_safe(self.title)}</title><style>{STYLE}</style></head><body><main>"
            f"<header><h1>{_safe(self.title)}</h1><p>{_safe(self.subtitle)}</p></header>"
            + "\n".join(self.parts)
            + f"<footer>Benthic {__version__}</footer></main></body></html>\n"
        )

    def write(self, path: Path) -> None:
        """Write the page; an older one stays until this one is whole."""
        write_atomic(path, self.html().encode())


def _cell(value: Any) -> str:
    if isinstance(value, Number):
        shown = f"<b>{value.value:.{value.digits}g}</b> <span>{value.error}</span>"
        return f'<td class="number">{shown}</td>'
    if isinstance(value, Tags):
        framed = "".join(f'<span class="tag {tone}">{_safe(word)}</span>' for word, tone in value.words)
        note = f'<span class="note">{_safe(value.note)}</span>' if value.note else ""
        name = f"<b>{_safe(value.name)}</b> " if value.name else ""
        return f"<td>{name}{framed}{note}</td>"
    if isinstance(value, Short):
        below = f"<br><span>{_safe(value.below)}</span>" if value.below else ""
        return f'<td class="number"><b>{_safe(value.text)}</b>{below}</td>'
    return f"<td>{_safe(str(value))}</td>"


def _card(picture: Picture) -> str:
    data = base64.b64encode(picture.png()).decode()
    width, height = picture.figure.get_size_inches()
    wide = ' class="wide"' if width > 6.2 and width > 1.3 * height else ""
    image = f'<img alt="{_safe(picture.title)}" width="{96 * width:.0f}" src="data:image/png;base64,{data}">'
    caption = f"<figcaption>{_safe(picture.caption)}</figcaption>"
    return f"<figure{wide}><h3>{_safe(picture.title)}</h3>{image}{caption}</figure>"


def _safe(text: str) -> str:
    return html.escape(text, quote=True)
