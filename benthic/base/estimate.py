"""A number measured on rows, and how far another set of rows would move it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from benthic.base.errors import InvalidInput


class Estimate(NamedTuple):
    """A measured value and its standard error; the error is NaN when one row leaves it unknown."""

    value: float
    stderr: float

    def __str__(self) -> str:
        return f"{self.value:.4g}" if math.isnan(self.stderr) else f"{self.value:.4g} ± {self.stderr:.2g}"


def mean_of(values: Any) -> Estimate:
    """The mean of one value a row, with the standard error of that mean.

    >>> mean_of([1.0, 3.0])
    Estimate(value=2.0, stderr=1.0)
    """
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 1 or not len(values):
        raise InvalidInput(f"mean_of: values have shape {values.shape}; one number a row is needed")
    return Estimate(float(values.mean()), _stderr(values))


def from_influence(value: float, influence: np.ndarray) -> Estimate:
    """An estimate with the standard error of its influence function (the infinitesimal jackknife).

    influence: (n,) by how much, times n, the value moves when a row gets a little more weight. For a mean
    that is the row minus the mean, and the error is the usual one.
    Efron, 1982, chapter 6.
    """
    return Estimate(float(value), _stderr(influence))


def _stderr(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan


def paired(truth: Any, answer: Any, where: str) -> tuple[np.ndarray, np.ndarray]:
    """Two arrays of the same length, or one clear sentence."""
    first, second = np.asarray(truth), np.asarray(answer)
    if first.ndim == 0 or second.ndim == 0 or len(first) != len(second):
        raise InvalidInput(f"{where}: the truth has shape {first.shape} and the answer {second.shape}; rows must match")
    if not len(first):
        raise InvalidInput(f"{where}: there are no rows to judge")
    return first, second
