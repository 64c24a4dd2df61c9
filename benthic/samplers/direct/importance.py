"""Importance sampling: expectations under one law from draws of another, with an error bar and a health check."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from benthic.base.errors import InvalidInput
from benthic.base.estimate import Estimate
from benthic.distributions.drawing import draw
from benthic.samplers.direct.pareto import Smoothed, check_log_weights, pareto_smooth, pareto_threshold
from benthic.samplers.direct.resampling import resample

Values = Tensor | dict[str, Tensor]
Function = Callable[[Any], Tensor]


def effective_sample_size(log_weights: Any) -> Tensor:
    r"""How many equal draws the weighted ones are worth.

    .. math:: \mathrm{ESS} = \frac{(\sum_i w_i)^2}{\sum_i w_i^2}

    Kong, Liu & Wong, 1994. log_weights: (..., n), up to a constant. Returns (...), between 1 and n.

    >>> effective_sample_size(torch.tensor([0.0, 0.0, -torch.inf]))
    tensor(2.)
    """
    raw = check_log_weights(log_weights, "effective_sample_size")
    return torch.exp(-torch.logsumexp(2 * torch.log_softmax(raw, -1), -1))


class WeightedDraws:
    """Draws and the logarithms of their importance weights.

    values: a tensor (n, ...), or a dict of such tensors. log_weights: (n,) log p'(x) - log q(x), where the constant
    matters only to ``normalizer`` and to plain importance sampling.

    >>> draws = WeightedDraws(torch.tensor([0.0, 1.0]), torch.tensor([0.25, 0.75]).log())
    >>> draws.expect(lambda x: x).value
    0.75
    """

    def __init__(self, values: Values, log_weights: Any) -> None:
        self.log_weights = check_log_weights(log_weights, "WeightedDraws")
        self.values = values
        for part in values.values() if isinstance(values, dict) else (values,):
            if self.log_weights.shape != (len(part),):
                raise InvalidInput(
                    f"WeightedDraws: there are {len(part)} draws and weights of shape "
                    f"{tuple(self.log_weights.shape)}; one weight a draw is needed"
                )
        self._smoothed: Smoothed | None = None

    def __len__(self) -> int:
        return len(self.log_weights)

    def __repr__(self) -> str:
        return f"WeightedDraws({len(self)} draws, ESS {self.ess:.1f}, Pareto k {self.pareto_k:.2f})"

    @property
    def weights(self) -> Tensor:
        """(n,) weights that sum to one."""
        return torch.softmax(self.log_weights, -1)

    @property
    def ess(self) -> float:
        """The effective sample size of the raw weights."""
        return float(effective_sample_size(self.log_weights.detach()))

    @property
    def smoothed(self) -> Smoothed:
        """Pareto-smoothed log weights that sum to one, and their k."""
        if self._smoothed is None:
            self._smoothed = pareto_smooth(self.log_weights.detach())
        return self._smoothed

    @property
    def pareto_k(self) -> float:
        """The Pareto shape of the weights; above ``pareto_threshold(n)`` nothing here is to be trusted."""
        return float(self.smoothed.k)

    @property
    def dependable(self) -> bool:
        """Whether the Pareto shape is below the threshold for this many draws."""
        return len(self) >= 2 and self.pareto_k < pareto_threshold(len(self))

    @property
    def normalizer(self) -> Estimate:
        """The integral of the unnormalized density, the mean weight."""
        log, stderr = self.log_normalizer
        return Estimate(math.exp(log), stderr * math.exp(log))

    @property
    def log_normalizer(self) -> Estimate:
        """The logarithm of the mean weight, with the error that the delta method gives."""
        top = self.log_weights.detach().double().amax()
        w = (self.log_weights.detach().double() - top).exp()
        error = float(w.std() / w.mean()) / math.sqrt(len(w)) if len(w) > 1 else math.nan
        return Estimate(float(top + w.mean().log()), error)

    def expect(self, f: Function, method: str = "self-normalized") -> Any:
        r"""The mean of a function of the draws under the target, with its standard error.

        .. math:: \hat\mu = \frac{\sum_i w_i f(x_i)}{\sum_i w_i}, \qquad
            \mathrm{stderr}^2 = \frac{\sum_i w_i^2 (f(x_i) - \hat\mu)^2}{(\sum_i w_i)^2}

        f: from the values to (n,) or (n, c). method: ``self-normalized``; ``plain``, the mean of w f, unbiased but
        only for a target density that is normalized; ``smoothed``, self-normalized with Pareto-smoothed weights.
        Owen, 2013, chapter 9. Returns an ``Estimate``, or a list of c of them.
        """
        f_values = f(self.values)
        if not isinstance(f_values, Tensor) or f_values.ndim not in (1, 2) or len(f_values) != len(self):
            shape = tuple(f_values.shape) if isinstance(f_values, Tensor) else type(f_values).__name__
            raise InvalidInput(f"WeightedDraws.expect: f gives {shape}; ({len(self)},) or ({len(self)}, c) is needed")
        columns = f_values.detach().double().reshape(len(self), -1)
        if method == "plain":
            value, stderr = _plain(self.log_weights.detach().double(), columns)
        elif method in ("self-normalized", "smoothed"):
            raw = self.log_weights if method == "self-normalized" else self.smoothed.log_weights
            value, stderr = _self_normalized(raw.detach().double(), columns)
        else:
            raise InvalidInput(
                f"WeightedDraws.expect: method is {method!r}; it is 'self-normalized', 'plain' or 'smoothed'"
            )
        answers = [Estimate(v, s) for v, s in zip(value.tolist(), stderr.tolist(), strict=True)]
        return answers[0] if f_values.ndim == 1 else answers

    def resample(self, n: int | None = None, method: str = "systematic", *, seed: int | None = None) -> Values:
        """Equally weighted draws: n of these, chosen by weight (``benthic.samplers.resample``)."""
        places = resample(self.log_weights, n, method, seed=seed)
        if isinstance(self.values, dict):
            return {name: part[places] for name, part in self.values.items()}
        return self.values[places]


def importance_sampling(
    log_density: Callable[[Tensor], Tensor],
    proposal: Distribution,
    n: int = 10_000,
    *,
    seed: int | None = None,
    generator: torch.Generator | None = None,
) -> WeightedDraws:
    r"""Draws from a proposal with the weights that make them stand for a target.

    .. math:: w_i = \frac{p'(x_i)}{q(x_i)}, \qquad x_i \sim q

    Kahn & Marshall, 1953. A warning says when the Pareto shape of the weights is too large for n draws.

    log_density: from (n, ...) to (n,), the log of the target up to a constant. proposal: a distribution whose
    batch shape is empty, and which is wide enough to cover the target. Returns ``WeightedDraws``.

    >>> from torch.distributions import Normal, StudentT
    >>> draws = importance_sampling(lambda x: -0.5 * (x - 1).square(), StudentT(4.0), 20_000, seed=0)
    >>> mean = draws.expect(lambda x: x)
    >>> abs(mean.value - 1) < 4 * mean.stderr and abs(draws.normalizer.value - math.sqrt(2 * math.pi)) < 0.1
    True
    """
    check_proposal(proposal, "importance_sampling")
    if n < 2:
        raise InvalidInput(f"importance_sampling: n is {n}; at least two draws are needed")
    x = draw(proposal, n, seed=seed, generator=generator)
    log_p = density_at(log_density, x, "importance_sampling")
    result = WeightedDraws(x, log_p - proposal.log_prob(x))
    if not result.dependable:
        warnings.warn(
            f"importance_sampling: the Pareto k of the weights is {result.pareto_k:.2f}, above "
            f"{pareto_threshold(n):.2f}; estimates and their errors are not to be trusted, use a proposal that is "
            "wider or closer to the target",
            stacklevel=2,
        )
    return result


def check_proposal(proposal: Any, where: str) -> None:
    """A single distribution to draw from, or one clear sentence."""
    if not isinstance(proposal, Distribution):
        raise InvalidInput(f"{where}: the proposal is a {type(proposal).__name__}; it must be a torch distribution")
    if proposal.batch_shape:
        raise InvalidInput(
            f"{where}: the proposal has batch shape {tuple(proposal.batch_shape)}; wrap it in "
            "torch.distributions.Independent, so that one draw is one point"
        )


def density_at(log_density: Callable[[Tensor], Tensor], x: Tensor, where: str) -> Tensor:
    """The log density of draws (n, ...), one number each, never NaN or +inf."""
    value = log_density(x)
    if not isinstance(value, Tensor) or value.shape != x.shape[:1]:
        shape = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
        raise InvalidInput(
            f"{where}: log_density of draws {tuple(x.shape)} gives {shape}; one number a draw, ({len(x)},), is needed"
        )
    bad = torch.isnan(value) | (value == math.inf)
    if bool(bad.any()):
        point = x[bad][0].flatten()[:4].tolist()
        raise InvalidInput(
            f"{where}: log_density is {float(value[bad][0]):g} at x = {point}; it must be a number, "
            "or -inf where the density is zero"
        )
    return value


def _plain(log_weights: Tensor, f: Tensor) -> tuple[Tensor, Tensor]:
    terms = log_weights.exp()[:, None] * f
    return terms.mean(0), terms.std(0) / math.sqrt(len(f))


def _self_normalized(log_weights: Tensor, f: Tensor) -> tuple[Tensor, Tensor]:
    w = torch.softmax(log_weights, 0)[:, None]
    value = (w * f).sum(0)
    n = len(f)
    spread = (w * (f - value)).square().sum(0) * (n / max(n - 1, 1))
    return value, spread.sqrt()
