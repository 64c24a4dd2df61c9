"""Networks of continuous depth on the digits, and the same networks with the identity in place of the flow."""

from __future__ import annotations

import time
from functools import partial

import numpy as np

from benchmarks.harness import Interval, Timings
from benchmarks.report import Claim, Result

TITLE = "NeuralODEClassifier on digits (1797 x 64), 5-fold accuracy, three seeds; the identity beside it"
FOLDS, SEEDS = 5, (0, 1, 2)
VARIANTS = {"flow": 1.0, "identity": 0.0}


def accuracies(t1: float, seed: int, quick: bool = False) -> list[float]:
    """The accuracy on each fold; the folds are dealt and the network is started by the seed."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import StratifiedKFold

    from benthic import NeuralODEClassifier

    X, y = load_digits(return_X_y=True)
    trainer = {"epochs": 3} if quick else None
    found = []
    for train, test in StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(X, y):
        model = NeuralODEClassifier(t1=t1, trainer=trainer, random_state=seed).fit(X[train], y[train])
        found.append(model.score(X[test], y[test]))
        if quick:
            break
    return found


def run(quick: bool = False) -> Result:
    """Fit both on every fold of every seed; the claim is the mean of the worst seed."""
    seconds: dict[str, list[float]] = {name: [] for name in VARIANTS}
    means: dict[str, list[float]] = {name: [] for name in VARIANTS}
    for seed in SEEDS[:1] if quick else SEEDS:
        for name, fit in {name: partial(accuracies, t1) for name, t1 in VARIANTS.items()}.items():
            start = time.perf_counter()
            means[name].append(float(np.mean(fit(seed, quick))))
            seconds[name].append(time.perf_counter() - start)
    quality = {name: {"mean accuracy": float(np.mean(means[name]))} for name in VARIANTS}
    gains = np.subtract(means["flow"], means["identity"])
    flow = means["flow"]
    claims = [
        Claim("mean accuracy of the worst seed", Interval(min(flow), min(flow), max(flow)), ">=", 0.98),
        Claim(
            "accuracy gained over the identity in place of the flow",
            Interval(float(gains.mean()), float(gains.min()), float(gains.max())),
            ">=",
            0.01,
        ),
    ]
    return Result("neural_ode", TITLE, claims, Timings(seconds, quality), {"folds": FOLDS, "means": means})
