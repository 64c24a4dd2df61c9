"""Latent diffusion: a diffusion model of the codes of an autoencoder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from scipy.special import softmax
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from benthic.base.arrays import to_tensor
from benthic.base.capabilities import Encodes, Samples
from benthic.base.condition import Condition, Conditional
from benthic.base.errors import InvalidInput
from benthic.base.estimator import Estimator
from benthic.base.seeds import derive, generator, np_generator, seed_of
from benthic.base.validation import speaking
from benthic.data.scan import as_source
from benthic.generative.diffusion.estimator import DiffusionEstimator
from benthic.generative.diffusion.family import DDPM
from benthic.generative.vae.conditions import parse_given
from benthic.generative.vae.variational import VAE
from benthic.nets.evaluate import device_of, in_type
from benthic.nets.latent import LatentNetwork
from benthic.nets.noise import draw_normal
from benthic.uses.strangeness import by_condition
from benthic.uses.verbs import conditions

_CANDIDATES = 512  # draws among which those are chosen that agree best with what is known
_CLOSENESS = 0.25  # in standard deviations of the known entries


class LatentDiffusion(Samples, Encodes, Conditional, Estimator):
    """A diffusion model of the codes that an autoencoder gives the data; samples are decoded.

    Rombach et al., 2022.

    autoencoder: any model of this package with ``encode`` and ``decode``, such as ``VAE`` (the default) or
    ``Autoencoder``, or a dict of settings of ``VAE``. A copy of it is fitted first, unless ``prefit``, which needs one
    that is fitted and keeps it as it is. diffusion: the model of the codes, or a dict of settings of ``DDPM``, the
    default. random_state: of both, where they have none.

    ``y`` of ``fit`` makes the diffusion conditional. ``sample`` with rows that have gaps draws many examples and keeps
    those whose known entries are near, and ``impute`` takes their mean; the likelihood of the data is not known.
    ``encode`` gives the codes.

    >>> X = np.random.default_rng(0).normal(size=(200, 4))
    >>> parts = {"autoencoder": VAE(2, trainer={"steps": 20}), "diffusion": DDPM(hidden=16, trainer={"steps": 20})}
    >>> LatentDiffusion(**parts, random_state=0).fit(X).sample(3).shape
    (3, 4)
    """

    accepts_images = True

    def __init__(
        self, autoencoder: Any = None, *, diffusion: Any = None, prefit: bool = False, random_state: Any = None
    ) -> None:
        self.autoencoder = autoencoder
        self.diffusion = diffusion
        self.prefit = prefit
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the autoencoder, unless it is fitted already, and the diffusion on its codes; ``y``: what is given."""
        with speaking(self, "fit"):
            if as_source(X) is not None:
                raise InvalidInput("X is a file or a source; codes are taken of all rows at once, so pass arrays")
        tensor, _ = self._arrive(X, "fit", reset=True)
        with speaking(self, "fit"):
            seed = seed_of(self.random_state)
            model = _copy_of(self.diffusion, DDPM, "diffusion")
            if not isinstance(model, DiffusionEstimator):
                raise InvalidInput(
                    f"diffusion is {type(model).__name__}, which is no diffusion model; use DDPM, EDM or another of "
                    "the family, or a dict of settings of DDPM"
                )
            encoder = self._encoder(X, seed)
            diffusion = _seeded(model, derive(seed, "diffusion"))
            codes = _codes(encoder, X, tensor, seed)
            self.diffusion_ = diffusion.fit(codes, y)
        self.autoencoder_ = encoder
        self._n_features_out = codes.shape[1]
        self._spread = tensor.double().std(0, correction=0).cpu().numpy()
        return self

    def _encoder(self, X: Any, seed: int) -> Any:
        if self.prefit and (self.autoencoder is None or isinstance(self.autoencoder, dict)):
            raise InvalidInput("prefit=True needs a fitted autoencoder; pass one, or use prefit=False")
        model = self.autoencoder if self.prefit else _copy_of(self.autoencoder, VAE, "autoencoder")
        for verb in ("encode", "decode"):
            if not hasattr(model, verb):
                raise InvalidInput(
                    f"autoencoder is {type(model).__name__}, which has no {verb}; use VAE or Autoencoder"
                )
        if not self.prefit:
            return _seeded(model, derive(seed, "autoencoder")).fit(X)
        try:
            check_is_fitted(model)
        except NotFittedError as error:
            raise InvalidInput(
                f"prefit=True, but the autoencoder {type(model).__name__} is not fitted; fit it, or use prefit=False"
            ) from error
        return model

    @property
    def condition_(self) -> Condition:
        """That of the diffusion."""
        check_is_fitted(self)
        found: Condition = self.diffusion_.condition_
        return found

    def encode(self, X: Any) -> Any:
        """The codes of the autoencoder, (n, latent_dim)."""
        check_is_fitted(self)
        self._arrive(X, "encode")
        return self.autoencoder_.encode(X)

    def transform(self, X: Any) -> Any:
        """The same as ``encode``, under scikit-learn's name."""
        check_is_fitted(self)
        self._arrive(X, "transform")
        return self.autoencoder_.encode(X)

    def decode(self, Z: Any) -> Any:
        """The example of each code."""
        self._arrive_codes(Z, "decode")
        return self.autoencoder_.decode(Z)

    def inverse_transform(self, Z: Any) -> Any:
        """The same as ``decode``, under scikit-learn's name."""
        self._arrive_codes(Z, "inverse_transform")
        return self.autoencoder_.decode(Z)

    def reconstruct(self, X: Any) -> Any:
        """``decode(encode(X))``."""
        self._arrive(X, "reconstruct")
        return self.autoencoder_.reconstruct(X)

    def sample(self, n: int = 1, *, given: Any = None, seed: Any = None, **options: Any) -> Any:
        """``n`` new examples; given: as of the diffusion, or rows with NaN to fill; options: of its ``sample``."""
        self._check_draws(n)
        seed = self._sampling_seed(seed)
        with speaking(self, "sample"):
            found = parse_given(given, "labels" if given is None else self.diffusion_.condition_kind_.kind)
            if self.diffusion_.condition_kind_.kind == "none" and given is not None:
                found = parse_given(given, "labels")
        if found.X is not None:
            return self._sample_gaps(n, found, seed, options)
        codes = self.diffusion_.sample(n, given=found.y, seed=seed, **options)
        return self._data_out(self._decoded(codes, seed))

    @torch.no_grad()
    def _decoded(self, codes: Any, seed: int) -> Tensor:
        """Examples of codes as encoded numbers (n, width), drawn where the decoder is a law."""
        tensor, _ = to_tensor(codes)
        encoder = self.autoencoder_
        network: Any = getattr(encoder, "network_", None)
        if not hasattr(network, "emit"):
            found: Tensor = encoder._decode(tensor)
            return found
        network = in_type(network, tensor.dtype)
        drawn: Tensor = network.emit(tensor.to(device_of(network)), generator(seed, "decode"))
        rows: Tensor = encoder.scales_.inverse(drawn)
        return rows

    def _sample_gaps(self, n: int, found: Any, seed: int, options: dict[str, Any]) -> Any:
        known, origin = self._arrive(found.X, "sample", missing=True)
        with speaking(self, "sample"):
            known = conditions(known, n)
        drawn = self._fill(known, found.y, seed, "sample", **options)
        return self._data_out(drawn, replace(origin, index=None))

    def impute(self, X: Any, given: Any = None) -> Any:
        """``X`` with every NaN replaced by its mean over draws, each weighed by how near its known entries are.

        given: the conditions of the rows, one or one a row.
        """
        tensor, origin = self._arrive(X, "impute", missing=True)
        if not bool(torch.isnan(tensor).any()):
            return self._data_out(tensor, origin)
        return self._data_out(self._fill(tensor, given, 0, "impute", mean=True), origin)

    def _fill(self, known: Tensor, y: Any, seed: int, verb: str, *, mean: bool = False, **options: Any) -> Tensor:
        """Rows with their gaps from the draws that are near, or from the weighed mean of all draws."""
        self.diffusion_._condition(y, len(known), torch.float32, verb)  # which knows how many there may be
        rows = np.asarray(_plain(known), dtype=np.float64)
        gaps, random, filled = np.isnan(rows), np_generator(seed, "gaps"), rows.copy()
        for condition, chosen in by_condition(y, len(rows)):
            codes = self.diffusion_.sample(_CANDIDATES, given=condition, seed=seed, **options)
            many = np.asarray(_plain(self._decoded(codes, seed)), dtype=np.float64)
            nearness = self._nearness(rows[chosen], many)
            if mean:
                found = softmax(nearness, axis=1) @ many
            else:
                found = many[(nearness + random.gumbel(size=nearness.shape)).argmax(1)]
            filled[chosen] = np.where(gaps[chosen], found, rows[chosen])
        return torch.as_tensor(filled).to(known)

    def _nearness(self, rows: np.ndarray, many: np.ndarray) -> np.ndarray:
        """Minus half the squares of how far the known entries of rows (n, d) are from draws (m, d), (n, m)."""
        weight = ~np.isnan(rows) / np.square(_CLOSENESS * np.where(self._spread > 0, self._spread, 1.0))
        center = many.mean(0)  # taken off, so that squares of large numbers do not swallow small differences
        rows, many = np.where(np.isnan(rows), 0.0, rows - center), many - center
        found: np.ndarray = (weight * rows) @ many.T - 0.5 * weight @ np.square(many).T
        return found - 0.5 * (weight * rows**2).sum(1)[:, None]

    def _why_lacking(self, name: str) -> str:
        if name in ("likelihood", "log_prob", "score", "bits_per_dim", "grad_log_prob"):
            return "; a decoder of codes gives no density of data: take DDPM or another diffusion of the data, or a VAE"
        return ""

    def plot(self) -> Any:
        """The picture of the diffusion of the codes."""
        check_is_fitted(self)
        return self.diffusion_.plot()

    def _facts(self) -> dict[str, Any]:
        inner = self.diffusion_._facts()
        named = {"autoencoder": type(self.autoencoder_).__name__, "diffusion": type(self.diffusion_).__name__}
        return {**named, "code": self._n_features_out, **inner}


