"""Samplers of the reversed stochastic equation, and Langevin steps at a noise level."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.settings import is_whole
from benthic.generative.diffusion.denoiser import Denoising
from benthic.generative.diffusion.process import Time, expand_like
from benthic.generative.diffusion.solvers.base import Normal, Point, Sampler


def reverse_drift(denoiser: Denoising, x: Tensor, t: Time) -> tuple[Tensor, Tensor]:
    r"""Drift and diffusion of the equation that runs backward in time with the laws of the process.

    .. math:: dx = \big(f(t)\, x - g(t)^2\, \nabla \log p_t(x)\big)\, dt + g(t)\, d\bar W

    Anderson, 1982; Song et al., 2021.
    """
    process = denoiser.process
    square = process.diffusion_squared(t).clamp_min(0)
    drift = process.drift(x, t) - expand_like(square, x) * denoiser.score(x, t)
    return drift, expand_like(square.sqrt(), x)


def langevin(denoiser: Denoising, point: Point, x: Tensor, step: float, count: int, normal: Normal) -> Tensor:
    r"""Langevin steps at one noise level: :math:`x + \eta s(x) + \sqrt{2 \eta}\, z`."""
    for _ in range(count):
        x = x + step * denoiser.score(x, point.t) + math.sqrt(2 * step) * normal(x)
    return x


class _Stochastic(Sampler):
    """A sampler that adds normal noise and needs a finite equation to begin with."""

    finite: ClassVar[bool] = True

    @property
    def stochastic(self) -> bool:
        """Whether it adds noise."""
        return True


@dataclass(frozen=True)
class EulerMaruyama(_Stochastic):
    """Euler–Maruyama steps of the reversed stochastic equation, in the time of the process: weak order one."""

    def step(
        self, denoiser: Denoising, here: Point, there: Point, x: Tensor, memory: Any, normal: Normal
    ) -> tuple[Tensor, Any]:
        """One step back."""
        drift, noise = reverse_drift(denoiser, x, here.t)
        length = here.t - there.t
        return x - length * drift + math.sqrt(length) * noise * normal(x), None


class _Walking(_Stochastic):
    """Base of samplers that take Langevin steps, ``corrections`` at a time."""

    corrections: int

    @property
    def order(self) -> None:
        """None: the bias of Langevin steps depends on their size, not on the number of times."""
        return

    def _check_corrections(self) -> None:
        count = self.corrections
        if not is_whole(count, 1):
            raise InvalidInput(f"{type(self).__name__}: corrections={count!r}; at least one is needed")


@dataclass(frozen=True)
class PredictorCorrector(_Walking):
    r"""A step of the reversed equation, then Langevin steps that bring the points nearer to the law of that time.

    Song et al., 2021, algorithms 2 and 3. corrections: Langevin steps after every step. ratio: their ratio of signal
    to noise r; a step has the size :math:`2 (r \sigma)^2`, which is what the paper's rule amounts to on average and
    does not let the rows of a batch depend on each other.
    """

    corrections: int = 1
    ratio: float = 0.16

    def __post_init__(self) -> None:
        self._check_corrections()
        if not 0 < self.ratio < 1:
            raise InvalidInput(f"PredictorCorrector: ratio={self.ratio}; it lies between 0 and 1, for example 0.16")

    def step(
        self, denoiser: Denoising, here: Point, there: Point, x: Tensor, memory: Any, normal: Normal
    ) -> tuple[Tensor, Any]:
        """Predict, then correct."""
        x, _ = EulerMaruyama().step(denoiser, here, there, x, None, normal)
        size = 2 * (self.ratio * there.sigma) ** 2
        return langevin(denoiser, there, x, size, self.corrections, normal), None


@dataclass(frozen=True)
class AnnealedLangevin(_Walking):
    r"""Langevin steps at falling noise levels.

    Song & Ermon, 2019. corrections: steps at each level. step_size: κ of the step :math:`\kappa \sigma^2`; 2 is the
    limit of stability. Between levels points are scaled as those of centered data with unit variance would be.
    """

    corrections: int = 10
    step_size: float = 0.1

    def __post_init__(self) -> None:
        self._check_corrections()
        if not 0 < self.step_size < 2:
            raise InvalidInput(f"AnnealedLangevin: step_size={self.step_size}; it lies between 0 and 2")

    def step(
        self, denoiser: Denoising, here: Point, there: Point, x: Tensor, memory: Any, normal: Normal
    ) -> tuple[Tensor, Any]:
        """Walk at the lower level."""
        x = x * math.sqrt((there.alpha**2 + there.sigma**2) / (here.alpha**2 + here.sigma**2))
        return langevin(denoiser, there, x, self.step_size * there.sigma**2, self.corrections, normal), None
