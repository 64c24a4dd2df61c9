"""Sinkhorn on a GPU: what one iteration takes beside what the device can read, and point clouds without a stored cost.

Run with ``python -m benchmarks.gpu.sinkhorn OUT.json``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.clock import seconds
from benthic.transport import PointCloud, sinkhorn

EPSILON = 0.05
GIGA = 1e9


def bandwidth() -> dict[str, float]:
    """Bytes a second of a copy (read and written) and of a sum (read only), 4 GB of float32."""
    values = torch.ones(1 << 30, device="cuda")
    other = torch.empty_like(values)
    size = values.numel() * 4
    copy, read = seconds(lambda: other.copy_(values)), seconds(lambda: values.sum())
    return {"copy GB/s": 2 * size / copy / GIGA, "read GB/s": size / read / GIGA}


def clouds(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Points of two overlapping squares."""
    stream = torch.Generator(device="cuda").manual_seed(0)
    X = torch.rand(n, 2, generator=stream, device="cuda")
    return X, 0.2 + torch.rand(n, 2, generator=stream, device="cuda")


def difference(solve: Callable[[int], Any], few: int, many: int) -> float:
    """Seconds an iteration, from two runs, so that the work before and after the iterations drops out."""
    return (seconds(lambda: solve(many), 3) - seconds(lambda: solve(few), 3)) / (many - few)


def stored(n: int, best: float) -> dict[str, float]:
    """K in memory: an iteration reads it twice, once for each marginal."""
    cost = PointCloud(*clouds(n)).matrix()

    def solve(iterations: int) -> Any:
        return sinkhorn(None, None, cost, EPSILON, tol=0, max_iter=iterations)

    each = difference(solve, 100, 600)
    moved = 2 * n * n * 4
    whole = seconds(lambda: solve(100), 3)
    return {
        "n": n,
        "seconds an iteration": each,
        "bytes an iteration": moved,
        "GB/s": moved / each / GIGA,
        "fraction of the read bandwidth": moved / each / GIGA / best,
        "seconds of 100 iterations with all the rest": whole,
        "fraction of the read bandwidth, all the rest included": 100 * moved / whole / GIGA / best,
        "peak memory GB": torch.cuda.max_memory_allocated() / GIGA,
        "marginal error after 100": float(solve(100).error),
    }


def streamed(n: int, few: int, many: int) -> dict[str, float]:
    """A cost that is never stored: exponentials of a block of rows serve both marginals."""
    cloud = PointCloud(*clouds(n))
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()

    def solve(iterations: int) -> Any:
        return sinkhorn(None, None, cloud, EPSILON, tol=0, max_iter=iterations)

    each = difference(solve, few, many)
    return {
        "n": n,
        "seconds an iteration": each,
        "entries a second": n * n / each,
        "memory added GB": (torch.cuda.max_memory_allocated() - before) / GIGA,
        "memory of a stored cost GB": n * n * 4 / GIGA,
    }


def agreement(n: int) -> dict[str, float]:
    """The largest difference of potentials between the ways and the devices, at convergence in float64."""
    X, Y = (points.double() for points in clouds(n))
    ways = [
        sinkhorn(None, None, PointCloud(X, Y).matrix(), EPSILON, tol=1e-8),
        sinkhorn(None, None, (X, Y), EPSILON, tol=1e-8),
        sinkhorn(None, None, (X.cpu(), Y.cpu()), EPSILON, tol=1e-8),
    ]
    gaps = [float((one.f.cpu() - ways[-1].f).abs().max()) for one in ways[:2]]
    return {"n": n, "stored against cpu": gaps[0], "cloud against cpu": gaps[1]}


def main() -> None:
    """Run everything and write one JSON file."""
    results: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}

    def note(name: str, found: dict[str, float]) -> None:
        results[name] = found
        print(name, found, flush=True)

    note("bandwidth", bandwidth())
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    note("stored", stored(16_384, max(results["bandwidth"].values())))
    torch.cuda.empty_cache()
    note("streamed 16384", streamed(16_384, 10, 60))
    note("streamed 50000", streamed(50_000, 5, 25))
    note("agreement", agreement(9000))
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
