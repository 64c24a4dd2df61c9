"""The variational autoencoder."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Self

import torch
from torch import Tensor, nn

from benthic.base.capabilities import Encodes, HasDensity, Samples
from benthic.base.errors import InvalidInput, nearest
from benthic.base.likelihood import Likelihood
from benthic.base.seeds import generator
from benthic.base.validation import speaking
from benthic.data.batch import Batch
from benthic.data.standardize import Standardizer
from benthic.nets.activations import activation
from benthic.nets.evaluate import device_of, in_type
from benthic.nets.latent import LatentNetwork, draw_normal
from benthic.training.intake import Intake
from benthic.training.network import NetworkEstimator, scales_of, training_dtype
from benthic.uses.latent import Filled, fill
from benthic.uses.verbs import Uses, conditions

DECODERS = ("gaussian", "bernoulli")
_ELBO_DRAWS = 16
_IMPORTANCE_DRAWS = 64
_IMPUTE_CHAINS = 8
_BLOCK = 1 << 16  # rows times draws evaluated at once


class VAE(Uses, Encodes, Samples, HasDensity, NetworkEstimator):
    r"""Variational autoencoder: a latent code z ~ N(0, I) and a decoder p(x|z), learned with an encoder q(z|x).

    .. math:: \log p(x) \ge E_{q(z|x)}[\log p(x|z)] - \beta\, KL(q(z|x) \,\|\, p(z))

    Kingma & Welling, 2014; importance bound of Burda et al., 2016.

    latent_dim: size of the code. hidden_layer_sizes: widths of the encoder, mirrored in the decoder.
    decoder: ``gaussian`` (any numbers; one noise scale a column) or ``bernoulli`` (zeros and ones).
    beta: weight of the KL term. noise_floor: smallest noise scale in standardized units.
    trainer: a ``Trainer`` or dict. ``likelihood`` methods: ``elbo`` and ``importance(k)``, both lower bounds.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 3)) @ np.ones((3, 3))
    >>> model = VAE(latent_dim=1, trainer={"steps": 50}, random_state=0).fit(X)
    >>> model.sample(4).shape, model.encode(X).shape
    ((4, 3), (200, 1))
    """

    accepts_images = True
    defaults = {"lr": 2e-3, "optimizer": "adam"}

    def __init__(
        self,
        latent_dim: int = 16,
        *,
        hidden_layer_sizes: Sequence[int] = (256, 128),
        activation: str = "relu",
        decoder: str = "gaussian",
        beta: float = 1.0,
        noise_floor: float = 1e-3,
        trainer: Any = None,
        random_state: Any = None,
    ) -> None:
        self.latent_dim = latent_dim
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.decoder = decoder
        self.beta = beta
        self.noise_floor = noise_floor
        self.trainer = trainer
        self.random_state = random_state

    # -- learning --------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows or images ``X`` (array, frame, path or source); ``y`` is ignored."""
        with self._session(X) as session:
            self._check_settings()
            intake = Intake(self, X)
            self._width, self._n_features_out = intake.width, self.latent_dim
            self.scales_ = self._scales(intake)
            dtype = training_dtype(session)
            binary = self.decoder == "bernoulli"

            def prepare(batch: Batch) -> Batch:
                if binary:
                    self._check_binary(batch.X, "fit")
                return Batch(self.scales_.transform(batch.X).to(dtype), None, batch.weight)

            self._fit_network(intake, session, self._loss, prepare)
        return self

    def _check_settings(self) -> None:
        with speaking(self, "fit"):
            activation(self.activation)
            if self.decoder not in DECODERS:
                raise InvalidInput(
                    f"decoder {self.decoder!r} is unknown{nearest(str(self.decoder), DECODERS)}; use {DECODERS}"
                )
            if not isinstance(self.latent_dim, int) or self.latent_dim < 1:
                raise InvalidInput(f"latent_dim is {self.latent_dim!r}; it must be a whole number of at least 1")
            if self.beta < 0 or self.noise_floor <= 0:
                raise InvalidInput(f"beta is {self.beta} and noise_floor {self.noise_floor}; they must be >= 0 and > 0")

    def _scales(self, intake: Intake) -> Standardizer:
        if self.decoder == "bernoulli":
            return Standardizer.identity(intake.width)
        return scales_of(intake)

    def _check_binary(self, X: Tensor, method: str) -> None:
        odd = (X != 0) & (X != 1)
        if bool(odd.any()):
            example = float(X[odd][0])
            inside = bool(((X >= 0) & (X <= 1)).all())
            raise self._fail(
                method,
                f"decoder='bernoulli' gives the probability of zeros and ones, but X has values such as {example:.4g}; "
                + ("binarize it, for example X > 0.5, " if inside else "")
                + "or use decoder='gaussian'",
            )

    def _loss(self, network: Callable[..., Tensor], batch: Batch) -> Tensor:
        losses = network(batch.X, self.beta)
        return losses.sum() if batch.weight is None else (losses * batch.weight).sum()

    def _build_network(self, name: str) -> nn.Module:
        sizes = self.hidden_layer_sizes
        hidden = (sizes,) if isinstance(sizes, int) else tuple(sizes)
        kind = "bernoulli" if self.decoder == "bernoulli" else "gaussian"
        return LatentNetwork(self._width, self.latent_dim, hidden, self.activation, kind, self.noise_floor)

    # -- codes -----------------------------------------------------------------------------------------

    def _encode(self, X: Tensor) -> Tensor:
        return self._evaluate(lambda network, rows: network.posterior(self.scales_.transform(rows))[0], X)

    def _decode(self, Z: Tensor) -> Tensor:
        return self._evaluate(lambda network, codes: self.scales_.inverse(network.mean(codes)), Z)

    # -- samples ---------------------------------------------------------------------------------------

    @torch.no_grad()
    def sample(self, n: int = 1, *, given: Any = None, seed: Any = None) -> Any:
        """``n`` new examples; given: rows with NaN (one or ``n``) whose gaps are drawn given the rest."""
        noise = generator(self._sampling_seed(seed), "sample")
        if given is not None:
            known, origin = self._arrive(given, "sample", missing=True)
            with speaking(self, "sample"):
                known = conditions(known, n)
            drawn = self._fill(known, noise).draw
            rows = torch.where(torch.isnan(known), drawn.to(known), known)
            return self._data_out(rows, replace(origin, index=None))  # new rows have no labels
        self._check_draws(n)
        network = self._network_for_output()
        codes = draw_normal((n, self.latent_dim), next(network.parameters()), noise)
        return self._data_out(self.scales_.inverse(network.emit(codes, noise)))

    def _network_for_output(self) -> LatentNetwork:
        wide = self._fit_origin.dtype == "float64"
        network: LatentNetwork = in_type(self.network_, torch.float64 if wide else torch.float32)
        return network

    def _fill(self, X: Tensor, noise: torch.Generator, chains: int = 1) -> Filled:
        """A draw and the mean of the gaps of rows in data units."""
        network = in_type(self.network_, X.dtype)
        rows = self.scales_.transform(X.to(device_of(network)))
        parts = [fill(network, block, noise, chains=chains) for block in rows.split(max(1, _BLOCK // chains))]
        return Filled(*(self.scales_.inverse(torch.cat(part)) for part in zip(*parts, strict=True)))

    def _impute(self, X: Tensor) -> Tensor:
        return self._fill(X, generator(0, "impute"), _IMPUTE_CHAINS).mean  # the same gaps, the same answer

    # -- likelihood ------------------------------------------------------------------------------------

    @torch.no_grad()
    def _likelihood(self, X: Tensor, method: str | None) -> Likelihood:
        if self.decoder == "bernoulli":
            self._check_binary(X, "likelihood")
        kind, draws = self._parse(method)
        network = in_type(self.network_, X.dtype)
        rows = self.scales_.transform(X.to(device_of(network)))
        noise = generator(0, "likelihood")  # fixed, so that scores can be compared
        parts = [_bound(network, block, draws, kind, noise) for block in rows.split(max(1, _BLOCK // draws))]
        value = torch.cat([part[0] for part in parts]) + self.scales_.log_jacobian()
        stderr = torch.cat([part[1] for part in parts])
        measure = "mass" if self.decoder == "bernoulli" else "density"
        return Likelihood(value, stderr, kind if kind == "elbo" else f"importance({draws})", "lower", measure)

    def _parse(self, method: str | None) -> tuple[str, int]:
        if method == "elbo":
            return "elbo", _ELBO_DRAWS
        if method in (None, "importance"):
            return "importance", _IMPORTANCE_DRAWS
        match = re.fullmatch(r"importance\((\d+)\)", str(method))
        if match is None or int(match[1]) < 1:
            raise self._fail("likelihood", f"method {method!r} is unknown; use 'elbo' or 'importance(k)'")
        return "importance", int(match[1])


def _bound(network: LatentNetwork, x: Tensor, draws: int, kind: str, noise: torch.Generator) -> tuple[Tensor, Tensor]:
    """Value and standard error of the bound on log p(x) of each row, from so many draws of z."""
    eps = draw_normal((draws, len(x), network.latent_dim), x, noise)
    if kind == "elbo":
        mean, log_var = network.posterior(x)
        fits = network.log_likelihood(x, mean + torch.exp(0.5 * log_var) * eps)
        spread = fits.std(0) if draws > 1 else torch.zeros_like(fits[0])
        return fits.mean(0) - network.kl(mean, log_var), spread / math.sqrt(draws)
    ratios = network.log_ratio(x, eps)
    value = torch.logsumexp(ratios, 0) - math.log(draws)
    # delta method: the relative error of the mean weight is the error of its logarithm
    weights = torch.exp(ratios - value)
    spread = weights.std(0) if draws > 1 else torch.zeros_like(value)
    return value, spread / math.sqrt(draws)
