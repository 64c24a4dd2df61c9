"""A few threads that share compiled work which lets go of the interpreter's lock."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any, Self

from benthic.base.errors import InvalidInput
from benthic.base.settings import is_whole

_BLOCK = 1 << 14  # rows of a block
_SMALL = 20_000  # rows below which threads cost more than they bring


class _Hand:
    """One other thread: two locks hand work over and back, which is quicker than a queue."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._work: Callable[[int], Any] | None = None
        self._trouble: Exception | None = None
        self._go, self._done = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._done.acquire()
        threading.Thread(target=self._run, name=f"benthic-{number}", daemon=True).start()

    def _run(self) -> None:
        while True:
            self._go.acquire()
            if self._work is None:
                return
            try:
                self._work(self._number)
            except Exception as trouble:
                self._trouble = trouble
            self._done.release()

    def begin(self, work: Callable[[int], Any]) -> None:
        """Start ``work(number)``."""
        self._work = work
        self._go.release()

    def finish(self) -> Exception | None:
        """Wait for the end of the work; what it raised, if anything."""
        self._done.acquire()
        trouble, self._trouble = self._trouble, None
        return trouble

    def dismiss(self) -> None:
        """End the thread."""
        self._work = None
        self._go.release()


class Crew:
    """The calling thread and ``size - 1`` others; a context manager.

    >>> with Crew(2) as crew:
    ...     seen = []
    ...     crew.each(seen.append, range(3))
    >>> sorted(seen)
    [0, 1, 2]
    """

    def __init__(self, size: int = 1) -> None:
        self.size = size
        self._others = [_Hand(k) for k in range(1, size)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for hand in self._others:
            hand.dismiss()

    def each(self, work: Callable[[Any], Any], items: Iterable[Any]) -> None:
        """Do the work for every item, in any order."""
        listed = list(items)
        if not self._others or len(listed) < 2:
            for item in listed:
                work(item)
            return
        waiting = iter(listed)

        def draw(_: int) -> None:
            for item in waiting:  # a list's iterator hands each item to one thread
                work(item)

        self.together(draw)

    def together(self, work: Callable[[int], Any]) -> None:
        """Let every thread do its part: ``work(0)`` here, ``work(1)`` and so on in the others."""
        for hand in self._others:
            hand.begin(work)
        try:
            work(0)
        finally:
            troubles = [hand.finish() for hand in self._others]
        for trouble in troubles:
            if trouble is not None:
                raise trouble

    def blocks(self, n: int, work: Callable[[int, int], Any]) -> list[Any]:
        """The work's answers for blocks of rows that do not depend on the number of threads, in their order."""
        starts = range(0, n, _BLOCK)
        found: list[Any] = [None] * len(starts)

        def one(k: int) -> None:
            found[k] = work(k * _BLOCK, min((k + 1) * _BLOCK, n))

        self.each(one, range(len(starts)))
        return found

    def split(self, n: int, work: Callable[[int, int], Any]) -> None:
        """Do the work on rows ``start:stop``, in as many pieces as there are threads."""
        if not self._others or n < _SMALL:
            work(0, n)
            return
        ends = [n * k // self.size for k in range(self.size + 1)]
        self.together(lambda k: work(ends[k], ends[k + 1]))

    def parts(self, n: int, work: Callable[[int, int, int], Any]) -> list[Any]:
        """The answers of ``work(part, start, stop)`` for as many equal parts of n rows as there are threads."""
        size = -(-n // self.size)
        edges = [(start, min(start + size, n)) for start in range(0, n, max(size, 1))]
        found: list[Any] = [None] * len(edges)

        def one(k: int) -> None:
            if k < len(edges):
                found[k] = work(k, *edges[k])

        if len(edges) > 1:
            self.together(one)
        elif edges:
            one(0)
        return found


class Together:
    """A change of something global, which threads may want at once: the first makes it, the last takes it back.

    change: makes a context manager that makes the change and takes it back.
    """

    def __init__(self, change: Callable[[], AbstractContextManager[Any]]) -> None:
        self._change, self._count, self._lock = change, 0, threading.Lock()

    def __enter__(self) -> Self:
        with self._lock:
            if not self._count:
                self._held = self._change()
                self._held.__enter__()
            self._count += 1
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._count -= 1
            if not self._count:
                self._held.__exit__(None, None, None)


class _Alone(threading.local):
    """Whether this thread is in ``one_torch_thread``."""

    now = False


_ALONE, _COUNTING = _Alone(), threading.Lock()
_usual = _inside = 0  # torch's number of threads while nobody is in ``one_torch_thread``, and how many are


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Keep torch from starting threads of its own, which would wait for ours, and ours for them, at every product.

    The number belongs to each thread, but a new one begins with what was set last: what was usual when the first came
    in is set again by each that leaves.
    """
    global _usual, _inside
    import torch

    if _ALONE.now:
        yield
        return
    with _COUNTING:
        _usual = _usual if _inside else torch.get_num_threads()
        _inside += 1
        torch.set_num_threads(1)
    _ALONE.now = True
    try:
        yield
    finally:
        _ALONE.now = False
        with _COUNTING:
            _inside -= 1
            torch.set_num_threads(_usual)


def usual_torch_threads() -> None:
    """Give this thread torch's usual number, which it may have missed if it began while another was alone."""
    import torch

    with _COUNTING:
        if _inside and not _ALONE.now:
            torch.set_num_threads(_usual)


@cache
def _standing(process: int, size: int) -> Crew:
    return Crew(size)


def standing_crew(size: int) -> Crew:
    """A crew that stays, for work too short to hire one each time; a forked child gets its own."""
    return _standing(os.getpid(), size)


def threads(n_jobs: int | None, default: int = 1) -> int:
    """How many threads ``n_jobs`` asks for: None is ``default``, -1 one a core, -2 one fewer.

    >>> threads(3), threads(None)
    (3, 1)
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if n_jobs is None:
        return min(default, cores)
    if n_jobs == 0 or not is_whole(n_jobs):
        raise InvalidInput(f"n_jobs is {n_jobs!r}; it must be a whole number but 0, -1 for all cores, or None")
    return max(int(n_jobs) if n_jobs > 0 else cores + 1 + int(n_jobs), 1)
