"""The bootstrap: intervals for any statistic of one sample, of several, or of pairs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput, nearest
from benthic.base.seeds import generator, seed_of
from benthic.distributions.tables import as_float_tensor

METHODS = ("percentile", "basic", "bca")
_BLOCK, _GROUPS = 1 << 22, 2000

Statistic = Callable[..., Tensor]


@dataclass(frozen=True)
class Bootstrap:
    """What resampling found.

    value: the statistic of the data. low, high: the interval. stderr: the standard deviation of the statistic
    over the resamples. distribution: (n_resamples, ...) its values. level, method: as asked for.
    """

    value: Tensor
    low: Tensor
    high: Tensor
    stderr: Tensor
    level: float
    method: str
    distribution: Tensor

    def __str__(self) -> str:
        if self.value.ndim:
            return f"{self.value.numel()} values with {100 * self.level:g} % intervals ({self.method})"
        value, low, high, stderr = (float(part) for part in (self.value, self.low, self.high, self.stderr))
        return f"{value:.4g} ± {stderr:.2g}, {100 * self.level:g} % interval [{low:.4g}, {high:.4g}] ({self.method})"


def bootstrap(
    data: Any,
    statistic: Statistic,
    *,
    method: str = "percentile",
    level: float = 0.95,
    n_resamples: int = 9999,
    paired: bool = False,
    vectorized: bool = True,
    seed: int | None = None,
) -> Bootstrap:
    """An interval for a statistic, from its values on samples drawn with replacement from the data.

    Efron, 1979; ``bca`` corrects the percentiles for bias and skewness (Efron, 1987), with the jackknife's
    acceleration, over groups of rows beyond 2000 of them.

    data: (n, ...) values, or a tuple of such samples, which are resampled on their own, or together if ``paired``.
    statistic: a function of one sample, or of as many as there are, to a tensor; it is written for plain tensors
    (n, ...), and applied to many resamples at once by ``torch.vmap`` unless ``vectorized`` is False.
    method: ``percentile``, ``basic`` or ``bca``. n_resamples: how many. Returns a ``Bootstrap``.

    >>> heights = [1.62, 1.71, 1.68, 1.75, 1.80, 1.66, 1.73]
    >>> found = bootstrap(heights, torch.mean, seed=0)
    >>> f"{found.value:.3f} ± {found.stderr:.2f}", bool(found.low < found.value < found.high)
    ('1.707 ± 0.02', True)
    """
    samples = _samples(data, paired)
    if method not in METHODS:
        raise InvalidInput(f"bootstrap: method is {method!r}; use one of {METHODS}{nearest(str(method), METHODS)}")
    if not 0 < level < 1 or n_resamples < 2:
        raise InvalidInput(
            f"bootstrap: level is {level} and n_resamples {n_resamples}; a share and at least 2 are needed"
        )
    value = statistic(*samples)
    if not isinstance(value, Tensor):
        raise InvalidInput(f"bootstrap: the statistic returns a {type(value).__name__}; it must return a tensor")
    drawn = _distribution(samples, statistic, n_resamples, paired, vectorized, seed_of(seed))
    tails = torch.tensor([(1 - level) / 2, (1 + level) / 2], dtype=drawn.dtype, device=drawn.device)
    tails = tails.reshape(2, *[1] * value.ndim).expand(2, *value.shape)
    if method == "bca":
        tails = _corrected(tails, value, drawn, _acceleration(samples, statistic, paired, vectorized))
    low, high = _quantiles(drawn, tails)
    if method == "basic":
        low, high = 2 * value - high, 2 * value - low
    return Bootstrap(value, low, high, drawn.std(0), level, method, drawn)


def _samples(data: Any, paired: bool) -> list[Tensor]:
    samples = [as_float_tensor(part) for part in (data if isinstance(data, tuple) else (data,))]
    for sample in samples:
        if sample.ndim == 0 or len(sample) < 2:
            raise InvalidInput(
                f"bootstrap: a sample has shape {tuple(sample.shape)}; at least 2 rows are needed to resample"
            )
    if paired and len({len(sample) for sample in samples}) > 1:
        raise InvalidInput(f"bootstrap: paired samples have {[len(s) for s in samples]} rows; they must be as many")
    return samples


def _distribution(
    samples: list[Tensor], statistic: Statistic, n_resamples: int, paired: bool, vectorized: bool, seed: int
) -> Tensor:
    device = samples[0].device
    source, values = generator(seed, "bootstrap", device=device), []
    rows = max(1, _BLOCK // sum(sample.numel() for sample in samples))
    for start in range(0, n_resamples, rows):
        shape = (min(rows, n_resamples - start),)
        picks: list[Tensor] = []
        for sample in samples:
            again = paired and picks
            size = (*shape, len(sample))
            picks.append(picks[0] if again else torch.randint(len(sample), size, generator=source, device=device))
        chosen = [sample[pick] for sample, pick in zip(samples, picks, strict=True)]  # (B, n, ...)
        values.append(_apply(statistic, chosen, vectorized))
    return torch.cat(values)


def _apply(statistic: Statistic, chosen: list[Tensor], vectorized: bool) -> Tensor:
    """The statistic of each of B resamples (B, n, ...)."""
    if not vectorized:
        return torch.stack([statistic(*rows) for rows in zip(*chosen, strict=True)])
    try:
        return torch.vmap(statistic)(*chosen)
    except RuntimeError as error:
        raise InvalidInput(
            f"bootstrap: torch.vmap cannot run the statistic on many resamples at once ({str(error).splitlines()[0]}); "
            "pass vectorized=False"
        ) from error


def _acceleration(samples: list[Tensor], statistic: Statistic, paired: bool, vectorized: bool) -> Tensor:
    """The skewness of the jackknife's influences over all samples, divided by 6 (Efron, 1987)."""
    third, second = 0.0, 0.0
    for index, sample in enumerate([samples[0]] if paired else samples):
        influences = _influences(samples, index, statistic, paired, vectorized) / len(sample)
        third, second = third + influences.pow(3).sum(0), second + influences.square().sum(0)
    flat = second == 0
    return torch.where(flat, 0.0, third / torch.where(flat, 1.0, second).pow(1.5) / 6)


