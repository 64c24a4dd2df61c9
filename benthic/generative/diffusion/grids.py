"""The times that a sampler visits."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput, nearest
from benthic.base.settings import is_whole
from benthic.generative.diffusion.process import Process

GRIDS = ("uniform", "karras", "log_snr")


def time_grid(
    process: Process,
    steps: int,
    kind: str | None = None,
    *,
    rho: float = 7.0,
    t_start: float | None = None,
    t_end: float | None = None,
) -> Tensor:
    r"""Falling times (steps,) float64 from ``t_start`` to ``t_end``, both among them.

    kind: ``uniform`` in time (whole times on a chain), ``karras``, equally far apart in
    :math:`(\sigma / \alpha)^{1/\rho}` (Karras et al., 2022, equation 5), ``log_snr``, equally far apart in the
    logarithm of the signal-to-noise ratio (Lu et al., 2022), or what suits the process.
    t_start, t_end: by default the ends of the process, ``t_max`` and ``t_min``.

    >>> from benthic.generative.diffusion import DiscreteChain
    >>> time_grid(DiscreteChain(1000), 4).tolist()
    [1000.0, 667.0, 334.0, 1.0]
    """
    kind = process.grid if kind is None else kind
    if kind not in GRIDS:
        raise InvalidInput(f"time_grid: {kind!r} is unknown{nearest(str(kind), GRIDS)}; there are {', '.join(GRIDS)}")
    if not is_whole(steps, 2):
        raise InvalidInput(f"time_grid: steps={steps!r}; at least 2 are needed, one to begin with and one to end with")
    if not (math.isfinite(rho) and rho > 0):
        raise InvalidInput(f"time_grid: rho={rho}; it must be positive")
    first = process.t_max if t_start is None else float(t_start)
    last = process.t_min if t_end is None else float(t_end)
    _check_ends(process, first, last)
    along = torch.linspace(0, 1, steps, dtype=torch.float64)
    if kind == "uniform":
        times = process.snap(first + along * (last - first))
    else:
        top = min(first, process.t_finite)
        ends = process.log_snr(top), process.log_snr(last)
        if kind == "log_snr":
            times = process.time_of_log_snr(ends[0] + along * (ends[1] - ends[0]))
        else:
            roots = [(-0.5 * end / rho).exp() for end in ends]
            times = process.time_of_noise((roots[0] + along * (roots[1] - roots[0])) ** rho)
    times[0], times[-1] = first, last  # exactly
    if bool((times.diff() >= 0).any()):
        raise InvalidInput(f"time_grid: {steps} steps between t={first:g} and t={last:g} do not all differ; take fewer")
    return times


def levels_between(process: Process, t_start: float) -> int:
    """How many noise levels there are from a time down to the last: on a chain its whole times, else any number.

    >>> from benthic.generative.diffusion import DiscreteChain
    >>> levels_between(DiscreteChain(1000), 51.0)
    51
    """
    return math.floor(t_start - process.t_min) + 1 if process.whole else sys.maxsize


def checked_times(process: Process, times: Tensor | Sequence[float]) -> Tensor:
    """Times of one's own as falling float64 (steps,), or one sentence that says what is wrong with them."""
    try:
        grid = torch.as_tensor(times, dtype=torch.float64).cpu()
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"times are {times!r}; give falling numbers, or one of {', '.join(GRIDS)}") from error
    if grid.ndim != 1 or len(grid) < 2:
        raise InvalidInput(f"times have shape {tuple(grid.shape)}; give at least two in a row")
    if not bool(grid.isfinite().all()) or bool((grid.diff() >= 0).any()):
        raise InvalidInput("times do not fall strictly; go from much noise (t_max) to little (t_min)")
    _check_ends(process, float(grid[0]), float(grid[-1]))
    return grid


def _check_ends(process: Process, first: float, last: float) -> None:
    air = 1e-9 * process.t_max
    if not (math.isfinite(first) and math.isfinite(last)):
        raise InvalidInput(f"times from {first} to {last} are not finite")
    if first <= last:
        raise InvalidInput(f"times run from t={first:g} to t={last:g}; sampling goes from much noise to little")
    if first > process.t_max + air or last < process.t_min - air:
        raise InvalidInput(
            f"times from t={first:g} to t={last:g} leave the process, which lives between {process.t_min:g} and "
            f"{process.t_max:g}"
        )
