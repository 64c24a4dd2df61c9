"""What a sampler is: a pure step from one noise level to a lower one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import torch
from torch import Tensor

from benthic.generative.diffusion.denoiser import Denoising
from benthic.generative.diffusion.process import Process, Record

Normal = Callable[[Tensor], Tensor]
Progress = Callable[[int, int, float, Tensor], Any]


class SampleError(RuntimeError):
    """Sampling could not go on; the message says at which step and noise level."""


@dataclass(frozen=True)
class Point:
    """A time of the grid and what the process is there, as plain numbers; index and count: which of how many."""

    t: float
    alpha: float
    sigma: float
    index: int = 0
    count: int = 1

    @property
    def half_log_snr(self) -> float:
        r""":math:`\log \alpha / \sigma`, infinite where there is no signal or no noise."""
        if self.alpha <= 0:
            return -math.inf
        return math.log(self.alpha / self.sigma) if self.sigma > 0 else math.inf


def points(process: Process, times: Tensor | Sequence[float]) -> list[Point]:
    """The grid as points."""
    grid = torch.as_tensor(times, dtype=torch.float64)
    columns = grid.tolist(), process.alpha(grid).tolist(), process.sigma(grid).tolist()
    return [Point(*numbers, i, len(grid)) for i, numbers in enumerate(zip(*columns, strict=True))]


@dataclass
class Watch:
    """Looks on while a sampler runs, without making it wait.

    progress: called after every move with its number, the number of all, the time and the points. check_every: after
    so many moves the host asks whether all points are finite; 0 asks at the end only. every: keep the points of
    so many moves.
    """

    total: int
    progress: Progress | None = None
    check_every: int = 0
    every: int = 0

    def __post_init__(self) -> None:
        self.times: list[float] = []
        self.states: list[Tensor] = []
        self.seen: list[Point] = []
        self._bad: Tensor | None = None  # the first move after which a point was not finite; lives on the device

    def start(self, t: float, x: Tensor) -> None:
        """The points that sampling begins with."""
        if self.every:
            self.times.append(t)
            self.states.append(x)

    def after(self, point: Point, x: Tensor) -> None:
        """The points after a move."""
        self.seen.append(point)
        t = point.t
        move = len(self.seen)
        wrong = ~torch.isfinite(x).all()
        number = torch.where(wrong, move, 0)
        self._bad = number if self._bad is None else torch.where(self._bad > 0, self._bad, number)
        if self.every and (move % self.every == 0 or move == self.total):
            self.times.append(t)
            self.states.append(x)
        if self.progress is not None:
            self.progress(move, self.total, t, x)
        if self.check_every and move % self.check_every == 0:
            self.check()

    def check(self) -> None:
        """Stop if a point is not finite."""
        move = 0 if self._bad is None else int(self._bad)
        if move:
            point = self.seen[move - 1]
            raise SampleError(
                f"sample: points are not finite after step {move} of {self.total} (t={point.t:.6g}, noise level "
                f"sigma={point.sigma:.4g}); take more steps or another sampler, or look at what the network answers"
            )


def clean(count: int) -> Point:
    """Where sampling ends: data without noise."""
    return Point(0.0, 1.0, 0.0, count, count)


class Sampler(Record):
    """A way to go from noise to data.

    A subclass is a frozen dataclass with :meth:`step`, or with :meth:`run` if it chooses its own steps.
    order: of the error of a sample (or, with noise, of expectations) in the length of a step. evaluations: of the
    denoiser for a step. one_step: whether a step needs nothing of those before. finite: whether it needs a finite
    signal-to-noise ratio to begin with.
    """

    evaluations: ClassVar[int] = 1
    one_step: ClassVar[bool] = True
    finite: ClassVar[bool] = False

    @property
    def order(self) -> int | None:
        """The order of convergence, None where steps do not shrink with their number."""
        return 1

    @property
    def stochastic(self) -> bool:
        """Whether it adds noise, which then has to be normal."""
        return False

    def step(
        self, denoiser: Denoising, here: Point, there: Point, x: Tensor, memory: Any, normal: Normal
    ) -> tuple[Tensor, Any]:
        r"""Points (n, \*event) at ``there`` from those at ``here``, and what the next step has to know.

        memory: what the step before returned, None at first. normal: draws standard normal numbers like a tensor.
        """
        raise NotImplementedError

    def run(self, denoiser: Denoising, grid: Sequence[Point], x: Tensor, normal: Normal, watch: Watch) -> Tensor:
        """All steps of a grid."""
        memory = None
        for here, there in pairwise(grid):
            x, memory = self.step(denoiser, here, there, x, memory, normal)
            watch.after(there, x)
        return x