def _influences(samples: list[Tensor], index: int, statistic: Statistic, paired: bool, vectorized: bool) -> Tensor:
    n = len(samples[index])
    size = math.ceil(n / _GROUPS)  # rows left out at a time; a rest shorter than that always stays
    groups = n // size
    values = []
    block = max(1, _BLOCK // sum(sample.numel() for sample in samples))
    for start in range(0, groups, block):
        numbers = torch.arange(start, min(groups, start + block), device=samples[index].device)
        rows = torch.arange(n - size, device=numbers.device).expand(len(numbers), -1)
        rows = rows + size * (rows >= size * numbers[:, None])  # all rows but those of the group
        chosen = [
            sample[rows] if paired or at == index else sample.expand(len(numbers), *sample.shape)
            for at, sample in enumerate(samples)
        ]
        values.append(_apply(statistic, chosen, vectorized))
    left = torch.cat(values)
    return size * (groups - 1) * (left.mean(0) - left)  # the sum of the influences of a group's rows


def _corrected(tails: Tensor, value: Tensor, drawn: Tensor, acceleration: Tensor) -> Tensor:
    below = ((drawn < value).double() + 0.5 * (drawn == value).double()).mean(0)
    if bool(((below == 0) | (below == 1)).any()):
        raise InvalidInput(
            "bootstrap: no resample lies on both sides of the statistic, so bca has no correction; use 'percentile'"
        )
    bias = torch.special.ndtri(below)
    z = bias + torch.special.ndtri(tails.double())
    return torch.special.ndtr(bias + z / (1 - acceleration * z))


def _quantiles(drawn: Tensor, tails: Tensor) -> tuple[Tensor, Tensor]:
    """Interpolated quantiles of (B, ...) at levels (2, ...), of any number of resamples."""
    order = drawn.sort(0).values
    at = tails.to(torch.float64) * (len(order) - 1)
    floor = at.floor().long().clamp(0, len(order) - 1)
    ceiling = (floor + 1).clamp(max=len(order) - 1)
    low, high = order.gather(0, floor), order.gather(0, ceiling)
    found = low + (high - low) * (at - floor).to(order.dtype)
    return found[0], found[1]
