"""Predictors compared: every model on the same folds of the same rows, ranked with what chance may have done."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benthic.base.errors import InvalidInput, nearest
from benthic.base.schema import Schema, is_frame
from benthic.leaderboard.contest.contestants import check_contestants, contestants_of
from benthic.leaderboard.contest.crew import processes
from benthic.leaderboard.contest.predicting.baselines import NAME, baseline
from benthic.leaderboard.contest.predicting.defaults import clusters_in, default_predictors
from benthic.leaderboard.contest.predicting.fits import Job, Table
from benthic.leaderboard.contest.predicting.lines import lines_of, outcomes_of, verdict_of
from benthic.leaderboard.contest.predicting.runs import run_jobs
from benthic.leaderboard.contest.predicting.scores import METRICS
from benthic.leaderboard.contest.predicting.tables import numbers_of, settled, targets
from benthic.leaderboard.contest.protocol import seeds_of
from benthic.leaderboard.contest.records import Budget, Contestant, DataFacts
from benthic.leaderboard.contest.results import Comparison
from benthic.leaderboard.contest.showing.watching import Watch
from benthic.leaderboard.plans import fold_plan
from benthic.metrics.rows import plain

_LEAST_ROWS = 50
_FOLDS = 5
_MANY_ROWS = 50_000  # from here on fewer folds are precise enough
_WHERE = "compare"


def compare_predictors(
    contestants: Any,
    X: Any,
    y: Any = None,
    task: str = "classify",
    budget: Any = "30s",
    seeds: Any = 3,
    folder: str | Path | None = None,
    n_jobs: int = 1,
    progress: bool = True,
    random_state: int = 0,
    *,
    metrics: Sequence[str] | None = None,
    tune: int = 0,
    name: str = "data",
    target: str | None = None,
) -> Comparison:
    """Classifiers, regressors or clusterings, side by side on one set of rows.

    Every model is fitted on the same five folds, dealt out anew for each seed; differences between models are tested
    by the corrected resampled t-test (Nadeau & Bengio, 2003), and ranks and the probability of being best come from
    its joint law (see ``standings``). The first metric ranks. Normalized scores are 0 for perfect answers and 1 for
    those of the dummy, which answers without looking at the rows.

    contestants: names, classes, estimators of this library or of scikit-learn, a dict by name; None for a list that
    suits task and data. X: (n, d) array or tensor, images (n, c, h, w), or a frame, whose categories become columns
    for models that take only numbers. y: (n,) targets; of clusters true classes to be judged by, or None. task:
    ``classify``, ``regress`` or ``cluster``. budget: of one fit (see ``Budget``); a network stops at its own number of
    epochs or when its time is up, a fit of another model that ran over is listed and not ranked. seeds: how many times
    folds are dealt, or seeds. folder: where every fit is kept as soon as it is done, so that the same call goes on
    where it stopped. n_jobs: fits at once, each in a process of its own that is stopped if it runs for too long, -1
    for all cores; 0 fits in this process. metrics: which, the first one ranks. tune: settings tried inside every fit.

    >>> from sklearn.datasets import load_iris
    >>> rows = load_iris(return_X_y=True)
    >>> found = compare_predictors(["GaussianNB", "LogisticRegression"], *rows, seeds=1, n_jobs=0, progress=False)
    >>> [line.name for line in found.lines][-1], found.best.scores["accuracy"].value > 0.9
    ('dummy', True)
    """
    started = time.perf_counter()
    budget, seeds = Budget.of(budget), seeds_of(seeds, random_state)
    table, facts, left_out = table_of(X, y, task, name, target)
    chosen = _metrics(metrics, task, table.y)
    field = _field(contestants, table, facts, tune)
    if budget.kind == "seconds" and budget.amount < 0.1:
        raise InvalidInput(f"{_WHERE}: a budget of {budget} is too small for any model; at least 0.1 s are needed")
    plans = {seed: _plan(table, seed) for seed in seeds}
    place = None if folder is None else Path(folder)
    data = table.digest() if place is not None else ""
    jobs = [
        Job(one, seed, fold, train, test, budget, place, data)
        for one in field
        for seed in seeds
        for fold, (train, test) in enumerate(plans[seed])
    ]
    with Watch([one.name for one in field], seeds, budget, progress, jobs=max(1, processes(n_jobs))) as watch:
        folds = run_jobs(jobs, table, n_jobs, watch)
    share = float(np.mean([len(job.test) / len(job.train) for job in jobs]))
    lines = lines_of(field, folds, task, chosen, share, random_state)
    fit_seconds = float(np.nansum([fold.seconds for fold in folds]))
    seconds = time.perf_counter() - started
    return Comparison(
        task=task,
        data=facts,
        budget=budget,
        seeds=tuple(seeds),
        lines=tuple(lines),
        metrics=tuple(m for m in chosen if any(m in line.scores for line in lines)),
        floor={m: METRICS[task][m][1] for m in chosen},
        baselines=(NAME,),
        reference=dict.fromkeys(chosen, NAME),
        verdict=tuple(verdict_of(lines, task, chosen[0])),
        settings=_settings(len(plans[seeds[0]]), chosen, left_out, tune, random_state),
        seconds=seconds,
        fit_seconds=fit_seconds,
        overhead=max(0.0, 1 - fit_seconds / (seconds * max(1, processes(n_jobs)))),
        folder=place,
        outcomes=tuple(outcomes_of(field, folds, place)),
    )


# -- the data ------------------------------------------------------------------------------------------------


def table_of(
    X: Any, y: Any, task: str, name: str = "data", target: str | None = None
) -> tuple[Table, DataFacts, dict[str, str]]:
    """The data all fits share, words about them, and the columns that no model reads, with the reason."""
    if task not in METRICS:
        raise InvalidInput(f"{_WHERE}: task is {task!r}; use {', '.join(METRICS)}{nearest(str(task), METRICS)}")
    X, left_out = settled(X)
    if not is_frame(X):
        X = plain(X)
        if X.dtype.kind not in "biuf":
            raise InvalidInput(
                f"{_WHERE}: X holds {X.dtype} values, which are not numbers; pass a frame for mixed types"
            )
        if X.ndim not in (2, 4) or 0 in X.shape:
            raise InvalidInput(f"{_WHERE}: X has shape {X.shape}; rows (n, d) or images (n, c, h, w) are needed")
    n = X.shape[0]
    if n < _LEAST_ROWS:
        raise InvalidInput(f"{_WHERE}: there are {n} rows; at least {_LEAST_ROWS} are needed to fit and to judge")
    labels = targets(y, task, n)
    flat = X if is_frame(X) else X.reshape(n, -1)
    kind = "frame" if is_frame(X) else "image" if X.ndim == 4 else "table"
    shape = tuple(int(size) for size in (X.shape[1:] if X.ndim == 4 else (flat.shape[1],))) if kind != "frame" else ()
    facts = DataFacts(name, n, int(flat.shape[1]), kind, shape or (int(flat.shape[1]),), target or _name_of(y))
    return Table(task, X, flat, _space(flat, task), labels), facts, left_out


def _name_of(y: Any) -> str | None:
    return None if y is None else str(getattr(y, "name", None) or "y")


def _space(flat: Any, task: str) -> np.ndarray:
    """The rows as numbers; gaps stay NaN where rows are not compared by distance."""
    if task == "cluster" or not is_frame(flat):
        return numbers_of(flat)
    rows: np.ndarray = Schema.infer(flat).encode(flat)
    return rows


def _plan(table: Table, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    n, k = len(table.space), _FOLDS if len(table.space) < _MANY_ROWS else 3
    if table.task != "classify" or table.y is None:
        return fold_plan(n, k, 1, None, None, seed, _WHERE)
    names, counts = np.unique(table.y, return_counts=True)
    if counts.min() < 2:
        rare = names[counts.argmin()]
        raise InvalidInput(
            f"{_WHERE}: the class {rare!r} has one row, which cannot be both fitted and judged; leave it out, or join "
            "it with another"
        )
    return fold_plan(n, min(k, int(counts.min())), 1, table.y, None, seed, _WHERE)


# -- who and by what -----------------------------------------------------------------------------------------


def _field(contestants: Any, table: Table, facts: DataFacts, tune: int) -> list[Contestant]:
    """The contestants, checked, with the dummy among them."""
    if contestants is None or (isinstance(contestants, (list, tuple)) and not contestants):
        found = default_predictors(table.task, table.space, table.y)
    else:
        found = contestants_of(contestants, table.task)
    check_contestants(found, table.task, "table" if facts.kind == "image" else facts.kind, labels=table.y is not None)
    if any(one.name == NAME for one in found):
        raise InvalidInput(f"{_WHERE}: a model is called {NAME!r}, as the baseline is; give it another name")
    if tune:
        from benthic.leaderboard.contest.tuning.search import searching

        found = [searching(one, tune, table.task) for one in found]
    return [*found, baseline(table.task, clusters_in(table.space, table.y) if table.task == "cluster" else 3)]


def _metrics(metrics: Sequence[str] | None, task: str, y: np.ndarray | None) -> tuple[str, ...]:
    """Those asked for, or all; clusters with true classes are ranked by their agreement with them."""
    known = list(METRICS[task])
    if task == "cluster":
        known = ["adjusted_rand", "mutual_information", "silhouette"] if y is not None else ["silhouette"]
    if metrics is None:
        return tuple(known)
    asked = [metrics] if isinstance(metrics, str) else list(metrics)
    for metric in asked:
        if metric not in known:
            raise InvalidInput(
                f"{_WHERE}: to {task} is not judged by {metric!r}{nearest(str(metric), known)}; use {', '.join(known)}"
            )
    if not asked:
        raise InvalidInput(f"{_WHERE}: there are no metrics; use {', '.join(known)}, or leave them out")
    return tuple(dict.fromkeys(asked))


def _settings(k: int, chosen: tuple[str, ...], left_out: dict[str, str], tune: int, state: int) -> dict[str, Any]:
    found = {"folds": k, "ranked by": chosen[0], "random_state": state, "test": "corrected resampled t-test"}
    if left_out:
        found["columns left out"] = left_out
    return {**found, "tune": tune} if tune else found
