"""The generative adversarial network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benthic.generative.gan.dense import DenseAdversarialEstimator
from benthic.generative.gan.tables import TableAdversarialEstimator

__all__ = ["GAN", "DenseAdversarialEstimator"]


class GAN(TableAdversarialEstimator):
    r"""Generative adversarial network: a generator G of rows from noise, and a critic D that tells them from real ones.

    .. math:: \min_G \max_D\; E_x \log \sigma(D(x)) + E_z \log(1 - \sigma(D(G(z))))

    Goodfellow et al., 2014. By default the generator instead makes :math:`-E_z \log \sigma(D(G(z)))` small
    (non-saturating), and the critic's gradient at real rows is kept small, with which training converges (Mescheder et
    al., 2018).

    latent_dim: size of the noise. network: ``auto`` or ``mlp``, fully connected; or modules (generator, critic).
    hidden_layer_sizes: widths of the generator, in reverse those of the critic. activation: of both.
    columns: how a table is shown to the networks: ``standard`` (each column of numbers standardized), ``modes``
    (numbers by the mode they lie in and their place there, categories drawn as such; Xu et al., 2019), or ``auto``:
    modes for frames with categories or truth values. latent_components: if more than 1, the noise comes in so many
    separate lumps (Gurumurthy et al., 2017), so that the generator can leave gaps between clusters of the data.
    loss: ``minimax``, ``non_saturating``, ``wasserstein``, ``hinge``, ``least_squares``, ``relativistic`` or
    ``relativistic_average``, or two functions; see ``loss_of``. penalty: on the critic's gradient, ``r1``, ``r2``,
    ``gradient``, ``one_sided``, several of them, a bound ``clip`` on its weights, or None; see ``regularizer_of``.
    penalty_weight: None takes the usual one. spectral: divide the critic's layers by their norms.
    critic_steps: updates of the critic for each one of the generator, each on rows of its own.
    generator_lr, critic_lr: rates of their own (Heusel et al., 2017), else the trainer's. game: the players move in
    turn (``alternating``), at once (``simultaneous``), with a look ahead (``extragradient``), or as if the last step
    came again (``optimistic``); see ``benthic.optim.games``. trainer: a ``Trainer`` or dict; its steps count the
    updates of both players, its ``ema`` is of the generator, and if it names none, about the last twentieth of the run
    is averaged.

    From 100 rows on, 5 percent of them (500 at most) are not learned from, but choose the bandwidth of ``likelihood``
    and show whether rows are copied. ``likelihood`` methods: ``kde`` (default), the density of 2048 draws smoothed by
    a Gaussian; ``ais(temperatures)``, a lower bound for the generator with that much noise added (Wu et al., 2017).
    ``encode`` looks for the noise that a row is made from. ``history_`` and ``summary`` tell of the critic's gap, the
    share of clusters of the data that are covered, and the gradients.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 2)) @ np.array([[1.0, 0.9], [0.0, 0.4]])
    >>> model = GAN(2, hidden_layer_sizes=(16,), trainer={"steps": 100}, random_state=0).fit(X)
    >>> model.sample(4).shape, model.likelihood(X).kind
    ((4, 2), 'kde')
    """

    def __init__(
        self,
        latent_dim: int = 16,
        *,
        latent_components: int = 1,
        network: Any = "auto",
        hidden_layer_sizes: Sequence[int] = (128, 128),
        activation: str = "leaky_relu",
        columns: str = "auto",
        loss: Any = "non_saturating",
        penalty: Any = "r1",
        penalty_weight: float | None = None,
        spectral: bool = False,
        critic_steps: int = 1,
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
        self.loss = loss
        self.penalty = penalty
        self.penalty_weight = penalty_weight
        self.spectral = spectral
        self.critic_steps = critic_steps
        self.generator_lr = generator_lr
        self.critic_lr = critic_lr
        self.game = game
        self.trainer = trainer
        self.random_state = random_state
