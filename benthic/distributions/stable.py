"""Stable laws: the only limits of scaled sums of independent variables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints

from benthic.base.errors import InvalidInput
from benthic.distributions.checks import as_parameters, refuse, refuse_not_finite, refuse_not_positive
from benthic.distributions.scalar import _level
from benthic.distributions.special import attach_level, solve_level, with_slope
from benthic.distributions.stable_parts import NEAR, Parts, log_parts

_HALF_PI = 0.5 * math.pi


class Stable(Distribution):
    r"""The α-stable law with skewness β, scale γ and location δ.

    In the S1 form the characteristic function is

    .. math:: E\, e^{itX} = \exp\big(-\gamma^\alpha |t|^\alpha (1 - i \beta\, \mathrm{sgn}(t)
        \tan\tfrac{\pi\alpha}{2}) + i \delta t\big)

    with −(2/π) log|t| in place of the tangent where α = 1. The S0 form shifts the location by βγ tan(πα/2), or
    by (2/π) βγ log γ where α = 1, which makes the law continuous in all parameters (Nolan, 2020, definitions 1.3
    and 1.4). For α = 2 it is normal with variance 2γ²; α = 1 and β = 0 is Cauchy; α = 1/2 and β = 1 is Lévy. Below
    α = 2 the variance is infinite, and below 1 so is the mean.

    Density and tails by an exponentially convergent quadrature of the integral of Nolan, 1997: relative error
    about 1e-13 (1e-12 within 0.02 of α = 1), far tails and β = ±1 included, except where the density is below
    1e-30 on the light side, where its logarithm keeps ten digits. Draws by Chambers, Mallows & Stuck, 1976, in a
    form continuous at α = 1. Everything is differentiable in the value and in all four parameters.

    alpha: above 0, at most 2. beta: from −1 to 1. gamma: above 0. delta: any. parametrization: "S1" or "S0".

    >>> Stable(1.5, 0.5).log_prob(torch.tensor(0.0)).exp()
    tensor(0.2541, dtype=torch.float64)
    >>> Stable(2.0, 0.0, 1.0).variance
    tensor(2., dtype=torch.float64)
    """

    arg_constraints = {
        "alpha": constraints.interval(0.0, 2.0),
        "beta": constraints.interval(-1.0, 1.0),
        "gamma": constraints.positive,
        "delta": constraints.real,
    }
    support = constraints.real
    has_rsample = True

    def __init__(
        self,
        alpha: Any,
        beta: Any = 0.0,
        gamma: Any = 1.0,
        delta: Any = 0.0,
        parametrization: str = "S1",
        validate_args: bool | None = None,
    ) -> None:
        self.alpha, self.beta, self.gamma, self.delta = as_parameters(alpha, beta, gamma, delta)
        if parametrization not in ("S0", "S1"):
            raise InvalidInput(f"Stable: parametrization is {parametrization!r}; it must be 'S0' or 'S1'")
        a, b = self.alpha.detach(), self.beta.detach()
        refuse("Stable", "alpha", a, (a > 0) & (a <= 2), "above 0 and at most 2")
        refuse("Stable", "beta", b, (b >= -1) & (b <= 1), "between -1 and 1")
        refuse_not_positive("Stable", gamma=self.gamma)
        refuse_not_finite("Stable", delta=self.delta)
        self.parametrization = parametrization
        super().__init__(self.alpha.shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Stable:
        """The same law for a larger batch."""
        new = self._get_checked_instance(Stable, _instance)
        batch_shape = torch.Size(batch_shape)
        for name in ("alpha", "beta", "gamma", "delta"):
            setattr(new, name, getattr(self, name).expand(batch_shape))
        new.parametrization = self.parametrization
        super(Stable, new).__init__(batch_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def to(self, parametrization: str) -> Stable:
        """The same law in the other form: ``"S0"`` or ``"S1"``.

        >>> Stable(1.5, 1.0, 2.0, 0.0, "S0").to("S1").delta
        tensor(2., dtype=torch.float64)
        """
        if parametrization == self.parametrization:
            return self
        delta = self._center if parametrization == "S0" else self.delta - self._offset
        return Stable(self.alpha, self.beta, self.gamma, delta, parametrization)

    @property
    def _offset(self) -> Tensor:
        """The location of the S0 form less that of S1."""
        one = self.alpha == 1
        tangent = torch.tan(_HALF_PI * torch.where(one, 0.5, self.alpha))
        return self.beta * self.gamma * torch.where(one, self.gamma.log() / _HALF_PI, tangent)

    @property
    def _center(self) -> Tensor:
        return self.delta if self.parametrization == "S0" else self.delta + self._offset

    @property
    def _apart(self) -> bool:
        """Whether points may be counted from δ in the S1 form, which keeps the digits of a sharp peak there."""
        return self.parametrization == "S1" and bool(((self.alpha.detach() - 1).abs() >= NEAR).all())

    @property
    def _origin(self) -> Tensor:
        return self.delta if self._apart else self._center

    @property
    def mean(self) -> Tensor:
        """The mean where α is above 1, not a number elsewhere."""
        tangent = torch.tan(_HALF_PI * torch.where(self.alpha > 1, self.alpha, 2.0))
        mean = self.delta if self.parametrization == "S1" else self.delta - self.beta * self.gamma * tangent
        return torch.where(self.alpha > 1, mean, torch.nan)

    @property
    def variance(self) -> Tensor:
        """Twice the squared scale where α is 2, infinite elsewhere."""
        return torch.where(self.alpha == 2, 2 * self.gamma.square(), torch.inf)

    # -- densities and tails ---------------------------------------------------------------------------

    def _standard(self, value: Any) -> Tensor:
        value = torch.as_tensor(value, device=self.alpha.device)
        return (value.double() - self._origin.double()) / self.gamma.double()

    def _parts(self, z: Tensor, tails: bool = True) -> Parts:
        """Logarithms of density and tails at standard points of any shape that ends in the batch."""
        shape = z.shape
        one = self.alpha.numel() == 1
        columns = z.reshape(-1, 1) if one else z.reshape(-1, self.alpha.numel())
        alpha, beta = self.alpha.double().reshape(-1), self.beta.double().reshape(-1)
        finite = torch.isfinite(columns)
        parts = log_parts(torch.where(finite, columns, 0.0), alpha, beta, tails=tails, centered=self._apart)
        ends = (-torch.inf, torch.where(columns > 0, 0.0, -torch.inf), torch.where(columns > 0, -torch.inf, 0.0))
        fixed = [torch.where(finite, part, end) for part, end in zip(parts, ends, strict=True)]
        return Parts(*(torch.where(columns.isnan(), torch.nan, part).reshape(shape) for part in fixed))

    def log_prob(self, value: Tensor) -> Tensor:
        """The log-density."""
        z = self._standard(value)
        return (self._parts(z, tails=False).density - self.gamma.log()).to(self.alpha.dtype)

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of being at most ``value``."""
        return self._tail(value, upper=False)

    def survival(self, value: Tensor) -> Tensor:
        """The probability of being above ``value``, to full relative accuracy in the far tail."""
        return self._tail(value, upper=True)

    def _tail(self, value: Tensor, upper: bool) -> Tensor:
        z = self._standard(value)
        parts = self._parts(z.detach())
        found = (parts.upper if upper else parts.lower).exp()
        if z.requires_grad:
            slope = self._parts(z, tails=False).density.exp()
            found = with_slope(found, z, -slope if upper else slope)
        return found.to(self.alpha.dtype)

    def icdf(self, value: Tensor) -> Tensor:
        """The quantile at level ``value``."""
        level = _level("Stable", value, self.alpha)
        level = level.expand(torch.broadcast_shapes(level.shape, self.batch_shape))
        inside = level.detach().clamp(1e-300, 1 - 2**-53)
        law = self._detached()

        # in y with z = sinh y, where heavy tails are straight lines in the logarithm
        def tails(y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            parts = law._parts(torch.sinh(y))
            return parts.lower.exp(), parts.upper.exp(), parts.density.exp() * torch.cosh(y)

        edge = torch.full_like(inside, 690.0)
        start = torch.special.ndtri(inside.clamp(1e-12, 1 - 1e-12)).asinh()
        z = torch.sinh(solve_level(tails, inside, -edge, edge, start))
        parts = self._parts(z)
        z = attach_level(z, level, parts.lower.exp(), parts.density.exp())
        z = torch.where(level <= 0, -torch.inf, torch.where(level >= 1, torch.inf, z))
        return (self._origin + self.gamma * z).to(self.alpha.dtype)

    def _detached(self) -> Stable:
        held = (part.detach() for part in (self.alpha, self.beta, self.gamma, self.delta))
        return Stable(*held, self.parametrization)

    def entropy(self) -> Tensor:
        r"""The entropy in nats, by quadrature over levels.

        .. math:: -\int_0^1 \log f(F^{-1}(u))\, du
        """
        t = torch.linspace(-3.4, 3.4, 137, dtype=torch.float64, device=self.alpha.device)
        level = torch.sigmoid(math.pi * torch.sinh(t))  # Takahasi & Mori, 1974
        weight = math.pi * torch.cosh(t) * level * (1 - level) * (t[1] - t[0])
        with torch.no_grad():
            level = level.clamp(1e-15, 1 - 1e-15).reshape(-1, *[1] * len(self.batch_shape))
            points = self.icdf(level)
        # the derivative through the points has mean zero, so they may stand still
        return -torch.tensordot(weight, self.log_prob(points).double(), 1).to(self.alpha.dtype)

    # -- draws -----------------------------------------------------------------------------------------

    def rsample(self, sample_shape: Sequence[int] = torch.Size()) -> Tensor:
        """Draws, differentiable in all parameters."""
        shape = self._extended_shape(torch.Size(sample_shape))
        kind = {"dtype": torch.float64, "device": self.alpha.device}
        angle = math.pi * (torch.rand(shape, **kind).clamp(2**-53, 1 - 2**-53) - 0.5)
        wait = -torch.log1p(-torch.rand(shape, **kind)).clamp(max=-1e-300)
        z = _chambers(self.alpha.double(), self.beta.double(), angle, wait, self._apart)
        return (self._origin + self.gamma * z).to(self.alpha.dtype)


def _chambers(alpha: Tensor, beta: Tensor, angle: Tensor, wait: Tensor, centered: bool = False) -> Tensor:
    r"""Standard S0 draws, or S1 where ``centered``, from an angle and an exponential waiting time, continuous at α = 1.

    With ε = 1 − α and ζ = −β cot(πε/2) the draw of Chambers, Mallows & Stuck, 1976, is ζ + (R − ζ) exp(εM/α); the
    products of ζ with what vanishes at ε = 0 are formed without dividing by zero.
    """
    e = 1 - alpha
    half = _HALF_PI * e
    # Z = ζ ε, which tends to −2β/π
    z = -beta / _HALF_PI * torch.where(half.abs() < 1e-9, 1.0, half / torch.tan(torch.where(half == 0, 1.0, half)))
    turn = e * angle
    sine = angle * torch.sinc(turn / math.pi)  # sin(εθ)/ε
    fall = -0.5 * e * angle.square() * torch.sinc(0.5 * turn / math.pi).square()  # (cos(εθ) − 1)/ε
    tangent = torch.tan(angle)
    ratio = tangent * turn.cos() - turn.sin() - z * (fall + tangent * sine)
    inner = (turn.cos() - z * sine).clamp(min=1e-300)
    m = (inner.log() - wait.log() - angle.cos().log()) / alpha
    if centered:  # R − ζ without cancellation
        turned = torch.atan(beta * torch.tan(_HALF_PI * alpha))
        return torch.sin(alpha * angle + turned) / (turned.cos() * angle.cos()) * torch.exp(e * m)
    grown = torch.where(e.abs() < 1e-9, m, torch.expm1(e * m) / torch.where(e == 0, 1.0, e))  # (exp(εm) − 1)/ε
    return ratio * torch.exp(e * m) - z * grown
