"""Proximal Newton for logistic regression with an L1 or elastic-net penalty."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from benthic.data.batch import Batch
from benthic.linear.coordinate import descend
from benthic.linear.descent import Descent
from benthic.linear.scores import mirror, respond, second_order, with_ones
from benthic.training.learner import Again, Stats, total_weight

_LEAST = 1000  # coefficients that may join the working set at any time


class ProximalNewton(Descent):
    r"""Steps that solve the quadratic model of the loss with the penalty kept as it is.

    .. math:: \min_\delta \; \nabla f^T \delta + \tfrac12 \delta^T H \delta + \lambda_1 \|W + \delta_W\|_1

    Lee, Sun & Saunders, 2014; inner problem by coordinate descent (Friedman, Hastie & Tibshirani, 2010). The
    model covers a working set of features: those with a coefficient, and those that break the optimality
    conditions most. A feature that fits in neither stays at zero and costs nothing.
    """

    final_step: ClassVar[bool] = True

    def propose(self, stats: Stats, again: Again) -> tuple[Tensor, float]:
        """The minimum of the model on the working set, as a direction, and the decrease it promises."""
        l1, l2 = self.goal.l1(stats.weight), self.goal.l2(stats.weight)
        chosen = self.working_set(l1)
        width = len(chosen) + int(self.goal.intercept)
        if width == 0:
            return torch.zeros_like(self.theta), 0.0
        curvature = again(lambda batch: self._curvature(batch, chosen))["hessian"].cpu()
        free = torch.zeros(len(self.theta), width, dtype=torch.bool)
        free[:, len(chosen) :] = True
        hessian = mirror(curvature) / stats.weight
        hessian.diagonal().add_((~free).reshape(-1), alpha=l2)
        columns = torch.cat([chosen, torch.arange(self._width, self.theta.shape[1])])
        worst = self.violation(stats.weight)
        change = _solve_model(
            hessian,
            self.gradient[:, columns].reshape(-1),
            self.theta[:, columns].reshape(-1),
            free.reshape(-1),
            l1,
            tol=worst * min(0.1, worst),
        )
        trial = self.theta.clone()
        trial[:, columns] += change.reshape(len(trial), width)
        step = self.goal.canonical(trial) - self.theta
        return step, float((self.gradient * step).sum()) + l1 * self._growth(step)

    def violation(self, weight: float) -> float:
        """The largest distance of an entry of the gradient from the subgradient of the penalty."""
        return float(self._violations(self.goal.l1(weight)).max())

    def working_set(self, l1: float) -> Tensor:
        """Columns of the features the next model covers, in order."""
        worst = self._violations(l1)[:, : self._width].amax(0)
        held = (self.goal.penalized(self.theta) != 0).any(0)
        room = max(_LEAST // len(self.theta), int(held.sum()))
        new = torch.where(held, 0.0, worst)
        joining = new.topk(min(room, self._width)).indices
        held[joining[new[joining] > 0]] = True
        return held.nonzero()[:, 0]

    @property
    def _width(self) -> int:
        return self.theta.shape[1] - int(self.goal.intercept)

    def _violations(self, l1: float) -> Tensor:
        result = self.gradient.abs()
        g, w = self.goal.penalized(self.gradient), self.goal.penalized(self.theta)
        subgradient = torch.where(w == 0, (g.abs() - l1).clamp_min(0.0), (g + l1 * w.sign()).abs())
        self.goal.penalized(result).copy_(subgradient)
        return result

    def _growth(self, step: Tensor) -> float:
        """How much the sum of absolute coefficients grows by a step."""
        before, after = self.goal.penalized(self.theta), self.goal.penalized(self.theta + step)
        return float((after.abs() - before.abs()).sum())

    def _curvature(self, batch: Batch, chosen: Tensor) -> Stats:
        X, y, weight = batch
        if y is None:
            raise ValueError("a classifier's batch needs labels")
        P = respond(self.theta, X, y).P
        kept = X if len(chosen) == self._width else X[:, chosen.to(X.device)]
        return Stats(total_weight(batch), {"hessian": second_order(P, with_ones(kept, self.goal.intercept), weight)})


def _solve_model(H: Tensor, gradient: Tensor, w: Tensor, free: Tensor, l1: float, tol: float) -> Tensor:
    """The change of ``w`` (m,) that minimizes the model.

    Entries that are free of the penalty are eliminated, which leaves coordinate descent a problem that the
    offsets of the features do not touch. free: (m,) which they are.
    """
    bound = ~free
    inverse = torch.linalg.pinv(H[free][:, free], hermitian=True)
    cross = H[bound][:, free]
    reduced = H[bound][:, bound] - cross @ inverse @ cross.T
    slope = gradient[bound] - cross @ (inverse @ gradient[free])
    l1s = torch.full_like(slope, l1)
    found, _ = descend(reduced.numpy(), slope.numpy(), w[bound].numpy(), l1s.numpy(), tol)
    change = torch.zeros_like(w)
    change[bound] = torch.from_numpy(found) - w[bound]
    change[free] = -inverse @ (gradient[free] + cross.T @ change[bound])
    return change
