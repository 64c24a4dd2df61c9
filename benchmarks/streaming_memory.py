"""Peak anonymous memory of fitting a mixture to a 2 GB file, in a process that does nothing else."""

from __future__ import annotations

import json
import re
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Timings, python
from benchmarks.report import Claim, Result, exact

TITLE = "peak RssAnon of GaussianMixture.fit on a 2 GB file (Parquet, NPY)"
WIDTH, COMPONENTS, ITERATIONS = 16, 8, 3
BLOCK = 1 << 20  # rows of a Parquet row group, pyarrow's default
MEGABYTE = 1e6


def blocks(size: float) -> list[int]:
    """Rows of each block of a float64 table of `size` bytes."""
    rows = int(size // (8 * WIDTH))
    return [min(BLOCK, rows - start) for start in range(0, rows, BLOCK)]


def draw(index: int, rows: int) -> np.ndarray:
    """Block `index` of the data: well separated Gaussians."""
    rng = np.random.default_rng(index)
    centers = 4 * np.random.default_rng(99).normal(size=(COMPONENTS, WIDTH))
    return centers[rng.integers(COMPONENTS, size=rows)] + rng.normal(size=(rows, WIDTH))


def write_parquet(path: Path, size: float) -> None:
    """Write the table by row groups, uncompressed, so that the file has the size asked for."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = [f"x{column}" for column in range(WIDTH)]
    schema = pa.schema([(name, pa.float64()) for name in names])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for index, rows in enumerate(blocks(size)):
            writer.write_table(pa.table(list(draw(index, rows).T), schema=schema), row_group_size=BLOCK)


def write_npy(path: Path, size: float) -> None:
    """Write the table as one C-ordered array."""
    parts = blocks(size)
    shape = (sum(parts), WIDTH)
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})
        for index, rows in enumerate(parts):
            draw(index, rows).tofile(file)


def anonymous() -> float:
    """Return the bytes of this process that are its own, not pages of files."""
    found = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="utf-8"))
    if not found:
        raise OSError("/proc/self/status tells no RssAnon; this task needs Linux 4.5 or newer")
    return 1024.0 * int(found.group(1))


class Watch(threading.Thread):
    """Look at the memory every few milliseconds and remember the peak."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak, self._done = anonymous(), threading.Event()

    def run(self) -> None:
        """Look until told to stop."""
        while not self._done.wait(0.01):
            self.peak = max(self.peak, anonymous())

    def stop(self) -> float:
        """Return the peak in bytes."""
        self._done.set()
        self.join()
        return max(self.peak, anonymous())


def worker(path: str) -> dict[str, Any]:
    """Fit from the path and report seconds and memory; runs in the subprocess."""
    import benthic

    model = benthic.GaussianMixture(COMPONENTS, tol=0.0, max_iter=ITERATIONS, random_state=0)
    imported = anonymous()
    watch = Watch()
    watch.start()
    start = time.perf_counter()
    model.fit(path)
    seconds = time.perf_counter() - start
    return {
        "seconds": seconds,
        "peak MB": watch.stop() / MEGABYTE,
        "after imports MB": imported / MEGABYTE,
        "largest mean error": mean_error(model.means_),
    }


def mean_error(means: np.ndarray) -> float:
    """Return the largest distance of a true center from the nearest fitted mean."""
    centers = 4 * np.random.default_rng(99).normal(size=(COMPONENTS, WIDTH))
    return float(np.linalg.norm(centers[:, None] - means[None], axis=2).min(1).max())


def run(quick: bool = False) -> Result:
    """Write each file, fit it in a fresh process, remove it."""
    size = 2e7 if quick else 2e9
    timings = Timings({})
    claims = []
    with tempfile.TemporaryDirectory() as folder:
        for name, write in (("parquet", write_parquet), ("npy", write_npy)):
            path = Path(folder) / f"rows.{name}"
            write(path, size)
            found = python("-m", "benchmarks.streaming_memory", str(path), timeout=3600)
            path.unlink()
            timings.seconds[name] = [found.pop("seconds")]
            timings.quality[name] = found
            claims.append(Claim(f"peak RssAnon, {name}", exact(found["peak MB"]), "<=", 600.0, " MB"))
    settings = {"bytes": size, "columns": WIDTH, "components": COMPONENTS, "iterations": ITERATIONS}
    return Result("streaming_memory", TITLE, claims, timings, settings)


if __name__ == "__main__":
    print(json.dumps(worker(sys.argv[1])))
