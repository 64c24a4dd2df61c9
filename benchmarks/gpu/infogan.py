"""What the codes of an InfoGAN learned on MNIST mean: the category beside the digit, the numbers beside the shape.

Run with ``python -m benchmarks.gpu.infogan MNIST.npz OUT_FOLDER [--seeds 0 1 2] [--names paper ...] [--quick]``. No
label is used in training; the accuracy is that of the best matching of categories with digits. Among several seeds the
one is chosen whose categories of real pictures tell most of those of moved copies, which needs no labels either.
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

import benthic
from benchmarks.gpu.picture_judge import SIDE, Results, arguments, pictures, save_png

STEPS = 10_000
TRAINER: dict[str, Any] = {
    "batch_size": 128,
    "lr": 2e-4,
    "optimizer": {"name": "adam", "betas": (0.5, 0.999)},
    "precision": "tf32",
    "verbose": False,
}
COMMON: dict[str, Any] = {"latent_dim": 62, "categories": 10, "continuous": 2, "channels": (64, 128)}
MODELS: dict[str, dict[str, Any]] = {
    "paper": {"critic_norm": "batch", "penalty": None, "generator_lr": 1e-3, "dense": 1024},
    "invariant": {"critic_norm": "batch", "penalty": None, "generator_lr": 1e-3, "dense": 1024, "invariance": 1.0},
    "batch": {"critic_norm": "batch", "penalty": None, "generator_lr": 1e-3},
    "spectral": {"critic_norm": "spectral", "penalty": None, "generator_lr": 5e-4},
    "R1": {"penalty": "r1", "penalty_weight": 1.0},
}


def matched(codes: np.ndarray, digits: np.ndarray) -> tuple[float, np.ndarray]:
    """The accuracy of the best one-to-one matching of categories with digits, and the category of each digit."""
    table = np.zeros((10, 10), dtype=int)
    np.add.at(table, (codes, digits), 1)
    categories, matches = linear_sum_assignment(-table)
    return float(table[categories, matches].sum() / len(digits)), categories[np.argsort(matches)]


def learned(name: str, seed: int, data: tuple[Tensor, ...], quick: bool, folder: Path) -> dict[str, Any]:
    """One model, how well its categories are digits, and how sure it is of them."""
    X, _, held, truth = data
    settings = {**COMMON, **MODELS[name], **({"channels": (8, 16)} if quick else {})}
    trainer = {**TRAINER, "steps": 60 if quick else STEPS}
    model = benthic.InfoGAN(**settings, trainer=trainer, random_state=seed)
    start = time.perf_counter()
    model.fit(X.reshape(-1, 1, SIDE, SIDE))
    seconds = time.perf_counter() - start
    pictured = held.reshape(-1, 1, SIDE, SIDE)
    accuracy, order = matched(model.predict(pictured).cpu().numpy(), truth.cpu().numpy())
    draw(model, order, folder / f"infogan_{name}_{seed}")
    return {
        "accuracy": accuracy,
        "information_on_real": model.information(pictured),
        "agreement": model.agreement(pictured),
        "bound": model.information_,
        "seconds": seconds,
        "settings": {**settings, "trainer": trainer},
    }


def draw(model: Any, order: np.ndarray, path: Path) -> None:
    """Each digit while one continuous code moves: a grid for each code, as a gray PNG written by hand."""
    grids = []
    for code in range(model.continuous):
        rows = [model.vary(code, np.linspace(-1.5, 1.5, 9), category=int(c), seed=3) for c in order]
        grids.append(torch.cat([torch.cat(list(row[:, 0].float().cpu()), 1) for row in rows], 0))
    save_png(path.with_suffix(".png"), torch.cat(grids, 1))


def main() -> None:
    """Every seed, one line each, then the one chosen without labels."""
    given = arguments(__doc__ or "", names={"nargs": "+", "default": ["paper", "invariant"], "choices": list(MODELS)})
    warnings.simplefilter("ignore")
    data = pictures(given.data, given.quick)
    results = Results(given.out, "infogan")
    found = {
        key: results.once(f"{key[0]}, seed {key[1]}", lambda k=key: learned(*k, data, given.quick, given.out))
        for key in [(name, seed) for seed in given.seeds for name in given.names]
    }
    best = max(found, key=lambda key: found[key]["agreement"])
    results.found.pop("chosen", None)
    results.once("chosen", lambda: {"model": best[0], "seed": best[1], "accuracy": found[best]["accuracy"]})


if __name__ == "__main__":
    main()
