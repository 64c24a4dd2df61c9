"""The chain of steps of noise that diffusion models began with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from benthic.base.errors import InvalidInput, nearest
from benthic.base.settings import is_whole
from benthic.generative.diffusion.process import Process, Time, as_time, plain_time

SCHEDULES = ("linear", "cosine", "scaled_linear")
_MOST = 0.999  # a step of the cosine schedule takes at most so much of the variance


@dataclass(frozen=True)
class DiscreteChain(Process):
    r"""A chain of T steps, each of which adds a little noise.

    .. math:: x_t = \sqrt{1 - \beta_t}\, x_{t-1} + \sqrt{\beta_t}\, \epsilon_t, \qquad
        \bar\alpha_t = \prod_{s \le t} (1 - \beta_s), \qquad \alpha(t) = \sqrt{\bar\alpha_t}

    Ho et al., 2020; cosine: Nichol & Dhariwal, 2021. Clean data are at t = 0, the first noise at t = 1 and the last at
    t = T; a network is asked at 1, ..., T. Between whole times the rate of noise is constant, which makes the chain a
    continuous process, so that every solver runs on it.

    length: T. schedule: ``linear`` (beta from ``beta_start`` to ``beta_end``), ``scaled_linear`` (their roots are
    equally far apart), ``cosine``, or the betas themselves. Without beta_start and beta_end a linear chain of any
    length gets as much noise as the one of 1000 steps from 0.0001 to 0.02.

    >>> chain = DiscreteChain(1000)
    >>> chain.alpha(0), chain.sigma(1).square()
    (tensor(1., dtype=torch.float64), tensor(1.0000e-04, dtype=torch.float64))
    """

    length: int = 1000
    schedule: str | tuple[float, ...] = "linear"
    beta_start: float | None = None
    beta_end: float | None = None
    t_min: float = 1.0
    t_max: float = 0.0  # the length

    whole: ClassVar[bool] = True

    def __init__(
        self,
        length: int | None = None,
        schedule: str | tuple[float, ...] = "linear",
        beta_start: float | None = None,
        beta_end: float | None = None,
        t_min: float = 1.0,
        t_max: float | None = None,
    ) -> None:
        if not isinstance(schedule, str):
            schedule = tuple(float(beta) for beta in schedule)
        size = length if length is not None else (1000 if isinstance(schedule, str) else len(schedule))
        last = float(size if t_max is None else t_max)
        fields = (size, schedule, beta_start, beta_end, float(t_min), last)
        names = ("length", "schedule", "beta_start", "beta_end", "t_min", "t_max")
        for name, value in zip(names, fields, strict=True):
            object.__setattr__(self, name, value)
        self.check()

    def check(self) -> None:
        """Refuse betas that are none."""
        if not is_whole(self.length, 1):
            raise InvalidInput(f"DiscreteChain: length={self.length!r}; a chain has at least one step")
        if isinstance(self.schedule, str) and self.schedule not in SCHEDULES:
            hint = nearest(self.schedule, SCHEDULES)
            raise InvalidInput(f"DiscreteChain: schedule={self.schedule!r}{hint}; use {', '.join(SCHEDULES)} or betas")
        if not isinstance(self.schedule, str) and len(self.schedule) != self.length:
            raise InvalidInput(f"DiscreteChain: {len(self.schedule)} betas for a chain of {self.length} steps")
        if not 0 <= self.t_min <= self.t_max <= self.length:
            raise InvalidInput(
                f"DiscreteChain: times from {self.t_min} to {self.t_max}; they lie between 0 and {self.length}"
            )
        betas = self.betas()
        if not bool(((betas > 0) & (betas < 1)).all()):
            raise InvalidInput(
                f"DiscreteChain: betas run from {float(betas.min()):g} to {float(betas.max()):g}; each must lie "
                "between 0 and 1"
            )

    def betas(self) -> Tensor:
        """The variance that each step adds, (T,) float64: step t has the entry t − 1."""
        steps = self.length
        if not isinstance(self.schedule, str):
            return torch.tensor(self.schedule, dtype=torch.float64)
        if self.schedule == "cosine":
            angle = (torch.arange(steps + 1, dtype=torch.float64) / steps + 0.008) / 1.008 * (math.pi / 2)
            kept = angle.cos().square()
            return (1 - kept[1:] / kept[:-1]).clamp(max=_MOST)
        scale = 1000 / steps
        first = 1e-4 * scale if self.beta_start is None else self.beta_start
        last = min(0.02 * scale, _MOST) if self.beta_end is None else self.beta_end
        if self.schedule == "linear":
            return torch.linspace(first, last, steps, dtype=torch.float64)
        return torch.linspace(math.sqrt(first), math.sqrt(last), steps, dtype=torch.float64).square()

    def alpha_bars(self) -> Tensor:
        """What is left of the variance of the data after each step, (T + 1,) float64, beginning with 1."""
        return torch.tensor(_log_kept(self), dtype=torch.float64).exp()

    def _log_kept(self, t: Time) -> tuple[Tensor, Tensor]:
        """The logarithm of alpha bar, and its slope."""
        t = as_time(t)
        dtype, one = t.dtype if t.is_floating_point() else torch.float64, plain_time(t)
        if one is not None:
            return self._log_kept_once(one, dtype)
        table = _table(self, t.device, dtype)
        above = t.ceil().long().clamp(1, self.length)
        low, high = table.take(above - 1), table.take(above)
        return low + (high - low) * (t - (above - 1)), high - low

    def _log_kept_once(self, t: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """The same at one time, in plain numbers: a tenth of the cost."""
        table, above = _log_kept(self), min(max(math.ceil(t), 1), self.length)
        low, high = table[above - 1], table[above]
        return torch.tensor(low + (high - low) * (t - (above - 1)), dtype=dtype), torch.tensor(high - low, dtype=dtype)

    def alpha(self, t: Time) -> Tensor:
        """How much of the data is left."""
        return (0.5 * self._log_kept(t)[0]).exp()

    def sigma(self, t: Time) -> Tensor:
        """How much noise there is."""
        return (-torch.expm1(self._log_kept(t)[0])).clamp_min(0).sqrt()

    def alpha_rate(self, t: Time) -> Tensor:
        """The derivative of ``alpha`` by time, from below."""
        value, slope = self._log_kept(t)
        return 0.5 * slope * (0.5 * value).exp()

    def sigma_rate(self, t: Time) -> Tensor:
        """The derivative of ``sigma`` by time, from below."""
        value, slope = self._log_kept(t)
        return -0.5 * slope * value.exp() / self.sigma(t)

    def time_of_log_snr(self, value: Time) -> Tensor:
        """The time at which the log signal-to-noise ratio has this value."""
        wanted = F.logsigmoid(as_time(value))
        table = _table(self, wanted.device, wanted.dtype)
        above = torch.searchsorted(-table, -wanted.contiguous()).clamp(1, self.length)
        low, high = table.take(above - 1), table.take(above)
        return above - 1 + (wanted - low) / (high - low)

    def snap(self, times: Tensor) -> Tensor:
        """The nearest whole times."""
        return times.round()

    def prior_scale(self) -> float:
        """One: the variance is kept."""
        return 1.0


@lru_cache(maxsize=64)
def _log_kept(chain: DiscreteChain) -> tuple[float, ...]:
    """log alpha bar after 0, 1, ..., T steps."""
    return (0.0, *torch.log1p(-chain.betas()).cumsum(0).tolist())


@lru_cache(maxsize=64)
def _table(chain: DiscreteChain, device: torch.device, dtype: torch.dtype) -> Tensor:
    """The same on a device; kept, so that nothing is sent there twice."""
    return torch.tensor(_log_kept(chain), dtype=torch.float64).to(device, dtype)
