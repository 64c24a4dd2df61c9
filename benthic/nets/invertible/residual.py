"""Residual maps: the identity plus a network that contracts, inverted by fixed-point iteration."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benthic.base.errors import InvalidInput
from benthic.base.seeds import normal_like, stream
from benthic.base.settings import whole
from benthic.nets.invertible.transform import Transform, check_shape
from benthic.nets.spectral import Singular

LOGDETS = ("exact", "roulette")
_SWISH = 1.1  # the steepest slope of x sigmoid(x) is just below


class BoundedLinear(nn.Module):
    r"""A linear layer whose largest singular value is at most ``bound``.

    .. math:: W \cdot \min(1, c / \sigma(W))

    Miyato et al., 2018; Gouk et al., 2021. In training σ is followed by one round of power iteration a step, which
    may lag a little; in evaluation it is exact, so that the map is certainly invertible.
    """

    def __init__(self, inputs: int, outputs: int, bound: float = 0.97) -> None:
        super().__init__()
        self.bound = bound
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.bias = nn.Parameter(torch.zeros(outputs))
        nn.init.orthogonal_(self.weight)
        nn.init.uniform_(self.bias, -0.1, 0.1)
        self.singular = Singular(self.weight.detach())

    def scaled(self) -> Tensor:
        """The weight as it is used, (out, in)."""
        sigma = self.singular(self.weight) if self.training else torch.linalg.matrix_norm(self.weight, 2)
        return self.weight * (self.bound / sigma.clamp_min(self.bound))


class Residual(Transform):
    r"""z = x + g(x) with a network g whose Lipschitz constant is below one.

    .. math:: \log\left|\det(I + J)\right| = \sum_{k \ge 1} \frac{(-1)^{k+1}}{k} \operatorname{tr} J^k

    Behrmann et al., 2019; Chen et al., 2019. The inverse is the fixed point of x = z − g(x), to rounding.

    logdet: ``exact`` (the determinant of the Jacobian, for tens of columns) or ``roulette``: in training the series is
    cut at a random place and its terms are weighed so that the mean is right, with traces estimated by a random probe;
    in evaluation the determinant stays exact. terms: summed in any case. bound: of each layer's singular values.
    """

    def __init__(
        self,
        width: int,
        hidden: Sequence[int] = (64, 64),
        *,
        context: int = 0,
        bound: float = 0.97,
        logdet: str = "exact",
        terms: int = 4,
    ) -> None:
        super().__init__()
        if not 0 < bound < 1:
            raise InvalidInput(f"Residual: bound is {bound}; below one the map is invertible, at one or above singular")
        if logdet not in LOGDETS:
            raise InvalidInput(f"Residual: logdet is {logdet!r}; use 'exact' or 'roulette'")
        whole("Residual: terms", terms)
        self.width, self.logdet, self.terms, self.bound = width, logdet, terms, bound
        self.context = context
        sizes = [width, *hidden, width]
        self.layers: Any = nn.ModuleList([BoundedLinear(a, b, bound) for a, b in pairwise(sizes)])
        self.given = nn.Linear(context, sizes[1]) if context else None
        self.steepness = nn.Parameter(torch.full((len(hidden),), 0.5))

    # -- the network -----------------------------------------------------------------------------------

    def _weights(self) -> list[Tensor]:
        return [layer.scaled() for layer in self.layers]

    def _curve(self, u: Tensor, place: int) -> Tensor:
        beta = F.softplus(self.steepness[place])
        return u * torch.sigmoid(beta * u) / _SWISH

    def _slope(self, u: Tensor, place: int) -> Tensor:
        beta = F.softplus(self.steepness[place])
        s = torch.sigmoid(beta * u)
        return (s + beta * u * s * (1 - s)) / _SWISH

    def _pass(self, x: Tensor, context: Tensor | None, weights: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """g(x) and the slopes of each hidden layer."""
        check_shape("Residual", x, self.width, context, self.context or None, rank=2)
        slopes = []
        shift = self.given(context) if self.given is not None else 0.0
        for place, (layer, weight) in enumerate(zip(self.layers[:-1], weights[:-1], strict=True)):
            u = F.linear(x, weight, layer.bias) + (shift if place == 0 else 0.0)
            slopes.append(self._slope(u, place))
            x = self._curve(u, place)
        return F.linear(x, weights[-1], self.layers[-1].bias), slopes

    @staticmethod
    def _times(rows: Tensor, weights: list[Tensor], slopes: list[Tensor]) -> Tensor:
        """Rows (n, k, d) from the left times the Jacobian of g, (n, k, d)."""
        for place in range(len(weights) - 1, -1, -1):
            rows = rows @ weights[place]
            if place:
                rows = rows * slopes[place - 1][:, None, :]
        return rows

    # -- both ways -------------------------------------------------------------------------------------

    def forward(self, x: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """z and the log-determinant."""
        weights = self._weights()
        g, slopes = self._pass(x, context, weights)
        estimated = self.training and self.logdet == "roulette"
        log = self._series(x, weights, slopes) if estimated else self._determinant(x, weights, slopes)
        return x + g, log

    def _determinant(self, x: Tensor, weights: list[Tensor], slopes: list[Tensor]) -> Tensor:
        eye = torch.eye(self.width, dtype=x.dtype, device=x.device).expand(len(x), -1, -1)
        found: Tensor = torch.linalg.slogdet(eye + self._times(eye, weights, slopes)).logabsdet
        return found

    def _series(self, x: Tensor, weights: list[Tensor], slopes: list[Tensor]) -> Tensor:
        """An unbiased estimate: the number of terms is geometric beyond the first ones (Kahn, 1955)."""
        probe = normal_like(x)[:, None, :]
        count = self.terms + int(torch.empty(()).geometric_(0.5, generator=stream("cpu"))) - 1
        rows, total = probe, x.new_zeros(len(x))
        for k in range(1, count + 1):
            rows = self._times(rows, weights, slopes)
            weight = 1.0 / roulette_survival(k, self.terms)
            total = total + (-1) ** (k + 1) / k * weight * (rows * probe).sum((1, 2))
        return total

    def inverse(self, z: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """x by fixed-point iteration; gradients are those of a last step, x = z − g(x)."""
        weights = self._weights()
        with torch.no_grad():
            x = self._solve(z, context, [w.detach() for w in weights])
        if torch.is_grad_enabled():
            x = self._with_gradient(x, z, context, weights)
        _, slopes = self._pass(x, context, weights)
        return x, -self._determinant(x, weights, slopes)

    def _solve(self, z: Tensor, context: Tensor | None, weights: list[Tensor]) -> Tensor:
        contraction = self.bound ** len(self.layers)
        eps = torch.finfo(z.dtype).eps
        steps = math.ceil(math.log(eps) / math.log(contraction)) + 5
        x = z
        for _ in range(steps):
            there = z - self._pass(x, context, weights)[0]
            done = bool(((there - x).abs() <= 2 * eps * (1 + z.abs())).all())
            x = there
            if done:
                break
        return x

    def _with_gradient(self, x: Tensor, z: Tensor, context: Tensor | None, weights: list[Tensor]) -> Tensor:
        """The same x, with the gradient of the implicit function: (I + J) dx = dz − dg."""
        g, slopes = self._pass(x, context, weights)
        eye = torch.eye(self.width, dtype=x.dtype, device=x.device).expand(len(x), -1, -1)
        jacobian = (eye + self._times(eye, weights, slopes)).detach()
        shift: Tensor = torch.linalg.solve(jacobian, x + g - z)
        return x - shift


def roulette_survival(k: int, terms: int) -> float:
    """How probable it is that the k-th term of the series is summed, if so many always are.

    >>> [roulette_survival(k, 2) for k in (1, 2, 3, 4)]
    [1.0, 1.0, 0.5, 0.25]
    """
    return 0.5 ** max(0, k - terms)
