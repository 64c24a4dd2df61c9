"""The second half of ``benthic demo``: one table with columns of every type, predicted, filled and drawn anew."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import benthic
from benthic.base.estimate import Estimate, mean_of
from benthic.base.seeds import np_generator
from benthic.base.threads import one_torch_thread
from benthic.leaderboard.contest.results import Comparison
from benthic.pictures.marginals import columns_of, marginals
from benthic.pictures.page import Number, Page, Picture

ROWS, HELD, HIDDEN = 1200, 300, 0.2  # rows in all, of them held out, and the share of their cells that is hidden
_DISTRICTS = ("harbor", "center", "hills", "suburb")
_CLASSIFIERS = ("LogisticRegression", "GaussianNB", "RandomForestClassifier", "GradientBoostingClassifier")


@dataclass
class TableChapter:
    """What came out: the contest of classifiers, how well gaps were filled, and new rows."""

    classify: Comparison
    filled: list[tuple[str, str, dict[str, Estimate]]] = field(default_factory=list)
    drawn: Any = None
    held: Any = None


def flats(n: int = ROWS, seed: int = 0) -> tuple[Any, np.ndarray]:
    """A made-up table of flats to let, and whether each was let within a week.

    Numbers, whole numbers, truth values and a category, all of which depend on each other; flats that ask for more
    than others of their kind stay empty longer.

    >>> flats(3)[0].column_names
    ['district', 'rooms', 'area', 'built', 'elevator', 'rent']
    """
    import pyarrow as pa

    source = np_generator(seed, "flats")
    district = source.choice(4, n, p=[0.2, 0.3, 0.15, 0.35])
    rooms = 1 + source.binomial(4, np.array([0.3, 0.25, 0.45, 0.5])[district])
    area = np.round(14 + 18 * rooms * np.exp(source.normal(0, 0.18, n)), 1)
    built = np.rint(np.array([1975, 1930, 1960, 1990])[district] + source.normal(0, 18, n)).astype(np.int64)
    elevator = source.random(n) < 1 / (1 + np.exp((1970 - built) / 15))
    asked = source.normal(0, 0.15, n)  # above or below what such a flat usually costs
    rent = np.rint(area * np.array([16.0, 22.0, 19.0, 12.0])[district] * np.exp(asked) * (1 + 0.06 * elevator))
    let = source.random(n) < 1 / (1 + np.exp(12 * asked - 0.3))
    names = pa.array(np.array(_DISTRICTS)[district]).dictionary_encode()
    columns = {"district": names, "rooms": rooms, "area": area, "built": built, "elevator": elevator, "rent": rent}
    return pa.table(columns), np.where(let, "within a week", "later")


def run(budget: Any, seeds: int, jobs: int, folder: Path | None, progress: bool) -> TableChapter:
    """Classify, fill gaps, and draw new rows."""
    X, y = flats()
    models = list(_CLASSIFIERS)
    found = benthic.compare(
        models, X, y, task="classify", budget=budget, seeds=seeds, folder=folder, n_jobs=jobs, progress=progress
    )
    chapter = TableChapter(found)
    fit, chapter.held = X.slice(HELD), X.slice(0, HELD)
    with one_torch_thread():
        mixture = benthic.GaussianMixture(8, random_state=0).fit(fit)
        vae = benthic.VAE(8, trainer={"seconds": min(6.0, _seconds(budget))}, random_state=0).fit(fit)
        holes = hide(chapter.held)
        answers = {"column by column": _plain_fill(fit, holes)}
        answers |= {type(model).__name__: model.impute(holes) for model in (mixture, vae)}
    chapter.filled = judge_filled(chapter.held, holes, answers)
    chapter.drawn = mixture.sample(HELD, seed=0)
    return chapter


def _seconds(budget: Any) -> float:
    return float(budget.amount) if budget.kind == "seconds" else 6.0


def hide(table: Any, share: float = HIDDEN, seed: int = 1) -> Any:
    """The table with a share of its cells hidden, at random."""
    import pyarrow as pa

    source = np_generator(seed, "hide")
    columns = {}
    for name in table.column_names:
        column = table.column(name).combine_chunks()
        columns[name] = pa.compute.if_else(pa.array(source.random(len(table)) < share), None, column)
    return pa.table(columns)


def _plain_fill(fit: Any, holes: Any) -> dict[str, list[Any]]:
    """Every gap filled by the mean of its column, or by its most common value."""
    known, gaps = columns_of(fit), columns_of(holes)
    found = {}
    for name, values in known.items():
        usual = float(np.mean(values)) if _is_number(values) else max(sorted(set(values)), key=values.count)
        found[name] = [usual if value is None else value for value in gaps[name]]
    return found


def judge_filled(truth: Any, holes: Any, answers: dict[str, Any]) -> list[tuple[str, str, dict[str, Estimate]]]:
    """By column: what is measured, and how far each answer is from the truth where it was hidden.

    The root of the mean squared error in standard deviations of the column, or the share of right answers.
    """
    real, gaps = columns_of(truth), columns_of(holes)
    filled = {name: found if isinstance(found, dict) else columns_of(found) for name, found in answers.items()}
    rows = []
    for name, values in real.items():
        hidden = [i for i, value in enumerate(gaps[name]) if value is None]
        number = _is_number(values)
        found = {}
        for who, columns in filled.items():
            pairs = [(values[i], columns[name][i]) for i in hidden]
            found[who] = _error(pairs, float(np.std(values))) if number else mean_of([float(a == b) for a, b in pairs])
        rows.append((name, "error, standard deviations" if number else "share right", found))
    return rows


def _error(pairs: list[tuple[float, float]], spread: float) -> Estimate:
    squares = mean_of([((a - b) / spread) ** 2 for a, b in pairs])
    root = float(np.sqrt(squares.value))
    return Estimate(root, squares.stderr / (2 * max(root, 1e-12)))  # the delta method


def _is_number(values: list[Any]) -> bool:
    return all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)


def first_rows(table: Any, n: int = 6) -> tuple[list[str], list[list[Any]]]:
    """Names with their types, and the first rows."""
    names = [f"{name}: {_kind(table.column(name).type)}" for name in table.column_names]
    columns = [table.column(name).slice(0, n).to_pylist() for name in table.column_names]
    rows = [
        [f"{value:.1f}" if isinstance(value, float) else value for value in row] for row in zip(*columns, strict=True)
    ]
    return names, rows


def _kind(column: Any) -> str:
    import pyarrow as pa

    return "category" if pa.types.is_dictionary(column) else str(column)


def filled_rows(chapter: TableChapter) -> list[tuple[Any, ...]]:
    """Rows of a table: the column, what is measured, and a number for each way to fill."""
    return [(name, what, *(Number(*e, 3) for e in found.values())) for name, what, found in chapter.filled]


def add_to(page: Page, chapter: TableChapter) -> None:
    """Gaps and new rows, below the contest."""
    names = list(chapter.filled[0][2])
    page.heading(
        "What is missing",
        f"{100 * HIDDEN:.0f} % of the cells of {HELD} rows were hidden and filled in again. Column by column means the "
        "mean or the most common value; a model knows what goes with what. Errors: lower is better; shares: higher.",
    )
    page.table(("column", "measured", *names), filled_rows(chapter))
    page.heading(
        "New rows",
        "Drawn from GaussianMixture: a table like the one that was given, with the same names, types and categories.",
    )
    page.table(*first_rows(chapter.drawn))
    text = "Every column of held-out rows and of as many new ones; the two should overlap."
    figure = marginals(columns_of(chapter.held), columns_of(chapter.drawn), ("held out", "new"))
    page.pictures([Picture("flats", "Flats: held out and new", text, figure)])
