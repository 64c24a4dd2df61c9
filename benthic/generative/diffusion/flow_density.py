"""Densities along the probability flow in steps that are the same for all rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from benthic.base.likelihood import Likelihood
from benthic.dynamics.ode import solve
from benthic.generative.diffusion.denoiser import Denoiser, Denoising
from benthic.generative.diffusion.objectives import StartedDenoiser

_FEW = 512  # rows times coordinates up to which all coordinates are asked for at once
_LONG = 1e9  # longer than any step: one step of the solver from each time to the next


@torch.no_grad()
def flow_likelihood(denoiser: Denoising, x: Tensor, times: Sequence[float], probes: Tensor | None = None) -> Likelihood:
    r"""Log-densities of data, by fourth-order steps from each time to the next.

    .. math:: \log p(x) = \log p_T(x(T)) + \int \nabla \cdot u(x(t), t)\, dt

    Song et al., 2021. Unlike an adaptive solver's, the value of a row does not depend on the rows beside it, and there
    is one backward pass of the network for each coordinate or probe.

    x: (n, \*event). times: rising, from data to noise. probes: (k, n, \*event) of independent signs for Hutchinson's
    estimate of the divergence, or None for the exact one.

    >>> from benthic.generative.diffusion import exact_denoiser
    >>> normal = exact_denoiser(([1.0], [[0.0]], [[[1.0]]]), "vp")
    >>> flow_likelihood(normal, torch.zeros(1, 1, dtype=torch.float64), [1e-4, 0.2, 0.5, 1.0]).value
    tensor([-0.9189], dtype=torch.float64)
    """
    shape, width = x.shape, x[0].numel()
    copies = _copies(denoiser, x) if probes is None else None

    def rates(t: Tensor, state: Tensor) -> Tensor:
        points = state[:, :width].reshape(shape).detach()
        with torch.enable_grad():
            if copies is not None:
                moves, changes = _all_at_once(copies, points, t)
            else:
                leaf = points.requires_grad_()
                moves = denoiser.flow(leaf, t)
                changes = _divergences(moves, leaf, probes)
        return torch.cat([moves.detach().flatten(1), changes], 1)

    count = 1 if probes is None else len(probes)
    start = torch.cat([x.flatten(1), x.new_zeros(len(x), count)], 1)
    end: Tensor = solve(rates, start, list(times), method="rk4", step=_LONG, adaptive=False).y[-1]
    changes = end[:, width:]
    value = denoiser.process.prior_log_prob(end[:, :width].reshape(shape)) + changes.mean(1)
    if probes is None:
        return Likelihood(value, torch.zeros_like(value), "ode", "exact", "density")
    error = changes.std(1) / count**0.5 if count > 1 else torch.full_like(value, torch.nan)
    return Likelihood(value, error, "ode", "estimate", "density")


def _copies(denoiser: Denoising, x: Tensor) -> Denoising | None:
    """The denoiser of one copy of the rows for each coordinate, where they are so few that calls cost most."""
    width = x[0].numel()
    if type(denoiser) not in (Denoiser, StartedDenoiser) or not 1 < width <= _FEW // len(x):
        return None
    condition = cast(Denoiser, denoiser).condition
    if condition is None:
        return denoiser
    return cast(Denoiser, denoiser).given(torch.cat([condition] * width)) if isinstance(condition, Tensor) else None


def _all_at_once(copies: Denoising, points: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
    """Moves (n, *event) and their divergence (n, 1) by one backward pass: copy i is asked for its coordinate i."""
    n, width = len(points), points[0].numel()
    leaf = points.repeat(width, *[1] * (points.ndim - 1)).requires_grad_()
    moves = copies.flow(leaf, t)
    asked = moves.reshape(width, n, width).diagonal(dim1=0, dim2=2).sum()
    slopes = _slope(asked, leaf).reshape(width, n, width).diagonal(dim1=0, dim2=2)  # (n, width)
    return moves[:n], slopes.sum(1, keepdim=True)


def _divergences(moves: Tensor, leaf: Tensor, probes: Tensor | None) -> Tensor:
    """The divergence (n, 1), or its estimate by each probe (n, k)."""
    if probes is not None:
        parts = [(_slope((moves * v).sum(), leaf) * v).flatten(1).sum(1) for v in probes]
        return torch.stack(parts, 1)
    rows = moves.flatten(1)
    total = torch.zeros_like(rows[:, 0])
    for i in range(rows.shape[1]):
        total = total + _slope(rows[:, i].sum(), leaf).flatten(1)[:, i]
    return total[:, None]


def _slope(value: Tensor, leaf: Tensor) -> Tensor:
    if not value.requires_grad:
        return torch.zeros_like(leaf)
    return torch.autograd.grad(value, leaf, retain_graph=True)[0]
