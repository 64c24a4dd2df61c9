"""Laws of one number for which torch lacks the distribution function or its inverse: t, beta, gamma, Lévy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints

from benthic.distributions.checks import as_parameters, refuse, refuse_not_finite, refuse_not_positive
from benthic.distributions.special import attach_level, beta_tails, gamma_tails, solve_level, with_slope

_EULER = 0.5772156649015329


class StudentT(torch.distributions.StudentT):
    r"""Student's t law, with its distribution function and quantiles.

    .. math:: p(x) \propto \Big(1 + \frac{z^2}{\nu}\Big)^{-(\nu+1)/2}, \qquad z = (x - \mu)/\sigma

    df: degrees of freedom ν. loc: μ. scale: σ; all broadcast.

    >>> StudentT(4.0).cdf(torch.tensor(2.0))
    tensor(0.9419, dtype=torch.float64)
    >>> StudentT(4.0).icdf(torch.tensor(0.975))
    tensor(2.7764, dtype=torch.float64)
    """

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        df, loc, scale = as_parameters(df, loc, scale)
        refuse_not_positive("StudentT", df=df, scale=scale)
        refuse_not_finite("StudentT", loc=loc)
        super().__init__(df, loc, scale, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> StudentT:
        """The same law for a larger batch."""
        return super().expand(torch.Size(batch_shape), self._get_checked_instance(StudentT, _instance))

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of being at most ``value``."""
        z, df = torch.broadcast_tensors((value - self.loc).double() / self.scale, self.df.double())
        lower, _ = _t_tails(z.detach(), df)
        return with_slope(lower, z, _t_density(z, df)).to(self.loc.dtype)

    def icdf(self, value: Tensor) -> Tensor:
        """The quantile at level ``value``."""
        level, df = torch.broadcast_tensors(_level("StudentT", value, self.df), self.df.double())
        inside = level.detach().clamp(1e-300, 1 - 2**-53)

        # in y with z = sinh y, where both tails are straight lines in the logarithm
        def tails(y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            z = torch.sinh(y)
            lower, upper = _t_tails(z, df.detach())
            return lower, upper, _t_density(z, df.detach()) * torch.cosh(y)

        edge = torch.full_like(inside, 700.0)
        point = torch.sinh(solve_level(tails, inside, -edge, edge, torch.special.ndtri(inside).asinh()))
        z = attach_level(point, level, _t_tails(point, df)[0], _t_density(point, df))
        z = torch.where(level <= 0, -torch.inf, torch.where(level >= 1, torch.inf, z))
        return (self.loc + self.scale * z).to(self.loc.dtype)


class Beta(torch.distributions.Beta):
    r"""The beta law on the unit interval, with its distribution function and quantiles.

    .. math:: p(x) = x^{\alpha-1} (1-x)^{\beta-1} / B(\alpha, \beta)

    concentration1: α. concentration0: β.

    >>> Beta(2.0, 3.0).cdf(torch.tensor(0.5))
    tensor(0.6875, dtype=torch.float64)
    """

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        first, second = as_parameters(concentration1, concentration0)
        refuse_not_positive("Beta", concentration1=first, concentration0=second)
        super().__init__(first, second, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Beta:
        """The same law for a larger batch."""
        return super().expand(torch.Size(batch_shape), self._get_checked_instance(Beta, _instance))

    def _wide(self) -> tuple[Tensor, Tensor]:
        return self.concentration1.double(), self.concentration0.double()

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of being at most ``value``."""
        a, b = self._wide()
        x, a, b = torch.broadcast_tensors(torch.as_tensor(value).to(a).clamp(0, 1), a, b)
        lower, _ = beta_tails(a, b, x.detach(), 1 - x.detach())
        inside = x.clamp(1e-300, 1 - 2**-53)
        slope = _beta_density(a, b, inside.log(), torch.log1p(-inside))
        return with_slope(lower, x, slope).to(self.concentration1.dtype)

    def icdf(self, value: Tensor) -> Tensor:
        """The quantile at level ``value``."""
        a, b = self._wide()
        level, a, b = torch.broadcast_tensors(_level("Beta", value, a), a, b)
        inside = level.detach().clamp(1e-300, 1 - 2**-53)

        def tails(y: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # in the logit y
            lower, upper = beta_tails(a.detach(), b.detach(), torch.sigmoid(y), torch.sigmoid(-y))
            logs = torch.nn.functional.logsigmoid(y), torch.nn.functional.logsigmoid(-y)
            return lower, upper, _beta_density(a.detach() + 1, b.detach() + 1, *logs, a.detach(), b.detach())

        edge = torch.full_like(inside, 700.0)
        logit = solve_level(tails, inside, -edge, edge, torch.log(a.detach() / b.detach()))
        x, rest = torch.sigmoid(logit), torch.sigmoid(-logit)
        slope = _beta_density(a, b, torch.nn.functional.logsigmoid(logit), torch.nn.functional.logsigmoid(-logit))
        found = attach_level(x, level, beta_tails(a, b, x, rest)[0], slope)
        found = torch.where(level <= 0, 0.0, torch.where(level >= 1, 1.0, found))
        return found.to(self.concentration1.dtype)


class Gamma(torch.distributions.Gamma):
    r"""The gamma law, with gradients of its distribution function in the shape, and with quantiles.

    .. math:: p(x) = b^a x^{a-1} e^{-b x} / \Gamma(a)

    concentration: a. rate: b.

    >>> Gamma(2.0, 1.0).icdf(torch.tensor(0.5))
    tensor(1.6783, dtype=torch.float64)
    """

    def __init__(self, concentration: Any, rate: Any = 1.0, validate_args: bool | None = None) -> None:
        concentration, rate = as_parameters(concentration, rate)
        refuse_not_positive("Gamma", concentration=concentration, rate=rate)
        super().__init__(concentration, rate, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Gamma:
        """The same law for a larger batch."""
        return super().expand(torch.Size(batch_shape), self._get_checked_instance(Gamma, _instance))

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of being at most ``value``."""
        value = torch.as_tensor(value, device=self.rate.device)
        x, a = torch.broadcast_tensors((value * self.rate).double().clamp(min=0), self.concentration.double())
        lower, _ = gamma_tails(a, x.detach())
        return with_slope(lower, x, _gamma_density(a, x.clamp(min=1e-300).log())).to(self.rate.dtype)

    def icdf(self, value: Tensor) -> Tensor:
        """The quantile at level ``value``."""
        level, a = torch.broadcast_tensors(_level("Gamma", value, self.rate), self.concentration.double())
        inside, fixed = level.detach().clamp(1e-300, 1 - 2**-53), a.detach()

        def tails(y: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # in the logarithm y
            lower, upper = gamma_tails(fixed, y.exp())
            return lower, upper, _gamma_density(fixed, y) * y.exp()

        # below the median the law looks like a power: P(a, x) is at most x^a / Γ(a + 1)
        start = torch.where(inside < 0.5, (inside.log() + torch.lgamma(fixed + 1)) / fixed, fixed.log())
        edge = torch.full_like(inside, 700.0)
        y = solve_level(tails, inside, -edge, edge, start)
        x = attach_level(y.exp(), level, gamma_tails(a, y.exp())[0], _gamma_density(a, y))
        x = torch.where(level <= 0, 0.0, torch.where(level >= 1, torch.inf, x))
        return (x / self.rate).to(self.rate.dtype)


class Levy(Distribution):
    r"""The Lévy law, stable with α = 1/2 and β = 1: the first time a Brownian path reaches a level.

    .. math:: p(x) = \sqrt{\frac{c}{2\pi}} (x - \mu)^{-3/2} e^{-c / 2(x - \mu)}, \qquad x > \mu

    Neither mean nor variance is finite. loc: μ. scale: c.

    >>> Levy(0.0, 1.0).icdf(torch.tensor(0.5, dtype=torch.float64))
    tensor(2.1981, dtype=torch.float64)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    has_rsample = True

    def __init__(self, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.loc, self.scale = as_parameters(loc, scale)
        refuse_not_finite("Levy", loc=self.loc)
        refuse_not_positive("Levy", scale=self.scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Levy:
        """The same law for a larger batch."""
        new = self._get_checked_instance(Levy, _instance)
        batch_shape = torch.Size(batch_shape)
        new.loc, new.scale = self.loc.expand(batch_shape), self.scale.expand(batch_shape)
        super(Levy, new).__init__(batch_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> constraints.Constraint:
        """Above the location."""
        return constraints.greater_than_eq(self.loc)

    @property
    def mean(self) -> Tensor:
        """Infinite."""
        return torch.full_like(self.loc, torch.inf)

    @property
    def variance(self) -> Tensor:
        """Infinite."""
        return torch.full_like(self.loc, torch.inf)

    @property
    def mode(self) -> Tensor:
        """The most likely value."""
        return self.loc + self.scale / 3

    def rsample(self, sample_shape: Sequence[int] = torch.Size()) -> Tensor:
        """Draws, differentiable in the parameters: c over a squared normal variable."""
        shape = self._extended_shape(torch.Size(sample_shape))
        noise = torch.randn(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + self.scale / noise.square().clamp(min=torch.finfo(noise.dtype).tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        """The log-density; minus infinity at the location and below."""
        above = value > self.loc
        gap = torch.where(above, value - self.loc, 1.0)
        found = 0.5 * torch.log(self.scale / (2 * math.pi)) - 1.5 * gap.log() - 0.5 * self.scale / gap
        return torch.where(above, found, -torch.inf)

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of being at most ``value``."""
        above = value > self.loc
        gap = torch.where(above, value - self.loc, 1.0)
        return torch.where(above, torch.erfc(torch.sqrt(0.5 * self.scale / gap)), 0.0)

    def icdf(self, value: Tensor) -> Tensor:
        """The quantile at level ``value``."""
        level = _level("Levy", value, self.loc).to(self.loc.dtype)
        return self.loc + self.scale / torch.special.ndtri(0.5 * level).square()

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        return 0.5 * (1 + 3 * _EULER + math.log(16 * math.pi)) + self.scale.log()


def _level(where: str, value: Any, like: Tensor) -> Tensor:
    """Probabilities in float64, or one sentence."""
    level = torch.as_tensor(value, device=like.device).double()
    held = level.detach()
    refuse(f"{where}.icdf", "the level", held, (held >= 0) & (held <= 1), "between 0 and 1")
    return level


def _t_tails(z: Tensor, df: Tensor) -> tuple[Tensor, Tensor]:
    square = z.square() / df.detach()
    inside = 1 / (1 + z.square() / df) if df.requires_grad else 1 / (1 + square)
    rest = 1 / (1 + df / z.square().clamp(min=1e-300))
    one_side = 0.5 * beta_tails(0.5 * df, torch.full_like(df, 0.5), inside, rest)[0]
    return torch.where(z < 0, one_side, 1 - one_side), torch.where(z < 0, 1 - one_side, one_side)


def _t_density(z: Tensor, df: Tensor) -> Tensor:
    constant = torch.lgamma(0.5 * (df + 1)) - torch.lgamma(0.5 * df) - 0.5 * torch.log(math.pi * df)
    return (constant - 0.5 * (df + 1) * torch.log1p(z.square() / df)).exp()


def _beta_density(
    a: Tensor, b: Tensor, log_x: Tensor, log_rest: Tensor, a0: Tensor | None = None, b0: Tensor | None = None
) -> Tensor:
    """x^(a−1) (1−x)^(b−1), over the beta function of a0 and b0 where given."""
    a0, b0 = a if a0 is None else a0, b if b0 is None else b0
    constant = torch.lgamma(a0) + torch.lgamma(b0) - torch.lgamma(a0 + b0)
    return ((a - 1) * log_x + (b - 1) * log_rest - constant).exp()


def _gamma_density(a: Tensor, log_x: Tensor) -> Tensor:
    return ((a - 1) * log_x - log_x.exp() - torch.lgamma(a)).exp()
