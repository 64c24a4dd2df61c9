"""Models whose faults are known, to see whether a comparison finds them out."""

from __future__ import annotations

import time
from typing import Any, Self

import numpy as np

from benthic.data.toys import Toy


class Known:
    """A toy law as a model: it learns nothing, samples from the law and knows its density."""

    def __init__(self, toy: Toy) -> None:
        self.toy = toy

    def fit(self, X: Any, y: Any = None) -> Self:
        return self

    def sample(self, n: int, *, seed: int = 0) -> np.ndarray:
        return self.toy.sample(n, seed=seed)

    def log_prob(self, X: Any) -> np.ndarray:
        return np.asarray(self.toy.log_prob(X))


class Collapsed:
    """Like a generator that found one mode: rows near a single training row, slightly blurred."""

    def __init__(self, modes: int = 1, blur: float = 0.02) -> None:
        self.modes, self.blur = modes, blur

    def fit(self, X: Any, y: Any = None) -> Self:
        rows = np.asarray(X)
        self.centers_ = rows[: self.modes]
        self.scale_ = self.blur * rows.std()
        return self

    def sample(self, n: int, *, seed: int = 0) -> np.ndarray:
        source = np.random.default_rng(seed)
        chosen = self.centers_[source.integers(0, len(self.centers_), n)]
        return chosen + self.scale_ * source.normal(size=chosen.shape)


class Modes:
    """Held to the rows of one side of the data: what it makes looks real, and half of it is missing."""

    def fit(self, X: Any, y: Any = None) -> Self:
        rows = np.asarray(X)
        order = np.argsort(rows[:, 0])
        self.rows_ = rows[order[: len(rows) // 5]]
        self.scale_ = 0.15 * rows.std(0)
        return self

    def sample(self, n: int, *, seed: int = 0) -> np.ndarray:
        source = np.random.default_rng(seed)
        chosen = self.rows_[source.integers(0, len(self.rows_), n)]
        return chosen + self.scale_ * source.normal(size=chosen.shape)


class NotFinite:
    """Some of its samples are NaN."""

    def fit(self, X: Any, y: Any = None) -> Self:
        self.shape_ = np.asarray(X).shape[1:]
        return self

    def sample(self, n: int, *, seed: int = 0) -> np.ndarray:
        made = np.zeros((n, *self.shape_))
        made[::4] = np.nan
        return made


class Failing:
    """It cannot be fitted with one seed, or with any."""

    def __init__(self, only: int | None = None, random_state: int | None = None) -> None:
        self.only, self.random_state = only, random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        if self.only in (None, self.random_state):
            raise RuntimeError("no luck today\nsecond line")
        self.rows_ = np.asarray(X)
        return self

    def sample(self, n: int, *, seed: int = 0) -> np.ndarray:
        source = np.random.default_rng(seed)
        return source.normal(self.rows_.mean(0), self.rows_.std(0), (n, self.rows_.shape[1]))


class Slow:
    """It takes its time, in Python where it can be interrupted, or deep down where only its process can be ended."""

    def __init__(self, seconds: float = 60.0, deep: bool = False) -> None:
        self.seconds, self.deep = seconds, deep

    def fit(self, X: Any, y: Any = None) -> Self:
        end = time.monotonic() + self.seconds
        while time.monotonic() < end:
            try:
                time.sleep(0.01)
            except BaseException:
                if not self.deep:
                    raise
        self.width_ = np.asarray(X).shape[1]
        return self

    def sample(self, n: int, *, seed: int = 0) -> np.ndarray:
        return np.random.default_rng(seed).normal(size=(n, self.width_))


class Dying:
    """Its process ends in the middle of the fit."""

    def fit(self, X: Any, y: Any = None) -> Self:
        import os

        os._exit(3)

    def sample(self, n: int, *, seed: int = 0) -> np.ndarray:
        raise AssertionError("never fitted")
