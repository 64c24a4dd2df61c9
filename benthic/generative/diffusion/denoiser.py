"""One interface for everything that tells data from noise: a network with its target, and wraps around it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput, nearest
from benthic.generative.diffusion.process import Process, Time, as_time, expand_like, process_of
from benthic.generative.diffusion.targets import NETWORK_TARGETS, convert, preconditioner

SEES = ("level", "time")
_NEED_SIGNAL = ("noise", "score")  # answers from which the data follow by a division by alpha


def first_time(process: Process, target: str) -> float:
    """The time with the most noise at which a network with this target tells of the data.

    >>> first_time(process_of("straight"), "noise"), first_time(process_of("straight"), "flow")
    (0.995..., 1.0)
    """
    return process.t_signal if target in _NEED_SIGNAL else process.t_max


class Denoising:
    r"""What samplers and likelihoods ask for: the expected data behind noisy points, in any form.

    A subclass has ``process`` and :meth:`data`; the rest follows. x: (n, \*event). t: one time or (n,).
    """

    process: Process

    @property
    def t_first(self) -> float:
        """Where sampling begins: ``t_max``, or the last time at which the answer tells of the data."""
        return self.process.t_max

    def data(self, x: Tensor, t: Time) -> Tensor:
        """The expected clean data."""
        raise NotImplementedError

    def predict(self, x: Tensor, t: Time, target: str) -> Tensor:
        """``data``, ``noise``, ``score``, ``velocity`` or ``flow``."""
        return convert(self.process, self.data(x, t), x, t, "data", target)

    def noise(self, x: Tensor, t: Time) -> Tensor:
        """The expected noise."""
        return self.predict(x, t, "noise")

    def score(self, x: Tensor, t: Time) -> Tensor:
        """Minus the expected noise over σ: the gradient of the log-density of noisy points, where noise is normal."""
        return self.predict(x, t, "score")

    def flow(self, x: Tensor, t: Time) -> Tensor:
        """dx/dt along the probability flow, whose solutions have the laws of the process."""
        return self.predict(x, t, "flow")

    def data_and_fraction(self, x: Tensor, t: Time) -> tuple[Tensor, Tensor | None]:
        """The expected data and, where it is learned, where the variance of a step lies between its bounds."""
        return self.data(x, t), None


@dataclass(frozen=True)
class Denoiser(Denoising):
    r"""A network with what is to know about its answer.

    function(x, level, condition): (n, \*event) for points (n, \*event), levels (n,) and the condition, or without a
    third argument where there is no condition. A network of target ``field`` answers with a pair, the field along x
    (n, \*event) and away from the data (n,); one with a learned variance answers with a pair too, its target and
    numbers in [0, 1] that broadcast with x.
    target: ``noise``, ``data``, ``velocity``, ``score``, ``flow``, ``edm`` (preconditioned) or ``field``.
    condition: labels, vectors or pictures, a row for each point. sees: ``level``, log σ/α, or ``time``.
    sigma_data: the standard deviation of the data; with it the network sees x divided by
    :math:`\sqrt{\alpha^2 \sigma_{data}^2 + \sigma^2}`, without it x as it is. ``edm`` takes 0.5 where it is not given.

    >>> from benthic.generative.diffusion import VP
    >>> standard = Denoiser("vp", lambda x, level: x * VP().alpha(VP().time_of_noise(level.exp()))[:, None], "data")
    >>> standard.score(torch.ones(1, 2, dtype=torch.float64), 0.5)
    tensor([[-1., -1.]], dtype=torch.float64)
    """

    process: Process
    function: Callable[..., Any]
    target: str = "noise"
    condition: Any = None
    sees: str = "level"
    sigma_data: float | None = None
    learned_variance: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "process", process_of(self.process))
        if self.target not in NETWORK_TARGETS:
            hint = nearest(str(self.target), NETWORK_TARGETS)
            raise InvalidInput(f"Denoiser: target={self.target!r}{hint}; use {', '.join(NETWORK_TARGETS)}")
        if self.sees not in SEES:
            raise InvalidInput(f"Denoiser: sees={self.sees!r}{nearest(str(self.sees), SEES)}; use {', '.join(SEES)}")
        if self.sigma_data is not None and not (math.isfinite(self.sigma_data) and self.sigma_data > 0):
            raise InvalidInput(f"Denoiser: sigma_data={self.sigma_data}; a standard deviation is positive")
        if self.target == "field" and not hasattr(self.process, "radius"):
            raise InvalidInput("Denoiser: target='field' needs a process of Poisson flow, such as 'pfgm'")

    @property
    def t_first(self) -> float:
        """Where sampling begins."""
        return first_time(self.process, self.target)

    def given(self, condition: Any) -> Denoiser:
        """The same with a condition for every row."""
        return dataclasses.replace(self, condition=condition)

    def answer(self, x: Tensor, t: Time) -> tuple[Any, Tensor | None]:
        """What the network says, and the fraction of the variance where it says that too."""
        t = as_time(t)
        level = self.process.noise_level(t) if self.sees == "level" else t
        scaled = x
        if self.target == "edm" or self.sigma_data is not None:
            scaled = x * expand_like(preconditioner(self.process, t, self._spread, x)[2], x)
        rows = _for_rows(level, x)
        if isinstance(self.condition, Tensor) and len(self.condition) != len(x):
            raise InvalidInput(f"Denoiser: {len(self.condition)} conditions for {len(x)} points; give one for each")
        answer = self.function(scaled, rows) if self.condition is None else self.function(scaled, rows, self.condition)
        return answer if self.learned_variance else (answer, None)

    def predict(self, x: Tensor, t: Time, target: str) -> Tensor:
        """``data``, ``noise``, ``score``, ``velocity`` or ``flow``."""
        return self._converted(self.answer(x, t)[0], x, t, target)

    def data(self, x: Tensor, t: Time) -> Tensor:
        """The expected clean data."""
        return self.predict(x, t, "data")

    def data_and_fraction(self, x: Tensor, t: Time) -> tuple[Tensor, Tensor | None]:
        """The expected data and, where it is learned, where the variance of a step lies between its bounds."""
        answer, fraction = self.answer(x, t)
        return self._converted(answer, x, t, "data"), fraction

    @property
    def _spread(self) -> float:
        return 0.5 if self.sigma_data is None else self.sigma_data

    def _converted(self, answer: Any, x: Tensor, t: Time, target: str) -> Tensor:
        source = self.target
        if source == "edm":
            skip, out, _ = (expand_like(c, x) for c in preconditioner(self.process, t, self._spread, x))
            source, answer = "data", skip * x + out * answer
        elif source == "field":
            along, away = answer
            radius = expand_like(self.process.radius(t), x)
            source, answer = "data", x - radius * along / expand_like(away, x)
        if answer.shape != x.shape:
            raise InvalidInput(
                f"Denoiser: the network answered {tuple(answer.shape)} for points {tuple(x.shape)}; they must match"
            )
        return convert(self.process, answer, x, t, source, target)


@dataclass(frozen=True)
class Guided(Denoising):
    r"""Classifier-free guidance: away from the unconditional answer, past the conditional one.

    .. math:: \hat\epsilon = \hat\epsilon_\emptyset + w\, (\hat\epsilon_c - \hat\epsilon_\emptyset)

    Ho & Salimans, 2022, whose weight is w − 1: here 0 ignores the condition, 1 is the conditional model, more
    exaggerates it. interval: noise levels σ/α from and to which it acts (Kynkäänniemi et al., 2024); outside the
    conditional answer alone is asked for. The network runs once for each part.

    >>> from benthic.generative.diffusion import Denoiser
    >>> one, two = (Denoiser("edm", lambda x, level, c=c: 0 * x + c, "data") for c in (1.0, 2.0))
    >>> Guided(two, one, 3.0).data(torch.zeros(1, 1), 1.0)
    tensor([[4.]])
    """

    conditional: Denoising
    unconditional: Denoising
    scale: float = 1.0
    interval: tuple[float, float] = (0.0, math.inf)

    def __post_init__(self) -> None:
        if self.conditional.process != self.unconditional.process:
            raise InvalidInput("Guided: the two denoisers have different processes; they must share one")
        if not (math.isfinite(self.scale) and self.scale >= 0):
            raise InvalidInput(f"Guided: scale={self.scale}; it must be a number of at least 0")
        low, high = self.interval
        if not 0 <= low < high:
            raise InvalidInput(f"Guided: interval={self.interval}; noise levels must rise from the first to the second")

    @property
    def process(self) -> Process:  # of both
        """The process of both."""
        return self.conditional.process

    @property
    def t_first(self) -> float:
        """Where sampling begins."""
        return min(self.conditional.t_first, self.unconditional.t_first)

    def data(self, x: Tensor, t: Time) -> Tensor:
        """The guided expectation of the clean data."""
        return self._guided(self.conditional.data(x, t), x, t)

    def data_and_fraction(self, x: Tensor, t: Time) -> tuple[Tensor, Tensor | None]:
        """The same, with the fraction of the variance that the conditional denoiser says."""
        data, fraction = self.conditional.data_and_fraction(x, t)
        return self._guided(data, x, t), fraction

    def _guided(self, with_condition: Tensor, x: Tensor, t: Time) -> Tensor:
        if self.scale == 1:
            return with_condition
        t = as_time(t)
        ratio = self.process.noise_level(t).exp()
        inside = (ratio >= self.interval[0]) & (ratio <= self.interval[1])
        if inside.ndim == 0 and inside.device.type == "cpu" and not bool(inside):
            return with_condition
        weight = inside.to(x.dtype) * (self.scale - 1)
        return with_condition + expand_like(weight, x) * (with_condition - self.unconditional.data(x, t))


@dataclass(frozen=True)
class Clipped(Denoising):
    """A denoiser whose expected data stay between two numbers, as those of pictures do.

    The noise that goes with them is what is left of x (Ho et al., 2020).
    """

    inner: Denoising
    low: float = -1.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise InvalidInput(f"Clipped: low={self.low} and high={self.high}; they must rise")

    @property
    def process(self) -> Process:
        """The process of the denoiser."""
        return self.inner.process

    @property
    def t_first(self) -> float:
        """Where sampling begins."""
        return self.inner.t_first

    def data(self, x: Tensor, t: Time) -> Tensor:
        """The expected clean data, clipped."""
        return self.inner.data(x, t).clamp(self.low, self.high)

    def data_and_fraction(self, x: Tensor, t: Time) -> tuple[Tensor, Tensor | None]:
        """The same, with the fraction of the variance where it is learned."""
        data, fraction = self.inner.data_and_fraction(x, t)
        return data.clamp(self.low, self.high), fraction


def _for_rows(level: Tensor, x: Tensor) -> Tensor:
    """A level for each row, (n,), without waiting for the device; one for all is repeated without a copy."""
    if level.ndim == 0 and level.device != x.device:
        level = torch.full((), float(level), dtype=x.dtype, device=x.device)
    return level.to(x.dtype).expand(len(x))
