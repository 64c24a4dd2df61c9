"""The network of a continuous flow: a field, and the solves that carry points and densities along it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from benthic.base.seeds import stream
from benthic.dynamics import solve
from benthic.dynamics.runge_kutta import Method
from benthic.dynamics.tableau import tableau_of
from benthic.nets.field import TimeField
from benthic.nets.invertible.transform import check_shape
from benthic.nets.picture_field import PictureField

_JITTER = 0.3  # how far, in steps, the ends of training steps move
_FIRST = 0.1  # the first of controlled steps
_MOST_STEPS = 500  # all of them are kept for the gradient
_LOG_2PI = math.log(2 * math.pi)


class _Fixed(NamedTuple):
    """What stays as it is during a solve: probes (k, n, d) or None, the coupling of the field, and its offsets."""

    probes: Tensor | None
    coupling: Tensor
    offsets: Tensor | None


class FlowNetwork(nn.Module):
    r"""Points that flow along a field from a standard normal (t = 0) to the data (t = 1).

    .. math:: \dot z = f(t, z), \qquad \frac{d}{dt} \log p_t(z(t)) = -\operatorname{tr} \frac{\partial f}{\partial z}

    Chen et al., 2018. Where the field takes a context, (n, k), it sees that of each row at every time, and the density
    is that given the context. exact: whether training sums the trace exactly or by Hutchinson's estimate with one probe
    for each row and solve. method, steps: the solver of training and its number of equal steps; with None the steps
    are controlled, for the rows of a batch together, so that the error of each is below ``tolerance``.
    ahead: whether the host never waits for the device in training, so that equal steps can be captured; nobody looks
    at the states then, and only the loss shows that they are not finite. smooth: whether the penalty of training, with
    probes, also has the square norm of the Jacobian (Finlay et al., 2020), which the probe estimates.
    """

    def __init__(
        self,
        field: TimeField | PictureField,
        *,
        exact: bool,
        method: str,
        steps: int | None = None,
        tolerance: float = 1e-2,
        ahead: bool = False,
        smooth: bool = False,
    ) -> None:
        super().__init__()
        self.field, self.exact, self.method, self.steps, self.tolerance = field, exact, method, steps, tolerance
        self.ahead, self.smooth = ahead, smooth

    def forward(self, x: Tensor, regularization: float = 0.0, context: Tensor | None = None) -> Tensor:
        """−log p(x) of each row by the solver of training, with so much of the kinetic energy of its path."""
        fixed = self._fixed(x, None if self.exact else rademacher((1, *x.shape), x), context)
        start = torch.cat([x, x.new_zeros(len(x), 2)], 1)

        def rate(t: Tensor, y: Tensor) -> Tensor:
            return torch.cat(self._priced(t, y[:, :-2], fixed), 1).to(y.dtype)  # from autocast

        end: Tensor
        if self.ahead and self.steps is not None:
            end = self._run_ahead(rate, start, self.steps)
        else:
            end = solve(rate, start, method=self.method, **self._stepping(x)).last
        # time runs backward: both integrals have the opposite sign
        return -log_normal(end[:, :-2]) - end[:, -2] - regularization * end[:, -1]

    def _fixed(self, x: Tensor, probes: Tensor | None, context: Tensor | None) -> _Fixed:
        """What a solve from rows x needs at every time."""
        check_shape("FlowNetwork", x, self.field.width, context, self.field.context)
        return _Fixed(probes, self.field.coupling(), self.field.offsets(context))

    def _stepping(self, x: Tensor) -> dict[str, Any]:
        """How ``solve`` goes from 1 to 0 in training."""
        if self.steps is None:
            accuracy = tolerances(x, self.tolerance, self.tolerance)
            return {"t": [1.0, 0.0], "step": _FIRST, "adaptive": True, "max_steps": _MOST_STEPS, **accuracy}
        return {"t": [1.0, *self._inner(self.steps, torch.empty(0)).tolist(), 0.0], "step": 1.0, "adaptive": False}

    def _inner(self, steps: int, like: Tensor) -> Tensor:
        """Times between 1 and 0: ends of equal steps, which are moved at random in training.

        That makes it harder for a field, though not impossible, to learn to profit from the error of steps.
        """
        made: dict[str, Any] = {"device": like.device, "dtype": like.dtype}
        ends = torch.arange(1, steps, **made)
        if self.training:
            ends = ends + (torch.rand(steps - 1, generator=stream(like.device), **made) - 0.5) * _JITTER
        return 1 - ends / steps

    def _run_ahead(self, rate: Callable[[Tensor, Tensor], Tensor], y: Tensor, steps: int) -> Tensor:
        """The state at time 0, by steps whose times lie on the device."""
        times = torch.cat([y.new_ones(1), self._inner(steps, y), y.new_zeros(1)])
        method = Method(tableau_of(self.method), rate, y, rows=True, graph=True)
        for t, end in pairwise(times.unbind()):
            y = method.step(t, end - t, y, method.slope(t, y)).y
        return y

    def backward_flow(
        self, x: Tensor, rtol: float, atol: float, probes: Tensor | None = None, context: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        r"""Where rows came from, and by how much their log-density changed on the way.

        x: (n, d). probes: (k, n, d) for k estimates of the trace, None for the exact one.
        Returns z(0), (n, d), and :math:`-\int_0^1 \operatorname{tr} \partial f / \partial z\, dt`, (n, k) or (n, 1).
        """
        return self._flow(x, (1.0, 0.0), rtol, atol, probes, context)

    def forward_flow(
        self, z: Tensor, rtol: float, atol: float, probes: Tensor | None = None, context: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Where codes (n, d) go, and the integral of the trace on the way; see ``backward_flow``."""
        return self._flow(z, (0.0, 1.0), rtol, atol, probes, context)

    def _flow(
        self,
        x: Tensor,
        times: tuple[float, float],
        rtol: float,
        atol: float,
        probes: Tensor | None,
        context: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        d, fixed = x.shape[1], self._fixed(x, probes, context)
        start = torch.cat([x, x.new_zeros(len(x), 1 if probes is None else len(probes))], 1)

        def rate(t: Tensor, y: Tensor) -> Tensor:
            return torch.cat(self._rates(t, y[:, :d], fixed), 1)

        end = solve(rate, start, times, per_row=True, **tolerances(x, rtol, atol)).last
        return end[:, :d], end[:, d:]

    def log_density(self, x: Tensor, rtol: float, atol: float, context: Tensor | None = None) -> Tensor:
        """log p(x) of each row, by the exact trace."""
        z, change = self.backward_flow(x, rtol, atol, context=context)
        return log_normal(z) + change[:, 0]

    def carry(
        self, z: Tensor, times: Sequence[float], rtol: float, atol: float, context: Tensor | None = None
    ) -> Tensor:
        """Where points (n, d) of the first time are at each of the times, (m, n, d)."""
        offsets = self._fixed(z, None, context).offsets

        def rate(t: Tensor, y: Tensor) -> Tensor:
            value: Tensor = self.field(t, y, offsets)
            return value

        states: Tensor = solve(rate, z, times, per_row=True, **tolerances(z, rtol, atol)).y
        return states

    def _rates(self, t: Tensor, z: Tensor, fixed: _Fixed) -> tuple[Tensor, Tensor]:
        """The field (n, d), and its trace (n, 1) or estimates of it (n, k)."""
        if fixed.probes is None:
            value, trace = self.field.with_divergence(t, z, fixed.coupling, fixed.offsets)
            return value, trace[:, None]
        value, products = self.field.with_products(t, z, fixed.probes, fixed.offsets)
        return value, (products * fixed.probes).sum(-1).T

    def _priced(self, t: Tensor, z: Tensor, fixed: _Fixed) -> tuple[Tensor, Tensor, Tensor]:
        """The field (n, d), its trace (n, 1), and how fast the penalty of training grows, (n, 1)."""
        probes = fixed.probes
        if probes is None or not self.smooth:
            value, trace = self._rates(t, z, fixed)
            return value, trace, value.square().sum(1, keepdim=True)
        value, products = self.field.with_products(t, z, probes, fixed.offsets)
        price = value.square().sum(1, keepdim=True) + products.square().sum((0, 2))[:, None]
        return value, (products * probes).sum(-1).T, price


def log_normal(z: Tensor) -> Tensor:
    """Log-density of a standard normal at rows (n, d)."""
    return -0.5 * (z.square() + _LOG_2PI).sum(-1)


def rademacher(shape: Sequence[int], like: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Random signs in the type of ``like``; a generator on the CPU draws the same for every device."""
    generator = generator or stream(like.device)
    bits = torch.randint(2, tuple(shape), generator=generator, device=generator.device)
    return (2 * bits - 1).to(like.device, like.dtype)


def tolerances(x: Tensor, rtol: float, atol: float) -> dict[str, Any]:
    """Tolerances no finer than what the type of ``x`` can hold over some hundred steps."""
    least = 32 * torch.finfo(x.dtype).eps
    return {"rtol": max(rtol, least), "atol": max(atol, least)}
