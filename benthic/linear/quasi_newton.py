"""L-BFGS for logistic regression with an L2 penalty, preconditioned by what one look at the data tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benthic.data.batch import Batch
from benthic.linear.descent import Descent, Goal
from benthic.linear.scores import first_order, spread
from benthic.optim.lbfgs import Memory
from benthic.training.learner import Again, Stats, total_weight

_WIDEST = 1024  # features up to which their covariance is diagonalized


class Moments(NamedTuple):
    """Mean (d,) of the features and axes (d, d) along which they vary by ``variances`` (d,).

    The axes are the principal axes of the standardized features, in units of the features, so that columns of
    very different size do no harm. Of wide data the axes are those of the features, kept as a vector (d,).
    """

    mean: Tensor
    variances: Tensor
    axes: Tensor

    def rotate(self, matrix: Tensor) -> Tensor:
        """A gradient (r, d) along the axes."""
        return matrix * self.axes if self.axes.ndim == 1 else matrix @ self.axes

    def restore(self, matrix: Tensor) -> Tensor:
        """Coefficients (r, d) from those along the axes."""
        return matrix * self.axes if self.axes.ndim == 1 else matrix @ self.axes.T

    def lengths(self) -> Tensor:
        """Squared lengths of the axes, (d,): how much the L2 penalty weighs along each."""
        return self.axes**2 if self.axes.ndim == 1 else (self.axes**2).sum(0)


def moments_of(stats: Stats, centering: bool) -> Moments:
    """Moments from the sums of ``moment_sums``; without centering, about zero."""
    mean = stats["mean"].cpu() / stats.weight * float(centering)
    second = stats["second"].cpu() / stats.weight
    squares = second if second.ndim == 1 else second.diagonal()
    variances = squares - mean**2
    scales = torch.where(variances > 1e-14 * squares, variances, 1.0).rsqrt()
    if second.ndim == 1:
        return Moments(mean, (variances * scales**2).clamp_min(0.0), scales)
    correlation = (second - mean[:, None] * mean) * scales[:, None] * scales
    levels, axes = torch.linalg.eigh(correlation)
    return Moments(mean, levels.clamp_min(0.0), axes * scales[:, None])


def moment_sums(batch: Batch) -> Stats:
    """Sums of x and x xᵀ over a block; of wide rows the squares only."""
    X = batch.X.double()
    weighted = X if batch.weight is None else X * batch.weight[:, None]
    second = weighted.T @ X if X.shape[1] <= _WIDEST else (weighted * X).sum(0)
    return Stats(total_weight(batch), {"mean": weighted.sum(0), "second": second})


def kronecker_solve(gradient: Tensor, moments: Moments, curvature: Tensor, l2: float, intercept: bool) -> Tensor:
    r"""Solve with the Hessian as if class probabilities did not depend on the features.

    .. math:: H \approx S \otimes \operatorname{Cov}(x) + \lambda I, \qquad
              S = \mathbb{E} [\operatorname{diag}(p) - p p^T]

    With S = I/2 - 11ᵀ/2k in place of its mean this is the upper bound of Böhning, 1992. Both factors are
    diagonalized once. The intercept is that of centered features, which decouples it.

    gradient: (r, d + 1), or (r, d) without an intercept. curvature: S, (r, r).
    """
    levels, classes = torch.linalg.eigh(curvature)
    levels = levels.clamp_min(0.0)
    last = gradient[:, -1:] if intercept else gradient.new_zeros(len(gradient), 1)
    body = gradient[:, :-1] if intercept else gradient
    body = classes.T @ moments.rotate(body - last * moments.mean)
    body = _divide(body, levels[:, None] * moments.variances + l2 * moments.lengths())
    body = moments.restore(classes @ body)
    if not intercept:
        return body
    last = classes @ _divide(classes.T @ last, levels[:, None])
    return torch.cat([body, last - body @ moments.mean[:, None]], 1)


def _divide(numerator: Tensor, denominator: Tensor) -> Tensor:
    """The quotient, and zero in directions without curvature."""
    return torch.where(denominator > 1e-13 * denominator.max(), numerator / denominator, 0.0)


class QuasiNewton(Descent):
    """L-BFGS whose first guess of the inverse Hessian is a Kronecker product, see ``kronecker_solve``."""

    def __init__(self, start: Tensor, goal: Goal, memory: int = 10) -> None:
        super().__init__(start, goal)
        self.memory = Memory(memory)
        self.moments: Moments | None = None
        self.curvature = torch.zeros(len(start), len(start), dtype=torch.float64)

    def sums(self, batch: Batch) -> dict[str, Tensor]:
        """Sums of loss, gradient and curvature in the scores."""
        sums, P = first_order(self.point, batch)
        return {**sums, "spread": spread(P, batch.weight)}

    def accept(self, stats: Stats, gradient: Tensor) -> None:
        """Remember the step and how the gradient changed along it."""
        if self.search is not None:
            self.memory = self.memory.add(self.point - self.theta, gradient - self.gradient)

    def propose(self, stats: Stats, again: Again) -> tuple[Tensor, float]:
        """The quasi-Newton direction and its slope."""
        if self.moments is None:
            self.moments = moments_of(again(moment_sums), self.goal.intercept)
        if self.iterations.bit_count() <= 1:  # at 0, 1, 2, 4, 8, ...: probabilities settle quickly
            self.curvature = stats["spread"].cpu() / stats.weight
        moments, l2 = self.moments, self.goal.l2(stats.weight)

        def solve(gradient: Tensor) -> Tensor:
            return kronecker_solve(gradient, moments, self.curvature, l2, self.goal.intercept)

        if moments.axes.ndim == 1:  # what single columns tell of the size of the curvature is little
            solve = self.memory.scaled(solve)
        step = self.goal.canonical(-self.memory.inverse(self.gradient, solve))
        return step, float((self.gradient * step).sum())

    def state_dict(self) -> dict[str, Any]:
        """Where the descent stands, with its memory and preconditioner."""
        return {
            **super().state_dict(),
            "memory": {
                "size": self.memory.size,
                "steps": list(self.memory.steps),
                "changes": list(self.memory.changes),
            },
            "moments": None if self.moments is None else self.moments._asdict(),
            "curvature": self.curvature,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        super().load_state_dict(state)
        memory = state["memory"]
        self.memory = Memory(memory["size"], tuple(memory["steps"]), tuple(memory["changes"]))
        self.moments = None if state["moments"] is None else Moments(**state["moments"])
