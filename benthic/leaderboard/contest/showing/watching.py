"""What a person sees while models are compared: a live table on a terminal, a line a fit elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, TextIO

from benthic.base.harmless import visible
from benthic.base.settings import is_whole
from benthic.leaderboard.contest.records import Outcome

_ALIKE = 2.0  # fits still to come are guessed to take as long as those that ended, and at most this many budgets


class Watch:
    """The fits of a comparison as they begin and end, on standard error.

    names: of the models, in the order of the table. seeds: theirs, or how many. budget: of one fit, shown and used to
    guess the time left. enabled: False shows nothing. jobs: how many fits run at once. stream: where to write.

    >>> with Watch(["VAE"], [0, 1], "5 s a fit", stream=sys.stdout) as watch:
    ...     watch.started("VAE", 0)
    ...     watch.ended(Outcome("VAE", 0, seconds=4.9))
    ...     watch.ended(Outcome("VAE", 1, "failed", "the loss is not finite after step 3", 0.1))
    comparing 1 model with 2 seeds, 5 s a fit
    [1/2] VAE, seed 0: fitted in 4.9 s
    [2/2] VAE, seed 1: failed (kept from an earlier run): the loss is not finite after step 3
    """

    def __init__(
        self,
        names: Sequence[str],
        seeds: Sequence[int] | int,
        budget: Any = None,
        enabled: bool = True,
        *,
        jobs: int = 1,
        stream: TextIO | None = None,
    ) -> None:
        self.names = list(names)
        self.seeds = list(range(seeds)) if is_whole(seeds) else list(seeds)
        self.budget, self.enabled, self.jobs = budget, enabled, jobs
        self.stream = sys.stderr if stream is None else stream
        self.done: dict[tuple[str, int], Outcome] = {}
        self.running: dict[tuple[str, int], float] = {}
        self._kept: set[tuple[str, int]] = set()
        self._live: Any = None
        self._begin = time.monotonic()

    @property
    def total(self) -> int:
        """How many fits there are."""
        return len(self.names) * len(self.seeds)

    def __enter__(self) -> Watch:
        self._begin = time.monotonic()
        if not self.enabled:
            return self
        if self.stream.isatty():
            from rich.console import Console
            from rich.live import Live

            console = Console(file=self.stream)
            self._live = Live(get_renderable=self.table, console=console, refresh_per_second=4, transient=True)
            self._live.start()
        else:
            self._say(self._begins())
        return self

    def _begins(self) -> str:
        text = f"comparing {_count(len(self.names), 'model')} with {_count(len(self.seeds), 'seed')}"
        text += f", {self.budget}" if self.budget is not None else ""
        if getattr(self.budget, "kind", "") != "seconds":
            return text
        most = self.budget.amount * self.total / max(1, self.jobs)
        return f"{text}; at most about {_minutes(most)} of fitting"

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def started(self, name: str, seed: int) -> None:
        """A fit begins."""
        self.running[name, seed] = time.monotonic()

    def ended(self, outcome: Outcome) -> None:
        """A fit has ended, or was found kept from an earlier run."""
        key = (outcome.name, outcome.seed)
        if self.running.pop(key, None) is None:
            self._kept.add(key)
        self.done[key] = outcome
        if self.enabled and self._live is None:
            self._say(f"[{len(self.done)}/{max(self.total, len(self.done))}] {self._sentence(outcome)}")

    def table(self) -> Any:
        """The state of every model as a rich table."""
        from rich.table import Table
        from rich.text import Text

        title = self._progress() if self.done else self._begins()
        drawn = Table(title=title, title_justify="left", header_style="bold cyan", box=None, pad_edge=False)
        drawn.add_column("model")
        drawn.add_column("fits", justify="left")
        drawn.add_column("seconds", justify="right")
        drawn.add_column("", overflow="fold")
        for name in self.names:
            marks, note, seconds = self._row(name)
            drawn.add_row(Text(visible(name)), marks, seconds, Text(visible(note), style="dim"))
        return drawn

    def left(self) -> float:
        """Seconds that are probably left; NaN before the first fit has ended."""
        fresh = [o.seconds for key, o in self.done.items() if key not in self._kept and o.seconds == o.seconds]
        if not fresh:
            return float("nan")
        each = sum(fresh) / len(fresh)
        if getattr(self.budget, "kind", "") == "seconds":
            each = min(each, _ALIKE * self.budget.amount)
        now = time.monotonic()
        spent = sum(min(now - begin, each) for begin in self.running.values())
        return max(0.0, (self.total - len(self.done)) * each - spent) / max(1, self.jobs)

    def _row(self, name: str) -> tuple[Any, str, str]:
        from rich.text import Text

        marks, notes, seconds = Text(), [], []
        now = time.monotonic()
        for seed in self.seeds:
            outcome = self.done.get((name, seed))
            if outcome is not None:
                good = outcome.status == "ok"
                marks.append("● " if good else "✗ ", style="green" if good else "red")
                seconds.append(outcome.seconds)
                notes += [] if good else [f"{outcome.status}: {outcome.reason}".rstrip(": ")]
            elif (name, seed) in self.running:
                marks.append("◐ ", style="yellow")
                notes.append(f"seed {seed}: {now - self.running[name, seed]:.0f} s")
            else:
                marks.append("· ", style="dim")
        known = [value for value in seconds if value == value]
        return marks, "; ".join(dict.fromkeys(notes)), f"{sum(known) / len(known):.1f}" if known else ""

    def _progress(self) -> str:
        text = f"{len(self.done)} of {self.total} fits, {time.monotonic() - self._begin:.0f} s"
        left = self.left()
        return text + (f"; about {_minutes(left)} left" if left == left else "")

    def _sentence(self, outcome: Outcome) -> str:
        kept = " (kept from an earlier run)" if (outcome.name, outcome.seed) in self._kept else ""
        head = f"{outcome.name}, seed {outcome.seed}: "
        if outcome.status == "ok":
            return f"{head}fitted in {outcome.seconds:.1f} s{kept}"
        return f"{head}{outcome.status}{kept}: {outcome.reason}"

    def _say(self, text: str) -> None:
        self.stream.write(f"{visible(text)}\n")
        self.stream.flush()


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


def _minutes(seconds: float) -> str:
    """A time to wait, in words.

    >>> _minutes(12.2), _minutes(75)
    ('12 s', '1 min 15 s')
    """
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60} s"
