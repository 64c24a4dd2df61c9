"""All fits of a comparison: in processes that can be stopped, each kept as soon as it is done."""

from __future__ import annotations

import io
import math
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from benthic.base.errors import Interrupted, InvalidInput
from benthic.leaderboard.contest import keeping, sharing
from benthic.leaderboard.contest.jobs import Job, do_job
from benthic.leaderboard.contest.material import Material
from benthic.leaderboard.contest.protocol import Split
from benthic.leaderboard.contest.records import Outcome

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

    n_jobs: processes that fit at once, -1 for as many as there are cores; each has one thread if there are several. 0
    fits in this process, as happens to models that cannot be sent to another (whose class is defined in a script or a
    notebook); there a fit is stopped only between steps of Python. Under ``torchrun`` each process does its share, see
    ``sharing``. spans: when fits began and ended, as far as they
    were done now.
    """

    def __init__(self, jobs: Sequence[Job], material: Material, split: Split, n_jobs: int = 1) -> None:
        count = _processes(n_jobs)
        self._jobs, self._material, self._split = jobs, material, split
        kept = ((at, keeping.read_outcome(job.folder, job.contestant.name)) for at, job in enumerate(jobs))
        self._kept = {at: _for_person(outcome, material) for at, outcome in kept if outcome is not None}
        every = [at for at in range(len(jobs)) if at not in self._kept]
        todo = [at for at in every if sharing.is_ours(at)]
        self._others = [at for at in every if at not in todo]
        self._away = {at: jobs[at] for at in todo if count and portable(jobs[at])}
        self._here = [at for at in todo if at not in self._away]
        self._crew = Crew(min(count, len(self._away)), material, split) if self._away else None
        self.spans: list[tuple[float, float]] = []

    def __enter__(self) -> Fits:
        return self

    def __exit__(self, *error: object) -> None:
        if self._crew is not None:
            self._crew.stop()

    def run(self, watch: Any = None) -> list[Outcome]:
        """Every outcome, in the order of the jobs; watch: is told what starts and ends."""
        found = dict(self._kept)
        for outcome in self._kept.values():
            _tell(watch, "ended", outcome)
        if self._crew is not None:
            found |= self._crew.run(self._away, watch)
            self.spans += self._crew.spans
        sharing.wait_for([self._jobs[at] for at in self._others])
        for at in self._others:
            done = keeping.read_outcome(self._jobs[at].folder, self._jobs[at].contestant.name)
            found |= {} if done is None else {at: _for_person(done, self._material)}
        for at in [*self._here, *(at for at in self._others if at not in found)]:
            job = self._jobs[at]
            _tell(watch, "started", job.contestant.name, job.seed)
            begun = time.monotonic()
            found[at] = do_job(job, self._material, self._split)
            self.spans.append((begun, begun + found[at].seconds))
            _tell(watch, "ended", found[at])
        return [found[at] for at in range(len(self._jobs))]

    def fitting(self) -> float:
        """Seconds of this run in which at least one model was being fitted."""
        total, reached = 0.0, -math.inf
        for begun, ended in sorted(span for span in self.spans if span[1] >= span[0]):
            total += max(0.0, ended - max(begun, reached))
            reached = max(reached, ended)
        return total


def _processes(n_jobs: Any) -> int:
    if not isinstance(n_jobs, int) or isinstance(n_jobs, bool) or n_jobs < -1:
        raise InvalidInput(f"compare: n_jobs is {n_jobs!r}; so many processes, -1 for all cores, or 0 for none")
    return n_jobs if n_jobs >= 0 else len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def portable(job: Job) -> bool:
    """Whether a job can be sent to another process, and understood there."""
    held = io.BytesIO()
    try:
        pickle.Pickler(held, protocol=pickle.HIGHEST_PROTOCOL).dump(job)
    except (pickle.PicklingError, TypeError, AttributeError):
        return False
    return b"__main__" not in held.getvalue()


def _tell(watch: Any, event: str, *words: Any) -> None:
    if watch is not None:
        getattr(watch, event)(*words)


def _for_person(outcome: Outcome, material: Material) -> Outcome:
    """The outcome with its samples as the person's data look."""
    return outcome if outcome.samples is None else replace(outcome, samples=material.person(outcome.samples))


@dataclass
class Worker:
    """One process that fits, and what it is doing."""

    process: subprocess.Popen[bytes]
    asks: Connection
    answers: Connection
    ready: bool = False
    at: int | None = None
    job: Job | None = None
    stage: str = "fit"
    since: float = field(default_factory=time.monotonic)

    @property
    def deadline(self) -> float:
        """When it has to be stopped."""
        if self.job is None:
            return math.inf
        allowed = self.job.limit if self.stage == "fit" else 2 * self.job.patience
        return self.since + min(allowed, _LONG) + _SLACK

    def stop(self) -> None:
        """End the process and everything that leads to it."""
        self.process.kill()
        self.process.wait()
        self.asks.close()
        self.answers.close()


