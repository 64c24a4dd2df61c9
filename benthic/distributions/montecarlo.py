"""Expectations by drawing, with an error bar, antithetic pairs and control variates."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.distributions import (
    Cauchy,
    Distribution,
    Independent,
    Laplace,
    MultivariateNormal,
    Normal,
    StudentT,
    Uniform,
)

from benthic.base.errors import InvalidInput
from benthic.base.estimate import Estimate
from benthic.base.seeds import derive, generator, seed_of
from benthic.distributions.sources import draws

_BLOCK = 1 << 18
_SYMMETRIC = (Cauchy, Laplace, MultivariateNormal, Normal, StudentT, Uniform)

Function = Callable[[Tensor], Tensor]
Sampler = Distribution | Callable[[int, torch.Generator], Tensor]


def monte_carlo(
    f: Function,
    sampler: Sampler,
    n: int = 100_000,
    *,
    antithetic: bool | Function = False,
    control: Function | None = None,
    control_mean: Any = None,
    seed: int | None = None,
    device: torch.device | str = "cpu",
) -> Estimate:
    r"""The mean of a function of random draws, with its standard error.

    .. math:: E f(X) \approx \frac{1}{n} \sum_i f(x_i) \pm \frac{s}{\sqrt{n}}

    Metropolis & Ulam, 1949. An antithetic pair averages f over a draw and its mirror image (Hammersley & Morton,
    1956); a control variate g, whose mean is known, is regressed out of f (Lavenberg & Welch, 1981). Draws come in
    blocks, so memory does not grow with n.

    f: from draws (b, ...) to (b,). sampler: a distribution, or a function of a number and a generator to that many
    draws. n: evaluations of f. antithetic: True for a law that has a mirror (symmetric, or with ``cdf`` and
    ``icdf``), or the mirror itself. control: from draws to (b,) or (b, c), with control_mean a number or (c,).
    device: of the generator handed to a function. Returns an ``Estimate``.

    >>> def inside(x):
    ...     return 4.0 * (x.square().sum(-1) < 1)
    >>> pi = monte_carlo(inside, lambda n, g: torch.rand(n, 2, generator=g), 100_000, seed=0)
    >>> abs(pi.value - math.pi) < 3 * pi.stderr
    True
    """
    mirror = _mirror(sampler, antithetic)
    means = _control_means(control, control_mean)
    pairs = n // 2 if mirror else n
    if pairs < 2 + len(means):
        raise InvalidInput(f"monte_carlo: n is {n}, which leaves no degrees of freedom for an error bar; draw more")
    base, sums = seed_of(seed), _Sums(1 + len(means))
    source = generator(base, "monte_carlo", device=device)
    for index, start in enumerate(range(0, pairs, _BLOCK)):
        size = min(_BLOCK, pairs - start)
        x = draws(sampler, size, derive(base, index)) if isinstance(sampler, Distribution) else sampler(size, source)
        values = _values(f, control, x, size)
        sums.add(0.5 * (values + _values(f, control, mirror(x), size)) if mirror else values)
    return sums.estimate(means)


class _Sums:
    """Count, mean and products of deviations of columns, added block by block."""

    def __init__(self, columns: int) -> None:
        self.n = 0
        self.mean = torch.zeros(columns, dtype=torch.float64)
        self.products = torch.zeros(columns, columns, dtype=torch.float64)

    def add(self, values: Tensor) -> None:
        """Take in rows (b, columns)."""
        m, mean = len(values), values.mean(0)
        centered, gap = values - mean, mean.cpu() - self.mean
        self.products += (centered.T @ centered).cpu() + torch.outer(gap, gap) * (self.n * m / (self.n + m))
        self.mean += gap * (m / (self.n + m))
        self.n += m

    def estimate(self, means: Tensor) -> Estimate:
        """The mean of the first column, less what the others explain of it."""
        value, left = self.mean[0], self.products[0, 0]
        if len(means):
            slope = torch.linalg.pinv(self.products[1:, 1:], hermitian=True) @ self.products[1:, 0]
            value = value - slope @ (self.mean[1:] - means)
            left = (left - slope @ self.products[1:, 0]).clamp(min=0)
        return Estimate(float(value), math.sqrt(float(left) / (self.n - 1 - len(means)) / self.n))


def _values(f: Function, control: Function | None, x: Tensor, size: int) -> Tensor:
    """f and the controls side by side, (b, 1 + c), in float64."""
    value = f(x)
    if value.shape != (size,):
        raise InvalidInput(
            f"monte_carlo: f of {size} draws has shape {tuple(value.shape)}; one number a draw, ({size},), is needed"
        )
    columns = [value[:, None]]
    if control is not None:
        columns.append(control(x).reshape(size, -1))
    return torch.cat([column.detach().double() for column in columns], 1)


def _control_means(control: Function | None, control_mean: Any) -> Tensor:
    if (control is None) != (control_mean is None):
        raise InvalidInput("monte_carlo: a control variate needs its exact mean; give control and control_mean")
    if control is None:
        return torch.zeros(0, dtype=torch.float64)
    return torch.as_tensor(control_mean, dtype=torch.float64).cpu().reshape(-1)


def _mirror(sampler: Sampler, antithetic: bool | Function) -> Function | None:
    """The map that takes a draw to one of the same law on the other side."""
    if antithetic is False or callable(antithetic):
        return antithetic or None
    law = sampler.base_dist if isinstance(sampler, Independent) else sampler
    if isinstance(law, _SYMMETRIC):
        center = 0.5 * (law.low + law.high) if isinstance(law, Uniform) else law.loc
        return lambda x: 2 * center - x
    if isinstance(law, Distribution) and not law.event_shape:
        return lambda x: law.icdf(1 - law.cdf(x))
    raise InvalidInput(
        "monte_carlo: this sampler has no mirror that is known; pass antithetic=f with a map that keeps its law"
    )
