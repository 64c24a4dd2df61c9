"""Minimizing torch functions: one start beside SciPy's L-BFGS-B, a thousand beside a loop over it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.harness import Quality, alternate
from benchmarks.report import Claim, Result, exact

TITLE = "minimize with L-BFGS: Rosenbrock d=100, logistic loss n=20000 d=64, 1000 starts of Rosenbrock d=10"
OURS, THEIRS = 20, 10  # pairs remembered, the default of each; ours is 10 too with many starts
Loss = Callable[[Tensor], Tensor]


def rosenbrock(x: Tensor) -> Tensor:
    """The sum over neighbors of 100 (b - a²)² + (1 - a)², over the last dimension."""
    a, b = x[..., :-1], x[..., 1:]
    return (100 * (b - a**2) ** 2 + (1 - a) ** 2).sum(-1)


def logistic(n: int, d: int, ridge: float = 1e-4) -> Loss:
    """Return the mean logistic loss of labels from a noisy plane, over columns of different scales."""
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(n, d, dtype=torch.float64, generator=generator) * torch.logspace(0, 1, d, dtype=torch.float64)
    plane = torch.randn(d, dtype=torch.float64, generator=generator)
    scores = X @ plane + 5 * torch.randn(n, dtype=torch.float64, generator=generator)
    Z = X * scores.sign()[:, None]

    def loss(w: Tensor) -> Tensor:
        return torch.nn.functional.softplus(-(Z @ w)).mean() + 0.5 * ridge * (w * w).sum()

    return loss


def with_scipy(f: Loss, x0: Tensor, tol: float, memory: int = THEIRS) -> Any:
    """Run SciPy's L-BFGS-B on the same torch function and gradient, stopping on the gradient alone."""
    from scipy.optimize import minimize

    def both(x: np.ndarray) -> tuple[float, np.ndarray]:
        leaf = torch.from_numpy(x).requires_grad_()
        value = f(leaf)
        (gradient,) = torch.autograd.grad(value, leaf)
        return value.item(), gradient.numpy()

    options = {"maxcor": memory, "gtol": tol, "ftol": 0.0, "maxiter": 10_000, "maxfun": 100_000}
    return minimize(both, x0.numpy(), jac=True, method="L-BFGS-B", options=options)


def ours_quality(f: Loss, x0: Tensor, tol: float) -> Quality:
    """Minimize by ours: value, largest entry of the gradient, evaluations."""
    from benthic.optim import minimize

    found = minimize(f, x0, tol=tol, max_iter=10_000)
    return {"value": found.value, "gradient": found.gradient_norm, "evaluations": found.evaluations}


def scipy_quality(f: Loss, x0: Tensor, tol: float, memory: int = THEIRS) -> Quality:
    """Minimize by SciPy: value, largest entry of the gradient, evaluations."""
    found = with_scipy(f, x0, tol, memory)
    return {"value": found.fun, "gradient": float(np.abs(found.jac).max()), "evaluations": found.nfev}


def starts(count: int, d: int) -> Tensor:
    """Random points of the cube [-2, 2]^d."""
    generator = torch.Generator().manual_seed(1)
    return 4 * torch.rand(count, d, dtype=torch.float64, generator=generator) - 2


def ours_batched(X: Tensor, tol: float) -> Quality:
    """Minimize from all starts at once: the largest gradient left, and how many reached the global minimum."""
    from benthic.optim import minimize

    found = minimize(rosenbrock, X, tol=tol, batched=True)
    return {"gradient": float(found.gradient_norm.max()), "at zero": float((found.value < 1e-6).sum())}


def scipy_loop(X: Tensor, tol: float) -> Quality:
    """Minimize from one start after the other."""
    found = [with_scipy(rosenbrock, x, tol) for x in X]
    gradient = max(float(np.abs(one.jac).max()) for one in found)
    return {"gradient": gradient, "at zero": float(sum(one.fun < 1e-6 for one in found))}


def run(quick: bool = False) -> Result:
    """Measure the three tasks in one thread, torch and BLAS alike: operations this small gain nothing by more."""
    from threadpoolctl import threadpool_limits

    importlib.import_module("scipy.optimize")  # its BLAS must be loaded to be limited

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            return measure(quick)
    finally:
        torch.set_num_threads(threads)


def measure(quick: bool) -> Result:
    """Measure the three tasks; each stops at the same size of the gradient."""
    n, d, many, repeats = (2000, 16, 20, 2) if quick else (20_000, 64, 1000, 7)
    valley = torch.tensor([-1.2, 1.0], dtype=torch.float64).repeat(10 if quick else 50)
    loss, zero, X = logistic(n, d), torch.zeros(d, dtype=torch.float64), starts(many, 10)
    single = alternate(
        {
            "benthic Rosenbrock": lambda: ours_quality(rosenbrock, valley, 1e-5),
            "scipy Rosenbrock": lambda: scipy_quality(rosenbrock, valley, 1e-5),
            "benthic logistic": lambda: ours_quality(loss, zero, 1e-6),
            "scipy logistic": lambda: scipy_quality(loss, zero, 1e-6),
            "scipy Rosenbrock, our memory": lambda: scipy_quality(rosenbrock, valley, 1e-5, OURS),
            "scipy logistic, our memory": lambda: scipy_quality(loss, zero, 1e-6, OURS),
        },
        repeats=repeats,
    )
    batch = alternate(
        {"benthic 1000 starts": lambda: ours_batched(X, 1e-5), "scipy 1000 starts": lambda: scipy_loop(X, 1e-5)},
        repeats=min(repeats, 3),
        warmup=0,  # the single starts have warmed both up, and a loop takes its time
    )
    quality = {**single.quality, **batch.quality}
    gap = abs(quality["benthic logistic"]["value"] / quality["scipy logistic"]["value"] - 1)
    worst = max(quality[f"benthic {task}"]["gradient"] for task in ("Rosenbrock", "logistic", "1000 starts"))
    claims = [
        Claim("scipy / benthic, Rosenbrock", single.ratio("scipy Rosenbrock", "benthic Rosenbrock"), ">=", 1.0, "x"),
        Claim("scipy / benthic, logistic", single.ratio("scipy logistic", "benthic logistic"), ">=", 1.0, "x"),
        Claim(
            "scipy loop / benthic, 1000 starts",
            batch.ratio("scipy 1000 starts", "benthic 1000 starts"),
            ">=",
            20.0,
            "x",
        ),
        Claim("relative difference of logistic losses", exact(gap), "<=", 1e-8),
        Claim("largest entry of a gradient left", exact(worst), "<=", 1e-5),
    ]
    timings = type(single)({**single.seconds, **batch.seconds}, quality)
    settings = {
        "n": n,
        "d": d,
        "starts": many,
        "memory": OURS,
        "memory of scipy": THEIRS,
        "threads": torch.get_num_threads(),
    }
    return Result("minimize", TITLE, claims, timings, settings)
