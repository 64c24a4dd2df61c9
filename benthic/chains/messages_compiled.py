"""Potentials of chains prepared for the compiled messages; arrays are NumPy's, in float64, all steps in one row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from benthic.chains import messages_loops as loops


@dataclass(frozen=True)
class Steps:
    """Potentials of steps: exp(logs - peak), and the logarithms themselves when they are asked for.

    likely: (.., k) and peak: (..,), of which each step has one of the ``rows`` (total,). logs: log-potentials of
    steps ``start:stop``.
    """

    likely: np.ndarray
    peak: np.ndarray
    rows: np.ndarray
    logs: Callable[[int, int], np.ndarray]

    @classmethod
    def of(cls, unary: np.ndarray) -> Steps:
        """From log-potentials (total, k)."""
        peak, likely = np.empty(len(unary)), np.empty(unary.shape)
        loops.below_peaks(unary, peak, likely)
        torch.from_numpy(likely).exp_()
        return cls(likely, peak, np.arange(len(unary)), lambda start, stop: unary[start:stop])


@dataclass(frozen=True)
class Moves:
    """Potentials of the first state and of moves.

    first: (k,) and pair: (1 or total, k, k), logarithms; start, weight: their exponentials, the largest being 1;
    shifts: their logarithms, () and (1 or total,). safe: whether no weight is nearly zero.
    """

    first: np.ndarray
    pair: np.ndarray
    start: np.ndarray
    weight: np.ndarray
    shifts: tuple[float, np.ndarray]
    safe: bool

    @classmethod
    def of(cls, first: np.ndarray, pair: np.ndarray) -> Moves:
        """From log-potentials; one row of ``pair`` serves all steps."""
        top = float(first.max())
        top = top if np.isfinite(top) else 0.0
        peaks = pair.max((1, 2))
        peaks = np.where(np.isfinite(peaks), peaks, 0.0)
        weight = np.exp(pair - peaks[:, None, None])
        safe = bool(weight.min() >= loops.TINY)
        return cls(first, pair, np.exp(first - top), weight, (top, peaks), safe)

    def factors(self, steps: Steps, offsets: np.ndarray) -> np.ndarray:
        """Logarithm of what was divided out of each sequence, (n,)."""
        top, peaks = self.shifts
        found: np.ndarray = np.add.reduceat(steps.peak[steps.rows], offsets[:-1]) + top
        if len(peaks) == 1:
            found += (np.diff(offsets) - 1) * peaks[0]
        else:
            found += np.add.reduceat(peaks, offsets[:-1]) - peaks[offsets[:-1]]
        return found

    def partition(self, steps: Steps, offsets: np.ndarray) -> np.ndarray:
        """Log-normalizer of each sequence, (n,)."""
        n = len(offsets) - 1
        log_z = np.empty(n)
        loops.partition(self.start, self.weight, self.safe, steps.likely, steps.rows, offsets, 0, n, log_z)
        again = np.isnan(log_z)
        log_z += self.factors(steps, offsets)
        for i in np.flatnonzero(again):
            s, e = int(offsets[i]), int(offsets[i + 1])
            last = loops.forward_logs(self.first, self.pair, steps.logs(s, e), s, 0, e - s)[-1]
            log_z[i] = np.logaddexp.reduce(last)
        return log_z

    def marginals(
        self, steps: Steps, offsets: np.ndarray, apart: bool = False, single: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Log-normalizers (n,), marginals of steps (total, k) and of moves: summed (k, k), or apart (total, k, k).

        single: memory for the marginals of steps.
        """
        n, total, k = len(offsets) - 1, len(steps.rows), steps.likely.shape[1]
        log_z = np.empty(n)
        single = np.empty((total, k)) if single is None else single
        double = np.zeros((max(total, 2) if apart else 1, k, k))
        loops.forward_backward(
            self.start, self.weight, self.safe, steps.likely, steps.rows, offsets, 0, n, single, double, log_z
        )
        again = np.isnan(log_z)
        log_z += self.factors(steps, offsets)
        for i in np.flatnonzero(again):
            s, e = int(offsets[i]), int(offsets[i + 1])
            unary = np.ascontiguousarray(steps.logs(s, e))
            row = -1 if apart else 0
            log_z[i] = loops.forward_backward_logs(self.first, self.pair, unary, s, e, single, double, row)
        return log_z, single, double[:total] if apart else double[0]

    def best_paths(self, unary: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The path of largest potential, (total,), and that potential of each sequence, (n,)."""
        n = len(offsets) - 1
        path, score = np.empty(len(unary), dtype=np.int64), np.empty(n)
        loops.best_paths(self.first, self.pair, unary, offsets, 0, n, path, score)
        return path, score

    def drawn_paths(self, unary: np.ndarray, offsets: np.ndarray, level: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A path drawn by its probability, (total,), with uniform numbers (total,), and log-normalizers (n,)."""
        n = len(offsets) - 1
        path, log_z = np.empty(len(unary), dtype=np.int64), np.empty(n)
        loops.drawn_paths(self.first, self.pair, unary, offsets, 0, n, level, path, log_z)
        return path, log_z
