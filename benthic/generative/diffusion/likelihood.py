"""Densities and codes along the probability flow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from benthic.base.errors import InvalidInput, nearest
from benthic.base.estimate import Estimate
from benthic.base.likelihood import Likelihood
from benthic.base.seeds import generator as stream_of
from benthic.base.seeds import seed_of
from benthic.calculus.fields import divergence
from benthic.calculus.fields import probes as draw_probes
from benthic.dynamics.ode import solve
from benthic.generative.diffusion.denoiser import Denoising
from benthic.generative.diffusion.process import Process, as_time, expand_like
from benthic.generative.diffusion.solvers.controlled import ODE, follow
from benthic.metrics.density import bits_per_dimension
from benthic.metrics.density import log_likelihood as mean_likelihood

TRACES = ("auto", "exact", "rademacher", "gaussian")
_EXACT_SIZE = 32  # up to so many numbers in an example the trace is summed exactly
_PROBES = 8  # else it is estimated from so many directions


@torch.no_grad()
def log_likelihood(
    denoiser: Denoising,
    x: Tensor,
    *,
    trace: str = "auto",
    probes: int = _PROBES,
    method: str = "dormand_prince",
    rtol: float = 1e-5,
    atol: float = 1e-5,
    mode: str = "forward",
    seed: int | None = None,
) -> Likelihood:
    r"""Log-densities of data by the probability flow.

    .. math:: \log p_0(x(0)) = \log p_T(x(T)) + \int_0^T \nabla \cdot u(x(t), t)\, dt

    Song et al., 2021. The flow begins at ``t_min``, where x is taken to be: with a density smooth on that scale the
    difference does not matter.

    x: (n, \*event). trace: ``exact``, a product for each coordinate; ``rademacher`` or ``gaussian``, Hutchinson's
    estimate from so many ``probes``, the same along the way; ``auto``, exact up to 32 numbers in an example.
    method, rtol, atol: of the solver, which steps all rows together. mode: ``forward`` derivatives, or ``reverse`` for
    networks that have no forward ones. Returns values (n,) in nats, with standard errors where the trace is estimated
    from more than one probe.

    >>> from benthic.generative.diffusion import exact_denoiser
    >>> standard = exact_denoiser(([1.0], [[0.0]], [[[1.0]]]), "vp")
    >>> log_likelihood(standard, torch.zeros(1, 1, dtype=torch.float64)).value
    tensor([-0.9189], dtype=torch.float64)
    """
    process = denoiser.process
    check_points("log_likelihood", x)
    if trace not in TRACES:
        raise InvalidInput(
            f"log_likelihood: trace={trace!r}{nearest(str(trace), TRACES)}; there are {', '.join(TRACES)}"
        )
    if trace == "auto":
        trace = "exact" if x[0].numel() <= _EXACT_SIZE else "rademacher"
    directions = None
    if trace != "exact":
        stream = stream_of(seed_of(seed), "trace", device=x.device)
        directions = draw_probes(trace, probes, x, generator=stream)

    speed, ends = _variable(denoiser)

    def rates(s: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        points = state[0]

        def field(y: Tensor) -> Tensor:
            return speed(s, y)

        if directions is None:
            return field(points), divergence(field, points, mode=mode)[:, None]

        def along(probe: Tensor) -> Tensor:
            estimate: Tensor = divergence(field, points, trace, probes=probe[None], mode=mode)
            return estimate

        return field(points), torch.func.vmap(along, randomness="same")(directions).T

    count = 1 if directions is None else len(directions)
    start = (x, x.new_zeros(len(x), count))
    least = 32 * torch.finfo(x.dtype).eps
    solution = solve(rates, start, ends, method=method, rtol=max(rtol, least), atol=max(atol, least))
    end, change = solution.last
    value = process.prior_log_prob(end) + change.mean(1)
    error = torch.zeros_like(value) if directions is None else torch.full_like(value, torch.nan)
    if count > 1:
        error = change.std(1) / count**0.5
    return Likelihood(value, error, "ode", "exact" if directions is None else "estimate", "density")


@torch.no_grad()
def encode(denoiser: Denoising, x: Tensor, *, how: ODE | None = None, t: float | None = None) -> Tensor:
    r"""Codes (n, \*event) of data: where the probability flow takes them, at ``t_max`` or another time.

    how: the solver; by default Dormand and Prince's with tolerances of 1e-5, in the logarithm of the signal-to-noise
    ratio where that is finite.

    >>> from benthic.generative.diffusion import exact_denoiser
    >>> normal = exact_denoiser(([1.0], [[3.0]], [[[4.0]]]), "vp")
    >>> encode(normal, torch.tensor([[5.0]], dtype=torch.float64))
    tensor([[1.0...]], dtype=torch.float64)
    """
    check_points("encode", x)
    process = denoiser.process
    end = denoiser.t_first if t is None else _inside("encode", denoiser, t)
    return follow(denoiser, x, [process.t_min, end], how or _solver(process))[-1]


@torch.no_grad()
def decode(denoiser: Denoising, z: Tensor, *, how: ODE | None = None, t: float | None = None) -> Tensor:
    r"""Data (n, \*event) of codes: back along the probability flow, from ``t_max`` or another time to ``t_min``."""
    check_points("decode", z)
    process = denoiser.process
    start = denoiser.t_first if t is None else _inside("decode", denoiser, t)
    return follow(denoiser, z, [start, process.t_min], how or _solver(process))[-1]


@torch.no_grad()
def grad_log_prob(denoiser: Denoising, x: Tensor, t: float | Tensor | None = None) -> Tensor:
    r"""The Stein score of data with the noise of time t, by default ``t_min``; (n, \*event).

    t: one time, or one for each row (n,). With normal noise the expected data tell the score; with that of Poisson flow
    its lines do, see :func:`score_of_lines`, with the trace exact up to 32 numbers in an example, else by 8 probes.
    """
    check_points("grad_log_prob", x)
    process = denoiser.process
    times = as_time(process.t_min if t is None else t).detach()
    inside = bool(((times >= process.t_min) & (times <= process.t_max)).all())
    if tuple(times.shape) not in ((), (len(x),)) or not inside:
        raise InvalidInput(
            f"grad_log_prob: t={t!r}; give one time, or one for each row, between {process.t_min:g} and "
            f"{process.t_max:g}"
        )
    return denoiser.score(x, times) if process.gaussian else score_of_lines(denoiser, x, times)


def score_of_lines(denoiser: Denoising, x: Tensor, t: Tensor) -> Tensor:
    r"""The score of points from the slopes of the lines of a Poisson flow.

    .. math:: s + \frac{u\, (u \cdot s)}{D} = \frac1D \Big(\partial_\sigma u + \frac{1 - D}{\sigma} u
        - (\nabla \cdot u)\, u\Big), \qquad u = \frac{dx}{d\sigma}

    The field of charges, :math:`(u / \sqrt D,\, 1)` times a number that is the density over :math:`r^{D - 1}`, has
    neither curl nor sources off their space. That it has no curl gives the gradient of the number by its change along
    r, and that it has no sources gives this change.
    """
    process: Any = denoiser.process
    dimensions, sigma = process.dimensions, expand_like(process.sigma(t), x).to(x.dtype)
    when = t.to(x.dtype)
    with sdpa_kernel(SDPBackend.MATH):  # fused attention has no forward derivatives
        slope, change = torch.func.jvp(lambda s: denoiser.flow(x, s), (when,), (torch.ones_like(when),))
        how = "exact" if x[0].numel() <= _EXACT_SIZE else "rademacher"
        stream = stream_of(0, "trace", device=x.device)
        spread = divergence(lambda y: denoiser.flow(y, when), x, how, _PROBES, generator=stream)
    right = (change + ((1 - dimensions) / sigma - expand_like(spread, x)) * slope) / dimensions
    along = (slope * right).flatten(1).sum(1) / (dimensions + slope.flatten(1).square().sum(1))
    return right - expand_like(along, x) * slope


def bits_per_dim(found: Likelihood, size: int, level: float = 1.0) -> Estimate:
    """The mean log-density of the rows as bits a number, for ``size`` numbers in an example rounded to steps of level.

    The data must have been made continuous by uniform noise as wide as a step, and level is in their own units.
    """
    return bits_per_dimension(mean_likelihood(found), size, level)


def _finite(process: Process) -> bool:
    """Whether the logarithm of the signal-to-noise ratio, in which flows are smoothest, is finite everywhere."""
    return process.t_finite >= process.t_max


def _solver(process: Process) -> ODE:
    return ODE(rtol=1e-5, atol=1e-5, variable="log_snr" if _finite(process) else "time")


def _variable(denoiser: Denoising) -> tuple[Callable[[Tensor, Tensor], Tensor], list[float]]:
    """The field of the flow in the variable that suits it, and the values of that where data and noise are."""
    process = denoiser.process
    if not _finite(process):
        return lambda t, y: denoiser.flow(y, t), [process.t_min, denoiser.t_first]

    def speed(level: Tensor, y: Tensor) -> Tensor:
        t = process.time_of_log_snr(level)
        return denoiser.flow(y, t) / process.log_snr_rate(t)

    return speed, [float(process.log_snr(process.t_min)), float(process.log_snr(denoiser.t_first))]


def _inside(where: str, denoiser: Denoising, t: float) -> float:
    process = denoiser.process
    if not process.t_min < t <= process.t_max:
        raise InvalidInput(f"{where}: t={t}; it lies between {process.t_min:g} and {process.t_max:g}")
    return float(t)


def check_points(where: str, x: Any, name: str = "x") -> None:
    """Refuse what is not a batch of points."""
    if not isinstance(x, Tensor) or x.ndim < 2 or not x.is_floating_point():
        shape = f" of shape {tuple(x.shape)}" if hasattr(x, "shape") else ""
        raise InvalidInput(
            f"{where}: {name} is a {type(x).__name__}{shape}; it must be a tensor of floating points (n, ...)"
        )
