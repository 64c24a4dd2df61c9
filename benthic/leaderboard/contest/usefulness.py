"""What samples are worth for training: a predictor learns from them and is judged on real rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.leaderboard.contest.rowwise import Rowwise


def tstr_rows(X: Tensor, Y: Tensor, target: slice, classes: bool, seed: int = 0) -> Rowwise:
    """The error on real rows of boosted trees trained on made ones to predict the target (Esteban et al., 2017).

    Of classes the share of wrong answers, of numbers the mean squared error over their variance. Influences are those
    of the judged rows; made rows have none, their chance shows between seeds.

    X: (n, d) real rows, Y: (m, d) made ones. target: its columns, one for each class or a single one.

    >>> x = torch.linspace(0, 1, 100, dtype=torch.float64)[:, None]
    >>> rows = torch.cat([x, (x > 0.5).double(), (x <= 0.5).double()], 1)
    >>> tstr_rows(rows, rows, slice(1, 3), True).value < 0.1
    True
    """
    inside = np.zeros(X.shape[1], dtype=bool)
    inside[target] = True
    (seen, truth), (rows, told) = ((side.numpy()[:, ~inside], _answers(side[:, target], classes)) for side in (X, Y))
    answers = _learned(rows, told, classes, seed, seen)
    wrong = (answers != truth).astype(np.float64) if classes else np.square(answers - truth) / max(truth.var(), 1e-300)
    losses = torch.as_tensor(wrong)
    return Rowwise(float(losses.mean()), losses - losses.mean(), torch.zeros(len(Y), dtype=torch.float64))


def _answers(columns: Tensor, classes: bool) -> np.ndarray:
    found: np.ndarray = (columns.argmax(1) if classes else columns[:, 0]).numpy()
    return found


def _learned(rows: np.ndarray, told: np.ndarray, classes: bool, seed: int, seen: np.ndarray) -> np.ndarray:
    """The answers for rows ``seen`` of trees that learned from others."""
    from benthic.trees import GradientBoostingClassifier, GradientBoostingRegressor

    if len(np.unique(told)) == 1:  # nothing else was made
        return np.full(len(seen), told[0])
    model: Any = (GradientBoostingClassifier if classes else GradientBoostingRegressor)(max_iter=50, random_state=seed)
    return np.asarray(model.fit(rows, told).predict(seen))
