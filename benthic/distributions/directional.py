"""Directions: the von Mises–Fisher law on a sphere of any dimension."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints, register_kl

from benthic.base.errors import InvalidInput
from benthic.distributions.bessel import bessel_ratio, log_excess, ratio_slope

__all__ = ["VonMisesFisher", "bessel_ratio", "concentration_from_length"]

_ROUNDS = 200  # of rejection; each keeps two of three at the least, so none of them is the last


class _Sphere(constraints.Constraint):
    """Vectors of length one."""

    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        slack = 1e-6 if value.dtype == torch.float64 else 1e-3
        return (value.norm(dim=-1) - 1).abs() < slack


class VonMisesFisher(Distribution):
    r"""Unit vectors that gather around a direction.

    .. math:: p(x) = \frac{\kappa^{d/2-1}}{(2\pi)^{d/2} I_{d/2-1}(\kappa)} \exp(\kappa\, \mu^T x),
        \qquad |x| = 1

    Mardia & Jupp, 2000, section 9.3; draws by the rejection of Wood, 1994, with exact inversion for d = 3.
    Draws can be differentiated in direction and concentration (implicit reparameterization of Figurnov,
    Mohamed & Mnih, 2018). A concentration of 0 is the uniform law. Agrees with SciPy to 1e-10.

    direction: (..., d) unit vectors, d at least 2. concentration: (...) at least 0.

    >>> law = VonMisesFisher([0.0, 0.0, 1.0], 2.0)
    >>> law.log_prob(torch.tensor([0.0, 0.0, 1.0]))
    tensor(-1.1263, dtype=torch.float64)
    """

    arg_constraints = {"direction": _Sphere(), "concentration": constraints.nonnegative}
    support = _Sphere()
    has_rsample = True

    def __init__(self, direction: Any, concentration: Any, validate_args: bool | None = None) -> None:
        direction = direction if isinstance(direction, Tensor) else torch.as_tensor(direction, dtype=torch.float64)
        concentration = torch.as_tensor(concentration, dtype=direction.dtype, device=direction.device)
        _refuse_parameters(direction, concentration)
        batch = torch.broadcast_shapes(direction.shape[:-1], concentration.shape)
        self.direction = direction.expand(*batch, direction.shape[-1])
        self.concentration = concentration.expand(batch)
        super().__init__(batch, direction.shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> VonMisesFisher:
        """The same law for a larger batch."""
        new = self._get_checked_instance(VonMisesFisher, _instance)
        batch_shape = torch.Size(batch_shape)
        new.direction = self.direction.expand(*batch_shape, *self.event_shape)
        new.concentration = self.concentration.expand(batch_shape)
        super(VonMisesFisher, new).__init__(batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def _order(self) -> float:
        return 0.5 * self.event_shape[0] - 1

    @property
    def _log_peak(self) -> Tensor:
        """The log-density at the direction."""
        d = self.event_shape[0]
        area = math.log(2) + 0.5 * d * math.log(math.pi) - math.lgamma(0.5 * d)
        return -area - log_excess(self._order, self.concentration)

    def log_prob(self, value: Tensor) -> Tensor:
        """The log-density of unit vectors (..., d), with respect to area."""
        if self._validate_args:
            self._validate_sample(value)
        value = value.to(self.direction.dtype)
        # 1 − cos from the chord, which keeps its digits near the direction
        chord = (value - self.direction).square().sum(-1)
        return self._log_peak - 0.5 * self.concentration * chord

    @property
    def mean(self) -> Tensor:
        """The mean vector, inside the sphere."""
        return bessel_ratio(self._order, self.concentration).unsqueeze(-1) * self.direction

    @property
    def mode(self) -> Tensor:
        """The direction."""
        return self.direction

    @property
    def variance(self) -> Tensor:
        """The variance of each coordinate, (..., d)."""
        d = self.event_shape[0]
        ratio = bessel_ratio(self._order, self.concentration)
        along = ratio_slope(self._order, self.concentration, ratio)
        across = (1 - along - ratio.square()) / (d - 1)
        return across.unsqueeze(-1) + (along - across).unsqueeze(-1) * self.direction.square()

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        ratio = bessel_ratio(self._order, self.concentration)
        return -self._log_peak + self.concentration * (1 - ratio)

    def rsample(self, sample_shape: Sequence[int] = torch.Size()) -> Tensor:
        """Unit vectors, differentiable in the parameters."""
        shape = self._extended_shape(torch.Size(sample_shape))
        kappa = self.concentration.expand(shape[:-1])
        cosine, fall = _cosine(kappa, shape[-1])  # the height and 1 − height
        across = torch.randn(*shape[:-1], shape[-1] - 1, dtype=kappa.dtype, device=kappa.device)
        across = across / across.norm(dim=-1, keepdim=True)
        width = (fall * (1 + cosine)).clamp(min=0).sqrt()
        upright = torch.cat([cosine.unsqueeze(-1), width.unsqueeze(-1) * across], -1)
        return _turned(upright, self.direction)


@register_kl(VonMisesFisher, VonMisesFisher)
def _kl(p: VonMisesFisher, q: VonMisesFisher) -> Tensor:
    """Both log-densities are linear in x, so the mean of p decides."""
    ratio = bessel_ratio(p._order, p.concentration)
    chord = 1 - (p.direction * q.direction).sum(-1) * ratio
    return p._log_peak - q._log_peak - p.concentration * (1 - ratio) + q.concentration * chord


def concentration_from_length(length: Tensor, dimension: int) -> Tensor:
    r"""The concentration whose mean vector has a given length: the exact inverse of the Bessel ratio.

    .. math:: I_{d/2}(\kappa) / I_{d/2-1}(\kappa) = R

    Newton's method from the start of Banerjee et al., 2005. length: (...) at least 0 and below 1.

    >>> concentration_from_length(torch.tensor(0.5373147, dtype=torch.float64), 3)
    tensor(2.0000, dtype=torch.float64)
    """
    if dimension < 2 or bool(((length < 0) | (length >= 1)).any()):
        raise InvalidInput(
            "concentration_from_length: the length must be at least 0 and below 1, the dimension at least 2"
        )
    R, order = length.double(), 0.5 * dimension - 1
    with torch.no_grad():
        kappa = R * (dimension - R.square()) / (1 - R.square())
        for _ in range(30):
            ratio = bessel_ratio(order, kappa)
            step = (ratio - R) / ratio_slope(order, kappa, ratio).clamp(min=1e-300)
            new = torch.where(step < kappa, kappa - step, 0.5 * kappa)
            done = (new - kappa).abs() <= 1e-14 * kappa * (1 + kappa)
            kappa = new
            if bool(done.all()):
                break
    slope = ratio_slope(order, kappa, bessel_ratio(order, kappa))
    return (kappa + (R - R.detach()) / slope).to(length.dtype)  # the implicit derivative


def _refuse_parameters(direction: Tensor, concentration: Tensor) -> None:
    if direction.ndim < 1 or direction.shape[-1] < 2:
        raise InvalidInput("VonMisesFisher: direction must be a unit vector of at least two coordinates")
    if not bool(_Sphere().check(direction.detach()).all()):
        raise InvalidInput("VonMisesFisher: direction is not of length one; divide it by its norm")
    bad = ~(concentration.detach() >= 0) | torch.isinf(concentration.detach())
    if bool(bad.any()):
        raise InvalidInput(
            f"VonMisesFisher: concentration is {float(concentration.detach()[bad].flatten()[0]):g}; "
            "it must be finite and at least 0"
        )


def _cosine(kappa: Tensor, d: int) -> tuple[Tensor, Tensor]:
    """Heights along the direction and what they lack of one."""
    if d == 3:
        u = torch.rand(kappa.shape, dtype=kappa.dtype, device=kappa.device)
        safe = kappa.clamp(min=torch.finfo(kappa.dtype).tiny ** 0.5)
        small = kappa < 1e-6
        fall = -torch.log1p(-u * -torch.expm1(-2 * safe)) / safe
        fall = torch.where(small, 2 * u - 2 * kappa * u * (1 - u), fall)
        return 1 - fall, fall
    with torch.no_grad():
        fall = _wood(kappa.detach(), d)
    if kappa.requires_grad:
        slope = _fall_slope(fall.double(), kappa.detach().double(), d).to(fall.dtype)
        fall = fall + slope * (kappa - kappa.detach())
    return 1 - fall, fall


def _wood(kappa: Tensor, d: int) -> Tensor:
    """One minus the height, by rejection from a transformed beta (Wood, 1994, VM*)."""
    b = (d - 1) / (2 * kappa + (4 * kappa.square() + (d - 1) ** 2).sqrt())
    x0 = (1 - b) / (1 + b)
    half = torch.full_like(kappa, 0.5 * (d - 1))
    threshold = kappa * x0 + (d - 1) * (torch.log(4 * b) - 2 * torch.log1p(b))  # log(1 − x0²)
    fall, open_ = torch.zeros_like(kappa), torch.ones_like(kappa, dtype=torch.bool)
    for _ in range(_ROUNDS):
        z = torch.distributions.Beta(half, half, validate_args=False).sample()
        below = 1 - (1 - b) * z
        candidate = 2 * b * z / below
        level = torch.rand_like(kappa)
        # 1 − x0 w = ((1 + b) below − (1 − b)(below − 2 b z)) / ((1 + b) below)
        gap = 2 * b * (below + (1 - b) * z) / ((1 + b) * below)
        good = kappa * (1 - candidate) + (d - 1) * gap.log() - threshold >= level.log()
        fall = torch.where(open_ & good, candidate, fall)
        open_ = open_ & ~good
        if not bool(open_.any()):
            break
    return fall


def _fall_slope(fall: Tensor, kappa: Tensor, d: int) -> Tensor:
    r"""The derivative of a drawn 1 − height in the concentration, at a fixed level of its law.

    .. math:: \frac{dw}{d\kappa} = \int_w^1 (t - A) \frac{f(t)}{f(w)} dt

    by Gauss–Legendre in the angle, over the side of w on which the density falls.
    """
    nodes, weights = _legendre(fall.device)
    mean = bessel_ratio(0.5 * d - 1, kappa)
    angle = torch.acos((1 - fall).clamp(-1, 1)).clamp(1e-150, math.pi - 1e-12)
    upper = 1 - fall >= mean
    far = (angle + 9 / kappa.clamp(min=1e-12).sqrt()).clamp(max=math.pi)
    start, stop = torch.where(upper, 0.0, angle), torch.where(upper, angle, far)
    at = start.unsqueeze(-1) + (stop - start).unsqueeze(-1) * nodes
    log_ratio = kappa.unsqueeze(-1) * (at.cos() - angle.cos().unsqueeze(-1))
    log_ratio = log_ratio + (d - 2) * (at.sin().log() - angle.sin().log().unsqueeze(-1))
    # dt = sin(angle) d angle; one sine of the density at w is left over
    integrand = (at.cos() - mean.unsqueeze(-1)) * log_ratio.exp() * angle.sin().unsqueeze(-1)
    total = (stop - start) * (integrand * weights).sum(-1)
    return torch.where(upper, -total, total)


def _legendre(device: torch.device, count: int = 80) -> tuple[Tensor, Tensor]:
    import numpy as np

    nodes, weights = np.polynomial.legendre.leggauss(count)
    return torch.tensor(0.5 * (nodes + 1), device=device), torch.tensor(0.5 * weights, device=device)


def _turned(upright: Tensor, direction: Tensor) -> Tensor:
    """Vectors around the first axis reflected so that the axis falls on the direction."""
    axis = torch.zeros_like(direction)
    axis[..., 0] = 1
    # the mirror through e − μ maps e to μ; its length is 0 only where nothing has to move
    mirror = axis - direction
    square = mirror.square().sum(-1, keepdim=True)
    still = square < 1e-30
    share = (upright * mirror).sum(-1, keepdim=True) / torch.where(still, 1.0, square)
    return upright - 2 * torch.where(still, 0.0, share) * mirror
