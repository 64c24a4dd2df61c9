"""The autoencoder."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Self

import torch
from torch import Tensor, nn

from benthic.base.capabilities import Encodes
from benthic.base.errors import InvalidInput
from benthic.base.settings import whole
from benthic.base.validation import speaking
from benthic.data.batch import Batch
from benthic.data.standardize import Standardizer
from benthic.generative.autoencoder.corruption import Corruption, check_corruption, corruption_of
from benthic.generative.autoencoder.network import AutoencoderNetwork, TiedDecoder, kl_to_target
from benthic.generative.latent_pictures import training_picture
from benthic.generative.vae.networks import Plan, plan_of
from benthic.generative.vae.space import Space, space_of
from benthic.nets.activations import activation
from benthic.training.estimator import Session
from benthic.training.intake import Intake, Prepare
from benthic.training.network import NetworkEstimator, scales_of, training_dtype

DECODERS = ("auto", "gaussian", "bernoulli", "mixed")
SPARSITIES = ("l1", "kl")
_LOOK = 4096  # rows that are looked at for their extremes


class Autoencoder(Encodes, NetworkEstimator):
    r"""A network that puts a row into a code and back, learned by rebuilding the rows.

    .. math:: \min_{f, g}\; \sum_i \ell(x_i, g(f(\tilde x_i))) + \text{penalties}

    Rumelhart, Hinton & Williams, 1986; denoising: Vincent et al., 2008; contractive: Rifai et al., 2011.

    latent_dim: size of the code. network: ``auto`` (convolutions for pictures, else fully connected), ``mlp``,
    ``conv``, or a pair of modules (encoder, decoder). hidden_layer_sizes: widths of a fully connected encoder, mirrored
    in the decoder. channels: of a convolutional one, each of which halves the picture. activation: between layers.
    code_activation: of the code, ``auto`` for ``identity``, or ``sigmoid`` with the KL penalty. tied: whether a fully
    connected decoder uses the encoder's weights, transposed.
    decoder: ``gaussian`` (squared error of standardized columns), ``bernoulli`` (cross-entropy of values in [0, 1]),
    ``mixed`` (each column of a frame by its kind), or ``auto``, which is ``mixed`` for frames with categories and else
    ``gaussian``.
    sparsity: None, ``l1`` (the absolute values of codes) or ``kl`` (from the mean activation of every unit over a batch
    to ``target_activation``; Ng, 2011). sparsity_weight: of that penalty.
    corruption: what the encoder sees instead of the row: ``gaussian`` noise, ``masking`` or ``salt_and_pepper`` of
    entries, or a function of a batch of examples (a tensor in data units). corruption_level: standard deviation in
    standardized units, or the share of entries.
    contraction: weight of the squared norm of the encoder's Jacobian, estimated from one random direction a row.
    trainer: a ``Trainer`` or dict. NaN is a missing value: it is neither seen nor rebuilt.

    ``anomaly`` is the mean loss of the known entries of a row; ``score`` is minus its mean.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 1)) @ np.ones((1, 3))
    >>> model = Autoencoder(1, trainer={"steps": 300, "lr": 0.01}, random_state=0).fit(X)
    >>> model.encode(X).shape, bool(np.square(model.reconstruct(X) - X).mean() < 0.2)
    ((200, 1), True)
    """

    accepts_images = True
    accepts_missing = True
    capturable = True
    defaults = {"lr": 2e-3, "optimizer": "adam"}

    space_: Space
    scales_: Standardizer
    network_: AutoencoderNetwork

    def __init__(
        self,
        latent_dim: int = 16,
        *,
        network: Any = "auto",
        hidden_layer_sizes: Sequence[int] = (256, 128),
        channels: Sequence[int] | None = None,
        activation: str = "relu",
        code_activation: str = "auto",
        tied: bool = False,
        decoder: str = "auto",
        sparsity: str | None = None,
        sparsity_weight: float = 0.1,
        target_activation: float = 0.05,
        corruption: Any = None,
        corruption_level: float = 0.3,
        contraction: float = 0.0,
        trainer: Any = None,
        random_state: Any = None,
    ) -> None:
        self.latent_dim = latent_dim
        self.network = network
        self.hidden_layer_sizes = hidden_layer_sizes
        self.channels = channels
        self.activation = activation
        self.code_activation = code_activation
        self.tied = tied
        self.decoder = decoder
        self.sparsity = sparsity
        self.sparsity_weight = sparsity_weight
        self.target_activation = target_activation
        self.corruption = corruption
        self.corruption_level = corruption_level
        self.contraction = contraction
        self.trainer = trainer
        self.random_state = random_state

    # -- learning --------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows or images ``X`` (array, frame, path or source); ``y`` is ignored."""
        with self._session(X) as session:
            self._learn(Intake(self, X), session)
        return self

    def _learn(self, intake: Intake, session: Session) -> None:
        with speaking(self, "fit"):
            self._check_settings()
            spoil = self._enter(intake, session)
        if callable(self.corruption):  # it may draw on the host, which a graph would do only once
            session = replace(session, trainer=replace(session.trainer, capture=False))

        def loss(network: Callable[..., Any], batch: Batch) -> Tensor:
            with speaking(self, "fit") if callable(self.corruption) else nullcontext():
                shown = None if spoil is None else spoil(batch.X)
            return self._loss(network, batch, shown)

        self._fit_network(intake, session, loss, self._preparation(session))

    def _enter(self, intake: Intake, session: Session) -> Corruption | None:
        """Look at the data; returns what spoils rows, if anything does."""
        self._width, self._n_features_out = intake.width, self.latent_dim
        rows = intake.sample(_LOOK, session.seed).X
        self.space_ = space_of(self.decoder, intake.width, getattr(self, "schema_", None), rows, 256, False)
        seen = scales_of(intake)
        self.scales_ = self.space_.scales(seen)
        self._masked = bool((seen.weight < seen.weight.max()).any()) if seen.weight is not None else False
        if self.latent_dim >= intake.width and not (self.sparsity or self.corruption or self.contraction):
            warnings.warn(
                f"latent_dim is {self.latent_dim} for {intake.width} columns; a code as large as the data can copy "
                "them: choose a smaller one, or set sparsity, corruption or contraction",
                stacklevel=4,
            )
        event = getattr(self, "_event_shape", None)
        return corruption_of(self.corruption, self.corruption_level, rows, self.scales_, event)

    def _check_settings(self) -> None:
        activation(self.activation)
        activation(self._code())
        whole("latent_dim", self.latent_dim)
        if self.decoder not in DECODERS:
            raise InvalidInput(f"decoder {self.decoder!r} is unknown; use one of {', '.join(DECODERS)}")
        if self.sparsity is not None and self.sparsity not in SPARSITIES:
            raise InvalidInput(f"sparsity is {self.sparsity!r}; use 'l1', 'kl' or None")
        if self.sparsity_weight < 0 or self.contraction < 0:
            raise InvalidInput(
                f"sparsity_weight is {self.sparsity_weight} and contraction {self.contraction}; both must be >= 0"
            )
        if not 0 < self.target_activation < 1:
            raise InvalidInput(f"target_activation is {self.target_activation}; it must lie between 0 and 1")
        if self.sparsity == "kl" and self._code() not in ("sigmoid", "logistic"):
            raise InvalidInput(
                f"sparsity='kl' needs codes between 0 and 1, but code_activation is {self.code_activation!r}; "
                "use 'auto' or 'sigmoid', or sparsity='l1'"
            )
        check_corruption(self.corruption, self.corruption_level)

    def _code(self) -> str:
        if self.code_activation != "auto":
            return self.code_activation
        return "sigmoid" if self.sparsity == "kl" else "identity"

    def _preparation(self, session: Session) -> Prepare:
        dtype = training_dtype(session)

        def prepare(batch: Batch) -> Batch:
            with speaking(self, "fit"):
                self.space_.check(batch.X, gray=True)
            return Batch(self.scales_.transform(batch.X).to(dtype), None, batch.weight)

        return prepare

    def _loss(self, network: Callable[..., Any], batch: Batch, shown: Tensor | None) -> Tensor:
        losses, codes = network(batch.X, shown, float(self.contraction))
        if self.sparsity == "l1":
            losses = losses + self.sparsity_weight * codes.abs().sum(-1)
        total: Tensor = losses.sum() if batch.weight is None else (losses * batch.weight).sum()
        if self.sparsity == "kl":
            # one number for the batch: it counts once a row, as the others do
            total = total + self.sparsity_weight * len(codes) * kl_to_target(codes.mean(0), self.target_activation)
        return total

    # -- the network -----------------------------------------------------------------------------------

    def _plan(self) -> Plan:
        event = getattr(self, "_event_shape", None) or (self._width,)
        plan = plan_of(
            self.network, event, self.hidden_layer_sizes, self.channels, self.activation, planes=1 + self._masked
        )
        if self.tied and plan.kind != "mlp":
            raise InvalidInput("tied weights are those of fully connected layers; use network='mlp' or tied=False")
        return plan

    def _build_network(self, name: str) -> nn.Module:
        plan, law = self._plan(), self.space_.observation(1.0, 1e-3)
        encoder = plan.encoder(self.latent_dim)
        if self.tied:
            widths = [plan.width, *plan.hidden, self.latent_dim]
            decoder: nn.Module = TiedDecoder(widths, self.activation)
        else:
            decoder = plan.decoder(self.latent_dim, law.outputs)
        return AutoencoderNetwork(encoder, decoder, law, self._code(), self._masked)

    # -- codes -----------------------------------------------------------------------------------------

    def _encode(self, X: Tensor) -> Tensor:
        return self._evaluate(lambda network, rows: network.encode(self.scales_.transform(rows)), X)

    def _decode(self, Z: Tensor) -> Tensor:
        return self._evaluate(lambda network, codes: self.scales_.inverse(network.mean(codes)), Z)

    def encode(self, X: Any) -> Any:
        """The code of each row, (n, latent_dim)."""
        return super().encode(X)

    def anomaly(self, X: Any, *, kind: str | None = None) -> Any:
        """How badly each row is rebuilt, (n,): the mean loss over its known entries; larger is stranger.

        kind: ``reconstruction``, the only one of a model without a likelihood.
        """
        tensor, origin = self._arrive(X, "anomaly")
        if kind not in (None, "reconstruction"):
            raise self._fail("anomaly", f"kind is {kind!r}, but the model has no likelihood; use 'reconstruction'")
        with speaking(self, "anomaly"):
            self.space_.check(tensor, gray=True)
        return origin.mirror(self._evaluate(self._strangeness, tensor))

    def _strangeness(self, network: AutoencoderNetwork, rows: Tensor) -> Tensor:
        x = self.scales_.transform(rows)
        known = (~torch.isnan(x)).sum(1).clamp(min=1)
        return network.misfit(x, network.encode(x)).sum(1) / known

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the mean of ``anomaly``; higher is better."""
        return -float(self.anomaly(X).mean())

    def plot(self, examples: Any = None) -> Any:
        """The loss over training, and beside it what becomes of examples, as a matplotlib figure.

        examples: rows or pictures; they are shown above their reconstructions, or as a map of their codes.
        """
        return training_picture(self, examples)

    def _facts(self) -> dict[str, Any]:
        kinds = [
            f"{self.sparsity} sparsity" if self.sparsity else "",
            "denoising" if self.corruption is not None else "",
            "contractive" if self.contraction else "",
            "tied" if self.tied else "",
        ]
        kind = ", ".join(filter(None, kinds)) or "plain"
        return {"kind": kind, "code": self.latent_dim, **super()._facts(), **self._plan().notes()}
