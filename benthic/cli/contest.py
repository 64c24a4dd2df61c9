"""What ``benthic compare`` does: data and models in, fits kept in a folder, tables and a report out."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import benthic
from benthic.base.catalogue import catalogue
from benthic.base.errors import Interrupted, InvalidInput, nearest
from benthic.base.schema import is_frame
from benthic.cli import console, runs
from benthic.cli import settings as words
from benthic.cli.failure import Usage
from benthic.cli.inputs import Inputs, open_data

if TYPE_CHECKING:
    from benthic.leaderboard.contest.records import Budget
    from benthic.leaderboard.contest.results import Comparison

_KINDS = 20  # labels that can be told apart by color


@dataclass(frozen=True)
class Asked:
    """What the command line said."""

    data: str
    models: tuple[str, ...] = ()
    target: str | None = None
    drop: tuple[str, ...] = ()
    task: str | None = None
    budget: str = "30s"
    seeds: int = 3
    metrics: tuple[str, ...] = ()
    features: str | None = None
    settings: tuple[str, ...] = ()
    out: Path | None = None
    jobs: int = 1
    tune: int = 0
    stop_after: str | None = None
    safe_csv: bool = False


def run(asked: Asked, json: bool) -> None:
    """Compare, write everything into the folder, and print the table."""
    budget = budget_of(asked.budget)
    inputs = as_pictures(open_data(asked.data, asked.target, asked.drop, stream=False))
    if inputs.text:
        raise Usage(f"{asked.data} holds lines of text, and models of tables and images are compared")
    task = _task(asked, inputs)
    models = models_of(asked)
    folder = asked.out or runs.ROOT / f"compare-{Path(asked.data).name.split('.')[0] or 'data'}"
    if folder.is_file():
        raise Usage(f"--out {folder} is a file; a comparison is kept in a folder")
    found = _compare(asked, models, inputs, task, budget, folder)
    keep(found, folder, held_labels(found, inputs), safe_csv=asked.safe_csv)
    if json:
        console.as_json({**found.to_dict(), "folder": str(folder), "report": str(folder / "report.html")})
        return
    tell(found)
    console.answer(f"\n{folder / 'report.html'}: open it in a browser; fits and tables are beside it")


def _compare(asked: Asked, models: Any, inputs: Inputs, task: str | None, budget: Budget, folder: Path) -> Comparison:
    y = None if task in ("generate", "cluster") and asked.target is None and inputs.target is None else inputs.y
    try:
        found = benthic.compare(
            models,
            inputs.X,
            y,
            task=task,
            budget=budget,
            seeds=asked.seeds,
            metrics=list(asked.metrics) or None,
            features=asked.features,
            folder=folder,
            n_jobs=asked.jobs,
            tune=asked.tune,
            stop_after=asked.stop_after,
        )
    except Interrupted:
        raise
    except KeyboardInterrupt as error:
        raise Interrupted(
            f"stopped; fits that are done are kept in {folder}, and the same command goes on from there"
        ) from error
    return described(found, inputs)


def as_pictures(inputs: Inputs) -> Inputs:
    """Rows of pixels in their height and width, so that models of pictures see pictures."""
    if inputs.image is None or is_frame(inputs.X) or inputs.X.ndim != 2:
        return inputs
    return replace(inputs, X=inputs.X.reshape(len(inputs.X), 1, *inputs.image))


def described(found: Comparison, inputs: Inputs) -> Comparison:
    """The comparison with what is known of its data: their name and the names of columns."""
    known: dict[str, Any] = {"columns": list(inputs.columns)} if inputs.columns and inputs.image is None else {}
    facts = replace(found.data, name=inputs.name, target=None if inputs.target is None else str(inputs.target))
    return replace(found, data=facts, settings={**known, **found.settings})


def held_labels(found: Comparison, inputs: Inputs) -> np.ndarray | None:
    """Labels of the held-out rows of a comparison of generators, where there are few kinds of them."""
    from benthic.leaderboard.contest.protocol import deal

    dealt_otherwise = "missing values" in found.settings
    if found.task != "generate" or inputs.y is None or dealt_otherwise or len(np.unique(inputs.y)) > _KINDS:
        return None
    names = np.array(inputs.classes) if inputs.classes else None
    chosen: np.ndarray = inputs.y[deal(inputs.rows).first]
    return chosen if names is None or chosen.dtype.kind not in "iu" else names[chosen]


def keep(found: Comparison, folder: Path, labels: np.ndarray | None = None, *, safe_csv: bool = False) -> None:
    """Write the tables and, last, the report.

    labels: of the held-out rows, to color maps by. safe_csv: as ``safe`` of ``Comparison.to_csv``.
    """
    from benthic.leaderboard.contest.showing.page import write_report

    found.to_json(folder / "comparison.json")
    found.to_csv(folder / "table.csv", safe=safe_csv)
    found.to_markdown(folder / "table.md")
    write_report(found, folder / "report.html", labels)


def tell(found: Comparison) -> None:
    """Print the table and what to choose."""
    columns, rows = _narrowed(*found.table(), found.metrics)
    seeds = f"{len(found.seeds)} seed{'' if len(found.seeds) == 1 else 's'}"
    title = f"{found.task} on {found.data.name}: {found.data.rows} rows; {found.budget}, {seeds}"
    console.table(columns, rows, title)
    console.answer()
    for sentence in found.verdict:
        console.answer(sentence)


def _narrowed(columns: list[str], rows: list[list[str]], metrics: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """The table without single metrics where a terminal is too narrow for them; the report has them."""
    needed = sum(3 + max(map(len, column)) for column in zip(columns, *rows, strict=True))
    if not sys.stdout.isatty() or needed <= shutil.get_terminal_size().columns:
        return columns, rows
    kept = [place for place, name in enumerate(columns) if name not in metrics]
    return [columns[place] for place in kept], [[row[place] for place in kept] for row in rows]


def budget_of(text: str) -> Budget:
    """A budget as the command line writes it.

    >>> str(budget_of("2m")), str(budget_of("parameters=1e5"))
    ('2 min a fit', '100,000 parameters a fit')
    """
    from benthic.leaderboard.contest.records import Budget

    kind, equals, amount = text.partition("=")
    try:
        return Budget.of({kind.strip(): float(amount)} if equals else text)
    except ValueError as error:
        reason = str(error).removeprefix("compare: ")
        hint = "" if isinstance(error, InvalidInput) else "; write 30s, 10m, parameters=100000 or evaluations=1000000"
        raise Usage(f"--budget {text}: {reason}{hint}") from error


def models_of(asked: Asked) -> dict[str, Any] | list[str] | None:
    """The models that were named, with their settings; None takes one of every family."""
    tree = words.parse(asked.settings)
    if not tree:
        return list(asked.models) or None
    if not asked.models:
        raise Usage("--set is for models that are named after DATA; name those to compare")
    for name, params in tree.items():
        if name not in asked.models:
            raise Usage(f"--set {name}...: {name!r} does not take part{nearest(name, asked.models)}")
        if not isinstance(params, dict):
            raise Usage(f"--set {name}={params}: a setting is written MODEL.KEY=VALUE, such as VAE.latent_dim=8")
    return {name: _made(name, tree[name]) if name in tree else name for name in asked.models}


def _made(name: str, params: dict[str, Any]) -> Any:
    from benthic.training.trainer import Trainer

    cls: Any = catalogue()[name].cls
    words.check(name, params, cls._get_param_names(), [f.name for f in fields(Trainer)])
    try:
        return cls(**params)
    except (TypeError, ValueError) as error:
        raise Usage(str(error)) from error


def _task(asked: Asked, inputs: Inputs) -> str | None:
    """The task that was asked for; None leaves it to the target."""
    if asked.task in ("classify", "regress") and inputs.y is None:
        raise Usage(f"--task {asked.task} needs answers to learn from; name their column with --target COL")
    if asked.task is not None:
        return asked.task
    return None if asked.target is not None else "generate"
