"""Exact k nearest neighbors on a GPU: n = 1 million, d = 64, 10 000 queries, k = 10, beside what binds it.

Run with ``python -m benchmarks.gpu.knn OUT.json``. Three limits are measured on the device itself: single-precision
products, the same products as three of bfloat16 on tensor cores, and the memory that scores pass through twice
(written by the product, read by the minimum over groups). The peer is the plain way in torch: a single-precision
product and ``topk``, whose neighbors are not exact.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.gpu.clock import seconds
from benthic.kernels import grouping
from benthic.kernels.neighbors import search

ROWS, COLUMNS, QUERIES, NEIGHBORS = 1_000_000, 64, 10_000, 10
PEAK = 67e12  # single-precision operations a second of an H200, outside tensor cores


def normals(n: int, seed: int) -> Tensor:
    """Rows of a normal law."""
    return torch.randn(n, COLUMNS, generator=torch.Generator("cuda").manual_seed(seed), device="cuda")


def mixed(n: int, seed: int) -> Tensor:
    """Rows around a thousand centers, as real data lie."""
    centers = normals(1000, 7) * 3
    source = torch.Generator("cuda").manual_seed(seed)
    return centers[torch.randint(0, 1000, (n,), generator=source, device="cuda")] + normals(n, seed + 1)


def plain(X: Tensor, Y: Tensor) -> Tensor:
    """A product in single precision and ``topk`` over whole rows."""
    b2 = Y.square().sum(1)
    return torch.cat(
        [torch.addmm(b2, rows, Y.T, alpha=-2).topk(NEIGHBORS, largest=False).indices for rows in X.split(500)]
    )


def truth(X: Tensor, Y: Tensor) -> Tensor:
    """Indices of a float64 search by differences, for a few queries."""
    D = torch.cat(
        [
            torch.cdist(X.double(), part.double(), compute_mode="donot_use_mm_for_euclid_dist")
            for part in Y.split(100_000)
        ],
        1,
    )
    return D.topk(NEIGHBORS, largest=False).indices


def limits(X: Tensor, Y: Tensor) -> dict[str, float]:
    """Seconds that products and memory alone would take for all queries, from a block of them."""
    rows, made = 1024, grouping.frame(X, Y)
    part, width = made.left[:rows], 1 << 16
    blocks = QUERIES / rows * ROWS / width
    single, score = X[:rows].contiguous(), torch.empty(rows, width, device="cuda")
    halves = seconds(lambda: grouping._scores(part, made.right[:width], made.bias[:width], None))
    floats = seconds(lambda: torch.mm(single, Y[:width].T, out=score))
    least = seconds(lambda: torch.amin(score.unflatten(1, (grouping.GROUP, -1)), 1))
    other = torch.empty_like(score)
    copy = seconds(lambda: other.copy_(score))
    return {
        "single-precision product": floats * blocks,
        "products of halves": halves * blocks,
        "minima of groups": least * blocks,
        "memory, written once and read once": copy * blocks,
        "single precision at its peak": 2 * ROWS * QUERIES * COLUMNS / PEAK,
    }


def judged(make: Callable[[int, int], Tensor]) -> dict[str, Any]:
    """Seconds of ours and of the plain way, agreement with the truth, memory, and shares of the limits."""
    Y, X = make(ROWS, 0), make(QUERIES, 11)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    found = search(X, Y, NEIGHBORS)[1]
    memory = (torch.cuda.max_memory_allocated() - before) / 2**30
    doubt = float((grouping.by_products(X[:2000], Y, NEIGHBORS)[1][:, 0] < 0).float().mean())
    ours = {
        f"2^{power}": seconds(lambda power=power: search(X, Y, NEIGHBORS, elements=1 << power))
        for power in (24, 25, 26, 27, 28)
    }
    mine = seconds(lambda: search(X, Y, NEIGHBORS))
    theirs = seconds(lambda: plain(X, Y), 3)
    exact = truth(X[:64], Y)
    bounds = limits(X, Y)
    return {
        "benthic seconds": mine,
        "benthic seconds by entries of a tile": ours,
        "plain torch seconds": theirs,
        "plain / benthic": theirs / mine,
        "share of exact rows, benthic": float((found[:64] == exact).all(1).float().mean()),
        "share of exact rows, plain": float((plain(X[:64], Y) == exact).all(1).float().mean()),
        "rows in doubt": doubt,
        "extra memory, GiB": memory,
        "limits, seconds": bounds,
        "shares of limits": {name: value / mine for name, value in bounds.items()},
        "binding": max(("products of halves", "memory, written once and read once"), key=bounds.__getitem__),
    }


def main() -> None:
    """Run everything and write one JSON file."""
    results: dict[str, Any] = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "size": {"rows": ROWS, "columns": COLUMNS, "queries": QUERIES, "neighbors": NEIGHBORS},
    }
    for name, make in (("normal", normals), ("clusters", mixed)):
        results[name] = judged(make)
        print(json.dumps({name: results[name]}), flush=True)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