class Crew:
    """Processes that share the jobs of a comparison; one that hangs or dies is replaced."""

    def __init__(self, count: int, material: Material, split: Split) -> None:
        self._count, self._material, self._watch = count, material, None
        self._data = (replace(material, rows=material.rows[:1], y=None), split)  # what a worker needs of it
        self._waiting: list[tuple[int, Job]] = []
        self._found: dict[int, Outcome] = {}
        self.spans: list[tuple[float, float]] = []
        self._workers = [self._start() for _ in range(count)]

    def stop(self) -> None:
        """End all processes."""
        for worker in self._workers:
            worker.stop()

    def run(self, jobs: dict[int, Job], watch: Any = None) -> dict[int, Outcome]:
        """The outcomes of jobs by their numbers."""
        self._waiting, self._watch = list(jobs.items()), watch
        try:
            while len(self._found) < len(jobs):
                self._step()
        except KeyboardInterrupt as error:
            raise Interrupted(
                f"compare: interrupted with {len(self._found)} of {len(jobs)} fits done; what is done is kept where a "
                "folder was given, and the same call goes on from there"
            ) from error
        return self._found

    def _start(self) -> Worker:
        (theirs_in, ours_out), (ours_in, theirs_out) = os.pipe(), os.pipe()
        threads = 1 if self._count > 1 else 0
        code = f"from benthic.leaderboard.contest.worker import main; main({theirs_in}, {theirs_out}, {threads})"
        paths = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
        surroundings = {**sharing.alone(os.environ), "PYTHONPATH": paths}
        if threads:
            surroundings["OMP_NUM_THREADS"] = "1"
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            pass_fds=(theirs_in, theirs_out),
            env=surroundings,
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for us; we stop the workers
        )
        os.close(theirs_in)
        os.close(theirs_out)
        return Worker(process, Connection(ours_out, readable=False), Connection(ours_in, writable=False))

    def _step(self) -> None:
        """Hand out what waits, then hear from whoever answers first, or stop whoever is late."""
        for worker in self._workers:
            if worker.ready and worker.job is None and self._waiting:
                self._hand(worker)
        first = min(worker.deadline for worker in self._workers)
        patience = max(0.0, min(first - time.monotonic(), _LONG))
        heard = wait([worker.answers for worker in self._workers], None if math.isinf(first) else patience)
        for worker in list(self._workers):
            if worker.answers in heard:
                self._hear(worker)
            elif time.monotonic() >= worker.deadline:
                self._lose(worker, late=True)

    def _hand(self, worker: Worker) -> None:
        worker.at, worker.job = self._waiting.pop(0)
        worker.stage, worker.since = "fit", time.monotonic()
        _tell(self._watch, "started", worker.job.contestant.name, worker.job.seed)
        worker.asks.send(worker.job)

    def _hear(self, worker: Worker) -> None:
        try:
            word, outcome = worker.answers.recv()
        except (EOFError, OSError):
            self._lose(worker, late=False)
            return
        if word == "ready":
            worker.asks.send(self._data)
            worker.ready = True
        elif word == "done" and worker.job is not None:
            kept = keeping.read_outcome(worker.job.folder, worker.job.contestant.name)
            self._end(worker, outcome if kept is None else _for_person(kept, self._material))
        else:
            worker.stage, worker.since = word, time.monotonic()

    def _end(self, worker: Worker, outcome: Outcome) -> None:
        if worker.at is not None:
            self._found[worker.at] = outcome
        ended = worker.since if worker.stage != "fit" else time.monotonic()
        if not math.isnan(outcome.seconds):
            self.spans.append((ended - outcome.seconds, ended))
        worker.at = worker.job = None
        _tell(self._watch, "ended", outcome)

    def _lose(self, worker: Worker, *, late: bool) -> None:
        """Note how the job of a process ended that hangs or is gone, and put another in its place."""
        worker.stop()
        job, code = worker.job, worker.process.returncode
        if job is None:
            raise InvalidInput(
                f"compare: a process that fits ended with code {code} before it began; n_jobs=0 fits in this one"
            )
        spent = time.monotonic() - worker.since
        words = f"signal {-code}, perhaps for lack of memory" if code < 0 else f"code {code}"
        died = Outcome(job.contestant.name, job.seed, "failed", f"its process ended by {words}", spent)
        if late and worker.stage == "fit":
            died = replace(
                died, status="out of budget", reason=f"the fit was stopped after {spent:.3g} s of {job.budget}"
            )
        elif late:
            died = replace(died, reason=f"{worker.stage} took longer than {2 * job.patience:.3g} s", seconds=math.nan)
        outcome = replace(died, folder=job.folder)
        keeping.write_outcome(outcome)
        self._end(worker, outcome)
        self._workers.remove(worker)
        if self._waiting:
            self._workers.append(self._start())
