"""The rounds of boosting: respond, grow a tree a column, step, look at the held-out rows, perhaps stop."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benthic.base.errors import InvalidInput
from benthic.base.progress import Bar
from benthic.base.seeds import derive, np_generator
from benthic.base.threads import Crew
from benthic.trees.binning import Bins
from benthic.trees.boosting_objective import Objective, Response
from benthic.trees.histogram_grower import GrownTree, GrowthRules, HistogramGrower
from benthic.trees.histogram_predict import add_up, join, take, tree_arrays
from benthic.trees.losses import move


@dataclass(frozen=True)
class Held:
    """Rows held out to decide when to stop. X: (m, p) as trees read them. y: (m,). weight: (m,) or (1,)."""

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray


@dataclass(frozen=True)
class RoundRules:
    """How boosting goes on and when it stops. patience: None never stops early."""

    learning_rate: float = 0.1
    max_iter: int = 100
    subsample: float = 1.0
    patience: int | None = None
    tol: float = 1e-7


@dataclass
class Rounds:
    """Boosting on one binned table; ``run`` returns all trees, columns in turn.

    grower: grows a tree on its rows. bins: of the values of their columns. raw: (K, n) scores reached, changed in
    place; held_raw: those of the held-out rows, (m, K). history: one dict a round, its loss measured after that many
    rounds.
    """

    grower: HistogramGrower
    bins: Bins
    growth: GrowthRules
    rules: RoundRules
    objective: Objective
    raw: np.ndarray
    crew: Crew
    seed: int
    held: Held | None = None
    held_raw: np.ndarray | None = None
    history: list[dict[str, Any]] = field(default_factory=list)

    def run(self, kept: dict[str, np.ndarray] | None, bar: Bar) -> dict[str, np.ndarray] | None:
        """Grow trees until the rules say stop; ``kept`` come first. None when there is none."""
        K = self.objective.columns
        parts = [] if kept is None else [kept]
        done = 0 if kept is None else (len(kept["start"]) - 1) // K
        answer = self.objective.respond(self.raw)
        if not self.history:
            self._note(0, answer)
        for step in range(done, self.rules.max_iter):
            parts.append(self._round(answer, step))
            answer = self.objective.respond(self.raw)
            self._note(step + 1, answer)
            bar.tick(note=f"loss {self.history[-1]['loss']:.5g}")
            if self._should_stop():
                break
        return self._best(join(parts)) if parts else None

    def _round(self, answer: Response, step: int) -> dict[str, np.ndarray]:
        """One tree a column; scores move."""
        chosen, rest = self._sample(step)
        parts = []
        for k in range(self.objective.columns):
            bend = answer.curvature[0 if self.objective.flat else k]
            seed = derive(self.seed, "columns", step, k) % 2**31 if self.growth.max_features else 0
            turn = step * self.objective.columns + k
            tree = self.grower.grow(answer.gradient[k], bend, answer.sizes[k], chosen, seed, turn)
            leaves = tree.leaves
            values = self.objective.values(self.raw, k, answer, tree, self.growth.l2)
            values = np.clip(values, tree.low[leaves], tree.high[leaves]) * self.rules.learning_rate
            if not np.isfinite(values).all():
                raise InvalidInput(f"the loss gave a leaf of round {step} no finite step; lower learning_rate")
            move(tree.rows, tree.start[leaves], tree.stop[leaves], values, self.raw[k])
            parts.append(self._arrays(tree, leaves, values))
            if rest is not None:
                self.raw[k, rest] += parts[-1]["value"][self.grower.place(rest), 0]
        trees = join(parts)
        if self.held is not None and self.held_raw is not None:
            add_up(trees, self.held.X, self.held_raw, self.crew)
        return trees

    def _arrays(self, tree: GrownTree, leaves: np.ndarray, values: np.ndarray) -> dict[str, np.ndarray]:
        value = np.zeros((len(tree.left), 1))
        value[leaves, 0] = values
        return tree_arrays(
            self.bins,
            feature=tree.feature,
            place=tree.bin,
            left=tree.left,
            missing_left=tree.missing_left,
            named=tree.named,
            subsets=tree.subset,
            value=value,
            gain=tree.gain,
            rows=tree.stop - tree.start,
        )

    def _sample(self, step: int) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Sorted rows that a round learns from, and the rest; None, None for all."""
        n = self.raw.shape[1]
        count = max(int(self.rules.subsample * n), 1)
        if count >= n:
            return None, None
        order = np_generator(self.seed, "rows", step).permutation(n)
        return np.sort(order[:count]).astype(np.uint32), np.sort(order[count:]).astype(np.uint32)

    def _note(self, step: int, answer: Response) -> None:
        entry: dict[str, Any] = {"epoch": step, "loss": answer.loss}
        if self.held is not None and self.held_raw is not None:
            entry["val_loss"] = self.objective.loss(
                np.ascontiguousarray(self.held_raw.T), self.held.y, self.held.weight
            )
        self.history.append(entry)

    def _should_stop(self) -> bool:
        """Whether the last rounds brought no better loss than was had before them."""
        patience = self.rules.patience
        if patience is None or len(self.history) <= patience + 1:
            return False
        key = "loss" if self.held is None else "val_loss"
        losses = [entry[key] for entry in self.history]
        return min(losses[-patience:]) > min(losses[:-patience]) - self.rules.tol

    def _best(self, trees: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The trees up to the round with the least held-out loss."""
        if self.held is None or self.rules.patience is None:
            return trees
        best = int(np.argmin([entry["val_loss"] for entry in self.history]))
        return take(trees, max(best, 1) * self.objective.columns)
