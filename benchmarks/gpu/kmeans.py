"""k-means of ten million rows on a GPU, beside passes written in plain torch.

Run with ``python -m benchmarks.gpu.kmeans OUT.json``. A pass assigns every row to the nearest of 256 centers and sums
the rows of each cluster; ours (exact and fast) and the plain ones (tf32 and float32) go through the same 20 passes.
Then the fast kernels with several sizes of tiles, the public ``fit``, and the share of rows that float64 assigns
otherwise.
"""

from __future__ import annotations

import gc
import json
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benthic.cluster import KMeans
from benthic.cluster.memory import memory_of, nearest
from benthic.cluster.swift import Swift, Tiles

ROWS, COLUMNS, CENTERS, PASSES = 10_000_000, 64, 256, 20
SEARCHES = ((64, 32, 4, 2), (64, 64, 4, 2), (128, 32, 4, 2), (128, 32, 8, 2), (128, 32, 8, 3), (128, 64, 8, 2))
SUMS = ((64, 8, 1), (64, 8, 2), (64, 8, 3), (128, 8, 2), (32, 8, 2), (64, 4, 2))
Step = Callable[[Tensor], Tensor]


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


def our_pass(memory: Any) -> Step:
    """A pass over rows that are remembered, with centers on the CPU as the estimator has them."""

    def step(centers: Tensor) -> Tensor:
        sums = memory.step(centers).sums.cpu()
        return sums[:, :-1] / sums[:, -1:].clamp(min=1)

    return step


def timed(step: Step, centers: Tensor) -> tuple[list[float], Tensor]:
    """Milliseconds of each pass, and the centers at the end."""
    times = []
    for _ in range(PASSES):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        centers = step(centers)
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - begun))
    return times, centers


def differing(X: Tensor, centers: Tensor, labels: Tensor) -> float:
    """Share of rows whose nearest center is another one in float64."""
    wide = centers.double().cuda()
    half = 0.5 * wide.square().sum(1)
    wrong = sum(
        int((torch.addmm(half, x.double(), wide.T, alpha=-1).argmin(1) != label).sum())
        for x, label in zip(X.split(500_000), labels.split(500_000), strict=True)
    )
    return wrong / len(X)


def plain_labels(X: Tensor, centers: Tensor) -> Tensor:
    """The labels of ``plain_pass``, in the precision that torch is set to."""
    half = 0.5 * centers.square().sum(1)
    return torch.cat([torch.addmm(half, x, centers.T, alpha=-1).argmin(1) for x in X.split(1_000_000)])


def ways(X: Tensor) -> dict[str, tuple[Callable[[], Step], bool]]:
    """How to make a pass of each candidate, and whether torch may use tf32 in it."""
    return {
        "benthic exact": (lambda: our_pass(memory_of(X, None, False, CENTERS, "exact")), False),
        "plain tf32": (lambda: lambda centers: plain_pass(X, centers), True),
        "plain float32": (lambda: lambda centers: plain_pass(X, centers), False),
        "benthic fast": (lambda: our_pass(memory_of(X, None, False, CENTERS, "fast")), False),
    }


