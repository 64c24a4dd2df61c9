"""A bar for long work that counts in steps of its own."""

from __future__ import annotations

import sys
import time
from typing import Any

from benthic.base.quiet import load


class Bar:
    """A bar on a terminal; nothing when it is not wanted, errors do not go to a terminal, or the work is short.

    unit: what is counted, for the speed that is shown.
    """

    _delay, _every = 1.0, 0.1  # seconds before it appears, and between two drawings

    def __init__(self, title: str, total: int, wanted: bool, unit: str) -> None:
        self._wanted = wanted and sys.stderr.isatty()
        self._title, self._total, self._unit, self._done = title, total, unit, 0
        self._begun = time.perf_counter()
        self._bar: Any = None
        self._task: Any = None
        self._next = self._begun + self._delay

    def tick(self, count: int = 1, note: str = "") -> None:
        """So many more are done. note: a word about it, such as a loss."""
        self._done += count
        if self._wanted and time.perf_counter() >= self._next:
            self._show(note)

    def _show(self, note: str) -> None:
        self._next = time.perf_counter() + self._every
        if self._bar is None:
            self._bar = _bar()
            self._task = self._bar.add_task(self._title, total=self._total, note="", speed="")
            self._bar.start()
        speed = f"{self._done / max(time.perf_counter() - self._begun, 1e-9):.3g} {self._unit}/s"
        self._bar.update(self._task, completed=min(self._done, self._total), note=note, speed=speed)

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def _bar() -> Any:
    load("rich.progress")
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        TextColumn("{task.fields[speed]}", markup=False),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
