"""The weights of components: plain shares, or the broken stick of a Dirichlet process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

_LEAST = 1e-300


class Weights(NamedTuple):
    """Weights (k,) that sum to one, and the logarithms (k,) that the E step uses."""

    value: Tensor
    log: Tensor

    def to(self, device: torch.device | str) -> Weights:
        """The same on another device."""
        return Weights(self.value.to(device), self.log.to(device))


class WeightRule(ABC):
    """How weights follow from the rows that components hold."""

    sorts: bool  # whether components are put in order of weight

    @abstractmethod
    def maximize(self, count: Tensor) -> Weights:
        """Weights from counts (k,)."""

    @abstractmethod
    def log_prior(self, count: Tensor, weights: Weights) -> float:
        """What the weights add to the objective; count: those they were made from."""


@dataclass(frozen=True)
class Shares(WeightRule):
    """Weights in proportion to counts, with ``rows`` more for each component."""

    rows: float
    sorts = False

    def maximize(self, count: Tensor) -> Weights:
        """See ``WeightRule``."""
        weights = (count + self.rows).clamp(min=_LEAST)
        weights = weights / weights.sum()
        return Weights(weights, weights.log())

    def log_prior(self, count: Tensor, weights: Weights) -> float:
        """See ``WeightRule``."""
        return self.rows * float(weights.log.sum())


@dataclass(frozen=True)
class Sticks(WeightRule):
    r"""The stick of a Dirichlet process, broken into as many pieces as there are components.

    .. math:: w_k = v_k \prod_{j<k} (1 - v_j), \quad v_k \sim \mathrm{Beta}(1, \alpha), \quad
        q(v_k) = \mathrm{Beta}(1 + N_k, \alpha + N_{k+1} + \dots + N_K)

    Blei & Jordan, 2006. The parameters of a component are known to the precision of N̂ rows: their posterior is taken
    as normal about the point estimate, and as wide beside that of one typical row as the T free parameters of N̂ rows
    are, so that every row costs and every component costs

    .. math:: \frac{T}{2 \hat N_k} \quad\text{and}\quad
        \frac T2 \Bigl( \log \hat N_k + \frac{1}{\hat N_k} - 1 \Bigr), \qquad \hat N_k = N_k + 1

    nats. Weights, precisions, parameters and responsibilities each maximize this bound in turn, so it never falls.
    Components stand in order of weight, the order the bound prefers (Kurihara, Welling & Teh, 2007).

    concentration: α; small ones use few components. freedom: T.
    """

    concentration: float
    freedom: int = 0
    sorts = True

    def _posterior(self, count: Tensor) -> tuple[Tensor, Tensor]:
        after = count.flip(0).cumsum(0).flip(0) - count
        return 1 + count[:-1], self.concentration + after[:-1].clamp(min=0)

    def maximize(self, count: Tensor) -> Weights:
        """Expected weights, and expected logarithms less what a row costs."""
        a, b = self._posterior(count)
        last = count.new_zeros(1)
        taken, left = a / (a + b), b / (a + b)
        value = torch.cat((taken, last + 1)) * torch.cat((last + 1, left.cumprod(0)))
        both = torch.digamma(a + b)
        log_taken, log_left = torch.digamma(a) - both, torch.digamma(b) - both
        log = torch.cat((log_taken, last)) + torch.cat((last, log_left.cumsum(0)))
        return Weights(value, log - 0.5 * self.freedom / (1 + count))

    def log_prior(self, count: Tensor, weights: Weights) -> float:
        """Minus the divergence of q from the prior of the sticks."""
        from torch.distributions import Beta, kl_divergence

        known = 1 + count
        cost = 0.5 * self.freedom * float((known.log() + 1 / known - 1).sum())
        if len(count) < 2:
            return -cost
        a, b = self._posterior(count)
        prior = Beta(torch.ones_like(a), torch.full_like(b, self.concentration))
        return -float(kl_divergence(Beta(a, b), prior).sum()) - cost