def tried(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What the work found, or what went wrong: a kernel that does not fit the device ends itself, not the run."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(work)
        trouble = future.exception()
        return future.result() if trouble is None else {"failed": f"{type(trouble).__name__}: {trouble}"[-1500:]}


def candidate(X: Tensor, start: Tensor, make: Callable[[], Step], tf32: bool) -> dict[str, Any]:
    """Times of one candidate and the distortion it reaches."""
    torch.backends.cuda.matmul.allow_tf32 = tf32
    timed(make(), start)
    times, centers = timed(make(), start)
    torch.backends.cuda.matmul.allow_tf32 = False
    return {
        "ms a pass, median": sorted(times)[len(times) // 2],
        "ms a pass, mean": sum(times) / len(times),
        "ms a pass, first": times[0],
        "ms a pass, last": times[-1],
        "distortion": float(nearest(X, centers.float().cuda())[1].double().sum()),
    }


def passes(X: Tensor, start: Tensor) -> dict[str, Any]:
    """Every candidate from one start, and ratios to plain torch."""
    found: dict[str, Any] = {}
    for name, (make, tf32) in ways(X).items():
        first = start.cpu() if name.startswith("benthic") else start
        found[name] = tried(lambda first=first, make=make, tf32=tf32: candidate(X, first, make, tf32))
    mean = {name: value.get("ms a pass, mean", float("nan")) for name, value in found.items()}
    for ours in ("fast", "exact"):
        for plain in ("tf32", "float32"):
            found[f"plain {plain} / benthic {ours}"] = mean[f"plain {plain}"] / mean[f"benthic {ours}"]
    return found


def shares(X: Tensor, start: Tensor) -> dict[str, float]:
    """Rows assigned otherwise in float64, with centers of the first pass and of the sixth."""
    swift = Swift(X)
    found, centers = {}, start.cpu()
    for number in range(1, 7):
        step = our_pass(swift)
        used, centers = centers, step(centers)
        if number in (1, 6):
            single = used.float().cuda()
            found[f"fast, pass {number}"] = differing(X, used.float(), swift.labels)
            found[f"fast, judged twice in pass {number}"] = swift.doubtful() / len(X)
            found[f"exact, pass {number}"] = differing(X, single, nearest(X, single)[0])
            torch.backends.cuda.matmul.allow_tf32 = True
            found[f"plain tf32, pass {number}"] = differing(X, single, plain_labels(X, single))
            torch.backends.cuda.matmul.allow_tf32 = False
    return found


def clocked(work: Callable[[], Any], repeats: int = 7) -> float:
    """Median milliseconds on the device."""
    work()
    times = []
    for _ in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return sorted(times)[len(times) // 2]


def variant(X: Tensor, start: Tensor, tiles: Tiles) -> dict[str, Any]:
    """Milliseconds of the parts of a fast pass with these tiles."""
    memory = Swift(X, tiles)
    step = our_pass(memory)
    centers = step(step(step(start.cpu())))
    memory.step(centers)
    moved = int(memory._count[1])

    def search() -> None:
        memory._count.zero_()
        memory._searched(centers, True)

    def sums() -> None:
        memory._count[1] = moved
        memory._added(CENTERS, True)

    found: dict[str, Any] = {"rows that moved": moved, "sums of moved rows": clocked(sums)}
    found["sums of all rows"] = clocked(lambda: memory._added(CENTERS, False))
    found["search and judging again"] = clocked(search)
    return found


def variants(X: Tensor, start: Tensor) -> dict[str, Any]:
    """The fast kernels with several sizes of tiles."""
    found = {}
    for rows, centers, warps, stages in SEARCHES:
        tiles = Tiles(rows=rows, centers=centers, warps=warps, stages=stages)
        found[f"search {rows}x{centers}, {warps} warps, {stages} stages"] = tried(
            lambda tiles=tiles: variant(X, start, tiles)
        )
    for rows, warps, stages in SUMS:
        tiles = Tiles(sum_rows=rows, sum_warps=warps, sum_stages=stages)
        found[f"sums by {rows}, {warps} warps, {stages} stages"] = tried(lambda tiles=tiles: variant(X, start, tiles))
    return found


def fits(X: Tensor, start: Tensor) -> dict[str, Any]:
    """Milliseconds that one more pass adds to the public ``fit``, and seconds of the whole."""
    found: dict[str, Any] = {}
    for precision in ("fast", "exact"):
        seconds = {}
        for count in (PASSES, 3 * PASSES):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that so few passes did not converge is the plan
                torch.cuda.synchronize()
                begun = time.perf_counter()
                model = KMeans(CENTERS, init=start, tol=0.0, max_iter=count, precision=precision).fit(X)
                torch.cuda.synchronize()
            seconds[count] = time.perf_counter() - begun
        found[precision] = {
            "ms a pass": 1e3 * (seconds[3 * PASSES] - seconds[PASSES]) / (2 * PASSES),
            f"seconds of {PASSES} passes": seconds[PASSES],
            "distortion": model.inertia_,
        }
        del model
        gc.collect()
    return found


def measure(kind: str) -> dict[str, Any]:
    """All of it on one kind of rows."""
    X = rows_of(kind)
    source = torch.Generator("cuda").manual_seed(1)
    start = X[torch.randperm(ROWS, device="cuda", generator=source)[:CENTERS]].clone()
    found = passes(X, start)
    found["share of rows assigned otherwise in float64"] = tried(lambda: shares(X, start))
    print(kind, json.dumps(found, indent=2), flush=True)
    if kind == "cloud":
        found["tiles"] = variants(X, start)
        print(json.dumps(found["tiles"], indent=2), flush=True)
    found["fit"] = tried(lambda: fits(X, start))
    return found


def main() -> None:
    """Both kinds of rows."""
    found = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "rows": ROWS,
        "columns": COLUMNS,
        "centers": CENTERS,
    }
    for kind in ("cloud", "clusters"):
        found[kind] = measure(kind)
        Path(sys.argv[1]).write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
