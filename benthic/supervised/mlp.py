"""Fully connected networks as classifier and regressor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import torch
from sklearn.utils.class_weight import compute_class_weight
from torch import Tensor, nn
from torch.nn import functional as F

from benthic.base.capabilities import Classifies, Predicts
from benthic.base.errors import InvalidInput
from benthic.base.settings import number, sizes
from benthic.base.validation import speaking
from benthic.data.batch import Batch
from benthic.nets.activations import activation
from benthic.nets.mlp import MLP
from benthic.training.intake import Intake
from benthic.training.network import NetworkEstimator, scales_of, training_dtype


class _MLPEstimator(NetworkEstimator):
    """What classifier and regressor share: the settings, the network, standardized inputs."""

    defaults = {"lr": 1e-3, "optimizer": "adam"}

    def __init__(
        self,
        hidden_layer_sizes: Sequence[int] = (100,),
        activation: str = "relu",
        *,
        alpha: float = 1e-4,
        dropout: float = 0.0,
        trainer: Any = None,
        random_state: Any = None,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.alpha = alpha
        self.dropout = dropout
        self.trainer = trainer
        self.random_state = random_state

    def _check_settings(self) -> None:
        with speaking(self, "fit"):
            activation(self.activation)
            sizes("hidden_layer_sizes", self.hidden_layer_sizes, empty=True)
            number("alpha", self.alpha)
            number("dropout", self.dropout, 0, 1)

    @property
    def _hidden(self) -> tuple[int, ...]:
        return sizes("hidden_layer_sizes", self.hidden_layer_sizes, empty=True)

    def _build_network(self, name: str) -> nn.Module:
        return MLP([self._width, *self._hidden, self._outputs], self.activation, self.dropout)

    def _outputs_of(self, X: Tensor) -> Tensor:
        """Raw outputs of the network for rows in data units."""
        return self._evaluate(lambda network, rows: network(self.scales_.transform(rows)), X)


class MLPClassifier(Classifies, _MLPEstimator):
    """Fully connected network for classes, trained on cross-entropy by minibatches.

    hidden_layer_sizes: widths between input and output. activation: see ``benthic.nets.activations``.
    alpha: weight of the L2 penalty ½·alpha·‖W‖². dropout: probability of dropping a hidden unit.
    class_weight: None, ``balanced`` or a dict from class to weight. trainer: a ``Trainer`` or dict.
    Inputs are standardized inside, so columns of any scale will do.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> MLPClassifier(trainer={"steps": 200, "lr": 0.01}, random_state=0).fit(X, y).score(X, y) > 0.95
    True
    """

    def __init__(
        self,
        hidden_layer_sizes: Sequence[int] = (100,),
        activation: str = "relu",
        *,
        alpha: float = 1e-4,
        dropout: float = 0.0,
        class_weight: str | Mapping[Any, float] | None = None,
        trainer: Any = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            hidden_layer_sizes,
            activation,
            alpha=alpha,
            dropout=dropout,
            trainer=trainer,
            random_state=random_state,
        )
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows ``X`` (array, frame, path or source) and their classes ``y``."""
        with self._session(X) as session:
            self._check_settings()
            intake = Intake(self, X, y, target="labels")
            self.classes_ = intake.classes
            self._width, self._outputs = intake.width, len(self.classes_)
            self.scales_ = scales_of(intake)
            weights = self._weights_of_classes(intake)
            dtype = training_dtype(session)

            def prepare(batch: Batch) -> Batch:
                weight = (
                    None if weights is None or batch.y is None else weights[batch.y.cpu()].to(batch.X.device, dtype)
                )
                return Batch(self.scales_.transform(batch.X).to(dtype), batch.y, weight)

            self._fit_network(intake, session, _cross_entropy, prepare, l2=self.alpha)
        return self

    def _weights_of_classes(self, intake: Intake) -> Tensor | None:
        if self.class_weight is None:
            return None
        y = intake.sample(intake.rows if intake.data is not None else 1_000_000, 0).y
        with speaking(self, "fit"):
            named = self.classes_[y.cpu().numpy()] if y is not None else self.classes_
            weights = compute_class_weight(self.class_weight, classes=self.classes_, y=named)
        return torch.as_tensor(weights, dtype=torch.float64)

    def _probabilities(self, X: Tensor) -> Tensor:
        return torch.softmax(self._outputs_of(X), dim=1)


class MLPRegressor(Predicts, _MLPEstimator):
    """Fully connected network for numbers, trained on squared error by minibatches.

    Parameters as in ``MLPClassifier``. Inputs and targets are standardized inside; ``y`` may have several
    columns.

    >>> import numpy as np
    >>> X = np.linspace(-3, 3, 200)[:, None]
    >>> model = MLPRegressor(trainer={"steps": 500, "lr": 0.02}, random_state=0).fit(X, np.sin(X[:, 0]))
    >>> model.score(X, np.sin(X[:, 0])) > 0.99
    True
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows ``X`` (array, frame, path or source) and their targets ``y``, (n,) or (n, k)."""
        with self._session(X) as session:
            self._check_settings()
            intake = Intake(self, X, y, target="numbers")
            self.scales_ = scales_of(intake)
            self.target_scales_ = scales_of(intake, "y")
            example = intake.sample(1, 0).y
            self._squeeze = example is not None and example.ndim == 1
            self._width, self._outputs = intake.width, self.target_scales_.width
            dtype = training_dtype(session)

            def prepare(batch: Batch) -> Batch:
                targets = _columns(batch.y)
                return Batch(
                    self.scales_.transform(batch.X).to(dtype),
                    self.target_scales_.transform(targets).to(dtype),
                    batch.weight,
                )

            self._fit_network(intake, session, _squared_error, prepare, l2=self.alpha)
        return self

    def _prediction(self, X: Tensor) -> Tensor:
        outputs = self.target_scales_.inverse(self._outputs_of(X))
        return outputs[:, 0] if self._squeeze else outputs


def _columns(y: Tensor | None) -> Tensor:
    if y is None:
        raise InvalidInput("requires y to be passed, but the target y is None")
    return y[:, None] if y.ndim == 1 else y


def _cross_entropy(network: Callable[..., Tensor], batch: Batch) -> Tensor:
    logits = network(batch.X)
    if batch.weight is None:
        return F.cross_entropy(logits, batch.y, reduction="sum")
    return (F.cross_entropy(logits, batch.y, reduction="none") * batch.weight).sum()


def _squared_error(network: Callable[..., Tensor], batch: Batch) -> Tensor:
    """Half the squared error summed over outputs: the negative log-likelihood of unit Gaussian noise."""
    outputs = network(batch.X)
    if batch.weight is None:
        return 0.5 * F.mse_loss(outputs, batch.y, reduction="sum")
    return 0.5 * ((outputs - batch.y).square().sum(1) * batch.weight).sum()
