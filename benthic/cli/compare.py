"""``benthic compare``: every family side by side on one's own data, under one budget."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from benthic.base.catalogue import catalogue
from benthic.base.errors import nearest
from benthic.cli.failure import Usage
from benthic.cli.fit import DataArgument, Drop
from benthic.cli.look import AsJson
from benthic.cli.use import SafeCsv

TASKS = ("generate", "classify", "regress", "cluster")


def compare(
    data: DataArgument,
    models: Annotated[
        list[str] | None,
        typer.Argument(metavar="MODELS", help="Names of `benthic list`; without any, one of every family."),
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="COL", help="The column to predict; without it, models generate rows.")
    ] = None,
    drop: Drop = None,
    task: Annotated[
        str | None, typer.Option(metavar="T", help=f"{', '.join(TASKS)}; by default chosen by the target.")
    ] = None,
    budget: Annotated[
        str, typer.Option(metavar="B", help="Of one fit: 30s, 10m, parameters=100000 or evaluations=1000000.")
    ] = "30s",
    seeds: Annotated[int, typer.Option(metavar="N", min=1, help="Fits of each model.")] = 3,
    metrics: Annotated[
        list[str] | None, typer.Option(metavar="M", help="Metrics to rank by, with commas or repeated.")
    ] = None,
    features: Annotated[
        str | None, typer.Option(metavar="F", help="Where samples are compared: raw, pca, random or classifier.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="MODEL.KEY=VALUE", help="A setting, e.g. VAE.latent_dim=8; repeat for more."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Fits, tables and report; runs/compare-DATA by default.")
    ] = None,
    jobs: Annotated[
        int, typer.Option(metavar="N", min=-1, help="Fits at once, -1 for a core each; 0 fits in this process.")
    ] = 1,
    tune: Annotated[int, typer.Option(metavar="N", min=0, help="Settings to try for each model first.")] = 0,
    stop_after: Annotated[
        str | None,
        typer.Option(metavar="T", help="Begin no fit of a generator that would end later, such as 9m; go on later."),
    ] = None,
    safe_csv: SafeCsv = False,
    json: AsJson = False,
) -> None:
    """Compare models on DATA under one budget: a table with error bars, a verdict, and one HTML report.

    A comparison that was stopped goes on where it was when the same command is given again: fits that are done stay
    in the folder.
    """
    if task is not None and task not in TASKS:
        raise Usage(f"there is no task {task!r}{nearest(task, TASKS)}; there are {', '.join(TASKS)}")
    known = catalogue()
    for name in models or ():
        if name not in known:
            raise Usage(f"there is no model {name!r}{nearest(name, known)}; benthic list shows all")
    for name in {name for name in models or () if (models or []).count(name) > 1}:
        raise Usage(f"{name} is named twice; each model takes part once")

    from benthic.cli import contest

    asked = contest.Asked(
        data,
        tuple(models or ()),
        target,
        tuple(drop or ()),
        task,
        budget,
        seeds,
        tuple(part.strip() for word in metrics or () for part in word.split(",") if part.strip()),
        features,
        tuple(settings or ()),
        out,
        jobs,
        tune,
        stop_after,
        safe_csv,
    )
    contest.run(asked, json)
