"""Work in processes of their own, stopped when it takes too long.

The processes are started as programs, not as copies of the caller: a script needs no ``if __name__`` around its call,
and classes defined in it are sent by value. One process serves many jobs, so that its imports are paid once.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benthic.base.errors import InvalidInput
from benthic.base.settings import is_whole

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
_FOREVER = 1e9


def processes(n_jobs: Any) -> int:
    """How many processes ``n_jobs`` asks for: -1 is as many as there are cores, 0 none.

    >>> processes(2), processes(-1) > 0
    (2, True)
    """
    if not is_whole(n_jobs, -1):
        raise InvalidInput(f"compare: n_jobs is {n_jobs!r}; so many processes, -1 for all cores, or 0 for none")
    return n_jobs if n_jobs >= 0 else os.cpu_count() or 1


class Ended:
    """How a job ended: with a value, or stopped after its time (``late``), or with its process (``reason``).

    stage: what it was doing last; since: when that began, by ``time.monotonic``.
    """

    def __init__(
        self, job: Any, value: Any = None, *, late: bool = False, reason: str = "", stage: str = "", since: float = 0.0
    ) -> None:
        self.job, self.value, self.late, self.reason = job, value, late, reason
        self.stage, self.since = stage, since


class Crew:
    """Some processes that all know the same data and do one job after the other; one that hangs or dies is replaced.

    work: an importable function of (job, shared, say); say(stage) tells what it is doing now. shared: sent to each
    process once. size: how many processes. threads: of each, 0 for torch's own choice. surroundings: their environment.

    >>> with Crew(_sum, 10, size=1) as crew:
    ...     [ended.value for ended in crew.run([1, 2])]
    [11, 12]
    """

    def __init__(
        self,
        work: Callable[[Any, Any, Callable[[str], None]], Any],
        shared: Any,
        size: int = 1,
        *,
        threads: int = 1,
        surroundings: Mapping[str, str] | None = None,
    ) -> None:
        self._task = _packed((work, shared))
        self._hands: list[_Hand] = []
        self._threads, self._surroundings = threads, surroundings
        self.size = max(1, size)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """End all processes."""
        for hand in self._hands:
            hand.stop()
        self._hands = []

    def hire(self, wanted: int) -> None:
        """Start processes until there is one free for each of so many jobs, or there are enough."""
        self._hands = [hand for hand in self._hands if not hand.gone]
        free = sum(not hand.busy for hand in self._hands)
        while len(self._hands) < self.size and free < wanted:
            self._hands.append(_Hand(self._task, self._threads, self._surroundings or os.environ))
            free += 1

    def run(
        self,
        jobs: Sequence[Any],
        limit: Callable[[Any, str], float] | None = None,
        started: Callable[[Any], None] | None = None,
        kind: Callable[[Any], Any] | None = None,
    ) -> Iterator[Ended]:
        """Every job as it ends, in no order; jobs removed from the list meanwhile are not begun.

        limit: the seconds that a stage of a job may take; the first stage is ``""``. started: called when a job begins.
        kind: what a job has in common with others; a process takes jobs of a kind that it had before, else of one that
        no process had, so that what a kind has to load is loaded once.
        """
        waiting = jobs if isinstance(jobs, list) else list(jobs)
        while waiting or any(hand.busy for hand in self._hands):
            self.hire(len(waiting))
            for hand in self._hands:
                if hand.ready and waiting:
                    job = waiting.pop(self._choice(hand, waiting, kind))
                    if started is not None:
                        started(job)
                    hand.begin(job, limit or _no_limit)
            yield from self._hear()

    def _choice(self, hand: _Hand, waiting: Sequence[Any], kind: Callable[[Any], Any] | None) -> int:
        """The place of the job that a process should do next."""
        if kind is None:
            return 0
        kinds = [kind(job) for job in waiting]
        taken = {one for other in self._hands if other is not hand for one in other.kinds}
        own = [at for at, one in enumerate(kinds) if one in hand.kinds]
        new = [at for at, one in enumerate(kinds) if one not in taken]
        at = (own or new or [0])[0]
        hand.kinds.add(kinds[at])
        return at

    def _hear(self) -> Iterator[Ended]:
        """Wait until something happens, and say which jobs have ended."""
        awaited = [hand for hand in self._hands if hand.busy or not hand.ready]
        if not awaited:
            return
        left = min(hand.deadline for hand in awaited) - time.monotonic()
        heard = set(wait([hand.line for hand in awaited], timeout=max(0.0, min(left, 3600.0))))
        for hand in awaited:
            ended = hand.listen() if hand.line in heard else hand.check()
            if ended is not None:
                yield ended


def _no_limit(job: Any, stage: str) -> float:
    return _FOREVER


class _Hand:
    """One process, and the job it has."""

    def __init__(self, task: bytes, threads: int, surroundings: Mapping[str, str]) -> None:
        ours, theirs = socket.socketpair()
        self._said = _paper()
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import serve; serve({theirs.fileno()}, {threads})"],
            pass_fds=[theirs.fileno()],
            env=_environment(surroundings, threads),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._said,
            start_new_session=True,  # Ctrl-C is for the caller, who stops the others
        )
        theirs.close()
        self.line = Connection(ours.detach())
        self.ready, self.busy, self.gone = False, False, False
        self.job: Any = None
        self.kinds: set[Any] = set()
        self._limit: Callable[[Any, str], float] = _no_limit
        self._enter("")
        self.line.send_bytes(task)

    def _enter(self, stage: str) -> None:
        """A stage of the job begins now."""
        self.stage, self.since = stage, time.monotonic()
        seconds = self._limit(self.job, stage) if self.busy else _FOREVER
        self.deadline = self.since + min(seconds, _FOREVER)

    def begin(self, job: Any, limit: Callable[[Any, str], float]) -> None:
        """Start a job."""
        self.job, self.busy, self.ready, self._limit = job, True, False, limit
        self._enter("")
        self.line.send_bytes(_packed(job))

    def listen(self) -> Ended | None:
        """What the process says: that it is ready, the stage or the value of its job, or nothing more."""
        try:
            word, value = _unpacked(self.line.recv_bytes())
        except (EOFError, OSError):
            return self._died()
        if word == "stage":
            self._enter(value)
            return None
        self.ready = True
        return self._ended(value=value) if self.busy else None

    def check(self) -> Ended | None:
        """Stop a job whose time is over."""
        if not self.busy or time.monotonic() < self.deadline:
            return None
        self.stop()
        return self._ended(late=True)

    def stop(self) -> None:
        """End the process."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self.line.close()
        self._said.close()
        self.gone = True

    def _ended(self, **how: Any) -> Ended:
        self.busy, self.deadline = False, time.monotonic() + _FOREVER
        return Ended(self.job, stage=self.stage, since=self.since, **how)

    def _died(self) -> Ended | None:
        code = self._process.wait()
        self._said.seek(0)
        reason = _obituary(code, self._said.read().decode(errors="replace").strip().splitlines())
        self.stop()
        if not self.busy:  # it could not even begin: every other would end likewise
            raise InvalidInput(f"compare: a process for fits ended before its first job, {reason}; n_jobs=0 needs none")
        return self._ended(reason=reason)


