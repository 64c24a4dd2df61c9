"""What a process of noise is: data shrink, noise grows, and both are known at every time."""

from __future__ import annotations

import dataclasses
import importlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput, nearest
from benthic.base.seeds import stream

Time = float | Tensor
_LOG_2PI = math.log(2 * math.pi)
_FAINT = 0.005  # of the data: less is too little for noise to tell of them


def as_time(t: Time) -> Tensor:
    """A time as a tensor; plain numbers become float64 of shape (), which mix with tensors of any device and type."""
    return t if isinstance(t, Tensor) else torch.tensor(float(t), dtype=torch.float64)


def plain_time(t: Tensor) -> float | None:
    """One time as a plain number, where that needs no waiting for a device and loses no gradient; else None."""
    return float(t) if t.ndim == 0 and t.device.type == "cpu" and not t.requires_grad else None


def expand_like(value: Tensor, x: Tensor) -> Tensor:
    """One number for all rows, shape (), or one for each, (n,), ready to be multiplied with points (n, ...).

    >>> expand_like(torch.ones(5), torch.zeros(5, 3, 8, 8)).shape
    torch.Size([5, 1, 1, 1])
    """
    if value.ndim == 0:
        return value if value.device.type == "cpu" else value.to(x.dtype)
    return value.to(x.dtype).reshape(len(value), *([1] * (x.ndim - 1)))


class Record:
    """A frozen value of plain numbers that a model file can hold."""

    def to_tree(self) -> dict[str, Any]:
        """Its fields."""
        record: Any = self  # a subclass is a dataclass
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(record)}

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> Self:
        """The value with these fields."""
        return cls(**tree)


