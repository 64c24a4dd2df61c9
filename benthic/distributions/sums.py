"""The law of a sum of independent variables: closed forms, and convolution on a grid for the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch import distributions as td
from torch.distributions import Distribution, constraints

from benthic.base.errors import InvalidInput
from benthic.distributions.counts import Binomial, Poisson
from benthic.distributions.drawing import device_of
from benthic.distributions.normal import MultivariateNormal
from benthic.distributions.scalar import Gamma, Levy
from benthic.distributions.stable import Stable


class SumDensity(Distribution):
    """A density of one number known on a uniform grid, or masses on the integers.

    start: the first point. step: between points. values: (n,) densities, or masses where ``discrete``.
    Between grid points the density is a cubic through the nearest four; beyond the grid it is zero.
    """

    arg_constraints = {}

    def __init__(self, start: float, step: float, values: Tensor, discrete: bool = False) -> None:
        self.start, self.step, self.discrete = start, step, discrete
        self.values = values.clamp(min=0) / (values.clamp(min=0).sum() * step)
        super().__init__(torch.Size(), validate_args=False)

    @constraints.dependent_property
    def support(self) -> constraints.Constraint:
        """Integers or reals."""
        return constraints.integer_interval(int(self.start), self._last) if self.discrete else constraints.real

    @property
    def _last(self) -> int:
        return int(self.start) + len(self.values) - 1

    @property
    def grid(self) -> Tensor:
        """The points (n,)."""
        count = torch.arange(len(self.values), device=self.values.device, dtype=self.values.dtype)
        return self.start + self.step * count

    @property
    def mean(self) -> Tensor:
        """The mean on the grid."""
        return self.step * (self.values * self.grid).sum()

    @property
    def variance(self) -> Tensor:
        """The variance on the grid."""
        return self.step * (self.values * (self.grid - self.mean).square()).sum()

    def log_prob(self, value: Tensor) -> Tensor:
        """The log-density, or log-mass."""
        place = (value.to(self.values) - self.start) / self.step
        if self.discrete:
            at = place.round().long()
            hit = (place == place.round()) & (at >= 0) & (at < len(self.values))
            return torch.where(hit, self.values[at.clamp(0, len(self.values) - 1)].log(), -torch.inf)
        left = place.detach().floor().long().clamp(1, len(self.values) - 3)
        t = place - left
        around = [self.values[left + k] for k in (-1, 0, 1, 2)]
        weights = (
            -t * (t - 1) * (t - 2) / 6,
            (t + 1) * (t - 1) * (t - 2) / 2,
            -(t + 1) * t * (t - 2) / 2,
            (t + 1) * t * (t - 1) / 6,
        )
        found = sum(w * v for w, v in zip(weights, around, strict=True))
        linear = around[1] * (1 - t) + around[2] * t  # where the cubic undershoots
        found = torch.where(found > 0, found, linear)
        inside = (place >= 0) & (place <= len(self.values) - 1)
        return torch.where(inside, found.clamp(min=1e-300).log(), -torch.inf)

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of being at most ``value``."""
        steps = self.values.cumsum(0) * self.step
        place = (value.to(self.values) - self.start) / self.step
        if self.discrete:
            found = steps[place.floor().long().clamp(0, len(steps) - 1)]
            return torch.where(place < 0, 0.0, found)
        edge = torch.cat([steps.new_zeros(1), steps])  # at half a step left of each point, and at the end
        at = (place + 0.5).clamp(0, len(steps))
        left = at.detach().floor().long().clamp(max=len(steps) - 1)
        return edge[left] + (at - left) * (edge[left + 1] - edge[left])

    def icdf(self, value: Tensor) -> Tensor:
        """The quantile at level ``value``."""
        steps = self.values.cumsum(0) * self.step
        at = torch.searchsorted(steps, value.detach().to(steps).contiguous()).clamp(max=len(steps) - 1)
        if self.discrete:
            return self.start + at.to(steps)
        before = steps[at] - self.values[at] * self.step
        share = (value - before) / (self.values[at] * self.step).clamp(min=1e-300)
        return self.start + self.step * (at - 0.5 + share.clamp(0, 1))

    def sample(self, sample_shape: Sequence[int] = torch.Size()) -> Tensor:
        """Draws by inversion."""
        return self.icdf(torch.rand(torch.Size(sample_shape), dtype=self.values.dtype, device=self.values.device))

    def entropy(self) -> Tensor:
        """The entropy in nats, on the grid."""
        return -self.step * torch.special.xlogy(self.values, self.values).sum()


def convolve(p: Distribution, q: Distribution, points: int = 2**14) -> Distribution:
    r"""The law of the sum of two independent variables.

    .. math:: p_{X+Y}(s) = \int p(s - y)\, q(y)\, dy

    Closed forms for normal, multivariate normal, Cauchy, Lévy, Poisson, gamma and exponential of one rate, binomial
    of one probability, and stable laws of one α; otherwise the numerical ``sum_density``.

    >>> convolve(td.Cauchy(0.0, 1.0), td.Cauchy(1.0, 2.0)).scale
    tensor(3.)
    """
    for first, second in ((p, q), (q, p)):
        for left, right, rule in _CLOSED:
            if isinstance(first, left) and isinstance(second, right):
                found = rule(first, second)
                if found is not None:
                    return found
    return sum_density(p, q, points)


