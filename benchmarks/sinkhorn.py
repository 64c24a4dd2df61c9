"""Entropic transport: 2000 points each beside POT and OTT-JAX, and 50 000 points in little memory."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks.harness import Quality, alternate, python
from benchmarks.report import Claim, Result, exact
from benchmarks.streaming_memory import MEGABYTE, Watch, anonymous

TITLE = "Sinkhorn n=m=2000, 100 iterations, float32, plan included; and n=m=50000 without a stored cost"
ITERATIONS, EPSILON = 100, 0.05


def problem(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Random masses on random points of two overlapping squares; the largest cost is about 60 epsilon."""
    rng = np.random.default_rng(0)
    X, Y = rng.random((n, 2)), 0.2 + rng.random((n, 2))
    a, b = rng.dirichlet(np.full(n, 5.0)), rng.dirichlet(np.full(n, 5.0))
    cost = ((X[:, None] - Y) ** 2).sum(-1)
    return tuple(value.astype(np.float32) for value in (a, b, cost))


def ours(a: torch.Tensor, b: torch.Tensor, cost: torch.Tensor) -> torch.Tensor:
    """The plan after exactly as many iterations as the others make."""
    from benthic.transport import sinkhorn

    return sinkhorn(a, b, cost, EPSILON, tol=0, max_iter=ITERATIONS).plan


def pot(name: str, a: torch.Tensor, b: torch.Tensor, cost: torch.Tensor) -> torch.Tensor:
    """POT on torch, in the log domain or with a plain kernel."""
    import ot

    solve = {"log": ot.bregman.sinkhorn_log, "kernel": ot.bregman.sinkhorn_knopp}[name]
    return solve(a, b, cost, EPSILON, numItermax=ITERATIONS, stopThr=0.0, warn=False)


def ott(a: np.ndarray, b: np.ndarray, cost: np.ndarray) -> Callable[[], Any]:
    """OTT-JAX, compiled once; threshold -1 makes all the iterations."""
    import jax
    from ott.geometry.geometry import Geometry
    from ott.problems.linear.linear_problem import LinearProblem
    from ott.solvers.linear.sinkhorn import Sinkhorn

    solver = Sinkhorn(threshold=-1.0, min_iterations=ITERATIONS, max_iterations=ITERATIONS)

    @jax.jit
    def solve(a: Any, b: Any, cost: Any) -> Any:
        return solver(LinearProblem(Geometry(cost, epsilon=EPSILON), a, b)).matrix

    arguments = [jax.numpy.asarray(value) for value in (a, b, cost)]
    return lambda: solve(*arguments).block_until_ready()


def quality(plan: Any, a: np.ndarray, b: np.ndarray, cost: np.ndarray) -> Quality:
    """Cost of the plan and the larger of its two marginal errors, in float64."""
    T = np.asarray(plan, dtype=np.float64)
    off = max(np.abs(T.sum(1) - a).sum(), np.abs(T.sum(0) - b).sum())
    return {"cost": float((T * cost).sum()), "marginal error": float(off)}


def streamed(n: int, iterations: int) -> dict[str, float]:
    """Megabytes that the iterations add to the memory of a process, and seconds an iteration."""
    from benthic.transport import sinkhorn

    stream = torch.Generator().manual_seed(0)
    X, Y = torch.rand(n, 2, generator=stream), torch.rand(n, 2, generator=stream)
    sinkhorn(None, None, (X[:500], Y[:500]), EPSILON, tol=0, max_iter=2)  # libraries load
    start, watch = anonymous(), Watch()
    watch.start()
    clock = time.perf_counter()
    found = sinkhorn(None, None, (X, Y), EPSILON, tol=0, max_iter=iterations)
    seconds = (time.perf_counter() - clock) / iterations
    peak = watch.stop() - start
    if not bool(torch.isfinite(found.f).all()):
        raise ArithmeticError("the potentials are not finite")
    return {"megabytes": peak / MEGABYTE, "seconds": seconds}


def run(quick: bool = False) -> Result:
    """Time the four in turn, then measure the memory in a process of its own."""
    n, cloud, repeats = (200, 3000, 2) if quick else (2000, 50_000, 7)
    arrays = problem(n)
    tensors = [torch.from_numpy(value) for value in arrays]
    plans: dict[str, Any] = {}
    solves = {
        "benthic": lambda: ours(*tensors),
        "POT sinkhorn_log": lambda: pot("log", *tensors),
        "POT sinkhorn_knopp": lambda: pot("kernel", *tensors),
        "OTT-JAX": ott(*arrays),
    }
    timings = alternate(
        {name: lambda name=name, solve=solve: plans.update({name: solve()}) for name, solve in solves.items()},
        repeats=repeats,
    )
    for name, plan in plans.items():
        timings.quality[name].update(quality(plan, *arrays))
    found = {name: values["cost"] for name, values in timings.quality.items()}
    gap = abs(found["benthic"] / found["POT sinkhorn_log"] - 1)
    memory = python("-m", "benchmarks.sinkhorn", str(cloud))
    timings.quality["benthic"].update({f"{cloud} points, {key}": value for key, value in memory.items()})
    claims = [
        Claim("POT sinkhorn_log / benthic", timings.ratio("POT sinkhorn_log", "benthic"), ">=", 3.0, "x"),
        Claim("OTT-JAX / benthic", timings.ratio("OTT-JAX", "benthic"), ">=", 1.0, "x"),
        Claim("POT sinkhorn_knopp / benthic", timings.ratio("POT sinkhorn_knopp", "benthic"), ">=", 1.0, "x"),
        Claim("relative difference of costs from POT sinkhorn_log", exact(gap), "<=", 1e-3),
        Claim(f"memory added by {cloud} x {cloud} points", exact(memory["megabytes"]), "<=", 100.0, " MB"),
    ]
    settings = {"n": n, "epsilon": EPSILON, "iterations": ITERATIONS, "threads": torch.get_num_threads()}
    return Result("sinkhorn", TITLE, claims, timings, settings)


if __name__ == "__main__":
    print(json.dumps(streamed(int(sys.argv[1]), 3)))
