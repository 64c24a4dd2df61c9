"""Laws whose draws and moments are known exactly, as targets, and the z-tests that compare with them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import constraints

from benthic.samplers.target import Target

DOUBLE = torch.float64


class Law(NamedTuple):
    """A target, and a function that draws (n, d) unconstrained rows from it exactly."""

    target: Target
    exact: Callable[[int, torch.Generator], Tensor]


def normals(n: int, d: int, stream: torch.Generator) -> Tensor:
    """Standard normals in float64."""
    return torch.randn(n, d, generator=stream, dtype=DOUBLE)


def gaussian(d: int = 3, dtype: torch.dtype = DOUBLE) -> tuple[Law, Tensor, Tensor]:
    """A correlated normal law, its mean and covariance."""
    stream = torch.Generator().manual_seed(5)
    factor = torch.tril(normals(d, d, stream)) + 1.5 * torch.eye(d, dtype=DOUBLE)
    mean, cov = torch.arange(d, dtype=DOUBLE), factor @ factor.mT
    precision = torch.linalg.inv(cov).to(dtype)

    def density(x: Tensor) -> Tensor:
        apart = x - mean.to(dtype)
        return -0.5 * ((apart @ precision) * apart).sum(-1)

    target = Target(density, torch.zeros(d, dtype=dtype), batched=True)
    return Law(target, lambda n, stream: (mean + normals(n, d, stream) @ factor.mT).to(dtype)), mean, cov


def banana() -> Law:
    """x ~ N(0, 1), y | x ~ N(x^2 / 2, 1): bent, so that trajectories turn early and late."""

    def density(p: Tensor) -> Tensor:
        return -0.5 * p[0] ** 2 - 0.5 * (p[1] - 0.5 * p[0] ** 2) ** 2

    def exact(n: int, stream: torch.Generator) -> Tensor:
        noise = normals(n, 2, stream)
        return torch.stack([noise[:, 0], 0.5 * noise[:, 0] ** 2 + noise[:, 1]], -1)

    return Law(Target(density, torch.zeros(2, dtype=DOUBLE)), exact)


def mixture() -> Law:
    """Two overlapping normals on a line."""

    def density(x: Tensor) -> Tensor:
        pieces = torch.stack([-0.5 * (x - 1.5) ** 2 + math.log(0.3), -0.5 * (x + 1.0) ** 2 + math.log(0.7)])
        return pieces.logsumexp(0).sum()

    def exact(n: int, stream: torch.Generator) -> Tensor:
        side = torch.rand(n, 1, generator=stream, dtype=DOUBLE) < 0.3
        return torch.where(side, 1.5, -1.0) + normals(n, 1, stream)

    return Law(Target(density, torch.zeros(1, dtype=DOUBLE)), exact)


def gamma() -> Law:
    """A Gamma(3, 2) rate, reached through the exponential."""

    def density(p: dict[str, Tensor]) -> Tensor:
        return 2 * p["rate"].log() - 2 * p["rate"]

    def exact(n: int, stream: torch.Generator) -> Tensor:
        # a Gamma of integer shape is a sum of exponentials
        return (-torch.rand(n, 3, generator=stream, dtype=DOUBLE).log().sum(-1, keepdim=True) / 2).log()

    example = {"rate": torch.ones((), dtype=DOUBLE)}
    return Law(Target(density, example, constraints={"rate": constraints.positive}), exact)


def worst_z(found: Tensor, exact: Tensor) -> float:
    """The largest z score among means, second moments and cross moments of two samples (n, d) of independent rows."""

    def features(rows: Tensor) -> Tensor:
        rows = rows.double()
        i, j = torch.triu_indices(rows.shape[1], rows.shape[1])
        return torch.cat([rows, rows[:, i] * rows[:, j]], 1)

    a, b = features(found), features(exact)
    error = (a.var(0) / len(a) + b.var(0) / len(b)).sqrt()
    return float(((a.mean(0) - b.mean(0)) / error).abs().max())


def chain_z(draws: Tensor, mean: Tensor, cov: Tensor) -> float:
    """The largest z score of means and covariances of draws (chains, draws, d), by their Monte Carlo errors."""
    from benthic.samplers.judging.diagnostics import mcse_mean

    apart = draws.double() - mean
    i, j = torch.triu_indices(len(mean), len(mean))
    products = apart[..., i] * apart[..., j] - cov[i, j]
    both = torch.cat([apart, products], -1)
    return float((both.mean((0, 1)) / mcse_mean(both)).abs().max())
