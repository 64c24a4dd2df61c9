"""Mixtures with known parameters, and the textbook formulas for them in NumPy."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from benthic.mixture.parameters import Gaussians, covariance_shape

KINDS = ("full", "tied", "diag", "spherical")


def clusters(n: int = 300, d: int = 3, k: int = 3, seed: int = 0, apart: float = 2.0) -> np.ndarray:
    """Rows of k overlapping Gaussians with correlated columns of different scales."""
    rng = np.random.default_rng(seed)
    centers = apart * rng.normal(size=(k, d))
    factors = rng.normal(size=(k, d, d)) / np.sqrt(d) + np.eye(d)
    labels = rng.integers(k, size=n)
    X = centers[labels] + np.einsum("nij,nj->ni", factors[labels], rng.normal(size=(n, d)))
    return X * np.logspace(-1, 1, d) + np.arange(d)


def holed(X: np.ndarray, share: float = 0.25, seed: int = 1) -> np.ndarray:
    """The same with some values missing at random."""
    return np.where(np.random.default_rng(seed).random(X.shape) < share, np.nan, X)


def start(X: np.ndarray, k: int, kind: str) -> dict[str, np.ndarray]:
    """Initial parameters in scikit-learn's names: some rows, and the spread of the columns."""
    d = X.shape[1]
    precisions = 1 / np.nanvar(X, 0)
    one = {"full": np.diag(precisions), "tied": np.diag(precisions), "diag": precisions, "spherical": precisions.mean()}
    shape = covariance_shape(kind, k, d)
    means = np.where(np.isnan(X[:k]), np.nanmean(X, 0), X[:k])
    weights = np.arange(1.0, k + 1) / np.arange(1.0, k + 1).sum()
    return {
        "weights_init": weights,
        "means_init": means,
        "precisions_init": np.ascontiguousarray(np.broadcast_to(one[kind], shape)),
    }


def matrices(model) -> np.ndarray:
    """Covariance matrices (k, d, d) of a fitted model of any kind, ours or scikit-learn's."""
    k, d = model.means_.shape
    c = np.asarray(model.covariances_)
    if model.covariance_type == "full":
        return c
    if model.covariance_type == "tied":
        return np.broadcast_to(c, (k, d, d))
    return np.stack([np.diag(np.broadcast_to(v, d)) for v in c])


def log_joint(model, x: np.ndarray) -> np.ndarray:
    """log w_k + log N(x_o; μ_k, C_k) of one row over its observed columns, by SciPy, (k,)."""
    o = np.flatnonzero(~np.isnan(x))
    if len(o) == 0:
        return np.log(model.weights_)
    parts = [
        multivariate_normal(m[o], C[np.ix_(o, o)]).logpdf(x[o])
        for m, C in zip(model.means_, matrices(model), strict=True)
    ]
    return np.log(model.weights_) + np.array(parts)


def log_prob(model, X: np.ndarray) -> np.ndarray:
    """Log-density of every row, by SciPy."""
    return np.array([logsumexp(log_joint(model, x)) for x in X])


def conditional(model, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the gaps of one row given the rest: a mixture of the components' regressions."""
    m, o = np.flatnonzero(np.isnan(x)), np.flatnonzero(~np.isnan(x))
    log = log_joint(model, x)
    share = np.exp(log - logsumexp(log))
    means, covariances = [], []
    for mu, C in zip(model.means_, matrices(model), strict=True):
        B = C[np.ix_(m, o)] @ np.linalg.inv(C[np.ix_(o, o)])
        means.append(mu[m] + B @ (x[o] - mu[o]))
        covariances.append(C[np.ix_(m, m)] - B @ C[np.ix_(o, m)])
    mean = share @ np.array(means)
    spread = sum(r * (V + np.outer(a - mean, a - mean)) for r, a, V in zip(share, means, covariances, strict=True))
    return mean, spread


def mixture_of(kind: str, k: int, d: int, seed: int = 0) -> Gaussians:
    """Random parameters, in float64."""
    import torch

    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    weights = torch.softmax(normal(k), 0)
    if kind in ("full", "tied"):
        half = normal(*covariance_shape(kind, k, d))
        covariances = half @ half.mT + torch.eye(d, dtype=torch.float64)
    else:
        covariances = normal(*covariance_shape(kind, k, d)).exp()
    return Gaussians.of_covariances(kind, weights, 2 * normal(k, d), covariances)
