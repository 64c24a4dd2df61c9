"""How good predicted numbers are; targets of several columns are averaged over them."""

from __future__ import annotations

from typing import Any

import numpy as np

from benthic.base.errors import InvalidInput
from benthic.base.estimate import Estimate, from_influence, mean_of, paired


def r2(y: Any, predicted: Any) -> Estimate:
    r"""Coefficient of determination: the share of the variance that is explained.

    .. math:: 1 - \frac{\sum_i (y_i - \hat y_i)^2}{\sum_i (y_i - \bar y)^2}

    >>> r2([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]).value
    1.0
    """
    truth, answer = _columns(y, predicted, "r2")
    squares, spread = (truth - answer) ** 2, (truth - truth.mean(0)) ** 2
    variance = spread.mean(0)
    if not (variance > 0).all():
        raise InvalidInput("r2: all true values are equal, so there is no variance to explain; use rmse")
    left = squares.mean(0) / variance  # share that is not explained, a column
    influence = (left * spread - squares) / variance  # (n, k)
    return from_influence(float(1 - left.mean()), influence.mean(1))


def rmse(y: Any, predicted: Any) -> Estimate:
    """Root of the mean squared error, in the units of ``y``.

    >>> rmse([0.0, 0.0], [3.0, 4.0]).value ** 2
    12.5
    """
    truth, answer = _columns(y, predicted, "rmse")
    squares = (truth - answer) ** 2
    roots = np.sqrt(squares.mean(0))  # (k,)
    slope = np.divide(0.5, roots, out=np.zeros_like(roots), where=roots > 0)
    influence = (squares - roots**2) * slope
    return from_influence(float(roots.mean()), influence.mean(1))


def mae(y: Any, predicted: Any) -> Estimate:
    """Mean absolute error, in the units of ``y``.

    >>> mae([0.0, 0.0], [3.0, -1.0]).value
    2.0
    """
    truth, answer = _columns(y, predicted, "mae")
    return mean_of(np.abs(truth - answer).mean(1))


def _columns(y: Any, predicted: Any, where: str) -> tuple[np.ndarray, np.ndarray]:
    """Truth and answer as (n, k) of the same shape."""
    truth, answer = paired(y, predicted, where)
    truth, answer = truth.astype(np.float64), answer.astype(np.float64)
    truth, answer = truth.reshape(len(truth), -1), answer.reshape(len(answer), -1)
    if truth.shape != answer.shape:
        raise InvalidInput(f"{where}: the truth has {truth.shape[1]} columns and the answer {answer.shape[1]}")
    return truth, answer
