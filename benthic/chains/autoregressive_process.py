"""Linear Gaussian processes in which every step is a combination of the last ones and a fresh shock."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

_DOUBLINGS = 60  # of the sum behind the stationary covariance: 2^60 terms


@dataclass(frozen=True)
class Process:
    r"""The law of a vector autoregression of order p.

    .. math:: y_t = c + \delta t + \sum_{l=1}^p A_l\, y_{t-l} + \varepsilon_t, \qquad \varepsilon_t \sim N(0, S)

    Lütkepohl, 2005. coefficients: (p, d, d). trend: (q, d), nothing, c, or c and δ; time starts with 0.
    covariance: (d, d).

    >>> half = Process(torch.tensor([[[0.5]]]).double(), torch.tensor([[1.0]]).double(), torch.eye(1).double())
    >>> half.radius, float(half.level(torch.zeros(1))), float(half.stationary())
    (0.5, 2.0, 1.3333333333333333)
    """

    coefficients: Tensor
    trend: Tensor
    covariance: Tensor

    @property
    def order(self) -> int:
        """How many steps back a step looks."""
        return len(self.coefficients)

    @property
    def width(self) -> int:
        """Numbers a step."""
        return len(self.covariance)

    def companion(self) -> Tensor:
        """(m d, m d) the map from the last m = max(p, 1) steps, newest first, to the next such state."""
        p, d = max(self.order, 1), self.width
        matrix = self.covariance.new_zeros(p * d, p * d)
        matrix[d:, :-d] = torch.eye((p - 1) * d).to(matrix)
        if self.order:
            matrix[:d] = self.coefficients.transpose(0, 1).reshape(d, p * d)
        return matrix

    def modes(self) -> Tensor:
        """(m d,) eigenvalues of the companion matrix, the largest first: inverses of the characteristic roots."""
        values = torch.linalg.eigvals(self.companion())
        return values[values.abs().argsort(descending=True, stable=True)]

    @property
    def radius(self) -> float:
        """The largest absolute eigenvalue; below 1 the process is stationary around its trend."""
        return float(self.modes().abs().max())

    @property
    def stationary_law(self) -> bool:
        """Whether there is a stationary law, with a margin of rounding: near several unit roots it is out of reach."""
        if self.radius >= 1 - 1e-9:
            return False
        covariance = self.stationary().detach()
        return bool(covariance.isfinite().all()) and int(torch.linalg.cholesky_ex(covariance).info) == 0

    def drift(self, time: Tensor) -> Tensor:
        """(..., d) the constant and slope at these times."""
        powers = (
            torch.stack([time.to(self.covariance) ** k for k in range(len(self.trend))], -1)
            if len(self.trend)
            else self.covariance.new_zeros(*time.shape, 0)
        )
        return powers @ self.trend

    def level(self, time: Tensor) -> Tensor:
        """(..., d) the expectation at these times: a line, where the process is stationary around one."""
        d, lags = self.width, self.coefficients
        if not len(self.trend):
            return self.covariance.new_zeros(*time.shape, d)
        back = torch.eye(d).to(self.covariance) - lags.sum(0)
        slope = torch.linalg.solve(back, self.trend[1]) if len(self.trend) > 1 else torch.zeros_like(self.trend[0])
        steps = torch.arange(1, self.order + 1).to(lags)
        start = torch.linalg.solve(back, self.trend[0] - torch.einsum("lij,l,j->i", lags, steps, slope))
        return start + time.to(self.covariance)[..., None] * slope

    def stationary(self) -> Tensor:
        r"""(m d, m d) covariance of m = max(p, 1) successive steps, newest first.

        .. math:: P = C P C^\top + Q = \sum_k C^k Q\, C^{k\top}

        by doubling the number of terms until they vanish.
        """
        power, total = self.companion(), self.shock()
        for _ in range(_DOUBLINGS):
            more = power @ total @ power.T
            total, power = total + more, power @ power
            if float(more.detach().abs().max()) <= 1e-17 * float(total.detach().abs().max()):
                break
        return 0.5 * (total + total.T)

    def shock(self) -> Tensor:
        """(m d, m d) covariance that one step adds to the state."""
        size = max(self.order, 1) * self.width
        out = self.covariance.new_zeros(size, size)
        out[: self.width, : self.width] = self.covariance
        return out

    def responses(self, horizon: int) -> Tensor:
        r"""(horizon, d, d) the weights of past shocks, :math:`\Psi_0 = I, \Psi_j = \sum_l A_l \Psi_{j-l}`."""
        out = [torch.eye(self.width).to(self.covariance)]
        for j in range(1, horizon):
            recent = [self.coefficients[lag] @ out[j - 1 - lag] for lag in range(min(self.order, j))]
            out.append(torch.stack(recent).sum(0) if recent else torch.zeros_like(out[0]))
        return torch.stack(out)

    def spread(self, horizon: int) -> Tensor:
        r"""(horizon, d, d) exact covariance of the forecast error, :math:`\sum_{j<h} \Psi_j S \Psi_j^\top`."""
        psi = self.responses(horizon)
        return (psi @ self.covariance @ psi.transpose(1, 2)).cumsum(0)


def windows(values: Tensor, lengths: Tensor, order: int) -> tuple[Tensor, Tensor, Tensor]:
    """Every step that has ``order`` steps before it: the step (N, d), its past (N, order, d), its time (N,).

    values: (total, d) the steps of all series one after the other. lengths: (n,).
    """
    time = times(lengths).to(values.device)
    place = (time >= order).nonzero().squeeze(1)
    lags = torch.arange(1, order + 1, device=values.device)
    return values[place], values[place[:, None] - lags], time[place]


def times(lengths: Tensor) -> Tensor:
    """(total,) the place of each step in its own series.

    >>> times(torch.tensor([2, 3])).tolist()
    [0, 1, 0, 1, 2]
    """
    starts = lengths.cumsum(0) - lengths
    return torch.arange(int(lengths.sum())) - starts.repeat_interleave(lengths)


def errors(process: Process, values: Tensor, lengths: Tensor) -> Tensor:
    """(N, d) what each step that has p before it adds to its prediction from them: the innovations."""
    now, past, time = windows(values, lengths, process.order)
    return now - process.drift(time) - torch.einsum("nlj,lij->ni", past, process.coefficients)


def log_normal(deviation: Tensor, covariance: Tensor) -> Tensor:
    """(...) log-density of a centered Gaussian with one covariance (m, m) at (..., m)."""
    factor = torch.linalg.cholesky(covariance)
    scaled = torch.linalg.solve_triangular(factor, deviation.reshape(-1, len(factor)).T, upper=False)
    constant = factor.diagonal().log().sum() + 0.5 * len(factor) * math.log(2 * math.pi)
    return (-0.5 * scaled.square().sum(0) - constant).reshape(deviation.shape[:-1])


def conditional_log_prob(process: Process, values: Tensor, lengths: Tensor) -> Tensor:
    """(n,) log-density of the steps of each series after its first p, given those p."""
    found = log_normal(errors(process, values, lengths), process.covariance)
    owners = torch.arange(len(lengths)).repeat_interleave((lengths - process.order).clamp(min=0))
    return found.new_zeros(len(lengths)).index_add(0, owners.to(found.device), found)


def exact_log_prob(process: Process, values: Tensor, lengths: Tensor) -> Tensor:
    """(n,) log-density of each whole series under the stationary law.

    The first p steps have the stationary covariance, the others are predicted from p steps before them.
    """
    total = conditional_log_prob(process, values, lengths)
    away = values - process.level(times(lengths).to(values.device))
    covariance, d, starts = process.stationary(), process.width, lengths.cumsum(0) - lengths
    heads = lengths.clamp(max=process.order)
    for count in heads.unique().tolist():
        rows = (heads == count).nonzero().squeeze(1)
        if count:
            place = starts[rows][:, None] + torch.arange(count - 1, -1, -1)
            first = away[place.to(values.device)].reshape(len(rows), count * d)
            total = total.index_add(0, rows.to(values.device), log_normal(first, covariance[: count * d, : count * d]))
    return total
