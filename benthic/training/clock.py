"""The time that a run may take, and how long it will be in updates."""

from __future__ import annotations

import time

_UNKNOWN = 1_000_000_000  # updates, before the first one has shown how long they take


class Clock:
    """Time spent on training, over all parts of a run that was resumed.

    seconds: the budget, None for none. spent: seconds of earlier parts.

    >>> clock = Clock(None)
    >>> clock.late, clock.total(3, None)
    (False, None)
    """

    def __init__(self, seconds: float | None, spent: float = 0.0) -> None:
        self.seconds, self._before = seconds, spent
        self._begun = time.perf_counter()

    def restart(self, spent: float) -> None:
        """Begin now, after so many seconds of earlier parts."""
        self._before, self._begun = spent, time.perf_counter()

    @property
    def spent(self) -> float:
        """Seconds of all parts."""
        return self._before + time.perf_counter() - self._begun

    @property
    def late(self) -> bool:
        """Whether the budget is used up."""
        return self.seconds is not None and self.spent >= self.seconds

    def total(self, step: int, limit: int | None) -> int | None:
        """Updates in the whole run: as many as fit into the time at the pace so far, ``limit`` at most."""
        if self.seconds is None:
            return limit
        expected = max(step + 1, round(step * self.seconds / max(self.spent, 1e-9))) if step else _UNKNOWN
        return expected if limit is None else min(limit, expected)
