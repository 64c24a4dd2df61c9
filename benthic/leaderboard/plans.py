"""Which rows are fitted and which are judged: folds, with classes kept in proportion and groups kept together."""

from __future__ import annotations

from typing import Any

import numpy as np

from benthic.base.errors import InvalidInput
from benthic.base.seeds import derive
from benthic.metrics.binary import shown
from benthic.metrics.rows import plain

Split = tuple[np.ndarray, np.ndarray]


def fold_plan(
    n: int,
    k: int = 5,
    repeats: int = 1,
    labels: Any = None,
    groups: Any = None,
    seed: int = 0,
    where: str = "fold_plan",
) -> list[Split]:
    """Rows to fit and rows to judge of ``k`` folds, dealt out anew ``repeats`` times.

    n: number of rows. labels: (n,) classes to keep in proportion, or None. groups: (n,); rows of one group are never
    split between the two sides, or None. where: the name that errors begin with.
    Returns ``k * repeats`` pairs (train, test) of row numbers, sorted; every row is judged once a repeat.

    >>> [test.tolist() for _, test in fold_plan(4, k=2, groups=["a", "a", "b", "b"])]
    [[2, 3], [0, 1]]
    """
    if not 2 <= k <= n:
        raise InvalidInput(f"{where}: k is {k}, but there are {n} rows; it must lie between 2 and the rows")
    if repeats < 1:
        raise InvalidInput(f"{where}: repeats is {repeats}; at least one is needed")
    labels = _checked_labels(labels, n, k, where)
    groups = _checked_groups(groups, n, k, where)
    return [split for r in range(repeats) for split in _once(n, k, labels, groups, derive(seed, "folds", r), where)]


def _once(n: int, k: int, labels: Any, groups: Any, seed: int, where: str) -> list[Split]:
    from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

    plain_kind, group_kind = (KFold, GroupKFold) if labels is None else (StratifiedKFold, StratifiedGroupKFold)
    kind = plain_kind if groups is None else group_kind
    splitter = kind(k, shuffle=True, random_state=seed % 2**32)
    try:
        return [(np.sort(train), np.sort(test)) for train, test in splitter.split(np.empty(n), labels, groups)]
    except ValueError as error:
        raise InvalidInput(f"{where}: {error}") from error


def _checked_labels(labels: Any, n: int, k: int, where: str) -> np.ndarray | None:
    if labels is None:
        return None
    found = plain(labels)
    if found.shape != (n,):
        raise InvalidInput(f"{where}: labels have shape {found.shape}; one a row, ({n},), is needed to stratify")
    values, counts = np.unique(found, return_counts=True)
    if counts.min() < k:
        rare = values[counts < k].tolist()
        raise InvalidInput(
            f"{where}: {shown(rare)} has fewer rows than the {k} folds, so a fold would lack it; use a smaller k, join "
            "rare classes, or stratify=False"
        )
    return np.unique(found, return_inverse=True)[1]


def _checked_groups(groups: Any, n: int, k: int, where: str) -> np.ndarray | None:
    if groups is None:
        return None
    found = plain(groups)
    if found.shape != (n,):
        raise InvalidInput(f"{where}: groups have shape {found.shape}; one a row, ({n},), is needed")
    count = len(np.unique(found))
    if count < k:
        raise InvalidInput(f"{where}: there are {count} groups for {k} folds; use k={count} or fewer")
    return np.unique(found, return_inverse=True)[1]
