"""A neural ODE on MNIST with the standard convolutional front, and the identity in place of the flow.

The network of Chen et al., 2018: convolutions to 64 channels of 7 by 7, a flow of them, their means, a linear layer.
Run with ``python -m benchmarks.gpu.neural_ode FOLDER OUT.json``, FOLDER with the four gzipped IDX files.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benthic import NeuralODEClassifier
from benthic.data.images import read_idx

CHANNELS = 64
VARIANTS = {"flow": {"t1": 1.0}, "identity": {"t1": 0.0}}
LIMIT = 0.99


def mnist(folder: Path) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Training and test pictures (n, 1, 28, 28) with their labels."""
    train, test = (read_idx(folder / f"{part}-images-idx3-ubyte.gz") for part in ("train", "t10k"))
    if train[1] is None or test[1] is None:
        raise FileNotFoundError(f"there are no labels beside the pictures in {folder}")
    return (train[0], train[1]), (test[0], test[1])


def fit(data: Any, variant: str, seed: int, epochs: int, device: str) -> dict[str, float]:
    """Train one network, and judge it by the test pictures once, at the end."""
    (X, y), (X_test, y_test) = data
    start = time.perf_counter()
    model = NeuralODEClassifier(
        CHANNELS,
        (CHANNELS,),
        method="rk4",
        solver_steps=2,
        trainer={"epochs": epochs, "batch_size": 128, "lr": 2e-3, "device": device, "verbose": False},
        random_state=seed,
        **VARIANTS[variant],
    ).fit(X, y)
    seconds = time.perf_counter() - start
    return {
        "seed": seed,
        "test accuracy": model.score(X_test, y_test),
        "train accuracy": model.score(X[:10_000], y[:10_000]),
        "weights": sum(p.numel() for p in model.network_.parameters()),
        "seconds": seconds,
    }


def main() -> None:
    """Run every seed of both and write one JSON file after each fit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rows", type=int, default=60_000, help="train on fewer pictures, to try it")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    (X, y), test = mnist(options.folder)
    data = (X[: options.rows], y[: options.rows]), test
    where = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    results: dict[str, Any] = {"device": where, "torch": torch.__version__, "epochs": options.epochs}
    for seed in options.seeds:
        for variant in VARIANTS:
            found = fit(data, variant, seed, options.epochs, device)
            results.setdefault(variant, []).append(found)
            print(variant, found, flush=True)
            if options.out is not None:
                options.out.write_text(json.dumps(results, indent=2))
    worst = min(found["test accuracy"] for found in results["flow"])
    print(f"worst seed {worst:.4f}, limit {LIMIT}: {'kept' if worst >= LIMIT else 'missed'}")


if __name__ == "__main__":
    main()
