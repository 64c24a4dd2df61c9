r"""Annealed Langevin dynamics: from the law of the noisiest data down to the data, level by level."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.seeds import generator as stream_of
from benthic.base.seeds import seed_of
from benthic.base.settings import is_whole, whole
from benthic.samplers.langevin.overdamped import normal_like

Score = Callable[[Tensor, Tensor], Tensor]


def noise_levels(largest: float, smallest: float, count: int) -> Tensor:
    """``count`` noise levels that fall geometrically, (count,) float64.

    Song & Ermon, 2019. largest: near the greatest distance between two examples (Song & Ermon, 2020).
    smallest: small beside the detail that matters.

    >>> noise_levels(1.0, 0.01, 3).tolist()
    [1.0, 0.1, 0.01]
    """
    if not (math.isfinite(largest) and largest > smallest > 0):
        raise InvalidInput(f"noise_levels: levels fall from {largest} to {smallest}; they must be positive and fall")
    whole("noise_levels: count", count, 2)
    powers = torch.linspace(0, 1, count, dtype=torch.float64)
    return largest * (smallest / largest) ** powers


def annealed_langevin(
    score: Score,
    sigmas: Tensor | Sequence[float],
    start: Tensor | Sequence[int],
    *,
    steps: int = 100,
    step_size: float = 0.1,
    denoise: bool = True,
    consistent: bool = False,
    keep: bool = False,
    generator: torch.Generator | None = None,
    seed: int | None = None,
) -> Tensor:
    r"""Draws from the data by Langevin steps at falling noise levels.

    .. math:: x' = x + \eta_\sigma\, s(x, \sigma) + \sqrt{2 \eta_\sigma}\; \xi, \qquad \eta_\sigma = \kappa \sigma^2

    Song & Ermon, 2019, algorithm 1, whose step is :math:`\alpha = 2 \eta`. At every level the law is that of the data
    plus noise of standard deviation :math:`\sigma`, and steps in proportion to :math:`\sigma^2` keep the ratio of
    signal to noise of an update the same at all levels.

    score(x, sigma): (n, \*event) gradient of the log density of the data with noise sigma, for points (n, \*event) and
    a level sigma of shape (). sigmas: levels that fall. start: points (n, \*event), or a shape to fill with noise of
    the first level. steps: how many at each level. step_size: :math:`\kappa`; 2 is the limit of stability where data
    are a point. denoise: end on the expected example, :math:`x + \sigma^2 s(x, \sigma)` (Jolicoeur-Martineau et al.,
    2021). consistent: steps add only as much noise as ``lowered`` says, and the last of each level leads to the next,
    so that points always have the noise of their level; where they have many coordinates, plain steps leave them with
    more, which a learned score may never have seen. keep: return the end of every level too, (levels, n, \*event).

    >>> exact = lambda x, sigma: -x / (1 + sigma ** 2)  # the data are standard normal
    >>> x = annealed_langevin(exact, noise_levels(5, 0.05, 20), (4000, 1), seed=0, denoise=False)
    >>> bool((x.var() - 1).abs() < 0.1)
    True
    """
    levels = _levels(sigmas)
    whole("annealed_langevin: steps", steps)
    if not 0 < step_size < 2:
        raise InvalidInput(f"annealed_langevin: step_size is {step_size}; it lies between 0 and 2, for example 0.1")
    x = _start(start, levels, generator, seed)
    stream = generator or stream_of(seed_of(seed), "annealed", device=x.device)
    ends = []
    for place, sigma in enumerate(levels.to(x)):
        eta, below = step_size * sigma.square(), levels[min(place + 1, len(levels) - 1)].to(x)
        for index in range(steps):
            slope = _score(score, x, sigma)
            if consistent:
                x = lowered(x, slope, sigma, below if index == steps - 1 else sigma, step_size, stream)
            else:
                x = x + eta * slope + (2 * eta).sqrt() * normal_like(x, stream)
        if not bool(x.isfinite().all()):
            raise InvalidInput(
                f"annealed_langevin: points ran away at noise level {float(sigma):g}; lower step_size, or the score is "
                "not that of data with this noise"
            )
        ends.append(x)
    if denoise:
        ends[-1] = x = x + sigma.square() * _score(score, x, sigma)
    return torch.stack(ends) if keep else x


def lowered(
    x: Tensor, slope: Tensor, sigma: Tensor, below: Tensor, step_size: float, generator: torch.Generator | None
) -> Tensor:
    r"""A Langevin step after which points with noise :math:`\sigma` have exactly the noise :math:`\sigma' \le \sigma`.

    .. math:: x' = x + \kappa \sigma^2 s(x, \sigma) + \sqrt{\sigma'^2 - (1 - \kappa)^2 \sigma^2}\; \xi

    Jolicoeur-Martineau et al., 2021. What is noise shrinks by :math:`1 - \kappa`, and the new noise makes up for the
    rest; where even none leaves too much, :math:`\kappa` is larger.

    slope: the score at x. below: :math:`\sigma'`. step_size: :math:`\kappa`.

    >>> x = torch.randn(4000, 1, generator=torch.Generator().manual_seed(0))
    >>> moved = lowered(x, -x, torch.tensor(1.0), torch.tensor(0.5), 0.1, None)  # all is noise
    >>> bool((moved.std() - 0.5).abs() < 0.02)
    True
    """
    kappa = (1 - below / sigma).clamp(min=step_size)
    fresh = (below.square() - ((1 - kappa) * sigma).square()).clamp(min=0).sqrt()
    return x + kappa * sigma.square() * slope + fresh * normal_like(x, generator)


def _levels(sigmas: Tensor | Sequence[float]) -> Tensor:
    levels = torch.as_tensor(sigmas, dtype=torch.float64)
    if levels.ndim != 1 or len(levels) == 0 or not bool((levels > 0).all() & levels.isfinite().all()):
        raise InvalidInput(f"annealed_langevin: sigmas are {sigmas!r:.80}; they are positive numbers, (levels,)")
    if bool((levels.diff() >= 0).any()):
        raise InvalidInput("annealed_langevin: sigmas do not fall; go from the largest noise to the smallest")
    return levels


def _start(
    start: Tensor | Sequence[int], levels: Tensor, generator: torch.Generator | None, seed: int | None
) -> Tensor:
    if isinstance(start, Tensor):
        if start.ndim < 2 or not start.is_floating_point():
            raise InvalidInput(f"annealed_langevin: start has shape {tuple(start.shape)}; points are floats (n, d)")
        return start.detach()
    shape = tuple(start)
    if len(shape) < 2 or not all(is_whole(n, 1) for n in shape):
        raise InvalidInput(f"annealed_langevin: start is {start!r}; it is a tensor (n, d) or a shape such as (64, 2)")
    stream = generator or stream_of(seed_of(seed), "annealed start")
    noise = torch.randn(shape, generator=stream, dtype=torch.get_default_dtype(), device=stream.device)
    return noise * float(levels[0])


def _score(score: Score, x: Tensor, sigma: Tensor) -> Tensor:
    value: Any = score(x, sigma)
    shape = tuple(value.shape) if isinstance(value, Tensor) else None
    if shape != tuple(x.shape):
        found = type(value).__name__ if shape is None else shape
        raise InvalidInput(f"annealed_langevin: score returned {found} for points {tuple(x.shape)}; it has their shape")
    slope: Tensor = value.detach()
    return slope
