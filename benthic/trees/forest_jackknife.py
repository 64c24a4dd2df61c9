"""How much a forest's answer would move with another training set: the infinitesimal jackknife."""

from __future__ import annotations

import numpy as np

_BLOCK = 1 << 24  # rows of fit times rows asked about in one product


def jackknife_std(value: np.ndarray, leaf: np.ndarray, counts: np.ndarray, draws: int) -> np.ndarray:
    """Standard error (q, k) of the mean over trees at q rows, corrected for the number of trees.

    value: (N, k) answers of nodes. leaf: (q, B) nodes in which the rows end. counts: (B, n) how often each training
    row is in each sample of ``draws`` rows. Never less than the error of the mean over trees that other samples would
    bring. Wager, Hastie & Efron, 2014, equations 5 and 7.
    """
    trees, n = counts.shape
    centered = counts.astype(np.float32) - np.float32(draws / n)
    out = np.empty((len(leaf), value.shape[1]))
    size = max(_BLOCK // n, 1)
    for begin in range(0, len(leaf), size):
        for k in range(value.shape[1]):
            answers = value[leaf[begin : begin + size], k]  # (rows, B)
            answers = answers - answers.mean(1, keepdims=True)
            covariance = answers.astype(np.float32) @ centered / trees  # (rows, n)
            raw = np.square(covariance, dtype=np.float64).sum(1)
            bias = draws / trees**2 * np.square(answers).sum(1)
            chance = np.square(answers).sum(1) / (trees * max(trees - 1, 1))
            out[begin : begin + size, k] = np.sqrt(np.maximum(raw - bias, chance))
    return out
