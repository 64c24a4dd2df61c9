"""Weight, mean and scatter of a table: sums from which linear regression is solved without its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from benthic.data.batch import Batch
from benthic.training.learner import Again, Info, Learner, Stats, total_weight

_SMALL = 1e-12  # relative correction from which another pass over the rows would change nothing
_REFINEMENTS = 3


@dataclass(frozen=True)
class Moments:
    r"""Total weight, means and centered scatter of features and targets together.

    .. math:: W = \sum_i w_i, \qquad m = \tfrac1W \sum_i w_i z_i, \qquad S = \sum_i w_i (z_i - m)(z_i - m)^T

    weight: W. mean: (d + k,). scatter: (d + k, d + k); the last k columns belong to targets.

    >>> rows = torch.tensor([[0.0, 1.0], [2.0, 5.0]], dtype=torch.float64)
    >>> Moments.of(rows[:1]).merge(Moments.of(rows[1:])).scatter
    tensor([[2., 4.],
            [4., 8.]], dtype=torch.float64)
    """

    weight: float
    mean: Tensor
    scatter: Tensor

    @classmethod
    def of(cls, rows: Tensor, weight: Tensor | None = None) -> Moments:
        """The moments of rows (n, d + k)."""
        total = float(len(rows)) if weight is None else float(weight.double().sum())
        mean = _sum(rows.double(), weight) / total
        return cls(total, mean, _scatter(rows.double() - mean, weight))

    def merge(self, other: Moments) -> Moments:
        """The moments of both parts together (Chan, Golub & LeVeque, 1979)."""
        total = self.weight + other.weight
        gap = other.mean.to(self.mean) - self.mean
        scatter = self.scatter + other.scatter.to(self.scatter)
        scatter = scatter + torch.outer(gap, gap) * (self.weight * other.weight / total)
        return Moments(total, self.mean + gap * (other.weight / total), scatter)

    def about_zero(self) -> Moments:
        """The same about the origin, for models without an intercept."""
        scatter = self.scatter + self.weight * torch.outer(self.mean, self.mean)
        return Moments(self.weight, torch.zeros_like(self.mean), scatter)

    def split(self, features: int) -> tuple[Tensor, Tensor, Tensor]:
        """XᵀX (d, d), XᵀY (d, k) and the squared lengths of the targets (k,)."""
        d = features
        return self.scatter[:d, :d], self.scatter[:d, d:], self.scatter.diagonal()[d:]

    def to_tree(self) -> dict[str, Any]:
        """Plain values from which ``from_tree`` rebuilds it."""
        return {"weight": self.weight, "mean": self.mean.cpu().numpy(), "scatter": self.scatter.cpu().numpy()}

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> Moments:
        """The moments that ``to_tree`` described."""
        return cls(float(tree["weight"]), torch.as_tensor(tree["mean"]), torch.as_tensor(tree["scatter"]))


def _sum(rows: Tensor, weight: Tensor | None) -> Tensor:
    return rows.sum(0) if weight is None else weight.double() @ rows


def _scatter(centered: Tensor, weight: Tensor | None) -> Tensor:
    heavy = centered if weight is None else centered * weight.double()[:, None]
    return heavy.T @ centered


def joined(batch: Batch) -> Tensor:
    """Features and targets, if there are any, side by side, (n, d + k), float64."""
    X, y, _ = batch
    if y is None:
        return X.double()
    return torch.cat([X.double(), (y if y.ndim == 2 else y[:, None]).to(X.device).double()], 1)


Answer = Callable[[Moments], tuple[Tensor, Callable[[Tensor], Tensor]]]


class Summing(Learner):
    """Moments in two passes over data that stream or are shared: means first, then the scatter about them.

    answer: from moments to coefficients (d, k) and a function that solves for another right side; if given,
    further passes correct the coefficients by the residuals of the rows themselves (Björck, 1987), which leaves
    the accuracy of an orthogonal factorization. centered: whether the coefficients belong to centered rows. alpha:
    (k,) the ridge penalty of each target.
    """

    scope: ClassVar[Literal["batch", "pass"]] = "pass"

    def __init__(
        self, features: int, answer: Answer | None = None, alpha: Tensor | None = None, *, centered: bool = True
    ) -> None:
        self._centered = centered
        self.phases = ("look", "sum") if answer is None else ("look", "sum", *["refine"] * _REFINEMENTS)
        self._features, self._answer, self._alpha = features, answer, alpha
        self.moments = Moments(0.0, torch.zeros(0), torch.zeros(0, 0))
        self.coef = torch.zeros(0, 0)
        self.squares = torch.zeros(0)
        self._again: Callable[[Tensor], Tensor] | None = None

    def statistics(self, batch: Batch, phase: str, scale: float) -> Stats:
        """Sums over one block, in float64."""
        rows, weight = joined(batch), batch.weight
        if phase == "look":
            return Stats(total_weight(batch), {"total": _sum(rows, weight)})
        centered = rows - self.moments.mean.to(rows)
        if phase == "sum":
            return Stats(total_weight(batch), {"scatter": _scatter(centered, weight)})
        centered = centered if self._centered else rows
        A, Y = centered[:, : self._features], centered[:, self._features :]
        residual = Y - A @ self.coef.to(A)
        heavy = residual if weight is None else residual * weight.double()[:, None]
        return Stats(total_weight(batch), {"slope": A.T @ heavy, "squares": (heavy * residual).sum(0)})

    def update(self, stats: Stats, phase: str, again: Again) -> Info:
        """Keep the sums; solve when they are complete."""
        if phase == "look":
            mean = stats["total"] / stats.weight
            self.moments = Moments(stats.weight, mean, torch.zeros(len(mean), len(mean)))
            return Info(0.0)
        if phase == "sum":
            self.moments = Moments(stats.weight, self.moments.mean, stats["scatter"])
            if self._answer is None:
                return Info(0.0, done=True)
            self.coef, self._again = self._answer(self.moments)
            return Info(0.0)
        return self._refine(stats)

    def _refine(self, stats: Stats) -> Info:
        self.squares = stats["squares"]
        if self._again is None:
            raise RuntimeError("the coefficients are refined before they are solved for")
        slope = stats["slope"] - (0.0 if self._alpha is None else self._alpha.to(self.coef) * self.coef)
        change = self._again(slope)
        self.coef = self.coef + change
        small = bool((change.norm() <= _SMALL * self.coef.norm()).item())
        return Info(float(self.squares.sum()), done=small, weight=stats.weight)

    def state_dict(self) -> dict[str, Any]:
        """The sums so far."""
        return {"moments": self.moments.to_tree(), "coef": self.coef, "squares": self.squares}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        self.moments = Moments.from_tree(state["moments"])
        self.coef, self.squares = state["coef"], state["squares"]
        if self._answer is not None and self.coef.numel():
            self._again = self._answer(self.moments)[1]
