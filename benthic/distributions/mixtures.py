"""Laws made of laws: mixtures, also of different families, and transformed variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributions import (
    Distribution,
    MixtureSameFamily,
    Transform,
    TransformedDistribution,
    constraints,
    transforms,
)

from benthic.base.errors import InvalidInput, nearest
from benthic.base.estimate import Estimate, mean_of
from benthic.base.seeds import drawing
from benthic.distributions.counts import Categorical
from benthic.distributions.drawing import draw
from benthic.distributions.special import solve_level

_NAMED = {
    "exp": transforms.ExpTransform,
    "sigmoid": transforms.SigmoidTransform,
    "softplus": transforms.SoftplusTransform,
    "tanh": transforms.TanhTransform,
}


class Mixture(Distribution):
    r"""A mixture of distributions of any families on the same space.

    .. math:: p(x) = \sum_k \pi_k p_k(x)

    weights: (k,) not negative; they are divided by their sum. components: k distributions of one event shape
    and one batch shape, all of densities or all of masses.

    >>> law = Mixture([1.0, 1.0], [torch.distributions.Normal(0.0, 1.0), torch.distributions.Cauchy(0.0, 1.0)])
    >>> law.cdf(torch.tensor(0.0))
    tensor(0.5000)
    """

    arg_constraints = {}

    def __init__(self, weights: Any, components: Sequence[Distribution], validate_args: bool | None = None) -> None:
        weights = weights if isinstance(weights, Tensor) else torch.as_tensor(weights, dtype=torch.float64)
        _refuse_weights(weights, len(components))
        shapes = {(law.batch_shape, law.event_shape) for law in components}
        if len(shapes) > 1 or len({_discrete(law) for law in components}) > 1:
            raise InvalidInput("Mixture: components differ in shape, or mix densities with masses; make them alike")
        self.weights = weights / weights.sum()
        self.components = tuple(components)
        super().__init__(components[0].batch_shape, components[0].event_shape, validate_args=validate_args)

    @constraints.dependent_property
    def support(self) -> constraints.Constraint:
        """The support of the first component."""
        return self.components[0].support

    def _stack(self, values: list[Tensor]) -> Tensor:
        return torch.stack(torch.broadcast_tensors(*values), -1)  # (..., k)

    def _inside(self, law: Distribution, value: Tensor) -> Tensor:
        """A component's log-density, minus infinity off its support."""
        inside = law.support.check(value)
        if bool(inside.all()):
            return law.log_prob(value)
        with drawing(0, value.device):
            safe = value[inside][:1].reshape(self.event_shape) if bool(inside.any()) else law.sample()
        wide = inside[(..., *[None] * len(self.event_shape))]
        return torch.where(inside, law.log_prob(torch.where(wide, value, safe)), -torch.inf)

    def log_prob(self, value: Tensor) -> Tensor:
        """The log-density or log-mass."""
        logs = self._stack([self._inside(law, value) for law in self.components])
        return torch.logsumexp(logs + self.weights.log().to(logs), -1)

    def responsibilities(self, value: Tensor) -> Tensor:
        """The probability of each component given the value, (..., k)."""
        logs = self._stack([self._inside(law, value) for law in self.components])
        return torch.softmax(logs + self.weights.log().to(logs), -1)

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of being at most ``value``, for laws of one number."""
        self._scalar("cdf")
        levels = self._stack([law.cdf(value) for law in self.components])
        return (levels * self.weights.to(levels)).sum(-1)

    def icdf(self, value: Tensor) -> Tensor:
        """The quantile at level ``value``, between the quantiles of the components."""
        self._scalar("icdf")
        ends = self._stack([law.icdf(value) for law in self.components]).detach()
        low, high = ends.amin(-1), ends.amax(-1)
        flat = low >= high
        wide = high - low

        def tails(point: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            lower = self.cdf(point)
            return lower, 1 - lower, self.log_prob(point).exp()

        found = solve_level(tails, value.detach().expand_as(low), low - 1e-9 * wide, high + 1e-9 * wide)
        return torch.where(flat, low, found)

    @property
    def mean(self) -> Tensor:
        """The weighted mean of the means."""
        means = torch.stack([law.mean for law in self.components], -1)
        return (means * self.weights.to(means)).sum(-1)

    @property
    def variance(self) -> Tensor:
        """The mean of the variances and the variance of the means."""
        means = torch.stack([law.mean for law in self.components], -1)
        variances = torch.stack([law.variance for law in self.components], -1)
        share = self.weights.to(means)
        return ((variances + (means - self.mean.unsqueeze(-1)).square()) * share).sum(-1)

    def sample(self, sample_shape: Sequence[int] = torch.Size()) -> Tensor:
        """Draws: a component first, then its value."""
        shape = torch.Size(sample_shape)
        with torch.no_grad():
            drawn = torch.stack([law.sample(shape) for law in self.components])  # (k, *shape, *batch, *event)
            weights = self.weights.to(drawn.device)
            chosen = Categorical(probs=weights).sample(shape + self.batch_shape)
            index = chosen.reshape(1, *chosen.shape, *[1] * len(self.event_shape)).expand(1, *drawn.shape[1:])
            return drawn.gather(0, index).squeeze(0)

    def entropy(self, samples: int = 20_000, seed: int | None = 0) -> Estimate:
        """The entropy in nats by Monte Carlo, with its standard error; there is no closed form."""
        if self.batch_shape:
            raise InvalidInput("Mixture.entropy: the mixture has a batch; take the entropy of one law at a time")
        return mean_of(-self.log_prob(draw(self, samples, seed=seed)).cpu())

    def _scalar(self, verb: str) -> None:
        if self.event_shape:
            raise InvalidInput(f"Mixture.{verb}: the law is of vectors; only a law of one number has a {verb}")


def mixture(weights: Any, components: Distribution) -> MixtureSameFamily:
    """A mixture of one family, whose last batch dimension counts the components.

    weights: (..., k) not negative; they are divided by their sum.

    >>> law = mixture([0.5, 0.5], torch.distributions.Normal(torch.tensor([-1.0, 1.0]), torch.ones(2)))
    >>> law.mean
    tensor(0.)
    """
    count = components.batch_shape[-1] if components.batch_shape else 0
    if not count:
        raise InvalidInput("mixture: components have no batch; give the parameters a last dimension, one per component")
    dtype = components.mean.dtype if components.mean.is_floating_point() else torch.float32
    weights = torch.as_tensor(weights, dtype=dtype, device=components.mean.device)
    _refuse_weights(weights, count)
    return MixtureSameFamily(torch.distributions.Categorical(probs=weights), components)


def transformed(base: Distribution, *changes: str | Transform) -> TransformedDistribution:
    """The law of a smooth one-to-one function of a variable, applied left to right.

    changes: torch transforms, or the names exp, sigmoid, softplus, tanh.

    >>> transformed(torch.distributions.Normal(0.0, 1.0), "exp").cdf(torch.tensor(1.0))
    tensor(0.5000)
    """
    steps = []
    for change in changes:
        if isinstance(change, str):
            if change not in _NAMED:
                raise InvalidInput(
                    f"transformed: {change!r} is not known; choose from {', '.join(_NAMED)}{nearest(change, _NAMED)}"
                )
            change = _NAMED[change]()
        steps.append(change)
    if not steps:
        raise InvalidInput("transformed: no change is given; pass a transform, such as 'exp'")
    return TransformedDistribution(base, steps)


def _refuse_weights(weights: Tensor, count: int) -> None:
    if weights.ndim < 1 or weights.shape[-1] != count or not count:
        raise InvalidInput(f"Mixture: weights have shape {tuple(weights.shape)} for {count} components; one for each")
    held = weights.detach()
    if bool((held < 0).any()) or not bool(torch.isfinite(held).all()) or bool((held.sum(-1) <= 0).any()):
        raise InvalidInput("Mixture: weights must be finite, not negative, and not all zero")


def _discrete(law: Distribution) -> bool:
    return bool(law.support.is_discrete)
