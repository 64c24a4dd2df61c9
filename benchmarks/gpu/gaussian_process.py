"""Exact Gaussian-process regression on a GPU, n = 20 000, d = 8, float64: beside GPyTorch's Cholesky.

Run with ``python -m benchmarks.gpu.gaussian_process OUT.json``. Both begin with the same kernel; GPyTorch is driven by
SciPy's L-BFGS-B on its gradients, with dense Cholesky factors. One gradient of each is timed too.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.gaussian_process import fit_gpytorch, gpytorch_model, problem

ROWS, COLUMNS = 20_000, 8


def timed(run: Callable[[], Any]) -> dict[str, Any]:
    """Seconds, the most memory held, and what came out."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.synchronize()
    begun = time.perf_counter()
    found = run()
    torch.cuda.synchronize()
    seconds = time.perf_counter() - begun
    return {"seconds": seconds, "GiB": torch.cuda.max_memory_allocated() / 2**30, "found": found}


def ours(X: torch.Tensor, y: torch.Tensor) -> list[float]:
    """Benthic; variance, length scale and noise at the end."""
    import benthic
    from benthic.kernels import RBF, White

    model = benthic.GaussianProcessRegressor(1.0 * RBF(1.0) + White(0.1), method="exact").fit(X, y)
    print(json.dumps({"evaluations": model.evaluations_}), flush=True)
    return model.kernel_.theta.exp().tolist()


def evidence(X: torch.Tensor, y: torch.Tensor, parameters: list[float]) -> float:
    """The log marginal likelihood of what was found, by one function for both."""
    from benthic.gp import Evidence
    from benthic.kernels import RBF, White

    variance, scale, noise = parameters
    kernel = variance * RBF(scale) + White(noise)
    return Evidence(kernel, X, y[:, None]).value_and_gradient(gradient=False)[0]


def one_gradient(X: torch.Tensor, y: torch.Tensor) -> dict[str, float]:
    """Seconds of one value with gradient, the second of two."""
    import gpytorch

    from benthic.gp import Evidence
    from benthic.kernels import RBF, White

    mine = Evidence(1.0 * RBF(2.0) + White(0.1), X, y[:, None])
    found = {"benthic": [timed(mine.value_and_gradient)["seconds"] for _ in range(2)][1]}
    del mine
    model, likelihood = gpytorch_model(X, y)
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)

    def peer() -> None:
        model.zero_grad()
        (-objective(model(X), y)).backward()

    with (
        gpytorch.settings.fast_computations(covar_root_decomposition=False, log_prob=False, solves=False),
        gpytorch.settings.max_cholesky_size(10**9),
    ):
        found["gpytorch"] = [timed(peer)["seconds"] for _ in range(2)][1]
    return found


def main() -> None:
    """Run both and write one JSON file."""
    rows, targets = problem(ROWS, COLUMNS)
    X, y = torch.tensor(rows, device="cuda"), torch.tensor(targets, device="cuda")
    results: dict[str, Any] = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "size": {"rows": ROWS, "columns": COLUMNS, "type": "float64"},
    }
    ours(X[:2000], y[:2000])  # libraries load here
    fit_gpytorch(X[:2000], y[:2000])
    results["one gradient"] = one_gradient(X, y)
    print(json.dumps(results["one gradient"]), flush=True)
    for name, fit in (("benthic", ours), ("gpytorch", fit_gpytorch)):
        found = timed(lambda fit=fit: fit(X, y))
        found["log marginal likelihood"] = evidence(X, y, list(found["found"]))
        results[name] = found
        print(json.dumps({name: found}), flush=True)
    results["gpytorch / benthic"] = results["gpytorch"]["seconds"] / results["benthic"]["seconds"]
    print(json.dumps({"gpytorch / benthic": results["gpytorch / benthic"]}), flush=True)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