def sum_density(p: Distribution, q: Distribution, points: int = 2**14) -> SumDensity:
    """The law of a sum of two independent numbers by fast Fourier convolution on a grid.

    Laws on the whole line are sampled at points, and the error falls faster than any power of the step if they
    are smooth; a law with an end is cut into cells of exact mass, with an error of the square of the step. The
    grid covers all but about 1e-9 of each law, or 1e-4 of one with heavy tails. Integers are convolved exactly.

    points: of the grid.
    """
    for law in (p, q):
        if law.event_shape or law.batch_shape:
            raise InvalidInput("sum_density: both laws must be of one number, without batch")
    discrete = bool(p.support.is_discrete)
    if discrete != bool(q.support.is_discrete):
        raise InvalidInput("sum_density: one law is of counts and one has a density; make both alike")
    (low_p, high_p), (low_q, high_q) = _span(p, discrete), _span(q, discrete)
    step = 1.0 if discrete else (high_p - low_p + high_q - low_q) / points
    first, second = _sampled(p, low_p, high_p, step, discrete), _sampled(q, low_q, high_q, step, discrete)
    size = len(first) + len(second) - 1
    product = torch.fft.rfft(first, 2 * size) * torch.fft.rfft(second, 2 * size)
    values = torch.fft.irfft(product, 2 * size)[:size].clamp(min=0)
    return SumDensity(low_p + low_q, step, values, discrete)


def _span(law: Distribution, discrete: bool) -> tuple[float, float]:
    """The interval that holds nearly all of a law."""
    if discrete:
        mean, spread = float(law.mean), float(law.stddev)
        low, high = max(0.0, mean - 40 * spread - 50), mean + 40 * spread + 50
        top = getattr(law.support, "upper_bound", high)
        return float(int(low)), float(int(min(high, float(top))))
    spread = float(law.variance)
    heavy = not 0 < spread < float("inf")
    edge = 5e-5 if heavy else 5e-10
    level = torch.tensor([edge, 1 - edge], dtype=torch.float64, device=device_of(law))
    try:
        low, high = (float(x) for x in law.icdf(level))
    except NotImplementedError:
        low, high = float(law.mean) - 12 * spread**0.5, float(law.mean) + 12 * spread**0.5
    lower, upper = getattr(law.support, "lower_bound", None), getattr(law.support, "upper_bound", None)
    low = max(low, float(lower)) if lower is not None else low
    high = min(high, float(upper)) if upper is not None else high
    if not low < high or not abs(low) + abs(high) < float("inf"):
        raise InvalidInput(f"sum_density: {type(law).__name__} has no finite span; it needs a quantile or a variance")
    return low, high


def _sampled(law: Distribution, low: float, high: float, step: float, discrete: bool) -> Tensor:
    """Densities at grid points, cell masses over the step, or masses of integers."""
    count = int((high - low) / step) + 2
    grid = low + step * torch.arange(count, dtype=torch.float64, device=device_of(law))
    ended = not isinstance(law.support, type(constraints.real))
    if discrete:
        grid = grid[grid <= high]
        return law.log_prob(grid).double().exp()
    if not ended:
        return law.log_prob(grid).double().exp() * step
    edges = torch.cat([grid - 0.5 * step, grid[-1:] + 0.5 * step])
    lower, upper = getattr(law.support, "lower_bound", -torch.inf), getattr(law.support, "upper_bound", torch.inf)
    return law.cdf(edges.clamp(float(lower), float(upper))).double().diff()


# -- closed forms --------------------------------------------------------------------------------------


def _normals(p: td.Normal, q: td.Normal) -> Distribution:
    return td.Normal(p.loc + q.loc, torch.hypot(p.scale, q.scale))


def _vectors(p: td.MultivariateNormal, q: td.MultivariateNormal) -> Distribution:
    return MultivariateNormal(p.loc + q.loc, p.covariance_matrix + q.covariance_matrix)


def _cauchys(p: td.Cauchy, q: td.Cauchy) -> Distribution:
    return td.Cauchy(p.loc + q.loc, p.scale + q.scale)


def _levys(p: Levy, q: Levy) -> Distribution:
    return Levy(p.loc + q.loc, (p.scale.sqrt() + q.scale.sqrt()).square())


def _poissons(p: td.Poisson, q: td.Poisson) -> Distribution:
    return Poisson(p.rate + q.rate)


def _shape_rate(law: Any) -> tuple[Tensor, Tensor]:
    shape = torch.ones_like(law.rate) if isinstance(law, td.Exponential) else law.concentration
    return shape, law.rate


def _gammas(p: Any, q: Any) -> Distribution | None:
    (a, rate), (b, other) = _shape_rate(p), _shape_rate(q)
    return Gamma(a + b, rate) if bool((rate == other).all()) else None


def _binomials(p: td.Binomial, q: td.Binomial) -> Distribution | None:
    same = bool((p.probs == q.probs).all())
    return Binomial(p.total_count + q.total_count, probs=p.probs) if same else None


def _stables(p: Stable, q: Stable) -> Distribution | None:
    """In the S1 form powers of the scales and locations add, and skewness is averaged (Nolan, 2020)."""
    if not bool((p.alpha == q.alpha).all()):
        return None
    p, q = p.to("S1"), q.to("S1")
    alpha = p.alpha
    first, second = p.gamma.pow(alpha), q.gamma.pow(alpha)
    beta = (p.beta * first + q.beta * second) / (first + second)
    gamma = (first + second).pow(1 / alpha)
    return Stable(alpha, beta, gamma, p.delta + q.delta)


_Rule = Callable[[Any, Any], Distribution | None]
_GAMMAS = (td.Gamma, td.Exponential)
_CLOSED: list[tuple[Any, Any, _Rule]] = [
    (td.Normal, td.Normal, _normals),
    (td.MultivariateNormal, td.MultivariateNormal, _vectors),
    (td.Cauchy, td.Cauchy, _cauchys),
    (Levy, Levy, _levys),
    (td.Poisson, td.Poisson, _poissons),
    (_GAMMAS, _GAMMAS, _gammas),
    (td.Binomial, td.Binomial, _binomials),
    (Stable, Stable, _stables),
]
