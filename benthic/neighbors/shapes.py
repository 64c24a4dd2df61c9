"""Shapes of kernel weights, as logarithms so that far points keep their order."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput, nearest
from benthic.kernels.kernel import Kernel
from benthic.kernels.products import squared_matrix

Shape = Callable[[Tensor], Tensor]


def _root(square: Tensor) -> Tensor:
    """The distance, with slope 0 at 0."""
    positive = square > 0
    return torch.where(positive, torch.where(positive, square, 1.0).sqrt(), 0.0)


def _inside(profile: Shape) -> Shape:
    """The logarithm of a profile of the squared distance that counts below 1 only."""

    def log_weight(square: Tensor) -> Tensor:
        near = square < 1
        value = profile(torch.where(near, square, 0.0))
        return torch.where(near & (value > 0), torch.where(value > 0, value, 1.0).log(), -torch.inf)

    return log_weight


# From the squared scaled distance to the logarithm of the weight; the factor that normalizes a density cancels.
SHAPES: dict[str, Shape] = {
    "gaussian": lambda square: -0.5 * square,
    "exponential": lambda square: -_root(square),
    "epanechnikov": _inside(lambda square: 1 - square),
    "biweight": _inside(lambda square: (1 - square) ** 2),
    "triweight": _inside(lambda square: (1 - square) ** 3),
    "tricube": _inside(lambda square: (1 - _root(square) ** 3) ** 3),
    "triangular": _inside(lambda square: 1 - _root(square)),
    "cosine": _inside(lambda square: torch.cos(0.5 * math.pi * _root(square))),
    "box": lambda square: torch.where(square <= 1, 0.0, -torch.inf).to(square),
}


def check_shape(kernel: Any) -> None:
    """Refuse what is neither a name nor a kernel."""
    if isinstance(kernel, Kernel):
        return
    if not isinstance(kernel, str) or kernel not in SHAPES:
        hint = nearest(str(kernel), SHAPES)
        raise InvalidInput(f"kernel is {kernel!r}{hint}; use {', '.join(SHAPES)} or a kernel of benthic.kernels")


def log_weights(kernel: Any, A: Tensor, B: Tensor) -> tuple[Tensor, Tensor]:
    """Logarithms of the weights of points B (m, d) for queries A (n, d), both scaled, and the squared distances."""
    square = squared_matrix(A, B)
    if not isinstance(kernel, Kernel):
        return SHAPES[kernel](square), square
    weight = kernel(A, B)
    if bool((weight < 0).any()):
        raise InvalidInput(f"kernel {kernel!r} gives negative weights here; take one that is never negative")
    return torch.where(weight > 0, torch.where(weight > 0, weight, 1.0).log(), -torch.inf), square


def normalized(logits: Tensor, square: Tensor, log_mass: Tensor) -> Tensor:
    """Weights (n, m) that sum to 1, of logits with masses in them; where all vanish, the nearest points share the row.

    square: (n, m) squared distances, infinite for points that do not count. log_mass: (m,) what each weighs by itself.
    """
    lost = torch.isneginf(logits.detach().amax(1, keepdim=True))
    if bool(lost.any()):
        apart = square.detach()
        fallback = torch.where(apart == apart.amin(1, keepdim=True), log_mass, -torch.inf)
        logits = torch.where(lost, fallback, logits)
    return torch.softmax(logits, 1)
