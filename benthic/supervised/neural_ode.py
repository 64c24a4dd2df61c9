"""Networks of continuous depth as classifier and regressor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from benthic.base.errors import InvalidInput
from benthic.base.validation import speaking
from benthic.dynamics.control import Control
from benthic.nets.activations import activation
from benthic.nets.mlp import initialize
from benthic.nets.ode_block import MLPField, ODEBlock, check_block
from benthic.supervised.mlp import MLPClassifier, MLPRegressor, _MLPEstimator

_MANY, _DROPOUT = 32, 0.3  # from so many columns on, rows can do without some of them


class ODENetwork(nn.Module):
    """A linear lift, a flow, and a linear reading of where it ends.

    inputs, outputs: numbers of columns. width: size of the lifted rows; None lets the flow begin at the rows
    themselves. hidden, nonlinearity: of the field. dropout: of inputs, of what the lift gives and of what the flow
    gives. flow: settings of ``ODEBlock``.

    >>> ODENetwork(5, 3, 8, (16,), steps=2)(torch.zeros(4, 5)).shape
    torch.Size([4, 3])
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        width: int | None,
        hidden: Sequence[int],
        nonlinearity: str = "tanh",
        dropout: float = 0.0,
        **flow: Any,
    ) -> None:
        super().__init__()
        self.lift = nn.Identity() if width is None else nn.Linear(inputs, width)
        size = (inputs if width is None else width) + flow.get("augment", 0)
        self.flow = ODEBlock(MLPField(size, hidden, nonlinearity), **flow)
        self.head = nn.Linear(size, outputs)
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()
        for linear in (self.lift, self.head):
            if isinstance(linear, nn.Linear):
                initialize(linear, "identity")

    def forward(self, x: Tensor, per_row: bool = False) -> Tensor:
        """Outputs for rows (n, d). per_row: see ``ODEBlock``."""
        lifted = self.dropout(self.lift(self.dropout(x))).to(x.dtype)  # autocast may have made it narrower
        outputs: Tensor = self.head(self.dropout(self.flow(lifted, per_row)))
        return outputs


class _Flows(_MLPEstimator):
    """What classifier and regressor share: the settings, the network, the flow; they learn as ``MLP`` models do."""

    dropout: Any
    defaults = {"lr": 3e-3, "optimizer": "adam", "schedule": "cosine"}

    def __init__(
        self,
        width: int | None = 128,
        hidden_layer_sizes: Sequence[int] = (128,),
        activation: str = "relu",
        *,
        t1: float = 1.0,
        method: str = "rk4",
        solver_steps: int | None = 2,
        rtol: float = 1e-4,
        atol: float = 1e-4,
        gradient: str = "steps",
        augment: int = 0,
        alpha: float = 1e-4,
        dropout: float | None = 0.0,
        trainer: Any = None,
        random_state: Any = None,
    ) -> None:
        self.width = width
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.t1 = t1
        self.method = method
        self.solver_steps = solver_steps
        self.rtol = rtol
        self.atol = atol
        self.gradient = gradient
        self.augment = augment
        self.alpha = alpha
        self.dropout = dropout
        self.trainer = trainer
        self.random_state = random_state

    def _check_settings(self) -> None:
        sizes: tuple[Any, ...] = self._hidden
        width: Any = self.width
        with speaking(self, "fit"):
            activation(self.activation)
            if any(not isinstance(size, int) or size < 1 for size in sizes):
                raise InvalidInput(f"hidden_layer_sizes is {self.hidden_layer_sizes!r}; widths are whole numbers >= 1")
            if self.alpha < 0:
                raise InvalidInput(f"alpha is {self.alpha}; the L2 penalty must be >= 0")
            if self.dropout is not None and not 0 <= self.dropout < 1:
                raise InvalidInput(f"dropout is {self.dropout}; a drop probability lies in [0, 1)")
            if width is not None and (not isinstance(width, int) or width < 1):
                raise InvalidInput(f"width is {self.width!r}; it must be a whole number >= 1, or None for no lift")
            check_block(self.t1, self.method, self.solver_steps, self.gradient, self.augment)
            Control(self.rtol, self.atol).check(torch.float32)

    def _build_network(self, name: str) -> nn.Module:
        by_itself = _DROPOUT if self._width >= _MANY else 0.0
        return ODENetwork(
            self._width,
            self._outputs,
            self.width,
            self._hidden,
            self.activation,
            by_itself if self.dropout is None else self.dropout,
            t1=self.t1,
            method=self.method,
            steps=self.solver_steps,
            rtol=self.rtol,
            atol=self.atol,
            gradient=self.gradient,
            augment=self.augment,
        )

    def _outputs_of(self, X: Tensor) -> Tensor:
        """Raw outputs of the network; every row is solved as if it were alone."""
        return self._evaluate(lambda network, rows: network(self.scales_.transform(rows), per_row=True), X)

    def flow(self, X: Any, times: Sequence[float]) -> Any:
        """Where the rows are at times (m,) of the flow, from 0 to ``t1`` and rising, as (m, n, width + augment)."""
        tensor, origin = self._arrive(X, "flow")
        wanted = [float(t) for t in times]
        inside = wanted and wanted[0] >= 0 and wanted[-1] <= self.t1
        if not inside or any(a >= b for a, b in pairwise(wanted)):
            raise self._fail("flow", f"times are {wanted}; they must rise, from 0 at the earliest to t1={self.t1}")

        def states(network: ODENetwork, rows: Tensor) -> Tensor:
            begin = network.lift(self.scales_.transform(rows))
            later = [t for t in wanted if t > 0]
            parts = [network.flow.widened(begin)[None]] if wanted[0] == 0 else []
            parts += [network.flow.path(begin, later, per_row=True)] if later else []
            return torch.cat(parts).transpose(0, 1)  # (n, m, width), rows first for the blocks

        return origin.mirror(self._evaluate(states, tensor).transpose(0, 1))

    def _facts(self) -> dict[str, Any]:
        how = f"{self.solver_steps} steps" if self.solver_steps is not None else f"tolerance {self.rtol:g}"
        return {**super()._facts(), "solver": f"{self.method}, {how}"}


