"""Adversarial models with fully connected networks, or with those of the user."""

from __future__ import annotations

from typing import Any, Self

from torch import nn

from benthic.base.errors import InvalidInput
from benthic.base.settings import sizes
from benthic.generative.gan.estimator import AdversarialEstimator
from benthic.generative.gan.networks import Critic, OwnCritic, OwnGenerator, mlp_generator, pair_of_modules
from benthic.nets.activations import activation
from benthic.training.intake import Intake


class DenseAdversarialEstimator(AdversarialEstimator):
    """Base of adversarial models with fully connected networks, or the user's."""

    network: Any = "auto"
    hidden_layer_sizes: Any
    activation: str
    spectral: bool = False

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows or images ``X`` (array, frame, path or source); ``y`` is ignored."""
        with self._session(X) as session:
            self._learn(Intake(self, X), session)
        return self

    def _check_settings(self) -> None:
        super()._check_settings()
        activation(self.activation)
        sizes("hidden_layer_sizes", self.hidden_layer_sizes, empty=True)
        if not isinstance(self.network, str):
            pair_of_modules(self.network)
        elif self.network not in ("auto", "mlp"):
            raise InvalidInput(f"network {self.network!r} is unknown; use 'auto', 'mlp' or a pair (generator, critic)")
        if self.spectral and not isinstance(self.network, str):
            raise InvalidInput("spectral=True makes layers of our own; build your critic of benthic.nets.spectral")

    @property
    def _hidden(self) -> tuple[int, ...]:
        return sizes("hidden_layer_sizes", self.hidden_layer_sizes, empty=True)

    def _row_size(self) -> int:
        """Numbers in a row as the networks see it."""
        return self._width

    def _starts_like_data(self) -> bool:
        return isinstance(self.network, str)

    def _build_generator(self) -> nn.Module:
        if isinstance(self.network, str):
            return mlp_generator(self._code_size(), self._hidden, self._row_size(), self.activation)
        return OwnGenerator(pair_of_modules(self.network)[0], self._code_size(), self._width)

    def _build_critic(self) -> nn.Module:
        if isinstance(self.network, str):
            return Critic([self._row_size(), *reversed(self._hidden), 1], self.activation, self.spectral)
        return OwnCritic(pair_of_modules(self.network)[1], getattr(self, "_event_shape", None) or (self._width,))
