"""Data sets and formulas that the tests of support vector machines share."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist
from sklearn import datasets


def standard(name, rows=None):
    """A bundled set with standardized features."""
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    X, y = X[:rows], y[:rows]
    spread = X.std(0)
    return (X - X.mean(0)) / np.where(spread > 0, spread, 1.0), y


def rbf(X, Y, gamma):
    """The kernel by direct subtraction, in double precision."""
    return np.exp(-gamma * cdist(X, Y, "sqeuclidean"))


def dual_value(K, beta, z, epsilon=0.0):
    """The objective of the dual in signed multipliers, from its formula."""
    return z @ beta - epsilon * np.abs(beta).sum() - beta @ K @ beta / 2
