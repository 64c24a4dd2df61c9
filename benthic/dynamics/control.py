"""How large the next step is: proportional-integral control of the local error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput

Norm = Callable[[Tensor], Tensor]


def root_mean_square(x: Tensor) -> Tensor:
    """Root of the mean square of all entries, () of a real dtype."""
    return torch.linalg.vector_norm(x) / max(x.numel(), 1) ** 0.5


def root_mean_square_of_rows(x: Tensor) -> Tensor:
    """The same for every row of (n, ...), (n,)."""
    rows = x.flatten(1)
    return torch.linalg.vector_norm(rows, dim=1) / max(rows.shape[1], 1) ** 0.5


@dataclass(frozen=True)
class Control:
    r"""Tolerances, and the rule by which an error ratio e (1 is just acceptable) makes the next step.

    .. math:: h' = h \cdot \min\big(g, \max\big(s, 0.9\, e^{-\alpha} e_\text{before}^{\beta}\big)\big),
              \qquad \alpha = (1 - \tfrac34 d) / q, \quad \beta = d / q

    Gustafsson, 1991, with the exponents of Hairer & Wanner, 1996, section IV.2; q is one more than the
    order of the embedded solution. After a rejected step the plain rule (1 / e)^(1 / q) holds.

    rtol, atol: the error of a step may be atol + rtol · \|y\|, entry by entry. safety: a factor below one.
    shrink, grow: limits of one change. damping: d, how much the last error counts; more of it makes steps even and
    cautious, which suits stiff problems. norm: makes one number of the scaled errors; None for the root mean square.

    >>> control = Control()
    >>> control.factor(1e-9, 1.0, 5), round(control.factor(32.0, 1.0, 5, rejected=True), 3)
    (10.0, 0.45)
    """

    rtol: float = 1e-6
    atol: float = 1e-6
    safety: float = 0.9
    shrink: float = 0.2
    grow: float = 10.0
    damping: float = 0.2
    norm: Norm | None = None

    def check(self, dtype: torch.dtype) -> None:
        """Refuse tolerances the precision cannot hold."""
        if not (self.rtol >= 0 and self.atol >= 0 and self.rtol + self.atol > 0):
            raise InvalidInput(f"solve: rtol={self.rtol} and atol={self.atol}; both must be >= 0 and one positive")
        least = 4 * torch.finfo(dtype).eps
        if self.rtol < least and self.atol < least:
            raise InvalidInput(
                f"solve: rtol={self.rtol:g} and atol={self.atol:g} are below what {str(dtype)[6:]} resolves; "
                f"use at least {least:.0e}, or a state in float64"
            )

    def factor(self, ratio: float, before: float, order: int, *, rejected: bool = False) -> float:
        """By how much the step changes. ratio, before: error ratios of this step and of the last accepted one."""
        if ratio == 0.0:
            return self.grow
        if not ratio < float("inf"):
            return self.shrink
        if rejected:
            return max(self.shrink, self.safety * ratio ** (-1 / order))
        found = self.safety * ratio ** ((0.75 * self.damping - 1) / order) * before ** (self.damping / order)
        return min(self.grow, max(self.shrink, found))

    def factors(self, ratio: Tensor, before: Tensor, order: int) -> Tensor:
        """The same for many steps at once; a ratio above one is a rejected step."""
        plain = self.safety * ratio ** (-1 / order)
        smooth = self.safety * ratio ** ((0.75 * self.damping - 1) / order) * before ** (self.damping / order)
        found = torch.where(ratio <= 1, smooth, plain.clamp(max=1.0))
        return found.nan_to_num(nan=self.shrink, posinf=self.grow).clamp(self.shrink, self.grow)
