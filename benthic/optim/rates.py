"""Rates of gradient descent: what the theory promises beside what is measured."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.optim.minimizer import minimize
from benthic.optim.objective import Function, Objective, check_function, check_start


@dataclass(frozen=True)
class RateCheck:
    r"""A run of gradient descent with step 1/L beside its bounds, for t = 0, 1, ..., T.

    .. math::

        \min_{s < t} \|\nabla f(x_s)\|^2 \le \frac{2 L \, (f(x_0) - f^*)}{t}, \qquad
        f(x_t) - f^* \le \Big(1 - \frac{\mu}{L}\Big)^t (f(x_0) - f^*)

    gap: (T + 1,) f(x_t) - f*. squares: (T + 1,) squared length of the gradient. gap_bound: (T + 1,), or None without
    mu. squares_bound: (T + 1,), infinite at 0. L, mu, minimum: what was assumed.
    """

    gap: Tensor
    squares: Tensor
    gap_bound: Tensor | None
    squares_bound: Tensor
    L: float
    mu: float | None
    minimum: float
    noise: float

    @property
    def best_squares(self) -> Tensor:
        """The smallest squared gradient before step t: (T + 1,), infinite at 0."""
        best = self.squares.cummin(0).values
        return torch.cat((best.new_full((1,), math.inf), best[:-1]))

    @property
    def decreases(self) -> bool:
        """Whether every step lowers f by at least the squared gradient over 2L, as smoothness promises."""
        promised = self.squares[:-1] / (2 * self.L)
        return bool((self.gap[:-1] - self.gap[1:] >= promised - self.noise).all())

    @property
    def gradient_holds(self) -> bool:
        """Whether the bound on the gradient holds at every step."""
        slack = 2 * self.L * self.noise
        return bool((self.best_squares <= self.squares_bound * (1 + 1e-9) + slack).all())

    @property
    def value_holds(self) -> bool | None:
        """Whether the bound on the value holds at every step; None without mu."""
        if self.gap_bound is None:
            return None
        return bool((self.gap <= self.gap_bound * (1 + 1e-9) + self.noise).all())

    @property
    def holds(self) -> bool:
        """Whether all of it holds."""
        return self.decreases and self.gradient_holds and self.value_holds is not False

    def steps_to(self, epsilon: float) -> tuple[int | None, int]:
        """Steps until the gradient is at most ε long: measured (None if never), and the bound 2L(f₀ - f*)/ε²."""
        reached = (self.squares <= epsilon**2).nonzero()
        bound = math.ceil(2 * self.L * float(self.gap[0]) / epsilon**2)
        return (int(reached[0, 0]) if len(reached) else None), bound

    def plot(self) -> Any:
        """Both curves with their bounds."""
        from benthic.pictures.canvas import new_figure

        shown = [("smallest squared gradient", self.best_squares, self.squares_bound, "2L(f₀ - f*)/t")]
        if self.gap_bound is not None:
            shown.append(("f - f*", self.gap, self.gap_bound, "(1 - μ/L)ᵗ (f₀ - f*)"))
        figure, grid = new_figure(4.4 * len(shown), 3.4, 1, len(shown), squeeze=False)
        for axes, (name, curve, bound, formula) in zip(grid[0], shown, strict=True):
            for line, label, style in ((bound, formula, "--"), (curve, "measured", "-")):
                axes.plot(range(1, len(line)), line[1:].cpu(), style, label=label)
            axes.set(xlabel="step", title=name, yscale="log", xscale="log" if bound is self.squares_bound else "linear")
            axes.legend(frameon=False)
        return figure


def check_gradient_descent(
    f: Function,
    x0: Any,
    L: float,
    *,
    mu: float | None = None,
    minimum: float | None = None,
    steps: int = 1000,
) -> RateCheck:
    r"""Run gradient descent with step 1/L and compare it with what L-smoothness and the PL inequality promise.

    If f is L-smooth, a gradient of length ε is found within :math:`2L (f(x_0) - f^*) / \epsilon^2` steps; if it also
    satisfies the Polyak-Łojasiewicz inequality with μ, the value converges like :math:`(1 - \mu/L)^t` (Polyak, 1963;
    Karimi, Nutini & Schmidt, 2016). Constants that do not fit the function show as bounds that do not hold.

    f: a scalar torch function. L, mu: see ``smoothness`` and ``pl_constant``. minimum: f*, by default what
    ``minimize`` finds.

    >>> check = check_gradient_descent(lambda x: 0.5 * (x[0] ** 2 + 9 * x[1] ** 2), [1.0, 1.0], L=9.0, mu=1.0, steps=50)
    >>> check.holds
    True
    """
    start = check_start(x0, False, "check_gradient_descent")
    check_function(f, start, False, False, "check_gradient_descent")
    if not L > 0 or (mu is not None and not 0 <= mu <= L) or steps < 1:
        raise InvalidInput(
            f"check_gradient_descent: L={L!r}, mu={mu!r}, steps={steps}; 0 < L, 0 <= mu <= L and steps >= 1 are needed"
        )
    values, squares = _descent(Objective(f, start.shape), start.reshape(-1), 1.0 / L, steps)
    if minimum is None:
        minimum = min(float(minimize(f, start, tol=0.0).value), float(values.min()))
    gap = values - minimum
    noise = 100 * torch.finfo(start.dtype).eps * max(abs(minimum), abs(float(values[0])), float(gap[0]))
    t = torch.arange(len(gap), dtype=gap.dtype)
    return RateCheck(
        gap,
        squares,
        None if mu is None else (1 - mu / L) ** t * gap[0],
        2 * L * gap[0] / t,
        L,
        mu,
        minimum,
        noise,
    )


def _descent(objective: Objective, x: Tensor, step: float, steps: int) -> tuple[Tensor, Tensor]:
    """Values and squared gradients at steps + 1 points."""
    values, squares = [], []
    for _ in range(steps + 1):
        value, gradient = objective(x)
        values.append(value)
        squares.append(torch.dot(gradient, gradient).item())
        x = x - step * gradient
    return torch.tensor(values, dtype=torch.float64), torch.tensor(squares, dtype=torch.float64)
