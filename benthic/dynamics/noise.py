"""How noise enters a stochastic equation, and the drift that two calculi differ by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput, nearest
from benthic.calculus import jvp

Term = Callable[[Tensor, Tensor], Tensor]

KINDS = ("diagonal", "scalar", "general")


class Noise:
    r"""The diffusion term of a state y (n, d): how increments of W act, and how the term changes along itself.

    diagonal: g(t, y) is (n, d) and entry i of W moves entry i of y, by an amount that depends on that entry
    alone. scalar: g is (n, d), and one motion (n, 1) moves all entries. general: g is (n, d, m), for m motions.
    """

    def __init__(self, term: Term, kind: str) -> None:
        if kind not in KINDS:
            raise InvalidInput(f"solve_sde: noise={kind!r}{nearest(str(kind), KINDS)}; use {', '.join(KINDS)}")
        self.term, self.kind = term, kind

    def check(self, t: Tensor, y: Tensor) -> tuple[int, ...]:
        """The shape of W, after a look at what the term returns."""
        g = self.term(t, y)
        fits = isinstance(g, Tensor) and (
            g.shape[:-1] == y.shape if self.kind == "general" else _broadcasts(g.shape, y.shape)
        )
        if not fits:
            got = tuple(g.shape) if isinstance(g, Tensor) else type(g).__name__
            wanted = (*y.shape, "m") if self.kind == "general" else tuple(y.shape)
            raise InvalidInput(
                f"solve_sde: the diffusion returned {got}; {self.kind} noise of this state needs {wanted}"
            )
        if self.kind == "diagonal":
            return tuple(y.shape)
        return (*y.shape[:-1], 1 if self.kind == "scalar" else g.shape[-1])

    def apply(self, g: Tensor, dw: Tensor) -> Tensor:
        """G dW."""
        return torch.einsum("...dm,...m->...d", g, dw) if self.kind == "general" else g * dw

    def along_itself(self, t: Tensor, y: Tensor) -> Tensor:
        r"""The sum over motions of (∂g/∂y) g, which is twice what Itô and Stratonovich drifts differ by."""
        if self.kind != "general":
            return jvp(lambda x: self.term(t, x).expand_as(x), y, self.term(t, y).expand_as(y).contiguous())[1]
        g = self.term(t, y)
        columns = [jvp(lambda x, j=j: self.term(t, x)[..., j], y, g[..., j])[1] for j in range(g.shape[-1])]
        return torch.stack(columns).sum(0)


def _broadcasts(shape: Any, target: Any) -> bool:
    try:
        return torch.broadcast_shapes(shape, target) == torch.Size(target)
    except RuntimeError:
        return False


def converted(drift: Term, noise: Noise, given: str, wanted: str) -> Term:
    r"""The drift in another sense.

    .. math:: f_\text{Stratonovich} = f_\text{Itô} - \tfrac12 \sum_j \frac{\partial g_j}{\partial y} g_j
    """
    if given == wanted:
        return drift
    factor = -0.5 if wanted == "stratonovich" else 0.5
    return lambda t, y: drift(t, y) + factor * noise.along_itself(t, y)
