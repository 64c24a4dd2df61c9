"""Baum-Welch from one start, beside hmmlearn's: 100 sequences of 1000 steps, 8 states, a fixed number of passes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from benchmarks.harness import Quality, alternate
from benchmarks.report import Claim, Result, exact

TITLE = "HiddenMarkovModel, 100 sequences x 1000 steps, 8 states, 20 passes from one start"
PASSES = 20
_STATES, _COLUMNS, _SYMBOLS = 8, 4, 20


def sequences(n: int, t: int) -> dict[str, Any]:
    """Paths of sticky states with what they emit, numbers and symbols, and a start away from the truth."""
    rng = np.random.default_rng(0)
    k = _STATES
    moves = 0.8 * np.eye(k) + 0.2 * rng.dirichlet(np.ones(k), size=k)
    states = np.zeros((n, t), dtype=np.int64)
    states[:, 0] = rng.integers(k, size=n)
    for i in range(1, t):
        states[:, i] = (moves[states[:, i - 1]].cumsum(1) < rng.random((n, 1))).sum(1).clip(max=k - 1)
    means = 2 * rng.normal(size=(k, _COLUMNS))
    table = rng.dirichlet(np.full(_SYMBOLS, 0.3), size=k)
    codes = (table[states].cumsum(-1) < rng.random((n, t, 1))).sum(-1).clip(max=_SYMBOLS - 1)
    return {
        "numbers": means[states] + rng.normal(size=(n, t, _COLUMNS)),
        "symbols": codes,
        "start": np.full(k, 1 / k),
        "moves": 0.5 * np.eye(k) + 0.5 / k,
        "means": means + rng.normal(size=means.shape),
        "variances": np.full(means.shape, 4.0),
        "table": 0.5 * table + 0.5 * rng.dirichlet(np.ones(_SYMBOLS), size=k),
    }


def ours(data: dict[str, Any], kind: str) -> Any:
    """Fit 20 passes with threads on all cores, and say how likely the data became."""
    from benthic import HiddenMarkovModel

    shared = {"start_init": data["start"], "transitions_init": data["moves"], "n_init": 1, "max_iter": PASSES, "tol": 0}
    if kind == "symbols":
        own = {"emission": "categorical", "emissions_init": data["table"], "symbols": range(_SYMBOLS)}
    else:
        own = {"emission": "gaussian", "means_init": data["means"], "covariances_init": data["variances"]}

    def work() -> Quality:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that 20 passes did not converge is the plan
            model = HiddenMarkovModel(_STATES, covariance_type="diag", n_jobs=-1, **shared, **own).fit(data[kind])
        return {"log_likelihood": float(model.log_likelihoods_[-1])}

    return work


def peer(data: dict[str, Any], kind: str, implementation: str) -> Any:
    """The same passes by hmmlearn without its priors; its likelihood is measured after the last one, as ours is."""
    from hmmlearn.hmm import CategoricalHMM, GaussianHMM

    n, t = data["symbols"].shape
    shared = {"n_iter": PASSES, "tol": -np.inf, "init_params": "", "implementation": implementation}

    def work() -> Quality:
        if kind == "symbols":
            model = CategoricalHMM(_STATES, n_features=_SYMBOLS, **shared)
            model.emissionprob_ = data["table"]
            rows = data["symbols"].reshape(-1, 1)
        else:
            model = GaussianHMM(_STATES, "diag", covars_prior=0.0, min_covar=1e-6, **shared)
            model.means_, model.covars_ = data["means"], data["variances"]
            rows = data["numbers"].reshape(n * t, -1)
        model.startprob_, model.transmat_ = data["start"], data["moves"]
        model.fit(rows, [t] * n)
        return {"log_likelihood": float(model.score(rows, [t] * n))}

    return work


def run(quick: bool = False) -> Result:
    """Alternate ours and both of hmmlearn's implementations on numbers and on symbols."""
    n, t = (10, 100) if quick else (100, 1000)
    data = sequences(n, t)
    candidates = {}
    for kind in ("numbers", "symbols"):
        candidates[f"benthic, {kind}"] = ours(data, kind)
        for implementation in ("scaling", "log"):
            candidates[f"hmmlearn {implementation}, {kind}"] = peer(data, kind, implementation)
    timings = alternate(candidates, repeats=2 if quick else 5)
    claims = []
    for kind, words in (("numbers", "Gaussian"), ("symbols", "categorical")):
        mine, best = f"benthic, {kind}", f"hmmlearn scaling, {kind}"
        claims.append(Claim(f"hmmlearn / benthic, {words}", timings.ratio(best, mine), ">=", 3.0, "x"))
        found, other = (timings.quality[name]["log_likelihood"] for name in (mine, best))
        claims.append(Claim(f"relative gap of log-likelihood, {words}", exact(abs(found / other - 1)), "<=", 1e-9, ""))
    facts = {"sequences": n, "steps": t, "states": _STATES, "columns": _COLUMNS, "symbols": _SYMBOLS, "passes": PASSES}
    return Result("hidden_markov", TITLE, claims, timings, facts)
