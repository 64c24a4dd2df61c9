"""Proximal Newton for logistic regression with an L1 or elastic-net penalty."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
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

    exact: ClassVar[bool] = True

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
        change = _solve_model(
            hessian,
            self.gradient[:, columns].reshape(-1),
            self.theta[:, columns].reshape(-1),
            free.reshape(-1),
            l1,
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
        subgradient = violations(self.goal.penalized(self.gradient), self.goal.penalized(self.theta), l1)
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


def violations(gradient: Tensor, w: Tensor, l1: float) -> Tensor:
    """How far each entry is from optimal: the distance of minus the gradient from l1 times the signs of w."""
    return torch.where(w == 0, (gradient.abs() - l1).clamp_min(0.0), (gradient + l1 * w.sign()).abs())


def _solve_model(H: Tensor, gradient: Tensor, w: Tensor, free: Tensor, l1: float) -> Tensor:
    """The change of ``w`` (m,) that minimizes the model.

    Entries that are free of the penalty are eliminated, which leaves coordinate descent a problem that the
    offsets of the features do not touch. free: (m,) which they are.
    """
    bound = ~free
    inverse = torch.linalg.pinv(H[free][:, free], hermitian=True)
    cross = H[bound][:, free]
    reduced = H[bound][:, bound] - cross @ inverse @ cross.T
    slope = gradient[bound] - cross @ (inverse @ gradient[free])
    if not len(slope):
        return torch.mv(-inverse, gradient)
    # the closer the descent is to its end, the smaller a part of what is left to gain may be missed
    gain = float((violations(slope, w[bound], l1) ** 2 / reduced.diagonal().clamp_min(1e-300)).max())
    tol = max(1e-3 * gain * min(gain, 1e-3), 1e-28)
    found, _ = descend(reduced.numpy(), slope.numpy(), w[bound].numpy(), np.full(len(slope), l1), tol)
    change = torch.zeros_like(w)
    change[bound] = torch.from_numpy(found) - w[bound]
    change[free] = -inverse @ (gradient[free] + cross.T @ change[bound])
    return change
