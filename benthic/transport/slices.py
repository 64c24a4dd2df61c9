"""Sliced transport: the mean, or the maximum, of one-dimensional distances over directions."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.estimate import Estimate
from benthic.base.seeds import generator, seed_of
from benthic.base.settings import is_whole
from benthic.transport import checks
from benthic.transport.line import root, wasserstein_1d


def _unit(count: int, like: Tensor, seed: int | None, name: str) -> Tensor:
    """Directions (count, d), uniform on the sphere."""
    normal = torch.randn(count, like.shape[-1], generator=generator(seed_of(seed), name), dtype=torch.float64)
    return torch.nn.functional.normalize(normal, dim=-1).to(like)


def _two(where: str, X: Any, Y: Any) -> tuple[Tensor, Tensor]:
    X, Y = checks.clouds(where, X, Y)
    if X.ndim != 2 or Y.ndim != 2:
        raise InvalidInput(
            f"{where}: X and Y have shapes {tuple(X.shape)} and {tuple(Y.shape)}; (n, d), (m, d) are needed"
        )
    return X, Y


def sliced(
    X: Any, Y: Any, p: float = 2, directions: int | Tensor = 128, seed: int | None = None, a: Any = None, b: Any = None
) -> Estimate:
    r"""Sliced Wasserstein distance, by random directions, with its error bar.

    .. math:: SW_p = \Bigl(\mathbb{E}_{\theta \sim \mathbb{S}^{d-1}} W_p^p(\theta^\top X, \theta^\top Y)\Bigr)^{1/p}

    Rabin et al., 2012; Bonneel et al., 2015.

    X: (n, d), Y: (m, d) points with masses a: (n,), b: (m,), None is uniform. directions: how many, or a tensor
    (k, d) of unit vectors. Returns ``Estimate(value, stderr)`` of tensors; the standard error is that of the random
    directions (delta method), the value is differentiable in the points.

    >>> X = torch.zeros(5, 3)
    >>> found = sliced(X, X + 1, seed=0)
    >>> abs(found.value - 1) < 4 * found.stderr
    tensor(True)
    """
    p = checks.order("sliced", p)
    X, Y = _two("sliced", X, Y)
    theta = _unit(directions, X, seed, "sliced") if is_whole(directions) else directions.to(X)
    if theta.ndim != 2 or theta.shape[1] != X.shape[1] or not len(theta):
        raise InvalidInput(
            f"sliced: directions have shape {tuple(theta.shape)}; (k, {X.shape[1]}) with k >= 1 is needed"
        )
    each = wasserstein_1d((X @ theta.T).T, (Y @ theta.T).T, p, a, b) ** p  # (k,)
    mean = each.mean()
    value = root(mean, p)
    spread = each.detach().std() / len(theta) ** 0.5 if len(theta) > 1 else each.new_tensor(float("nan"))
    slope = torch.where(mean > 0, value / (p * mean.clamp_min(torch.finfo(X.dtype).tiny)), 0.0).detach()
    return Estimate(value, spread * slope)


class MaxSliced(NamedTuple):
    """The largest distance found and the direction (d,) that shows it."""

    value: Tensor
    direction: Tensor


def max_sliced(
    X: Any,
    Y: Any,
    p: float = 2,
    starts: int = 16,
    steps: int = 200,
    seed: int | None = None,
    a: Any = None,
    b: Any = None,
) -> MaxSliced:
    r"""Max-sliced Wasserstein distance: the direction along which two clouds differ most.

    .. math:: \max_{\lVert\theta\rVert = 1} W_p(\theta^\top X, \theta^\top Y)

    Deshpande et al., 2019. Projected gradient ascent with momentum from ``starts`` directions, the axis between the
    means among them; the problem is not concave, so the answer is a lower bound. Differentiable in the points.

    >>> X = torch.zeros(5, 3)
    >>> found = max_sliced(X, X + torch.tensor([0.0, 2.0, 0.0]), seed=0)
    >>> found.value
    tensor(2.0000)
    """
    p = checks.order("max_sliced", p)
    X, Y = _two("max_sliced", X, Y)
    if starts < 1 or steps < 0:
        raise InvalidInput(f"max_sliced: starts is {starts} and steps {steps}; at least 1 and 0 are needed")

    def distance(theta: Tensor, X: Tensor, Y: Tensor) -> Tensor:
        return wasserstein_1d((X @ theta.T).T, (Y @ theta.T).T, p, a, b)

    theta = _unit(starts, X, seed, "max_sliced")
    between = Y.detach().mean(0) - X.detach().mean(0)
    if bool(between.norm() > 0):
        theta[0] = between / between.norm()
    best = _ascend(lambda one: distance(one, X.detach(), Y.detach()), theta, steps)
    return MaxSliced(distance(best[None], X, Y)[0], best)


def _ascend(distance: Any, theta: Tensor, steps: int) -> Tensor:
    """The best direction met on ascents from all the starts at once."""
    value = distance(theta)
    index = value.argmax()
    top, best, speed = value[index], theta[index], torch.zeros_like(theta)
    for step in range(steps):
        with torch.enable_grad():
            moving = theta.clone().requires_grad_()
            (slope,) = torch.autograd.grad(distance(moving).sum(), moving)
        slope = slope - (slope * theta).sum(-1, keepdim=True) * theta
        slope = slope / slope.norm(dim=-1, keepdim=True).clamp_min(torch.finfo(theta.dtype).tiny)
        speed = 0.7 * speed + slope
        theta = torch.nn.functional.normalize(theta + 0.3 * 0.97**step * speed, dim=-1)
        value = distance(theta)
        index = value.argmax()
        if bool(value[index] > top):
            top, best = value[index], theta[index]
    return best