@dataclass(frozen=True)
class Process(Record):
    r"""Data and noise mixed, more noise with time.

    .. math:: x_t = \alpha(t)\, x_0 + \sigma(t)\, \epsilon, \qquad
        dx = \frac{\alpha'}{\alpha} x\, dt + g\, dW, \qquad g^2 = 2 \sigma \sigma' - 2 \frac{\alpha'}{\alpha} \sigma^2

    Song et al., 2021; Kingma et al., 2021. Time runs from ``t_min``, the least noise at which anything is asked of a
    network, to ``t_max``, where nearly nothing of the data is left; clean data, which may lie before ``t_min``, have
    :math:`\alpha = 1` and :math:`\sigma = 0`. Every method takes one time, a number or shape (), or one for each row,
    (n,). A process is immutable, has an ``==`` and can stand in a model file.
    """

    t_min: float
    t_max: float

    gaussian: ClassVar[bool] = True  # whether the noise is normal, so that there is a stochastic equation
    grid: ClassVar[str] = "uniform"  # the spacing of times that suits it
    whole: ClassVar[bool] = False  # whether it goes in whole steps, as a chain does

    def __post_init__(self) -> None:
        self.check()

    def check(self) -> None:
        """Refuse numbers that make no process."""
        if not (math.isfinite(self.t_max) and 0 <= self.t_min < self.t_max):
            raise InvalidInput(
                f"{type(self).__name__}: times run from t_min={self.t_min} to t_max={self.t_max}; "
                "they must be finite, not negative, and rise"
            )

    def alpha(self, t: Time) -> Tensor:
        """How much of the data is left."""
        raise NotImplementedError

    def sigma(self, t: Time) -> Tensor:
        """How much noise there is."""
        raise NotImplementedError

    def alpha_rate(self, t: Time) -> Tensor:
        """The derivative of ``alpha`` by time."""
        raise NotImplementedError

    def sigma_rate(self, t: Time) -> Tensor:
        """The derivative of ``sigma`` by time."""
        raise NotImplementedError

    def time_of_log_snr(self, value: Time) -> Tensor:
        """The time at which the logarithm of the signal-to-noise ratio has this value."""
        raise NotImplementedError

    def log_snr(self, t: Time) -> Tensor:
        r"""The logarithm of the ratio of signal to noise, :math:`\log \alpha^2 / \sigma^2`; it falls with time."""
        return 2 * (self.alpha(t).log() - self.sigma(t).log())

    def log_snr_rate(self, t: Time) -> Tensor:
        """The derivative of ``log_snr`` by time, which is negative."""
        return 2 * (self.alpha_rate(t) / self.alpha(t) - self.sigma_rate(t) / self.sigma(t))

    def noise_level(self, t: Time) -> Tensor:
        r""":math:`\log \sigma / \alpha`, what a network is told of the noise unless it asks for the time."""
        return self.sigma(t).log() - self.alpha(t).log()

    def time_of_noise(self, ratio: Time) -> Tensor:
        r"""The time at which :math:`\sigma / \alpha` has this value."""
        return self.time_of_log_snr(-2 * as_time(ratio).log())

    def marginal(self, x0: Tensor, t: Time) -> tuple[Tensor, Tensor]:
        """Mean (n, ...) and standard deviation, () or (n, 1, ...), of x at time t, given clean data (n, ...)."""
        return expand_like(self.alpha(t), x0) * x0, expand_like(self.sigma(t), x0)

    def mix(self, x0: Tensor, noise: Tensor, t: Time) -> Tensor:
        """The point at time t on the way from data to noise, both (n, ...)."""
        mean, scale = self.marginal(x0, t)
        return mean + scale * noise

    def velocity(self, x0: Tensor, noise: Tensor, t: Time) -> Tensor:
        r"""Where that point moves, :math:`\alpha' x_0 + \sigma' \epsilon`: what flow matching learns."""
        return expand_like(self.alpha_rate(t), x0) * x0 + expand_like(self.sigma_rate(t), x0) * noise

    def drift(self, x: Tensor, t: Time) -> Tensor:
        """The drift of the stochastic equation at points (n, ...)."""
        return expand_like(self.alpha_rate(t) / self.alpha(t), x) * x

    def diffusion(self, t: Time) -> Tensor:
        """The diffusion g of the stochastic equation."""
        return self.diffusion_squared(t).clamp_min(0).sqrt()

    def diffusion_squared(self, t: Time) -> Tensor:
        """The square of the diffusion."""
        sigma = self.sigma(t)
        return 2 * sigma * (self.sigma_rate(t) - self.alpha_rate(t) / self.alpha(t) * sigma)

    @property
    def t_finite(self) -> float:
        """The last time at which drift, diffusion and the signal-to-noise ratio are finite."""
        return self.t_max

    @property
    def t_signal(self) -> float:
        """The last time at which half a percent of the data is left.

        Later an answer in noise says nothing of them: its error, over alpha, is that of the data.
        """
        last = self.t_finite
        if float(self.alpha(last)) >= _FAINT:
            return last
        # where so little is left the noise is about one
        faint = self.snap(self.time_of_log_snr(as_time(2 * math.log(_FAINT)).reshape(1)))
        return min(last, max(self.t_min, float(faint)))

    def snap(self, times: Tensor) -> Tensor:
        """Times moved to where the process lives: all of them, except on a chain."""
        return times

    def draw_noise(self, shape: Sequence[int], like: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Noise of this shape in the type and place of ``like``; a generator of the CPU draws the same everywhere."""
        return standard_normal(shape, like, generator)

    def prior_scale(self) -> float:
        """The standard deviation of what sampling begins with."""
        return float(self.sigma(self.t_max))

    def draw_prior(self, shape: Sequence[int], like: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Points (n, ...) of the law that the process ends with."""
        return self.prior_scale() * self.draw_noise(shape, like, generator)

    def prior_log_prob(self, x: Tensor) -> Tensor:
        """The log-density (n,) of the law that the process ends with, at points (n, ...)."""
        scale = self.prior_scale()
        rows = x.flatten(1)
        return -0.5 * (rows / scale).square().sum(1) - rows.shape[1] * (0.5 * _LOG_2PI + math.log(scale))


def standard_normal(shape: Sequence[int], like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Normal numbers in the type and place of ``like``, drawn where the generator is."""
    generator = generator or stream(like.device)
    return torch.randn(tuple(shape), generator=generator, dtype=like.dtype, device=generator.device).to(like.device)


_NAMES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "vp": ("benthic.generative.diffusion.processes", "VP", {}),
    "cosine": ("benthic.generative.diffusion.processes", "CosineVP", {}),
    "subvp": ("benthic.generative.diffusion.processes", "SubVP", {}),
    "ve": ("benthic.generative.diffusion.processes", "VE", {}),
    "edm": ("benthic.generative.diffusion.processes", "AddedNoise", {}),
    "straight": ("benthic.generative.diffusion.processes", "StraightPath", {}),
    "ddpm": ("benthic.generative.diffusion.chain", "DiscreteChain", {}),
    "ddpm_cosine": ("benthic.generative.diffusion.chain", "DiscreteChain", {"schedule": "cosine"}),
    "poisson": ("benthic.generative.poisson.path", "PoissonPath", {}),
    "pfgm": ("benthic.generative.poisson.path", "PoissonPath", {"dimensions": 1.0}),
}
PROCESSES = tuple(_NAMES)


def process_of(setting: str | Process) -> Process:
    """A process from its name, or itself.

    ``vp`` (linear), ``cosine``, ``subvp``, ``ve``, ``edm``, ``straight``, ``ddpm`` (linear chain), ``ddpm_cosine``,
    ``poisson`` (PFGM++) and ``pfgm``.

    >>> process_of("edm")
    AddedNoise(t_min=0.002, t_max=80.0)
    """
    if isinstance(setting, Process):
        return setting
    if not isinstance(setting, str) or setting not in _NAMES:
        hint = nearest(str(setting), _NAMES)
        raise InvalidInput(f"process {setting!r} is unknown{hint}; there are {', '.join(_NAMES)}")
    module, name, options = _NAMES[setting]
    made: Process = getattr(importlib.import_module(module), name)(**options)
    return made
