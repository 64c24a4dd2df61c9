"""``benthic demo``: models of four families on bundled data, in a table and one report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from benthic.cli.look import AsJson


def demo(
    out: Annotated[Path, typer.Option(metavar="FILE", help="The report.")] = Path("report.html"),
    json: AsJson = False,
) -> None:
    """Fit models of four families to bundled data, print how good they are, and write one HTML report."""
    from benthic.cli import tour

    tour.run(out, json)
