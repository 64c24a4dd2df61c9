"""How a random walk learns its scale and covariance in warm-up."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from benthic.samplers.kernel import Adapter, Kernel, SamplerStopped


class WalkAdapter(Adapter):
    r"""Scale by stochastic approximation, covariance from windows that double in length.

    .. math:: \log s_{t+1} = \log s_t + t^{-0.6} (\bar\alpha_t - \alpha^*)

    with the mean acceptance over chains (Andrieu and Thoms, 2008, algorithm 4). When a window ends, the covariance
    becomes that of the positions visited in it by all chains, a little shrunk, and the scale starts again from
    :math:`2.38 / \sqrt d`. The last fifth of the warm-up moves the scale alone; its average is kept.

    kernel: a ``RandomWalk``.
    """

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        dim = kernel.target.dim
        self.wanted = 0.44 if dim == 1 else 0.234
        self.usual = 2.38 / math.sqrt(dim)
        self.log_scale = math.log(kernel.scale)
        self.moments = Moments(dim, kernel.dense)
        self.since = self.transitions = self.done = 0
        self.ends: set[int] = set()
        self.tail: list[float] = []
        self.moved = False

    def begin(self, state: Any, transitions: int, generator: torch.Generator) -> Kernel:
        """Plan the windows."""
        self.transitions = transitions
        self.ends = set(window_ends(transitions))
        return self.kernel

    def update(self, state: Any, info: Any) -> Kernel:
        """Learn from one transition."""
        self.done += 1
        self.since += 1
        rate = float(info.accepted.mean())
        self.moved = self.moved or rate > 0
        self.log_scale += self.since**-0.6 * (rate - self.wanted)
        if self.log_scale < math.log(self.usual) - 35:
            raise self._stopped()
        covariance = self._window(state.position)
        if self.done > 0.9 * self.transitions:
            self.tail.append(self.log_scale)
        self.kernel = self.kernel.tuned(math.exp(self.log_scale), covariance)
        return self.kernel

    def _window(self, position: Tensor) -> Tensor | None:
        """A new covariance where a window ends."""
        if not self.ends or self.done > max(self.ends):
            return None
        self.moments.add(position)
        if self.done not in self.ends:
            return None
        covariance = self.moments.covariance()
        self.moments = Moments(self.kernel.target.dim, self.kernel.dense)
        if covariance is not None:
            self.log_scale, self.since = math.log(self.usual), 0
        return covariance

    def finish(self) -> Kernel:
        """The kernel with the averaged scale."""
        if self.done and not self.moved:
            raise self._stopped()
        kept = sum(self.tail) / len(self.tail) if self.tail else self.log_scale
        return self.kernel.tuned(math.exp(kept))

    def _stopped(self) -> SamplerStopped:
        return SamplerStopped(
            f"{type(self.kernel).__name__}: hardly a proposal was accepted in {self.done} transitions; the scale fell "
            f"to {math.exp(self.log_scale):.1g}; {self.kernel.advice}"
        )


class Moments:
    """Running mean and (co)variance of rows, chains pooled (Chan, Golub and LeVeque, 1983)."""

    def __init__(self, dim: int, dense: bool) -> None:
        self.dim, self.dense, self.count = dim, dense, 0
        self.mean: Tensor | None = None
        self.spread: Tensor | None = None

    def add(self, rows: Tensor) -> None:
        """Take in (chains, d) more rows."""
        rows = rows.double()
        mean = rows.mean(0)
        centered = rows - mean
        spread = centered.mT @ centered if self.dense else centered.square().sum(0)
        if self.mean is None or self.spread is None:
            self.mean, self.spread, self.count = mean, spread, len(rows)
            return
        total = self.count + len(rows)
        gap = mean - self.mean
        weight = self.count * len(rows) / total
        self.spread = self.spread + spread + weight * (torch.outer(gap, gap) if self.dense else gap.square())
        self.mean = self.mean + gap * (len(rows) / total)
        self.count = total

    def covariance(self) -> Tensor | None:
        """The covariance, shrunk a little to its diagonal; None where the rows are too few or do not move."""
        if self.spread is None or self.count < 3 * self.dim + 2:
            return None
        covariance = self.spread / (self.count - 1)
        variances = covariance.diagonal() if self.dense else covariance
        if not bool((variances > 0).all()) or not bool(covariance.isfinite().all()):
            return None
        if not self.dense:
            return covariance
        share = self.count / (self.count + 5.0 * self.dim)
        return share * covariance + (1 - share) * torch.diag(variances)


def window_ends(transitions: int) -> list[int]:
    """When windows end: after a tenth, then lengths doubling, until four fifths of the warm-up.

    >>> window_ends(1000)
    [100, 200, 400, 800]
    """
    ends, end = [], max(10, transitions // 10)
    while 2 * end <= 0.8 * transitions:
        ends.append(end)
        end *= 2
    last = int(0.8 * transitions)
    return [*ends, last] if last >= 10 else []
