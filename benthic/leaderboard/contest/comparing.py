"""``compare``: every family side by side on a person's own data."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from benthic.base.errors import InvalidInput, nearest
from benthic.leaderboard.contest import keeping
from benthic.leaderboard.contest.baselines import baselines_for
from benthic.leaderboard.contest.contestants import (
    TASKS,
    abilities,
    check_contestants,
    contestants_of,
    needs_labels,
)
from benthic.leaderboard.contest.fitting import fitted_to
from benthic.leaderboard.contest.gaps import told
from benthic.leaderboard.contest.hearing import Hearing
from benthic.leaderboard.contest.jobs import Job
from benthic.leaderboard.contest.joining import are_classes
from benthic.leaderboard.contest.judging import METRICS, Court, metrics_of, wants_target
from benthic.leaderboard.contest.material import Material, Opened, material_of, opened
from benthic.leaderboard.contest.protocol import LEAST_WHOLE, Split, check_budget, seeds_of, split
from benthic.leaderboard.contest.records import Budget, Contestant
from benthic.leaderboard.contest.results import Comparison
from benthic.leaderboard.contest.running import Fits
from benthic.leaderboard.contest.scoring import lines_of
from benthic.leaderboard.contest.sharing import apart, check_shared, place_of
from benthic.leaderboard.contest.sizing import sized
from benthic.leaderboard.contest.spaces import Space, space_of
from benthic.leaderboard.contest.stopping import Deadline
from benthic.leaderboard.contest.verdicts import verdict_of

_PATIENCE = 60.0


def compare(
    models: Any = None,
    X: Any = None,
    y: Any = None,
    *,
    task: str | None = None,
    target: Any = None,
    drop: Sequence[Any] = (),
    budget: Any = "30s",
    seeds: Any = 3,
    metrics: Any = None,
    features: Any = None,
    folder: str | Path | None = None,
    n_jobs: int = 1,
    tune: int = 0,
    stop_after: Any = None,
    fraction: float = 0.3,
    baselines: bool = True,
    progress: bool = True,
    random_state: int = 0,
) -> Comparison:
    """Fit models of any family on the same data under the same budget, judge them alike, and rank them with error bars.

    For generators the data are dealt into rows to fit, rows for the feature space and rows to judge, in two halves.
    Samples are judged against the first half, all of the same size; the second half judged in the same way is the
    floor. A score is (metric - floor) / (baseline - floor): 0 is as good as real rows, 1 as bad as shuffled columns or
    one Gaussian. Models are ranked by the mean score over metrics, with an interval of ranks and a probability of
    being best from a paired bootstrap over judged rows and seeds. A model that hands back training rows is listed, not
    ranked; so is one that fails or runs out of budget. Likelihoods are ranked within one kind and measure.
    The target of a table becomes a column that models make with the rest, and ``tstr`` tells how well trees trained on
    samples predict it. Models that cannot take missing values get medians and most common values for them; rows without
    gaps judge.
    Predictors and clusterings are cross-validated instead.

    models: names of the catalogue, classes, estimators (scikit-learn's too), or a dict of them by name; None for a
    list that fits the task. X: (n, d), images (n, c, h, w), a frame with categories, a bundled name such as
    ``digits``, or a path. y: (n,) labels or targets. task: ``generate``, ``classify``, ``regress`` or ``cluster``;
    when None, by y and by what the models can. target, drop: columns of a frame or file to predict and to leave out.
    budget: of one fit, ``30s``, ``10m``, seconds, ``{"parameters": n}`` (models passed by name are made so wide) or
    ``{"evaluations": n}`` (rows shown to a network in training). seeds: how many fits of each model, or which.
    metrics: names of those that rank, of ``METRICS``. features: where samples are compared: ``raw`` numbers, ``pca``,
    ``random`` filters, a ``classifier`` of the labels, or a network. folder: keeps every fit; the same call later goes
    on from there. n_jobs: processes that fit, 0 for this one; processes that ``torchrun`` starts share the fits through
    the folder. tune: settings to try for each model. stop_after: a time such as ``9m`` by which generators have to be
    fitted: no fit begins that would end later, ``Interrupted`` says how many are done, and the same call later goes on
    from the folder. fraction: of the rows, to judge with. baselines: whether to add
    them. progress: whether to show how it goes. random_state: decides the parts of the data and the first seed.

    >>> X = np.random.default_rng(0).normal(size=(200, 2)) @ np.array([[1.0, 1.0], [0.0, 0.5]])
    >>> found = compare(["GaussianMixture"], X, budget=5, seeds=2, n_jobs=0, progress=False)
    >>> found.task, found.line("shuffled columns").quality > found.line("one Gaussian").quality
    ('generate', True)
    """
    begun = time.perf_counter()
    budget = Budget.of(budget)
    data = opened(X, y, target=target, drop=drop)
    given = None if models is None else contestants_of(models)
    task = _task(task, given, data.y)
    deadline = _deadline(stop_after, task, folder)
    if task != "generate":
        return _predictors(
            given, data, task, budget, seeds, folder, n_jobs, progress, random_state, metrics=metrics, tune=tune
        )
    contestants = contestants_of(None, task) if given is None else given
    material = material_of(data, join=wants_target(metrics))
    check_contestants(contestants, task, material.facts.kind, labels=material.y is not None)
    check_budget(budget, material.rows.shape[1])
    contest = _Contest(
        material,
        split(material, fraction, random_state),
        budget,
        seeds_of(seeds, random_state),
        metrics_of(metrics, material),
        n_jobs,
        progress,
        random_state,
        tune,
        deadline,
    )
    beside = baselines_for(material, [one.name for one in contestants]) if baselines else []
    ours = [models is None or _is_named(models, one) for one in contestants]
    check_shared(folder, tune)
    with apart():
        return contest.run([*map(contest.suited, contestants, ours), *beside], features, folder, begun)


def _deadline(stop_after: Any, task: str, folder: Any) -> Deadline:
    if stop_after is not None and (folder is None or task != "generate"):
        what = "needs a folder in which fits are kept" if folder is None else "is for comparisons of generators"
        raise InvalidInput(f"compare: stop_after {what}; leave it out{', or give folder' if folder is None else ''}")
    return Deadline(stop_after)


def _is_named(models: Any, contestant: Contestant) -> bool:
    """Whether a person asked for a model by its name or class, and left its settings to us."""
    values = models.values() if isinstance(models, dict) else [models] if isinstance(models, str) else models
    if isinstance(values, type) or hasattr(values, "fit"):
        return isinstance(values, type)
    return not any(value is contestant.model for value in values)


def _task(task: str | None, contestants: Sequence[Contestant] | None, y: np.ndarray | None) -> str:
    """The task asked for, or the one that the labels and the models suggest."""
    if task is not None:
        if task not in TASKS:
            raise InvalidInput(f"compare: task is {task!r}{nearest(str(task), TASKS)}; use {', '.join(TASKS)}")
        if task in ("classify", "regress") and y is None:
            raise InvalidInput(f"compare: to {task} needs labels; pass y, or name the column with target")
        return task
    can = [abilities(one.model) for one in contestants or ()]
    wanted = "generate"
    if y is not None:
        wanted = "classify" if are_classes(y) else "regress"
    if not can or _all(wanted, can):
        return wanted
    return next((other for other in ("generate", "cluster", "classify", "regress") if _all(other, can)), wanted)


def _all(task: str, can: Sequence[set[str]]) -> bool:
    return all(task in each for each in can)


def _predictors(
    contestants: list[Contestant] | None, data: Opened, task: str, budget: Budget, *rest: Any, **settings: Any
) -> Comparison:
    from benthic.leaderboard.contest.predicting.predictors import compare_predictors

    return compare_predictors(
        contestants, data.X, data.y, task, budget, *rest, name=data.name, target=data.target, **settings
    )


@dataclass(frozen=True, eq=False)
class _Contest:
    """One comparison of generators: everything that is settled before the first fit."""

    material: Material
    split: Split
    budget: Budget
    seeds: tuple[int, ...]
    metrics: tuple[str, ...]
    n_jobs: int
    progress: bool
    random_state: int
    tune: int
    deadline: Deadline

    def suited(self, contestant: Contestant, ours: bool) -> Contestant:
        """The contestant with settings that suit data and budget, where they were left to us."""
        if not ours:
            return contestant
        return sized(fitted_to(contestant, self.material), self.material, self.split, self.budget)

    def run(self, contestants: list[Contestant], features: Any, folder: Any, begun: float) -> Comparison:
        """Fit, judge and rank."""
        holder = None if folder is not None else tempfile.TemporaryDirectory(prefix="benthic-compare-")
        place = Path(folder if holder is None else holder.name)
        if place.is_file():
            raise InvalidInput(f"compare: folder {str(place)!r} is a file; name a folder, which may be new")
        if self.tune:
            space_of(features, self.material, self.split, self.random_state)  # what is wrong with it is said before
            contestants = [self._tuned(one, place) for one in contestants]
        with Fits(self._jobs(contestants, place), self.material, self.split, self.n_jobs, self.deadline) as fits:
            space = space_of(features, self.material, self.split, self.random_state)
            summon = partial(Court, self.material, self.split, space, self.metrics, self.random_state)
            with self._watch([one.name for one in contestants]) as watch:
                hearing = Hearing(summon, self.split.n, watch, beside=self.n_jobs != 0)
                with hearing:
                    outcomes = fits.run(hearing)
                    count = len(self.seeds)
                    judged = [
                        hearing.judged(one, outcomes[at * count : (at + 1) * count])
                        for at, one in enumerate(contestants)
                    ]
        lines, scales = lines_of(judged, hearing.court.floor, self.metrics, self.random_state)
        seconds = time.perf_counter() - begun
        spent = float(np.nansum([outcome.seconds for outcome in outcomes]))
        found = Comparison(
            "generate",
            self.material.facts,
            self.budget,
            self.seeds,
            tuple(lines),
            self.metrics,
            {name: rows.value for name, rows in hearing.court.floor.scores.items()},
            tuple(one.name for one in contestants if one.origin == "baseline"),
            {name: scale.reference for name, scale in scales.items()},
            (*verdict_of(lines, self.budget), *self._gaps(contestants)),
            self._settings(contestants, space),
            seconds,
            spent,
            max(0.0, 1 - fits.fitting() / seconds) if fits.spans else math.nan,
            place,
            self.material.person(self.split.first),
            self.material.give(self.split.first, "arrow") if self.material.plain else None,
            tuple(outcomes),
            holder,
        )
        if holder is None and place_of()[0] == 0:
            found.to_json(place / "comparison.json")
        return found

    def _tuned(self, contestant: Contestant, place: Path) -> Contestant:
        """The contestant with better settings, searched for now, or kept from before."""
        if contestant.origin == "baseline" or not hasattr(contestant.model, "get_params"):
            return contestant
        from benthic.leaderboard.contest.tuning.search import tuned

        path = place / "tuned" / f"{self._key(contestant, self.tune)}.json"
        kept = keeping.read_settings(path, contestant.model)
        if kept is not None:
            return replace(contestant, model=kept)
        rows = self.material.give(self.split.fit_for(contestant.model), self.material.form(contestant))
        data = (rows, self.split.fit_y) if needs_labels(contestant.model) else rows
        found = tuned(contestant, self.tune, data, self.budget, self.random_state, task="generate")
        keeping.write_settings(path, contestant.model, found.model)
        return found

    def _key(self, contestant: Contestant, seed: int) -> str:
        rules = f"{self._digest} {self.split.n} {len(self.split.fit)} {self.random_state}"
        return keeping.key_of(contestant, seed, self.budget, rules)

    @cached_property
    def _digest(self) -> str:
        return self.material.digest()

    def _jobs(self, contestants: Sequence[Contestant], place: Path) -> list[Job]:
        return [
            Job(
                one,
                seed,
                self.budget,
                self.material.form(one),
                place / "fits" / self._key(one, seed),
                _PATIENCE,
            )
            for one in contestants
            for seed in self.seeds
        ]

    def _watch(self, names: list[str]) -> AbstractContextManager[Any]:
        if not self.progress:
            return nullcontext()
        from benthic.leaderboard.contest.showing.watching import Watch

        return Watch(names, self.seeds, self.budget, True, jobs=max(self.n_jobs, 1))

    def _gaps(self, contestants: Sequence[Contestant]) -> list[str]:
        """What there is to say about missing values."""
        judged = (~np.isnan(self.material.rows).any(1)).sum() < LEAST_WHOLE
        said = told(self.split.fit, contestants, bool(judged))
        return [said] if said else []

    def _settings(self, contestants: Sequence[Contestant], space: Space) -> dict[str, Any]:
        return {
            "rows": {"fit": len(self.split.fit), "features": len(self.split.features), "judge": self.split.n},
            "features": space.name,
            **({"why these features": space.reason} if space.reason else {}),
            "metrics": {name: METRICS[name][1] for name in self.metrics},
            **({"missing values": said[0]} if (said := self._gaps(contestants)) else {}),
            "models": {one.name: _in_words(one.model) for one in contestants},
            "n_jobs": self.n_jobs,
            "tune": self.tune,
            "random_state": self.random_state,
        }


def _in_words(model: Any) -> str:
    words = " ".join(repr(model).split())
    return words if " at 0x" not in words else type(model).__name__
