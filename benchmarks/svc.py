"""SVC with a Gaussian kernel: time to the same dual objective, ours beside libsvm through scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from benchmarks.harness import Quality, Timings, alternate
from benchmarks.report import Claim, Result, exact

TITLE = "SVC, rbf kernel, n=10000 d=20: time to the same dual objective (relative 1e-6)"
GAP = 1e-6
TARGET = 2.0


@dataclass(frozen=True)
class Problem:
    """Standardized rows, signs as labels, and the dual objective in double precision."""

    X: np.ndarray
    y: np.ndarray
    C: float = 1.0

    @property
    def gamma(self) -> float:
        """What ``gamma="scale"`` means."""
        return 1.0 / (self.X.shape[1] * self.X.var())

    def dual(self, model: Any) -> float:
        """Σα − ½ ββᵀK from the fitted coefficients, K by direct subtraction, a block of rows at a time."""
        rows, beta = self.X[model.support_], np.asarray(model.dual_coef_)[0]
        total = 0.0
        for top in range(0, len(rows), 500):
            K = np.exp(-self.gamma * cdist(rows[top : top + 500], rows, "sqeuclidean"))
            total += beta[top : top + 500] @ (K @ beta)
        return float(np.abs(beta).sum() - total / 2)


def _finished(X: np.ndarray, y: np.ndarray) -> Problem:
    return Problem((X - X.mean(0)) / X.std(0), np.where(y > 0, 1, -1))


def clusters(n: int, d: int) -> Problem:
    """scikit-learn's make_classification: 10 informative and 5 redundant features, 4 clusters a class, 2 % flipped."""
    from sklearn.datasets import make_classification

    return _finished(
        *make_classification(n, d, n_informative=10, n_redundant=5, n_clusters_per_class=4, flip_y=0.02, random_state=0)
    )


def moons(n: int, d: int) -> Problem:
    """Two noisy moons in a random plane of d dimensions, with small noise across it."""
    from sklearn.datasets import make_moons

    rng = np.random.default_rng(0)
    plane, y = make_moons(n, noise=0.25, random_state=0)
    basis = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return _finished(np.hstack([2 * plane, 0.3 * rng.normal(size=(n, d - 2))]) @ basis, y)


def compare(given: Problem, repeats: int) -> tuple[Timings, dict[str, float]]:
    """Alternate both at the same settings and tolerance; the objectives are computed outside of the timing."""
    import sklearn.svm

    import benthic

    fitted: dict[str, Any] = {}

    def candidate(name: str, cls: Any) -> Callable[[], Quality | None]:
        return lambda: fitted.update({name: cls(C=given.C).fit(given.X, given.y)})

    names = {"benthic": benthic.SVC, "scikit-learn libsvm": sklearn.svm.SVC}
    timings = alternate({name: candidate(name, cls) for name, cls in names.items()}, repeats=repeats)
    duals = {name: given.dual(model) for name, model in fitted.items()}
    for name, model in fitted.items():
        timings.quality[name].update(
            {
                "dual objective": duals[name],
                "support vectors": float(len(model.support_)),
                "steps": float(model.n_iter_[0]),
            }
        )
    return timings, duals


def run(quick: bool = False) -> Result:
    """Both data sets; the claims are about the first."""
    import torch

    n, d, repeats = (1500, 20, 2) if quick else (10_000, 20, 7)
    timings, duals = compare(clusters(n, d), repeats)
    others, _ = compare(moons(n, d), max(2, repeats // 2))
    peer = "scikit-learn libsvm"
    claims = [
        Claim(f"{peer} / benthic", timings.ratio(peer, "benthic"), ">=", TARGET, "x"),
        Claim("dual objective short of libsvm's, relative", exact(1 - duals["benthic"] / duals[peer]), "<=", GAP),
        Claim("the same on two moons, time", others.ratio(peer, "benthic"), ">=", TARGET, "x"),
    ]
    settings = {
        "n": n,
        "d": d,
        "C": 1.0,
        "gamma": "scale",
        "tol": 1e-3,
        "cache": "200 MB",
        "threads of benthic": f"1 in the solver; {torch.get_num_threads()} where rows are checked and scaled",
        "threads of libsvm": 1,
        "seconds on two moons": {name: others.median(name) for name in others.seconds},
    }
    return Result("svc", TITLE, claims, timings, settings)
