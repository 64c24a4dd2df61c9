"""Likelihood of binarized MNIST under members of the VAE family, trained on a GPU.

Run with ``python -m benchmarks.gpu.vae_likelihood MNIST.npz OUT_FOLDER NAME...``. The digits are binarized afresh at
every step of training, the test set once by a fixed seed; one stochastic layer of 50 units and two hidden layers of
200, as in Burda et al., 2016, whose table has 86.76 nats for the VAE, 85.54 for IWAE with k=5 and 84.78 with k=50. The
likelihood is by importance sampling with k=5000 draws. A run that is cut short goes on from its last checkpoint.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

import benthic

DRAWS = 5000
COMMON: dict[str, Any] = {
    "hidden_layer_sizes": (200, 200),
    "activation": "tanh",
    "decoder": "bernoulli",
    "binarize": True,
    "network": "mlp",
    "random_state": 0,
}
TRAINER: dict[str, Any] = {
    "batch_size": 100,
    "lr": 2e-3,
    "schedule": "cosine",
    "ema": 0.9995,
    "precision": "tf32",
    "verbose": False,
}
MODELS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "VAE": ("VAE", 900, {"latent_dim": 50}),
    "IWAE k=5": ("ImportanceWeightedVAE", 900, {"latent_dim": 50, "draws": 5}),
    "IWAE k=50": ("ImportanceWeightedVAE", 700, {"latent_dim": 50, "draws": 50}),
    "VampPrior": ("VAE", 800, {"latent_dim": 50, "prior": "vamp", "prior_components": 500, "kl_warmup": 0.1}),
    "three levels": (
        "HierarchicalVAE",
        800,
        {"level_dims": (50, 32, 16), "level_layer_sizes": (200,), "kl_warmup": 0.1},
    ),
}


def digits(path: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Gray training digits and binarized test digits, (n, 784), on the device."""
    with np.load(path) as file:
        gray = torch.from_numpy(file["images"]).float() / 255
    held = torch.bernoulli(gray[60_000:], generator=torch.Generator().manual_seed(0))
    return gray[:60_000].cuda(), held.cuda()


def judge(name: str, X: torch.Tensor, held: torch.Tensor, folder: Path) -> dict[str, Any]:
    """Train one model and estimate its likelihood."""
    kind, epochs, more = MODELS[name]
    trainer = {**TRAINER, "epochs": epochs, "checkpoint": str(folder / name), "resume": True}
    model = getattr(benthic, kind)(trainer=trainer, **COMMON, **more)
    start = time.perf_counter()
    model.fit(X)
    trained = time.perf_counter() - start
    found = model.likelihood(held, f"importance({DRAWS})")
    return {
        "nats": -found.mean(),
        "error over rows": float(found.value.std() / len(held) ** 0.5),
        "elbo": -model.likelihood(held, "elbo").mean(),
        "train elbo": -model.likelihood(torch.bernoulli(X[:10_000]), "elbo").mean(),
        "active units": model.active_units(),
        "epochs": epochs,
        "seconds": trained,
        "trainer": TRAINER,
    }


def main(data: str, folder: Path, names: list[str]) -> None:
    """The models named, or all, one line each; what is done already is not done again."""
    warnings.simplefilter("ignore")
    X, held = digits(data)
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / "vae_likelihood.json"
    found = json.loads(kept.read_text()) if kept.exists() else {}
    for name in names or list(MODELS):
        found[name] = judge(name, X, held, folder / "runs")
        print(name, json.dumps(found[name]), flush=True)
        kept.write_text(json.dumps({**found, "device": torch.cuda.get_device_name()}, indent=1))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
