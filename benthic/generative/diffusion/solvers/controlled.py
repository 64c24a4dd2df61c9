"""Samplers that choose their own steps: a controlled stochastic solver, and every solver of ordinary equations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput, nearest
from benthic.dynamics.ode import solve
from benthic.dynamics.tableau import tableau_of
from benthic.generative.diffusion.denoiser import Denoising
from benthic.generative.diffusion.process import as_time, expand_like
from benthic.generative.diffusion.solvers.base import Normal, Point, SampleError, Sampler, Watch
from benthic.generative.diffusion.solvers.stochastic import reverse_drift

VARIABLES = ("time", "log_snr")
_LONG = 1e9
_LOOK = 16  # trial steps between two questions whether all rows have arrived


@dataclass(frozen=True)
class AdaptiveSDE(Sampler):
    r"""The reversed stochastic equation with steps for each row as long as its error allows.

    Jolicoeur-Martineau et al., 2021: Euler's step and its improvement by a second evaluation differ by an error, which
    decides how long the next step is. Rows do not depend on each other. Here no step is taken back: to draw its noise
    anew would prefer small noise, and samples would be too narrow; instead the next step is shorter. The number of
    steps of the grid is that of the first step only.

    rtol, atol: tolerances of a step. max_steps: of a row, after which it gives up.
    """

    rtol: float = 0.05
    atol: float = 0.02
    max_steps: int = 10_000

    evaluations: ClassVar[int] = 2
    finite: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (self.rtol > 0 and self.atol > 0 and self.max_steps >= 1):
            raise InvalidInput(f"AdaptiveSDE: rtol={self.rtol}, atol={self.atol}, max_steps={self.max_steps}; all > 0")

    @property
    def order(self) -> None:
        """None: the tolerance decides."""
        return

    @property
    def stochastic(self) -> bool:
        """Whether it adds noise."""
        return True

    def run(self, denoiser: Denoising, grid: Sequence[Point], x: Tensor, normal: Normal, watch: Watch) -> Tensor:
        """From the first point of a grid to the last."""
        first, last = grid[0], grid[-1]
        t = torch.full((len(x),), first.t, dtype=x.dtype, device=x.device)
        h = torch.full_like(t, (first.t - last.t) / (4 * len(grid)))
        for count in range(1, self.max_steps + 1):
            x, t, h = self._advance(denoiser, x, t, h, last.t, normal)
            if count % _LOOK == 0 and bool((t <= last.t).all()):
                watch.after(last, x)
                return x
        raise SampleError(f"AdaptiveSDE: {self.max_steps} steps do not reach t={last.t:g}; raise rtol and atol")

    def _advance(
        self, denoiser: Denoising, x: Tensor, t: Tensor, h: Tensor, end: float, normal: Normal
    ) -> tuple[Tensor, Tensor, Tensor]:
        """A step of every row that is under way, and the length of its next."""
        left = t - end
        last = h >= left * (1 - 1e-6)
        step = torch.where(last, left, h)
        arrived = torch.where(last, end, t - step)
        long, root, noise = expand_like(step, x), expand_like(step.sqrt(), x), normal(x)
        drift, diffusion = reverse_drift(denoiser, x, t)
        guess = x - long * drift + root * diffusion * noise
        slope, spread = reverse_drift(denoiser, guess, arrived)
        better = 0.5 * (guess + x - long * slope + root * spread * noise)
        allowed = self.atol + self.rtol * torch.maximum(guess.abs(), x.abs())
        error = ((guess - better) / allowed).flatten(1).square().mean(1).sqrt()
        h = step * (0.8 * error.clamp_min(1e-12) ** -0.5).clamp(0.2, 1.5)
        return better, arrived, h.clamp_min(1e-6 * (1e-6 + left))


@dataclass(frozen=True)
class ODE(Sampler):
    r"""The probability flow by any solver of ``benthic.dynamics``.

    .. math:: \frac{dx}{dt} = \alpha' \hat x_0 + \sigma' \hat\epsilon = f(t)\, x - \tfrac12 g(t)^2\, \nabla \log p_t(x)

    Song et al., 2021. method, rtol, atol: as in :func:`benthic.dynamics.solve`; solvers with fixed steps take those of
    the grid. variable: ``time``, or ``log_snr``, the logarithm of the signal-to-noise ratio, in which Poisson flow runs
    backward (its :math:`-2 \log \sigma`; Xu et al., 2022, section 3.3).
    """

    method: str = "dormand_prince"
    rtol: float = 1e-4
    atol: float = 1e-4
    variable: str = "time"

    one_step: ClassVar[bool] = False

    def __post_init__(self) -> None:
        tableau_of(self.method)
        if self.variable not in VARIABLES:
            hint = nearest(str(self.variable), VARIABLES)
            raise InvalidInput(f"ODE: variable={self.variable!r}{hint}; use {', '.join(VARIABLES)}")

    @property
    def order(self) -> int | None:
        """That of a method with fixed steps; otherwise the tolerance decides."""
        tableau = tableau_of(self.method)
        return None if tableau.adaptive else tableau.order

    @property
    def finite(self) -> bool:
        """Whether it needs a finite signal-to-noise ratio to begin with."""
        return self.variable == "log_snr"

    def run(self, denoiser: Denoising, grid: Sequence[Point], x: Tensor, normal: Normal, watch: Watch) -> Tensor:
        """From the first point of a grid to the last."""
        adaptive = tableau_of(self.method).adaptive
        kept = grid if watch.every or not adaptive else [grid[0], grid[-1]]
        states = follow(denoiser, x, [point.t for point in kept], self)
        for point, state in zip(kept[1:], states[1:], strict=True):
            watch.after(point, state)
        return states[-1]


def follow(denoiser: Denoising, x: Tensor, times: Sequence[float], how: ODE) -> Tensor:
    r"""Points along the probability flow at each of the times, rising or falling, (m, n, \*event)."""
    process = denoiser.process
    adaptive = tableau_of(how.method).adaptive
    least = 32 * torch.finfo(x.dtype).eps
    options: dict[str, Any] = {"method": how.method, "rtol": max(how.rtol, least), "atol": max(how.atol, least)}
    if not adaptive:
        options |= {"step": _LONG, "adaptive": False}  # one step from each time to the next
    if how.variable == "time":
        states: Tensor = solve(lambda t, y: denoiser.flow(y, t), x, list(times), **options).y
        return states

    def slope(level: Tensor, y: Tensor) -> Tensor:
        t = process.time_of_log_snr(level)
        return denoiser.flow(y, t) / process.log_snr_rate(t)

    levels = process.log_snr(as_time(torch.tensor(list(times), dtype=torch.float64)))
    along: Tensor = solve(slope, x, levels, **options).y
    return along
