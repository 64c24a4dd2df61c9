"""Solving a differential equation with a small network as field, forward and with gradients, beside three peers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.harness import Quality, Timings, alternate
from benchmarks.report import Claim, Result
from benchmarks.report import exact as exact_value

TITLE = "dormand_prince, MLP field 16-64-64-16, 256 rows, t 0..10, rtol=atol=1e-6, float32"
TOLERANCE, END = 1e-6, 10.0


class Field(nn.Module):
    """A network whose weights are large enough that the solution bends."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 16))
        with torch.no_grad():
            for layer in self.net[::2]:
                layer.weight *= 2

    def forward(self, t: Tensor, y: Tensor) -> Tensor:
        """The slope."""
        return self.net(y)


def ours(
    field: Field, y: Tensor, gradient: str = "steps", tolerance: float = TOLERANCE, compile: bool = False
) -> Tensor:
    """Benthic."""
    from benthic.dynamics import solve

    return solve(field, y, [0.0, END], rtol=tolerance, atol=tolerance, gradient=gradient, compile=compile).last


def matched(field: Field, y: Tensor, exact: np.ndarray) -> float:
    """Find the loosest tolerance at which benthic is as accurate as torchdiffeq at 1e-6."""
    with torch.no_grad():
        limit = np.abs(torchdiffeq(field, y).numpy() - exact).max()
        tolerance = TOLERANCE
        while np.abs(ours(field, y, tolerance=tolerance * 1.25).numpy() - exact).max() <= limit:
            tolerance *= 1.25
    return tolerance


def torchdiffeq(field: Field, y: Tensor, adjoint: bool = False) -> Tensor:
    """The peer on torch."""
    import torchdiffeq

    solve = torchdiffeq.odeint_adjoint if adjoint else torchdiffeq.odeint
    return solve(field, y, torch.tensor([0.0, END]), rtol=TOLERANCE, atol=TOLERANCE, method="dopri5")[-1]


def torchode(field: Field) -> Callable[[Tensor], Tensor]:
    """The peer on torch with a step for every row."""
    import torchode as to

    term = to.ODETerm(lambda t, y: field.net(y))
    method = to.Dopri5(term=term)
    solver = to.AutoDiffAdjoint(method, to.IntegralController(atol=TOLERANCE, rtol=TOLERANCE, term=term))
    ends = torch.tensor([[0.0, END]])

    def solve(y: Tensor) -> Tensor:
        times = ends.expand(len(y), 2)
        return solver.solve(to.InitialValueProblem(y0=y, t_eval=times)).ys[:, -1]

    return solve


def diffrax(field: Field, y: Tensor) -> tuple[Callable[[], np.ndarray], Callable[[], None]]:
    """The peer on JAX, compiled: forward, and with the gradient of the sum of squares."""
    import diffrax
    import jax
    import jax.numpy as jnp

    weights = [(jnp.asarray(layer.weight.detach()), jnp.asarray(layer.bias.detach())) for layer in field.net[::2]]
    start = jnp.asarray(y)

    def slope(t: Any, state: Any, parameters: Any) -> Any:
        for i, (weight, bias) in enumerate(parameters):
            state = state @ weight.T + bias
            state = jnp.tanh(state) if i < 2 else state
        return state

    def solve(parameters: Any) -> Any:
        control = diffrax.PIDController(rtol=TOLERANCE, atol=TOLERANCE)
        term = diffrax.ODETerm(slope)
        found = diffrax.diffeqsolve(
            term, diffrax.Dopri5(), 0.0, END, None, start, args=parameters, stepsize_controller=control
        )
        return found.ys[-1]

    forward = jax.jit(solve)
    backward = jax.jit(jax.value_and_grad(lambda parameters: (solve(parameters) ** 2).sum()))

    def with_gradient() -> None:
        jax.block_until_ready(backward(weights))

    return lambda: np.asarray(forward(weights)), with_gradient


def with_gradient(field: Field, solve: Callable[[], Tensor]) -> None:
    """Forward, then backward from the sum of squares."""
    field.zero_grad()
    solve().square().sum().backward()


