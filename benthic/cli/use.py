"""``benthic predict``, ``sample``, ``impute``, ``forecast`` and ``evaluate``: a fitted model at work."""

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
SafeCsv = Annotated[
    bool, typer.Option("--safe-csv", help="Put ' before cells of CSV that a spreadsheet would take for formulas.")
]
GivenColumns = Annotated[
    list[str] | None,
    typer.Option("--given", metavar="COL", help="The condition of each row; by default the column of the run."),
]


def predict(
    run: RunArgument,
    data: DataArgument,
    out: Out = None,
    proba: Annotated[bool, typer.Option("--proba", help="The probability of every class instead.")] = False,
    safe_csv: SafeCsv = False,
) -> None:
    """Predict the rows of DATA."""
    from benthic.cli import work

    work.predict(run, data, out, proba, safe_csv)


def sample(
    run: RunArgument,
    n: Annotated[int, typer.Option("-n", "--number", metavar="N", min=1, help="How many.")] = 10,
    seed: Annotated[
        int | None, typer.Option(metavar="S", min=0, help="Decides the draw; by default the seed of the run does.")
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WHAT",
            help="The label to draw, or numbers with commas between them; repeat to draw several in turn.",
        ),
    ] = None,
    out: Out = None,
    safe_csv: SafeCsv = False,
) -> None:
    """Draw new examples: a table comes back as a table, with the same names, types and categories.

    A model fitted with --given draws given a label (--given 3) or numbers (--given 0.5,2); several are taken in turn,
    so that --given 3 --given 5 gives a 3, a 5, a 3 and so on.
    """
    from benthic.cli import work

    work.sample(run, n, seed, tuple(given or ()), out, safe_csv)


def impute(
    run: RunArgument, data: DataArgument, given: GivenColumns = None, out: Out = None, safe_csv: SafeCsv = False
) -> None:
    """Fill the empty cells of DATA: the same rows and columns come back, and what was there stays as it was.

    A model fitted with --given is told the condition of every row that has one.
    """
    from benthic.cli import work

    work.impute(run, data, tuple(given or ()), out, safe_csv)


def forecast(
    run: RunArgument,
    data: DataArgument,
    steps: Annotated[int, typer.Option("-h", "--steps", metavar="H", min=1, help="How many steps ahead.")] = 10,
    level: Annotated[float, typer.Option(metavar="P", help="Probability that each interval holds the truth.")] = 0.9,
    out: Out = None,
    safe_csv: SafeCsv = False,
) -> None:
    """Go on with the sequences of DATA: one line a step, with its interval."""
    from benthic.cli import work

    work.forecast(run, data, steps, level, out, safe_csv)


def evaluate(
    run: RunArgument,
    data: DataArgument,
    target: Annotated[
        str | None, typer.Option(metavar="COL", help="The true answers; by default the run's target.")
    ] = None,
    given: GivenColumns = None,
    json: AsJson = False,
) -> None:
    """Judge a model on DATA: numbers with their standard errors.

    A model fitted with --given is judged given the condition of each row, where DATA have it.
    """
    from benthic.cli import work

    work.evaluate(run, data, target, tuple(given or ()), json)
