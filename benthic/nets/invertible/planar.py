"""Planar and radial maps: each pushes space along one direction, or away from one point."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benthic.nets.invertible.laws import bisect
from benthic.nets.invertible.transform import Transform, check_shape

_AT_ZERO = math.log(math.e - 1)  # where softplus is one
_LEAST = -0.999  # of a push; at −1 the map would be singular


class _Pushed(Transform):
    """A map whose few parameters are learned numbers, or given by a linear layer from the context."""

    def __init__(self, width: int, numbers: int, context: int) -> None:
        super().__init__()
        self.width, self.context = width, context
        self.numbers = nn.Parameter(0.1 * torch.randn(numbers))
        self.given = nn.Linear(context, numbers) if context else None
        if self.given is not None:
            nn.init.normal_(self.given.weight, std=0.01)
            nn.init.zeros_(self.given.bias)

    def _raw(self, x: Tensor, context: Tensor | None) -> Tensor:
        """The parameters for rows (n, width), (n, numbers)."""
        check_shape(type(self).__name__, x, self.width, context, self.context or None, rank=2)
        if self.given is None:
            return self.numbers.expand(len(x), -1)
        shift: Tensor = self.given(context)
        return self.numbers + shift


class Planar(_Pushed):
    r"""z = x + u tanh(wᵀx + b), with u bent so that it is invertible, wᵀu > −1.

    Rezende & Mohamed, 2015. The inverse finds wᵀx by bisection. width: columns. context: numbers given besides.
    """

    def __init__(self, width: int, *, context: int = 0) -> None:
        super().__init__(width, 2 * width + 1, context)

    def _parts(self, x: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        raw = self._raw(x, context)
        w, u, b = raw[:, : self.width], raw[:, self.width : -1], raw[:, -1]
        along = (w * u).sum(1)
        room = (F.softplus(along + _AT_ZERO) - 1).clamp_min(_LEAST)  # above −1, and zero at zero
        u = u + ((room - along) / w.square().sum(1).clamp_min(1e-12))[:, None] * w
        return w, u, b, room

    def _log(self, at: Tensor, push: Tensor) -> Tensor:
        return torch.log1p(push * (1 - torch.tanh(at).square()))

    def forward(self, x: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """z and the log-determinant."""
        w, u, b, _ = self._parts(x, context)
        at = (w * x).sum(1) + b
        return x + u * torch.tanh(at)[:, None], self._log(at, (w * u).sum(1))

    def inverse(self, z: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """x and the log-determinant."""
        w, u, b, _ = self._parts(z, context)
        push, goal = (w * u).sum(1), (w * z).sum(1) + b
        at = bisect(lambda t: t + push * torch.tanh(t), goal)
        slope = 1 + push.detach() * (1 - torch.tanh(at).square())
        at = at - (at + push * torch.tanh(at) - goal) / slope
        return z - u * torch.tanh(at)[:, None], -self._log(at, push)


class Radial(_Pushed):
    r"""z = x + β (x − c) / (α + \|x − c\|), with β > −α so that it is invertible.

    Rezende & Mohamed, 2015. The inverse is the root of a quadratic. width: columns. context: numbers given besides.
    """

    def __init__(self, width: int, *, context: int = 0) -> None:
        super().__init__(width, width + 2, context)

    def _parts(self, x: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        raw = self._raw(x, context)
        alpha = F.softplus(raw[:, -2]) + 1e-3
        beta = F.softplus(raw[:, -1] + _AT_ZERO) - 1  # zero at zero
        return raw[:, : self.width], alpha, alpha * beta.clamp_min(_LEAST)

    def _log(self, r: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
        outward = torch.log1p(beta / (alpha + r))
        return (self.width - 1) * outward + torch.log1p(beta * alpha / (alpha + r).square())

    def forward(self, x: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """z and the log-determinant."""
        center, alpha, beta = self._parts(x, context)
        away = x - center
        r = torch.linalg.vector_norm(away, dim=1)
        return x + (beta / (alpha + r))[:, None] * away, self._log(r, alpha, beta)

    def inverse(self, z: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """x and the log-determinant."""
        center, alpha, beta = self._parts(z, context)
        away = z - center
        far = torch.linalg.vector_norm(away, dim=1)
        half = alpha + beta - far  # r² + r (α + β − far) − α far = 0
        root = torch.sqrt(half.square() + 4 * alpha * far)
        r = torch.where(half > 0, 2 * alpha * far / (half + root), 0.5 * (root - half))
        return center + away / (1 + beta / (alpha + r))[:, None], -self._log(r, alpha, beta)
