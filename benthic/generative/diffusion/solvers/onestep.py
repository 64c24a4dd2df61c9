"""Samplers that need nothing but the present points: ancestral, DDIM, Euler and Heun."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.settings import is_number
from benthic.generative.diffusion.denoiser import Denoising
from benthic.generative.diffusion.solvers.base import Normal, Point, Sampler


def step_variances(here: Point, there: Point) -> tuple[float, float]:
    r"""The smallest and largest variance that a step back may have, :math:`\tilde\beta` and :math:`\beta`.

    .. math:: \beta = \sigma_t^2 - (\alpha_t / \alpha_s)^2 \sigma_s^2, \qquad
        \tilde\beta = \beta\, \sigma_s^2 / \sigma_t^2

    Ho et al., 2020: right for data that are a point, and for data that are normal with unit variance. here: t.
    there: s, with less noise.
    """
    ratio = here.alpha / there.alpha
    beta = here.sigma**2 - (ratio * there.sigma) ** 2
    return beta * (there.sigma / here.sigma) ** 2, beta


def posterior_mean(x: Tensor, x0: Tensor, here: Point, there: Point) -> Tensor:
    r"""The mean of the points at ``there`` given those at ``here`` and the data.

    .. math:: \mu = \frac{(\alpha_t / \alpha_s)\, \sigma_s^2\, x_t + \alpha_s\, \beta\, x_0}{\sigma_t^2}
    """
    _, beta = step_variances(here, there)
    ratio = here.alpha / there.alpha
    return (ratio * there.sigma**2 * x + there.alpha * beta * x0) / here.sigma**2


@dataclass(frozen=True)
class Ancestral(Sampler):
    r"""One step of the reversed chain after another, with fresh noise in each but the last.

    .. math:: x_s = \mu(x_t, \hat x_0) + \sqrt{v}\, z, \qquad \log v = (1 - w) \log \tilde\beta + w \log \beta

    Ho et al., 2020; the interpolation: Nichol & Dhariwal, 2021. variance: w, 0 for the smallest variance and 1 for the
    largest, or ``learned``, what the denoiser says.
    """

    variance: float | str = 0.0

    def __post_init__(self) -> None:
        if self.variance != "learned" and not (is_number(self.variance) and 0 <= self.variance <= 1):
            raise InvalidInput(f"Ancestral: variance={self.variance!r}; a number between 0 and 1, or 'learned'")

    @property
    def stochastic(self) -> bool:
        """Whether it adds noise."""
        return True

    def step(
        self, denoiser: Denoising, here: Point, there: Point, x: Tensor, memory: Any, normal: Normal
    ) -> tuple[Tensor, Any]:
        """One step back."""
        small, large = step_variances(here, there)
        x0, fraction = denoiser.data_and_fraction(x, here.t)
        mean = posterior_mean(x, x0, here, there)
        if self.variance != "learned":
            scale = small ** (0.5 * (1 - float(self.variance))) * large ** (0.5 * float(self.variance))
            return mean + scale * normal(x), None
        if fraction is None:
            raise InvalidInput(
                "Ancestral: variance='learned', but the denoiser says nothing of it; take a number from 0 to 1"
            )
        low, rise = 0.5 * math.log(small), 0.5 * math.log(large / small)
        return mean + torch.exp(low + rise * fraction) * normal(x), None


@dataclass(frozen=True)
class DDIM(Sampler):
    r"""Steps that keep the noise they find, or part of it.

    .. math:: x_s = \alpha_s \hat x_0 + \sqrt{\sigma_s^2 - \eta^2 \tilde\beta}\; \hat\epsilon
        + \eta \sqrt{\tilde\beta}\; z

    Song, Meng & Ermon, 2021. eta: 0 adds no noise and is Euler's step of :math:`x / \alpha` in
    :math:`\sigma / \alpha`; 1 is the ancestral step of the smallest variance.
    """

    eta: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.eta <= 1:
            raise InvalidInput(f"DDIM: eta={self.eta}; it lies between 0 (no noise) and 1 (ancestral)")

    @property
    def stochastic(self) -> bool:
        """Whether it adds noise."""
        return self.eta > 0

    def step(
        self, denoiser: Denoising, here: Point, there: Point, x: Tensor, memory: Any, normal: Normal
    ) -> tuple[Tensor, Any]:
        """One step back."""
        x0 = denoiser.data(x, here.t)
        fresh = self.eta**2 * step_variances(here, there)[0] if self.eta else 0.0
        kept = math.sqrt(max(there.sigma**2 - fresh, 0.0)) / here.sigma
        moved = kept * x + (there.alpha - kept * here.alpha) * x0
        return (moved + math.sqrt(fresh) * normal(x) if fresh else moved), None


@dataclass(frozen=True)
class Euler(Sampler):
    """Euler's steps along the probability flow, in the time of the process: first order."""

    def step(
        self, denoiser: Denoising, here: Point, there: Point, x: Tensor, memory: Any, normal: Normal
    ) -> tuple[Tensor, Any]:
        """One step back."""
        return x + (there.t - here.t) * denoiser.flow(x, here.t), None


@dataclass(frozen=True)
class Heun(Sampler):
    r"""Heun's steps along the probability flow, each after a little fresh noise if that is asked for: second order.

    Karras et al., 2022, algorithm 2. churn: the noise added in all, of which each step gets an equal part: it raises
    :math:`\sigma / \alpha` by the factor 1 + min(churn / steps, √2 − 1). low, high: values of σ/α between which that is
    done. noise_scale: how much too large the added noise is, to make up for a network that removes too much.
    """

    churn: float = 0.0
    low: float = 0.0
    high: float = math.inf
    noise_scale: float = 1.0

    evaluations: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if not (math.isfinite(self.churn) and self.churn >= 0 and self.noise_scale > 0):
            raise InvalidInput(
                f"Heun: churn={self.churn}, noise_scale={self.noise_scale}; churn is at least 0, noise_scale positive"
            )
        if not 0 <= self.low < self.high:
            raise InvalidInput(f"Heun: noise is added from {self.low} to {self.high}; these must rise")

    @property
    def order(self) -> int:
        """Two, and one (of expectations) with added noise, whose amount is that of a step."""
        return 2

    @property
    def stochastic(self) -> bool:
        """Whether it adds noise."""
        return self.churn > 0

    def step(
        self, denoiser: Denoising, here: Point, there: Point, x: Tensor, memory: Any, normal: Normal
    ) -> tuple[Tensor, Any]:
        """One step back."""
        x, t = self._stirred(denoiser, here, x, normal)
        length = there.t - t
        slope = denoiser.flow(x, t)
        guess = x + length * slope
        return x + 0.5 * length * (slope + denoiser.flow(guess, there.t)), None

    def _stirred(self, denoiser: Denoising, here: Point, x: Tensor, normal: Normal) -> tuple[Tensor, float]:
        """Points with a little more noise, and the time they then belong to."""
        ratio = here.sigma / here.alpha if here.alpha > 0 else math.inf
        if not (self.churn and self.low <= ratio <= self.high and math.isfinite(ratio)):
            return x, here.t
        process = denoiser.process
        most = math.exp(-0.5 * float(process.log_snr(process.t_finite)))
        raised = min(ratio * (1 + min(self.churn / here.count, math.sqrt(2) - 1)), max(most, ratio))
        if raised <= ratio:
            return x, here.t
        t = float(process.time_of_noise(raised))
        alpha = float(process.alpha(t))
        added = alpha * self.noise_scale * math.sqrt(raised**2 - ratio**2)
        return alpha / here.alpha * x + added * normal(x), t
