"""Samples judged as they come, beside the fits that are still running."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from typing import Any

from benthic.base.threads import one_torch_thread
from benthic.leaderboard.contest.judging import Court, Verdict
from benthic.leaderboard.contest.records import Contestant, Outcome
from benthic.leaderboard.contest.scoring import Judged

_WILD = "its samples lie so far off that no distance to them can be computed"

Heard = tuple[Outcome, Verdict | None]


class Hearing:
    """Judges every outcome once, in one thread beside this one; is told of outcomes as the watch of a run is.

    summon: makes the judge, which takes seconds. n: rows of a sample. watch: is told too. beside: whether to begin when
    an outcome comes, where models are fitted in other processes; otherwise all are judged in the end.
    """

    def __init__(self, summon: Callable[[], Court], n: int, watch: Any = None, *, beside: bool = True) -> None:
        self._summon, self._n, self._watch = summon, n, watch
        self._bench = ThreadPoolExecutor(1, "benthic-judge") if beside else None
        self._heard: dict[tuple[str, int], Future[Heard]] = {}

    def __enter__(self) -> Hearing:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bench is not None:
            self._bench.shutdown(cancel_futures=True)

    @cached_property
    def court(self) -> Court:
        """The judge, who comes with the first outcome: before, cores are busy with starting processes."""
        with one_torch_thread():
            return self._summon()

    def started(self, name: str, seed: int) -> None:
        """A fit begins."""
        if self._watch is not None:
            self._watch.started(name, seed)

    def ended(self, outcome: Outcome) -> None:
        """A fit has ended: its samples are judged."""
        if self._watch is not None:
            self._watch.ended(outcome)
        if self._bench is not None:
            self._heard[outcome.name, outcome.seed] = self._bench.submit(self._judge, outcome)

    def judged(self, contestant: Contestant, outcomes: Sequence[Outcome]) -> Judged:
        """What the fits of one contestant are worth; outcomes whose samples are wild have ended otherwise."""
        found = [self._verdict(outcome) for outcome in outcomes]
        return Judged(contestant, tuple(outcome for outcome, _ in found), tuple(verdict for _, verdict in found))

    def _verdict(self, outcome: Outcome) -> Heard:
        future = self._heard.get((outcome.name, outcome.seed))
        return self._judge(outcome) if future is None else future.result()

    def _judge(self, outcome: Outcome) -> Heard:
        if outcome.samples is None:
            return outcome, None
        court = self.court
        with one_torch_thread():
            rows = court.material.take_back(outcome.samples, self._n, outcome.labels)
            if court.wild(rows):
                return replace(outcome, status="not finite", reason=_WILD), None
            return outcome, court.judge(rows)
