"""Whether updates replayed as CUDA graphs, and tf32 products, reach the bound of ordinary training, over several seeds.

Run with ``python -m benchmarks.gpu.vae_bound MNIST.npz OUT.json [SEEDS]``. A VAE 784-512-256-16 learns the digits,
binarized afresh at every step, for some epochs with each setting; the bound is taken on the test digits, which are
binarized once.
"""

from __future__ import annotations

import json
import statistics
import sys
import warnings
from pathlib import Path
from typing import Any

import torch

import benthic
from benchmarks.gpu.vae_likelihood import digits

SETTINGS: dict[str, dict[str, Any]] = {
    "eager": {"capture": False},
    "captured": {},
    "captured, tf32": {"precision": "tf32"},
}
EPOCHS = 10


def bound(X: torch.Tensor, held: torch.Tensor, seed: int, setting: dict[str, Any]) -> float:
    """The test bound of one run, in nats."""
    trainer = {"epochs": EPOCHS, "batch_size": 128, "lr": 1e-3, "schedule": "cosine", "verbose": False, **setting}
    model = benthic.VAE(
        16, hidden_layer_sizes=(512, 256), decoder="bernoulli", binarize=True, trainer=trainer, random_state=seed
    )
    return float(model.fit(X).likelihood(held, "elbo").mean())


def main(data: str, path: Path, seeds: int) -> None:
    """All settings with all seeds, and the differences from eager training."""
    warnings.simplefilter("ignore")
    X, held = digits(data)
    found: dict[str, Any] = {name: [] for name in SETTINGS}
    for seed in range(seeds):
        for name, setting in SETTINGS.items():
            found[name].append(bound(X, held, seed, setting))
        print(seed, {name: values[-1] for name, values in found.items()}, flush=True)
    for name in list(SETTINGS)[1:]:
        gaps = [a - b for a, b in zip(found[name], found["eager"], strict=True)]
        found[f"{name} minus eager"] = {"mean": statistics.mean(gaps), "largest": max(map(abs, gaps))}
    found |= {"epochs": EPOCHS, "device": torch.cuda.get_device_name(), "torch": torch.__version__}
    path.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 4)
