"""The driver of the dual solver: rows fetched in batches into a cache, bound rows set aside and brought back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benthic.svm.gram import Gram
from benthic.svm.polish import polish, violation
from benthic.svm.smo import ASK, DONE, NEED_ROW, STUCK, compact, offsets, smo

_ALL_AT_ONCE = 2896  # rows up to which the whole matrix is computed first
_REFINED = 1000  # rows up to which the last digits are worth more steps
_NO_LIMIT = np.iinfo(np.int64).max
_DIGIT = 4 * np.finfo(np.float64).eps  # by which sums of a few products are off, relative to their size
_BATCH = 16  # rows computed together
_WORTHWHILE = 0.7  # share of the active rows that may stay for setting the others aside to pay


@dataclass(frozen=True)
class Dual:
    """The problem: minimize ½ βᵀKβ − zᵀβ + ε‖β‖₁ with Σβ = 0 and lo ≤ β ≤ hi."""

    gram: Gram
    z: np.ndarray
    lo: np.ndarray
    hi: np.ndarray
    epsilon: float = 0.0


@dataclass(frozen=True)
class Options:
    """How to solve: tolerance of the KKT violation, most steps (-1: no limit), shrinking, bytes of cached rows."""

    tol: float = 1e-3
    max_iter: int = -1
    shrinking: bool = True
    cache_bytes: int = 200 << 20


@dataclass(frozen=True)
class Solution:
    """Multipliers β, residual slopes g = z − Kβ, threshold b, and how the solver ended."""

    beta: np.ndarray
    g: np.ndarray
    intercept: float
    violation: float
    steps: int
    curvature: float
    converged: bool


class _Active:
    """The rows in play with everything the compiled loop needs, in their own numbering."""

    def __init__(self, dual: Dual, index: np.ndarray, beta: np.ndarray, g: np.ndarray, buffer: np.ndarray) -> None:
        self.index, self.buffer, self.dual = index, buffer, dual
        self.gram = dual.gram if len(index) == len(dual.z) else dual.gram.restrict(index)
        self.beta, self.g = beta[index], g[index]
        self.lo, self.hi, self.diagonal = dual.lo[index], dual.hi[index], self.gram.diagonal
        self.up, self.down = np.empty(len(index)), np.empty(len(index))
        offsets(self.beta, self.lo, self.hi, dual.epsilon, self.up, self.down)
        self._lay_out(np.full(self._capacity(), -1), 0)

    def _capacity(self) -> int:
        return int(min(max(2, len(self.buffer) // len(self.index)), len(self.index)))

    def _lay_out(self, owners: np.ndarray, filled: int) -> None:
        """Point the cache at the buffer; owners: (slots,) which row each slot holds."""
        m = len(self.index)
        self.owners = owners
        self.sides = self.gram.sides()
        self.cache = self.buffer[: len(owners) * m].reshape(len(owners), m)
        self.slots = np.full(m, -1)
        self.slots[owners[:filled]] = np.arange(filled)
        self.stamps = np.zeros(len(owners), dtype=np.int64)

    def fetch(self, counts: np.ndarray) -> None:
        """Compute the row that is needed, and with it the rows that will likely be needed next."""
        wanted, clock = int(counts[2]), int(counts[3])
        rows = np.concatenate([[wanted], self._likely(wanted)])[: len(self.owners) - 1]
        places = self._places(len(rows), counts)
        self.cache[places] = self.gram.rows(rows).numpy()
        self.owners[places], self.slots[rows], self.stamps[places] = rows, places, clock

    def fill(self) -> None:
        """Compute every row."""
        rows = np.arange(len(self.index))
        for top in range(0, len(rows), 256):
            part = rows[top : top + 256]
            self.cache[part] = self.gram.rows(part).numpy()
        self.owners[:], self.slots[:] = rows, rows

    def _likely(self, wanted: int) -> np.ndarray:
        """Rows not yet there whose slopes violate optimality most."""
        rise, fall = self.g + self.up, self.g + self.down
        score = np.maximum(rise - fall.min(), rise.max() - fall)
        score[self.slots >= 0] = -np.inf
        score[wanted] = -np.inf
        count = min(_BATCH, len(score) - 1)
        best = np.argpartition(score, len(score) - count)[len(score) - count :]
        return best[score[best] > 0]

    def _places(self, count: int, counts: np.ndarray) -> np.ndarray:
        """Slots to write to: empty ones first, then those unused for longest."""
        fresh = np.arange(counts[4], min(counts[4] + count, len(self.owners)))
        counts[4] += len(fresh)
        if len(fresh) == count:
            return fresh
        stale = np.argsort(self.stamps[: fresh[0] if len(fresh) else None], kind="stable")[: count - len(fresh)]
        self.slots[self.owners[stale]] = -1
        return np.concatenate([fresh, stale])

    def idle(self) -> np.ndarray:
        """Which rows sit at a bound, or at zero, with slopes that keep them there."""
        rise, fall = self.g + self.up, self.g + self.down
        return (rise < fall.min()) & (fall > rise.max())

    def shrink(self, stay: np.ndarray) -> int:
        """Keep only some rows, and of the cached rows only their columns; returns how many of these there are."""
        keep = np.flatnonzero(stay)
        place = np.full(len(stay), -1)
        place[keep] = np.arange(len(keep))
        filled = compact(self.buffer, len(stay), self.owners, keep, place)
        owners = self.owners
        self.index, self.gram = self.index[keep], self.gram.restrict(keep)
        for name in ("beta", "g", "lo", "hi", "diagonal", "up", "down"):
            setattr(self, name, np.ascontiguousarray(getattr(self, name)[keep]))
        grown = np.full(max(self._capacity(), filled), -1)
        grown[:filled] = owners[:filled]
        self._lay_out(grown, filled)
        return filled


def solve(dual: Dual, options: Options, hopeless: Callable[[np.ndarray, np.ndarray], bool] | None = None) -> Solution:
    """Solve the dual by sequential minimal optimization.

    hopeless: looks at multipliers and diagonal now and then, and ends the descent where it says so.
    """
    run = _Run(dual, options, hopeless)
    run.descend(options.tol)
    run.refine()
    return run.solution()


class _Run:
    """One descent: the state over all rows and the counters."""

    def __init__(
        self, dual: Dual, options: Options, hopeless: Callable[[np.ndarray, np.ndarray], bool] | None = None
    ) -> None:
        self.dual, self.options, self.hopeless = dual, options, hopeless
        n = len(dual.z)
        self.beta, self.g = np.zeros(n), dual.z.astype(np.float64)
        kind = np.float64 if dual.gram.rows(np.array([0])).numpy().dtype == np.float64 else np.float32
        size = min(max(options.cache_bytes // np.dtype(kind).itemsize, 2 * n), n * n)
        self.buffer = np.empty(size, dtype=kind)
        self.numbers = np.array([np.inf, np.inf])
        self.counts = np.zeros(5, dtype=np.int64)
        self.active = _Active(dual, np.arange(n), self.beta, self.g, self.buffer)
        self.patience = 0  # steps before rows are set aside
        if dual.gram.kind == ASK and n <= _ALL_AT_ONCE and size >= n * n:
            self.active.fill()
            self.counts[4] = n
            self.patience = 20 * n  # the matrix is there, and would have to be computed again later

    @property
    def whole(self) -> bool:
        """Whether no row is set aside."""
        return len(self.active.index) == len(self.dual.z)

    def descend(self, tol: float, limit: int = _NO_LIMIT) -> None:
        """Run until the violation over all rows is within tolerance, or the steps are used up."""
        limit = min(limit, self.options.max_iter if self.options.max_iter >= 0 else _NO_LIMIT)
        while True:
            code = self._steps(tol, limit)
            self._store()
            if code == DONE and not self.whole:
                self._reactivate()
                if self.numbers[0] > max(tol, self._rounding()):
                    continue
            if code in (DONE, STUCK) or self.counts[0] >= limit:
                break
        if not self.whole:
            self._reactivate()

    def _steps(self, tol: float, limit: int) -> int:
        """Steps on the active rows until they are optimal or the limit is reached, setting rows aside on the way."""
        period = min(1000, max(50, len(self.dual.z)))
        while True:
            active = self.active
            self.counts[1] = min(self.counts[0] + period, limit)
            code = NEED_ROW
            while code == NEED_ROW:
                code = smo(
                    active.g,
                    active.up,
                    active.down,
                    active.beta,
                    active.lo,
                    active.hi,
                    active.diagonal,
                    active.gram.kind,
                    *active.sides,
                    active.cache,
                    active.owners,
                    active.slots,
                    active.stamps,
                    self.numbers,
                    self.counts,
                    self.dual.epsilon,
                    tol,
                )
                if code == NEED_ROW:
                    active.fetch(self.counts)
            if code == DONE or self.counts[0] >= limit:
                return int(code)
            if self.numbers[0] <= self._rounding():
                return DONE
            if self.hopeless is not None and self.hopeless(active.beta, active.diagonal):
                return STUCK
            if self.options.shrinking and self.counts[0] > self.patience:
                stay = ~active.idle()
                if 2 <= stay.sum() < _WORTHWHILE * len(stay):
                    self._store()
                    self.counts[4] = active.shrink(stay)

    def _rounding(self) -> float:
        """What rounding alone makes of the violation: slopes are sums of kernel values times multipliers."""
        size = np.sqrt(np.abs(self.active.diagonal))
        return float(_DIGIT * size.max() * (size @ np.abs(self.active.beta)))

    def refine(self) -> None:
        """Where it is cheap, replace the last digits by those of a linear system over the free rows.

        If that leaves a violation, the free rows were not the right ones yet, and a few more steps come first.
        """
        scale = 1e-12 * max(float(np.abs(self.dual.z).max()), 1.0)
        bent = -1e-10 * max(float(np.abs(self.dual.gram.diagonal).max()), 1e-300)
        tol = max(self.options.tol, self._rounding())
        for _ in range(5):
            if self.numbers[0] > tol or self.numbers[1] < bent:  # steps used up, or no convex problem
                return
            dual = self.dual
            better = polish(dual.gram, dual.z, dual.lo, dual.hi, dual.epsilon, self.beta, self.g)
            if better is not None:
                self.beta, self.g = better
                self._restart()
            if self.numbers[0] <= scale or len(self.beta) > _REFINED:
                return
            tol = min(tol, float(self.numbers[0])) / 10
            self.descend(tol, 2 * int(self.counts[0]) + 1000)

    def _store(self) -> None:
        self.beta[self.active.index] = self.active.beta
        self.g[self.active.index] = self.active.g

    def _reactivate(self) -> None:
        """Reconstruct the slopes of the rows set aside, and bring all of them back."""
        aside = np.ones(len(self.beta), dtype=bool)
        aside[self.active.index] = False
        rows, held = np.flatnonzero(aside), np.flatnonzero(self.beta)
        self.g[rows] = self.dual.z[rows] - self.dual.gram.product(rows, held, self.beta[held])
        self.active = _Active(self.dual, np.arange(len(self.beta)), self.beta, self.g, self.buffer)
        self.counts[4] = 0
        self.numbers[0] = violation(self.g, self.active.up, self.active.down)

    def _restart(self) -> None:
        """Let the active rows, which are all rows, go on from changed multipliers."""
        active = self.active
        active.beta, active.g = self.beta.copy(), self.g.copy()
        offsets(active.beta, active.lo, active.hi, self.dual.epsilon, active.up, active.down)
        self.numbers[0] = violation(active.g, active.up, active.down)

    def solution(self) -> Solution:
        """What was found, with the threshold: the mean slope of free rows, or the middle of what bounds it."""
        up, down = np.empty_like(self.g), np.empty_like(self.g)
        offsets(self.beta, self.dual.lo, self.dual.hi, self.dual.epsilon, up, down)
        rise, fall = self.g + up, self.g + down
        free = (self.beta != 0) & np.isfinite(up) & np.isfinite(down)
        intercept = rise[free].mean() if free.any() else (rise.max() + fall.min()) / 2
        left = max(violation(self.g, up, down), 0.0)
        return Solution(
            self.beta,
            self.g,
            float(intercept),
            left,
            int(self.counts[0]),
            float(self.numbers[1]),
            left <= max(self.options.tol * (1 + 1e-9), self._rounding()),
        )
