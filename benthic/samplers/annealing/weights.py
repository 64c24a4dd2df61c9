"""The weights that annealed chains end with, and what they say of a normalizer."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class AnnealedWeights:
    r"""Weights of chains between a start and a target, and the estimate of :math:`\log Z_1 / Z_0` they give.

    log_weights: (chains, \*batch). positions: (chains, \*batch, d) where the chains ended. accepted: (transitions,
    \*batch) mean acceptance at each temperature. reverse: whether the chains ran from the target to the start.

    In forward direction the mean weight is an unbiased estimate of :math:`Z_1 / Z_0`, so that the logarithm of it is a
    lower bound in expectation; in reverse the mean of 1/w is one of :math:`Z_0 / Z_1`, and gives an upper bound.

    >>> AnnealedWeights(torch.tensor([0.0, math.log(3.0)]), torch.zeros(2, 1), torch.ones(1)).value  # log of 2
    tensor(0.6931)
    """

    log_weights: Tensor
    positions: Tensor
    accepted: Tensor
    reverse: bool = False

    @property
    def bound(self) -> str:
        """``lower`` or ``upper``: on which side of the truth the value lies in expectation."""
        return "upper" if self.reverse else "lower"

    @property
    def _signed(self) -> Tensor:
        return -self.log_weights if self.reverse else self.log_weights

    @property
    def value(self) -> Tensor:
        r"""The logarithm of the mean weight (in reverse, minus that of the mean of 1/w), (\*batch,)."""
        found = torch.logsumexp(self._signed, 0) - math.log(len(self.log_weights))
        return -found if self.reverse else found

    @property
    def stderr(self) -> Tensor:
        """The standard error of ``value`` by the delta method: that of the mean weight, over the mean."""
        if len(self.log_weights) == 1:
            return torch.zeros_like(self.log_weights[0])
        shares = torch.softmax(self._signed, 0) * len(self.log_weights)  # weights over their mean
        return shares.std(0) / math.sqrt(len(shares))

    @property
    def ess(self) -> Tensor:
        r"""How many equal weights these are worth, (\*batch,), between 1 and the number of chains."""
        return torch.exp(-torch.logsumexp(2 * torch.log_softmax(self._signed, 0), 0))

    def jackknife(self) -> tuple[Tensor, Tensor]:
        r"""The value without its bias of first order, and its standard error, from leaving out each chain in turn.

        .. math:: n \hat\theta - \frac{n-1}{n} \sum_i \hat\theta_{-i}

        Efron, 1982. It is closer to the truth than ``value`` but no longer a bound.
        """
        n = len(self.log_weights)
        if n < 2:
            return self.value, torch.zeros_like(self.value)
        total = torch.logsumexp(self._signed, 0)
        # log of the sum without one term; a term that is all of it leaves minus infinity
        gone = (self._signed - total).clamp(max=-torch.finfo(total.dtype).eps)
        without = total + torch.log1p(-torch.exp(gone)) - math.log(n - 1)
        value = total - math.log(n)
        answer = n * value - (n - 1) * without.mean(0)
        stderr = ((n - 1) / n * (without - without.mean(0)).square().sum(0)).sqrt()
        return (-answer if self.reverse else answer), stderr
