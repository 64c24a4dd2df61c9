"""A bar of the trees grown so far."""

from __future__ import annotations

import sys
import time
from typing import Any


class TreeBar:
    """A bar on a terminal; nothing when it is not wanted, not a terminal, or the work is short."""

    _delay, _every = 1.0, 0.1  # seconds before it appears, and between two drawings

    def __init__(self, title: str, total: int, wanted: bool) -> None:
        self._wanted = wanted and sys.stderr.isatty()
        self._title, self._total, self._done = title, total, 0
        self._begun, self._bar, self._task = time.perf_counter(), None, None
        self._next = self._begun + self._delay

    def tick(self, note: str = "") -> None:
        """One more is done. note: a word about it, such as its loss."""
        self._done += 1
        if self._wanted and time.perf_counter() >= self._next:
            self._show(note)

    def _show(self, note: str) -> None:
        self._next = time.perf_counter() + self._every
        if self._bar is None:
            self._bar = _bar()
            self._task = self._bar.add_task(self._title, total=self._total, note="", speed="")
            self._bar.start()
        speed = self._done / max(time.perf_counter() - self._begun, 1e-9)
        self._bar.update(self._task, completed=self._done, note=note, speed=f"{speed:.3g} trees/s")

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TextColumn("{task.fields[speed]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
