"""How many of the 1000 modes of stacked MNIST an adversarial model finds: three random digits as red, green and blue.

Run with ``python -m benchmarks.gpu.stacked_mnist MNIST.npz OUT_FOLDER [--seeds 0 1 2] [--names ...] [--quick]``. A
classifier trained here says which digits 25 600 generated pictures show; beside the number of modes stands the KL
divergence of their frequencies from the uniform law, and what real pictures give. Seeds that are done are not done
again.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import torch
from torch import Tensor

import benthic
from benchmarks.gpu.picture_judge import SIDE, Judge, Results, arguments, pictures, train_judge

DRAWN, ROWS = 25_600, 128_000
TRAINER: dict[str, Any] = {"batch_size": 128, "lr": 3e-4, "ema": 0.999, "precision": "tf32", "verbose": False}
COMMON: dict[str, Any] = {"latent_dim": 128, "channels": (64, 128, 256)}
MODELS: dict[str, tuple[int, dict[str, Any]]] = {
    "WGAN-GP": (60_000, {"loss": "wasserstein", "penalty": "gradient", "critic_steps": 3}),
    "hinge + spectral": (60_000, {"loss": "hinge", "critic_norm": "spectral", "minibatch": "deviation"}),
    "non-saturating + R1": (50_000, {"loss": "non_saturating", "penalty": "r1", "penalty_weight": 2.0}),
}


def stacked(X: Tensor, count: int, seed: int) -> Tensor:
    """Pictures (count, 3, 28, 28) of three digits each, drawn at random."""
    source = torch.Generator().manual_seed(seed)
    chosen = torch.randint(len(X), (count, 3), generator=source).to(X.device)
    return X[chosen].reshape(count, 3, SIDE, SIDE)


def modes(judge: Judge, drawn: Tensor) -> dict[str, float]:
    """How many of the 1000 triples occur, and KL(frequencies || uniform)."""
    digits = judge.classes(drawn.reshape(-1, SIDE * SIDE)).reshape(-1, 3)
    names = (digits * torch.tensor([100, 10, 1], device=digits.device)).sum(1)
    counts = torch.bincount(names, minlength=1000).double()
    shares = counts / counts.sum()
    kl = torch.special.xlogy(shares, shares * 1000).sum()
    return {"modes": int((counts > 0).sum()), "kl": float(kl), "least": int(counts.min()), "most": int(counts.max())}


def learned(name: str, seed: int, X: Tensor, judge: Judge, quick: bool) -> dict[str, Any]:
    """One model trained on stacks, and the modes of its samples."""
    steps, settings = MODELS[name]
    trainer = {**TRAINER, "steps": 12 if quick else steps}
    small = {"channels": (8, 16)} if quick else {}
    model = benthic.DCGAN(**{**COMMON, **settings, **small}, trainer=trainer, random_state=seed)
    start = time.perf_counter()
    model.fit(stacked(X, 400 if quick else ROWS, seed))
    seconds = time.perf_counter() - start
    drawn = model.sample(300 if quick else DRAWN, seed=seed)
    return {**modes(judge, drawn), "seconds": seconds, "settings": {**COMMON, **settings, "trainer": trainer}}


def main() -> None:
    """Every model and seed, one line each."""
    given = arguments(__doc__ or "", names={"nargs": "+", "default": list(MODELS)})
    warnings.simplefilter("ignore")
    X, y, held, truth = pictures(given.data, given.quick)
    results, drawn = Results(given.out, "stacked_mnist"), 300 if given.quick else DRAWN
    judge, facts = train_judge(X, y, held, truth, 1 if given.quick else 10)
    results.found["judge"] = facts
    results.once("real pictures", lambda: {**modes(judge, stacked(held, drawn, 0)), **facts})
    for seed in given.seeds:
        for name in given.names:
            results.once(f"{name}, seed {seed}", lambda n=name, s=seed: learned(n, s, X, judge, given.quick))


if __name__ == "__main__":
    main()
