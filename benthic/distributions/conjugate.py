"""Shares that are learned from counts: the Dirichlet prior, its posterior, and what it predicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Dirichlet, Distribution, Multinomial, constraints

from benthic.base.errors import InvalidInput
from benthic.distributions.checks import refuse_not_positive
from benthic.distributions.counts import Categorical
from benthic.distributions.scalar import Beta


class DirichletMultinomial(Distribution):
    r"""Counts whose shares are drawn from a Dirichlet law first (Pólya's urn).

    .. math:: p(n) = \frac{N!\, \Gamma(A)}{\Gamma(N + A)}
        \prod_k \frac{\Gamma(n_k + \alpha_k)}{n_k!\, \Gamma(\alpha_k)}, \qquad A = \sum_k \alpha_k

    concentration: (..., k) above 0. total_count: N, a number or one for each of the batch.

    >>> law = DirichletMultinomial([1.0, 1.0, 1.0], total_count=2)
    >>> law.log_prob(torch.tensor([1.0, 1.0, 0.0])).exp()  # one of six equally likely outcomes
    tensor(0.1667, dtype=torch.float64)
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}

    def __init__(self, concentration: Any, total_count: Any = 1, validate_args: bool | None = None) -> None:
        if not isinstance(concentration, Tensor):
            concentration = torch.as_tensor(concentration, dtype=torch.float64)
        if concentration.ndim < 1 or concentration.shape[-1] < 2:
            raise InvalidInput("DirichletMultinomial: concentration must be a vector of at least two numbers")
        refuse_not_positive("DirichletMultinomial", concentration=concentration)
        total = torch.as_tensor(total_count, device=concentration.device).to(concentration.dtype)
        if bool((total < 0).any()) or bool((total != total.floor()).any()):
            raise InvalidInput("DirichletMultinomial: total_count must be a whole number and not negative")
        batch = torch.broadcast_shapes(concentration.shape[:-1], total.shape)
        self.total_count = total.expand(batch)
        self.concentration = concentration.expand(*batch, concentration.shape[-1])
        super().__init__(batch, concentration.shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> DirichletMultinomial:
        """The same law for a larger batch."""
        new = self._get_checked_instance(DirichletMultinomial, _instance)
        batch_shape = torch.Size(batch_shape)
        new.total_count = self.total_count.expand(batch_shape)
        new.concentration = self.concentration.expand(*batch_shape, *self.event_shape)
        super(DirichletMultinomial, new).__init__(batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> constraints.Constraint:
        """Whole numbers that sum to the total."""
        return constraints.multinomial(int(self.total_count.max()))

    @property
    def mean(self) -> Tensor:
        """Expected counts."""
        share = self.concentration / self.concentration.sum(-1, keepdim=True)
        return self.total_count.unsqueeze(-1) * share

    @property
    def variance(self) -> Tensor:
        """Variances of the counts, larger than those of a multinomial."""
        weight = self.concentration.sum(-1, keepdim=True)
        share, total = self.concentration / weight, self.total_count.unsqueeze(-1)
        return total * share * (1 - share) * (total + weight) / (1 + weight)

    def log_prob(self, value: Tensor) -> Tensor:
        """The log-probability of counts (..., k); minus infinity where they do not sum to the total."""
        value = value.to(self.concentration.dtype)
        right = (value.sum(-1) == self.total_count) & (value >= 0).all(-1) & (value == value.floor()).all(-1)
        n = value.clamp(min=0)
        found = torch.lgamma(self.total_count + 1) - torch.lgamma(n + 1).sum(-1) + _log_urn(self.concentration, n)
        return torch.where(right, found, -torch.inf)

    def sample(self, sample_shape: Sequence[int] = torch.Size()) -> Tensor:
        """Counts: shares first, then a multinomial draw."""
        totals = self.total_count.flatten()
        if totals.numel() and bool((totals != totals[0]).any()):
            raise InvalidInput("DirichletMultinomial.sample: total_count differs within the batch; draw one at a time")
        with torch.no_grad():
            share = Dirichlet(self.concentration).sample(torch.Size(sample_shape))
            return Multinomial(int(totals[0]), probs=share).sample()

    def posterior(self, counts: Any) -> Dirichlet:
        """The law of the shares after counts (k,), or rows of counts (n, k), were seen."""
        return dirichlet_posterior(Dirichlet(self.concentration), counts)


def dirichlet_posterior(prior: Any, counts: Any) -> Dirichlet:
    r"""The law of shares after counts: the concentrations grow by what was counted.

    .. math:: \mathrm{Dir}(\alpha) \to \mathrm{Dir}(\alpha + n)

    prior: a ``Dirichlet`` or its concentration (k,). counts: (k,), or rows (n, k) that are summed.

    >>> dirichlet_posterior([1.0, 1.0], [3.0, 0.0]).mean
    tensor([0.8000, 0.2000], dtype=torch.float64)
    """
    concentration = _concentration(prior)
    total = _counts(counts, concentration, "dirichlet_posterior")
    return Dirichlet(concentration + total.reshape(-1, total.shape[-1]).sum(0))


def dirichlet_predictive(prior: Any, total_count: int = 1) -> Categorical | DirichletMultinomial:
    """The law of the next label, or of the next ``total_count`` counts, when the shares are not known.

    >>> dirichlet_predictive([2.0, 1.0, 1.0]).probs
    tensor([0.5000, 0.2500, 0.2500], dtype=torch.float64)
    """
    concentration = _concentration(prior)
    if total_count == 1:
        return Categorical(probs=concentration / concentration.sum(-1, keepdim=True))
    return DirichletMultinomial(concentration, total_count)


def log_marginal_likelihood(prior: Any, counts: Any, ordered: bool = True) -> Tensor:
    r"""The log-probability of counts with the shares integrated out.

    .. math:: \log \frac{B(\alpha + n)}{B(\alpha)}

    counts: (k,), or rows (n, k) that share their shares. ordered: the probability of one sequence of labels;
    otherwise that of the counts, which adds the number of sequences that have them.

    >>> log_marginal_likelihood([1.0, 1.0], [1.0, 1.0]).exp()
    tensor(0.1667, dtype=torch.float64)
    """
    concentration = _concentration(prior)
    rows = _counts(counts, concentration, "log_marginal_likelihood").reshape(-1, concentration.shape[-1])
    found = _log_urn(concentration, rows.sum(0))
    if ordered:
        return found
    return found + (torch.lgamma(rows.sum(-1) + 1) - torch.lgamma(rows + 1).sum(-1)).sum()


def beta_posterior(prior: torch.distributions.Beta, successes: float, failures: float) -> Beta:
    """The law of a probability after successes and failures.

    >>> beta_posterior(Beta(1.0, 1.0), 49, 31).mean
    tensor(0.6098, dtype=torch.float64)
    """
    if successes < 0 or failures < 0:
        raise InvalidInput(f"beta_posterior: {successes} successes, {failures} failures; counts are not negative")
    return Beta(prior.concentration1 + successes, prior.concentration0 + failures)


def _log_urn(alpha: Tensor, n: Tensor) -> Tensor:
    """log B(α + n) − log B(α)."""
    total = alpha.sum(-1)
    rise = (torch.lgamma(alpha + n) - torch.lgamma(alpha)).sum(-1)
    return rise + torch.lgamma(total) - torch.lgamma(total + n.sum(-1))


def _concentration(prior: Any) -> Tensor:
    value = prior.concentration if isinstance(prior, (Dirichlet, DirichletMultinomial)) else prior
    value = value if isinstance(value, Tensor) else torch.as_tensor(value, dtype=torch.float64)
    refuse_not_positive("Dirichlet", concentration=value)
    return value


def _counts(counts: Any, like: Tensor, where: str) -> Tensor:
    found = torch.as_tensor(counts, dtype=like.dtype, device=like.device)
    if found.ndim < 1 or found.shape[-1] != like.shape[-1]:
        raise InvalidInput(f"{where}: counts have shape {tuple(found.shape)}; there are {like.shape[-1]} categories")
    if bool((found < 0).any()) or not bool(torch.isfinite(found).all()):
        raise InvalidInput(f"{where}: a count is negative or not finite; counts are 0, 1, 2, ...")
    return found
