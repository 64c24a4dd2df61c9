"""A comparison that has to end by a certain time begins no fit that would end later."""

from __future__ import annotations

import math
import time
from typing import Any

from benthic.base.errors import Interrupted, InvalidInput
from benthic.leaderboard.contest.records import Budget, Outcome

_BESIDE = 5.0  # seconds that a first fit may take beside its budget: imports, samples, likelihoods


class Deadline:
    """How long a run may still begin fits: as long as one like the longest so far, or like the budget, would end.

    stop_after: seconds from now, ``9m``, or None for as long as it takes.

    >>> Deadline(None).allows(Budget("seconds", 1e6)), Deadline(60).allows(Budget("seconds", 90.0))
    (True, False)
    """

    def __init__(self, stop_after: Any = None) -> None:
        if stop_after is not None and Budget.of(stop_after).kind != "seconds":
            raise InvalidInput(f"compare: stop_after is {stop_after!r}; give it as a time, such as '9m' or 540")
        self.seconds = math.inf if stop_after is None else Budget.of(stop_after).amount
        self._end = time.monotonic() + self.seconds
        self._longest = 0.0

    @property
    def left(self) -> float:
        """Seconds to go."""
        return self._end - time.monotonic()

    def allows(self, budget: Budget) -> bool:
        """Whether another fit would probably end in time."""
        usual = budget.amount + _BESIDE if budget.kind == "seconds" else 0.0
        return self.left > max(usual, self._longest)

    def took(self, seconds: float) -> None:
        """A fit with everything that belongs to it took so long."""
        self._longest = max(self._longest, seconds)

    def check(self, found: dict[int, Outcome], total: int) -> None:
        """Say that the time is up, where fits are missing."""
        if len(found) < total and self.seconds < math.inf:
            raise Interrupted(
                f"compare: stopped before {self.seconds:.0f} s were over, with {len(found)} of {total} fits done; "
                "the same call goes on from there"
            )
