r"""What a denoiser is trained on: its error at random times, weighed.

With the error of the expected noise, :math:`\epsilon - \hat\epsilon`, every usual loss is a weight :math:`w(t)` of its
square; a network with another target is trained on the square of its own error times the weight that amounts to.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput, nearest
from benthic.generative.diffusion.denoiser import Denoiser
from benthic.generative.diffusion.process import Process, expand_like
from benthic.generative.diffusion.score_matching import exact_score_matching, sliced_score_matching
from benthic.generative.diffusion.stable import expected_among, may_be_behind
from benthic.generative.diffusion.targets import convert, network_target, preconditioner
from benthic.generative.diffusion.times import TimeLaw
from benthic.nets.embedding import forget

WEIGHTINGS = ("simple", "noise", "variational", "min_snr", "edm")
MATCHINGS = ("denoising", "stable", "sliced", "exact")
_FIELD_WEIGHTINGS = ("simple", "edm")
_MIN_SNR = 5.0
_SILENT = math.log1p(math.e)  # what a network of a field that begins at zero says of the part away from the data
_RISE = 1000.0  # and by which factor it may be changed
_POINTS, _CHARGES = 256, 8  # points of a batch where a field is learned: so many, or one for so many charges
_LITTLE = 0.02  # noise, in standard units, under which the nearest charges of a batch hide the field of the data
_HYBRID = 1e-3  # weight of the variational term that teaches the variance, Nichol & Dhariwal, 2021


@dataclass(frozen=True)
class StartedDenoiser(Denoiser):
    r"""A denoiser whose network adds to the answer that is right for normal data of standard deviation ``sigma_data``.

    .. math:: \hat x_0 = c_{skip}\, x + \dots

    A network that begins at zero begins with a model that has the mean and the spread of the data.
    """

    def answer(self, x: Tensor, t: Any) -> tuple[Any, Tensor | None]:
        """What the network says on top of the linear answer, and the fraction of the variance where it says that."""
        answer, fraction = super().answer(x, t)
        if self.target == "edm":
            return answer, fraction
        if self.target == "field":
            return self._field(x, t, *answer), fraction
        skip = expand_like(preconditioner(self.process, t, self._spread, x)[0], x)
        return answer + convert(self.process, skip * x, x, t, "data", self.target), fraction

    def _field(self, x: Tensor, t: Any, change: Tensor, away: Tensor) -> tuple[Tensor, Tensor]:
        """The field of normal data with the changes that the network asks for, along x and away from the data."""
        skip, out, _ = (expand_like(factor, x) for factor in preconditioner(self.process, t, self._spread, x))
        along, radius = x - skip * x - out * change, expand_like(self.process.radius(t), x)
        length = field_length(along, radius)
        share = (out / length).flatten(1)[:, 0].clamp(max=1)  # far away there is little to change
        rise = (away / _SILENT).clamp(1 / _RISE, _RISE) ** share
        return along / length, rise * (radius / length).flatten(1)[:, 0]


def field_length(along: Tensor, radius: Tensor) -> Tensor:
    """The length of a field (n, ...) with this part away from the data, of a shape that broadcasts with it."""
    total = along.flatten(1).square().sum(1).reshape(-1, *[1] * (along.ndim - 1))
    return (total + radius.square()).sqrt()


def slope_errors(answer: tuple[Tensor, Tensor], slope: Tensor) -> Tensor:
    r"""Squared errors (n,) of the slope of the lines of a field, its part along x for one part away from the data.

    .. math:: \frac{\|\hat v - v\|^2}{1 + \|\hat v\|^2}, \qquad \hat v = \hat E_x / \hat E_r

    The slope is a mean over the data behind a point, and so is that of a batch on average, whatever its size; the
    direction of length one is not: learned from batches, lines leave the data too straight.
    The weight, which no gradient flows through, keeps the gaps between data, where slopes are great, from deciding all.

    answer: the field along x (n, \*event), and away (n,). slope: that of the batch, (n, \*event).

    >>> slope_errors((torch.tensor([[1.0, 0.0]]), torch.tensor([0.5])), torch.tensor([[2.0, 1.0]]))
    tensor([0.2000])
    """
    found = answer[0] / expand_like(answer[1], slope)
    steep = found.detach().flatten(1).square().sum(1)
    return (found - slope).flatten(1).square().sum(1) / (1 + steep)


def noise_factor(process: Process, t: Tensor, target: str, sigma_data: float) -> Tensor:
    """The square of the error of the noise for an error of one in this target, (n,)."""
    alpha, sigma = process.alpha(t), process.sigma(t)
    if target == "noise":
        return torch.ones_like(sigma)
    if target == "data":
        return (alpha / sigma).square()
    if target == "score":
        return sigma.square()
    if target == "velocity":
        return (alpha / (alpha.square() + sigma.square())).square()
    if target == "edm":
        return (alpha / sigma * preconditioner(process, t, sigma_data)[1]).square()
    return (alpha / (alpha * process.sigma_rate(t) - sigma * process.alpha_rate(t))).square()  # flow


def weight_of(process: Process, t: Tensor, target: str, weighting: str, sigma_data: float) -> Tensor:
    r"""The weight (n,) of the squared error of a network with this target.

    ``simple``: 1, in the network's own target. In terms of the noise error: ``noise``: 1 (Ho et al., 2020);
    ``variational``: :math:`-\tfrac12 \tfrac{d}{dt} \log \mathrm{SNR}`, the bound of Kingma et al., 2021; ``min_snr``:
    :math:`\min(\mathrm{SNR}, 5) / \mathrm{SNR}` (Hang et al., 2023); ``edm``: that of a preconditioned network, 1
    (Karras et al., 2022).

    >>> from benthic.generative.diffusion import AddedNoise
    >>> float(weight_of(AddedNoise(), torch.tensor([2.0]), "edm", "edm", 0.5))
    1.0
    """
    if weighting not in WEIGHTINGS:
        hint = nearest(str(weighting), WEIGHTINGS)
        raise InvalidInput(f"weighting {weighting!r} is unknown{hint}; use {', '.join(WEIGHTINGS)}")
    if weighting == "simple" or weighting == target:
        return torch.ones_like(t)
    factor = noise_factor(process, t, target, sigma_data)
    if weighting == "noise":
        return factor
    if weighting == "variational":
        return -0.5 * process.log_snr_rate(t) * factor
    if weighting == "edm":
        return factor / noise_factor(process, t, "edm", sigma_data)
    snr = (process.alpha(t) / process.sigma(t)).square()
    return factor * (_MIN_SNR / snr).clamp(max=1.0)


@dataclass(frozen=True)
class DenoisingObjective:
    r"""The loss of each row at a random time: the weighed square of the network's error, a mean over entries.

    .. math:: \ell = w(t)\, \tfrac1d\, \| f(x_t, t) - y(x_0, \epsilon, t) \|^2

    Vincent, 2011; Ho et al., 2020. With a learned variance the variational bound of one step of a chain is added,
    which teaches the variance alone (the hybrid loss of Nichol & Dhariwal, 2021). ``stable`` matching takes as the data
    of each point what the whole batch expects there; ``sliced`` and ``exact`` matching learn the score of the noisy
    data from themselves. A network of target ``field`` learns the field of the batch as charges: with the weighting
    ``simple`` its direction, of length one, as in Xu et al., 2022; with ``edm`` its slope, see :func:`slope_errors`.
    Nothing here waits for the device or draws on the host.

    times: the law of times. forgets: in which share of the rows the condition is replaced by the null one.
    condition_kind, classes: see ``forget``.
    """

    process: Process
    target: str = "noise"
    weighting: str = "simple"
    times: TimeLaw = field(default_factory=TimeLaw)
    sigma_data: float = 1.0
    sees: str = "time"
    learned_variance: bool = False
    matching: str = "denoising"
    condition_kind: str = "none"
    classes: int = 0
    forgets: float = 0.0

    def __post_init__(self) -> None:
        if self.matching not in MATCHINGS:
            hint = nearest(str(self.matching), MATCHINGS)
            raise InvalidInput(f"matching {self.matching!r} is unknown{hint}; use {', '.join(MATCHINGS)}")
        if self.learned_variance and not hasattr(self.process, "betas"):
            raise InvalidInput("a learned variance is that of the steps of a chain; use process='ddpm'")
        if self.target == "field" and (self.weighting not in _FIELD_WEIGHTINGS or self.matching in ("sliced", "exact")):
            raise InvalidInput(
                f"target='field' is learned from a batch as charges, with weighting 'simple' or 'edm'; weighting is "
                f"{self.weighting!r} and matching {self.matching!r}"
            )
        if self.matching in ("sliced", "exact") and not self.process.gaussian:
            raise InvalidInput(
                f"matching={self.matching!r} learns the score, which is not that of the expected data under the noise "
                f"of {type(self.process).__name__}; use 'denoising' or 'stable'"
            )
        self.denoiser(torch.zeros_like)  # which knows the targets there are
        weight_of(self.process, torch.full((1,), self.process.t_min), "noise", self.weighting, self.sigma_data)

    def denoiser(self, network: Callable[..., Any], condition: Tensor | None = None) -> StartedDenoiser:
        """The denoiser that a network trained on this is."""
        return StartedDenoiser(
            self.process,
            network,
            self.target,
            condition,
            sees=self.sees,
            sigma_data=self.sigma_data,
            learned_variance=self.learned_variance,
        )

    def __call__(self, network: Callable[..., Any], x0: Tensor, condition: Tensor | None = None) -> Tensor:
        """Losses (n,) of clean data (n, ...)."""
        if condition is not None and self.forgets:
            condition = forget(condition, self.condition_kind, self.classes, self.forgets)
        n = len(x0)
        k = min(n, max(_POINTS, n // _CHARGES)) if self.target == "field" else n
        t = self.times.draw(self.process, k, x0)
        noise = self.process.draw_noise((k, *x0.shape[1:]), x0)
        losses = self.at(network, x0, t, noise, condition)
        return losses if k == n else torch.cat([losses * (n / k), losses.new_zeros(n - k)])

    def at(
        self, network: Callable[..., Any], x0: Tensor, t: Tensor, noise: Tensor, condition: Tensor | None = None
    ) -> Tensor:
        """Losses (k,) at these times and with this noise, of the first k of the data (n, ...)."""
        batch, x0, given = x0, x0[: len(t)], condition
        x = self.process.mix(x0, noise, t)
        denoiser = self.denoiser(network, None if condition is None else condition[: len(t)])
        if self.matching in ("sliced", "exact"):
            return self._matched(denoiser, x, t)
        answer, fraction = denoiser.answer(x, t)
        if self.target == "field":
            return self._field_errors(answer, x, self._expected(x, t, batch, given), t)
        expected = x0
        if self.matching == "stable":
            expected = self._expected(x, t, batch, given)
            noise = (x - expand_like(self.process.alpha(t), x) * expected) / expand_like(self.process.sigma(t), x)
        wanted = network_target(self.process, expected, noise, t, self.target, self.sigma_data)
        errors: Tensor = (answer - wanted).flatten(1).square().mean(1)
        losses = weight_of(self.process, t, self.target, self.weighting, self.sigma_data).to(errors.dtype) * errors
        if fraction is not None:
            data = convert(self.process, answer.detach(), x, t, self.target, "data")
            losses = losses + _HYBRID * chain_bound(self.process, x0, x, data, fraction, t)
        return losses

    def _expected(self, x: Tensor, t: Tensor, batch: Tensor, condition: Tensor | None) -> Tensor:
        """What the batch expects behind noisy points of its first examples, given what each of them is told."""
        allowed = None
        if condition is not None:
            allowed = may_be_behind(condition, self.condition_kind, self.classes)[: len(x)]
        return expected_among(self.process, x, t, batch, allowed)

    def _field_errors(self, answer: tuple[Tensor, Tensor], x: Tensor, expected: Tensor, t: Tensor) -> Tensor:
        """The square of the error of the field of length one, a mean over its entries, or of its slope."""
        process: Any = self.process
        radius, size = expand_like(process.radius(t), x), 1 + x[0].numel()
        along = x - expected
        if self.weighting == "edm":
            errors = slope_errors(answer, along / radius) / size
            sigma, out = process.sigma(t), preconditioner(process, t, self.sigma_data)[1]
            weight: Tensor = (process.radius(t) / out).square() * sigma / (sigma + _LITTLE * self.sigma_data)
            return errors * weight.to(errors.dtype)
        length = field_length(along, radius)
        errors = (answer[0] - along / length).flatten(1).square().sum(1)
        return (errors + (answer[1] - (radius / length).flatten(1)[:, 0]).square()) / size

    def _matched(self, denoiser: Denoiser, x: Tensor, t: Tensor) -> Tensor:
        matching = exact_score_matching if self.matching == "exact" else sliced_score_matching
        found = matching(lambda points: denoiser.score(points, t), x)
        size = x[0].numel()
        return self.process.sigma(t).square() * found / size + 0.5  # about the denoising loss, up to a constant


def chain_bound(process: Any, x0: Tensor, x: Tensor, data: Tensor, fraction: Tensor, t: Tensor) -> Tensor:
    r"""The term of the variational bound of one step of a chain, in nats times the steps, a mean over entries.

    .. math:: T \cdot KL\big(q(x_{t-1} | x_t, x_0) \,\|\, N(\mu(x_t, \hat x_0), e^{v \log\beta_t +
        (1 - v) \log\tilde\beta_t})\big)

    At t = 1, where q has no spread, the log-density of the data itself. data: the expected data, through which no
    gradient should flow. fraction: v, in [0, 1].
    """
    before = t - 1
    alpha, sigma = process.alpha(t), process.sigma(t)
    alpha_before, sigma_before = process.alpha(before), process.sigma(before)
    step = 1 - (alpha / alpha_before).square()  # beta
    least = step * (sigma_before / sigma).square()  # beta tilde, zero in the first step
    floor = process.betas()[:2].tolist()
    tiny = floor[0] * (1 - floor[0]) if len(floor) < 2 else floor[1] * floor[0] / (floor[0] + floor[1])
    low, high = least.clamp_min(tiny).log(), step.log()
    log_variance = expand_like(low, x) + fraction * expand_like(high - low, x)
    shrink = expand_like(alpha_before * step / sigma.square(), x)  # how far the mean moves with the data
    miss = shrink.square() * (x0 - data).square()
    first = expand_like((before < 0.5).to(x.dtype), x)
    kl = 0.5 * ((expand_like(least, x) + miss) * (-log_variance).exp() - 1 + log_variance - expand_like(low, x))
    density = 0.5 * (miss * (-log_variance).exp() + log_variance + math.log(2 * math.pi))
    terms = first * density + (1 - first) * kl
    return int(process.length) * terms.flatten(1).mean(1)