class NeuralODEClassifier(_Flows, MLPClassifier):
    r"""Network of continuous depth for classes: rows are lifted, carried along a learned field, and read off.

    .. math:: z(0) = A x + a, \qquad \dot z = f_\theta(t, z), \qquad p = \mathrm{softmax}(B z(t_1) + b)

    Chen, Rubanova, Bettencourt & Duvenaud, 2018.

    width: size of the state; None lets the flow begin at the (standardized) rows themselves. hidden_layer_sizes,
    activation: of the network that is the field. t1: time of the flow. method: of the solver, as in
    ``benthic.dynamics.solve``. solver_steps: how many equal steps; None lets ``rtol`` and ``atol`` decide (with
    ``dormand_prince`` and other methods that estimate their error). gradient: ``steps``, ``checkpoint`` or
    ``adjoint``, which trade time for memory. augment: zeros put beside the state as further dimensions.
    dropout: probability of dropping an input, a lifted one, or one of what the flow gives; None decides by the
    table: 0.3 from 32 columns on, else none. alpha, class_weight, trainer: as in ``MLPClassifier``.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> NeuralODEClassifier(8, (16,), trainer={"steps": 100, "lr": 0.02}, random_state=0).fit(X, y).score(X, y) > 0.95
    True
    """

    def __init__(
        self,
        width: int | None = 128,
        hidden_layer_sizes: Sequence[int] = (128,),
        activation: str = "relu",
        *,
        t1: float = 1.0,
        method: str = "rk4",
        solver_steps: int | None = 2,
        rtol: float = 1e-4,
        atol: float = 1e-4,
        gradient: str = "steps",
        augment: int = 0,
        alpha: float = 1e-4,
        dropout: float | None = None,
        class_weight: str | Mapping[Any, float] | None = None,
        trainer: Any = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            width,
            hidden_layer_sizes,
            activation,
            t1=t1,
            method=method,
            solver_steps=solver_steps,
            rtol=rtol,
            atol=atol,
            gradient=gradient,
            augment=augment,
            alpha=alpha,
            dropout=dropout,
            trainer=trainer,
            random_state=random_state,
        )
        self.class_weight = class_weight


class NeuralODERegressor(_Flows, MLPRegressor):
    """Network of continuous depth for numbers, trained on squared error by minibatches.

    Parameters as in ``NeuralODEClassifier``. Inputs and targets are standardized inside; ``y`` may have several
    columns; there is no dropout unless asked for. To fit the parameters of known equations to trajectories, see
    ``benthic.dynamics.recover``.

    >>> import numpy as np
    >>> X = np.linspace(-3, 3, 200)[:, None]
    >>> model = NeuralODERegressor(8, (16,), trainer={"steps": 300, "lr": 0.02}, random_state=0)
    >>> model.fit(X, np.sin(X[:, 0])).score(X, np.sin(X[:, 0])) > 0.99
    True
    """
