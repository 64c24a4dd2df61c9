"""How close adversarial models come to Fashion-MNIST, beside a mixture of 50 Gaussians and real pictures themselves.

Run with ``python -m benchmarks.gpu.fashion_gan FASHION.npz OUT_FOLDER [--seeds 0 1 2] [--names ...] [--quick]``. The
Fréchet distance is taken between 10 000 generated pictures and the 10 000 of the test set, in the 128 features of a
classifier trained here; its floor is the distance of as many training pictures. The share is the excess over the
floor against that of the mixture. Seeds that are done are not done again.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import torch
from torch import Tensor

import benthic
from benchmarks.gpu.picture_judge import SIDE, Judge, Results, arguments, pictures, train_judge
from benthic.metrics import frechet_distance, prdc

TRAINER: dict[str, Any] = {"batch_size": 128, "lr": 2e-4, "ema": 0.999, "precision": "tf32", "verbose": False}
COMMON: dict[str, Any] = {"latent_dim": 128, "channels": (64, 128, 256)}
MODELS: dict[str, tuple[int, dict[str, Any]]] = {
    "DCGAN": (40_000, {"loss": "non_saturating", "critic_norm": "batch"}),
    "WGAN-GP": (40_000, {"loss": "wasserstein", "penalty": "gradient", "critic_steps": 3}),
}


def measured(judge: Judge, held: Tensor, drawn: Tensor) -> dict[str, float]:
    """The Fréchet distance with its error, and what the pictures cover, in the features of the judge."""
    real, fake = judge.features(held), judge.features(drawn.reshape(len(drawn), -1).clamp(0, 1))
    distance = frechet_distance(real, fake)
    covered = prdc(real, fake)._asdict()
    return {
        "frechet": distance.value,
        "frechet_error": distance.stderr,
        **{name: estimate.value for name, estimate in covered.items()},
    }


def mixture(X: Tensor, held: Tensor, judge: Judge, quick: bool) -> dict[str, Any]:
    """Samples of a mixture of Gaussians with full covariances, learned from pixels with a little noise."""
    start = time.perf_counter()
    noisy = X + 0.01 * torch.randn(X.shape, device=X.device, generator=torch.Generator(X.device).manual_seed(0))
    model = benthic.GaussianMixture(3 if quick else 50, max_iter=30, reg_covar=1e-4, random_state=0).fit(noisy.double())
    found = measured(judge, held, torch.as_tensor(model.sample(len(held), seed=0)).to(held))
    return {**found, "seconds": time.perf_counter() - start}


def learned(name: str, seed: int, X: Tensor, held: Tensor, judge: Judge, quick: bool) -> dict[str, Any]:
    """One adversarial model and the measures of its samples."""
    steps, settings = MODELS[name]
    trainer = {**TRAINER, "steps": 40 if quick else steps}
    small = {"channels": (8, 16)} if quick else {}
    model = benthic.DCGAN(**{**COMMON, **settings, **small}, trainer=trainer, random_state=seed)
    start = time.perf_counter()
    model.fit(X.reshape(-1, 1, SIDE, SIDE))
    seconds = time.perf_counter() - start
    found = measured(judge, held, model.sample(len(held), seed=seed))
    return {**found, "seconds": seconds, "settings": {**COMMON, **settings, "trainer": trainer}}


def main() -> None:
    """Floor and baseline, then every model and seed, one line each."""
    given = arguments(__doc__ or "", names={"nargs": "+", "default": list(MODELS)})
    warnings.simplefilter("ignore")
    X, y, held, truth = pictures(given.data, given.quick)
    results = Results(given.out, "fashion_gan")
    judge, facts = train_judge(X, y, held, truth, 1 if given.quick else 10)
    order = torch.randperm(len(X), generator=torch.Generator().manual_seed(0))[: len(held)].to(X.device)
    floor = results.once("real training pictures", lambda: {**measured(judge, held, X[order]), **facts})["frechet"]
    base = results.once("mixture of Gaussians", lambda: mixture(X, held, judge, given.quick))["frechet"] - floor

    def run(name: str, seed: int) -> dict[str, Any]:
        found = learned(name, seed, X, held, judge, given.quick)
        return {**found, "share_of_excess": (found["frechet"] - floor) / base}

    for seed in given.seeds:
        for name in given.names:
            results.once(f"{name}, seed {seed}", lambda n=name, s=seed: run(n, s))


if __name__ == "__main__":
    main()
