"""A permutation test of two large samples, beside what the device's arithmetic and memory allow.

Run with ``python -m benchmarks.gpu.mmd OUT.json``; ``--device cpu --rows 2000`` tries it on a small machine.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.clock import seconds
from benthic.kernels import RBF, median_distance, mmd_test


def gemm_rate(device: str, size: int) -> float:
    """Floating-point operations a second of a square float32 product, without reduced precision."""
    A, B = (torch.randn(size, size, device=device) for _ in range(2))
    C = torch.empty_like(A)
    return 2 * size**3 / seconds(lambda: torch.mm(A, B, out=C), device=device)


def copy_rate(device: str, numbers: int) -> float:
    """Bytes a second, read and written, of a copy in the device's memory."""
    A = torch.randn(numbers, device=device)
    B = torch.empty_like(A)
    return 8 * numbers / seconds(lambda: B.copy_(A), device=device)


def work_of(rows: int, columns: int, permutations: int) -> tuple[float, float]:
    """Operations and bytes the test cannot do without: each pair of the pooled points once.

    A pair costs a dot product of the points and one multiply-add for each labeling; its kernel value is written by
    the first product, read and written by the exponential, and read by the second product.
    """
    pairs = 2 * rows * (2 * rows + 1) / 2
    return pairs * 2 * (columns + permutations + 2), pairs * 16


def measure(device: str, rows: int, columns: int, permutations: int, repeats: int) -> dict[str, Any]:
    """The time of the test and the fraction of the binding rate it reaches."""
    source = torch.Generator(device).manual_seed(0)
    X, Y = (torch.randn(rows, columns, device=device, generator=source) for _ in range(2))
    Y[:, 0] += 0.02
    kernel = RBF(median_distance(torch.cat([X, Y])))
    small = not device.startswith("cuda")
    arithmetic, memory = gemm_rate(device, 1024 if small else 8192), copy_rate(device, 2**24 if small else 2**29)
    if not small:
        torch.cuda.reset_peak_memory_stats()
    result: list[Any] = []
    taken = seconds(lambda: result.append(mmd_test(X, Y, kernel, permutations, seed=0)), repeats, device)
    operations, moved = work_of(rows, columns, permutations)
    least = {"arithmetic": operations / arithmetic, "memory": moved / memory}
    binds = max(least, key=lambda name: least[name])
    return {
        "rows": [rows, rows],
        "columns": columns,
        "permutations": permutations,
        "seconds": taken,
        "float32 product flop/s": arithmetic,
        "copy bytes/s": memory,
        "operations": operations,
        "bytes": moved,
        "least seconds by arithmetic": least["arithmetic"],
        "least seconds by memory": least["memory"],
        "binds": binds,
        "fraction of what binds": least[binds] / taken,
        "peak GiB": None if small else torch.cuda.max_memory_allocated() / 2**30,
        "full matrix GiB": 4 * (2 * rows) ** 2 / 2**30,
        "p value": result[-1].p_value,
        "statistic": result[-1].statistic,
        "95 % of the null": result[-1].quantile(0.95),
    }


def main() -> None:
    """Measure, print, and write one JSON file where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", nargs="?", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=64)
    parser.add_argument("--permutations", type=int, nargs="+", default=[200, 1000])
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    named = torch.cuda.get_device_name() if given.device.startswith("cuda") else "cpu"
    results: dict[str, Any] = {"device": named, "torch": torch.__version__}
    for permutations in given.permutations:
        found = measure(given.device, given.rows, given.columns, permutations, given.repeats)
        results[f"mmd test, {permutations} permutations"] = found
        print(
            f"{given.rows} x {given.rows} points, {given.columns} columns, {permutations} permutations: "
            f"{found['seconds']:.3g} s, {found['fraction of what binds']:.0%} of {found['binds']}, "
            f"p = {found['p value']:.3g}",
            flush=True,
        )
    if given.out:
        given.out.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
