"""How heavy a tail is: Hill's estimator, a test against exponential decay, and the picture that shows it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch import distributions as td
from torch.distributions import Distribution

from benthic.base.errors import InvalidInput
from benthic.base.estimate import Estimate
from benthic.distributions.scalar import Levy
from benthic.distributions.stable import Stable


class TailIndex(NamedTuple):
    """What the largest values say: P(X > x) falls like x to the power −alpha, if ``heavy``.

    evidence: how many standard errors a power law explains them better than an exponential one.
    """

    alpha: Estimate
    count: int
    threshold: float
    evidence: float
    heavy: bool


def hill(data: Any, k: int | None = None, tail: str = "right") -> Estimate:
    r"""Hill's estimate of the power at which a tail falls, with its standard error.

    .. math:: \hat\alpha = \Big(\frac1k \sum_{i=1}^k \log \frac{x_{(i)}}{x_{(k+1)}}\Big)^{-1}, \qquad
        \mathrm{se} = \hat\alpha / \sqrt{k}

    Hill, 1975. data: (n,). k: how many of the largest values are used; by default the number at which they look
    most like a power law (Kolmogorov distance, Clauset, Shalizi & Newman, 2009). tail: right, left, or both
    (absolute values).

    >>> hill(torch.arange(1.0, 101.0).pow(-0.5), k=20).value  # quantiles of a tail of power 2
    2.2...
    """
    ordered = _ordered(data, tail, "hill")
    k = _count(ordered) if k is None else k
    if not 2 <= k < len(ordered) or not float(ordered[k]) > 0:
        raise InvalidInput(f"hill: k is {k}; it must be at least 2 and leave a positive value below the k largest")
    alpha = 1 / float((ordered[:k] / ordered[k]).log().mean())
    return Estimate(alpha, alpha / math.sqrt(k))


def tail_index(data: Any, k: int | None = None, tail: str = "both") -> TailIndex:
    """Whether a tail is heavy, and its power.

    Values beyond a threshold are compared as a power law and as an exponential decay by the normalized
    likelihood ratio of Vuong, 1989; a tail is called heavy when the power law is better by two standard errors.
    A distribution may be passed in place of data, where its power is known.

    data: (n,) numbers, or a distribution. k: how many of the largest values; by default a tenth.

    >>> tail_index(td.Cauchy(0.0, 1.0)).alpha.value
    1.0
    """
    if isinstance(data, Distribution):
        return _known(data)
    center = data if isinstance(data, Tensor) else torch.as_tensor(data, dtype=torch.float64)
    center = center.double()
    ordered = _ordered(center - center.median() if tail == "both" else center, tail, "tail_index")
    k = max(10, len(ordered) // 10) if k is None else k
    power = hill(ordered, k)
    threshold = ordered[k]
    over = ordered[:k]
    logs = (over / threshold).log()
    pareto = math.log(power.value) - threshold.log() - (power.value + 1) * logs
    rate = 1 / (over - threshold).mean()
    exponential = rate.log() - rate * (over - threshold)
    gap = pareto - exponential
    evidence = float(gap.sum() / (math.sqrt(k) * gap.std().clamp(min=1e-300)))
    return TailIndex(power, k, float(threshold), evidence, evidence > 2)


def survival(data: Any) -> tuple[Tensor, Tensor]:
    """Sorted values and the share of the data at or above each, for a picture of a tail.

    >>> survival([3.0, 1.0])
    (tensor([1., 3.], dtype=torch.float64), tensor([1.0000, 0.5000], dtype=torch.float64))
    """
    x = torch.as_tensor(data, dtype=None if isinstance(data, Tensor) else torch.float64).flatten().sort().values
    if not len(x):
        raise InvalidInput("survival: there are no data; pass at least one value")
    count = torch.arange(len(x), 0, -1, dtype=x.dtype, device=x.device)
    return x, count / len(x)


def plot_tail(data: Mapping[str, Any], laws: Mapping[str, Distribution] | None = None) -> Any:
    """A figure of survival on logarithmic axes: a power law is a straight line, a normal tail falls off a cliff.

    data: from a name to values, of which sizes are taken. laws: from a name to a distribution with ``cdf``, drawn
    as lines of the probability of a size beyond x.
    """
    from benthic.pictures.canvas import new_figure

    figure, axes = new_figure(5.5, 3.8)
    top, least = 1.0, 1.0
    for name, values in data.items():
        x, share = survival(torch.as_tensor(values).abs())
        seen = x > 0
        axes.plot(x[seen].cpu(), share[seen].cpu(), ".", markersize=3, label=name)
        top, least = max(top, float(x.max())), min(least, float(share.min()))
    grid = torch.logspace(-1, math.log10(top), 200, dtype=torch.float64)
    for name, law in (laws or {}).items():
        axes.plot(grid, 1 - law.cdf(grid) + law.cdf(-grid), linewidth=1, label=name)
    axes.set(xscale="log", yscale="log", xlabel="x", ylabel="share of values beyond x", ylim=(0.3 * least, 2))
    axes.legend(frameon=False)
    return figure


def _ordered(data: Any, tail: str, where: str) -> Tensor:
    """Sizes in falling order, in float64."""
    x = torch.as_tensor(data).detach().double().flatten()
    if len(x) < 20 or not bool(torch.isfinite(x).all()):
        raise InvalidInput(f"{where}: {len(x)} values are given; at least 20 finite ones are needed to see a tail")
    if tail not in ("right", "left", "both"):
        raise InvalidInput(f"{where}: tail is {tail!r}; it must be 'right', 'left' or 'both'")
    x = {"right": x, "left": -x, "both": x.abs()}[tail]
    return x.sort(descending=True).values


def _count(ordered: Tensor) -> int:
    """The number of largest values whose law is nearest to a power."""
    positive = int((ordered > 0).sum())
    most = min(len(ordered) // 4, positive - 1)
    best, chosen = math.inf, max(2, min(10, most))
    for k in torch.unique(torch.logspace(1, math.log10(max(most, 11)), 60).long()).tolist():
        if k > most:
            break
        logs = (ordered[:k] / ordered[k]).log()
        alpha = 1 / logs.mean().clamp(min=1e-300)
        rank = torch.arange(1, k + 1, dtype=logs.dtype, device=logs.device) / k
        distance = float(((-alpha * logs).exp() - rank).abs().max() + 0.5 / math.sqrt(k))
        if distance < best:
            best, chosen = distance, k
    return chosen


def _known(law: Distribution) -> TailIndex:
    powers: list[tuple[Any, Any]] = [
        (td.Cauchy, lambda p: 1.0),
        (Levy, lambda p: 0.5),
        (td.StudentT, lambda p: float(p.df)),
        (td.Pareto, lambda p: float(p.alpha)),
        (Stable, lambda p: float(p.alpha) if float(p.alpha) < 2 else math.inf),
    ]
    light = (td.Normal, td.Laplace, td.Exponential, td.Gamma, td.Uniform, td.Beta, td.Gumbel, td.HalfNormal)
    for kind, power in powers:
        if isinstance(law, kind):
            value = power(law)
            return TailIndex(Estimate(value, 0.0), 0, math.nan, math.inf, math.isfinite(value))
    if isinstance(law, light):
        return TailIndex(Estimate(math.inf, 0.0), 0, math.nan, -math.inf, False)
    raise InvalidInput(f"tail_index: the tail of {type(law).__name__} is not known; pass draws from it")
