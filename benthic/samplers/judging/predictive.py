"""New data from draws of a posterior, and what they say about the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as trees

from benthic.base.errors import InvalidInput
from benthic.base.estimate import Estimate
from benthic.base.seeds import generator, seed_of
from benthic.samplers.judging.draws import Draws


def posterior_predictive(
    draws: Draws,
    simulate: Callable[[dict[str, Tensor], torch.Generator], Any],
    *,
    count: int | None = None,
    seed: int | None = None,
) -> Any:
    """Data that the model would give, one set for each posterior draw.

    simulate: (parameters, generator) -> data; parameters are name -> (n, ...), and so must be the data.
    count: how many draws to use, taken evenly over all chains; all by default.

    >>> draws = Draws({"mean": torch.full((2, 50), 3.0)})
    >>> def simulate(p, generator):
    ...     return p["mean"][:, None] + torch.randn(len(p["mean"]), 4, generator=generator)
    >>> posterior_predictive(draws, simulate, count=20, seed=0).shape
    torch.Size([20, 4])
    """
    total = draws.chains * draws.draws
    count = total if count is None else count
    if not 1 <= count <= total:
        raise InvalidInput(f"posterior_predictive: count is {count}; there are {total} draws")
    rows = torch.linspace(0, total - 1, count, dtype=torch.float64).round().long()
    chosen = {name: draws.flat(name)[rows.to(value.device)] for name, value in draws.values.items()}
    device = next(iter(chosen.values())).device
    data = simulate(chosen, generator(seed_of(seed), "predictive", device=device))
    for leaf in trees.tree_leaves(data):
        if not isinstance(leaf, Tensor) or not leaf.ndim or len(leaf) != count:
            raise InvalidInput(
                f"posterior_predictive: simulate must return tensors with a leading dimension of {count}"
            )
    return data


def predictive_p_value(replicated: Any, observed: Any, statistic: Callable[[Any], Tensor]) -> Estimate:
    """How often replicated data have a statistic at least as large as the observed; near 0 or 1 the model misfits.

    Rubin, 1984; Gelman, Meng and Stern, 1996. Ties count half.

    replicated: (n, ...) from :func:`posterior_predictive`. observed: (...). statistic: maps data with a leading
    dimension to one number each.

    >>> replicated = torch.arange(10.0)[:, None].expand(10, 3)
    >>> predictive_p_value(replicated, torch.full((3,), 7.5), lambda y: y.mean(1)).value
    0.2
    """
    from benthic.base.estimate import mean_of

    seen = statistic(trees.tree_map(lambda leaf: leaf[None], observed))
    drawn = statistic(replicated)
    if drawn.ndim != 1 or seen.shape != (1,):
        raise InvalidInput(
            f"predictive_p_value: the statistic gave {tuple(drawn.shape)} of replicated and {tuple(seen.shape)} of "
            "one observed set; one number a set is needed"
        )
    above = (drawn > seen).double() + (drawn == seen).double() / 2
    return mean_of(above.cpu().numpy())
