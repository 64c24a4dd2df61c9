"""What listens to training: numbers to a file, TensorBoard, a progress bar."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any, Protocol

from benthic.base.quiet import load


class Moment(Protocol):
    """What a callback sees of the loop."""

    step: int
    epoch: int
    total_steps: int | None
    history: list[dict[str, Any]]

    def rate(self) -> float | None:
        """The current learning rate, where there is one."""


class Callback:
    """Base of callbacks: override what you need; ``on_step`` costs time at every update."""

    def on_start(self, moment: Moment) -> None:
        """Before the first update, or after a resume."""

    def on_epoch(self, moment: Moment, logs: dict[str, Any]) -> None:
        """After each pass over the data."""

    def on_end(self, moment: Moment) -> None:
        """When training is over, also after an error."""


class JsonLog(Callback):
    """One JSON object an epoch in a file; after a resume, lines later than the checkpoint are dropped."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def on_start(self, moment: Moment) -> None:
        """Keep what belongs to the steps already done."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        kept = [line for line in lines if _step_of(line) <= moment.step]
        self.path.write_text("".join(line + "\n" for line in kept) if moment.step else "")

    def on_epoch(self, moment: Moment, logs: dict[str, Any]) -> None:
        """Append one line."""
        with self.path.open("a") as file:
            file.write(json.dumps(logs) + "\n")


def _step_of(line: str) -> float:
    try:
        return float(json.loads(line)["step"])
    except (json.JSONDecodeError, KeyError, TypeError):
        return float("inf")  # a line cut off by a crash


class TensorBoard(Callback):
    """Scalars for TensorBoard (needs the extra ``benthic[tensorboard]``)."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = str(folder)
        self._writer: Any = None

    def on_start(self, moment: Moment) -> None:
        """Open the writer."""
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ImportError("TensorBoard needs the package tensorboard: pip install benthic[tensorboard]") from error
        self._writer = SummaryWriter(self.folder, purge_step=moment.step)

    def on_epoch(self, moment: Moment, logs: dict[str, Any]) -> None:
        """One scalar a number."""
        for name, value in logs.items():
            if isinstance(value, (int, float)) and name not in ("step", "epoch"):
                self._writer.add_scalar(name, value, logs["step"])

    def on_end(self, moment: Moment) -> None:
        """Close the writer."""
        if self._writer is not None:
            self._writer.close()


class Progress:
    """A bar with loss, rate and time left; nothing when the output is not a terminal or work is short."""

    _delay = 1.0  # seconds before it appears
    _every = 0.1  # seconds between two drawings

    def __init__(self, title: str, wanted: bool) -> None:
        self.wanted = wanted and sys.stderr.isatty()
        self._title = title
        self._bar: Any = None
        self._task: Any = None
        self._mark = (0, time.perf_counter())  # step and time of the last drawing
        self._next = time.perf_counter() + self._delay

    def due(self) -> bool:
        """Whether to draw now."""
        return self.wanted and time.perf_counter() >= self._next

    def show(self, step: int, total: int | None, loss: float, epoch: int) -> None:
        """Draw the bar."""
        self._next = time.perf_counter() + self._every
        if self._bar is None:
            self._bar = self._make()
            self._task = self._bar.add_task(self._title, total=total, loss="", epoch="", speed="")
            self._bar.start()
        now = time.perf_counter()
        speed = (step - self._mark[0]) / max(now - self._mark[1], 1e-9)
        self._mark = (step, now)
        self._bar.update(
            self._task,
            completed=step,
            total=total,
            loss=f"loss {loss:.5g}",
            epoch=f"epoch {epoch + 1}",
            speed=f"{speed:.3g} steps/s",
        )

    @staticmethod
    def _make() -> Any:
        load("rich.progress")
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        return Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[epoch]}", markup=False),
            TextColumn("{task.fields[loss]}", markup=False),
            TextColumn("{task.fields[speed]}", markup=False),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
