"""Gradients kept in bounds: projected onto a ball, all parameters together, or cut entry by entry."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput

NON_FINITE = ("raise", "zero", "keep")


@torch.no_grad()
def clip_to_ball(
    parameters: Tensor | Iterable[Tensor], radius: float, *, norm: float = 2.0, non_finite: str = "raise"
) -> Tensor:
    r"""Project the gradient of all parameters together onto a ball around zero, in place.

    .. math:: g \leftarrow g \min(1, r / \|g\|)

    Pascanu, Mikolov & Bengio, 2013. The direction stays; a gradient inside the ball is not touched.

    parameters: tensors with ``.grad``; those without one are skipped. radius: r. norm: the order of the norm, or
    infinity. non_finite: what to do where an entry is infinite or not a number, so that the gradient has no
    direction: "raise", set all gradients to "zero" (the step is skipped), or "keep" them as they are.
    Returns the norm before clipping.

    >>> p = torch.nn.Parameter(torch.zeros(2))
    >>> p.grad = torch.tensor([3.0, 4.0])
    >>> clip_to_ball(p, 1.0), p.grad
    (tensor(5.), tensor([0.6000, 0.8000]))
    """
    if not radius > 0:
        raise InvalidInput(f"clip_to_ball: radius={radius!r}; it must be positive")
    _check_choice("clip_to_ball", non_finite)
    gradients = _gradients(parameters)
    if not gradients:
        return torch.zeros(())
    total = _norm(gradients, norm)
    if not math.isfinite(float(total)):
        _mend("clip_to_ball", gradients, non_finite)
    elif float(total) > radius:
        torch._foreach_mul_(gradients, radius / float(total))
    return total


@torch.no_grad()
def clip_values(parameters: Tensor | Iterable[Tensor], limit: float, *, non_finite: str = "raise") -> None:
    r"""Cut every entry of the gradients to :math:`[-c, c]`, in place; the direction changes.

    limit: c. parameters, non_finite: as in ``clip_to_ball``.

    >>> p = torch.nn.Parameter(torch.zeros(2))
    >>> p.grad = torch.tensor([3.0, -0.5])
    >>> clip_values(p, 1.0)
    >>> p.grad
    tensor([ 1.0000, -0.5000])
    """
    if not limit > 0:
        raise InvalidInput(f"clip_values: limit={limit!r}; it must be positive")
    _check_choice("clip_values", non_finite)
    gradients = _gradients(parameters)
    if not all(bool(g.isfinite().all()) for g in gradients):
        _mend("clip_values", gradients, non_finite)
    for gradient in gradients:
        gradient.clamp_(-limit, limit)


def _check_choice(name: str, choice: str) -> None:
    if choice not in NON_FINITE:
        raise InvalidInput(f"{name}: non_finite={choice!r} is unknown; use one of {', '.join(NON_FINITE)}")


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    held = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    return [p.grad for p in held if p.grad is not None]


def _norm(gradients: list[Tensor], order: float) -> Tensor:
    """The norm of all entries together, safe from overflow of their squares."""
    device = gradients[0].device
    parts = torch.stack([torch.linalg.vector_norm(g, order).to(device) for g in gradients])
    if bool(parts.isinf().any()) and all(bool(g.isfinite().all()) for g in gradients):
        parts = torch.stack([torch.linalg.vector_norm(g.double(), order).to(device) for g in gradients])
    return torch.linalg.vector_norm(parts, order)


def _mend(name: str, gradients: list[Tensor], choice: str) -> None:
    if choice == "raise":
        bad = sum(int((~g.isfinite()).sum()) for g in gradients)
        raise InvalidInput(
            f"{name}: the gradient has {bad} entries that are not finite; lower the learning rate or pass "
            "non_finite='zero' to skip the step"
        )
    if choice == "zero":
        torch._foreach_zero_(gradients)
