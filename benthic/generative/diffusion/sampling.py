"""From noise to data: one function for every process, denoiser and sampler."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.seeds import generator as stream_of
from benthic.base.seeds import seed_of
from benthic.base.settings import is_whole
from benthic.generative.diffusion.denoiser import Denoising
from benthic.generative.diffusion.grids import checked_times, time_grid
from benthic.generative.diffusion.process import Process, standard_normal
from benthic.generative.diffusion.solvers import Sampler, sampler_of
from benthic.generative.diffusion.solvers.base import Normal, Point, Progress, Watch, clean, points

_SIGNAL = 0.1  # of the data, over the noise, that sampling from pure noise may miss


@dataclass(frozen=True)
class Path:
    r"""Points on their way. times: (m,) float64. states: (m, n, \*event); the last are the samples."""

    times: Tensor
    states: Tensor


def sample(denoiser: Denoising, shape: Sequence[int] | None = None, **options: Any) -> Tensor:
    r"""Samples (n, \*event), from noise or from given noisy points.

    denoiser: a :class:`~benthic.generative.diffusion.denoiser.Denoiser` or a wrap of one. shape: (n, \*event), or left
    out where ``start`` is given. Options:

    sampler: a name (see :func:`~benthic.generative.diffusion.solvers.sampler_of`) or a sampler; ``dpm2m`` by default.
    steps: noise levels to visit, at least 2, by default 50; the last move goes from the lowest of them to the expected
    data (``denoise=True``) or, without that, ends there after as many moves. Samplers that control their steps take as
    many as they need. times: ``uniform``, ``karras``, ``log_snr``, falling times of one's own, or what suits the
    process; without a start the first of them has hardly anything but noise, with α at most a tenth of σ. start: points
    (n, \*event) of the first time. t_start: the first time, with less noise than ``t_max``.
    dtype, device: of the samples where there is no start. seed or generator: decide the noise.
    progress: called as ``progress(move, moves, t, x)``. check_every: ask after so many moves whether all points are
    finite; in any case that is asked at the end, and the error says when it began. Nothing else waits for the device.

    >>> from benthic.generative.diffusion import exact_denoiser
    >>> normal = exact_denoiser(([1.0], [[2.0]], [[[0.25]]]), "vp")
    >>> x = sample(normal, (5000, 1), steps=20, seed=0, dtype=torch.float64)
    >>> bool((x.mean() - 2).abs() < 0.03), bool((x.std() - 0.5).abs() < 0.02)
    (True, True)
    """
    return _travel(denoiser, shape, 0, **options)[0]


def trajectory(denoiser: Denoising, shape: Sequence[int] | None = None, *, every: int = 1, **options: Any) -> Path:
    """The way of samples from noise to data; every: keep the points of so many moves. Options: as of ``sample``."""
    if not is_whole(every, 1):
        raise InvalidInput(f"trajectory: every={every!r}; it must be a whole number of at least 1")
    watch = _travel(denoiser, shape, every, **options)[1]
    return Path(torch.tensor(watch.times, dtype=torch.float64), torch.stack(watch.states))


@torch.no_grad()
def _travel(
    denoiser: Denoising,
    shape: Sequence[int] | None,
    every: int,
    *,
    sampler: str | Sampler = "dpm2m",
    steps: int = 50,
    times: str | Tensor | Sequence[float] | None = None,
    start: Tensor | None = None,
    t_start: float | None = None,
    denoise: bool = True,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    seed: int | None = None,
    generator: torch.Generator | None = None,
    progress: Progress | None = None,
    check_every: int = 0,
) -> tuple[Tensor, Watch]:
    process, chosen = denoiser.process, sampler_of(sampler)
    refuse_noise(process, chosen)
    grid = grid_for(process, chosen, steps, times, t_start, denoise, denoiser.t_first)
    like, stream = _place(start, dtype, device, seed, generator)
    x = _start(process, shape, start, t_start, grid[0], like, stream)
    watch = Watch(len(grid) - 1 + int(denoise), progress, check_every, every)
    watch.start(grid[0].t, x)
    x = chosen.run(denoiser, grid, x, drawing(stream), watch)
    if denoise:
        x = denoiser.data(x, grid[-1].t)
        watch.after(clean(len(grid)), x)
    watch.check()
    return x, watch


def grid_for(
    process: Process,
    sampler: Sampler,
    steps: int,
    times: str | Tensor | Sequence[float] | None,
    t_start: float | None,
    denoise: bool,
    t_first: float = math.inf,
) -> list[Point]:
    """The points that a sampler visits; t_first: with the most noise at which the denoiser can be asked."""
    if not is_whole(steps, 2):
        raise InvalidInput(f"sample: steps={steps!r}; at least 2 are needed")
    if times is None or isinstance(times, str):
        grid = time_grid(process, steps + int(not denoise), times, t_start=t_start)
    else:
        grid = checked_times(process, times)
    first = min(t_first, process.t_finite) if sampler.finite else t_first
    if float(grid[0]) > first:
        lower = grid[grid < first]
        if not len(lower):
            raise InvalidInput(f"sample: no time lies below t={first:g}, where {sampler!r} begins; take earlier ones")
        grid = torch.cat([grid.new_tensor([first]), lower])
    return points(process, grid)


def refuse_noise(process: Process, sampler: Sampler) -> None:
    """Samplers that add normal noise belong to processes that do."""
    if sampler.stochastic and not process.gaussian:
        raise InvalidInput(
            f"sample: {sampler!r} adds normal noise, but the noise of {type(process).__name__} is another; take a "
            "sampler without noise, such as heun, dpm2m or ode"
        )


def drawing(stream: torch.Generator) -> Normal:
    """A function that draws standard normal numbers like a tensor."""
    return lambda x: standard_normal(x.shape, x, stream)


def _place(
    start: Tensor | None,
    dtype: torch.dtype | None,
    device: torch.device | str | None,
    seed: int | None,
    generator: torch.Generator | None,
) -> tuple[Tensor, torch.Generator]:
    """A tensor of the type and place of the samples, and where noise comes from."""
    if seed is not None and generator is not None:
        raise InvalidInput("sample: both seed and generator are given; pass one of them")
    like = torch.empty(0, dtype=dtype, device=device) if start is None else start
    stream = generator or stream_of(seed_of(seed), "diffusion", device=like.device)
    return like, stream


def _start(
    process: Process,
    shape: Sequence[int] | None,
    start: Tensor | None,
    t_start: float | None,
    first: Point,
    like: Tensor,
    stream: torch.Generator,
) -> Tensor:
    if start is not None:
        if start.ndim < 2 or not start.is_floating_point():
            raise InvalidInput(f"sample: start has shape {tuple(start.shape)}; it holds floating points (n, ...)")
        if shape is not None and tuple(shape) != tuple(start.shape):
            raise InvalidInput(f"sample: shape {tuple(shape)} is not that of start, {tuple(start.shape)}")
        return start
    if t_start is not None:
        raise InvalidInput("sample: t_start goes with start, the points of that time; see also edit")
    sizes = () if shape is None else tuple(shape)
    if len(sizes) < 2 or not all(is_whole(size, 0) for size in sizes):
        raise InvalidInput(f"sample: shape is {shape!r}; give (n, *event), for example (16, 2)")
    return first_points(process, sizes, first, like, stream)


def first_points(
    process: Process, shape: Sequence[int], first: Point, like: Tensor, stream: torch.Generator | None
) -> Tensor:
    """Noise (n, ...) as there is at the first point of a grid, which must have hardly anything of the data."""
    last = points(process, [process.t_max])[0]
    if first.alpha > max(_SIGNAL, last.alpha / last.sigma) * first.sigma:
        raise InvalidInput(
            f"sample: times begin at t={first.t:g}, where points are not noise alone (alpha={first.alpha:.3g}, "
            f"sigma={first.sigma:.3g}); begin nearer to {process.t_max:g}, or give the points of that time (see edit)"
        )
    return process.draw_prior(shape, like, stream) * (first.sigma / last.sigma)