def _plain(values: Any) -> Any:
    return values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else values


@torch.no_grad()
def _codes(encoder: Any, X: Any, rows: Tensor, seed: int) -> np.ndarray:
    """The codes to learn from: draws of q(z|x) where the autoencoder has that, so that their spread is kept."""
    network = getattr(encoder, "network_", None)
    if not isinstance(network, LatentNetwork) or hasattr(encoder, "condition"):
        return np.asarray(_plain(encoder.encode(X)))
    x = encoder.scales_.transform(rows.to(device_of(network))).to(next(network.parameters()).dtype)
    noise = draw_normal((len(x), network.latent_dim), x, generator(seed, "codes"))
    return np.asarray(_plain(network.posterior(x).place(noise)))


def _copy_of(setting: Any, default: type, name: str) -> Any:
    """A model that is not fitted: a copy, or one of the default class, with these settings if it is a dict."""
    if setting is None or isinstance(setting, dict):
        return default(**(setting or {}))
    if isinstance(setting, type) or not isinstance(setting, BaseEstimator):
        raise InvalidInput(
            f"{name} is {setting!r}; give a model, such as {default.__name__}(), or a dict of settings of "
            f"{default.__name__}"
        )
    return clone(setting)


def _seeded(model: Any, seed: int) -> Any:
    """The model, with a random state where it has none."""
    known = model.get_params()
    if "random_state" in known and known["random_state"] is None:
        model.set_params(random_state=seed % (2**31))
    return model
