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
_TENSORS = ("theta", "point", "direction", "gradient")
_NUMBERS = ("value", "residual", "least", "stalls", "iterations", "converged")


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
        """Of all parameters that give the same probabilities, those of least penalty; intercepts are centered.

        Adding a number to one column of all classes changes no probability. The L2 penalty is least at mean zero;
        the L1 penalty at median zero, and where that leaves an interval, at the end nearer the mean.
        """
        if len(theta) == 1:
            return theta
        shift = theta.mean(0)
        weights = self.penalized(theta)
        if self.l1_ratio == 1.0:
            ordered, half = weights.sort(0).values, len(theta) // 2
            low, high = ordered[(len(theta) - 1) // 2], ordered[half]
            near = torch.where((weights.mean(0) - low).abs() <= (weights.mean(0) - high).abs(), low, high)
            shift[: weights.shape[1]] = near
        elif self.l1_ratio > 0.0:
            shift[: weights.shape[1]] = 0.0
        return theta - shift


class Descent(Learner):
    """Base of the solvers; a subclass gives a direction of descent in ``propose``.

    start: (r, d + 1) parameters to begin at. They live on the CPU in float64; only sums over rows are
    taken where the data lie.
    """

    scope = "pass"
    exact: ClassVar[bool] = False  # whether directions solve a model with the true Hessian

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
        if self.search is not None and not self.search.accepts(value, self._slope(gradient)):
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
        reached = self.residual <= self.goal.tol and gain <= self._enough()
        self.converged = reached or self.stalls >= _PATIENCE
        if self.converged or gain <= 0.0 or self.iterations >= self.goal.max_iter:
            if reached and self.exact:  # so close, the last step needs no look
                self.theta = self.goal.canonical(self.theta + self.direction)
            return self._report(done=True)
        self.iterations += 1
        self.search = Search(self.value, slope, noise=self._noise())
        self.point = self.theta + self.direction
        return self._report()

    def _enough(self) -> float:
        """What may be left to gain at the end: tol², and much less where each step squares the distance."""
        return max((1e-3 * self.goal.tol) ** 2, self._rounding()) if self.exact else self.goal.tol**2

    def _shorten(self, search: Search) -> Info:
        """Try closer; give up when steps vanish, or where rounding hides what is left to gain."""
        self.search = search
        self.stalls += int(self._flat(search.slope))
        if search.exhausted or self.stalls >= _PATIENCE:
            self.converged = self.stalls >= _PATIENCE or self.residual <= self.goal.tol
            return self._report(done=True)
        self.point = self.theta + search.step * self.direction
        return self._report()

    def _slope(self, gradient: Tensor) -> float | None:
        """Slope of the objective at the trial along the ray; a penalty with corners has none."""
        return None if self.goal.l1_ratio else float((gradient * self.direction).sum())

    def _noise(self) -> float:
        """How far values may differ by rounding; generous where the slope has the last word."""
        return 10 * self._rounding() if self.goal.l1_ratio else 0.01 * self.goal.precision**0.5 * abs(self.value)

    def _rounding(self) -> float:
        return self.goal.precision * abs(self.value)

    def _flat(self, slope: float) -> bool:
        """Whether all that is left to gain is near the rounding error of the objective."""
        return -slope <= _FLAT * self._rounding()

    def _report(self, done: bool = False) -> Info:
        step = self.search.step if self.search is not None else 0.0
        return Info(self.value, done, {"gradient": self.residual, "step_length": step})

    # -- checkpoints ---------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Where the descent stands."""
        state = {name: getattr(self, name) for name in (*_TENSORS, *_NUMBERS)}
        return {**state, "search": None if self.search is None else asdict(self.search)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        for name in (*_TENSORS, *_NUMBERS):
            setattr(self, name, clone(state[name]))
        self.search = None if state["search"] is None else Search(**state["search"])
