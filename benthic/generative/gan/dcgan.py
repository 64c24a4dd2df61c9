"""The deep convolutional generative adversarial network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benthic.generative.gan.images import PictureAdversarialEstimator


class DCGAN(PictureAdversarialEstimator):
    """Adversarial model of pictures (n, c, h, w) with convolutional networks.

    Radford et al., 2016: the generator doubles a small picture until it has the size of the data, the critic halves
    it; batch norm is in both, but neither at the generator's output nor at the critic's input, and real and generated
    batches are normalized apart. Pictures of any size from 4 by 4 pixels on: sides that cannot be halved often enough
    are made larger and cropped (the summary says so). Values are mapped from their range to [-1, 1] and back. Tables
    get the fully connected networks of ``GAN``.

    latent_dim: size of the noise. channels: of the convolutions from the picture inward, by default 64, doubled at each
    halving down to at most 7 pixels. norm: of the generator, ``batch``, ``virtual`` or ``reference`` (by a fixed batch,
    Salimans et al., 2016), ``group`` or ``none``. critic_norm: the same and ``spectral`` (Miyato et al., 2018) or
    ``instance``; ``auto`` is ``none`` under a penalty on gradients, with which batch norm is refused since through it
    rows of a batch see each other, ``spectral`` with loss ``hinge`` or residual blocks, else ``batch``. upsampling:
    ``transposed`` convolutions or ``resize`` and convolve (Odena et al., 2016), which leaves no checkerboards.
    residual: blocks with a way around them (He et al., 2016) in both networks. minibatch: what lets the critic see how
    much a batch varies, ``discrimination`` (Salimans et al., 2016), ``deviation`` (Karras et al., 2018) or None.
    network: ``auto``, ``mlp`` (fully connected, also for pictures) or modules (generator, critic). hidden_layer_sizes,
    activation: of fully connected networks. Everything else is as in ``GAN``: a WGAN-GP is ``DCGAN(loss="wasserstein",
    penalty="gradient", critic_steps=5)``.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).random((64, 1, 8, 8))
    >>> model = DCGAN(4, channels=(4,), trainer={"steps": 4, "verbose": False}, random_state=0)
    >>> model.fit(X).sample(3).shape
    (3, 1, 8, 8)
    """

    def __init__(
        self,
        latent_dim: int = 64,
        *,
        channels: Sequence[int] | None = None,
        norm: str = "batch",
        critic_norm: str = "auto",
        upsampling: str = "transposed",
        residual: bool = False,
        minibatch: str | None = None,
        network: Any = "auto",
        hidden_layer_sizes: Sequence[int] = (128, 128),
        activation: str = "leaky_relu",
        loss: Any = "non_saturating",
        penalty: Any = None,
        penalty_weight: float | None = None,
        critic_steps: int = 1,
        generator_lr: float | None = None,
        critic_lr: float | None = None,
        game: str = "alternating",
        trainer: Any = None,
        random_state: Any = None,
    ) -> None:
        self.latent_dim = latent_dim
        self.channels = channels
        self.norm = norm
        self.critic_norm = critic_norm
        self.upsampling = upsampling
        self.residual = residual
        self.minibatch = minibatch
        self.network = network
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.loss = loss
        self.penalty = penalty
        self.penalty_weight = penalty_weight
        self.critic_steps = critic_steps
        self.generator_lr = generator_lr
        self.critic_lr = critic_lr
        self.game = game
        self.trainer = trainer
        self.random_state = random_state
