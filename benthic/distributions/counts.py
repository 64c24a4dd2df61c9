"""Laws of counts and labels, with the distribution functions, quantiles and entropies that torch lacks."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from benthic.distributions.scalar import _level
from benthic.distributions.special import beta_tails, gamma_tails


class Bernoulli(torch.distributions.Bernoulli):
    """Zero or one, with its distribution function.

    probs: the probability of one; or logits.

    >>> Bernoulli(0.25).cdf(torch.tensor(0.0))
    tensor(0.7500)
    """

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of being at most ``value``."""
        below = torch.where(value < 0, 0.0, 1 - self.probs)
        return torch.where(value >= 1, 1.0, below).to(self.probs.dtype)

    def icdf(self, value: Tensor) -> Tensor:
        """The smallest value whose distribution function reaches ``value``."""
        return (_level("Bernoulli", value, self.probs) > 1 - self.probs).to(self.probs.dtype)


class Categorical(torch.distributions.Categorical):
    """Labels 0, 1, ..., with the distribution function of their number.

    probs: (..., k) shares, rescaled to sum to one; or logits.

    >>> Categorical(torch.tensor([0.5, 0.25, 0.25])).icdf(torch.tensor(0.6))
    tensor(1)
    """

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of a label of at most ``value``."""
        steps = self.probs.cumsum(-1)
        at = value.floor().long().clamp(0, steps.shape[-1] - 1)
        at, steps = at.unsqueeze(-1), steps.expand(*torch.broadcast_shapes(at.shape, steps.shape[:-1]), -1)
        found = steps.gather(-1, at.expand(*steps.shape[:-1], 1)).squeeze(-1)
        return torch.where(value < 0, 0.0, torch.where(value >= steps.shape[-1] - 1, 1.0, found))

    def icdf(self, value: Tensor) -> Tensor:
        """The first label whose distribution function reaches ``value``."""
        level = _level("Categorical", value, self.probs).to(self.probs.dtype)
        return (self.probs.cumsum(-1)[..., :-1] < level.unsqueeze(-1)).sum(-1)


class Binomial(torch.distributions.Binomial):
    """Successes among independent trials, with its distribution function and quantiles.

    total_count: trials. probs: the probability of success; or logits.

    >>> Binomial(4, torch.tensor(0.5)).cdf(torch.tensor(2.0))
    tensor(0.6875)
    """

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most ``value`` successes."""
        n, p = self.total_count.double(), self.probs.double()
        k, n, p = torch.broadcast_tensors(value.floor().to(p), n, p)
        inside = k.clamp(min=torch.zeros_like(n), max=(n - 1).clamp(min=0))
        lower, _ = beta_tails((n - inside).clamp(min=1), inside + 1, 1 - p, p)
        return torch.where(k < 0, 0.0, torch.where(k >= n, 1.0, lower)).to(self.probs.dtype)

    def icdf(self, value: Tensor) -> Tensor:
        """The smallest count whose distribution function reaches ``value``."""
        level = _level("Binomial", value, self.probs)
        level, top = torch.broadcast_tensors(level, self.total_count.double())
        wide = Binomial(self.total_count.double(), probs=self.probs.double(), validate_args=False)
        return _smallest(wide.cdf, level, top).to(self.probs.dtype)


class Poisson(torch.distributions.Poisson):
    """Counts of rare events, with distribution function, quantiles and entropy.

    rate: the mean.

    >>> Poisson(torch.tensor(2.0)).icdf(torch.tensor(0.5))
    tensor(2.)
    """

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of a count of at most ``value``."""
        k, rate = torch.broadcast_tensors(value.floor().to(self.rate.device).double(), self.rate.double())
        _, upper = gamma_tails(k.clamp(min=0) + 1, rate)
        return torch.where(k < 0, 0.0, upper).to(self.rate.dtype)

    def icdf(self, value: Tensor) -> Tensor:
        """The smallest count whose distribution function reaches ``value``; infinite at level one."""
        level, rate = torch.broadcast_tensors(_level("Poisson", value, self.rate), self.rate.double())
        top = (rate + 60 * rate.sqrt() + 400).ceil()
        found = _smallest(Poisson(self.rate.double(), validate_args=False).cdf, level, top)
        return torch.where(level >= 1, torch.inf, found).to(self.rate.dtype)

    def entropy(self) -> Tensor:
        """The entropy in nats: the sum over every count that has any mass in float64."""
        rate = self.rate.double()
        top = int(float(rate.detach().max()) + 40 * math.sqrt(float(rate.detach().max())) + 60)
        counts = torch.arange(top + 1, device=rate.device, dtype=rate.dtype)
        logs = torch.xlogy(counts, rate.unsqueeze(-1)) - rate.unsqueeze(-1) - torch.lgamma(counts + 1)
        return -(logs.exp() * logs.clamp(min=-800)).sum(-1).to(self.rate.dtype)


class Geometric(torch.distributions.Geometric):
    """Failures before the first success, with its distribution function and quantiles.

    probs: the probability of success; or logits.

    >>> Geometric(torch.tensor(0.5)).cdf(torch.tensor(1.0))
    tensor(0.7500)
    """

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most ``value`` failures."""
        whole = value.floor().clamp(min=-1) + 1
        return -torch.expm1(torch.xlogy(whole, 1 - self.probs))

    def icdf(self, value: Tensor) -> Tensor:
        """The smallest count whose distribution function reaches ``value``."""
        level = _level("Geometric", value, self.probs).to(self.probs.dtype)
        guess = (torch.log1p(-level) / torch.log1p(-self.probs) - 1).ceil().clamp(min=0)
        # the logarithms may round across a step
        guess = torch.where((guess > 0) & (self.cdf(guess - 1) >= level), guess - 1, guess)
        return torch.where(self.cdf(guess) < level, guess + 1, guess)


def _smallest(cdf: Callable[[Tensor], Tensor], level: Tensor, top: Tensor) -> Tensor:
    """The smallest integer from 0 to ``top`` at which a distribution function reaches a level, by bisection."""
    low, high = torch.full_like(top, -1.0), top.clone()
    with torch.no_grad():
        while bool((high - low > 1).any()):
            middle = ((low + high) / 2).floor()
            enough = cdf(middle) >= level
            low, high = torch.where(enough, low, middle), torch.where(enough, middle, high)
    return high.clamp(min=0)
