"""The first models on a GPU: training throughput, EM and Newton passes, beside the CPU of the same machine.

Run with ``python -m benchmarks.gpu.tenants OUT.json``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import benthic
from benchmarks.gpu.clock import seconds


def mixture(rng: np.random.Generator) -> dict[str, float]:
    """EM, 20 iterations, n=500000, d=16, k=16, full covariances, float32."""
    rows = rng.normal(size=(500_000, 16)).astype(np.float32) + 4 * rng.integers(0, 4, (500_000, 1))
    means = rows[:16].copy()

    def fit(data: Any) -> Any:
        start = {
            "weights_init": np.full(16, 1 / 16),
            "means_init": means,
            "precisions_init": np.stack([np.eye(16)] * 16),
        }
        return benthic.GaussianMixture(16, tol=0.0, max_iter=20, random_state=0, **start).fit(data)

    on_gpu, on_cpu = torch.tensor(rows, device="cuda"), torch.tensor(rows)
    gpu, cpu = seconds(lambda: fit(on_gpu)), seconds(lambda: fit(on_cpu), repeats=2)
    gap = abs(fit(on_gpu).score(on_cpu) - fit(on_cpu).score(on_cpu))
    return {"gpu seconds": gpu, "cpu seconds": cpu, "cpu / gpu": cpu / gpu, "score gap": gap}


def logistic(rng: np.random.Generator) -> dict[str, float]:
    """Multinomial regression, n=500000, d=100, 10 classes, float64."""
    X = rng.normal(size=(500_000, 100))
    y = (X @ rng.normal(size=(100, 10)) + rng.gumbel(size=(500_000, 10))).argmax(1)

    def fit(device: str) -> Any:
        return benthic.LogisticRegression().fit(torch.tensor(X, device=device), torch.tensor(y, device=device))

    gpu, cpu = seconds(lambda: fit("cuda"), repeats=3), seconds(lambda: fit("cpu"), repeats=1)
    a, b = fit("cuda").coef_, fit("cpu").coef_
    gap = float((torch.as_tensor(a).cpu() - torch.as_tensor(b).cpu()).abs().max())
    return {"gpu seconds": gpu, "cpu seconds": cpu, "cpu / gpu": cpu / gpu, "coefficient gap": gap}


def overhead(rng: np.random.Generator) -> dict[str, float]:
    """An MLP 784-1024-1024-10, batch 1024, 2000 steps: fit beside a hand-written loop without host reads."""
    X = torch.tensor(rng.normal(size=(65_536, 784)).astype(np.float32), device="cuda")
    y = torch.tensor(rng.integers(0, 10, 65_536), device="cuda")

    def by_hand() -> None:
        model = nn.Sequential(
            nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
        ).cuda()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
        step = 0
        while step < 2000:
            for rows in torch.randperm(len(X), device="cuda").split(1024):
                optimizer.zero_grad(set_to_none=True)
                F.cross_entropy(model(X[rows]), y[rows]).backward()
                optimizer.step()
                step += 1
                if step == 2000:
                    break

    def ours() -> None:
        trainer = benthic.Trainer(steps=2000, batch_size=1024, verbose=False)
        benthic.MLPClassifier((1024, 1024), alpha=0.0, trainer=trainer, random_state=0).fit(X, y)

    hand, mine = seconds(by_hand, 3), seconds(ours, 3)
    return {"ours seconds": mine, "hand-written seconds": hand, "ours / hand-written": mine / hand}


def vae(rng: np.random.Generator) -> dict[str, float]:
    """A VAE on 65536 rows of 784 columns, 500 steps of 2048 rows, float32 and bf16."""
    X = torch.tensor(rng.normal(size=(65_536, 784)).astype(np.float32), device="cuda")

    def fit(precision: str) -> Any:
        trainer = benthic.Trainer(steps=500, batch_size=2048, precision=precision, verbose=False)
        return benthic.VAE(32, hidden_layer_sizes=(1024, 512), trainer=trainer, random_state=0).fit(X)

    single, half = seconds(lambda: fit("float32"), 3), seconds(lambda: fit("bf16"), 3)
    return {"float32 seconds": single, "bf16 seconds": half, "float32 / bf16": single / half}


def main() -> None:
    """Run everything and write one JSON file."""
    rng = np.random.default_rng(0)
    results: dict[str, Any] = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cpu threads": torch.get_num_threads(),
    }
    for task in (overhead, vae, mixture, logistic):
        results[task.__name__] = task(rng)
        print(task.__name__, results[task.__name__], flush=True)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
