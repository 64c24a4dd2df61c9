"""Continuing series of an autoregression: what is known at their ends, expectations, and draws."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from benthic.base.sequences import Ragged
from benthic.chains.autoregressive_gaps import kalman, smooth
from benthic.chains.autoregressive_process import Process


@dataclass(frozen=True)
class State:
    """Where series stand: their last m = max(p, 1) steps (n, m, d), newest first, and the time (n,) of the next.

    covariance: (n, m d, m d) of the last steps where some were not seen, else None.
    """

    tail: Tensor
    time: Tensor
    covariance: Tensor | None = None

    def repeat(self, n: int) -> State:
        """One state for each of ``n`` draws."""
        if len(self.tail) == n:
            return self
        wide = None if self.covariance is None else self.covariance.expand(n, -1, -1)
        return State(self.tail.expand(n, -1, -1), self.time.expand(n), wide)


def state_after(process: Process, series: Ragged) -> State:
    """The state at the end of every series; steps not seen there are filtered from what was."""
    p, d = max(process.order, 1), process.width
    time = series.lengths.to(series.values.device)
    parts = series.split()
    ends = [part[-p:].flip(0) for part in parts]
    if process.order == 0 or all(len(end) == p and not bool(torch.isnan(end).any()) for end in ends):
        zeros = series.values.new_zeros(len(parts), p, d)
        return State(zeros if process.order == 0 else torch.stack(ends), time)
    run = kalman(process, series.padded(torch.nan)[0])
    rows, last = torch.arange(len(parts), device=time.device), time - 1
    away = run.means[rows, last].reshape(len(parts), p, d)
    ago = last[:, None] - torch.arange(p, device=time.device)
    return State(away + process.level(ago), time, run.covariances[rows, last])


def forecasts(process: Process, state: State, horizon: int) -> tuple[Tensor, Tensor]:
    """Means (n, h, d) and covariances (n, h, d, d) of the next steps."""
    tail, out = state.tail[:, : process.order], []
    for step in range(horizon):
        now = process.drift(state.time + step) + torch.einsum("nlj,lij->ni", tail, process.coefficients)
        out.append(now)
        tail = torch.cat([now[:, None], tail], 1)[:, : process.order]
    spread = process.spread(horizon).expand(len(tail), -1, -1, -1)
    if state.covariance is not None:
        spread = spread + _carried(process, state.covariance, horizon)
    return torch.stack(out, 1), spread


def _carried(process: Process, covariance: Tensor, horizon: int) -> Tensor:
    """(n, h, d, d) what doubt about the last steps adds to the covariance of the next ones."""
    matrix, out = process.companion(), []
    for _ in range(horizon):
        covariance = matrix @ covariance @ matrix.T
        out.append(covariance[:, : process.width, : process.width])
    return torch.stack(out, 1)


def new_series(process: Process, n: int, length: int, noise: torch.Generator, heads: Tensor | None = None) -> Tensor:
    """(n, length, d) draws from the stationary law, or from first steps ``heads`` (k, p, d) where there is none."""
    p, d, device = process.order, process.width, process.covariance.device
    if heads is not None:
        first = heads[torch.randint(len(heads), (n,), generator=noise)].to(device)
    else:
        m = max(p, 1)
        values, vectors = torch.linalg.eigh(process.stationary())
        factor = vectors * values.clamp(min=0).sqrt()
        away = torch.randn(n, m * d, generator=noise, dtype=torch.float64).to(device) @ factor.T
        ago = torch.arange(m - 1, -1, -1, device=device)
        first = (away.reshape(n, m, d) + process.level(ago)).flip(1)[:, :p]
    if length <= p:
        return first[:, :length]
    tail = first.flip(1) if p else first.new_zeros(n, 1, d)
    state = State(tail, torch.full((n,), p, device=device))
    return torch.cat([first, continue_draws(process, state, length - p, noise)], 1)


def continues(process: Process, series: Tensor) -> bool:
    """Whether all gaps of a series (t, d) are whole steps at its end, behind at least p steps."""
    gaps = torch.isnan(series)
    known = int((~gaps).any(1).sum())
    return known >= max(process.order, 1) and not bool(gaps[:known].any())


def completed(process: Process, series: Tensor, n: int, noise: torch.Generator) -> Tensor:
    """(n, t, d) draws of the gaps of one series (t, d) given the rest, which is kept.

    Gaps at the end are drawn step by step. Others by simulation: a series drawn freely is moved by the difference of
    what the smoother makes of the known steps of either (Durbin & Koopman, 2002).
    """
    gaps, wide = torch.isnan(series), series.expand(n, -1, -1)
    if not bool(gaps.any()):
        return wide.clone()
    if continues(process, series):
        known = int((~gaps).any(1).sum())
        state = state_after(process, Ragged(series[:known], torch.tensor([known]))).repeat(n)
        return torch.cat([wide[:, :known], continue_draws(process, state, len(series) - known, noise)], 1)
    free = new_series(process, n, len(series), noise)
    moved = smooth(process, series[None]) + free - smooth(process, torch.where(gaps, torch.nan, free))
    return torch.where(gaps, moved, wide)


def continue_draws(process: Process, state: State, length: int, noise: torch.Generator) -> Tensor:
    """(n, length, d) random continuations; doubt about the last steps is drawn too."""
    n, p, d = len(state.tail), process.order, process.width
    device = state.tail.device
    tail = state.tail
    if state.covariance is not None:
        values, vectors = torch.linalg.eigh(state.covariance)
        shift = torch.randn(n, values.shape[1], generator=noise, dtype=torch.float64).to(device)
        tail = tail + ((vectors * values.clamp(min=0).sqrt()[:, None]) @ shift[..., None]).reshape(tail.shape)
    factor = torch.linalg.cholesky(process.covariance)
    shocks = torch.randn(length, n, d, generator=noise, dtype=torch.float64).to(device) @ factor.T
    tail, out = tail[:, :p], []
    for step in range(length):
        now = process.drift(state.time + step) + torch.einsum("nlj,lij->ni", tail, process.coefficients) + shocks[step]
        out.append(now)
        tail = torch.cat([now[:, None], tail], 1)[:, :p]
    return torch.stack(out, 1)
