"""The rules of a fair comparison: which rows fit and which judge, how often, and under which budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from benthic.base.errors import InvalidInput
from benthic.base.seeds import np_generator
from benthic.base.settings import is_whole
from benthic.leaderboard.contest.contestants import takes_gaps
from benthic.leaderboard.contest.gaps import filled
from benthic.leaderboard.contest.material import Material
from benthic.leaderboard.contest.records import Budget

_HALF = 2000  # judged rows at most, of each half
_LEARNED = 5000  # rows at most for the feature space
_LEAST = 10
LEAST_WHOLE = 80  # rows without gaps, from which on only such judge
_LEAST_SECONDS = 0.1
_LEAST_BATCH = 32


@dataclass(frozen=True, eq=False)
class Parts:
    """Row numbers of the disjoint parts of the data.

    fit: what models learn from. features: what the feature space learns from. first: what samples are judged against.
    second: real rows that are judged like samples, which is the floor; as many as first.
    """

    fit: np.ndarray
    features: np.ndarray
    first: np.ndarray
    second: np.ndarray


@dataclass(frozen=True, eq=False)
class Split:
    """The same parts as rows (n, width), with their labels where there are any.

    fit may hold missing values; filled: the same without, None where there are none.
    """

    fit: np.ndarray
    features: np.ndarray
    first: np.ndarray
    second: np.ndarray
    fit_y: np.ndarray | None = None
    features_y: np.ndarray | None = None
    filled: np.ndarray | None = None

    @property
    def n(self) -> int:
        """Rows of each half, and of every sample."""
        return len(self.first)

    @property
    def whole(self) -> np.ndarray:
        """The rows to fit, without gaps."""
        return self.fit if self.filled is None else self.filled

    def fit_for(self, model: Any) -> np.ndarray:
        """The rows that a model is fitted on: with gaps only if it takes them."""
        return self.fit if takes_gaps(model) else self.whole


def deal(n: int, fraction: float = 0.3, seed: int = 0, whole: np.ndarray | None = None) -> Parts:
    """Disjoint parts of n rows.

    fraction: share of the rows to judge with, in two equal halves of at most 2000 rows. A tenth of the rows, at most
    5000, is for the feature space; models learn from the rest. whole: (n,) which rows have no gaps; where there are
    enough of them, only such rows judge, and at least three in eight of them are left to fit.

    >>> parts = deal(1000)
    >>> len(parts.fit), len(parts.features), len(parts.first), len(parts.second)
    (600, 100, 150, 150)
    """
    if not 0 < fraction <= 0.8:
        raise InvalidInput(
            f"compare: fraction is {fraction!r}; the share of rows to judge with lies above 0 and up to 0.8"
        )
    half = min(_HALF, max(_LEAST, round(n * fraction / 2)))
    learned = min(_LEARNED, max(_LEAST, n // 10))
    order = np_generator(seed, "compare").permutation(n)
    if whole is not None and not whole.all() and whole.sum() >= LEAST_WHOLE:
        count = int(whole.sum())
        half, learned = min(half, count // 4), min(learned, count // 8)
        order = np.concatenate([order[whole[order]], order[~whole[order]]])
    ends = np.cumsum([half, half, learned])
    first, second, features, fit = (np.sort(part) for part in np.split(order, ends))
    if len(fit) < _LEAST:
        raise InvalidInput(f"compare: {n} rows and fraction={fraction} leave {len(fit)} to fit; use a smaller fraction")
    return Parts(fit, features, first, second)


def split(material: Material, fraction: float = 0.3, seed: int = 0) -> Split:
    """The rows of the disjoint parts."""
    rows, y = material.rows, material.y
    whole = ~np.isnan(rows).any(1)
    parts = deal(len(rows), fraction, seed, whole)
    labels = (None, None) if y is None else (y[parts.fit], y[parts.features])
    fit = rows[parts.fit]
    rest = [rows[part] for part in (parts.features, parts.first, parts.second)]
    if whole.all():
        return Split(fit, *rest, *labels)
    full = [filled(part, fit, material.groups, material.categorical) for part in (fit, *rest)]
    return Split(fit, full[1], full[2], full[3], labels[0], labels[1], full[0])


def seeds_of(seeds: Any, random_state: int = 0) -> tuple[int, ...]:
    """Seeds of the fits: so many from ``random_state`` on, or those given.

    >>> seeds_of(3), seeds_of([5, 7])
    ((0, 1, 2), (5, 7))
    """
    if is_whole(seeds):
        if seeds < 1:
            raise InvalidInput(f"compare: seeds is {seeds}; at least 1 fit a model is needed, 3 are useful")
        return tuple(range(int(random_state), int(random_state) + int(seeds)))
    try:
        found = tuple(int(seed) for seed in seeds)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"compare: seeds is {seeds!r}; pass how many, or a list of whole numbers") from error
    if not found or len(set(found)) < len(found) or min(found) < 0:
        raise InvalidInput(f"compare: seeds are {found}; different whole numbers of at least 0 are needed")
    return found


def check_budget(budget: Budget, width: int) -> Budget:
    """Refuse a budget that no model could keep; width: numbers in a row."""
    least = {"seconds": _LEAST_SECONDS, "parameters": float(width), "evaluations": float(_LEAST_BATCH)}[budget.kind]
    if budget.amount < least:
        unit = "s" if budget.kind == "seconds" else budget.kind
        raise InvalidInput(
            f"compare: a budget of {budget} is too small for any model; at least {least:g} {unit} are needed"
        )
    return budget
