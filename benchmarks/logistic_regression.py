"""Time to a relative loss gap of 1e-6: ours beside the solvers of scikit-learn that reach it in time."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

from benchmarks.harness import Quality, alternate
from benchmarks.report import Claim, Result, exact

TITLE = "LogisticRegression, 10 classes, n=100000 d=100: time to a relative loss gap of 1e-6"
GAP = 1e-6
# At a tolerance where sag is done, saga takes 1.4 times as long and is still short of the gap; newton-cholesky
# takes four times as long to a gap of 3e-4.
SOLVERS = ("lbfgs", "newton-cg", "sag")
LADDER = tuple(10.0**-power for power in range(2, 8))  # tolerances, refined by bisection
PATIENCE = 60.0  # seconds after which a solver climbs no further down the ladder


@dataclass(frozen=True)
class Problem:
    """Rows, labels, and the objective scikit-learn documents, divided by C n."""

    X: np.ndarray
    y: np.ndarray
    C: float = 1.0

    def loss(self, coef: np.ndarray, intercept: np.ndarray) -> float:
        r"""Mean cross-entropy + ‖W‖² / (2 C n); classes are 0..k-1, as drawn."""
        scores = self.X @ coef.T + intercept
        fit = logsumexp(scores, axis=1) - scores[np.arange(len(self.y)), self.y]
        return float(fit.mean() + 0.5 * (coef**2).sum() / (self.C * len(self.y)))


def problem(n: int, d: int, k: int) -> Problem:
    """Features as tables have them: correlated, some skewed, some binary, standardized; noisy labels."""
    rng = np.random.default_rng(0)
    spectrum = np.arange(1, d + 1) ** -0.75
    basis = np.linalg.qr(rng.normal(size=(d, d)))[0]
    X = (rng.normal(size=(n, d)) * spectrum) @ basis
    X /= X.std(0)
    third = d // 3
    X[:, :third] = np.exp(0.6 * X[:, :third])
    X[:, third : 2 * third] = X[:, third : 2 * third] > rng.normal(size=third)
    X = (X - X.mean(0)) / X.std(0)
    scores = X @ rng.normal(scale=2 / np.sqrt(d), size=(d, k)) + rng.normal(scale=0.5, size=k)
    y = (scores + rng.gumbel(size=(n, k))).argmax(1)
    return Problem(X, y)


def fit(cls: Any, given: Problem, solver: str, tol: float) -> Any:
    """Fit scikit-learn's class or ours: the parameters have the same names."""
    extra = {"random_state": 0} if solver.startswith("sag") else {}
    model = cls(C=given.C, solver=solver, tol=tol, max_iter=10_000, **extra)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(given.X, given.y)


def optimum(given: Problem) -> float:
    """Return the least loss, by scikit-learn's L-BFGS at a tolerance that leaves a gap near 1e-8."""
    from sklearn.linear_model import LogisticRegression

    model = fit(LogisticRegression, given, "lbfgs", 1e-6)
    return given.loss(model.coef_, model.intercept_)


def first_rung(cls: Any, given: Problem, solver: str, best: float) -> tuple[float, float] | None:
    """Find the loosest tolerance that reaches the gap, to an eighth of a decade, and its seconds."""
    begun = time.perf_counter()
    for tol in LADDER:
        seconds = seconds_to_gap(cls, given, solver, best, tol)
        if seconds is not None:
            break
        if time.perf_counter() - begun > PATIENCE:
            return None
    else:
        return None
    tight, loose = np.log10(tol), np.log10(tol) + 1
    for _ in range(3):
        middle = (tight + loose) / 2
        faster = seconds_to_gap(cls, given, solver, best, 10.0**middle)
        if faster is None:
            loose = middle
        else:
            tight, seconds = middle, faster
    return 10.0**tight, seconds


def seconds_to_gap(cls: Any, given: Problem, solver: str, best: float, tol: float) -> float | None:
    """Seconds of one fit, or None if it stops short of the gap."""
    start = time.perf_counter()
    model = fit(cls, given, solver, tol)
    seconds = time.perf_counter() - start
    return seconds if gap(given, model, best) <= GAP else None


def gap(given: Problem, model: Any, best: float) -> float:
    """Relative distance of a model's loss from the least loss."""
    return given.loss(model.coef_, model.intercept_) / best - 1


def contenders(given: Problem, best: float) -> Iterator[tuple[str, float, tuple[Any, str, float] | None]]:
    """Every solver of both libraries with the seconds and the rung that reach the gap, if one does."""
    from sklearn.linear_model import LogisticRegression

    import benthic

    for cls, label, solvers in (
        (benthic.LogisticRegression, "benthic", ("auto",)),
        (LogisticRegression, "scikit-learn", SOLVERS),
    ):
        for solver in solvers:
            found = first_rung(cls, given, solver, best)
            name = f"{label} {solver}"
            yield (name, np.inf, None) if found is None else (name, found[1], (cls, solver, found[0]))


def run(quick: bool = False) -> Result:
    """Climb the ladders once, then alternate ours with the peer's solvers."""
    n, d, k, repeats = (3000, 10, 4, 2) if quick else (100_000, 100, 10, 5)
    given = problem(n, d, k)
    best = optimum(given)
    climbed = {name: (seconds, rung) for name, seconds, rung in contenders(given, best) if rung}
    if "benthic auto" not in climbed:
        raise RuntimeError(f"benthic does not reach a relative gap of {GAP} at any tolerance of {LADDER}")
    peers = sorted((name for name in climbed if name != "benthic auto"), key=lambda name: climbed[name][0])
    names = ["benthic auto", *peers[:3]]
    fitted: dict[str, Any] = {}

    def candidate(name: str) -> Callable[[], Quality | None]:
        cls, solver, tol = climbed[name][1]
        return lambda: fitted.update({name: fit(cls, given, solver, tol)})

    timings = alternate({name: candidate(name) for name in names}, repeats=repeats)
    for name, model in fitted.items():
        timings.quality[name].update(gap=gap(given, model, best), tol=climbed[name][1][2])
    fastest = min(peers[:3], key=timings.median)
    claims = [
        Claim(f"{fastest} / benthic", timings.ratio(fastest, "benthic auto"), ">=", 1.5, "x"),
        Claim("relative loss gap of benthic", exact(timings.quality["benthic auto"]["gap"]), "<=", GAP),
    ]
    ladder = {name: seconds for name, (seconds, _) in climbed.items()}
    settings = {"n": n, "d": d, "classes": k, "C": given.C, "seconds on the ladder": ladder}
    return Result("logistic_regression", TITLE, claims, timings, settings)
