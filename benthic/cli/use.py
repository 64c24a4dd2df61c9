"""``benthic predict``, ``sample``, ``forecast`` and ``evaluate``: a fitted model at work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from benthic.cli.fit import DataArgument
from benthic.cli.look import AsJson, RunArgument

Out = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A .csv, .parquet or .npy file; without it, CSV on stdout."),
]


def predict(
    run: RunArgument,
    data: DataArgument,
    out: Out = None,
    proba: Annotated[bool, typer.Option("--proba", help="The probability of every class instead.")] = False,
) -> None:
    """Predict the rows of DATA."""
    from benthic.cli import work

    work.predict(run, data, out, proba)


def sample(
    run: RunArgument,
    n: Annotated[int, typer.Option("-n", "--number", metavar="N", min=1, help="How many.")] = 10,
    seed: Annotated[
        int | None, typer.Option(metavar="S", min=0, help="Decides the draw; by default the seed of the run does.")
    ] = None,
    out: Out = None,
) -> None:
    """Draw new examples: a table comes back as a table, with the same names, types and categories."""
    from benthic.cli import work

    work.sample(run, n, seed, out)


def forecast(
    run: RunArgument,
    data: DataArgument,
    steps: Annotated[int, typer.Option("-h", "--steps", metavar="H", min=1, help="How many steps ahead.")] = 10,
    level: Annotated[float, typer.Option(metavar="P", help="Probability that each interval holds the truth.")] = 0.9,
    out: Out = None,
) -> None:
    """Go on with the sequences of DATA: one line a step, with its interval."""
    from benthic.cli import work

    work.forecast(run, data, steps, level, out)


def evaluate(
    run: RunArgument,
    data: DataArgument,
    target: Annotated[
        str | None, typer.Option(metavar="COL", help="The true answers; by default the run's target.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Judge a model on DATA: numbers with their standard errors."""
    from benthic.cli import work

    work.evaluate(run, data, target, json)
