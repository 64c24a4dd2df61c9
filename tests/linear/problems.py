"""Data that the tests of regressions share."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_diabetes

DIABETES = load_diabetes(return_X_y=True)


def houses(n=2000, seed=0):
    """Like a census table: skewed columns of very different scale and offset, correlated, with outliers."""
    rng = np.random.default_rng(seed)
    income = rng.gamma(3.0, 1.3, n)
    age = rng.uniform(1, 52, n)
    rooms = 5 + 0.3 * income + rng.normal(size=n)
    bedrooms = 0.2 * rooms + 0.05 * rng.normal(size=n)
    people = np.exp(rng.normal(7, 0.8, n))
    latitude = 35 + 2 * rng.normal(size=n)
    longitude = -119 - 0.9 * (latitude - 35) + 0.4 * rng.normal(size=n)
    X = np.column_stack([income, age, rooms, bedrooms, people, latitude, longitude])
    y = 0.4 * income + 0.01 * age - 0.4 * latitude - 0.4 * longitude + rng.normal(size=n)
    return X, y


def sparse_problem(n, d, k=8, noise=0.3, seed=0):
    """Rows of correlated columns, of which k matter."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    for j in range(1, d):
        X[:, j] = 0.6 * X[:, j - 1] + 0.8 * X[:, j]
    w = np.zeros(d)
    w[rng.choice(d, k, replace=False)] = rng.normal(size=k) * 2
    return X + 3.0, X @ w + noise * rng.normal(size=n) + 1.0
