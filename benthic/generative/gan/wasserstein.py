"""The Wasserstein generative adversarial network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benthic.generative.gan.tables import TableAdversarialEstimator


class WGAN(TableAdversarialEstimator):
    r"""Wasserstein GAN: the critic estimates the distance to the data that the generator makes small.

    .. math:: W_1(p, q) = \max_{\|D\|_L \le 1} E_{x \sim p} D(x) - E_{x \sim q} D(x)

    Arjovsky et al., 2017; with the gradient penalty of Gulrajani et al., 2017, by default.

    penalty: ``gradient`` (the norm of the critic's gradient between real and generated rows is to be one),
    ``one_sided`` (at most one), or ``clip``, which bounds its weights by ``penalty_weight``. critic_steps: updates of
    the critic for each one of the generator. Everything else is as in ``GAN``; ``history_`` has the critic's estimate
    of the distance as ``wasserstein``, in standard deviations of the data.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 2)) @ np.array([[1.0, 0.9], [0.0, 0.4]])
    >>> model = WGAN(2, hidden_layer_sizes=(16,), trainer={"steps": 120}, random_state=0).fit(X)
    >>> model.sample(4).shape
    (4, 2)
    """

    loss = "wasserstein"

    def __init__(
        self,
        latent_dim: int = 16,
        *,
        latent_components: int = 1,
        network: Any = "auto",
        hidden_layer_sizes: Sequence[int] = (128, 128),
        activation: str = "leaky_relu",
        columns: str = "auto",
        penalty: Any = "gradient",
        penalty_weight: float | None = None,
        spectral: bool = False,
        critic_steps: int = 5,
        generator_lr: float | None = None,
        critic_lr: float | None = None,
        game: str = "alternating",
        trainer: Any = None,
        random_state: Any = None,
    ) -> None:
        self.latent_dim = latent_dim
        self.latent_components = latent_components
        self.network = network
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.columns = columns
        self.penalty = penalty
        self.penalty_weight = penalty_weight
        self.spectral = spectral
        self.critic_steps = critic_steps
        self.generator_lr = generator_lr
        self.critic_lr = critic_lr
        self.game = game
        self.trainer = trainer
        self.random_state = random_state
