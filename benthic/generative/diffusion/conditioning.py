"""Filling gaps and editing with a denoiser that was never trained for it."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput, nearest
from benthic.base.seeds import generator as stream_of
from benthic.base.seeds import seed_of
from benthic.base.settings import is_number, is_whole
from benthic.generative.diffusion.denoiser import Denoising
from benthic.generative.diffusion.likelihood import check_points
from benthic.generative.diffusion.process import Process
from benthic.generative.diffusion.sampling import drawing, first_points, grid_for, refuse_noise, sample
from benthic.generative.diffusion.solvers import Sampler, sampler_of
from benthic.generative.diffusion.solvers.base import Normal, Point, Progress, Watch, clean
from benthic.generative.diffusion.solvers.onestep import step_variances

METHODS = ("repaint", "replacement")
_KARRAS = 7.0


@torch.no_grad()
def inpaint(
    denoiser: Denoising,
    known: Tensor,
    mask: Tensor,
    *,
    method: str = "repaint",
    repeats: int = 10,
    sampler: str | Sampler = "ancestral",
    steps: int = 100,
    times: Any = None,
    seed: int | None = None,
    generator: torch.Generator | None = None,
    progress: Progress | None = None,
    check_every: int = 0,
) -> Tensor:
    r"""Samples that agree with what is known of them.

    ``replacement`` puts the known numbers, with the noise of the level, into the points after every step (Song et al.,
    2021); what is unknown then hears of them too late, and its law is only roughly the conditional one. ``repaint``
    goes back to the higher level and takes the step again, ``repeats`` times, so that both parts come to agree
    (Lugmayr et al., 2022).

    known: (n, \*event), anything (also NaN) where mask is False. mask: booleans that broadcast with it, True where it
    is known. sampler: one that needs only the present points; with ``ancestral`` a step back and one forward leave the
    law of the process as it is, on which ``repaint`` rests. The rest: as in
    :func:`~benthic.generative.diffusion.sampling.sample`. Returns (n, \*event) with the known numbers as they are.
    """
    process, chosen = denoiser.process, sampler_of(sampler)
    mask = _checked(known, mask)
    _check_settings(method, repeats, chosen)
    refuse_noise(process, chosen)
    if not process.gaussian:
        raise InvalidInput(f"inpaint: {type(process).__name__} has no normal steps to go back by")
    grid = grid_for(process, chosen, steps, times, None, True, denoiser.t_first)
    stream = generator or stream_of(seed_of(seed), "diffusion", device=known.device)
    normal = drawing(stream)
    given = torch.where(mask, known, torch.zeros_like(known))
    x = first_points(process, known.shape, grid[0], known, stream)
    watch = Watch(len(grid), progress, check_every)
    turns = repeats if method == "repaint" else 1
    for here, there in pairwise(grid):
        for turn in range(turns):
            x = _merged(given, mask, here, x, normal)
            x, _ = chosen.step(denoiser, here, there, x, None, normal)
            if turn < turns - 1:
                x = _back(here, there, x, normal)
        watch.after(there, x)
    x = denoiser.data(_merged(given, mask, grid[-1], x, normal), grid[-1].t)
    x = torch.where(mask, known, x)
    watch.after(clean(len(grid)), x)
    watch.check()
    return x


def start_of(process: Process, strength: float) -> float:
    r"""The time at which an edit of this strength begins, a share of the way from data to noise.

    The way is the time of the process; where time is the noise itself it is :math:`\sigma^{1/7}`, along which Karras et
    al., 2022, place their steps: half of the largest noise would leave nothing of the data.

    >>> from benthic.generative.diffusion import VP, AddedNoise
    >>> round(start_of(VP(), 0.5), 2), round(start_of(AddedNoise(), 0.5), 1)
    (0.5, 2.5)
    """
    if not is_number(strength) or not 0 < strength <= 1:
        raise InvalidInput(f"edit: strength={strength!r}; it is a number above 0, and 1 at most")
    power = _KARRAS if process.grid == "karras" else 1.0
    low, high = process.t_min ** (1 / power), process.t_max ** (1 / power)
    start = float(low + strength * (high - low)) ** power
    if process.whole:
        start = max(round(start), process.t_min + 1)  # at least one step above the data
    return min(start, process.t_max)


def edit(
    denoiser: Denoising,
    x: Tensor,
    *,
    strength: float | None = None,
    t_start: float | None = None,
    seed: int | None = None,
    **options: Any,
) -> Tensor:
    r"""Samples near given points: these get noise, and sampling begins there.

    Meng et al., 2022 (SDEdit). x: (n, \*event). strength: how far to go, between 0 and 1, see :func:`start_of`; or
    t_start, the time to begin at itself. More noise keeps less of x. Options: as of
    :func:`~benthic.generative.diffusion.sampling.sample`.
    """
    check_points("edit", x)
    process = denoiser.process
    if (strength is None) == (t_start is None):
        raise InvalidInput("edit: give either strength, between 0 and 1, or t_start")
    if strength is not None:
        t_start = start_of(process, strength)
    if t_start is None or not process.t_min < t_start <= process.t_max:
        raise InvalidInput(f"edit: t_start={t_start}; it lies between {process.t_min:g} and {process.t_max:g}")
    t_start = float(process.snap(torch.tensor(t_start, dtype=torch.float64)))
    stream = stream_of(seed_of(seed), "diffusion", device=x.device)
    noisy = process.mix(x, process.draw_noise(x.shape, x, stream), t_start)
    return sample(denoiser, start=noisy, t_start=t_start, generator=stream, **options)


def _merged(given: Tensor, mask: Tensor, point: Point, x: Tensor, normal: Normal) -> Tensor:
    """Points with the known numbers, at the noise of the level, in their place."""
    return torch.where(mask, point.alpha * given + point.sigma * normal(x), x)


def _back(here: Point, there: Point, x: Tensor, normal: Normal) -> Tensor:
    """Points of ``there`` with the noise of a forward step to ``here``."""
    return here.alpha / there.alpha * x + math.sqrt(step_variances(here, there)[1]) * normal(x)


def _checked(known: Tensor, mask: Tensor) -> Tensor:
    check_points("inpaint", known, "known")
    try:
        wide = torch.as_tensor(mask).bool().to(known.device).expand(known.shape)
    except RuntimeError as error:
        raise InvalidInput(
            f"inpaint: a mask {tuple(mask.shape)} does not go with points {tuple(known.shape)}"
        ) from error
    if not bool(known[wide].isfinite().all()):
        raise InvalidInput("inpaint: a number that the mask calls known is not finite; mask it out")
    return wide


def _check_settings(method: str, repeats: int, sampler: Sampler) -> None:
    if method not in METHODS:
        raise InvalidInput(f"inpaint: method={method!r}{nearest(str(method), METHODS)}; use {' or '.join(METHODS)}")
    if not is_whole(repeats, 1):
        raise InvalidInput(f"inpaint: repeats={repeats!r}; at least one is needed")
    if not sampler.one_step or type(sampler).run is not Sampler.run:
        raise InvalidInput(
            f"inpaint: {sampler!r} remembers earlier points or chooses its own steps; use ancestral, ddim or heun"
        )
