"""The importance-weighted autoencoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.settings import whole
from benthic.generative.vae.estimator import VariationalEstimator
from benthic.training.intake import Intake


class ImportanceWeightedVAE(VariationalEstimator):
    r"""Variational autoencoder trained on a tighter bound, from several draws of the code for each row.

    .. math:: \log p(x) \ge E \log \frac1k \sum_{i=1}^k \frac{p(x, z_i)}{q(z_i|x)}, \qquad z_i \sim q(z|x)

    Burda et al., 2016; gradients as in Tucker et al., 2019, whose noise does not grow with k.

    draws: the number k of draws; 1 gives the bound of a VAE. The other parameters are those of ``VAE``.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 3)) @ np.ones((3, 3))
    >>> model = ImportanceWeightedVAE(1, draws=3, trainer={"steps": 50}, random_state=0).fit(X)
    >>> model.likelihood(X).kind
    'importance(64)'
    """

    def __init__(
        self,
        latent_dim: int = 16,
        *,
        draws: int = 5,
        network: Any = "auto",
        hidden_layer_sizes: Sequence[int] = (256, 128),
        channels: Sequence[int] | None = None,
        activation: str = "relu",
        decoder: str = "auto",
        noise: str | float = "auto",
        noise_floor: float = 1e-3,
        levels: int = 256,
        binarize: bool = False,
        posterior: str = "diagonal",
        prior: str = "normal",
        prior_components: int = 100,
        trainer: Any = None,
        random_state: Any = None,
    ) -> None:
        self.latent_dim = latent_dim
        self.draws = draws
        self.network = network
        self.hidden_layer_sizes = hidden_layer_sizes
        self.channels = channels
        self.activation = activation
        self.decoder = decoder
        self.noise = noise
        self.noise_floor = noise_floor
        self.levels = levels
        self.binarize = binarize
        self.posterior = posterior
        self.prior = prior
        self.prior_components = prior_components
        self.trainer = trainer
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows or images ``X`` (array, frame, path or source); ``y`` is ignored."""
        with self._session(X) as session:
            self._learn(Intake(self, X), session)
        return self

    def _check_settings(self) -> None:
        super()._check_settings()
        whole("draws", self.draws)
        if self.posterior == "flow":
            raise InvalidInput("posterior='flow' has no gradient with low variance for several draws; use VAE for it")

    def _row_losses(self, network: Callable[..., Tensor], x: Tensor, c: Tensor | None, beta: float | Tensor) -> Tensor:
        return network(x, beta, c, draws=self.draws)
