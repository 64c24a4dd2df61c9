"""NUTS on a GPU: 1024 chains of logistic regression, n = 20 000, d = 54; least bulk ESS a second, warm-up included.

Run with ``python -m benchmarks.gpu.nuts OUT.json``. NumPyro is run beside it where it can be imported and has a GPU.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.nuts import Problem, Size, logistic, torch_density

SIZE = Size(1024, 100, 200)
ROWS, COLUMNS = 20_000, 54


def judged(draws: torch.Tensor, seconds: float) -> dict[str, float]:
    """Effective samples and agreement of draws (chains, draws, d), and effective samples a second."""
    from benthic.samplers import ess_bulk, rhat

    least = float(ess_bulk(draws.double()).min())
    return {
        "seconds": seconds,
        "least bulk ESS": least,
        "ESS a second": least / seconds,
        "R-hat": float(rhat(draws.double()).max()),
    }


def timed(sample: Callable[[int], torch.Tensor]) -> dict[str, Any]:
    """A first run, which compiles, and a second."""
    found = {}
    for name, seed in (("with compilation", 0), ("compiled", 1)):
        begun = time.perf_counter()
        draws = sample(seed)
        found[name] = judged(draws, time.perf_counter() - begun)
    return found


def ours(problem: Problem, kernel: str, compile: bool) -> Callable[[int], torch.Tensor]:
    """Benthic on the GPU."""
    from benthic.samplers import Target, run

    target = Target(
        torch_density(problem, "cuda"), torch.zeros(problem.dim, device="cuda"), batched=True, compile=compile
    )

    def sample(seed: int) -> torch.Tensor:
        draws = run(kernel, target, **SIZE._asdict(), seed=seed)["x"]
        torch.cuda.synchronize()
        return draws

    return sample


def numpyro(problem: Problem) -> Callable[[int], torch.Tensor]:
    """NumPyro's MCMC class, chains vectorized."""
    from benchmarks.nuts import numpyro as peer

    sampler = peer(problem, SIZE)
    return lambda seed: torch.from_numpy(np.array(sampler(seed)))


def main() -> None:
    """Run everything and write one JSON file."""
    problem = logistic(ROWS, COLUMNS)
    results: dict[str, Any] = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "size": {**SIZE._asdict(), "rows": ROWS, "columns": COLUMNS},
    }

    def note(name: str, found: dict[str, Any]) -> None:
        results[name] = found
        print(json.dumps({name: found}), flush=True)

    note("benthic nuts", timed(ours(problem, "nuts", False)))
    note("benthic chees", timed(ours(problem, "chees", False)))
    note("benthic nuts, compiled", timed(ours(problem, "nuts", True)))
    if importlib.util.find_spec("numpyro") is not None:
        note("numpyro", timed(numpyro(problem)))
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
