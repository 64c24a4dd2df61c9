r"""Variational bounds of the likelihood, of steps or of continuous time.

.. math:: \log p(x_0) \ge \underbrace{\mathbb{E} \log p(x_0 \mid x_1)}_{\text{reconstruction}}
    - \underbrace{\sum_{t > 1} \mathbb{E}\, KL\big(q(x_{t-1} \mid x_t, x_0)\, \|\,
    p(x_{t-1} \mid x_t)\big)}_{\text{steps}}
    - \underbrace{KL\big(q(x_T \mid x_0)\, \|\, p(x_T)\big)}_{\text{prior}}
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput, nearest
from benthic.base.likelihood import Likelihood
from benthic.base.seeds import generator as stream_of
from benthic.base.seeds import seed_of
from benthic.base.settings import is_whole
from benthic.generative.diffusion.chain import DiscreteChain
from benthic.generative.diffusion.denoiser import Denoising
from benthic.generative.diffusion.grids import checked_times, time_grid
from benthic.generative.diffusion.likelihood import check_points
from benthic.generative.diffusion.process import Process, standard_normal
from benthic.generative.diffusion.solvers.base import Point, points
from benthic.generative.diffusion.solvers.onestep import posterior_mean, step_variances

FORMS = ("denoising", "consistency")
_LOG_2PI = math.log(2 * math.pi)


@dataclass(frozen=True)
class Bound:
    """A lower bound of log-densities (n,) in nats and its Monte-Carlo standard error, NaN for a single sample.

    Its parts, (n,) each: value = reconstruction − steps − prior.
    """

    value: Tensor
    stderr: Tensor
    prior: Tensor
    steps: Tensor
    reconstruction: Tensor

    def likelihood(self) -> Likelihood:
        """The same as the contract has it."""
        return Likelihood(self.value, self.stderr, "elbo", "lower", "density")


@torch.no_grad()
def discrete_bound(
    denoiser: Denoising,
    x: Tensor,
    *,
    times: Tensor | Sequence[float] | None = None,
    steps: int = 100,
    form: str = "denoising",
    variance: float = 0.0,
    decoder_scale: float | None = None,
    samples: int = 1,
    seed: int | None = None,
) -> Bound:
    r"""The bound of a model that goes back in steps.

    Sohl-Dickstein et al., 2015; Ho et al., 2020. Both forms have the same expectation. ``denoising`` compares a step
    with the exact one given the data, in closed form; ``consistency`` compares the forward step to a point with the
    backward step to it, :math:`\log q(x_t \mid x_{t-1}) - \log p(x_t \mid x_{t+1})`, which takes three random points a
    step and has a larger variance (given both its neighbors a point does not follow the forward step, so the
    expectation of this is no divergence, although it is often written as one).

    x: (n, \*event). times: falling, the last is that of the first noise; all times of a chain by default, elsewhere
    ``steps`` of them. variance: of a backward step, between the smallest (0) and the largest (1). decoder_scale: of
    the normal law of the data given the first noisy point; by default σ/α there. With a single time this is the bound
    of a variational autoencoder whose encoder is fixed. samples: independent estimates, over which it is averaged.
    """
    process = denoiser.process
    _check("discrete_bound", process, x, samples, decoder_scale)
    if form not in FORMS:
        raise InvalidInput(f"discrete_bound: form={form!r}{nearest(str(form), FORMS)}; use {' or '.join(FORMS)}")
    if not 0 <= variance <= 1:
        raise InvalidInput(f"discrete_bound: variance={variance}; it lies between 0 and 1")
    grid = points(process, _times(process, times, steps))
    stream = stream_of(seed_of(seed), "bound", device=x.device)
    estimate = _denoising_form if form == "denoising" else _consistency_form
    found = [estimate(denoiser, grid, x, variance, decoder_scale, stream) for _ in range(samples)]
    return _gathered(found)


@torch.no_grad()
def continuous_bound(
    denoiser: Denoising,
    x: Tensor,
    *,
    samples: int = 64,
    decoder_scale: float | None = None,
    seed: int | None = None,
) -> Bound:
    r"""The bound in the limit of many steps.

    .. math:: \text{steps} = -\tfrac12 \int \lambda'(t)\, \mathbb{E} \|\epsilon - \hat\epsilon(x_t, t)\|^2\, dt
        = \tfrac12 (\lambda_{\max} - \lambda_{\min})\, \mathbb{E}_{\lambda, \epsilon} \|\epsilon - \hat\epsilon\|^2

    with λ the logarithm of the signal-to-noise ratio. Kingma et al., 2021 (VDM). It does not depend on the process
    between its ends, and is equal to the log-density where the denoiser is exact. Levels are uniform in λ, one in each
    of ``samples`` equal parts (low discrepancy); each sample costs an evaluation.
    """
    process = denoiser.process
    _check("continuous_bound", process, x, samples, decoder_scale)
    top = process.t_finite
    first, last = points(process, [top, process.t_min])
    stream = stream_of(seed_of(seed), "bound", device=x.device)
    low, high = 2 * first.half_log_snr, 2 * last.half_log_snr
    prior = _prior(process, first, x)
    shift = torch.rand(len(x), generator=stream, dtype=x.dtype, device=x.device)
    found = []
    for i in range(samples):
        level = low + (high - low) * ((i + shift) / samples)
        t = process.time_of_log_snr(level)
        noise = standard_normal(x.shape, x, stream)
        gap = noise - denoiser.noise(process.mix(x, noise, t), t)
        between = 0.5 * (high - low) * gap.flatten(1).square().sum(1)
        found.append((prior, between, _reconstruction(denoiser, last, x, decoder_scale, stream)))
    return _gathered(found)


Parts = tuple[Tensor, Tensor, Tensor]  # prior, steps, reconstruction


def _denoising_form(
    denoiser: Denoising,
    grid: list[Point],
    x: Tensor,
    variance: float,
    decoder_scale: float | None,
    stream: torch.Generator,
) -> Parts:
    total = x.new_zeros(len(x))
    for here, there in pairwise(grid):
        noisy = here.alpha * x + here.sigma * standard_normal(x.shape, x, stream)
        small, large = step_variances(here, there)
        used = small ** (1 - variance) * large**variance
        away = posterior_mean(noisy, x, here, there) - posterior_mean(noisy, denoiser.data(noisy, here.t), here, there)
        total = total + _normal_kl(away, small, used)
    return _prior(denoiser.process, grid[0], x), total, _reconstruction(denoiser, grid[-1], x, decoder_scale, stream)


def _consistency_form(
    denoiser: Denoising,
    grid: list[Point],
    x: Tensor,
    variance: float,
    decoder_scale: float | None,
    stream: torch.Generator,
) -> Parts:
    """The same bound from the forward steps to x_t, beginning with x_0, and the backward steps to it from x_{t+1}."""
    process, total = denoiser.process, x.new_zeros(len(x))
    low_to_high = grid[::-1]
    start = Point(0.0, 1.0, 0.0)
    for i, (here, above) in enumerate(pairwise(low_to_high)):
        before = start if i == 0 else low_to_high[i - 1]
        earlier = before.alpha * x + before.sigma * standard_normal(x.shape, x, stream)
        small, large = step_variances(above, here)
        used = small ** (1 - variance) * large**variance
        mean, spread = here.alpha / before.alpha * earlier, step_variances(here, before)[1]
        between = mean + math.sqrt(spread) * standard_normal(x.shape, x, stream)
        onward = above.alpha / here.alpha
        later = onward * between + math.sqrt(large) * standard_normal(x.shape, x, stream)
        back = posterior_mean(later, denoiser.data(later, above.t), above, here)
        total = total + _log_normal(between - mean, spread) - _log_normal(between - back, used)
    last, before = low_to_high[-1], low_to_high[-2] if len(grid) > 1 else start
    earlier = before.alpha * x + before.sigma * standard_normal(x.shape, x, stream)
    mean, spread = last.alpha / before.alpha * earlier, step_variances(last, before)[1]
    prior = _normal_kl(mean, spread, process.prior_scale() ** 2)
    return prior, total, _reconstruction(denoiser, low_to_high[0], x, decoder_scale, stream)


def _normal_kl(away: Tensor, first: float, second: float) -> Tensor:
    """KL between normal laws of these variances, the means of which differ by ``away`` (n, ...)."""
    size = away[0].numel()
    constant = 0.5 * size * (first / second - 1 - math.log(first / second))
    return 0.5 * away.flatten(1).square().sum(1) / second + constant


def _log_normal(away: Tensor, variance: float) -> Tensor:
    """The log-density (n,) of a normal law at a distance from its mean."""
    return -0.5 * (away.flatten(1).square().sum(1) / variance + away[0].numel() * (_LOG_2PI + math.log(variance)))


def _prior(process: Process, point: Point, x: Tensor) -> Tensor:
    return _normal_kl(point.alpha * x, point.sigma**2, process.prior_scale() ** 2)


def _reconstruction(
    denoiser: Denoising, point: Point, x: Tensor, scale: float | None, stream: torch.Generator
) -> Tensor:
    """log p(x_0 | x_1): a normal law about the expected data."""
    scale = point.sigma / point.alpha if scale is None else scale
    noisy = point.alpha * x + point.sigma * standard_normal(x.shape, x, stream)
    return _log_normal(x - denoiser.data(noisy, point.t), scale**2)


def _gathered(found: list[Parts]) -> Bound:
    """The mean of independent estimates."""
    prior, steps, reconstruction = (torch.stack(part) for part in zip(*found, strict=True))
    values = reconstruction - steps - prior
    error = values.std(0) / len(values) ** 0.5 if len(values) > 1 else torch.full_like(values[0], math.nan)
    return Bound(values.mean(0), error, prior.mean(0), steps.mean(0), reconstruction.mean(0))


def _times(process: Process, times: Tensor | Sequence[float] | None, steps: int) -> Tensor:
    if times is None:
        if isinstance(process, DiscreteChain):
            return torch.arange(process.length, 0, -1, dtype=torch.float64)
        return time_grid(process, steps, "log_snr")
    grid = torch.as_tensor(times, dtype=torch.float64).reshape(-1)
    if len(grid) != 1:
        return checked_times(process, grid)
    if not process.t_min <= float(grid) <= process.t_max:
        raise InvalidInput(
            f"discrete_bound: t={float(grid):g} is the only time; it lies between {process.t_min:g} and "
            f"{process.t_max:g}"
        )
    return grid


def _check(where: str, process: Process, x: Tensor, samples: int, decoder_scale: float | None) -> None:
    check_points(where, x)
    if not process.gaussian:
        raise InvalidInput(f"{where}: {type(process).__name__} has no normal steps; use log_likelihood")
    if not is_whole(samples, 1):
        raise InvalidInput(f"{where}: samples={samples!r}; at least one is needed")
    if decoder_scale is not None and not 0 < decoder_scale < math.inf:
        raise InvalidInput(f"{where}: decoder_scale={decoder_scale}; a standard deviation is positive")


def bound_weight(chain: DiscreteChain, t: Tensor, variance: float = 0.0) -> Tensor:
    r"""The weight of the squared error of the noise in the bound, for each step t > 1 of a chain.

    .. math:: \frac{\beta_t^2}{2\, v_t\, (1 - \beta_t)\, (1 - \bar\alpha_t)}

    Ho et al., 2020, equation 12. v: the variance of the step, between the smallest (0) and the largest (1).
    """
    betas, kept = chain.betas().to(t.device), chain.alpha_bars().to(t.device)
    index = t.long()
    beta, now, before = betas[index - 1], kept[index], kept[index - 1]
    small = beta * (1 - before) / (1 - now)
    used = small ** (1 - variance) * beta**variance
    return beta.square() / (2 * used * (1 - beta) * (1 - now))
