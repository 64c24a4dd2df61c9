"""Missing values: who takes them as they are, and what the others get instead."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benthic.leaderboard.contest.contestants import takes_gaps
from benthic.leaderboard.contest.records import Contestant


def filled(rows: np.ndarray, like: np.ndarray, groups: Sequence[slice], categorical: np.ndarray) -> np.ndarray:
    """Rows (n, width) whose gaps hold the median of their column, or its most common value where it is a category.

    like: (m, width) the rows that medians are taken from. groups: columns of the matrix that are one column of the
    data. categorical: (width,) whether those are the values of a category.

    >>> filled(np.array([[np.nan]]), np.array([[1.0], [2.0], [9.0]]), [slice(0, 1)], np.array([False]))
    array([[2.]])
    """
    made = np.array(rows)
    for group in groups:
        gap = np.isnan(made[:, group]).any(1)
        if gap.any():
            made[gap, group] = _usual(like[:, group], bool(categorical[group.start]))
    return made


def _usual(values: np.ndarray, category: bool) -> np.ndarray:
    """(k,) what stands for a gap in columns (m, k)."""
    known = values[~np.isnan(values).any(1)]
    if not len(known):
        return np.zeros(values.shape[1])
    if category:
        known = np.eye(values.shape[1])[[int(known.sum(0).argmax())]]
    whole = bool(np.isin(known, (0.0, 1.0)).all())  # truth values
    middle: np.ndarray = np.round(known.mean(0)) if whole else np.median(known, axis=0)
    return middle


def told(rows: np.ndarray, contestants: Sequence[Contestant], judged: bool) -> str:
    """A sentence about the gaps in rows to fit; empty where there are none.

    judged: whether the rows to judge have gaps too.
    """
    count = int(np.isnan(rows).any(1).sum())
    if not count:
        return ""
    able = [one.name for one in contestants if takes_gaps(one.model)]
    others = "all models were" if not able else f"{', '.join(able)} took them as they are, other models were"
    text = f"{count} of {len(rows)} rows to fit have missing values: {others} fitted on rows filled with medians and "
    text += "most common values; "
    return text + ("so were the rows to judge, too few being whole." if judged else "only whole rows judge.")
