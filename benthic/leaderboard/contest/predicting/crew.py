"""Work in processes of their own, one torch thread each, stopped when it takes too long.

The processes are started as programs, not as copies of the caller: a script needs no ``if __name__`` around its call,
and classes defined in it are sent by value. One process serves many jobs, so that its imports are paid once.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benthic.base.errors import InvalidInput

_ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
_FOREVER = 1e9


def processes(n_jobs: Any) -> int:
    """How many processes ``n_jobs`` asks for: -1 is as many as there are cores, 0 none.

    >>> processes(2), processes(-1) > 0
    (2, True)
    """
    if not isinstance(n_jobs, int) or isinstance(n_jobs, bool) or n_jobs < -1:
        raise InvalidInput(f"compare: n_jobs is {n_jobs!r}; so many processes, -1 for all cores, or 0 for none")
    return n_jobs if n_jobs >= 0 else os.cpu_count() or 1


class Ended:
    """How a job ended: with a value, or stopped after its time (``late``), or with its process (``reason``)."""

    def __init__(self, job: Any, value: Any = None, *, late: bool = False, reason: str = "") -> None:
        self.job, self.value, self.late, self.reason = job, value, late, reason


class Crew:
    """Some processes that all know the same data and do one job after the other.

    work: an importable function of (job, shared). shared: sent to each process once. size: how many processes.

    >>> import operator
    >>> with Crew(operator.add, 10, size=1) as crew:
    ...     [ended.value for ended in crew.run([1, 2])]
    [11, 12]
    """

    def __init__(self, work: Callable[[Any, Any], Any], shared: Any, size: int = 1) -> None:
        self._task = _packed((work, shared))
        self._hands: list[_Hand] = []
        self.size = max(1, size)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for hand in self._hands:
            hand.stop()
        self._hands = []

    def run(
        self,
        jobs: Sequence[Any],
        limit: Callable[[Any], float] | None = None,
        started: Callable[[Any], None] | None = None,
    ) -> Iterator[Ended]:
        """Every job as it ends, in no order; jobs removed from the list meanwhile are not begun.

        limit: the seconds a job may take. started: called when a job begins.
        """
        waiting = jobs if isinstance(jobs, list) else list(jobs)
        while waiting or any(hand.busy for hand in self._hands):
            self._hire(len(waiting))
            for hand in self._hands:
                if hand.ready and waiting:
                    job = waiting.pop(0)
                    if started is not None:
                        started(job)
                    hand.begin(job, _FOREVER if limit is None else limit(job))
            yield from self._hear()

    def _hire(self, wanted: int) -> None:
        self._hands = [hand for hand in self._hands if not hand.gone]
        free = sum(not hand.busy for hand in self._hands)
        while len(self._hands) < self.size and free < wanted:
            self._hands.append(_Hand(self._task))
            free += 1

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


class _Hand:
    """One process, and the job it has."""

    def __init__(self, task: bytes) -> None:
        ours, theirs = socket.socketpair()
        self._said = _paper()
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import serve; serve({theirs.fileno()})"],
            pass_fds=[theirs.fileno()],
            env=_surroundings(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._said,
            start_new_session=True,  # Ctrl-C is for the caller, who stops the others
        )
        theirs.close()
        self.line = Connection(ours.detach())
        self.ready, self.busy, self.gone = False, False, False
        self.job: Any = None
        self.deadline = time.monotonic() + _FOREVER
        self.line.send_bytes(task)

    def begin(self, job: Any, seconds: float) -> None:
        """Start a job."""
        self.job, self.busy, self.ready = job, True, False
        self.deadline = time.monotonic() + min(seconds, _FOREVER)
        self.line.send_bytes(_packed(job))

    def listen(self) -> Ended | None:
        """What the process says: that it is ready, the value of its job, or nothing more."""
        try:
            value = _unpacked(self.line.recv_bytes())
        except (EOFError, OSError):
            return self._died()
        self.ready = True
        if not self.busy:
            return None
        self.busy, self.deadline = False, time.monotonic() + _FOREVER
        return Ended(self.job, value)

    def check(self) -> Ended | None:
        """Stop a job whose time is over."""
        if not self.busy or time.monotonic() < self.deadline:
            return None
        self.stop()
        return Ended(self.job, late=True)

    def stop(self) -> None:
        """End the process."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self.line.close()
        self._said.close()
        self.busy, self.gone = False, True

    def _died(self) -> Ended | None:
        code = self._process.wait()
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").strip().splitlines()
        busy = self.busy
        self.stop()
        if not busy:  # it could not even begin: every other would end likewise
            raise RuntimeError(f"a process for fits ended before its first job: {lines[-1] if lines else code}")
        return Ended(self.job, reason=_obituary(code, lines))


def _paper() -> Any:
    """A file without a name, for what a process complains of."""
    return tempfile.SpooledTemporaryFile(max_size=0)


def _obituary(code: int, lines: Sequence[str]) -> str:
    if code == -signal.SIGKILL:
        return "the system killed it, probably for want of memory"
    if code < 0:
        return f"by the signal {signal.Signals(-code).name}"
    return lines[-1] if lines else f"with code {code}"


def _surroundings() -> dict[str, str]:
    """The caller's environment, its places to import from, and one thread."""
    places = [place or str(Path.cwd()) for place in sys.path]
    return {**os.environ, **dict.fromkeys(_ONE_THREAD, "1"), "PYTHONPATH": os.pathsep.join(places)}


def _packed(value: Any) -> bytes:
    found: bytes = _pickler().dumps(value)
    return found


def _unpacked(data: bytes) -> Any:
    return _pickler().loads(data)


def _pickler() -> Any:
    """The module that also packs what a script or a notebook defines; joblib brings it along, inside or beside it."""
    return import_module("cloudpickle" if find_spec("cloudpickle") else "joblib.externals.cloudpickle")


def serve(line: int) -> None:
    """What a process of the crew does: the jobs that come in by the socket ``line``, until it closes."""
    connection = Connection(line)
    work, shared = _unpacked(connection.recv_bytes())
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    connection.send_bytes(_packed(None))
    while True:
        try:
            job = _unpacked(connection.recv_bytes())
        except EOFError:
            return
        connection.send_bytes(_packed(work(job, shared)))
