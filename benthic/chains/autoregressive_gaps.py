"""Series with gaps: Kalman's filter and the smoother of Rauch, Tung and Striebel for an autoregression."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from benthic.chains.autoregressive_process import Process


class Filtered(NamedTuple):
    """What is known after every step; states are deviations from the level, newest step first.

    log_prob: (n,) of what was observed. means: (n, t, m), covariances: (n, t, m, m) after each step;
    ahead_means, ahead_covariances: the same before it.
    """

    log_prob: Tensor
    means: Tensor
    covariances: Tensor
    ahead_means: Tensor
    ahead_covariances: Tensor


def kalman(process: Process, padded: Tensor) -> Filtered:
    """Filter series (n, t, d) in which NaN is a gap, from the stationary law on (Kalman, 1960).

    A missing number is observed with no weight: its innovation is 0 and its variance 1, which adds nothing.
    """
    n, steps, d = padded.shape
    matrix, shock, start = process.companion(), process.shock(), process.stationary()
    away = padded - process.level(torch.arange(steps, device=padded.device))
    mean, covariance = padded.new_zeros(n, len(matrix)), start.expand(n, -1, -1)
    total, kept = padded.new_zeros(n), []
    for t in range(steps):
        if t:
            mean, covariance = mean @ matrix.T, matrix @ covariance @ matrix.T + shock
        ahead = (mean, covariance)
        seen = ~torch.isnan(away[:, t])
        gain_of = covariance[:, :, :d] * seen[:, None, :]  # (n, m, d)
        part = covariance[:, :d, :d] * (seen[:, :, None] & seen[:, None, :])
        part = part + torch.diag_embed((~seen).to(part))
        surprise = torch.where(seen, away[:, t].nan_to_num(0.0) - mean[:, :d], 0.0)
        factor = torch.linalg.cholesky(part)
        whitened = torch.linalg.solve_triangular(factor, surprise[..., None], upper=False)[..., 0]
        gain = torch.cholesky_solve(gain_of.transpose(1, 2), factor).transpose(1, 2)
        mean = mean + (gain @ surprise[..., None])[..., 0]
        covariance = covariance - gain @ gain_of.transpose(1, 2)
        covariance = 0.5 * (covariance + covariance.transpose(1, 2))
        constant = factor.diagonal(dim1=1, dim2=2).log().sum(1) + 0.5 * math.log(2 * math.pi) * seen.sum(1).to(part)
        total = total - 0.5 * whitened.square().sum(1) - constant
        kept.append((mean, covariance, *ahead))
    parts = [torch.stack(part, 1) for part in zip(*kept, strict=True)]
    return Filtered(total, *parts)


def smooth(process: Process, padded: Tensor) -> Tensor:
    """(n, t, d) the expectation of every step given the whole series (Rauch, Tung & Striebel, 1965)."""
    run, matrix, d = kalman(process, padded), process.companion(), process.width
    mean = run.means[:, -1]
    out = [mean[:, :d]]
    for t in range(padded.shape[1] - 2, -1, -1):
        cross = run.covariances[:, t] @ matrix.T
        gain = cross @ torch.linalg.pinv(run.ahead_covariances[:, t + 1], hermitian=True)
        mean = run.means[:, t] + (gain @ (mean - run.ahead_means[:, t + 1])[..., None])[..., 0]
        out.append(mean[:, :d])
    level = process.level(torch.arange(padded.shape[1], device=padded.device))
    return torch.stack(out[::-1], 1) + level