def run(quick: bool = False) -> Result:
    """Alternate all of them; the error of each is against a solution at 1e-11 in float64."""
    rows, repeats = (16, 2) if quick else (256, 15)
    field, y = Field(), torch.randn(rows, 16, generator=torch.Generator().manual_seed(0))
    exact = truth(field, y)
    rowwise = torchode(field)
    jax_forward, jax_backward = diffrax(field, y)
    evaluations = evaluations_of(field, y)
    tolerance = matched(field, y, exact)
    answers: dict[str, Any] = {}

    def forward(name: str, solve: Callable[[], Any]) -> Callable[[], Quality | None]:
        def work() -> None:
            with torch.no_grad():
                answers[name] = solve()

        return work

    def alone(count: int) -> None:
        with torch.no_grad():
            for _ in range(count):
                field.net(y)

    timings = alternate(
        {
            "benthic": forward("benthic", lambda: ours(field, y)),
            "benthic, as accurate as torchdiffeq": forward(
                "benthic, as accurate as torchdiffeq", lambda: ours(field, y, tolerance=tolerance)
            ),
            "benthic, compiled": forward("benthic, compiled", lambda: ours(field, y, compile=True)),
            "benthic, compiled, as accurate as torchdiffeq": forward(
                "benthic, compiled, as accurate as torchdiffeq",
                lambda: ours(field, y, tolerance=tolerance, compile=True),
            ),
            "torchdiffeq": forward("torchdiffeq", lambda: torchdiffeq(field, y)),
            "torchode": forward("torchode", lambda: rowwise(y)),
            "diffrax": forward("diffrax", jax_forward),
            "field, as often as benthic": lambda: alone(evaluations["benthic"]),
            "field, as often as torchdiffeq": lambda: alone(evaluations["torchdiffeq"]),
            "benthic, gradient": lambda: with_gradient(field, lambda: ours(field, y)),
            "benthic, compiled, gradient": lambda: with_gradient(field, lambda: ours(field, y, compile=True)),
            "benthic, adjoint": lambda: with_gradient(field, lambda: ours(field, y, "adjoint")),
            "benthic, compiled, adjoint": lambda: with_gradient(field, lambda: ours(field, y, "adjoint", compile=True)),
            "torchdiffeq, adjoint": lambda: with_gradient(field, lambda: torchdiffeq(field, y, adjoint=True)),
            "diffrax, gradient": jax_backward,
        },
        repeats=repeats,
    )
    for name, answer in answers.items():
        timings.quality[name].update(error=float(np.abs(np.asarray(answer) - exact).max()))
    claims = claims_of(timings)
    settings = {"rows": rows, "evaluations": evaluations, "tolerance at equal accuracy": tolerance}
    return Result("ode", TITLE, claims, timings, settings)


def truth(field: Field, y: Tensor) -> np.ndarray:
    """The solution in float64 at a tight tolerance."""
    from copy import deepcopy

    from benthic.dynamics import solve

    with torch.no_grad():
        return solve(deepcopy(field).double(), y.double(), [0.0, END], rtol=1e-11, atol=1e-11).last.numpy()


def evaluations_of(field: Field, y: Tensor) -> dict[str, int]:
    """How often each calls the field, forward."""
    counts = {}
    for name, solve in (("benthic", ours), ("torchdiffeq", torchdiffeq)):
        calls = 0

        def count(*_: Any) -> None:
            nonlocal calls
            calls += 1

        handle = field.register_forward_hook(count)
        with torch.no_grad():
            solve(field, y)
        handle.remove()
        counts[name] = calls
    return counts


def claims_of(timings: Timings) -> list[Claim]:
    """What was measured beside the limits."""
    beyond = {
        name: timings.median(name) - timings.median(f"field, as often as {name}") for name in ("benthic", "torchdiffeq")
    }
    return [
        Claim(
            "torchdiffeq / benthic, equal accuracy",
            timings.ratio("torchdiffeq", "benthic, as accurate as torchdiffeq"),
            ">=",
            1.8,
            "x",
        ),
        Claim(
            "time beyond the field, benthic / torchdiffeq",
            exact_value(beyond["benthic"] / beyond["torchdiffeq"]),
            "<=",
            1 / 3,
            "x",
        ),
        Claim(
            "torchdiffeq / benthic, compiled, equal accuracy",
            timings.ratio("torchdiffeq", "benthic, compiled, as accurate as torchdiffeq"),
            ">=",
            4.0,
            "x",
        ),
        Claim(
            "benthic, compiled, equal accuracy / diffrax",
            timings.ratio("benthic, compiled, as accurate as torchdiffeq", "diffrax"),
            "<=",
            1.5,
            "x",
        ),
        Claim(
            "benthic, compiled, with gradients / diffrax",
            timings.ratio("benthic, compiled, gradient", "diffrax, gradient"),
            "<=",
            1.5,
            "x",
        ),
        Claim("torchode / benthic", timings.ratio("torchode", "benthic"), ">=", 1.8, "x"),
        Claim(
            "torchdiffeq adjoint / benthic, with gradients",
            timings.ratio("torchdiffeq, adjoint", "benthic, gradient"),
            ">=",
            3.0,
            "x",
        ),
        Claim(
            "torchdiffeq adjoint / benthic adjoint",
            timings.ratio("torchdiffeq, adjoint", "benthic, adjoint"),
            ">=",
            1.3,
            "x",
        ),
    ]
