"""Probabilities from decision values: a sigmoid a pair of classes, and the coupling of pairs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from benthic.base.seeds import np_generator

_FOLDS = 5


def fit_sigmoid(values: np.ndarray, positive: np.ndarray, weight: np.ndarray | None = None) -> tuple[float, float]:
    r"""The sigmoid that gives decision values their probabilities.

    .. math:: P(y = 1 \mid f) = \frac{1}{1 + e^{A f + B}}

    Platt, 2000, with its smoothed targets, by the Newton method of Lin, Lin & Weng, 2007.

    values: (n,) decision values of rows not learned from. positive: (n,) whether the row is of the first class.

    >>> A, B = fit_sigmoid(np.array([-2.0, -1.0, 1.0, 2.0]), np.array([False, False, True, True]))
    >>> A < 0 and abs(B) < 1e-9
    True
    """
    weight = np.ones(len(values)) if weight is None else weight
    many, few = float(weight[positive].sum()), float(weight[~positive].sum())
    target = np.where(positive, (many + 1) / (many + 2), 1 / (few + 2))
    theta = np.array([0.0, np.log((few + 1) / (many + 1))])
    features = np.stack([values, np.ones_like(values)])

    def loss(at: np.ndarray) -> float:
        score = at @ features
        return float(weight @ (target * score + np.logaddexp(0.0, -score)))

    now = loss(theta)
    for _ in range(100):
        p = _probability(theta @ features)
        gradient = features @ (weight * (target - p))
        if np.abs(gradient).max() < 1e-5 * max(weight.sum(), 1.0) * 1e-3:
            break
        hessian = (features * (weight * p * (1 - p))) @ features.T + 1e-12 * np.eye(2)
        direction = -np.linalg.solve(hessian, gradient)
        step = 1.0
        while step > 1e-10 and loss(theta + step * direction) > now + 1e-4 * step * (gradient @ direction):
            step /= 2
        if step <= 1e-10:
            break
        theta = theta + step * direction
        now = loss(theta)
    return float(theta[0]), float(theta[1])


def _probability(score: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(score)) without overflow."""
    return np.exp(-np.logaddexp(0.0, score))


def held_out(positive: np.ndarray, seed: int, values: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
    """Decision values of every row by machines that did not see it, in five stratified folds.

    positive: (n,) whether the row is of the first class. values(train, test): decision values at the rows ``test`` of
    a machine learned from the rows ``train``; a part with one class only is given that class.
    """
    fold = np.empty(len(positive), dtype=np.int64)
    generator = np_generator(seed, "platt")
    offset = 0
    for kind in (True, False):
        rows = generator.permutation(np.flatnonzero(positive == kind))
        fold[rows] = (np.arange(len(rows)) + offset) % _FOLDS
        offset += len(rows)
    out = np.zeros(len(positive))
    for k in range(_FOLDS):
        test, train = np.flatnonzero(fold == k), np.flatnonzero(fold != k)
        if not len(test):
            continue
        kinds = np.unique(positive[train])
        out[test] = values(train, test) if len(kinds) == 2 else np.where(kinds[:1], 1.0, -1.0) if len(kinds) else 0.0
    return out


def couple(pairs: Tensor, classes: int) -> Tensor:
    r"""Class probabilities that agree best with those of pairs of classes.

    .. math:: \min_p \sum_i \sum_{j \ne i} (r_{ji} p_i - r_{ij} p_j)^2, \qquad \sum_i p_i = 1

    Wu, Lin & Weng, 2004, their second method, whose optimality system is solved directly.

    pairs: (n, k (k - 1) / 2) the probability of the first class of each pair, pairs in the order (0, 1), (0, 2), ...
    Returns (n, k).
    """
    n = len(pairs)
    wide = pairs.double().clamp(1e-7, 1 - 1e-7)
    if classes == 2:
        return torch.stack([wide[:, 0], 1 - wide[:, 0]], 1)
    r = wide.new_zeros(n, classes, classes)
    first, second = torch.triu_indices(classes, classes, 1, device=pairs.device)
    r[:, first, second] = wide
    r[:, second, first] = 1 - wide
    Q = -r.mT * r  # (n, k, k)
    Q.diagonal(dim1=1, dim2=2).copy_(r.square().sum(1))
    # on the simplex Qp is a multiple of ones, which a border of ones makes a regular system
    system = wide.new_ones(n, classes + 1, classes + 1)
    system[:, :classes, :classes] = Q
    system[:, classes, classes] = 0.0
    right = wide.new_zeros(n, classes + 1, 1)
    right[:, classes] = 1.0
    p = torch.linalg.solve(system, right)[:, :classes, 0].clamp(min=0)
    return p / p.sum(1, keepdim=True)
