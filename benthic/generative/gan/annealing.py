"""Likelihoods of a generator with a little noise, by annealed importance sampling of its codes."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from benthic.nets.noise import draw_normal
from benthic.samplers.annealing.importance import annealed_importance

_CHAINS, _PILOT = 16, 2
_BLOCK = 1 << 13  # chains times rows that run at once


def annealed_likelihood(
    make: Callable[[Tensor], Tensor], rows: Tensor, size: int, noise: float, temperatures: int = 200
) -> tuple[Tensor, Tensor]:
    r"""The log-density of rows under :math:`x = G(z) + \sigma \epsilon`, a lower bound in expectation, and its error.

    .. math:: p(x) = \int N(x; G(z), \sigma^2 I)\, N(z; 0, I)\, dz

    Wu et al., 2017: chains walk from the prior of the codes to their posterior.

    make: the generator, from codes (n, k) to rows (n, d). rows: (n, d). size: k. noise: :math:`\sigma`.
    """
    chains = _CHAINS + _PILOT
    found = []
    for start, block in enumerate(rows.split(max(1, _BLOCK // chains))):
        begin = draw_normal((chains, len(block), size), block, torch.Generator().manual_seed(start))
        stream = torch.Generator(block.device).manual_seed(start)
        found.append(_block(make, block, begin, noise, temperatures, stream))
    value, stderr = (torch.cat(part) for part in zip(*found, strict=True))
    return value, stderr


def _block(
    make: Callable[[Tensor], Tensor],
    rows: Tensor,
    begin: Tensor,
    noise: float,
    temperatures: int,
    stream: torch.Generator,
) -> tuple[Tensor, Tensor]:
    constant = rows.shape[1] * math.log(noise * math.sqrt(2 * math.pi))

    def log_start(codes: Tensor) -> Tensor:
        return -0.5 * (codes.square() + math.log(2 * math.pi)).sum(-1)

    def log_target(codes: Tensor) -> Tensor:
        made = make(codes.flatten(0, -2)).reshape(*codes.shape[:-1], -1)
        return log_start(codes) - (made - rows).square().sum(-1) / (2 * noise**2) - constant

    found = annealed_importance(log_start, log_target, begin, temperatures=temperatures, pilot=_PILOT, generator=stream)
    return found.value, found.stderr
