"""A network as field of a differential equation on a GPU, forward and with gradients, beside torchdiffeq.

Run with ``python -m benchmarks.gpu.ode OUT.json``.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.gpu.clock import seconds
from benthic.dynamics import solve

END, TOLERANCE = 10.0, 1e-6
SIZES = ((256, 16, 64), (8192, 64, 256))  # rows, columns, hidden width


class Field(nn.Module):
    """A network whose weights are large enough that the solution bends."""

    def __init__(self, columns: int, hidden: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(
            nn.Linear(columns, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, columns)
        )
        with torch.no_grad():
            for layer in self.net[::2]:
                layer.weight *= 2

    def forward(self, t: Tensor, y: Tensor) -> Tensor:
        """The slope."""
        return self.net(y)


def peer(field: Field, y: Tensor, adjoint: bool = False) -> Tensor:
    """The state at the end, by torchdiffeq."""
    import torchdiffeq

    run = torchdiffeq.odeint_adjoint if adjoint else torchdiffeq.odeint
    times = torch.tensor([0.0, END], device=y.device)
    return run(field, y, times, rtol=TOLERANCE, atol=TOLERANCE, method="dopri5")[-1]


def ours(field: Field, y: Tensor, **options: Any) -> Tensor:
    """The state at the end, by benthic."""
    options = {"rtol": TOLERANCE, "atol": TOLERANCE, "compile": True, **options}
    return solve(field, y, [0.0, END], **options).last


def loosest(field: Field, y: Tensor, exact: Tensor, limit: float) -> float:
    """The loosest tolerance at which benthic is as accurate as the peer."""
    tolerance = TOLERANCE
    while worst(ours(field, y, rtol=1.25 * tolerance, atol=1.25 * tolerance, compile=False), exact) <= limit:
        tolerance *= 1.25
    return tolerance


def worst(found: Tensor, exact: Tensor) -> float:
    """The largest error."""
    return float((found.double() - exact).abs().max())


def gradients(field: Field, run: Callable[[], Tensor]) -> Tensor:
    """The gradient of the sum of squares to all parameters."""
    field.zero_grad()
    run().square().sum().backward()
    return torch.cat([p.grad.flatten() for p in field.parameters()])


def first_call(work: Callable[[], Any]) -> float:
    """Seconds of a call that compiles and captures."""
    begin = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - begin


def field_alone(field: Field, y: Tensor) -> float:
    """Seconds of one evaluation inside a captured graph."""
    graph = torch.cuda.CUDAGraph()
    field(None, y)
    with torch.cuda.graph(graph):
        for _ in range(100):
            field(None, y)
    return seconds(graph.replay) / 100


def compared(rows: int, columns: int, hidden: int) -> dict[str, Any]:
    """One problem, both libraries."""
    field = Field(columns, hidden).cuda()
    y = torch.randn(rows, columns, generator=torch.Generator().manual_seed(0)).cuda()
    with torch.no_grad():
        exact = solve(deepcopy(field).double(), y.double(), [0.0, END], rtol=1e-11, atol=1e-11).last
        error = worst(peer(field, y), exact)
        tolerance = loosest(field, y, exact, error)
        equal = {"rtol": tolerance, "atol": tolerance}
        compiling = first_call(lambda: ours(field, y))
        forward = {
            "torchdiffeq": seconds(lambda: peer(field, y)),
            "benthic": seconds(lambda: ours(field, y), 15),
            "benthic, equal accuracy": seconds(lambda: ours(field, y, **equal), 15),
            "benthic, not compiled": seconds(lambda: ours(field, y, compile=False)),
        }
        statistics = solve(field, y, [0.0, END], rtol=TOLERANCE, atol=TOLERANCE, compile=True).statistics
        alone = field_alone(field, y) * statistics.evaluations
        errors = {"torchdiffeq": error, "benthic": worst(ours(field, y), exact)}
        errors["benthic, equal accuracy"] = worst(ours(field, y, **equal), exact)
    ways: dict[str, Callable[[], Tensor]] = {"torchdiffeq, adjoint": lambda: peer(field, y, adjoint=True)}
    for gradient in ("steps", "adjoint"):
        ways[f"benthic, {gradient}"] = lambda gradient=gradient: ours(field, y, gradient=gradient)
        ways[f"benthic, {gradient}, equal accuracy"] = lambda gradient=gradient: ours(
            field, y, gradient=gradient, **equal
        )
    found = {name: gradients(field, way).clone() for name, way in ways.items()}
    spent = {name: seconds(lambda way=way: gradients(field, way), 3) for name, way in ways.items()}
    best = found["benthic, steps"]
    return {
        "rows, columns, hidden": [rows, columns, hidden],
        "steps, rejected, evaluations": [statistics.steps, statistics.rejected, statistics.evaluations],
        "seconds forward": forward,
        "seconds of the field alone, as often": alone,
        "seconds of the first call": compiling,
        "torchdiffeq / benthic, forward": forward["torchdiffeq"] / forward["benthic"],
        "torchdiffeq / benthic, forward, equal accuracy": forward["torchdiffeq"] / forward["benthic, equal accuracy"],
        "largest error": errors,
        "seconds with gradients": spent,
        "torchdiffeq adjoint / benthic": {
            name: spent["torchdiffeq, adjoint"] / time for name, time in spent.items() if name.startswith("benthic")
        },
        "difference of gradients to benthic's by steps": {
            name: float((g - best).norm() / best.norm()) for name, g in found.items()
        },
    }


def adjoint_memory() -> dict[str, float]:
    """Peak megabytes of a forward and backward by the adjoint, by number of fixed steps."""
    field = Field(64, 256).cuda()
    y = torch.randn(8192, 64, generator=torch.Generator().manual_seed(0)).cuda()
    peaks = {}
    for steps in (10, 100, 1000, 10_000):
        for name, options in (("adjoint", {}), ("adjoint, captured", {"compile": True})):
            gradients(field, lambda options=options: fixed(field, y, 10, **options))  # captured buffers exist before
            torch.cuda.reset_peak_memory_stats()
            gradients(field, lambda options=options, steps=steps: fixed(field, y, steps, **options))
            peaks[f"{name}, {steps} steps"] = torch.cuda.max_memory_allocated() / 1e6
    return peaks


def fixed(field: Field, y: Tensor, steps: int, **options: Any) -> Tensor:
    """The state after a number of fixed steps."""
    return solve(field, y, [0.0, 1.0], method="rk4", step=1.0 / steps, gradient="adjoint", **options).last


def main() -> None:
    """Both problems and the memory."""
    results: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    results["problems"] = []
    for sizes in SIZES:
        results["problems"].append(compared(*sizes))
        print(json.dumps(results["problems"][-1], indent=1), flush=True)
    results["peak megabytes"] = adjoint_memory()
    print(json.dumps(results["peak megabytes"], indent=1), flush=True)
    Path(sys.argv[1]).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
