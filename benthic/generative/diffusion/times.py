"""At which times a network is trained: laws of times, and draws that cover them evenly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput, nearest
from benthic.base.seeds import alike
from benthic.generative.diffusion.chain import DiscreteChain
from benthic.generative.diffusion.process import Process, Record

LAWS = ("uniform", "log_snr", "log_normal", "logit_normal")
COVERS = ("independent", "antithetic", "even")


@dataclass(frozen=True)
class TimeLaw(Record):
    r"""How training times are drawn.

    law: ``uniform`` in time (on a chain, its whole times); ``log_snr``, uniform in the log signal-to-noise ratio;
    ``log_normal``, :math:`\log \sigma/\alpha \sim N(\text{mean}, \text{spread}^2)` (Karras et al., 2022);
    ``logit_normal``, the logit of time is normal (Esser et al., 2024).
    cover: ``independent`` draws; ``antithetic``, u and 1 − u in pairs; ``even``, one draw that is shifted by 1/n from
    row to row, so that every batch covers all times (Kingma et al., 2021). Each draw alone has the same law.

    >>> from benthic.generative.diffusion import VP
    >>> TimeLaw(cover="even").draw(VP(), 4, torch.zeros(1)).shape
    torch.Size([4])
    """

    law: str = "uniform"
    cover: str = "even"
    mean: float = 0.0
    spread: float = 1.0

    def __post_init__(self) -> None:
        for name, value, known in (("law", self.law, LAWS), ("cover", self.cover, COVERS)):
            if value not in known:
                raise InvalidInput(f"TimeLaw: {name}={value!r}{nearest(str(value), known)}; use {', '.join(known)}")
        if not self.spread > 0:
            raise InvalidInput(f"TimeLaw: spread={self.spread}; it must be positive")

    def draw(self, process: Process, n: int, like: Tensor) -> Tensor:
        """Times (n,) in the type and place of ``like``."""
        return self.place(process, even_uniforms(n, like, self.cover))

    def place(self, process: Process, u: Tensor) -> Tensor:
        """The times whose share of the law is ``u``, numbers between 0 and 1."""
        low, high = process.t_min, process.t_max
        if self.law == "uniform":
            if isinstance(process, DiscreteChain):
                return (low + torch.floor(u * (high - low + 1))).clamp(low, high)
            return low + (high - low) * u
        if self.law == "log_snr":
            ends = process.log_snr(low), process.log_snr(process.t_finite)
            first, last = (float(end) for end in ends)
            return self._inside(process, process.time_of_log_snr(first + (last - first) * u))
        normal = self.mean + self.spread * math.sqrt(2) * torch.erfinv((2 * u - 1).clamp(-0.999999, 0.999999))
        if self.law == "logit_normal":
            return low + (high - low) * torch.sigmoid(normal)
        return self._inside(process, process.time_of_noise(normal.exp()))

    @staticmethod
    def _inside(process: Process, t: Tensor) -> Tensor:
        return process.snap(t.clamp(process.t_min, process.t_finite))


def time_law(setting: Any) -> TimeLaw:
    """A law of times from its name, or itself.

    >>> time_law("log_snr").law
    'log_snr'
    """
    if isinstance(setting, TimeLaw):
        return setting
    if not isinstance(setting, str):
        raise InvalidInput(f"times is {setting!r}; give a TimeLaw or the name of a law, {', '.join(LAWS)}")
    return TimeLaw(setting)


def even_uniforms(n: int, like: Tensor, cover: str = "even") -> Tensor:
    """Numbers (n,) between 0 and 1, each uniform; how they lie to each other is the ``cover`` of ``TimeLaw``.

    >>> u = even_uniforms(5, torch.zeros(1))
    >>> bool((u.sort().values.diff() - 0.2).abs().max() < 1e-6)
    True
    """
    made: dict[str, Any] = alike(like)
    if cover == "independent":
        return torch.rand(n, **made)
    if cover == "antithetic":
        half = torch.rand((n + 1) // 2, **made)
        return torch.cat([half, 1 - half])[:n]
    first = torch.rand(1, **made)
    return (first + torch.arange(n, dtype=like.dtype, device=like.device) / n) % 1.0
