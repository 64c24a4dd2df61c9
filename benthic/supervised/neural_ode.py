"""Networks of continuous depth as classifier and regressor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Self

import torch
from torch import Tensor, nn

from benthic.base.settings import number, sizes, whole
from benthic.base.validation import speaking
from benthic.data.standardize import Standardizer
from benthic.dynamics.control import Control
from benthic.nets.activations import activation
from benthic.nets.evaluate import device_of, in_blocks, in_type
from benthic.nets.ode_block import check_block
from benthic.supervised.mlp import MLPClassifier, MLPRegressor, _MLPEstimator
from benthic.supervised.ode_networks import ImageODENetwork, ODENetwork, by_channel
from benthic.supervised.trajectories import Motion, _Moves
from benthic.training.estimator import Session
from benthic.training.intake import Intake, Prepare
from benthic.training.network import Loss

_MANY, _DROPOUT = 32, 0.3  # from so many columns on, rows can do without some of them
_NUMBERS = 1 << 25  # of features of pictures evaluated at once


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
        with speaking(self, "fit"):
            activation(self.activation)
            sizes("hidden_layer_sizes", self.hidden_layer_sizes, empty=True)
            number("alpha", self.alpha)
            number("dropout", self.dropout, 0, 1, optional=True)
            whole("width", self.width, optional=True)
            check_block(self.t1, self.method, self.solver_steps, self.gradient, self.augment)
            Control(self.rtol, self.atol).check(torch.float32)

    def _build_network(self, name: str) -> nn.Module:
        by_itself = _DROPOUT if self._width >= _MANY and self._shape is None else 0.0
        kind, inputs = (ODENetwork, self._width) if self._shape is None else (ImageODENetwork, self._shape)
        return kind(
            inputs,
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

    def _fit_network(self, intake: Intake, session: Session, loss: Loss, prepare: Prepare, *, l2: float = 0.0) -> None:
        shape = self._shape
        if shape is not None:
            if len(shape) != 3:
                raise self._fail("fit", f"examples of shape {shape} are no images; X must be (n, d) or (n, c, h, w)")
            # all pixels of a channel alike: by itself, a pixel that is seldom lit would have a tiny spread
            found = self.scales_.to_tree()
            mean, spread = by_channel(found["mean"], found["spread"], shape[0])
            self.scales_ = Standardizer.from_tree({**found, "mean": mean, "spread": spread})
        super()._fit_network(intake, session, loss, prepare, l2=l2)

    @property
    def _shape(self) -> tuple[int, ...] | None:
        """(c, h, w) of the pictures that the model was fitted on, None for tables."""
        return None if hasattr(self, "schema_") else getattr(self, "_event_shape", None)

    def _evaluate(self, function: Callable[[Any, Tensor], Tensor], X: Tensor) -> Tensor:
        if self._shape is None or len(self._shape) != 3:
            return super()._evaluate(function, X)
        network, channels = in_type(self.network_, X.dtype), max(self.width or 1, *self._hidden, self._shape[0])
        rows = max(1, _NUMBERS // (channels * self._shape[1] * self._shape[2]))
        return in_blocks(lambda block: function(network, block), X.to(device_of(network)), rows)

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

        def states(network: Any, rows: Tensor) -> Tensor:
            begin = network.begin(self.scales_.transform(rows))
            later = [t for t in wanted if t > 0]
            parts = [network.flow.widened(begin)[None]] if wanted[0] == 0 else []
            parts += [network.flow.path(begin, later, per_row=True)] if later else []
            return torch.cat(parts).transpose(0, 1)  # (n, m, ...), rows first for the blocks

        return origin.mirror(self._evaluate(states, tensor).transpose(0, 1))

    def _facts(self) -> dict[str, Any]:
        how = f"{self.solver_steps} steps" if self.solver_steps is not None else f"tolerance {self.rtol:g}"
        return {**super()._facts(), "solver": f"{self.method}, {how}" if self.t1 else "none: the identity"}


class NeuralODEClassifier(_Flows, MLPClassifier):
    r"""Network of continuous depth for classes: rows are lifted, carried along a learned field, and read off.

    .. math:: z(0) = A x + a, \qquad \dot z = f_\theta(t, z), \qquad p = \mathrm{softmax}(B z(t_1) + b)

    Chen, Rubanova, Bettencourt & Duvenaud, 2018.

    For a table X (n, d) the ways in and out are linear and the field is a fully connected network. For images
    X (n, c, h, w) of any size, convolutions make features and halve them until their shorter side is at most 8, the
    field is convolutional, and the means of the features are read off; ``width`` and ``hidden_layer_sizes`` then
    count channels (the paper has 64 of each).

    width: size of the state; None lets the flow begin at the (standardized) rows or images themselves.
    hidden_layer_sizes, activation: of the network that is the field. t1: time of the flow; 0 puts the identity in
    its place, to see what the flow is worth. method: of the solver, as in ``benthic.dynamics.solve``.
    solver_steps: how many equal steps; None lets ``rtol`` and ``atol`` decide (with ``dormand_prince`` and other
    methods that estimate their error). gradient: ``steps``, ``checkpoint`` or ``adjoint``, which trade time for
    memory. augment: zeros put beside the state as further dimensions (of images, channels). dropout: probability of
    dropping an input, a lifted one, or one of what the flow gives (of images only the last); None decides by the
    data: 0.3 for tables from 32 columns on, else none. alpha, class_weight, trainer: as in ``MLPClassifier``.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> NeuralODEClassifier(8, (16,), trainer={"steps": 100, "lr": 0.02}, random_state=0).fit(X, y).score(X, y) > 0.95
    True
    """

    accepts_images = True

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


class NeuralODERegressor(_Moves, _Flows, MLPRegressor):
    r"""Network of continuous depth for numbers, or a law of motion learned from trajectories.

    .. math:: \dot x = f_\theta(x), \qquad x(t_i) \approx x_i

    With tables X (n, d) or images X (n, c, h, w) and targets ``y``, (n,) or (n, k), it is trained on squared error by
    minibatches, with parameters as in ``NeuralODEClassifier``; there is no dropout unless asked for.

    With trajectories X (n, T, d), n of them seen at the same T times, and no y, it learns the field along which they
    move, by multiple shooting (Bock, 1983): trajectories are cut in pieces of ``segment`` steps, whose unknown
    beginnings are learned too, so that long and noisy series can be followed. ``forecast`` goes on from given states,
    ``velocity`` is the field, ``predict`` gives the curves through the first states of trajectories, ``score`` their
    coefficient of determination. What drives the motion must be seen: of a pendulum, angle and speed.

    times: (T,) of the observations; None means 0, 1, 2, ... segment: None for whole trajectories. For trajectories
    ``solver_steps`` counts the steps between two observations, smooth activations (``tanh``) serve best, and width,
    t1, augment and dropout are not used. Inputs and targets are standardized inside. To fit the parameters of known
    equations, see ``benthic.dynamics.recover``.

    >>> import numpy as np
    >>> X = np.linspace(-3, 3, 200)[:, None]
    >>> model = NeuralODERegressor(8, (16,), trainer={"steps": 300, "lr": 0.02}, random_state=0)
    >>> model.fit(X, np.sin(X[:, 0])).score(X, np.sin(X[:, 0])) > 0.99
    True
    >>> t = np.linspace(0, 2, 11)
    >>> decays = np.array([1.0, 2.0, 3.0])[:, None, None] * np.exp(-t)[:, None]
    >>> law = NeuralODERegressor(
    ...     hidden_layer_sizes=(8,), activation="tanh", times=t, trainer={"steps": 20}, random_state=0
    ... ).fit(decays)
    >>> bool(abs(law.forecast([[2.0]], [1.0])[0, 0, 0] - 2 * np.exp(-1)) < 0.02)
    True
    """

    accepts_images = True

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
        times: Sequence[float] | None = None,
        segment: int | None = 8,
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
        self.times = times
        self.segment = segment

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows or images ``X`` and their targets ``y``, or from trajectories ``X`` (n, T, d) alone."""
        if len(getattr(X, "shape", ())) != 3:
            return super().fit(X, y)
        self._check_settings()
        if self.augment or self.dropout:
            raise self._fail(
                "fit", "augment and dropout are not for trajectories, which have the states that were seen"
            )
        return self._fit_motion(X, y)

    def _build_network(self, name: str) -> nn.Module:
        if not self._moving:
            return super()._build_network(name)
        flow = {"method": self.method, "steps": self.solver_steps, "rtol": self.rtol, "atol": self.atol}
        return Motion(self._size, self._hidden, self.activation, **flow, gradient=self.gradient)

    def _prediction(self, X: Tensor) -> Tensor:
        return self._predicted_motion(X) if self._moving else super()._prediction(X)

    def flow(self, X: Any, times: Sequence[float]) -> Any:
        """Where rows are at times (m,) of the flow, as in ``NeuralODEClassifier``; not for trajectories."""
        if self._moving:
            raise self._fail("flow", "the model was fitted on trajectories; forecast(X, times) follows them")
        return super().flow(X, times)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Coefficient of determination, of ``y`` or of trajectories after their first states."""
        return self._score_of_motion(X, sample_weight) if self._moving else super().score(X, y, sample_weight)
