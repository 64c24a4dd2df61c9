"""Exact answers from discrete networks: variables are summed out one after the other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput

_MOST = 1 << 27  # entries of the largest table that is built


class Factor(NamedTuple):
    """A table over some variables: values (states of the first, ..., states of the last)."""

    names: tuple[str, ...]
    values: Tensor


class Step(NamedTuple):
    """A variable that was summed out and the product it was summed out of, with the variable last."""

    name: str
    product: Factor
    log_scale: float


def min_fill(scopes: Iterable[Sequence[str]], keep: Iterable[str] = ()) -> list[str]:
    """An order of elimination: always the variable whose neighbors need the fewest new links.

    Kjærulff, 1990. scopes: the variables of each table. keep: variables that stay. Ties go to fewer neighbors.

    >>> min_fill([("a",), ("a", "b"), ("b", "c"), ("b", "d")], keep=["d"])
    ['a', 'c', 'b']
    """
    links: dict[str, set[str]] = {}
    for scope in scopes:
        for name in scope:
            links.setdefault(name, set()).update(other for other in scope if other != name)
    left, order = set(links) - set(keep), []
    while left:
        ranked = {name: (_missing(links, name), len(links[name]), name) for name in left}
        name = min(left, key=ranked.__getitem__)
        for a, b in combinations(links[name], 2):
            links[a].add(b)
            links[b].add(a)
        for other in links.pop(name):
            links[other].discard(name)
        left.remove(name)
        order.append(name)
    return order


def _missing(links: Mapping[str, set[str]], name: str) -> int:
    return sum(b not in links[a] for a, b in combinations(links[name], 2))


def eliminate(
    factors: Iterable[Factor], order: Sequence[str], *, maximum: bool = False
) -> tuple[list[Factor], list[Step], float]:
    """Sum (or maximize) variables out of a product of tables, in the given order.

    Zhang & Poole, 1994. Returns the tables that are left, what each variable was summed out of, and the logarithm
    of the scale that was taken out on the way.
    """
    left, steps, log_scale = list(factors), [], 0.0
    for name in order:
        joined = [factor for factor in left if name in factor.names]
        left = [factor for factor in left if name not in factor.names]
        step = Step(name, *product(joined, last=name))
        rest = step.product.values.amax(-1) if maximum else step.product.values.sum(-1)
        left.append(Factor(step.product.names[:-1], rest))
        steps.append(step)
        log_scale += step.log_scale
    return left, steps, log_scale


def product(factors: Sequence[Factor], last: str | None = None) -> tuple[Factor, float]:
    """The product of tables, divided by its largest entry, and the logarithm of that."""
    names = [*dict.fromkeys(name for factor in factors for name in factor.names if name != last)]
    if last is not None:
        names.append(last)
    states = {n: k for factor in factors for n, k in zip(factor.names, factor.values.shape, strict=True)}
    size = math.prod(states.values())
    if size > _MOST:
        raise InvalidInput(
            f"BayesianNetwork: exact inference would need a table of {size:.3g} entries over {len(names)} variables; "
            "use likelihood_weighting"
        )
    values = _multiply(factors, names)
    top = float(values.max())
    if top == 0:
        return Factor(tuple(names), values), -math.inf
    return Factor(tuple(names), values / top), math.log(top)


def _multiply(factors: Sequence[Factor], names: Sequence[str]) -> Tensor:
    """Broadcast every table to all names and multiply."""
    place = {name: i for i, name in enumerate(names)}
    values = torch.ones([1] * len(names), dtype=torch.float64, device=factors[0].values.device)
    for factor in factors:
        places = [place[name] for name in factor.names]
        order = sorted(range(len(places)), key=places.__getitem__)
        shape = [1] * len(names)
        for i in order:
            shape[places[i]] = factor.values.shape[i]
        values = values * factor.values.permute(order).reshape(shape)
    return values


def sample_back(steps: Sequence[Step], n: int, source: torch.Generator) -> dict[str, Tensor]:
    """Exact joint draws of eliminated variables, last eliminated first; each given those it was joined with."""
    drawn: dict[str, Tensor] = {}
    for step in reversed(steps):
        rows = step.product.values[tuple(drawn[name] for name in step.product.names[:-1])]  # (n, k) or (k,)
        total = rows.cumsum(-1).expand(n, -1).contiguous()
        u = torch.rand(n, 1, generator=source, dtype=total.dtype, device=source.device).to(total.device)
        # 1 - u lies in (0, 1]: a value of probability zero is never chosen
        drawn[step.name] = torch.searchsorted(total, (1 - u) * total[:, -1:])[:, 0]
    return drawn


def argmax_back(steps: Sequence[Step]) -> dict[str, int]:
    """The most likely joint values of variables that were maximized out."""
    best: dict[str, int] = {}
    for step in reversed(steps):
        best[step.name] = int(step.product.values[tuple(best[name] for name in step.product.names[:-1])].argmax())
    return best
