"""Processes of continuous time: variance kept, nearly kept, or exploding, plain added noise, and straight paths."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from benthic.base.errors import InvalidInput
from benthic.generative.diffusion.process import Process, Time, as_time


@dataclass(frozen=True)
class VP(Process):
    r"""The variance-preserving process with a linear rate of noise.

    .. math:: \log \alpha(t) = -\tfrac14 t^2 (\beta_1 - \beta_0) - \tfrac12 t \beta_0, \qquad \sigma^2 = 1 - \alpha^2

    Song et al., 2021; the limit of many steps of Ho et al., 2020. beta_min, beta_max: the rates at times 0 and 1.

    >>> process = VP()
    >>> process.alpha(0.0), process.sigma(1.0)
    (tensor(1., dtype=torch.float64), tensor(1.0000, dtype=torch.float64))
    """

    t_min: float = 1e-4
    t_max: float = 1.0
    beta_min: float = 0.1
    beta_max: float = 20.0
    grid: ClassVar[str] = "log_snr"

    def check(self) -> None:
        """Refuse rates that do not make noise grow."""
        super().check()
        if not 0 < self.beta_min < self.beta_max < math.inf:
            raise InvalidInput(
                f"{type(self).__name__}: beta_min={self.beta_min} and beta_max={self.beta_max}; "
                "rates must be positive and rise"
            )

    def log_alpha(self, t: Time) -> Tensor:
        """The logarithm of ``alpha``."""
        t = as_time(t)
        return -0.25 * t * t * (self.beta_max - self.beta_min) - 0.5 * t * self.beta_min

    def beta(self, t: Time) -> Tensor:
        """The rate of noise."""
        return self.beta_min + as_time(t) * (self.beta_max - self.beta_min)

    def alpha(self, t: Time) -> Tensor:
        """How much of the data is left."""
        return self.log_alpha(t).exp()

    def sigma(self, t: Time) -> Tensor:
        """How much noise there is."""
        return (-torch.expm1(2 * self.log_alpha(t))).sqrt()

    def alpha_rate(self, t: Time) -> Tensor:
        """The derivative of ``alpha`` by time."""
        return -0.5 * self.beta(t) * self.alpha(t)

    def sigma_rate(self, t: Time) -> Tensor:
        """The derivative of ``sigma`` by time."""
        return 0.5 * self.beta(t) * self.alpha(t).square() / self.sigma(t)

    def log_snr(self, t: Time) -> Tensor:
        """The logarithm of the signal-to-noise ratio."""
        return 2 * (self.log_alpha(t) - self.sigma(t).log())

    def time_of_log_alpha(self, value: Tensor) -> Tensor:
        """The time at which the logarithm of ``alpha`` has this value."""
        rise, low = self.beta_max - self.beta_min, self.beta_min
        return -4 * value / (low + (low * low - 4 * rise * value).sqrt())

    def time_of_log_snr(self, value: Time) -> Tensor:
        """The time at which the log signal-to-noise ratio has this value."""
        return self.time_of_log_alpha(0.5 * F.logsigmoid(as_time(value)))

    def prior_scale(self) -> float:
        """One: the variance is kept."""
        return 1.0


@dataclass(frozen=True)
class SubVP(VP):
    r"""The sub-VP process, with less noise than VP has for the same signal.

    .. math:: \sigma(t) = 1 - \alpha(t)^2, \qquad g^2 = \beta(t) (1 - \alpha(t)^4)

    Song et al., 2021, made for likelihoods.
    """

    def sigma(self, t: Time) -> Tensor:
        """How much noise there is."""
        return -torch.expm1(2 * self.log_alpha(t))

    def sigma_rate(self, t: Time) -> Tensor:
        """The derivative of ``sigma`` by time."""
        return self.beta(t) * self.alpha(t).square()

    def time_of_log_snr(self, value: Time) -> Tensor:
        """The time at which the log signal-to-noise ratio has this value."""
        # alpha / (1 - alpha^2) = q, so alpha = (root(1 + 4 q^2) - 1) / 2q; with p = 1/q both ends are exact.
        p = (-0.5 * as_time(value)).exp()
        return self.time_of_log_alpha(-torch.asinh(0.5 * p))


@dataclass(frozen=True)
class CosineVP(Process):
    r"""The variance-preserving process whose signal falls like a cosine.

    .. math:: \alpha(t) = \frac{\cos a(t)}{\cos a(0)}, \qquad a(t) = \frac{\pi}{2} \frac{t + s}{1 + s}

    Nichol & Dhariwal, 2021. offset: s. At t = 1 the signal would be zero, so time ends a little before.
    """

    t_min: float = 1e-4
    t_max: float = 0.9946
    offset: float = 0.008
    grid: ClassVar[str] = "log_snr"

    def check(self) -> None:
        """Refuse times after 1."""
        super().check()
        if self.t_max > 1 or not self.offset >= 0:
            raise InvalidInput(
                f"CosineVP: t_max={self.t_max}, offset={self.offset}; time ends at 1 and offset is not negative"
            )

    def _angles(self, t: Time) -> tuple[Tensor, float, float]:
        rate = 0.5 * math.pi / (1 + self.offset)
        return rate * (as_time(t) + self.offset), rate * self.offset, rate

    def alpha(self, t: Time) -> Tensor:
        """How much of the data is left."""
        angle, first, _ = self._angles(t)
        return angle.cos() / math.cos(first)

    def sigma(self, t: Time) -> Tensor:
        """How much noise there is."""
        angle, first, _ = self._angles(t)
        return (torch.sin(angle - first) * torch.sin(angle + first)).clamp_min(0).sqrt() / math.cos(first)

    def alpha_rate(self, t: Time) -> Tensor:
        """The derivative of ``alpha`` by time."""
        angle, first, rate = self._angles(t)
        return -rate * angle.sin() / math.cos(first)

    def sigma_rate(self, t: Time) -> Tensor:
        """The derivative of ``sigma`` by time."""
        return -self.alpha(t) * self.alpha_rate(t) / self.sigma(t)

    def time_of_log_snr(self, value: Time) -> Tensor:
        """The time at which the log signal-to-noise ratio has this value."""
        _, first, rate = self._angles(0.0)
        value = as_time(value)
        # sin^2(angle) = sin^2(first) + cos^2(first) sigma^2 keeps its digits where there is little noise.
        sine = math.sin(first) ** 2 + math.cos(first) ** 2 * torch.sigmoid(-value)
        cosine = math.cos(first) * torch.sigmoid(value).sqrt()
        return torch.atan2(sine.sqrt(), cosine) / rate - self.offset

    def prior_scale(self) -> float:
        """One: the variance is kept."""
        return 1.0

    @property
    def t_finite(self) -> float:
        """The last time at which there is some signal."""
        return min(self.t_max, 0.9999)


@dataclass(frozen=True)
class VE(Process):
    r"""The variance-exploding process: data stay, noise grows geometrically.

    .. math:: \alpha = 1, \qquad \sigma(t) = \sigma_{\min} (\sigma_{\max} / \sigma_{\min})^t

    Song et al., 2021. sigma_min, sigma_max: noise at times 0 and 1.
    """

    t_min: float = 0.0
    t_max: float = 1.0
    sigma_min: float = 0.01
    sigma_max: float = 50.0

    def check(self) -> None:
        """Refuse noise that does not grow."""
        super().check()
        if not 0 < self.sigma_min < self.sigma_max < math.inf:
            raise InvalidInput(
                f"VE: sigma_min={self.sigma_min} and sigma_max={self.sigma_max}; they must be positive and rise"
            )

    @property
    def _growth(self) -> float:
        return math.log(self.sigma_max / self.sigma_min)

    def alpha(self, t: Time) -> Tensor:
        """One."""
        return torch.ones_like(as_time(t))

    def sigma(self, t: Time) -> Tensor:
        """How much noise there is."""
        return self.sigma_min * (as_time(t) * self._growth).exp()

    def alpha_rate(self, t: Time) -> Tensor:
        """Zero."""
        return torch.zeros_like(as_time(t))

    def sigma_rate(self, t: Time) -> Tensor:
        """The derivative of ``sigma`` by time."""
        return self._growth * self.sigma(t)

    def time_of_log_snr(self, value: Time) -> Tensor:
        """The time at which the log signal-to-noise ratio has this value."""
        return (-0.5 * as_time(value) - math.log(self.sigma_min)) / self._growth


@dataclass(frozen=True)
class AddedNoise(Process):
    r"""Data stay, and time is the standard deviation of the noise.

    .. math:: \alpha = 1, \qquad \sigma(t) = t

    Karras et al., 2022 (EDM).
    """

    t_min: float = 0.002
    t_max: float = 80.0
    grid: ClassVar[str] = "karras"

    def alpha(self, t: Time) -> Tensor:
        """One."""
        return torch.ones_like(as_time(t))

    def sigma(self, t: Time) -> Tensor:
        """The time."""
        return as_time(t)

    def alpha_rate(self, t: Time) -> Tensor:
        """Zero."""
        return torch.zeros_like(as_time(t))

    def sigma_rate(self, t: Time) -> Tensor:
        """One."""
        return torch.ones_like(as_time(t))

    def time_of_log_snr(self, value: Time) -> Tensor:
        """The time at which the log signal-to-noise ratio has this value."""
        return (-0.5 * as_time(value)).exp()


@dataclass(frozen=True)
class StraightPath(Process):
    r"""The straight way from data to noise, which flow matching and rectified flows go.

    .. math:: \alpha(t) = 1 - t, \qquad \sigma(t) = t

    Lipman et al., 2023; Liu et al., 2023. At t = 1 only noise is left, so that the law sampling begins with is
    exact; the stochastic equation is singular there and begins a little before.
    """

    t_min: float = 1e-3
    t_max: float = 1.0

    def check(self) -> None:
        """Refuse times after 1."""
        super().check()
        if self.t_max > 1:
            raise InvalidInput(f"StraightPath: t_max={self.t_max}; time ends at 1")

    def alpha(self, t: Time) -> Tensor:
        """How much of the data is left."""
        return 1 - as_time(t)

    def sigma(self, t: Time) -> Tensor:
        """The time."""
        return as_time(t)

    def alpha_rate(self, t: Time) -> Tensor:
        """Minus one."""
        return -torch.ones_like(as_time(t))

    def sigma_rate(self, t: Time) -> Tensor:
        """One."""
        return torch.ones_like(as_time(t))

    def time_of_log_snr(self, value: Time) -> Tensor:
        """The time at which the log signal-to-noise ratio has this value."""
        return torch.sigmoid(-0.5 * as_time(value))

    @property
    def t_finite(self) -> float:
        """The last time at which there is some signal."""
        return min(self.t_max, 0.999)
