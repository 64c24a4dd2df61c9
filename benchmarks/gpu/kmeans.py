"""k-means of ten million rows on a GPU, beside passes written in plain torch.

Run with ``python -m benchmarks.gpu.kmeans OUT.json``. A pass assigns every row to the nearest of 256 centers and sums
the rows of each cluster; ours and the plain ones go through the same 20 passes.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benthic.cluster.memory import memory_of, nearest

ROWS, COLUMNS, CENTERS, PASSES = 10_000_000, 64, 256, 20


def rows_of(kind: str) -> Tensor:
    """One normal cloud, or overlapping clusters."""
    source = torch.Generator("cuda").manual_seed(0)
    X = torch.randn(ROWS, COLUMNS, device="cuda", generator=source)
    if kind == "clusters":
        centers = 2 * torch.randn(CENTERS, COLUMNS, device="cuda", generator=source)
        X += centers[torch.randint(CENTERS, (ROWS,), device="cuda", generator=source)]
    return X


def plain_pass(X: Tensor, centers: Tensor) -> Tensor:
    """Scores, their smallest, and sums by index, as one would write them in torch."""
    labels = torch.addmm(0.5 * centers.square().sum(1), X, centers.T, alpha=-1).argmin(1)
    sums = torch.zeros_like(centers).index_add_(0, labels, X)
    counts = torch.bincount(labels, minlength=len(centers))
    return sums / counts.clamp(min=1)[:, None]


def timed(step: Any, centers: Tensor) -> tuple[list[float], Tensor]:
    """Milliseconds of each pass, and the centers at the end."""
    times = []
    for _ in range(PASSES):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        centers = step(centers)
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - begun))
    return times, centers


def differing(X: Tensor, centers: Tensor) -> float:
    """Share of rows whose nearest center is another one in float64."""
    found = nearest(X, centers)[0]
    wide, half = centers.double(), 0.5 * centers.double().square().sum(1)
    wrong = sum(
        int((torch.addmm(half, x.double(), wide.T, alpha=-1).argmin(1) != label).sum())
        for x, label in zip(X.split(500_000), found.split(500_000), strict=True)
    )
    return wrong / len(X)


def distortion(X: Tensor, centers: Tensor) -> float:
    """The sum of squared distances to the nearest centers."""
    return float(nearest(X, centers)[1].double().sum())


def measure(kind: str) -> dict[str, Any]:
    """Ours and the plain passes from one start."""
    X = rows_of(kind)
    start = X[torch.randperm(ROWS, device="cuda", generator=torch.Generator("cuda").manual_seed(1))[:CENTERS]].clone()
    found: dict[str, Any] = {}

    def ours() -> Any:
        memory = memory_of(X, None, False)

        def step(centers: Tensor) -> Tensor:
            sums = memory.step(centers).sums.cpu()
            return sums[:, :-1] / sums[:, -1:].clamp(min=1)

        return step

    ways = {"benthic": (ours, False), "plain tf32": (lambda: None, True), "plain float32": (lambda: None, False)}
    for name, (make, tf32) in ways.items():
        torch.backends.cuda.matmul.allow_tf32 = tf32
        step = make() or (lambda centers: plain_pass(X, centers))
        first = start.cpu() if name == "benthic" else start
        timed(make() or step, first)
        times, centers = timed(step, first)
        torch.backends.cuda.matmul.allow_tf32 = False
        found[name] = {
            "ms a pass, median": sorted(times)[len(times) // 2],
            "ms a pass, mean": sum(times) / len(times),
            "ms a pass, first": times[0],
            "distortion": distortion(X, centers.cuda()),
        }
    ms = {name: value["ms a pass, mean"] for name, value in found.items()}
    found["plain tf32 / benthic"] = ms["plain tf32"] / ms["benthic"]
    found["plain float32 / benthic"] = ms["plain float32"] / ms["benthic"]
    found["share of rows assigned otherwise in float64"] = differing(X, start)
    return found


def main() -> None:
    """Both kinds of rows."""
    found = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "rows": ROWS,
        "columns": COLUMNS,
        "centers": CENTERS,
        **{kind: measure(kind) for kind in ("cloud", "clusters")},
    }
    text = json.dumps(found, indent=2)
    Path(sys.argv[1]).write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
