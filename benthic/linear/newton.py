"""Newton's method (iteratively reweighted least squares) for logistic regression with an L2 penalty."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from benthic.data.batch import Batch
from benthic.linear.descent import Descent
from benthic.linear.positive import factor
from benthic.linear.scores import first_order, mirror, second_order, with_ones
from benthic.training.learner import Again, Stats


class Newton(Descent):
    r"""Steps that solve the quadratic model of the objective exactly.

    .. math:: \big( X^T W X + \lambda I \big) \, \delta = - \nabla f

    Probabilities of k classes do not change when the same vector is added to every row of parameters, so the
    system is solved with the last class as reference, in k - 1 rows, and the step centered afterwards; by the
    affine invariance of Newton's method this is the step of least norm in all k rows.
    """

    exact: ClassVar[bool] = True

    def sums(self, batch: Batch) -> dict[str, Tensor]:
        """Sums of loss, gradient and Hessian over a block."""
        sums, P = first_order(self.point, batch)
        free = P[:-1] if len(P) > 1 else P
        hessian = second_order(free, with_ones(batch.X, self.goal.intercept), batch.weight)
        return {**sums, "hessian": hessian}

    def propose(self, stats: Stats, again: Again) -> tuple[Tensor, float]:
        """The Newton direction, and its slope: minus the squared Newton decrement."""
        classes, width = self.theta.shape
        rows = max(classes - 1, 1)
        hessian = mirror(stats["hessian"].cpu()) / stats.weight
        hessian += torch.kron(_contrasts(classes), self._ridge(width, stats.weight))
        step = factor(hessian).solve(-self.gradient[:rows].reshape(-1)).reshape(rows, width)
        if classes > 1:
            step = self.goal.canonical(torch.cat([step, step.new_zeros(1, width)]))
        return step, float((self.gradient * step).sum())

    def _ridge(self, width: int, weight: float) -> Tensor:
        diagonal = torch.full((width,), self.goal.l2(weight), dtype=torch.float64)
        if self.goal.intercept:
            diagonal[-1] = 0.0
        return torch.diag(diagonal)


def _contrasts(classes: int) -> Tensor:
    """The squared norm of centered rows as a form in all rows but the last: I - 11ᵀ / k."""
    if classes == 1:
        return torch.ones(1, 1, dtype=torch.float64)
    return torch.eye(classes - 1, dtype=torch.float64) - 1.0 / classes
