"""EM for full covariances: float64 beside scikit-learn, float32 beside pomegranate, from one start."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.linalg import solve_triangular
from scipy.special import logsumexp

from benchmarks.harness import Quality, alternate
from benchmarks.report import Claim, Result, exact

TITLE = "GaussianMixture full, n=50000 d=16 k=16, 20 iterations from one start"
ITERATIONS, RIDGE = 20, 1e-6


@dataclass(frozen=True)
class Problem:
    """Rows and the start that every candidate is given."""

    X: np.ndarray
    weights: np.ndarray
    means: np.ndarray
    precisions: np.ndarray

    def cast(self, dtype: type) -> Problem:
        """Return the same problem in another precision."""
        arrays = (self.X, self.weights, self.means, self.precisions)
        return Problem(*(array.astype(dtype) for array in arrays))


def problem(n: int, d: int, k: int) -> Problem:
    """Overlapping Gaussians with random covariances; the start is k of the rows and one shared sphere.

    The noise added last keeps the covariances well conditioned: in float32 pomegranate takes them as
    differences of second moments and fails on nearly singular ones.
    """
    rng = np.random.default_rng(0)
    centers = rng.normal(scale=2.0, size=(k, d))
    factors = rng.normal(size=(k, d, d)) / np.sqrt(d)
    labels = rng.choice(k, size=n, p=rng.dirichlet(np.full(k, 5.0)))
    X = centers[labels] + np.einsum("nij,nj->ni", factors[labels], rng.normal(size=(n, d)))
    X += 0.5 * rng.normal(size=(n, d))
    precision = np.eye(d) / X.var(0).mean()
    return Problem(X, np.full(k, 1 / k), X[rng.choice(n, k, replace=False)], np.tile(precision, (k, 1, 1)))


def log_likelihood(X: np.ndarray, weights: Any, means: Any, covariances: Any) -> float:
    """Mean log-density in float64, by one function for all candidates."""
    X = X.astype(np.float64)
    parts = []
    for weight, mean, covariance in zip(weights, means, covariances, strict=True):
        factor = np.linalg.cholesky(np.asarray(covariance, dtype=np.float64))
        white = solve_triangular(factor, (X - np.asarray(mean, dtype=np.float64)).T, lower=True)
        constant = np.log(np.diag(factor)).sum() + 0.5 * X.shape[1] * np.log(2 * np.pi)
        parts.append(np.log(np.float64(weight)) - constant - 0.5 * (white**2).sum(0))
    return float(logsumexp(parts, axis=0).mean())


def fit_sklearn_like(cls: Any, given: Problem) -> Any:
    """Fit scikit-learn's class or ours: the parameters have the same names."""
    model = cls(
        n_components=len(given.weights),
        covariance_type="full",
        tol=0.0,
        reg_covar=RIDGE,
        max_iter=ITERATIONS,
        weights_init=given.weights,
        means_init=given.means,
        precisions_init=given.precisions,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that 20 iterations did not converge is the plan
        return model.fit(given.X)


def fit_pomegranate(given: Problem) -> Any:
    """Fit pomegranate from the same start; its tol must be negative to make all the iterations."""
    from pomegranate.distributions import Normal
    from pomegranate.gmm import GeneralMixtureModel

    covariances = np.linalg.inv(given.precisions)
    parts = [Normal(mean.copy(), cov, "full") for mean, cov in zip(given.means, covariances, strict=True)]
    model = GeneralMixtureModel(parts, priors=given.weights.copy(), max_iter=ITERATIONS, tol=-float("inf"))
    return model.fit(torch.from_numpy(given.X))


def sklearn_like_quality(model: Any, X: np.ndarray) -> Quality:
    """Log-likelihood of the final parameters."""
    return {"log-likelihood": log_likelihood(X, model.weights_, model.means_, model.covariances_)}


def pomegranate_quality(model: Any, X: np.ndarray) -> Quality:
    """Log-likelihood of pomegranate's final parameters."""
    means = [part.means.numpy() for part in model.distributions]
    covariances = [part.covs.numpy() for part in model.distributions]
    return {"log-likelihood": log_likelihood(X, model.priors.numpy(), means, covariances)}


def run(quick: bool = False) -> Result:
    """Measure the four in turn; each keeps its last model, judged once after the clock has stopped."""
    from sklearn.mixture import GaussianMixture

    import benthic

    n, d, k, repeats = (2000, 4, 4, 2) if quick else (50_000, 16, 16, 7)
    double = problem(n, d, k)
    single = double.cast(np.float32)
    fitted: dict[str, Any] = {}
    fits = {
        "benthic float64": lambda: fit_sklearn_like(benthic.GaussianMixture, double),
        "scikit-learn float64": lambda: fit_sklearn_like(GaussianMixture, double),
        "benthic float32": lambda: fit_sklearn_like(benthic.GaussianMixture, single),
        "pomegranate float32": lambda: fit_pomegranate(single),
    }
    timings = alternate(
        {name: lambda name=name, fit=fit: fitted.update({name: fit()}) for name, fit in fits.items()},
        repeats=repeats,
    )
    for name, model in fitted.items():
        judge = pomegranate_quality if name.startswith("pomegranate") else sklearn_like_quality
        timings.quality[name].update(judge(model, double.X))
    score = {name: found["log-likelihood"] for name, found in timings.quality.items()}
    gap64 = abs(score["benthic float64"] / score["scikit-learn float64"] - 1)
    behind32 = score["pomegranate float32"] - score["benthic float32"]
    claims = [
        Claim(
            "scikit-learn / benthic, float64",
            timings.ratio("scikit-learn float64", "benthic float64"),
            ">=",
            5.0,
            "x",
        ),
        Claim("relative difference of log-likelihoods, float64", exact(gap64), "<=", 1e-8),
        Claim(
            "pomegranate / benthic, float32",
            timings.ratio("pomegranate float32", "benthic float32"),
            ">=",
            1.5,
            "x",
        ),
        Claim("nats an example behind pomegranate, float32", exact(max(behind32, 0.0)), "<=", 1e-4),
    ]
    settings = {"n": n, "d": d, "k": k, "iterations": ITERATIONS, "threads": torch.get_num_threads()}
    return Result("gaussian_mixture", TITLE, claims, timings, settings)
