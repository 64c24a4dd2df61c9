"""The fits of a comparison of predictors: those kept from an earlier run are read, the others made and kept."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from benthic.base.errors import Interrupted
from benthic.leaderboard.contest.crew import Crew, processes
from benthic.leaderboard.contest.predicting.fits import Fold, Job, Table, keep, kept, run_fold
from benthic.leaderboard.contest.predicting.lines import merged
from benthic.leaderboard.contest.worker import warm_once

_DEATH = "its process ended"
_LATER = 5.0  # seconds after which a process is ended that did not stop its fit by itself


class _Board:
    """Who has how many fits left; tells the watcher when the first begins and the last has ended."""

    def __init__(self, jobs: Sequence[Job], watch: Any) -> None:
        self.left = Counter((job.contestant.name, job.seed) for job in jobs)
        self.done: list[Fold] = []
        self._begun: set[tuple[str, int]] = set()
        self._watch = watch

    def started(self, job: Job) -> None:
        key = (job.contestant.name, job.seed)
        if key not in self._begun:
            self._begun.add(key)
            self._watch.started(*key)

    def ended(self, found: Fold) -> None:
        self.done.append(found)
        key = (found.name, found.seed)
        self.left[key] -= 1
        if not self.left[key]:
            fits = sorted((f for f in self.done if (f.name, f.seed) == key), key=lambda fold: fold.fold)
            self._watch.ended(merged(fits))


def run_jobs(jobs: Sequence[Job], table: Table, n_jobs: int, watch: Any) -> list[Fold]:
    """How every job ended, in the order of the jobs.

    n_jobs: fits at once, each in a process of its own and stopped after twice its budget and ten seconds; 0 fits in
    this process. After a fit that ran over its budget or took its process with it, the others of that
    contestant are not tried.
    """
    board = _Board(jobs, watch)
    old = {job: found for job in jobs if (found := kept(job)) is not None}
    waiting = [job for job in jobs if job not in old]
    for job, found in old.items():
        board.ended(found)
        _give_up(job, found, board, waiting)
    try:
        _work(waiting, table, processes(n_jobs), board)
    except KeyboardInterrupt as error:
        raise Interrupted(
            f"compare: interrupted with {len(board.done)} of {len(jobs)} fits done; what is done is kept where a "
            "folder was given, and the same call goes on from there"
        ) from error
    order = {(job.contestant.name, job.seed, job.fold): number for number, job in enumerate(jobs)}
    return sorted(board.done, key=lambda fold: order[fold.name, fold.seed, fold.fold])


def _work(waiting: list[Job], table: Table, count: int, board: _Board) -> None:
    if count and waiting:
        with Crew(_fold, table, min(count, len(waiting))) as crew:
            for ended in crew.run(waiting, _limit, board.started, attrgetter("contestant.kind")):
                _settle(ended.job, ended.value or _cut(ended.job, ended.late, ended.reason), board, waiting)
    while waiting:
        job = waiting.pop(0)
        board.started(job)
        _settle(job, run_fold(job, table), board, waiting)


def _settle(job: Job, found: Fold, board: _Board, waiting: list[Job]) -> None:
    keep(job, found)
    board.ended(found)
    _give_up(job, found, board, waiting)


def _give_up(job: Job, found: Fold, board: _Board, waiting: list[Job]) -> None:
    """Leave out the other fits of a contestant that ran over its budget, or whose process ended."""
    if found.status != "out of budget" and not found.reason.startswith(_DEATH):
        return
    for other in [one for one in waiting if one.contestant.name == job.contestant.name]:
        waiting.remove(other)
        reason = f"{found.reason}; the other fits were not tried"
        board.ended(Fold(found.name, other.seed, other.fold, found.status, reason))


def _fold(job: Job, table: Table, say: Callable[[str], None]) -> Fold:
    warm_once(job.contestant.model)
    say("fit")
    return run_fold(job, table)


def _limit(job: Job, stage: str) -> float:
    return job.limit + _LATER if stage else math.inf


def _cut(job: Job, late: bool, reason: str) -> Fold:
    """A fit that was stopped, or whose process ended."""
    name, budget = job.contestant.name, job.budget
    if late:
        text = f"one fit was stopped after {job.limit:.3g} s, and the budget is {budget}"
        return Fold(name, job.seed, job.fold, "out of budget", text)
    return Fold(name, job.seed, job.fold, "failed", f"{_DEATH} {reason}")
