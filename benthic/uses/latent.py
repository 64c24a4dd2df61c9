"""Drawing the missing part of a row from a latent-variable model, given the rest of it."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor


class Latent(Protocol):
    """What the sampler asks of a model."""

    latent_dim: int

    def posterior(self, x: Tensor) -> Any:
        """q(z|x), with ``place(noise)`` and ``log_prob(z)``; NaN in x is missing."""

    def log_prior(self, z: Tensor) -> Tensor:
        """log p(z)."""

    def log_likelihood(self, x: Tensor, z: Tensor) -> Tensor:
        """log p(x|z)."""

    def mean(self, z: Tensor) -> Tensor:
        """E[x|z]."""

    def emit(self, z: Tensor, generator: torch.Generator) -> Tensor:
        """A draw of x given z."""


class Filled(NamedTuple):
    """Rows without gaps, (n, d): one draw of what was missing, and its expectation."""

    draw: Tensor
    mean: Tensor


@torch.no_grad()
def fill(model: Latent, X: Tensor, generator: torch.Generator, *, steps: int = 60, chains: int = 1) -> Filled:
    """A draw of the gaps of ``X`` given the rest, and their mean over the later half of the chains.

    Metropolis within Gibbs (Mattei & Frellsen, 2018): z is proposed from q(z|x) and accepted so that the
    chain has p(z, x_missing | x_observed) as its law; then the gaps are redrawn from p(x|z).

    X: (n, d) with NaN for gaps. steps: of each chain, the first half of which is dropped. chains: run side by
    side for each row and averaged.
    """
    rows = len(X)
    X = X.repeat(chains, 1)
    gaps = torch.isnan(X)

    def normal() -> Tensor:
        return torch.randn(len(X), model.latent_dim, generator=generator, dtype=X.dtype).to(X.device)

    z = model.posterior(X).place(normal())
    x = torch.where(gaps, model.emit(z, generator), X)
    total, kept = torch.zeros_like(x), 0
    for step in range(steps):
        q = model.posterior(x)
        proposal = q.place(normal())
        gain = _log_weight(model, x, proposal, q) - _log_weight(model, x, z, q)
        uniform = torch.rand(len(X), generator=generator, dtype=X.dtype).to(X.device)
        z = torch.where((torch.log(uniform) < gain)[:, None], proposal, z)
        x = torch.where(gaps, model.emit(z, generator), X)
        if step >= steps // 2:
            total, kept = total + model.mean(z), kept + 1
    mean = torch.where(gaps, total / kept, X)
    return Filled(x[:rows], mean.reshape(chains, rows, -1).mean(0))


def _log_weight(model: Latent, x: Tensor, z: Tensor, q: Any) -> Tensor:
    """log p(x, z) − log q(z|x)."""
    return model.log_likelihood(x, z) + model.log_prior(z) - q.log_prob(z)
