"""What a minimizer hands back: where it stopped, what it cost, and why it stopped."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

GRADIENT = "gradient small"
PRECISION = "no further decrease possible at this precision"
MAX_ITER = "max_iter reached"
LINE_SEARCH = "line search failed"
NON_FINITE = "value or gradient not finite"

REASONS = (GRADIENT, PRECISION, MAX_ITER, LINE_SEARCH, NON_FINITE)


@dataclass(frozen=True)
class Minimum:
    """Where a minimizer stopped. With a batch of starts every entry has one element a start.

    point: of the shape of the start. value: the function there, a float or (B,). gradient: of the shape of
    the point. gradient_norm: its largest absolute entry, a float or (B,). iterations: steps taken.
    evaluations: values with or without gradients, and Hessian products; looking at the start once to check the
    function is not counted. converged: whether
    ``gradient_norm`` is at most ``tol`` (and, for Newton's methods, no direction of negative curvature is left).
    reason: one of "gradient small", "no further decrease possible at this precision", "max_iter reached",
    "line search failed", "value or gradient not finite", or a tuple of them. path: the points visited, first
    dimension the iteration, where asked for.
    """

    point: Tensor
    value: float | Tensor
    gradient: Tensor
    gradient_norm: float | Tensor
    iterations: int | Tensor
    evaluations: int | Tensor
    converged: bool | Tensor
    reason: str | tuple[str, ...]
    path: Tensor | None = None

    def best(self) -> Minimum:
        """The lowest of a batch of starts, as the record of one."""
        if not isinstance(self.value, Tensor):
            return self
        index = int(torch.where(self.value.isnan(), torch.inf, self.value).argmin())
        return Minimum(
            self.point[index],
            float(self.value[index]),
            self.gradient[index],
            *(
                getattr(self, name)[index].item()
                for name in ("gradient_norm", "iterations", "evaluations", "converged")
            ),
            self.reason[index],
            None if self.path is None else self.path[:, index],
        )

    def __str__(self) -> str:
        """One line: the value, how flat it is there, what it cost, and why it ended."""
        if isinstance(self.value, Tensor):
            good, count = int(torch.as_tensor(self.converged).sum()), len(self.reason)
            return f"{good} of {count} starts converged; the best: {self.best()}"
        return (
            f"{self.value:.6g} with gradient {self.gradient_norm:.2g} after {self.iterations} iterations and "
            f"{self.evaluations} evaluations: {self.reason}"
        )


def single(record: Minimum, shape: torch.Size) -> Minimum:
    """The record of a batch of one as the record of one start of that shape."""
    one = record.best()
    path = None if one.path is None else one.path.reshape(-1, *shape)
    return Minimum(
        one.point.reshape(shape),
        one.value,
        one.gradient.reshape(shape),
        one.gradient_norm,
        one.iterations,
        one.evaluations,
        one.converged,
        one.reason,
        path,
    )
