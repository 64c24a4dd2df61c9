"""How good predicted numbers are; targets of several columns are averaged over them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.estimate import Estimate
from benthic.metrics.rows import device_of, estimate, numbers, of_means, same_rows, weighted_mean, weights_of


def mse(y: Any, predicted: Any, sample_weight: Any = None) -> Estimate:
    """Mean squared error.

    y, predicted: (n,) or (n, k). sample_weight: (n,) or None.

    >>> mse([0.0, 0.0], [3.0, 4.0]).value
    12.5
    """
    truth, answer, weights = _columns(y, predicted, sample_weight, "mse")
    return weighted_mean(((truth - answer) ** 2).mean(1), weights)


def rmse(y: Any, predicted: Any, sample_weight: Any = None) -> Estimate:
    """Root of the mean squared error, in the units of ``y``; columns have a root each.

    >>> rmse([0.0, 0.0], [3.0, 4.0]).value ** 2
    12.5
    """
    truth, answer, weights = _columns(y, predicted, sample_weight, "rmse")
    squares = (truth - answer) ** 2
    means = _mean(squares, weights)  # (k,)
    slope = torch.where(means > 0, 0.5 / torch.where(means > 0, means, 1.0).sqrt(), 0.0)
    return estimate(means.sqrt().mean(), ((squares - means) * slope).mean(1), weights)


def mae(y: Any, predicted: Any, sample_weight: Any = None) -> Estimate:
    """Mean absolute error, in the units of ``y``.

    >>> mae([0.0, 0.0], [3.0, -1.0]).value
    2.0
    """
    truth, answer, weights = _columns(y, predicted, sample_weight, "mae")
    return weighted_mean((truth - answer).abs().mean(1), weights)


def mape(y: Any, predicted: Any, sample_weight: Any = None) -> Estimate:
    """Mean absolute error as a share of the size of the truth, which must not be zero.

    >>> mape([1.0, 2.0], [1.5, 2.0]).value
    0.25
    """
    truth, answer, weights = _columns(y, predicted, sample_weight, "mape")
    if bool((truth == 0).any()):
        raise InvalidInput("mape: y has zeros, of which no error is a share; use mae")
    return weighted_mean(((truth - answer) / truth).abs().mean(1), weights)


def max_error(y: Any, predicted: Any) -> float:
    """The largest absolute error; no error bar, since one row decides it.

    >>> max_error([1.0, 2.0], [1.5, 2.0])
    0.5
    """
    truth, answer, _ = _columns(y, predicted, None, "max_error")
    return float((truth - answer).abs().max())


def r2(y: Any, predicted: Any, sample_weight: Any = None) -> Estimate:
    r"""Coefficient of determination: the share of the variance that is explained.

    .. math:: 1 - \frac{\sum_i (y_i - \hat y_i)^2}{\sum_i (y_i - \bar y)^2}

    >>> r2([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]).value
    1.0
    """
    truth, answer, weights = _columns(y, predicted, sample_weight, "r2")
    return _explained((truth - answer) ** 2, truth, weights, "r2")


def explained_variance(y: Any, predicted: Any, sample_weight: Any = None) -> Estimate:
    r"""As ``r2``, but a constant error is forgiven.

    .. math:: 1 - \frac{\operatorname{Var}(y - \hat y)}{\operatorname{Var}(y)}

    >>> explained_variance([1.0, 2.0, 3.0], [2.0, 3.0, 4.0]).value
    1.0
    """
    truth, answer, weights = _columns(y, predicted, sample_weight, "explained_variance")
    errors = truth - answer
    # moving the mean of the errors changes their variance to second order only, so its influence is nil
    return _explained((errors - _mean(errors, weights)) ** 2, truth, weights, "explained_variance")


def pinball_loss(y: Any, predicted: Any, alpha: float = 0.5, sample_weight: Any = None) -> Estimate:
    r"""Loss whose best constant answer is the quantile of level ``alpha`` (Koenker & Bassett, 1978).

    .. math:: \frac1n \sum_i \max\bigl(\alpha (y_i - q_i),\, (\alpha - 1)(y_i - q_i)\bigr)

    >>> pinball_loss([1.0, 2.0], [0.0, 3.0], alpha=0.9).value
    0.5
    """
    if not 0 <= alpha <= 1:
        raise InvalidInput(f"pinball_loss: alpha is {alpha}; the level of a quantile lies between 0 and 1")
    truth, answer, weights = _columns(y, predicted, sample_weight, "pinball_loss")
    off = truth - answer
    return weighted_mean(torch.maximum(alpha * off, (alpha - 1) * off).mean(1), weights)


def tweedie_deviance(y: Any, predicted: Any, power: float = 0.0, sample_weight: Any = None) -> Estimate:
    r"""Mean deviance of the law whose variance is a power of its mean (Jørgensen, 1987).

    .. math:: 2 \Bigl(\frac{y^{2-p}}{(1-p)(2-p)} - \frac{y \mu^{1-p}}{1-p} + \frac{\mu^{2-p}}{2-p}\Bigr)

    power: 0 is Gaussian (squared error), 1 Poisson, 2 gamma, 3 inverse Gaussian, between 1 and 2 compound Poisson
    with a mass at zero; no law has a power between 0 and 1. y: (n,) zero or more for 1 <= p < 2, positive from 2
    on. predicted: (n,) means, positive unless the power is 0.

    >>> round(tweedie_deviance([2.0, 0.0, 1.0], [1.0, 0.5, 1.0], power=1).value, 4)
    0.5909
    """
    where = "tweedie_deviance"
    truth, mean, weights = _columns(y, predicted, sample_weight, where)
    _check_tweedie(truth, mean, power, where)
    return weighted_mean(_tweedie(truth, mean, float(power)).mean(1), weights)


def poisson_deviance(y: Any, predicted: Any, sample_weight: Any = None) -> Estimate:
    """Mean deviance of counts with the given means: ``tweedie_deviance`` of power 1.

    >>> poisson_deviance([1.0, 2.0], [1.0, 2.0]).value
    0.0
    """
    return tweedie_deviance(y, predicted, 1.0, sample_weight)


def gamma_deviance(y: Any, predicted: Any, sample_weight: Any = None) -> Estimate:
    """Mean deviance of positive numbers whose error grows with their size: ``tweedie_deviance`` of power 2.

    >>> gamma_deviance([1.0, 2.0], [1.0, 2.0]).value
    0.0
    """
    return tweedie_deviance(y, predicted, 2.0, sample_weight)


def deviance_explained(y: Any, predicted: Any, power: float = 0.0, sample_weight: Any = None) -> Estimate:
    r"""The share of the deviance that is explained beyond the mean of ``y``; ``r2`` for power 0.

    .. math:: 1 - \frac{\sum_i d(y_i, \mu_i)}{\sum_i d(y_i, \bar y)}

    >>> round(deviance_explained([1.0, 2.0, 6.0], [1.0, 2.0, 5.0], power=1).value, 4)
    0.9582
    """
    where = "deviance_explained"
    truth, mean, weights = _columns(y, predicted, sample_weight, where)
    _check_tweedie(truth, mean, power, where)
    middle = _mean(truth, weights)
    if bool((truth == truth[0]).all()) or (power != 0 and not bool((middle > 0).all())):
        raise InvalidInput(f"{where}: all true values are equal, so there is no deviance to explain")
    rows = torch.cat([_tweedie(truth, mean, power), _tweedie(truth, middle.expand_as(truth), power)], 1)
    k = truth.shape[1]
    # the mean of y is where the second deviance is least, so that moving it counts for nothing to first order
    return of_means(lambda means: (1 - means[:k] / means[k:]).mean(), rows, weights)


def _tweedie(truth: Tensor, mean: Tensor, power: float) -> Tensor:
    if power == 0:
        return (truth - mean) ** 2
    if power == 1:
        return 2 * (torch.xlogy(truth, truth / mean) - truth + mean)
    if power == 2:
        return 2 * ((mean / truth).log() + truth / mean - 1)
    first = truth.clamp(min=0) ** (2 - power) / ((1 - power) * (2 - power))
    return 2 * (first - truth * mean ** (1 - power) / (1 - power) + mean ** (2 - power) / (2 - power))


def _check_tweedie(truth: Tensor, mean: Tensor, power: float, where: str) -> None:
    if 0 < power < 1 or power != power:
        raise InvalidInput(f"{where}: power is {power}; no law has a power between 0 and 1")
    if power != 0 and not bool((mean > 0).all()):
        raise InvalidInput(
            f"{where}: predicted must be positive for power {power:g}, but {float(mean.min()):.4g} occurs"
        )
    if 1 <= power < 2 and bool((truth < 0).any()):
        raise InvalidInput(f"{where}: y must be zero or more for power {power:g}, but {float(truth.min()):.4g} occurs")
    if power >= 2 and not bool((truth > 0).all()):
        raise InvalidInput(f"{where}: y must be positive for power {power:g}, but {float(truth.min()):.4g} occurs")


def _explained(squares: Tensor, truth: Tensor, weights: Tensor, where: str) -> Estimate:
    """One minus the ratio of mean squares to the variance, averaged over columns; squares: (n, k)."""
    spread = (truth - _mean(truth, weights)) ** 2
    variance = _mean(spread, weights)
    counted = truth[weights > 0]
    if not bool((variance > 0).all()) or bool((counted == counted[0]).all(0).any()):
        raise InvalidInput(f"{where}: all true values are equal, so there is no variance to explain; use rmse")
    left = _mean(squares, weights) / variance  # share that is not explained, a column
    deviations = (left * spread - squares) / variance  # (n, k)
    return estimate(1 - left.mean(), deviations.mean(1), weights)


def _mean(values: Tensor, weights: Tensor) -> Tensor:
    return (weights[:, None] * values).sum(0) / weights.sum()


def _columns(y: Any, predicted: Any, sample_weight: Any, where: str) -> tuple[Tensor, Tensor, Tensor]:
    """Truth and answer as (n, k) of the same shape, and weights."""
    n = same_rows(where, y=y, predicted=predicted)
    device = device_of(y, predicted)
    truth, answer = numbers(y, where, "y", device), numbers(predicted, where, "predicted", device)
    truth, answer = truth.reshape(n, -1), answer.reshape(n, -1)
    if truth.shape != answer.shape:
        raise InvalidInput(f"{where}: the truth has {truth.shape[1]} columns and the answer {answer.shape[1]}")
    return truth, answer, weights_of(sample_weight, n, where, device)
