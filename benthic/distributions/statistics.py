"""What a sample says: moments, covariances, intervals; and, from its neighbors, tests, bootstraps and Monte Carlo."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput, nearest
from benthic.base.settings import is_whole
from benthic.distributions.hypothesis import TTest as TTest
from benthic.distributions.hypothesis import effect_size as effect_size
from benthic.distributions.hypothesis import paired_t_test as paired_t_test
from benthic.distributions.hypothesis import t_test as t_test
from benthic.distributions.hypothesis import t_test_from_summary as t_test_from_summary
from benthic.distributions.montecarlo import monte_carlo as monte_carlo
from benthic.distributions.resampling import Bootstrap as Bootstrap
from benthic.distributions.resampling import bootstrap as bootstrap
from benthic.distributions.tables import as_float_tensor


@dataclass(frozen=True)
class Moments:
    r"""The first four moments of a sample, kept so that those of two samples add to those of both.

    .. math:: M_r = \sum_i w_i (x_i - \bar x)^r

    count: the number, or total weight, of values. mean: (...). m2, m3, m4: (...) sums of powers of deviations.
    ``a + b`` is exact (Pébay, 2008), so a stream is summed batch by batch.
    """

    count: Tensor
    mean: Tensor
    m2: Tensor
    m3: Tensor
    m4: Tensor

    def variance(self, unbiased: bool = False) -> Tensor:
        """E X² − (E X)²; unbiased divides by count − 1 instead of count."""
        return self.m2 / self._beyond(1) if unbiased else self.m2 / self.count

    def std(self, unbiased: bool = False) -> Tensor:
        """The square root of the variance."""
        return self.variance(unbiased).sqrt()

    def skewness(self, unbiased: bool = False) -> Tensor:
        """The third central moment divided by σ³; NaN for a constant, adjusted (Fisher–Pearson) if unbiased."""
        n = self.count
        value = (self.m3 / n) / self._varied().pow(1.5)
        return value * (n * self._beyond(1)).sqrt() / self._beyond(2) if unbiased else value

    def kurtosis(self, unbiased: bool = False) -> Tensor:
        """The fourth central moment divided by σ⁴, minus 3, so that a normal law has 0; NaN for a constant."""
        n = self.count
        value = (self.m4 / n) / self._varied().square() - 3
        if not unbiased:
            return value
        return self._beyond(1) / (self._beyond(2) * self._beyond(3)) * ((n + 1) * value + 6)

    def __add__(self, other: Moments) -> Moments:
        a, b = self.count, other.count
        n = a + b
        gap = other.mean - self.mean
        share = torch.where(n > 0, a * b / torch.where(n > 0, n, 1.0), 0.0)
        left, right = (torch.where(n > 0, part / torch.where(n > 0, n, 1.0), 0.0) for part in (a, b))
        m2 = self.m2 + other.m2 + gap.square() * share
        m3 = self.m3 + other.m3 + gap.pow(3) * share * (left - right) + 3 * gap * (left * other.m2 - right * self.m2)
        m4 = self.m4 + other.m4 + gap.pow(4) * share * (left.square() - left * right + right.square())
        m4 = m4 + 6 * gap.square() * (left.square() * other.m2 + right.square() * self.m2)
        m4 = m4 + 4 * gap * (left * other.m3 - right * self.m3)
        return Moments(n, self.mean + gap * right, m2, m3, m4)

    def _beyond(self, used: int) -> Tensor:
        """The count less what was used up; NaN, not a division by zero, where nothing is left."""
        left = self.count - used
        return torch.where(left > 0, left, math.nan)

    def _varied(self) -> Tensor:
        """The variance, NaN where it cannot be told from the rounding of a constant."""
        variance, eps = self.variance(), torch.finfo(self.mean.dtype).eps
        return torch.where(variance > (eps * self.mean).square(), variance, math.nan)


def moments(x: Any, dim: int | tuple[int, ...] = 0, weights: Any = None) -> Moments:
    """Mean, variance, skewness and kurtosis of a sample, along one dimension or several.

    x: (n, ...) values. dim: what to sum over. weights: how often each value counts, shaped to broadcast with x,
    or (n,) along a single ``dim``. Returns ``Moments`` whose tensors have the remaining shape.

    >>> m = moments([1.0, 2.0, 3.0, 10.0])
    >>> m.mean, m.variance(), m.skewness()
    (tensor(4., dtype=torch.float64), tensor(12.5000, dtype=torch.float64), tensor(1.0182, dtype=torch.float64))
    """
    x = _sample(x, "moments")
    dims = (dim,) if is_whole(dim) else tuple(dim)
    if any(not -x.ndim <= d < x.ndim for d in dims) or any(not x.shape[d] for d in dims):
        raise InvalidInput(
            f"moments: x has shape {tuple(x.shape)} and dim is {dim}; at least one value is needed there"
        )
    if weights is None:
        w = torch.ones((), dtype=x.dtype, device=x.device)
    else:
        w = _weights(weights, x, "moments", x.shape[dims[0]] if len(dims) == 1 else None)
        if w.ndim == 1 and len(dims) == 1:
            w = w.reshape([-1 if d == dims[0] % x.ndim else 1 for d in range(x.ndim)])
    w = w.expand_as(x)
    count = w.sum(dims)
    mean = (w * x).sum(dims, keepdim=True) / w.sum(dims, keepdim=True)
    gap = x - mean
    mean = mean + (w * gap).sum(dims, keepdim=True) / w.sum(dims, keepdim=True)  # what rounding left over
    gap = x - mean
    sums = [(w * gap.pow(power)).sum(dims) for power in (2, 3, 4)]
    return Moments(count, mean.reshape(count.shape), *sums)


def covariance(X: Any, Y: Any = None, *, weights: Any = None, ddof: int = 1) -> Tensor:
    r"""The covariance matrix of the columns of X, or of those of X with those of Y.

    .. math:: C = \frac{1}{n - \mathrm{ddof}} \sum_i w_i (x_i - \bar x)(y_i - \bar y)^T, \quad n = \sum_i w_i

    X: (..., n, d) rows. Y: (..., n, e), None for X itself. weights: (n,), how often each row counts, so that a
    weight of 2 is a row given twice. ddof: 1 for the unbiased estimate, 0 for maximum likelihood.
    Returns (..., d, e).

    >>> covariance([[0.0, 0.0], [2.0, 4.0]])
    tensor([[2., 4.],
            [4., 8.]], dtype=torch.float64)
    """
    X = _rows(X, "covariance")
    Y = X if Y is None else _rows(Y, "covariance")
    if X.shape[-2] != Y.shape[-2]:
        raise InvalidInput(f"covariance: X has {X.shape[-2]} rows and Y has {Y.shape[-2]}; they must come in pairs")
    w = torch.ones(X.shape[-2], dtype=X.dtype, device=X.device)
    if weights is not None:
        w = _weights(weights, X, "covariance", X.shape[-2])
    free = float(w.sum()) - ddof
    if not free > 0:
        raise InvalidInput(f"covariance: {float(w.sum()):g} rows leave {free:g} degrees of freedom with ddof={ddof}")
    centered = [side - (w[:, None] * side).sum(-2, keepdim=True) / w.sum() for side in (X, Y)]
    return (w[:, None] * centered[0]).mT @ centered[1] / free


def correlation(X: Any, *, weights: Any = None) -> Tensor:
    r"""Pearson's correlation matrix of the columns of X.

    .. math:: \rho_{ij} = C_{ij} / \sqrt{C_{ii} C_{jj}}

    A column that does not vary has no correlation: its row and column are NaN, and a warning names it.

    X: (..., n, d) rows. weights: (n,), how often each row counts. Returns (..., d, d), exactly 1 on the diagonal.

    >>> correlation([[0.0, 1.0], [1.0, -1.0], [2.0, -3.0]])
    tensor([[ 1., -1.],
            [-1.,  1.]], dtype=torch.float64)
    """
    X = _rows(X, "correlation")
    C = covariance(X, weights=weights, ddof=0)
    variance = C.diagonal(dim1=-2, dim2=-1)
    size = X.detach().abs().amax(-2)
    constant = variance <= (4 * torch.finfo(X.dtype).eps * size).square()
    if bool(constant.any()):
        columns = torch.unique(constant.nonzero()[:, -1]).tolist()
        warnings.warn(f"correlation: column {columns} does not vary; its correlations are NaN", stacklevel=2)
    deviation = torch.where(constant, math.nan, torch.where(constant, 1.0, variance).sqrt())
    found = (C / deviation[..., :, None] / deviation[..., None, :]).clamp(-1, 1)
    ones = torch.where(constant, math.nan, 1.0).to(X.dtype)
    diagonal = torch.eye(C.shape[-1], dtype=torch.bool, device=C.device)
    return torch.where(diagonal, ones[..., None, :], found)


@dataclass(frozen=True)
class Interval:
    """An estimate with the interval that covers the truth as often as ``level`` says.

    >>> print(Interval(torch.tensor(2.0), torch.tensor(1.5), torch.tensor(2.5), 0.95))
    2, 95 % interval [1.5, 2.5]
    """

    value: Tensor
    low: Tensor
    high: Tensor
    level: float

    def __str__(self) -> str:
        if self.value.ndim:
            return f"{self.value.numel()} values with {100 * self.level:g} % intervals"
        value, low, high = (float(part) for part in (self.value, self.low, self.high))
        return f"{value:.4g}, {100 * self.level:g} % interval [{low:.4g}, {high:.4g}]"


def mean_interval(
    x: Any, level: float = 0.95, *, method: str = "t", sigma: float | None = None, dim: int = 0
) -> Interval:
    r"""A confidence interval for a mean.

    .. math:: \bar x \pm t_{n-1, (1 + \text{level})/2} \, s / \sqrt{n}

    Student, 1908. It is exact for normal data, and nearly so for large n by the central limit theorem.

    x: (n, ...) values. level: how often the interval covers the mean. method: ``t``, or ``z`` for the normal
    quantile in place of Student's. sigma: the standard deviation where it is known (``z`` only). dim: along which.
    Returns an ``Interval`` of tensors.

    >>> print(mean_interval([4.0, 5.0, 6.0, 7.0]))
    5.5, 95 % interval [3.446, 7.554]
    """
    from scipy import special

    x = _sample(x, "mean_interval")
    if method not in ("t", "z"):
        raise InvalidInput(f"mean_interval: method is {method!r}; use 't' or 'z'{nearest(str(method), ['t', 'z'])}")
    if not 0 < level < 1:
        raise InvalidInput(f"mean_interval: level is {level}; it must lie between 0 and 1, such as 0.95")
    if sigma is not None and (method != "z" or not sigma > 0):
        raise InvalidInput("mean_interval: a known sigma must be positive, and goes with method='z'")
    n = x.shape[dim]
    if n < 2 and sigma is None:
        raise InvalidInput(f"mean_interval: {n} value leaves {n - 1} degrees of freedom; at least 2 values are needed")
    half = (1 + level) / 2
    quantile = special.stdtrit(n - 1, half) if method == "t" else special.ndtri(half)
    spread = x.std(dim) if sigma is None else torch.full_like(x.mean(dim), sigma)
    mean, reach = x.mean(dim), float(quantile) * spread / math.sqrt(n)
    return Interval(mean, mean - reach, mean + reach, level)


def _sample(x: Any, where: str) -> Tensor:
    x = as_float_tensor(x)
    if x.ndim == 0 or not x.numel():
        raise InvalidInput(f"{where}: the sample is empty or a single number; give at least one value, (n,) or (n, d)")
    if not bool(torch.isfinite(x).all()):
        raise InvalidInput(f"{where}: the sample has NaN or infinite values; drop or impute them first")
    return x


def _rows(X: Any, where: str) -> Tensor:
    X = _sample(X, where)
    if X.ndim < 2:
        raise InvalidInput(f"{where}: X has shape {tuple(X.shape)}; rows of several columns, (n, d), are needed")
    return X


def _weights(weights: Any, x: Tensor, where: str, n: int | None) -> Tensor:
    w = as_float_tensor(weights).to(dtype=x.dtype, device=x.device)
    if n is not None and w.ndim == 1 and len(w) != n:
        raise InvalidInput(f"{where}: there are {len(w)} weights for {n} values; one each is needed")
    if not bool(torch.isfinite(w).all()) or bool((w < 0).any()) or not float(w.sum()) > 0:
        raise InvalidInput(f"{where}: weights must be finite, not negative, and not all zero")
    return w
