"""Maximum-likelihood fits in closed form, and the quasi-Newton fit of any distribution.

Each takes data (n, ...) and shares of the rows (n,) that sum to one, both in float64, and returns the
arguments of the distribution.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints, transform_to

from benthic.base.errors import InvalidInput
from benthic.distributions.directional import concentration_from_length


def mean(x: Tensor, share: Tensor) -> Tensor:
    """The weighted mean over rows."""
    return torch.tensordot(share, x, 1)


def refuse_constant(x: Tensor, name: str) -> None:
    """An error where every value of a column is the same."""
    if bool((x.amax(0) == x.amin(0)).any()):
        raise InvalidInput(f"mle: every value is {float(x.flatten()[0]):g}; {name} needs values that differ")


def normal(x: Tensor, share: Tensor) -> dict[str, Tensor]:
    """Mean and standard deviation, with division by n."""
    refuse_constant(x, "Normal")
    center = mean(x, share)
    return {"loc": center, "scale": mean((x - center).square(), share).sqrt()}


def lognormal(x: Tensor, share: Tensor) -> dict[str, Tensor]:
    """Mean and standard deviation of the logarithms."""
    return normal(x.log(), share)


def half_normal(x: Tensor, share: Tensor) -> dict[str, Tensor]:
    """The root of the mean square."""
    return {"scale": mean(x.square(), share).sqrt()}


def weighted_quantile(x: Tensor, share: Tensor, level: float) -> Tensor:
    """The value (...) at which the shares of sorted rows reach a level, midway where it falls on a step."""
    ordered, rank = x.sort(0)
    total = share[rank].cumsum(0)
    slack = 1e-12
    low = (total >= level - slack).to(torch.uint8).argmax(0, keepdim=True)
    high = (total > level + slack).to(torch.uint8).argmax(0, keepdim=True)
    return 0.5 * (ordered.gather(0, low) + ordered.gather(0, high.maximum(low))).squeeze(0)


def laplace(x: Tensor, share: Tensor) -> dict[str, Tensor]:
    """The median and the mean distance from it."""
    refuse_constant(x, "Laplace")
    center = weighted_quantile(x, share, 0.5)
    return {"loc": center, "scale": mean((x - center).abs(), share)}


def exponential(x: Tensor, share: Tensor) -> dict[str, Tensor]:
    """One over the mean."""
    center = mean(x, share)
    if bool((center <= 0).any()):
        raise InvalidInput("mle: every value is 0; Exponential needs one above")
    return {"rate": 1 / center}


def uniform(x: Tensor, share: Tensor) -> dict[str, Tensor]:
    """The least and the largest value that has a weight."""
    refuse_constant(x, "Uniform")
    seen = x[share > 0]
    return {"low": seen.amin(0), "high": torch.nextafter(seen.amax(0), seen.new_full((), torch.inf))}


def pareto(x: Tensor, share: Tensor) -> dict[str, Tensor]:
    """The least value, and one over the mean logarithm of the others in its units (Hill, 1975)."""
    refuse_constant(x, "Pareto")
    least = x[share > 0].amin(0)
    return {"scale": least, "alpha": 1 / mean((x / least).log(), share)}


def poisson(x: Tensor, share: Tensor) -> dict[str, Tensor]:
    """The mean."""
    return {"rate": mean(x, share)}


def bernoulli(x: Tensor, share: Tensor) -> dict[str, Tensor]:
    """The share of ones."""
    return {"probs": mean(x, share).clamp(0, 1)}


def geometric(x: Tensor, share: Tensor) -> dict[str, Tensor]:
    """One over one plus the mean."""
    return {"probs": 1 / (1 + mean(x, share))}


def binomial(x: Tensor, share: Tensor, total_count: Any = None) -> dict[str, Any]:
    """The share of successes among ``total_count`` trials."""
    if total_count is None:
        raise InvalidInput("mle: the number of trials of a Binomial is not fitted; pass total_count=")
    total = torch.as_tensor(total_count, dtype=x.dtype, device=x.device)
    if bool((x > total).any()):
        raise InvalidInput(f"mle: a value is {float(x.max()):g}, above total_count; Binomial counts up to total_count")
    return {"total_count": total, "probs": (mean(x, share) / total).clamp(0, 1)}


def categorical(x: Tensor, share: Tensor, num_events: int | None = None) -> dict[str, Tensor]:
    """The share of each label."""
    if x.ndim != 1:
        raise InvalidInput(f"mle: data have shape {tuple(x.shape)}; Categorical needs one label a row, (n,)")
    k = int(x.max()) + 1 if num_events is None else num_events
    if int(x.max()) >= k:
        raise InvalidInput(f"mle: a label is {int(x.max())}; with num_events={k} labels go up to {k - 1}")
    return {"probs": torch.zeros(k, dtype=x.dtype, device=x.device).index_add(0, x.long(), share)}


def multinomial(x: Tensor, share: Tensor) -> dict[str, Any]:
    """The share of each category in all counts; every row must have the same total."""
    totals = x.sum(-1)
    if bool((totals != totals[0]).any()):
        raise InvalidInput(
            f"mle: rows of the data count {int(totals.min())} to {int(totals.max())}; one Multinomial has one total, "
            "so pass rows of the same total, or fit a Categorical to the labels"
        )
    if not float(totals[0]):
        raise InvalidInput("mle: every row counts nothing; Multinomial needs a total above 0")
    return {"total_count": int(totals[0]), "probs": mean(x, share) / totals[0]}


def multivariate_normal(x: Tensor, share: Tensor) -> dict[str, Tensor]:
    """Mean and covariance, with division by n."""
    center = mean(x, share)
    gap = x - center
    covariance = torch.einsum("n,n...i,n...j->...ij", share, gap, gap)
    if bool(torch.linalg.matrix_rank(covariance, hermitian=True).min() < x.shape[-1]):
        raise InvalidInput(
            f"mle: {len(x)} rows do not span {x.shape[-1]} dimensions, so the covariance is singular; "
            "pass more rows, or drop columns that others determine"
        )
    return {"loc": center, "covariance_matrix": covariance}


def von_mises_fisher(x: Tensor, share: Tensor) -> dict[str, Tensor]:
    """The direction of the mean, and the concentration that explains its length (Sra, 2012)."""
    center = mean(x / x.norm(dim=-1, keepdim=True), share)
    length = center.norm(dim=-1)
    if bool((length > 1 - 1e-14).any()):
        raise InvalidInput("mle: every direction is the same; VonMisesFisher needs directions that differ")
    axis = torch.zeros_like(center)
    axis[..., 0] = 1
    direction = torch.where((length > 0).unsqueeze(-1), center / length.clamp(min=1e-300).unsqueeze(-1), axis)
    return {"direction": direction, "concentration": concentration_from_length(length, x.shape[-1])}


# -- any distribution ----------------------------------------------------------------------------------


def generic(
    kind: type[Distribution], x: Tensor, share: Tensor, start: Distribution | None = None, **known: Any
) -> Distribution:
    """The best member of any torch distribution by L-BFGS in unconstrained coordinates."""
    rules = {k: v for k, v in getattr(kind, "arg_constraints", {}).items() if k not in known}
    if "probs" in rules:
        rules.pop("logits", None)
    if not rules or any(constraints.is_dependent(rule) for rule in rules.values()):
        raise InvalidInput(f"mle: the parameters of {kind.__name__} cannot be searched; none or coupled constraints")
    support = getattr(kind, "support", None)
    if isinstance(support, constraints.Constraint) and not constraints.is_dependent(support):
        _refuse_outside_of(kind.__name__, support, x)
    first = {name: _first(name, rule, x, share, start) for name, rule in rules.items()}
    free = {name: transform_to(rules[name]).inv(value).clone() for name, value in first.items()}

    def law(values: dict[str, Tensor], **more: Any) -> Distribution:
        found = {name: transform_to(rules[name])(value) for name, value in values.items()}
        return kind(**found, **known, **more)

    def loss(values: dict[str, Tensor]) -> Tensor:
        return -(share * _rows(law(values, validate_args=False).log_prob(x))).sum()

    return law(minimized(loss, free, kind.__name__))


def _refuse_outside_of(name: str, support: constraints.Constraint, x: Tensor) -> None:
    good = support.check(x) & torch.isfinite(x).reshape(*x.shape[: x.ndim - support.event_dim], -1).all(-1)
    if not bool(good.all()):
        raise InvalidInput(f"mle: {int((~good).sum())} of the data do not lie in the support of {name}; remove them")


def minimized(
    loss: Any, free: dict[str, Tensor], name: str, steps: int = 300, change: float = 1e-15
) -> dict[str, Tensor]:
    """Where a smooth loss of named tensors is least, by L-BFGS with a strong Wolfe search."""
    free = {key: value.detach().clone().requires_grad_() for key, value in free.items()}
    solver = torch.optim.LBFGS(
        list(free.values()),
        max_iter=steps,
        tolerance_grad=1e-10,
        tolerance_change=change,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        solver.zero_grad()
        value = loss(free)
        if not bool(torch.isfinite(value)):
            value = value.detach().new_full((), 1e300) + sum(0 * v.sum() for v in free.values())
        value.backward()
        return value

    with torch.enable_grad():
        begin = loss(free)
        if not bool(torch.isfinite(begin)):
            raise InvalidInput(
                f"mle: the likelihood of {name} is not finite at the start of the search; "
                "check that the data lie in its support, or pass an instance as a start"
            )
        solver.step(closure)
    if not all(bool(torch.isfinite(value).all()) for value in free.values()):
        raise InvalidInput(f"mle: the search for {name} ran off to infinity; the data do not determine it")
    return {key: value.detach() for key, value in free.items()}


def _rows(logs: Tensor) -> Tensor:
    return logs.reshape(logs.shape[0], -1).sum(1)


def _first(name: str, rule: Any, x: Tensor, share: Tensor, start: Distribution | None) -> Tensor:
    """Where the search for a parameter starts."""
    if start is not None:
        return torch.as_tensor(getattr(start, name), dtype=x.dtype, device=x.device)
    if name == "loc":
        return weighted_quantile(x, share, 0.5)
    if name == "scale":
        spread = weighted_quantile(x, share, 0.75) - weighted_quantile(x, share, 0.25)
        return torch.where(spread > 0, 0.5 * spread, 1.0)
    return transform_to(rule)(torch.zeros(x.shape[1:], dtype=x.dtype, device=x.device))