def _paper() -> Any:
    """A file without a name, for what a process complains of."""
    return tempfile.SpooledTemporaryFile(max_size=0)


def _obituary(code: int, lines: Sequence[str]) -> str:
    if code == -signal.SIGKILL:
        return "killed by the system, probably for want of memory"
    if code < 0:
        return f"by signal {signal.Signals(-code).name}"
    return f"by code {code}" + (f" ({lines[-1]})" if lines else "")


def packable(value: Any) -> bool:
    """Whether a value can be sent to another process."""
    try:
        _packed(value)
    except (pickle.PicklingError, TypeError, AttributeError, RuntimeError):
        return False
    return True


def _environment(surroundings: Mapping[str, str], threads: int) -> dict[str, str]:
    """The surroundings with the caller's places to import from, and so many threads."""
    places = [place or str(Path.cwd()) for place in sys.path]
    few = dict.fromkeys(_THREADS, str(threads)) if threads else {}
    return {**surroundings, **few, "PYTHONPATH": os.pathsep.join(places)}


def _packed(value: Any) -> bytes:
    found: bytes = _pickler().dumps(value)
    return found


def _unpacked(data: bytes) -> Any:
    return _pickler().loads(data)


def _pickler() -> Any:
    """The module that also packs what a script or a notebook defines; joblib brings it along, inside or beside it."""
    return import_module("cloudpickle" if find_spec("cloudpickle") else "joblib.externals.cloudpickle")


def serve(line: int, threads: int) -> None:
    """What a process of the crew does: the jobs that come in by the socket ``line``, until it closes."""
    threading.Thread(target=_leave_with, args=(os.getppid(),), daemon=True).start()
    connection = Connection(line)
    work, shared = _unpacked(connection.recv_bytes())
    if threads and "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)
    connection.send_bytes(_packed(("ready", None)))
    while True:
        try:
            job = _unpacked(connection.recv_bytes())
        except EOFError:
            return
        value = work(job, shared, lambda stage: connection.send_bytes(_packed(("stage", stage))))
        connection.send_bytes(_packed(("done", value)))


def _leave_with(parent: int) -> None:
    """End this process when the one that started it is gone."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def _sum(job: int, shared: int, say: Callable[[str], None]) -> int:
    """The work of the example above."""
    return job + shared
