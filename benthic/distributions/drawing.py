"""Draws that one integer decides, from any distribution, without touching global random state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.distributions import Distribution

from benthic.base.errors import InvalidInput
from benthic.base.seeds import drawing, seed_of
from benthic.base.settings import is_whole


def draw(
    distribution: Distribution,
    shape: int | Sequence[int] = (),
    seed: int | None = None,
    generator: torch.Generator | None = None,
    differentiable: bool = False,
) -> Tensor:
    """Draws from any torch distribution, repeatable and without changing global random state.

    shape: how many, or a shape of draws; the batch and event shapes follow. seed: an integer repeats the
    draws; without it they are fresh. generator: alternatively a torch generator, which advances.
    differentiable: draw by ``rsample``, so gradients reach the parameters.

    >>> law = torch.distributions.Normal(0.0, 1.0)
    >>> torch.equal(draw(law, 3, seed=0), draw(law, 3, seed=0))
    True
    """
    if not isinstance(distribution, Distribution):
        raise InvalidInput(f"draw: the first argument is a {type(distribution).__name__}; it must be a distribution")
    if seed is not None and generator is not None:
        raise InvalidInput("draw: both seed and generator are given; pass one of them")
    if differentiable and not distribution.has_rsample:
        raise InvalidInput(f"draw: {type(distribution).__name__} has no differentiable draws; leave differentiable off")
    count = torch.Size([shape] if is_whole(shape) else shape)
    if generator is not None:
        seed = int(torch.randint(2**62, (), generator=generator, device=generator.device))
    with drawing(seed_of(seed), device_of(distribution)):
        return distribution.rsample(count) if differentiable else distribution.sample(count)


def device_of(distribution: Distribution) -> torch.device:
    """Where a distribution keeps its parameters."""
    return next((tensor.device for tensor in _tensors(distribution)), torch.device("cpu"))


def _tensors(owner: object) -> Iterator[Tensor]:
    """The tensors that a distribution holds, also inside those it is made of."""
    owners, seen = [owner], set()
    while owners:  # a transform and its inverse hold each other
        owner = owners.pop()
        seen.add(id(owner))
        for value in vars(owner).values():
            for part in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(part, Tensor):
                    yield part
                elif isinstance(part, (Distribution, torch.distributions.Transform)) and id(part) not in seen:
                    owners.append(part)
