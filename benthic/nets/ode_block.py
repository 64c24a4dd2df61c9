"""Networks of continuous depth: a layer that follows a field, and a field that a small network gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from benthic.base.errors import InvalidInput, nearest
from benthic.base.settings import whole
from benthic.dynamics.ode import GRADIENTS, solve
from benthic.dynamics.tableau import Tableau, tableau_of
from benthic.nets.mlp import MLP


class MLPField(nn.Module):
    r"""A field given by a fully connected network whose first layer also sees the time.

    .. math:: f(t, z) = W_L\, \phi(\cdots \phi(W_1 z + b_1 + t\, u)) + b_L

    width: size of the state. hidden: widths between. It starts near zero, so that the flow starts near the identity.

    >>> MLPField(3, (8,))(torch.tensor(0.5), torch.zeros(4, 3)).shape
    torch.Size([4, 3])
    """

    def __init__(self, width: int, hidden: Sequence[int] = (64,), nonlinearity: str = "tanh") -> None:
        super().__init__()
        self.layers = MLP([width, *hidden, width], nonlinearity)
        first, *_, last = [layer for layer in (self.layers[0], *self.layers) if isinstance(layer, nn.Linear)]
        self.time = nn.Parameter(torch.empty(first.out_features).uniform_(-1.0, 1.0))
        with torch.no_grad():
            last.weight.mul_(0.1)
            last.bias.zero_()

    def forward(self, t: Tensor, z: Tensor) -> Tensor:
        """The slope at time t, () or one for each row, of states (..., width)."""
        first, *rest = self.layers
        z = first(z) + t * self.time
        for layer in rest:
            z = layer(z)
        return z


class ODEBlock(nn.Module):
    r"""A layer that carries its input along a field for some time (Chen et al., 2018).

    .. math:: z(0) = x, \qquad \dot z = f(t, z), \qquad \mathrm{block}(x) = z(t_1)

    field: a module called with a time and states (..., d). t1: how long. method: see ``benthic.dynamics.solve``.
    steps: how many equal steps; None lets the tolerances ``rtol`` and ``atol`` decide. One step of Euler's method
    is a residual block. gradient: ``steps``, ``checkpoint`` or ``adjoint``, see ``solve``. augment: zeros put
    beside the input as further dimensions, so that curves can pass each other (Dupont, Doucet & Teh, 2019); the
    output has them too. channel: the dimension that they lengthen, the last one or, for pictures (n, c, h, w), -3.
    With ``t1=0`` there is no flow and no field: the block is the identity.

    >>> field = MLPField(2, (8,))
    >>> x = torch.ones(1, 2)
    >>> block = ODEBlock(field, method="euler", steps=1)
    >>> torch.equal(block(x), x + field(torch.tensor(0.0), x))
    True
    """

    def __init__(
        self,
        field: nn.Module | None,
        t1: float = 1.0,
        *,
        method: str | Tableau = "rk4",
        steps: int | None = 4,
        rtol: float = 1e-4,
        atol: float = 1e-4,
        gradient: str = "steps",
        augment: int = 0,
        channel: int = -1,
    ) -> None:
        super().__init__()
        check_block(t1, method, steps, gradient, augment)
        if field is None and t1:
            raise InvalidInput(f"ODEBlock: there is no field to follow for the time t1={t1}; give one, or use t1=0")
        self.field, self.t1, self.augment, self.channel = field, float(t1), augment, channel
        self.method, self.steps, self.rtol, self.atol, self.gradient = method, steps, rtol, atol, gradient

    def forward(self, z: Tensor, per_row: bool = False) -> Tensor:
        """States (..., d) at the end of the flow, as (..., d + augment).

        per_row: with controlled steps, each row has its own, so that its answer does not depend on the others.
        """
        z = self.widened(z)
        end: Tensor = solve(self._slope, z, [0.0, self.t1], **self._options(per_row)).last if self.t1 else z
        return end

    def path(self, z: Tensor, times: Sequence[float], per_row: bool = False) -> Tensor:
        """States (m, ..., d + augment) at rising times (m,) after 0, read off the steps that ``forward`` takes."""
        options, z = self._options(per_row), self.widened(z)
        states: Tensor
        if self.steps is None:
            states = solve(self._slope, z, [0.0, *times], **options).y[1:]
        else:
            states = solve(self._slope, z, [0.0, self.t1], dense=True, **options).at(times)
        return states

    def _options(self, per_row: bool) -> dict[str, Any]:
        options: dict[str, Any] = {"method": self.method, "gradient": self.gradient, "parameters": self.parameters()}
        if self.steps is not None:
            return options | {"step": self.t1 / self.steps, "adaptive": False}
        # rows that are solved by themselves have the graph of their steps
        way = "steps" if per_row else self.gradient
        return options | {"rtol": self.rtol, "atol": self.atol, "per_row": per_row, "gradient": way}

    def widened(self, z: Tensor) -> Tensor:
        """The input with its further dimensions of zeros."""
        inner = (0, 0) * (-1 - self.channel)
        return nn.functional.pad(z, (*inner, 0, self.augment)) if self.augment else z

    def _slope(self, t: Tensor, z: Tensor) -> Tensor:
        if self.field is None:
            raise InvalidInput("ODEBlock: there is no field to follow")
        slope: Tensor = self.field(t, z)
        return slope.to(z.dtype)  # autocast may have made it narrower

    def extra_repr(self) -> str:
        """The settings of the solver."""
        how = f"steps={self.steps}" if self.steps is not None else f"rtol={self.rtol}, atol={self.atol}"
        return f"t1={self.t1}, method={self.method!r}, {how}, gradient={self.gradient!r}, augment={self.augment}"


def check_block(t1: float, method: str | Tableau, steps: Any, gradient: str, augment: Any) -> None:
    """That the settings of a block fit together."""
    if not 0 <= t1 < float("inf"):
        raise InvalidInput(f"ODEBlock: t1 is {t1}; the time of the flow is positive, or 0 for the identity")
    tableau = tableau_of(method)
    if tableau.diagonal:
        raise InvalidInput(f"ODEBlock: method {tableau.name!r} is implicit; a layer takes explicit steps, as of 'rk4'")
    if steps is None and not tableau.adaptive:
        raise InvalidInput(f"ODEBlock: {tableau.name} has no error estimate to control steps by; say how many steps")
    whole("ODEBlock: steps", steps, optional=True)
    if gradient not in GRADIENTS:
        raise InvalidInput(f"ODEBlock: gradient={gradient!r}{nearest(gradient, GRADIENTS)}; use {', '.join(GRADIENTS)}")
    whole("ODEBlock: augment", augment, 0)
