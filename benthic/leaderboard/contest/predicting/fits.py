"""One fit of one predictor on one fold: under the budget, timed, judged, and kept as soon as it is done."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import math
import re
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benthic.base.catalogue import catalogue
from benthic.base.errors import NonFiniteLoss
from benthic.base.files import write_atomic
from benthic.base.seeds import derive
from benthic.data.splits import take
from benthic.leaderboard.contest.contestants import takes_images
from benthic.leaderboard.contest.jobs import Caught, TimeUp, time_limit
from benthic.leaderboard.contest.keeping import described, save_model
from benthic.leaderboard.contest.predicting.scores import Answers, NotFinite, cluster_all, judged, partition_scores
from benthic.leaderboard.contest.predicting.tables import prepared
from benthic.leaderboard.contest.records import Budget, Contestant, Status
from benthic.leaderboard.contest.resources import Peak, parameters_of
from benthic.leaderboard.contest.tuning.spaces import last_step
from benthic.leaderboard.contest.worker import warm_once

_OVER = 1.25  # times the budget, from which on a fit is out of it
_GRACE = 1.0  # seconds over the budget that are no matter


@dataclass(frozen=True, eq=False)
class Table:
    """The data all fits share.

    X: rows as a person has them, frames with declared categories. flat: the same with pictures as rows. space: (n, d)
    numbers, NaN for gaps, where clusters are judged. y: (n,) or None.
    """

    task: str
    X: Any
    flat: Any
    space: np.ndarray
    y: np.ndarray | None

    def digest(self) -> str:
        """A fingerprint of rows and targets."""
        found = hashlib.sha256(np.ascontiguousarray(self.space).tobytes())
        found.update(repr((self.task, self.space.shape, type(self.X).__name__)).encode())
        if self.y is not None:
            found.update(np.ascontiguousarray(self.y).tobytes())
        return found.hexdigest()


@dataclass(frozen=True, eq=False)
class Job:
    """One fit: a contestant, the rows to fit and those to judge, the seed and the budget."""

    contestant: Contestant
    seed: int
    fold: int
    train: np.ndarray
    test: np.ndarray
    budget: Budget
    folder: Path | None = None
    data: str = ""

    @property
    def key(self) -> str:
        """What the result depends on, as one word: a kept fit with another key is made anew."""
        from benthic import __version__

        rows = hashlib.sha256(self.train.tobytes()).hexdigest()
        parts = (__version__, described(self.contestant.model), self.seed, self.fold, rows, str(self.budget), self.data)
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    @property
    def limit(self) -> float:
        """Seconds after which the fit is stopped."""
        if self.budget.kind != "seconds":
            return math.inf
        return 2 * self.budget.amount * fits_inside(self.contestant.model) + 10

    @property
    def path(self) -> Path | None:
        """The folder of the fits of this contestant and seed."""
        return None if self.folder is None else self.folder / slug(self.contestant.name) / f"seed-{self.seed}"


@dataclass(frozen=True)
class Fold:
    """How one fit ended.

    scores: by metric. seconds: of the fit; answer_seconds: of judging. memory: bytes the fit added at its peak.
    answers: arrays for calibration.
    """

    name: str
    seed: int
    fold: int
    status: Status = "ok"
    reason: str = ""
    scores: dict[str, float] = field(default_factory=dict)
    seconds: float = math.nan
    answer_seconds: float = math.nan
    memory: float = math.nan
    parameters: int | None = None
    warning: str = ""
    answers: dict[str, np.ndarray] = field(default_factory=dict, repr=False)


def slug(name: str) -> str:
    """A name as a folder: harmless signs, and a few of its fingerprint where others were left out.

    >>> slug("VAE"), slug("a/b")
    ('VAE', 'a-b-c14cddc0')
    """
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip(".") or "model"
    return plain if plain == name else f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


# -- the fit -------------------------------------------------------------------------------------------------


def run_fold(job: Job, table: Table) -> Fold:
    """Fit and judge; what a model raises becomes the reason why it failed."""
    found = Fold(job.contestant.name, job.seed, job.fold)
    warm_once(job.contestant.model)
    begun = time.perf_counter()
    with warnings.catch_warnings(record=True) as heard, Caught() as caught:
        warnings.simplefilter("always")
        found = _fit_and_judge(job, table, found)
    if caught.error is not None:
        return _ended(found, caught, job, time.perf_counter() - begun)
    told = next((str(one.message) for one in heard if issubclass(one.category, UserWarning)), "")
    return dataclasses.replace(found, warning=_short(told))


def _ended(found: Fold, caught: Caught, job: Job, seconds: float) -> Fold:
    """A fit that raised something, in words."""
    if isinstance(caught.error, TimeUp):
        reason = f"one fit was stopped after {seconds:.3g} s, and the budget is {job.budget}"
        return dataclasses.replace(found, status="out of budget", reason=reason)
    odd = isinstance(caught.error, (NotFinite, NonFiniteLoss))
    return dataclasses.replace(found, status="not finite" if odd else "failed", reason=_short(caught.text))


def _fit_and_judge(job: Job, table: Table, empty: Fold) -> Fold:
    rows = table.X if takes_images(last_step(job.contestant.model)[0]) else table.flat
    model = prepared(job.contestant.model, rows)
    model = seeded(under_budget(model, job.budget, len(job.train)), job.seed, job.fold)
    alone = table.task == "cluster" and not hasattr(model, "predict")  # it only labels the rows it is fitted on
    y = None if table.y is None or table.task == "cluster" else table.y[job.train]
    labels, answers, peak = np.zeros(0), Answers(), Peak()
    began = time.perf_counter()
    with time_limit(job.limit):
        if alone:
            labels = cluster_all(model, rows, job.test)
        else:
            model.fit(take(rows, job.train)) if y is None else model.fit(take(rows, job.train), y)
    seconds, memory = time.perf_counter() - began, peak.used()
    truth, space = None if table.y is None else table.y[job.test], table.space[job.test]
    if alone:
        scores = partition_scores(labels, space, truth)
    else:
        scores = judged(table.task, model, take(rows, job.test), truth, answers, space)
    found = dataclasses.replace(
        empty,
        scores=scores,
        seconds=seconds,
        answer_seconds=time.perf_counter() - began - seconds,
        memory=memory,
        parameters=parameters_of(last_step(model)[0]),
        answers=answers.arrays(),
    )
    if job.path is not None and job.fold == 0:
        job.path.mkdir(parents=True, exist_ok=True)
        save_model(getattr(model, "model_", model), job.path)  # of a search, what it chose
    return _within(found, job, model)


def _within(found: Fold, job: Job, model: Any) -> Fold:
    """The fold, or that it ran over its budget."""
    budget, allowed = job.budget, job.budget.amount * fits_inside(model)
    if budget.kind == "seconds" and found.seconds > max(_OVER * allowed, allowed + _GRACE):
        reason = f"one fit took {found.seconds:.3g} s of {allowed:g} s"
        return dataclasses.replace(found, status="out of budget", reason=reason)
    if budget.kind == "parameters" and found.parameters is not None and found.parameters > budget.amount:
        reason = f"it has {found.parameters:,} parameters, and {int(budget.amount):,} are the most"
        return dataclasses.replace(found, status="out of budget", reason=reason)
    return found


def fits_inside(model: Any) -> int:
    """How many budgets one ``fit`` may use: of a search for settings one a trial and one for the last fit, else one."""
    trials = getattr(model, "trials", None)
    return 1 if trials is None else int(trials) + 1


# -- settings ------------------------------------------------------------------------------------------------


def under_budget(model: Any, budget: Budget, rows: int) -> Any:
    """A copy whose training keeps the budget; what does not train by steps stays as it is.

    A network ends after its own number of epochs, or when its time is up. rows: that it will be fitted on.
    """
    from sklearn.base import clone

    from benthic.training.network import NetworkEstimator, with_budget
    from benthic.training.trainer import Trainer

    copy = clone(model)
    if "trials" in copy.get_params(deep=False):  # a search hands the budget on to its trials
        return copy.set_params(budget=budget)
    last, prefix = last_step(copy)
    if not isinstance(last, NetworkEstimator) or "trainer" not in last.get_params(deep=False):
        return copy
    trainer = dataclasses.replace(Trainer.of(last.trainer), verbose=False)
    entry = catalogue().get(type(last).__name__)
    if budget.kind == "seconds":
        trainer = with_budget(trainer, rows) if entry is not None and entry.family == "network" else trainer
        trainer = dataclasses.replace(trainer, seconds=min(budget.amount, trainer.seconds or math.inf))
    elif budget.kind == "evaluations":
        size = with_budget(trainer, rows).batch_size or 1
        steps = max(1, int(budget.amount // size))
        trainer = dataclasses.replace(trainer, batch_size=size, epochs=None, steps=steps, seconds=None)
    return copy.set_params(**{f"{prefix}trainer": trainer})


def seeded(model: Any, seed: int, fold: int = 0) -> Any:
    """The model with every random state that is open set by the seed."""
    open_states = [n for n, v in model.get_params().items() if n.rpartition("__")[2] == "random_state" and v is None]
    return model.set_params(**{name: derive(seed, name, fold) % 2**31 for name in open_states})


# -- keeping -------------------------------------------------------------------------------------------------


def keep(job: Job, found: Fold) -> None:
    """Write how a fit ended, whole or not at all."""
    if job.path is None:
        return
    if found.answers:
        held = io.BytesIO()
        np.savez_compressed(held, allow_pickle=False, **found.answers)
        write_atomic(job.path / f"fold-{job.fold}.npz", held.getvalue())
    tree = {f.name: getattr(found, f.name) for f in dataclasses.fields(found) if f.name != "answers"}
    tree = {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in tree.items()}
    text = json.dumps({"key": job.key, "answers": sorted(found.answers), **tree}, indent=1)
    write_atomic(job.path / f"fold-{job.fold}.json", text.encode())


def kept(job: Job) -> Fold | None:
    """How the same fit ended earlier, or None."""
    if job.path is None or not (job.path / f"fold-{job.fold}.json").exists():
        return None
    try:
        tree = json.loads((job.path / f"fold-{job.fold}.json").read_text())
        names = tree.pop("answers")
        if tree.pop("key") != job.key:
            return None
        arrays = np.load(job.path / f"fold-{job.fold}.npz", allow_pickle=False) if names else {}
        answers = {name: arrays[name] for name in names}
    except (OSError, ValueError, KeyError):  # cut short or from another version: the fit is made anew
        return None
    floats = {f.name for f in dataclasses.fields(Fold) if f.type == "float"}
    tree = {name: math.nan if value is None and name in floats else value for name, value in tree.items()}
    return Fold(**tree, answers=answers)


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 300 else f"{text[:297]}..."
