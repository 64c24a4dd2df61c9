"""What ``benthic demo`` does: compare seven models of digits, then work on a table, and write it all into one page."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import benthic
from benthic.cli import console, tour_table
from benthic.cli.contest import as_pictures, budget_of, described, held_labels, tell
from benthic.cli.inputs import open_data
from benthic.leaderboard.contest.baselines import ResampledRows
from benthic.leaderboard.contest.results import Comparison
from benthic.leaderboard.contest.showing.page import add_comparison
from benthic.pictures.page import Page

_CLASSIFY = "8s"  # of one fit on the table, at most
_TRY = "benthic compare YOUR.csv --target COLUMN --budget 30s --jobs 2"


def models() -> dict[str, Any]:
    """Six families with settings that suit small pictures and seconds, and a model that only copies."""
    return {
        "GaussianMixture": benthic.GaussianMixture(20, reg_covar=1e-3),
        "VAE": benthic.VAE(network="mlp", prior="fitted", trainer={"batch_size": 128, "schedule": "cosine"}),
        "WGAN": benthic.WGAN(critic_steps=2, penalty_weight=1.0, trainer={"batch_size": 128, "lr": 3e-3}),
        "spline flow": benthic.NormalizingFlow(
            "nsf", hidden_layer_sizes=(128,), transforms=3, bins=5, dequantize=None, trainer={"batch_size": 128}
        ),
        "DDPM": benthic.DDPM(network="mlp", hidden=128, depth=2, trainer={"batch_size": 128, "lr": 4e-3}),
        "PoissonFlow": benthic.PoissonFlow(network="mlp", hidden=192, depth=2, trainer={"batch_size": 64, "lr": 3e-3}),
        "memorizer": ResampledRows(),
    }


def run(out: Path, json: bool, *, budget: str = "12s", seeds: int = 3, jobs: int = 2, fits: Path | None = None) -> None:
    """Compare, work on the table, print what was found, write the report."""
    begin = time.perf_counter()
    limit = budget_of(budget)
    with TemporaryDirectory(prefix="benthic-demo-") as place:
        folder = Path(place) if fits is None else fits
        console.say(f"Digits: seven models, {seeds} seeds each, {limit}, {jobs} at once.")
        found, labels = digits(limit, seeds, jobs, folder / "digits")
        console.say("Flats: a table of numbers, truth values and categories; classify, fill gaps, draw new rows.")
        short = (
            budget_of(_CLASSIFY) if limit.kind == "seconds" and limit.amount > budget_of(_CLASSIFY).amount else limit
        )
        table = tour_table.run(short, seeds, jobs, folder / "flats", True)
        page = report(found, labels, table)
    seconds = time.perf_counter() - begin
    page.subtitle += f" Made in {seconds:.0f} s."
    page.write(out)
    if json:
        console.as_json(_plain(found, table, out, seconds))
    else:
        _tell(found, table, out, seconds)


def digits(budget: Any, seeds: int, jobs: int, folder: Path) -> tuple[Comparison, np.ndarray | None]:
    """The contest of generators, and the labels of the held-out digits."""
    inputs = as_pictures(open_data("digits"))
    found = benthic.compare(
        models(),
        inputs.X,
        inputs.y,
        task="generate",
        features="random",
        budget=budget,
        seeds=seeds,
        folder=folder,
        n_jobs=jobs,
    )
    return described(found, inputs), held_labels(found, inputs)


def report(found: Comparison, labels: np.ndarray | None, table: tour_table.TableChapter) -> Page:
    """The page; made while fits are still in their folder."""
    page = Page(
        "Benthic: a first look",
        "Every family on the same data, with the same time, judged on rows that none of them was fitted on.",
    )
    page.chapter(
        "1. Which model draws digits?",
        f"1797 handwritten digits of 8 × 8 pixels. Six families get {found.budget} and {len(found.seeds)} seeds each. "
        "A seventh model, the memorizer, only hands back rows it was given: it was planted here to show that copying "
        "is found out. Settings were chosen for these digits beforehand, with more care for some families than for "
        "others, and samples are compared by random filters; another choice of either may change the order.",
    )
    add_comparison(page, found, labels)
    page.chapter(
        "2. A table with columns of every type",
        f"{tour_table.ROWS} made-up flats: district, rooms, area, year, elevator and rent. Which are let within a "
        "week? What stands in the cells that are missing? What would other flats look like?",
    )
    add_comparison(page, replace(table.classify, data=replace(table.classify.data, name="flats")))
    tour_table.add_to(page, table)
    page.chapter("3. Your own data", "The same comparison on a file of yours; columns of any type, no settings needed:")
    page.code(_TRY)
    return page


def _plain(found: Comparison, table: tour_table.TableChapter, out: Path, seconds: float) -> dict[str, Any]:
    filled = [
        {"column": name, "measure": what, "model": who, "value": e.value, "stderr": e.stderr}
        for name, what, answers in table.filled
        for who, e in answers.items()
    ]
    return {
        "report": str(out),
        "seconds": round(seconds, 1),
        "digits": found.to_dict(),
        "classify": table.classify.to_dict(),
        "filled": filled,
        "drawn": table.drawn.slice(0, 6).to_pylist(),
        "try": _TRY,
    }


def _tell(found: Comparison, table: tour_table.TableChapter, out: Path, seconds: float) -> None:
    tell(found)
    console.answer()
    tell(replace(table.classify, data=replace(table.classify.data, name="flats")))
    console.answer()
    columns = ("column", "measured", *table.filled[0][2])
    console.table(
        columns, tour_table.filled_rows(table), f"{100 * tour_table.HIDDEN:.0f} % of the cells filled in again"
    )
    console.answer()
    console.table(*tour_table.first_rows(table.drawn), "new rows, drawn from GaussianMixture")
    console.answer(f"\n{out}: written after {seconds:.0f} s; open it in a browser")
    console.answer(f"Now your own data: {_TRY}")
