"""``benthic fit`` and ``benthic resume``: from data to a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from benthic.base.catalogue import catalogue
from benthic.base.errors import nearest
from benthic.cli.console import as_json, say
from benthic.cli.failure import Usage
from benthic.cli.look import AsJson

DataArgument = Annotated[
    str, typer.Argument(metavar="DATA", help="A bundled set (digits, iris, moons, ...) or a path.")
]
Target = Annotated[str | None, typer.Option(metavar="COL", help="The column to predict; bundled sets know theirs.")]
Drop = Annotated[list[str] | None, typer.Option(metavar="COL", help="A column to leave out; repeat for more.")]


def fit(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A name of `benthic list`.")],
    data: DataArgument,
    target: Target = None,
    given: Annotated[
        list[str] | None,
        typer.Option(metavar="COL", help="The condition of each row, a label or a number; repeat for several numbers."),
    ] = None,
    drop: Drop = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting, e.g. trainer.epochs=50; repeat for more."),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="RUN", help="The run folder to make.")] = None,
    test_fraction: Annotated[
        float | None,
        typer.Option(metavar="F", min=0.0, max=0.9, help="Share of rows held out to judge; 0.2, but 0 when streamed."),
    ] = None,
    stream: Annotated[
        bool | None,
        typer.Option(help="Read the file in pieces; by default only when it is large.", show_default=False),
    ] = None,
    json: AsJson = False,
) -> None:
    """Fit a model to data and keep it in a run folder, with its numbers, pictures and a report."""
    known = catalogue()
    if model not in known:
        raise Usage(f"there is no model {model!r}{nearest(model, known)}; there are {', '.join(known)}")

    from benthic.cli import job

    asked = job.Asked(
        *(model, data, target, tuple(given or ()), tuple(drop or ()), tuple(settings or ())),
        *(out, test_fraction, stream),
    )
    job.report_to(job.start(asked), json)


def resume(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    new_data: Annotated[
        bool, typer.Option("--new-data", help="Go on although the data are not those the run was started with.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Go on with a run that was stopped, from its newest checkpoint; without one it starts again."""
    from benthic.cli import runs

    found = runs.find(run)
    if found.finished:
        if json:
            as_json({"run": str(found.folder), "state": "finished"})
        else:
            say(f"{found.folder} is finished; see it with: benthic show {found.folder}")
        return

    from benthic.cli import job

    job.report_to(job.go_on(found, new_data), json)
