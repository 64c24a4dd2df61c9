"""Averages of functions of log-densities: in closed form, by quadrature, or by draws with an error bar."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributions import Distribution, Independent, LowRankMultivariateNormal, MultivariateNormal, Normal

from benthic.base.errors import InvalidInput, nearest
from benthic.base.estimate import Estimate
from benthic.base.seeds import derive, seed_of
from benthic.distributions.quadrature import total, weighted
from benthic.distributions.sources import Samples, log_density, sample_of, shape_of

METHODS = ("closed", "quadrature", "monte_carlo")
Source = Distribution | Samples


@dataclass(frozen=True)
class Average:
    """A quantity that is the mean of a function of x and the log-densities there.

    value: takes x (n, ...) and a list of log-densities (n, ...), and returns (n, ...).
    closed: takes the laws and returns the answer, or raises NotImplementedError.
    symmetric: whether the mean is under the even mixture of the laws, instead of the first of them.
    """

    value: Callable[[Tensor, list[Tensor]], Tensor]
    closed: Callable[..., Tensor] | None = None
    symmetric: bool = False


def evaluate(
    where: str, average: Average, laws: list[Source], method: str | None, n: int, seed: int | None
) -> Tensor | Estimate:
    """The average under laws with densities, by the first of closed form, quadrature and draws that applies."""
    agree(where, laws)
    if method is not None and method not in METHODS:
        hint = nearest(str(method), METHODS)
        raise InvalidInput(f"{where}: method is {method!r}; use one of {METHODS} or None{hint}")
    if method == "monte_carlo" or any(isinstance(law, Samples) for law in laws):
        return by_draws(where, average, laws, n, seed)
    if method in (None, "closed"):
        answer = _closed(average, laws)
        if answer is not None:
            return answer
        if method == "closed":
            names = " and ".join(type(law).__name__ for law in laws)
            raise InvalidInput(f"{where}: no closed form is known for {names}; leave out method, or try 'monte_carlo'")
    found = total(_integrand(average), laws)
    if found is not None:
        return found
    if method == "quadrature":
        raise InvalidInput(
            f"{where}: quadrature needs laws of one dimension whose densities it can integrate to one; "
            "use method='monte_carlo'"
        )
    return by_draws(where, average, laws, n, seed)


def by_draws(where: str, average: Average, laws: list[Source], n: int, seed: int | None) -> Estimate:
    """The average over given draws, or over n new ones, with the standard error of the mean."""
    for law in laws:
        if isinstance(law, Distribution) and law.batch_shape:
            raise InvalidInput(
                f"{where}: {type(law).__name__} has batch shape {tuple(law.batch_shape)} and needs Monte Carlo, "
                "which takes one law at a time; loop over the batch"
            )
    if n < 2:
        raise InvalidInput(f"{where}: n is {n}; Monte Carlo needs at least 2 draws")
    pools, base = laws if average.symmetric else laws[:1], seed_of(seed)
    means, variances = [], []
    for index, law in enumerate(pools):
        x = sample_of(law, max(2, n // len(pools)), derive(base, index))
        values = average.value(x, [log_density(other, x, where) for other in laws]).detach().double()
        means.append(float(values.mean()))
        variances.append(float(values.var()) / len(values) if len(values) > 1 else math.nan)
    return Estimate(sum(means) / len(means), math.sqrt(sum(variances)) / len(means))


def ratio(logs: list[Tensor]) -> Tensor:
    """log p/q, cut off where p/(p + q) is 0 or 1 to rounding, and 0 where neither law has mass."""
    return (logs[0] - logs[1]).nan_to_num(0.0, 100.0, -100.0).clamp(-100.0, 100.0)


def gaussian(law: Distribution) -> tuple[Tensor, Tensor]:
    """Mean (..., d) and covariance (..., d, d) of a normal law, or NotImplementedError."""
    if isinstance(law, MultivariateNormal | LowRankMultivariateNormal):
        return law.loc, law.covariance_matrix
    if isinstance(law, Normal):
        return law.loc[..., None], law.variance[..., None, None]
    if isinstance(law, Independent) and isinstance(law.base_dist, Normal) and len(law.event_shape) == 1:
        return law.mean, torch.diag_embed(law.variance)
    raise NotImplementedError(f"{type(law).__name__} is not normal")


def _closed(average: Average, laws: list[Source]) -> Tensor | None:
    """The closed form; None where there is none, which torch says by NotImplementedError."""
    if average.closed is None:
        return None
    try:
        return average.closed(*laws)
    except NotImplementedError:
        return None


def _integrand(average: Average) -> Callable[[Tensor, list[Tensor]], Tensor]:
    def integrand(x: Tensor, logs: list[Tensor]) -> Tensor:
        weight = torch.logaddexp(logs[0], logs[1]) - math.log(2) if average.symmetric else logs[0]
        return weighted(weight, average.value(x, logs))

    return integrand


def agree(where: str, laws: list[Source]) -> None:
    """Refuse laws over values of different shapes or kinds."""
    shapes = {shape_of(law) for law in laws}
    if len(shapes) > 1:
        raise InvalidInput(f"{where}: the laws are over values of shapes {sorted(shapes)}; they must be the same")
    kinds = {bool(law.discrete if isinstance(law, Samples) else law.support.is_discrete) for law in laws}
    if len(kinds) > 1:
        raise InvalidInput(f"{where}: one law is discrete and the other continuous; they share no density")
