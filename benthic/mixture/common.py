"""What mixtures share: enough rows, several starts one after another, and the choice of a component."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.training.intake import Intake


def check_rows(intake: Intake, n_components: int, least: int = 1) -> None:
    """Refuse fewer rows (of positive weight) than components, or than ``least``."""
    weight = intake.data.weight if intake.data is not None else None
    rows = intake.rows if weight is None else int((weight > 0).sum())
    if rows < max(least, n_components):
        raise InvalidInput(
            f"Expected n_samples >= n_components (and >= {least}) but got n_components = {n_components}, "
            f"n_samples = {rows}; use fewer components or more rows"
        )


_TIE = 1e-9  # relative difference of two objectives that may be rounding


@dataclass
class Restarts:
    """EM from several starts, one after another: when each ends, and which was best.

    total: how many. tol: a start has converged when the objective changes by less. max_iter: steps of a start.
    """

    total: int
    tol: float
    max_iter: int
    number: int = 0
    iteration: int = 0
    objective: float = -math.inf
    converged: bool = False
    best: dict[str, Any] = field(default_factory=dict)

    def ends(self, objective: float) -> bool:
        """Take note of the objective before one more step; whether that step is the last of this start."""
        self.iteration += 1
        self.converged = abs(objective - self.objective) < self.tol
        self.objective = objective
        return self.converged or self.iteration >= self.max_iter

    def keep(self, found: Mapping[str, Any]) -> None:
        """Remember what this start has found if it is the best so far; of equally good ones the first stays.

        Starts often end in the same place with the components in another order; rounding must not choose.
        """
        if not self.best or self.objective > self.best["objective"] + _TIE * abs(self.best["objective"]):
            self.best = {
                **found,
                "objective": self.objective,
                "iterations": self.iteration,
                "converged": self.converged,
                "restart": self.number,
            }

    def advance(self) -> bool:
        """Go on to the next start; False when there is none."""
        self.number, self.iteration, self.objective = self.number + 1, 0, -math.inf
        return self.number < self.total

    @property
    def done(self) -> bool:
        """Whether every start has ended."""
        return self.number >= self.total

    @property
    def under_way(self) -> bool:
        """Whether a start has begun and not ended."""
        return not self.done and self.iteration > 0

    def state(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {**asdict(self), "best": dict(self.best)}

    def load(self, state: Mapping[str, Any]) -> None:
        """The inverse of ``state``."""
        for name in ("number", "iteration", "objective", "converged"):
            setattr(self, name, state[name])
        self.best = dict(state["best"])


def choose(probabilities: Tensor, generator: torch.Generator) -> Tensor:
    """One index a row, drawn by its probabilities (n, k); the generator is on the CPU."""
    level = torch.rand(len(probabilities), 1, generator=generator, dtype=torch.float64)
    passed = torch.cumsum(probabilities, 1) < level.to(probabilities.device)
    return passed.sum(1).clamp_(max=probabilities.shape[1] - 1)


def column_names(estimator: Any, width: int) -> list[str]:
    """What the encoded columns of a fitted estimator are called; their numbers if they have no names."""
    schema = getattr(estimator, "schema_", None)
    names = schema.encoded_names if schema is not None else getattr(estimator, "feature_names_in_", None)
    return [str(name) for name in (range(width) if names is None else names)]
