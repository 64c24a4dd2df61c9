"""What the solvers of logistic regression share: judge the last trial, then propose the next.

Every solver reads the data in summed passes. A pass measures objective and gradient at a trial point; the
update accepts the trial or shortens the step, and in the first case chooses a new direction. So an accepted
step costs one pass, not one for the line search and another for the gradient.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from benthic.data.batch import Batch
from benthic.linear.scores import first_order
from benthic.optim.linesearch import Search
from benthic.training.learner import Again, Info, Learner, Stats, clone, total_weight

_PATIENCE = 5  # vain attempts on flat ground before the descent is over
_FLAT = 1e3
_STATE = tuple("theta point direction gradient value residual least stalls iterations converged".split())


@dataclass(frozen=True)
class Goal:
    r"""What is minimized, divided by the total weight so that tolerances mean the same for every n.

    .. math:: \frac{1}{\sum_i w_i} \Big( \sum_i w_i \ell_i
              + \frac{1}{C} \big( \rho \|W\|_1 + \tfrac{1 - \rho}{2} \|W\|_2^2 \big) \Big)

    C: inverse strength of the penalty. l1_ratio: ρ. intercept: whether the last column of the parameters is a
    free intercept. tol: largest entry of the (sub)gradient at the end. max_iter: most steps.
    precision: relative rounding error of the data's type.
    """

    C: float = 1.0
    l1_ratio: float = 0.0
    intercept: bool = True
    tol: float = 1e-4
    max_iter: int = 100
    precision: float = torch.finfo(torch.float64).eps

    def l1(self, weight: float) -> float:
        """Strength of the L1 part for data of this total weight."""
        return self.l1_ratio / (self.C * weight)

    def l2(self, weight: float) -> float:
        """Strength of the L2 part for data of this total weight."""
        return (1.0 - self.l1_ratio) / (self.C * weight)

    def penalized(self, theta: Tensor) -> Tensor:
        """A view of the parameters that are penalized: all but the intercepts."""
        return theta[:, :-1] if self.intercept else theta

    def canonical(self, theta: Tensor) -> Tensor:
        """The parameters among all that give the same probabilities and no larger penalty: centered over classes.

        An L1 penalty allows that for the free intercepts only.
        """
        if len(theta) == 1:
            return theta
        if self.l1_ratio == 0.0:
            return theta - theta.mean(0)
        if not self.intercept:
            return theta
        return torch.cat([theta[:, :-1], theta[:, -1:] - theta[:, -1].mean()], 1)


class Descent(Learner):
    """Base of the solvers; a subclass gives a direction of descent in ``propose``.

    start: (r, d + 1) parameters to begin at. They live on the CPU in float64; only sums over rows are
    taken where the data lie.
    """

    scope = "pass"
    final_step: ClassVar[bool] = False  # whether a converged direction is worth taking unseen

    def __init__(self, start: Tensor, goal: Goal) -> None:
        self.goal = goal
        self.theta = goal.canonical(start.double())
        self.point = self.theta
        self.direction = torch.zeros_like(self.theta)
        self.gradient = torch.zeros_like(self.theta)
        self.value = 0.0
        self.residual = 0.0
        self.search: Search | None = None
        self.least = math.inf  # the smallest residual so far
        self.stalls = 0  # steps without a smaller one, once the objective is flat to rounding
        self.iterations = 0
        self.converged = False

    # -- what a solver adds ------------------------------------------------------------------------------

    @abstractmethod
    def propose(self, stats: Stats, again: Again) -> tuple[Tensor, float]:
        """A direction from ``theta``, where ``gradient`` holds, and the slope of the objective along it."""

    def sums(self, batch: Batch) -> dict[str, Tensor]:
        """Sums over a block at ``point``; at least loss and gradient."""
        return first_order(self.point, batch)[0]

    def accept(self, stats: Stats, gradient: Tensor) -> None:
        """The trial at ``point`` was good: learn from it before ``theta`` moves there."""

    def violation(self, weight: float) -> float:
        """How far the gradient is from what a minimum needs: its largest entry."""
        return float(self.gradient.abs().max())

    # -- the protocol of the loop --------------------------------------------------------------------------

    def statistics(self, batch: Batch, phase: str, scale: float) -> Stats:
        """Sums over a block at the trial point."""
        return Stats(total_weight(batch), self.sums(batch))

    def update(self, stats: Stats, phase: str, again: Again) -> Info:
        """Accept the trial and propose the next, or come closer on the same ray."""
        value, gradient = self._measure(stats)
        if self.search is not None and not self.search.accepts(value):
            return self._shorten(self.search.shorter(value))
        self.accept(stats, gradient)
        self.theta, self.value, self.gradient = self.point, value, gradient
        self.direction, slope = self.propose(stats, again)
        self.residual = self.violation(stats.weight)
        return self._advance(slope)

    def _measure(self, stats: Stats) -> tuple[float, Tensor]:
        """Objective and gradient of its smooth part at the trial point."""
        l1, l2 = self.goal.l1(stats.weight), self.goal.l2(stats.weight)
        weights = self.goal.penalized(self.point)
        value = float(stats["loss"]) / stats.weight + 0.5 * l2 * float((weights**2).sum())
        if l1:
            value += l1 * float(weights.abs().sum())
        gradient = stats["gradient"].cpu() / stats.weight
        self.goal.penalized(gradient).add_(weights, alpha=l2)
        return value, gradient

    def _advance(self, slope: float) -> Info:
        """Stop at the minimum or at the last iteration; else set out along the direction."""
        gain = -0.5 * slope  # what a quadratic model expects
        self.stalls = self.stalls + 1 if self._flat(slope) and self.residual >= self.least else 0
        self.least = min(self.least, self.residual)
        reached = self.residual <= self.goal.tol and gain <= self.goal.tol**2
        self.converged = reached or gain <= 0.0 or self.stalls >= _PATIENCE
        if self.converged or self.iterations >= self.goal.max_iter:
            if self.converged and self.final_step:
                self.theta = self.goal.canonical(self.theta + self.direction)
            return self._report(done=True)
        self.iterations += 1
        self.search = Search(self.value, slope, noise=10 * self.goal.precision * abs(self.value))
        self.point = self.theta + self.direction
        return self._report()

    def _shorten(self, search: Search) -> Info:
        """Try closer; give up when steps vanish, or where rounding hides what is left to gain."""
        self.search = search
        self.stalls += int(self._flat(search.slope))
        if search.exhausted or self.stalls >= _PATIENCE:
            self.converged = self.stalls >= _PATIENCE or self.residual <= self.goal.tol
            return self._report(done=True)
        self.point = self.theta + search.step * self.direction
        return self._report()

    def _flat(self, slope: float) -> bool:
        """Whether all that is left to gain is near the rounding error of the objective."""
        return -slope <= _FLAT * self.goal.precision * abs(self.value)

    def _report(self, done: bool = False) -> Info:
        step = self.search.step if self.search is not None else 0.0
        return Info(self.value, done, {"gradient": self.residual, "step_length": step})

    # -- checkpoints ---------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Where the descent stands."""
        state = {name: getattr(self, name) for name in _STATE}
        return {**state, "search": None if self.search is None else asdict(self.search)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        for name, value in clone(dict(state)).items():
            setattr(self, name, value)
        self.search = None if state["search"] is None else Search(**state["search"])
