"""The variational autoencoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from benthic.generative.vae.estimator import VariationalEstimator
from benthic.training.intake import Intake


class VAE(VariationalEstimator):
    r"""Variational autoencoder: a latent code z ~ p(z) and a decoder p(x|z), learned with an encoder q(z|x).

    .. math:: \log p(x) \ge E_{q(z|x)}[\log p(x|z)] - \beta\, KL(q(z|x) \,\|\, p(z))

    Kingma & Welling, 2014; importance bound of Burda et al., 2016.

    latent_dim: size of the code. network: ``auto`` (convolutions for pictures, else fully connected), ``mlp``,
    ``conv``, or a pair of modules (encoder, decoder). hidden_layer_sizes: widths of a fully connected encoder, mirrored
    in the decoder. channels: of a convolutional one, each of which halves the picture.
    decoder: ``gaussian`` (any numbers), ``bernoulli`` (zeros and ones), ``categorical`` or ``logistic`` (``levels``
    levels), ``mixed`` (each column of a frame by its kind), or ``auto``, which is ``mixed`` for frames with categories
    and else ``gaussian``. noise: of a Gaussian decoder, one learned scale a ``column``, one a ``row`` and column, one
    ``shared`` by all, or a number in standardized units; ``auto`` is ``shared`` for pictures, all pixels of which are
    standardized by one number, and else ``column``. A logistic decoder is ``shared`` or by ``column`` likewise.
    noise_floor: smallest noise scale of a Gaussian decoder.
    binarize: draw gray values in [0, 1] as zeros and ones afresh at every step, for a Bernoulli decoder.
    beta: weight of the KL term (Higgins et al., 2017). kl_warmup: share of training over which it rises from 0.
    free_bits: nats that each coordinate of the code may use at no cost (Kingma et al., 2016).
    posterior: q(z|x), normal with a ``diagonal`` or a ``full`` covariance, a ``flow`` (a normal carried on by inverse
    autoregressive maps; Kingma et al., 2016), or ``von_mises_fisher``: codes are then directions, uniform beforehand
    (Davidson et al., 2018). prior: ``normal``, a learned ``mixture`` of normals, ``vamp``, the posteriors of learned
    pseudo-inputs (Tomczak & Welling, 2018), prior_components of them, a ``flow`` of splines, or ``fitted``: normal in
    training, after which a mixture of normals with full covariances is fitted to the codes of the data, with as many
    components as rows allow, 20 at most (Ghosh et al., 2020). A short training leaves codes that are far from normal,
    and samples are then much better with a fitted prior.
    trainer: a ``Trainer`` or dict. ``likelihood`` methods: ``elbo``, ``importance(k)`` and ``ais(temperatures)``, all
    lower bounds.
    NaN is a missing value: it is neither seen nor explained.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 3)) @ np.ones((3, 3))
    >>> model = VAE(latent_dim=1, trainer={"steps": 50}, random_state=0).fit(X)
    >>> model.sample(4).shape, model.encode(X).shape
    ((4, 3), (200, 1))
    """

    def __init__(
        self,
        latent_dim: int = 16,
        *,
        network: Any = "auto",
        hidden_layer_sizes: Sequence[int] = (256, 128),
        channels: Sequence[int] | None = None,
        activation: str = "relu",
        decoder: str = "auto",
        noise: str | float = "auto",
        noise_floor: float = 1e-3,
        levels: int = 256,
        binarize: bool = False,
        beta: float = 1.0,
        kl_warmup: float = 0.0,
        free_bits: float = 0.0,
        posterior: str = "diagonal",
        prior: str = "normal",
        prior_components: int = 100,
        trainer: Any = None,
        random_state: Any = None,
    ) -> None:
        self.latent_dim = latent_dim
        self.network = network
        self.hidden_layer_sizes = hidden_layer_sizes
        self.channels = channels
        self.activation = activation
        self.decoder = decoder
        self.noise = noise
        self.noise_floor = noise_floor
        self.levels = levels
        self.binarize = binarize
        self.beta = beta
        self.kl_warmup = kl_warmup
        self.free_bits = free_bits
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
