"""All fits of a comparison: in processes that can be stopped, each kept as soon as it is done."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

from benthic.base.errors import Interrupted
from benthic.leaderboard.contest import keeping, sharing
from benthic.leaderboard.contest.crew import Crew, Ended, packable, processes
from benthic.leaderboard.contest.jobs import Job, do_job
from benthic.leaderboard.contest.material import Material
from benthic.leaderboard.contest.protocol import Split
from benthic.leaderboard.contest.records import Outcome
from benthic.leaderboard.contest.stopping import Deadline
from benthic.leaderboard.contest.worker import fit_one

_SLACK = 5.0  # seconds after its limit in which a fit may still end by itself
_LONG = 1e8


def run_jobs(
    jobs: Sequence[Job], material: Material, split: Split, n_jobs: int = 1, watch: Any = None
) -> list[Outcome]:
    """The outcome of every job, in their order; see ``Fits``."""
    with Fits(jobs, material, split, n_jobs) as fits:
        return fits.run(watch)


class Fits:
    """All jobs of a comparison. Their processes begin to start at once, so that they are there when ``run`` is called.

    What is kept in the folders of jobs from before is not done again.

    n_jobs: processes that fit at once, -1 for as many as there are cores, which they share. 0 fits in this process, as
    happens to models that cannot be sent to another; there a fit is stopped only between steps of Python. Under
    ``torchrun`` each process does its share, see ``sharing``. deadline: when no more fits begin.
    spans: when fits began and ended, as far as they were done now.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        material: Material,
        split: Split,
        n_jobs: int = 1,
        deadline: Deadline | None = None,
    ) -> None:
        count = processes(n_jobs)
        self._deadline = deadline or Deadline()
        self._jobs, self._material, self._split = jobs, material, split
        kept = ((at, keeping.read_outcome(job.folder, job.contestant.name)) for at, job in enumerate(jobs))
        self._kept = {at: material.for_person(outcome) for at, outcome in kept if outcome is not None}
        every = [at for at in range(len(jobs)) if at not in self._kept]
        todo = [at for at in every if sharing.is_ours(at)]
        self._others = [at for at in every if at not in todo]
        self._away = [at for at in todo if count and packable(jobs[at])]
        self._here = [at for at in todo if at not in self._away]
        self._crew = self._hired(min(count, len(self._away))) if self._away else None
        self.spans: list[tuple[float, float]] = []

    def __enter__(self) -> Fits:
        return self

    def __exit__(self, *error: object) -> None:
        if self._crew is not None:
            self._crew.stop()

    def _hired(self, count: int) -> Crew:
        known = replace(self._material, rows=self._material.rows[:1], y=None)  # what a fit needs of it
        threads = max(1, processes(-1) // count) if count > 1 else 0
        around = sharing.alone(os.environ)
        crew = Crew(fit_one, (known, self._split), count, threads=threads, surroundings=around)
        crew.hire(count)
        return crew

    def run(self, watch: Any = None) -> list[Outcome]:
        """Every outcome, in the order of the jobs; watch: is told what starts and ends."""
        found = dict(self._kept)
        for outcome in self._kept.values():
            _tell(watch, "ended", outcome)
        if self._crew is not None:
            found |= self._elsewhere(self._crew, watch)
        sharing.wait_for([self._jobs[at] for at in self._others], self._deadline.left)
        for at in self._others:
            done = keeping.read_outcome(self._jobs[at].folder, self._jobs[at].contestant.name)
            found |= {} if done is None else {at: self._material.for_person(done)}
        for at in [*self._here, *(at for at in self._others if at not in found)]:
            job = self._jobs[at]
            if not self._deadline.allows(job.budget):
                break
            _tell(watch, "started", job.contestant.name, job.seed)
            begun = time.monotonic()
            found[at] = do_job(job, self._material, self._split)
            self.spans.append((begun, begun + found[at].seconds))
            self._deadline.took(time.monotonic() - begun)
            _tell(watch, "ended", found[at])
        self._deadline.check(found, len(self._jobs))
        return [found[at] for at in range(len(self._jobs))]

    def _elsewhere(self, crew: Crew, watch: Any) -> dict[int, Outcome]:
        """The outcomes of the jobs that are done in other processes."""
        places, found = {id(self._jobs[at]): at for at in self._away}, dict[int, Outcome]()
        jobs = [self._jobs[at] for at in self._away]
        begun: dict[int, float] = {}

        def started(job: Job) -> None:
            begun[id(job)] = time.monotonic()
            _tell(watch, "started", job.contestant.name, job.seed)

        try:
            self._drop_late(jobs)
            for ended in crew.run(jobs, _limit, started, attrgetter("contestant.kind")):
                outcome = _cut(ended) if ended.value is None else ended.value
                kept = keeping.read_outcome(ended.job.folder, ended.job.contestant.name)
                found[places[id(ended.job)]] = outcome if kept is None else self._material.for_person(kept)
                done = ended.since if ended.stage not in ("", "fit") else time.monotonic()
                if not math.isnan(outcome.seconds):
                    self.spans.append((done - outcome.seconds, done))
                _tell(watch, "ended", found[places[id(ended.job)]])
                self._deadline.took(time.monotonic() - begun[id(ended.job)])
                self._drop_late(jobs)
        except KeyboardInterrupt as error:
            raise Interrupted(
                f"compare: interrupted with {len(found)} of {len(self._away)} fits done; what is done is kept where a "
                "folder was given, and the same call goes on from there"
            ) from error
        return found

    def _drop_late(self, waiting: list[Job]) -> None:
        """Leave out the jobs that would end too late."""
        waiting[:] = [job for job in waiting if self._deadline.allows(job.budget)]

    def fitting(self) -> float:
        """Seconds of this run in which at least one model was being fitted."""
        total, reached = 0.0, -math.inf
        for begun, ended in sorted(span for span in self.spans if span[1] >= span[0]):
            total += max(0.0, ended - max(begun, reached))
            reached = max(reached, ended)
        return total


def _tell(watch: Any, event: str, *words: Any) -> None:
    if watch is not None:
        getattr(watch, event)(*words)


def _limit(job: Job, stage: str) -> float:
    """Seconds that a stage of a job may take before its process is ended."""
    if not stage:  # it gets ready
        return _LONG
    return (job.limit if stage == "fit" else 2 * job.patience) + _SLACK


def _cut(ended: Ended) -> Outcome:
    """The outcome of a job that was stopped, or whose process is gone."""
    job, spent = ended.job, time.monotonic() - ended.since
    name, seed = job.contestant.name, job.seed
    if not ended.late:
        outcome = Outcome(name, seed, "failed", f"its process ended {ended.reason}", spent)
    elif ended.stage == "fit":
        outcome = Outcome(
            name, seed, "out of budget", f"the fit was stopped after {spent:.3g} s of {job.budget}", spent
        )
    else:
        outcome = Outcome(name, seed, "failed", f"{ended.stage} took longer than {2 * job.patience:.3g} s")
    outcome = replace(outcome, folder=job.folder)
    keeping.write_outcome(outcome)
    return outcome
