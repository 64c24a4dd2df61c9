"""``benthic demo``: seven models of digits compared, a table of mixed types, one report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from benthic.cli.look import AsJson


def demo(
    out: Annotated[Path, typer.Option(metavar="FILE", help="The report.")] = Path("report.html"),
    budget: Annotated[str, typer.Option(metavar="B", help="Of one fit of digits.")] = "12s",
    seeds: Annotated[int, typer.Option(metavar="N", min=1, help="Fits of each model.")] = 3,
    jobs: Annotated[int, typer.Option(metavar="N", min=-1, help="Fits at once; 0 fits in this process.")] = 2,
    fits: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Keep the fits here, and go on from those that are there.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Compare seven models of digits, classify and fill a table of mixed types, and write one HTML report."""
    from benthic.cli import tour

    tour.run(out, json, budget=budget, seeds=seeds, jobs=jobs, fits=fits)
