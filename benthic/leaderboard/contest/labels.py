"""Whether labels of pictures can teach a feature space: a classifier that knows little sees little."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.seeds import np_generator
from benthic.leaderboard.contest.protocol import Split
from benthic.leaderboard.feature_space import ClassifierFeatures, classifier_features

_CLASSES = 100
_ENOUGH = 1000  # labeled rows, below which a network learns too little of them
_HELD = 4  # one row in so many is kept to see what was learned
_AXES = 32  # principal axes that the line gets
_SURE = 2.0  # standard errors


@dataclass(frozen=True, eq=False)
class Choice:
    """The feature space of pictures, ``classifier`` or ``random``, why, and what the classifier sees if it is that."""

    features: str
    reason: str
    see: Callable[[np.ndarray], Tensor] | None = None


def choose(split: Split, seed: int = 0) -> Choice:
    """A classifier's features if they have learned more from the labels than a line on principal axes, on held rows."""
    if not is_labeled(split):
        return Choice("random", "there are no labels from which features could be learned")
    n, y = len(split.features), np.asarray(split.features_y)
    if n < _ENOUGH:
        few = f"{n} labeled rows are too few to learn features from, {_ENOUGH} are needed"
        return Choice("random", few)
    order = np_generator(seed, "labels").permutation(n)
    held, rest = order[: n // _HELD], order[n // _HELD :]
    network = learned(split.features[rest], y[rest], seed)
    right = _right(network.model.predict(split.features[held]), y[held])
    plain = _right(_by_line(split.features[rest], y[rest], split.features[held]), y[held])
    gain, error = float((right - plain).mean()), float((right - plain).std(ddof=1)) / math.sqrt(len(held))
    told = (
        f"on {len(held)} held-out rows a network is right in {100 * right.mean():.1f} %, a line on principal axes in "
    )
    told += f"{100 * plain.mean():.1f} %"
    if gain > _SURE * error:
        return Choice("classifier", told, network)
    return Choice("random", f"{told}, so that its features have learned no more than a line")


def is_labeled(split: Split) -> bool:
    """Whether there are labels from which a classifier can learn features."""
    y = split.features_y
    if y is None or y.dtype.kind == "f":
        return False
    kinds, counts = np.unique(y, return_counts=True)
    return 2 <= len(kinds) <= min(_CLASSES, len(y) // 5) and counts.min() >= 2


def learned(rows: np.ndarray, y: Any, seed: int = 0) -> ClassifierFeatures:
    """What a small network, fitted here, sees before it tells labels apart."""
    from benthic.supervised.mlp import MLPClassifier

    trainer = {"steps": 1500, "batch_size": 64, "verbose": False}
    return classifier_features(MLPClassifier((128, 64), trainer=trainer, random_state=seed), rows, y)


def _by_line(rows: np.ndarray, y: np.ndarray, held: np.ndarray) -> np.ndarray:
    """The classes that a logistic regression on principal axes gives held-out rows."""
    from benthic.linear import LogisticRegression

    center = rows.mean(0)
    axes = torch.linalg.svd(torch.as_tensor(rows - center, dtype=torch.float64), full_matrices=False)[2][:_AXES]
    project = axes.T.numpy()
    line = LogisticRegression(max_iter=200).fit((rows - center) @ project, y)
    return np.asarray(line.predict((held - center) @ project))


def _right(answers: Any, truth: np.ndarray) -> np.ndarray:
    found: np.ndarray = (np.asarray(answers) == truth).astype(np.float64)
    return found
