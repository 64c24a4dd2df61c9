"""SVC prediction on a GPU beside what binds it: arithmetic, memory, or the exponential.

Run with ``python -m benchmarks.gpu.svc OUT.json``; ``--device cpu --rows 2000 --vectors 500`` tries it on a small
machine. The machine is assembled from random support vectors, since only prediction is measured; its answers on some
rows are compared with double precision on the processor.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.gpu.clock import seconds
from benchmarks.gpu.mmd import copy_rate, gemm_rate
from benthic.svm import SVC
from benthic.svm.similarity import Similarity, expand

# H200, published: float32 without tensor cores, bytes of HBM3e; exponentials: 132 SM x 16 a clock x 1.98 GHz
PEAK = {"arithmetic": 67e12, "memory": 4.8e12, "exponentials": 4.18e12}


def machine(vectors: int, columns: int) -> Any:
    """A machine of two classes with random support vectors, fitted to a few rows and then enlarged."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, columns))
    model = SVC().fit(X, (X[:, 0] > 0).astype(int))
    half = vectors // 2
    model.support_vectors_ = rng.normal(size=(2 * half, columns))
    model.support_ = np.arange(2 * half)
    model.n_support_ = np.array([half, half])
    model.dual_coef_ = np.concatenate([-rng.random(half), rng.random(half)])[None, :]
    return model


def least(rows: int, vectors: int, columns: int, device: str) -> dict[str, float]:
    """Seconds below which prediction cannot go, by each resource, from the published rates.

    A pair of a row and a support vector costs one product over the columns, one exponential and one multiply-add;
    a fused kernel would move only rows, vectors and answers, so the pairs themselves cost no memory.
    """
    pairs = rows * vectors
    return {
        "arithmetic": pairs * (2 * columns + 4) / PEAK["arithmetic"],
        "exponentials": pairs / PEAK["exponentials"],
        "memory": 4 * (rows * (columns + 1) + vectors * (columns + 1)) / PEAK["memory"],
    }


def measure(device: str, rows: int, vectors: int, columns: int, repeats: int, tiles: list[int]) -> dict[str, Any]:
    """Time ``decision_function`` on float32 rows of the device, and the expansion alone by size of tile."""
    model = machine(vectors, columns)
    source = torch.Generator(device).manual_seed(0)
    X = torch.randn(rows, columns, device=device, generator=source)
    few = X[:500].cpu().double()
    error = float((model.decision_function(X[:500]).cpu().double() - model.decision_function(few)).abs().max())
    taken = seconds(lambda: model.decision_function(X), repeats, device)
    similarity = Similarity("rbf", model._gamma)
    S = torch.as_tensor(model.support_vectors_).to(X)
    W = torch.as_tensor(model.dual_coef_.T.copy()).to(X)
    by_tile = {
        str(size): seconds(lambda size=size: expand(similarity, X, S, W, size), repeats, device) for size in tiles
    }
    floor = least(rows, vectors, columns, device)
    binds = max(floor, key=lambda name: floor[name])
    pairs = rows * vectors
    return {
        "rows": rows,
        "support vectors": vectors,
        "columns": columns,
        "seconds": taken,
        "pairs a second": pairs / taken,
        "least seconds": floor,
        "binds": binds,
        "fraction of what binds": floor[binds] / taken,
        "bytes a second if tiles went through memory": 16 * pairs / taken,
        "seconds by entries of a tile": by_tile,
        "largest difference from double precision": error,
    }


def main() -> None:
    """Measure, print, and write one JSON file where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", nargs="?", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--vectors", type=int, default=20_000)
    parser.add_argument("--columns", type=int, nargs="+", default=[20, 64, 256])
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    small = not given.device.startswith("cuda")
    results: dict[str, Any] = {
        "device": "cpu" if small else torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "precision of products": torch.get_float32_matmul_precision(),
        "published rates": PEAK,
        "measured float32 product flop/s": gemm_rate(given.device, 1024 if small else 8192),
        "measured copy bytes/s": copy_rate(given.device, 2**22 if small else 2**29),
    }
    tiles = [2**18, 2**20] if small else [2**22, 2**23, 2**24, 2**25, 2**26]
    for columns in given.columns:
        found = measure(given.device, given.rows, given.vectors, columns, given.repeats, tiles)
        results[f"{columns} columns"] = found
        print(
            f"{given.rows} rows x {given.vectors} support vectors, {columns} columns: {found['seconds']:.3g} s, "
            f"{found['fraction of what binds']:.0%} of {found['binds']}; tiles {found['seconds by entries of a tile']}",
            flush=True,
        )
    if given.out:
        given.out.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
