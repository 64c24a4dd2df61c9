"""Which columns a model leans on: shuffle one and see how much worse its answers get."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benthic.base.errors import InvalidInput
from benthic.base.frames import frame_kind, frame_names
from benthic.base.seeds import np_generator, seed_of
from benthic.base.settings import whole
from benthic.pictures.canvas import new_figure

_MANY = 30  # bars that fit below each other


@dataclass(frozen=True)
class Importances:
    """What shuffling each column costs.

    mean, stderr: (p,) drop of the score and its standard error over the shuffles. drops: (p, repeats). baseline: the
    score of the data as they are. names: the columns.
    """

    mean: np.ndarray
    stderr: np.ndarray
    drops: np.ndarray
    baseline: float
    names: tuple[str, ...]

    def plot(self, ax: Any = None) -> Any:
        """Bars with their errors, the largest on top."""
        return draw_importances(self.mean, self.stderr, self.names, "drop of the score when shuffled", ax)

    def __str__(self) -> str:
        width = max(map(len, self.names))
        order = np.argsort(-self.mean)
        return "\n".join(f"{self.names[j]:{width}}  {self.mean[j]:+.4f} ± {self.stderr[j]:.4f}" for j in order)


def permutation_importance(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    n_repeats: int = 5,
    scoring: Callable[[Any, Any, Any], float] | None = None,
    seed: Any = None,
) -> Importances:
    """How much the score of a fitted model drops when the values of one column change places at random.

    Any model with ``score(X, y)`` will do. On rows that were not learned from, a column whose drop is within its
    error of zero does not help the model; columns that say the same share what they are worth.
    Breiman, 2001; Fisher, Rudin & Dominici, 2019.

    X: (n, d) array, tensor or frame. y: (n,) targets or None. n_repeats: shuffles of each column. scoring:
    ``scoring(model, X, y)``, larger is better; None for ``model.score``. seed: decides the shuffles.

    >>> from sklearn.linear_model import LinearRegression
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> found = permutation_importance(LinearRegression().fit(X, X[:, 0]), X, X[:, 0], seed=0)
    >>> found.names, bool(found.mean[0] > 1.5), round(abs(float(found.mean[1])), 6)
    (('x0', 'x1'), True, 0.0)
    """
    whole("permutation_importance: n_repeats", n_repeats)
    names, shuffled = _columns(X)
    judge = scoring if scoring is not None else _own_score
    baseline, root = float(judge(model, X, y)), seed_of(seed)
    drops = np.empty((len(names), n_repeats))
    for j in range(len(names)):
        for repeat in range(n_repeats):
            order = np_generator(root, "shuffle", j, repeat).permutation(len(X))
            drops[j, repeat] = baseline - float(judge(model, shuffled(j, order), y))
    stderr = drops.std(1, ddof=1) / np.sqrt(n_repeats) if n_repeats > 1 else np.full(len(names), np.nan)
    return Importances(drops.mean(1), stderr, drops, baseline, names)


def _own_score(model: Any, X: Any, y: Any) -> float:
    if not hasattr(model, "score"):
        raise InvalidInput(f"permutation_importance: {type(model).__name__} has no score; pass scoring(model, X, y)")
    return model.score(X) if y is None else model.score(X, y)


def _columns(X: Any) -> tuple[tuple[str, ...], Callable[[int, np.ndarray], Any]]:
    """Names of the columns, and a function that gives the rows with one column in another order."""
    kind = frame_kind(X)
    if kind is not None:
        labels = frame_names(X)
        return tuple(map(str, labels)), lambda j, order: _shuffled_frame(X, kind, labels[j], j, order)
    rows = X if hasattr(X, "ndim") else np.asarray(X)
    if rows.ndim != 2:
        raise InvalidInput(f"permutation_importance: X has {rows.ndim} dimensions; it must be a table (n, d)")

    def shuffled(j: int, order: np.ndarray) -> Any:
        out = rows.clone() if hasattr(rows, "clone") else rows.copy()
        out[:, j] = rows[order, j]
        return out

    return tuple(f"x{j}" for j in range(rows.shape[1])), shuffled


def _shuffled_frame(X: Any, kind: str, label: Any, j: int, order: np.ndarray) -> Any:
    if kind == "pandas":
        out = X.copy()
        out[label] = X[label].iloc[order].set_axis(X.index)
        return out
    if kind == "polars":
        return X.with_columns(X[label].gather(order).alias(label))
    return X.set_column(j, label, X.column(label).take(order))


def draw_importances(
    values: np.ndarray, errors: np.ndarray, names: Sequence[str], label: str = "importance", ax: Any = None
) -> Any:
    """Bars of importances (p,) with their errors (p,), the largest on top. Returns the figure."""
    order = np.argsort(values)[-_MANY:]
    if ax is None:
        _, ax = new_figure(6.4, max(1.8, 0.9 + 0.24 * len(order)))
    ax.barh(np.arange(len(order)), values[order], xerr=np.nan_to_num(errors[order]), color="#3b6fb5", ecolor="0.4")
    ax.set_yticks(np.arange(len(order)), [names[j] for j in order])
    ax.axvline(0.0, color="0.3", linewidth=0.8)
    ax.set_xlabel(label)
    if len(order) < len(values):
        ax.set_title(f"{len(order)} of {len(values)} columns", fontsize="medium")
    return ax.figure
