"""One self-contained HTML page: numbers with error bars, pictures with a sentence each, light and dark."""

from __future__ import annotations

import base64
import html
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benthic.base.catalogue import catalogue
from benthic.base.files import write_atomic
from benthic.cli.look import flat
from benthic.cli.style import STYLE

if TYPE_CHECKING:
    from benthic.cli.figures import Picture
    from benthic.cli.job import Outcome
    from benthic.cli.runs import Config


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


@dataclass
class Page:
    """A page that is built from top to bottom and written as one file."""

    title: str
    subtitle: str = ""
    parts: list[str] = field(default_factory=list)

    def heading(self, title: str, text: str = "") -> None:
        """A section and what it is about."""
        self.parts.append(f"<h2>{_safe(title)}</h2>" + (f"<p>{_safe(text)}</p>" if text else ""))

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Rows under their names; ``Number`` cells show their error."""
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


def of_run(outcome: Outcome, config: Config, pictures: Sequence[Picture]) -> Page:
    """The report of one run."""
    from benthic.cli.work import label, note

    page = Page(f"{config.model} on {Path(config.data).name}", catalogue()[config.model].summary)
    held = outcome.split == "test"
    text = f"Judged on {outcome.rows} rows " + ("that were held out of the fit" if held else "it was fitted on")
    page.heading("How good it is", f"{text}; fitted on {outcome.fit_rows} rows in {outcome.seconds:.1f} s.")
    rows = [(label(m), Number(m.value, m.stderr), note(m)) for m in outcome.found]
    page.table(("measure", "value ± standard error", ""), rows)
    if pictures:
        page.heading("What it learned")
        page.pictures(pictures)
    settings = {"data": config.data, "target": config.target, "drop": config.drop, "seed": config.seed}
    page.details("Settings", list((settings | flat(config.params)).items()))
    page.details("Versions", list(config.versions.items()))
    return page
