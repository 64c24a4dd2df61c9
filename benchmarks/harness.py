"""Alternate candidates, so that what slows the machine down slows all of them down alike."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

Quality = Mapping[str, float]
Candidate = Callable[[], Quality | None]


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Timings:
    """Seconds of every candidate, one a round; entries of one round belong together."""

    seconds: dict[str, list[float]]
    quality: dict[str, dict[str, float]] = field(default_factory=dict)

    def median(self, name: str) -> float:
        """Return the median time of one candidate."""
        return float(np.median(self.seconds[name]))

    def ratio(self, top: str, bottom: str) -> Interval:
        """Median over rounds of top / bottom, with a bootstrap interval over rounds.

        >>> Timings({"a": [2.0, 4.0, 6.0], "b": [1.0, 2.0, 3.0]}).ratio("a", "b")
        Interval(value=2.0, low=2.0, high=2.0)
        """
        return median_interval(np.divide(self.seconds[top], self.seconds[bottom]))

    def difference(self, left: str, right: str) -> Interval:
        """Median over rounds of left - right, with a bootstrap interval over rounds."""
        return median_interval(np.subtract(self.seconds[left], self.seconds[right]))


def median_interval(values: np.ndarray, draws: int = 4000, seed: int = 0) -> Interval:
    """Median of a sample and the percentile bootstrap interval of that median.

    >>> median_interval(np.array([3.0, 3.0, 3.0]))
    Interval(value=3.0, low=3.0, high=3.0)
    """
    picks = np.random.default_rng(seed).integers(0, len(values), size=(draws, len(values)))
    low, high = np.percentile(np.median(values[picks], axis=1), [2.5, 97.5])
    return Interval(float(np.median(values)), float(low), float(high))


def alternate(
    candidates: Mapping[str, Candidate],
    repeats: int = 7,
    warmup: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> Timings:
    """Time the candidates in turn, `repeats` rounds, each round starting with the next candidate.

    A candidate may return its quality, which is kept from the last round and never timed against
    anyone. One that measures itself (in a subprocess, say) returns its own "seconds" among it.
    """
    names = list(candidates)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    quality: dict[str, dict[str, float]] = {}
    for index in range(warmup + repeats):
        turn = index % len(names)
        for name in names[turn:] + names[:turn]:
            gc.collect()
            start = clock()
            answer = candidates[name]()
            elapsed = clock() - start
            found = dict(answer or {})
            elapsed = found.pop("seconds", elapsed)
            if index >= warmup:
                seconds[name].append(elapsed)
                quality[name] = found
    return Timings(seconds, quality)


def data_folder(name: str) -> Path:
    """A folder of real data inside the one that the environment variable BENTHIC_DATA names."""
    root = os.environ.get("BENTHIC_DATA")
    if root is None or not (Path(root) / name).is_dir():
        raise SystemExit(f"set BENTHIC_DATA to the folder that holds {name}/; it is {root!r}")
    return Path(root) / name


def python(*arguments: str, timeout: float = 600, **environment: str) -> Any:
    """Run `python *arguments` in a process of its own; its last line of output is the JSON returned."""
    return run_json([sys.executable, *arguments], timeout, **environment)


def run_json(command: list[str], timeout: float = 600, **environment: str) -> Any:
    """Run a command; return the JSON on the last line of its output, or raise with its complaint."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env={**os.environ, **environment})
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} exited with {done.returncode}:\n{done.stderr[-4000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])
