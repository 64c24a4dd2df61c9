"""Limited-memory BFGS: the curvature seen so far as a value, in the form of the two-loop recursion."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Inverse = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Memory:
    r"""The last pairs of steps s and gradient changes y; ``inverse`` applies their quasi-Newton inverse.

    .. math:: H_{i+1} = (I - \rho s y^T) H_i (I - \rho y s^T) + \rho s s^T, \qquad \rho = 1 / y^T s

    Nocedal, 1980; two-loop recursion of Liu & Nocedal, 1989. Pairs without positive curvature are left out,
    so the inverse stays positive definite.

    size: pairs kept. steps, changes: tensors of one shape, oldest first.

    >>> memory = Memory().add(torch.tensor([1.0]), torch.tensor([4.0]))
    >>> memory.inverse(torch.tensor([8.0]))
    tensor([2.])
    """

    size: int = 10
    steps: tuple[Tensor, ...] = ()
    changes: tuple[Tensor, ...] = ()

    def add(self, step: Tensor, change: Tensor) -> Memory:
        """The memory with one more pair, without the oldest if it is full."""
        if not float(_dot(step, change)) > 1e-14 * float(step.norm() * change.norm()):
            return self
        return Memory(self.size, (*self.steps, step)[-self.size :], (*self.changes, change)[-self.size :])

    def inverse(self, gradient: Tensor, start: Inverse | None = None) -> Tensor:
        """The inverse Hessian estimate times ``gradient``.

        start: the estimate before any pair is seen; without it the last pair gives a multiple of the identity.
        """
        q = gradient.clone()
        coefficients = []
        for s, y in zip(reversed(self.steps), reversed(self.changes), strict=True):
            alpha = _dot(s, q) / _dot(s, y)
            coefficients.append(alpha)
            q -= alpha * y
        r = (start or self.scaled(_identity))(q)
        for s, y, alpha in zip(self.steps, self.changes, reversed(coefficients), strict=True):
            r = r + s * (alpha - _dot(y, r) / _dot(s, y))
        return r

    def scaled(self, start: Inverse) -> Inverse:
        """The estimate ``start`` times the number that makes it fit the last pair."""
        if not self.steps:
            return start
        s, y = self.steps[-1], self.changes[-1]
        factor = float(_dot(s, y) / _dot(y, start(y)))
        return lambda gradient: factor * start(gradient)


def _identity(gradient: Tensor) -> Tensor:
    return gradient


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return torch.dot(a.reshape(-1), b.reshape(-1))
