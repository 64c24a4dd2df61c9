"""Bayesian network regression on four UCI tables, 20 published splits, beside published results.

The tables are ``NAME.npz`` files with ``X`` (n, d), ``y`` (n,) and ``test_mask`` (20, n), in the folder
``uci_bnn_regression`` below ``BENTHIC_DATA``.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch

from benchmarks.harness import Interval, Timings, data_folder
from benchmarks.report import Claim, Result

TITLE = "BayesianMLPRegressor (50 hidden units, defaults), test RMSE and log-likelihood over 20 splits"
FOLDER = "uci_bnn_regression"
TABLES = {"boston": "bostonHousing", "concrete": "concrete", "energy": "energy", "yacht": "yacht"}
# mean over the splits: RMSE, log-likelihood
PBP = {  # Hernández-Lobato & Adams, 2015
    "boston": (3.014, -2.574),
    "concrete": (5.667, -3.161),
    "energy": (1.804, -2.042),
    "yacht": (1.015, -1.634),
}
DROPOUT = {  # Gal & Ghahramani, 2016
    "boston": (2.97, -2.46),
    "concrete": (5.23, -3.04),
    "energy": (1.66, -1.99),
    "yacht": (1.11, -1.55),
}


def one_split(table: Any, split: int, **settings: Any) -> tuple[float, float, float]:
    """Test RMSE, mean test log-likelihood and seconds of one fit."""
    import benthic

    test = table["test_mask"][split]
    X, y = table["X"], table["y"]
    start = time.perf_counter()
    model = benthic.BayesianMLPRegressor(random_state=split, **settings).fit(X[~test], y[~test])
    seconds = time.perf_counter() - start
    gap = model.predict(X[test]) - y[test]
    return float(np.sqrt(np.mean(gap**2))), float(np.mean(model.log_likelihood(X[test], y[test]))), seconds


def interval(values: list[float]) -> Interval:
    """Mean over splits with two standard errors to each side."""
    mean = float(np.mean(values))
    error = 2 * float(np.std(values, ddof=1)) / len(values) ** 0.5 if len(values) > 1 else 0.0
    return Interval(mean, mean - error, mean + error)


def run(quick: bool = False) -> Result:
    """Fit every split of every table and lay the means beside the published ones."""
    folder = data_folder(FOLDER)
    splits = range(1) if quick else range(20)
    settings = {"draws": 20, "warmup": 20, "leapfrog_steps": 10, "chains": 2} if quick else {}
    claims, seconds, quality = [], {}, {}
    for name, file in TABLES.items():
        with np.load(folder / f"{file}.npz") as archive:
            table = {key: archive[key] for key in ("X", "y", "test_mask")}
        found = [one_split(table, split, **settings) for split in splits]
        rmse, score = (interval([row[i] for row in found]) for i in (0, 1))
        best_rmse, best_score = min(PBP[name][0], DROPOUT[name][0]), max(PBP[name][1], DROPOUT[name][1])
        claims.append(Claim(f"{name}: test RMSE, best of PBP and dropout", rmse, "<=", best_rmse))
        claims.append(Claim(f"{name}: test log-likelihood, best of PBP and dropout", score, ">=", best_score))
        seconds[name] = [row[2] for row in found]
        quality[name] = {"RMSE": rmse.value, "log-likelihood": score.value}
    shown = {"splits": len(splits), "threads": torch.get_num_threads(), **settings}
    return Result("bayesian_regression", TITLE, claims, Timings(seconds, quality), shown)
