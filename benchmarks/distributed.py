"""Two processes learn what one learns: how far their parameters differ."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.harness import Timings, run_json
from benchmarks.report import Claim, Result, exact

TITLE = "2 processes beside 1: mixture, MLP after 200 steps, single-step gradients"
# One step of plain gradient descent moves the weights by RATE times the gradient; so long a step leaves
# nothing but the gradient in them.
RATE = 2.0**14


def problem(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Four overlapping Gaussians in eight dimensions; the label is the Gaussian."""
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=rows)
    return 1.5 * rng.normal(size=(4, 8))[y] + rng.normal(size=(rows, 8)), y


def worker(path: Path, rows: int) -> float:
    """Fit the three models, keep their parameters (first process only); runs under torchrun or alone."""
    import benthic

    X, y = problem(rows)
    start = time.perf_counter()
    mixture = benthic.GaussianMixture(4, tol=0.0, max_iter=20, random_state=0).fit(X)
    found = {f"mixture {name}": getattr(mixture, f"{name}_") for name in ("weights", "means", "covariances")}
    for name, dtype, settings in (
        ("float64", np.float64, {"steps": 200, "precision": "float64"}),
        ("float32", np.float32, {"steps": 1, "optimizer": "sgd", "lr": RATE}),
    ):
        trainer = benthic.Trainer(batch_size=128, device="cpu", verbose=False, **settings)
        model = benthic.MLPClassifier((32, 32), alpha=0.0, trainer=trainer, random_state=0)
        state = model.fit(X.astype(dtype), y).network_.state_dict()
        found |= {f"{name} {key}": value.double().numpy() for key, value in state.items()}
    seconds = time.perf_counter() - start
    if int(os.environ.get("RANK", "0")) == 0:
        np.savez(path, **found)
    return seconds


def launch(path: Path, rows: int, processes: int) -> float:
    """Run the worker in one process or in several; return its seconds."""
    command = [sys.executable, "-m"]
    if processes > 1:
        command += ["torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", "-m"]
    command += ["benchmarks.distributed", str(path), str(rows)]
    return float(run_json(command, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1"))


def distance(one: dict[str, np.ndarray], two: dict[str, np.ndarray], prefix: str) -> float:
    """Return the largest relative difference, in norm, of the arrays whose name starts so."""
    names = [name for name in one if name.startswith(prefix)]
    return max(float(np.linalg.norm(one[name] - two[name]) / np.linalg.norm(one[name])) for name in names)


def run(quick: bool = False) -> Result:
    """Compare one process with two."""
    rows = 2000 if quick else 20_000
    timings, found = Timings({}), {}
    with tempfile.TemporaryDirectory() as folder:
        for processes in (1, 2):
            path = Path(folder) / f"{processes}.npz"
            timings.seconds[f"{processes} process{'es' * (processes > 1)}"] = [launch(path, rows, processes)]
            with np.load(path) as kept:
                found[processes] = dict(kept)
    one, two = found[1], found[2]
    claims = [
        Claim(f"mixture {name}, float64", exact(distance(one, two, f"mixture {name}")), "<=", 1e-10)
        for name in ("weights", "means", "covariances")
    ]
    claims += [
        Claim("MLP after 200 steps, float64", exact(distance(one, two, "float64")), "<=", 1e-9),
        Claim("MLP single-step gradients, float32", exact(distance(one, two, "float32")), "<=", 1e-6),
    ]
    return Result("distributed", TITLE, claims, timings, {"rows": rows, "batch": 128})


if __name__ == "__main__":
    print(json.dumps(worker(Path(sys.argv[1]), int(sys.argv[2]))))
