"""Mixtures of Poisson and of Student's t from one start, beside pomegranate: n = 100 000, d = 20, k = 8, 10 steps."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import Candidate, Quality, alternate
from benchmarks.report import Claim, Result, exact

TITLE = "Mixture of Poisson and of t columns, n=100000 d=20 k=8, 10 EM steps from one start, float32"
STEPS = 10
DEGREES = 4


def counts(n: int, d: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of overlapping Poisson components, and a first guess of their labels, half of it wrong."""
    rng = np.random.default_rng(0)
    labels = rng.integers(k, size=n)
    X = rng.poisson(rng.gamma(4.0, 1.0, size=(k, d))[labels]).astype(np.float32)
    return X, np.where(rng.random(n) < 0.5, rng.integers(k, size=n), labels)


def tails(n: int, d: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The same with columns of t."""
    rng = np.random.default_rng(1)
    labels = rng.integers(k, size=n)
    X = rng.normal(size=(k, d))[labels] + rng.standard_t(DEGREES, size=(n, d))
    return X.astype(np.float32), np.where(rng.random(n) < 0.5, rng.integers(k, size=n), labels)


def poisson_likelihood(X: np.ndarray, weights: Any, rates: Any) -> float:
    """Mean log-likelihood, by SciPy's functions in float64."""
    from scipy.special import gammaln, logsumexp

    weights, rates, X = (np.asarray(v, dtype=np.float64) for v in (weights, rates, X))
    joint = np.log(weights) + X @ np.log(rates).T - rates.sum(1) - gammaln(X + 1).sum(1)[:, None]
    return float(logsumexp(joint, axis=1).mean())


def t_likelihood(X: np.ndarray, weights: Any, means: Any, scales: Any) -> float:
    """Mean log-likelihood, by SciPy's density in float64."""
    from scipy.special import logsumexp
    from scipy.stats import t

    parts = [
        np.log(w) + t.logpdf(X.astype(np.float64), DEGREES, m, s).sum(1)
        for w, m, s in zip(*(np.asarray(v, dtype=np.float64) for v in (weights, means, scales)), strict=True)
    ]
    return float(logsumexp(np.stack(parts), axis=0).mean())


def ours(X: np.ndarray, labels: np.ndarray, k: int, components: Any, judge: Callable[..., float]) -> Candidate:
    """Ten steps from the labels."""
    from benthic import Mixture

    def work() -> Quality:
        model = Mixture(k, components=components, df=DEGREES, init=labels, max_iter=STEPS, tol=0.0, reg=1e-6)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that ten steps did not converge is the plan
            model.fit(X)
        work.found = model
        return {}

    work.judge = lambda: judge(X, work.found)
    return work


def peer(
    X: np.ndarray, labels: np.ndarray, k: int, make: Callable[[Any], Any], judge: Callable[..., float]
) -> Candidate:
    """The same by pomegranate, its own checks of the data left out, on a tensor it need not convert."""
    import torch
    from pomegranate.gmm import GeneralMixtureModel

    rows = torch.from_numpy(X)
    share = np.bincount(labels, minlength=k) / len(labels)

    def work() -> Quality:
        parts = [make(rows[torch.from_numpy(labels == i)]) for i in range(k)]
        model = GeneralMixtureModel(
            parts, torch.tensor(share, dtype=torch.float32), max_iter=STEPS, tol=-np.inf, check_data=False
        )
        model.fit(rows)
        work.found = model
        return {}

    work.judge = lambda: judge(X, work.found)
    return work


def _poisson_of(rows: Any) -> Any:
    from pomegranate.distributions import Poisson

    return Poisson(rows.mean(0), check_data=False)


def _t_of(rows: Any) -> Any:
    from pomegranate.distributions import StudentT

    return StudentT(DEGREES, rows.mean(0), rows.var(0, correction=0), covariance_type="diag", check_data=False)


def candidates(n: int, d: int, k: int) -> dict[str, Any]:
    """Ours and the peer on both tables."""
    X, labels = counts(n, d, k)
    T, guesses = tails(n, d, k)
    return {
        "benthic, Poisson": ours(
            X, labels, k, "poisson", lambda X, m: poisson_likelihood(X, m.weights_, m.parameters_[0]["rate"])
        ),
        "pomegranate, Poisson": peer(
            X,
            labels,
            k,
            _poisson_of,
            lambda X, m: poisson_likelihood(X, m.priors, np.stack([p.lambdas for p in m.distributions])),
        ),
        "benthic, t": ours(
            T,
            guesses,
            k,
            ["t"] * d,
            lambda X, m: t_likelihood(X, m.weights_, m.parameters_[0]["mean"], m.parameters_[0]["scale"]),
        ),
        "pomegranate, t": peer(
            T,
            guesses,
            k,
            _t_of,
            lambda X, m: t_likelihood(
                X,
                m.priors,
                np.stack([p.means for p in m.distributions]),
                np.sqrt(np.stack([p.covs for p in m.distributions])),
            ),
        ),
    }


def run(quick: bool = False) -> Result:
    """Alternate ours and pomegranate; both may use every thread that torch has."""
    import torch

    n, d, k = (5000, 10, 4) if quick else (100_000, 20, 8)
    tried = candidates(n, d, k)
    timings = alternate(tried, repeats=2 if quick else 7)
    reached = {name: work.judge() for name, work in tried.items()}
    claims = []
    for law in ("Poisson", "t"):
        mine, other = f"benthic, {law}", f"pomegranate, {law}"
        claims.append(Claim(f"pomegranate / benthic, {law}", timings.ratio(other, mine), ">=", 5.0, "x"))
        gap = reached[other] - reached[mine]
        claims.append(Claim(f"mean log-likelihood that ours lacks, {law}", exact(gap), "<=", 1e-5, " nats"))
    facts = {"rows": n, "columns": d, "components": k, "steps": STEPS, "threads": torch.get_num_threads(), **reached}
    return Result("mixtures", TITLE, claims, timings, facts)
