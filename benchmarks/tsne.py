"""t-SNE of 5000 MNIST digits (50 principal columns), 1000 steps, beside scikit-learn's and openTSNE's."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import Quality, alternate, data_folder
from benchmarks.report import Claim, Result, exact

TITLE = "TSNE, 5000 MNIST digits in 50 columns, perplexity 30, 1000 steps from one start"
PERPLEXITY, COLUMNS = 30.0, 50
EARLY = 250  # steps with exaggeration, as all three have them by default


def rows_of(n: int, quick: bool) -> np.ndarray:
    """The first digits in their principal columns, float32; small bundled ones in a quick run."""
    from sklearn.datasets import load_digits
    from sklearn.decomposition import PCA

    if quick:
        X = load_digits().data[:n]
    else:
        with gzip.open(data_folder("mnist") / "train-images-idx3-ubyte.gz") as file:
            X = np.frombuffer(file.read(16 + 784 * n), np.uint8, offset=16).reshape(n, 784) / 255
    return PCA(min(COLUMNS, X.shape[1]), svd_solver="full").fit_transform(X).astype(np.float32)


def judge(X: np.ndarray) -> Callable[[np.ndarray], float]:
    """A function that gives the divergence of any map of X: all pairs, float64, perplexities of all other rows."""
    from scipy.spatial.distance import pdist
    from sklearn.manifold._t_sne import _joint_probabilities

    distances = pdist(X.astype(np.float64), "sqeuclidean")
    square = np.zeros((len(X), len(X)), dtype=np.float32)
    square[np.triu_indices(len(X), 1)] = distances
    P = np.maximum(_joint_probabilities(square + square.T, PERPLEXITY, 0), 1e-300)  # of pairs, adding up to 1/2
    P /= 2 * P.sum()

    def divergence(places: np.ndarray) -> float:
        q = 1 / (1 + pdist(np.asarray(places, dtype=np.float64), "sqeuclidean"))
        return float(2 * np.sum(P * (np.log(P) - np.log(q) + np.log(2 * q.sum()))))

    return divergence


def makers(X: np.ndarray, start: np.ndarray, steps: int) -> dict[str, Callable[[], np.ndarray]]:
    """What each candidate does; all begin with the same places and make as many steps."""
    import openTSNE
    from sklearn import manifold

    from benthic import TSNE

    early = min(EARLY, steps)

    def other(method: str) -> np.ndarray:
        settings: dict[str, Any] = {"early_exaggeration_iter": early, "n_iter": steps - early, "n_jobs": -1}
        model = openTSNE.TSNE(perplexity=PERPLEXITY, initialization=start, negative_gradient_method=method, **settings)
        return np.asarray(model.fit(X))

    shared: dict[str, Any] = {"perplexity": PERPLEXITY, "init": start, "max_iter": steps}
    endless = {"min_grad_norm": 0.0, "n_iter_without_progress": steps}
    return {
        "benthic": lambda: TSNE(**shared, min_grad_norm=0.0).fit_transform(X),
        "scikit-learn": lambda: manifold.TSNE(**shared, **endless).fit_transform(X),
        "openTSNE, trees": lambda: other("bh"),
        "openTSNE, grid": lambda: other("fft"),
    }


def candidate(make: Callable[[], np.ndarray], kept: dict[str, np.ndarray], name: str) -> Callable[[], Quality | None]:
    """Make the map and keep it for the judge."""

    def work() -> None:
        kept[name] = make()

    return work


def run(quick: bool = False) -> Result:
    """Alternate the four; one function judges all maps after the clock has stopped."""
    from benthic import TSNE

    n, steps = (400, 300) if quick else (5000, 1000)
    X = rows_of(n, quick)
    start = (1e-4 * X[:, :2] / X[:, 0].std()).astype(np.float32)
    TSNE(max_iter=2, init=start[:300]).fit(X[:300])  # compiles
    kept: dict[str, np.ndarray] = {}
    work = {name: candidate(make, kept, name) for name, make in makers(X, start, steps).items()}
    timings = alternate(work, repeats=1 if quick else 3, warmup=0)
    divergence = judge(X)
    for name, places in kept.items():
        timings.quality[name]["divergence"] = divergence(places)
    peers = [name for name in work if name != "benthic"]
    quickest = min(peers, key=timings.median)
    best = min(timings.quality[name]["divergence"] for name in peers)
    claims = [
        Claim(f"{quickest} / benthic", timings.ratio(quickest, "benthic"), ">=", 1.2, "x"),
        Claim(
            "divergence over the best of theirs, nats",
            exact(timings.quality["benthic"]["divergence"] - best),
            "<=",
            0.0,
        ),
    ]
    return Result("tsne", TITLE, claims, timings, {"rows": n, "columns": X.shape[1], "steps": steps})
