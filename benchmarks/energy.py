"""A restricted Boltzmann machine on a CPU: seconds for equal epochs and the likelihood reached, beside a peer."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch

from benchmarks.harness import Interval, Quality, alternate
from benchmarks.report import Claim, Result

TITLE = "RBM 784-256 by persistent chains, batch 100: fit beside scikit-learn's BernoulliRBM"
HIDDEN, BATCH, RATE = 256, 100, 0.05


def pictures(rows: int, seed: int = 0) -> np.ndarray:
    """Rows of 784 zeros and ones that eight hidden causes explain, float32."""
    rng = np.random.default_rng(0)
    loadings = rng.normal(size=(8, 784))
    rng = np.random.default_rng(seed + 1)
    logits = 2 * rng.normal(size=(rows, 8)) @ loadings - 2
    return (rng.random((rows, 784)) < 1 / (1 + np.exp(-logits))).astype(np.float32)


def by_benthic(X: np.ndarray, epochs: int) -> Any:
    """Our machine, with a constant rate as the peer has it."""
    import benthic

    trainer = {
        "epochs": epochs,
        "batch_size": BATCH,
        "lr": RATE,
        "schedule": "constant",
        "device": "cpu",
        "verbose": False,
    }
    return benthic.BernoulliRBM(HIDDEN, chains=BATCH, binarize=False, trainer=trainer, random_state=0).fit(X)


def by_scikit_learn(X: np.ndarray, epochs: int) -> Any:
    """The peer, which has persistent chains too, one for each row of a batch."""
    from sklearn.neural_network import BernoulliRBM

    return BernoulliRBM(HIDDEN, learning_rate=RATE, batch_size=BATCH, n_iter=epochs, random_state=0).fit(X)


def judged(model: Any, held: np.ndarray, temperatures: int) -> Quality:
    """Pseudo-likelihood and annealed log-likelihood of held-out rows, of either machine by the same code."""
    import benthic

    if not isinstance(model, benthic.BernoulliRBM):
        peer = model
        model = by_benthic(held[:BATCH], 1)
        weights = {
            "weight": peer.components_.T,
            "visible_bias": peer.intercept_visible_,
            "hidden_bias": peer.intercept_hidden_,
        }
        model.network_.load_state_dict({name: torch.from_numpy(np.array(w)) for name, w in weights.items()})
        rates = held.mean(0).clip(0.01, 0.99)
        model._base_bias, model._partitions = np.log(rates / (1 - rates)).astype(np.float64), {}
    return {
        "pseudo-likelihood": float(model.pseudo_likelihood(held).mean()),
        "log-likelihood": model.likelihood(held, f"ais({temperatures})").mean(),
    }


def run(quick: bool = False) -> Result:
    """Alternate the two on the same rows, then judge what each has learned."""
    rows, epochs, repeats, temperatures = (600, 2, 2, 50) if quick else (6000, 5, 7, 2000)
    X, held = pictures(rows), pictures(1000, seed=7)
    fits = {"benthic": by_benthic, "scikit-learn": by_scikit_learn}
    kept: dict[str, Any] = {}

    def timed(name: str) -> Quality:
        start = time.perf_counter()
        kept[name] = fits[name](X, epochs)
        return {"seconds": time.perf_counter() - start}

    timings = alternate({name: lambda name=name: timed(name) for name in fits}, repeats=repeats)
    for name, model in kept.items():
        timings.quality[name] = dict(judged(model, held, temperatures))
    gain = timings.quality["benthic"]["log-likelihood"] - timings.quality["scikit-learn"]["log-likelihood"]
    claims = [
        Claim("scikit-learn / benthic", timings.ratio("scikit-learn", "benthic"), ">=", 1.0, "x"),
        Claim("held-out log-likelihood, benthic minus scikit-learn", Interval(gain, gain, gain), ">=", -1.0, " nats"),
    ]
    settings = {"rows": rows, "epochs": epochs, "batch": BATCH, "threads": torch.get_num_threads()}
    return Result("energy", TITLE, claims, timings, settings)
