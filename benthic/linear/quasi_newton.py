"""L-BFGS for logistic regression with an L2 penalty, preconditioned by what one look at the data tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from benthic.data.batch import Batch
from benthic.linear.descent import Descent, Goal
from benthic.linear.kronecker import Kronecker, Moments, kronecker, moment_sums, moments_of
from benthic.linear.scores import first_order, spread
from benthic.optim.lbfgs import Inverse, Memory
from benthic.training.learner import Again, Stats, clone


class QuasiNewton(Descent):
    """L-BFGS whose first guess of the Hessian is a Kronecker product of classes and features.

    memory: steps remembered.
    """

    def __init__(self, start: Tensor, goal: Goal, memory: int = 10) -> None:
        super().__init__(start, goal)
        self.memory = Memory(memory)
        self.moments: Moments | None = None
        self.curvature = torch.zeros(len(start), len(start), dtype=torch.float64)
        self._guess: Kronecker | None = None

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
            classes = len(self.theta)
            self.moments = moments_of(again(lambda batch: moment_sums(batch, classes)), self.goal.intercept)
        if self.iterations.bit_count() <= 1:  # at 0, 1, 2, 4, 8, ...: probabilities settle quickly
            self.curvature, self._guess = stats["spread"].cpu() / stats.weight, None
        if self._guess is None:
            self._guess = kronecker(self.moments, self.curvature, self.goal.l2(stats.weight))
        solve: Inverse = self._guess.solve
        if self.moments.covariance.ndim == 1:  # single columns tell little of the size of the curvature
            solve = self.memory.scaled(solve)
        step = self.goal.canonical(-self.memory.inverse(self.gradient, solve))
        return step, float((self.gradient * step).sum())

    def state_dict(self) -> dict[str, Any]:
        """Where the descent stands, with its memory and what the preconditioner is made from."""
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
        self.curvature = clone(state["curvature"])
        self._guess = None
