"""What every variational autoencoder does: learn a bound, encode, decode, sample, fill gaps, give likelihoods."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benthic.base.capabilities import Encodes, HasDensity, Samples
from benthic.base.errors import InvalidInput
from benthic.base.likelihood import Likelihood
from benthic.base.seeds import generator, stream
from benthic.base.settings import is_number, one_of, whole
from benthic.base.validation import speaking
from benthic.data.batch import Batch
from benthic.data.standardize import Standardizer
from benthic.generative.latent_pictures import training_picture
from benthic.generative.vae.bounds import bound, parse_method
from benthic.generative.vae.fitted import ROWS, fitted_prior
from benthic.generative.vae.networks import Plan, begin_at, plan_of
from benthic.generative.vae.space import Space, space_of
from benthic.nets.activations import activation
from benthic.nets.evaluate import device_of, in_type
from benthic.nets.flow_laws import FlowPrior, warp
from benthic.nets.latent import LatentNetwork
from benthic.nets.noise import draw_normal
from benthic.nets.posterior import outputs_needed
from benthic.nets.prior import FullMixturePrior, MixturePrior, NormalPrior, VampPrior
from benthic.nets.sphere import SphereNetwork
from benthic.training.estimator import Session
from benthic.training.intake import Intake, Prepare
from benthic.training.network import NetworkEstimator, scales_of, training_dtype
from benthic.uses.latent import Filled, fill
from benthic.uses.verbs import Uses

POSTERIORS = ("diagonal", "full", "flow", "von_mises_fisher")
NOISES = ("auto", "shared", "column", "row")
PRIORS = ("normal", "fitted", "mixture", "vamp", "flow")
_IMPUTE_CHAINS = 8
_BLOCK = 1 << 16  # rows times chains that are filled at once
_LOOK = 4096  # rows that are looked at for what the codes use
_ACTIVE = 0.01  # variance of a posterior mean over the data from which on a coordinate counts as active


class VariationalEstimator(Uses, Encodes, Samples, HasDensity, NetworkEstimator):
    """Base of the family; a subclass has the parameters of ``VAE`` that it names, and may give its own network."""

    accepts_images = True
    accepts_missing = True
    defaults = {"lr": 2e-3, "optimizer": "adam"}

    space_: Space
    scales_: Standardizer
    _prior_parts: int = 0  # components of a fitted prior, 0 before it is fitted

    latent_dim: int
    hidden_layer_sizes: Any
    activation: str

    # settings that a member of the family may or may not have
    network: Any = "auto"
    channels: Any = None
    decoder: str = "auto"
    noise: Any = "auto"
    noise_floor: float = 1e-3
    levels: int = 256
    binarize: bool = False
    beta: float = 1.0
    kl_warmup: float = 0.0
    free_bits: float = 0.0
    posterior: str = "diagonal"
    prior: str = "normal"
    prior_components: int = 100

    # -- learning --------------------------------------------------------------------------------------

    @property
    def capturable(self) -> bool:
        """Whether updates can become CUDA graphs; draws of directions are by rejection, whose length nobody knows."""
        return self.posterior != "von_mises_fisher"

    def _learn(self, intake: Intake, session: Session) -> None:
        """Look at the data, build the network and train it."""
        with speaking(self, "fit"):
            self._enter(intake, session)
        self._optimize(intake, session)
        self._look_at_codes(intake)
        if self.prior == "fitted":
            self._fit_prior(intake, session)

    def _optimize(self, intake: Intake, session: Session) -> None:
        """Build the network and train it on the bound."""
        before, beta = self._warmup(session)

        def loss(network: Callable[..., Tensor], batch: Batch) -> Tensor:
            return self._loss(network, batch, beta)

        self._fit_network(intake, session, loss, self._preparation(session), before=before)

    @torch.no_grad()
    def _fit_prior(self, intake: Intake, session: Session) -> None:
        """Put the law of the codes in the place of the normal prior of training."""
        rows, noise = intake.sample(ROWS, session.seed), generator(session.seed, "prior")
        codes = []
        for start in range(0, len(rows.X), _LOOK):
            block = slice(start, start + _LOOK)
            q = self._posteriors(rows.map(lambda part, block=block: part[block]))
            codes.append(q.place(draw_normal((len(q.mean), self.latent_dim), q.mean, noise)))
        prior = fitted_prior(torch.cat(codes), self.prior_components, session.seed % 2**32)
        self.network_.prior, self._prior_parts = prior, len(prior.means)

    def _preparation(self, session: Session) -> Prepare:
        """What makes rows ready for the network: checked, in its units and its type."""
        dtype = training_dtype(session)

        def prepare(batch: Batch) -> Batch:
            with speaking(self, "fit"):
                self.space_.check(batch.X, gray=self.space_.binarize)
            return Batch(self.scales_.transform(batch.X).to(dtype), self._given(batch), batch.weight)

        return prepare

    def _enter(self, intake: Intake, session: Session) -> None:
        self._check_settings()
        self._prior_parts = 0
        self._width, self._n_features_out = intake.width, self.latent_dim
        rows = intake.sample(_LOOK, session.seed).X
        schema = getattr(self, "schema_", None)
        picture = len(getattr(self, "_event_shape", None) or ()) == 3
        self.space_ = space_of(self.decoder, intake.width, schema, rows, self.levels, self.binarize, picture=picture)
        seen = scales_of(intake)
        self.scales_ = self.space_.scales(seen)
        self._data_mean = np.asarray(self.scales_.transform(np.atleast_2d(seen.mean))[0])
        self._masked = bool((seen.weight < seen.weight.max()).any()) if seen.weight is not None else False
        if self.latent_dim > intake.width:
            warnings.warn(
                f"latent_dim is {self.latent_dim} for {intake.width} columns; a code larger than the data need not "
                "learn anything about them",
                stacklevel=4,
            )
        if self.prior == "vamp":
            count = min(self.prior_components, intake.rows)
            start = intake.sample(count, session.seed).X
            start = torch.where(torch.isnan(start), torch.as_tensor(self.scales_.mean).to(start), start)
            self._pseudo_inputs = self.scales_.transform(start).float().cpu()

    def _given(self, batch: Batch) -> Tensor | None:
        """What the networks are given besides the row; a conditional model has something."""
        return None

    def _check_settings(self) -> None:
        activation(self.activation)
        whole("latent_dim", self.latent_dim)
        if self.beta < 0 or self.noise_floor <= 0:
            raise InvalidInput(f"beta is {self.beta} and noise_floor {self.noise_floor}; they must be >= 0 and > 0")
        if not 0 <= self.kl_warmup <= 1 or self.free_bits < 0:
            raise InvalidInput(
                f"kl_warmup is {self.kl_warmup} and free_bits {self.free_bits}; the first is a share of training "
                "between 0 and 1, the second must be >= 0"
            )
        if self.noise not in NOISES and not (is_number(self.noise) and self.noise > 0):
            raise InvalidInput(f"noise is {self.noise!r}; use one of {', '.join(NOISES)} or a positive number")
        one_of("posterior", self.posterior, POSTERIORS)
        if self.posterior == "von_mises_fisher" and (self.prior != "normal" or self.latent_dim < 2):
            raise InvalidInput("posterior='von_mises_fisher' has the uniform prior and codes of at least 2 coordinates")
        if self.posterior == "flow" and self.prior == "vamp":
            raise InvalidInput("prior='vamp' averages normal posteriors; use prior='flow' with posterior='flow'")
        if self.prior not in PRIORS:
            raise InvalidInput(f"prior is {self.prior!r}; use one of {', '.join(PRIORS)}")

    def _warmup(self, session: Session) -> tuple[Callable[[int, int], None] | None, float | Tensor]:
        """The weight of the KL term, and what moves it while it warms up."""
        if not self.kl_warmup:
            return None, float(self.beta)
        weight = torch.zeros((), device=session.device, dtype=training_dtype(session))
        held = 0.0

        def warm(step: int, total: int) -> None:
            nonlocal held
            due = self.beta * min(1.0, step / max(1.0, self.kl_warmup * total))
            if due != held:  # a run that is resumed may begin beyond the warm-up
                weight.fill_(due)
                held = due

        return warm, weight

    def _loss(self, network: Callable[..., Tensor], batch: Batch, beta: float | Tensor) -> Tensor:
        x = torch.bernoulli(batch.X, generator=stream(batch.X.device)) if self.space_.binarize else batch.X
        losses = self._row_losses(network, x, batch.y, beta)
        return losses.sum() if batch.weight is None else (losses * batch.weight).sum()

    def _row_losses(self, network: Callable[..., Tensor], x: Tensor, c: Tensor | None, beta: float | Tensor) -> Tensor:
        return network(x, beta, c, free=self.free_bits)

    # -- the network -----------------------------------------------------------------------------------

    def _plan(self) -> Plan:
        event = getattr(self, "_event_shape", None) or (self._width,)
        return plan_of(
            self.network,
            event,
            self.hidden_layer_sizes,
            self.channels,
            self.activation,
            planes=1 + self._masked,
            conditions=self._conditions(),
        )

    def _conditions(self) -> int:
        """How many numbers the networks are given besides the row."""
        return 0

    def _build_network(self, name: str) -> nn.Module:
        plan, law = self._plan(), self.space_.observation(self.noise, self.noise_floor)
        size = self.latent_dim
        if self.posterior == "von_mises_fisher":
            encoder, decoder = plan.encoder(size + 1), plan.decoder(size + plan.conditions, law.outputs)
            return SphereNetwork(encoder, decoder, law, size, masked=self._masked)
        return LatentNetwork(
            plan.encoder(outputs_needed(size, self.posterior)),
            plan.decoder(size + plan.conditions, law.outputs),
            law,
            size,
            prior=self._build_prior(),
            covariance=self.posterior,
            masked=self._masked,
            warp=warp(size) if self.posterior == "flow" else None,
        )

    def _begin_network(self, network: nn.Module) -> None:
        start = network.observation.start(torch.from_numpy(self._data_mean))
        if start is not None:
            begin_at(network.decoder, start)

    def _build_prior(self) -> nn.Module:
        if self.prior == "vamp":
            return VampPrior(self._pseudo_inputs, self.space_.bounds())
        if self.prior == "mixture":
            return MixturePrior(self.latent_dim, self.prior_components)
        if self.prior == "flow":
            return FlowPrior(self.latent_dim)
        if self.prior == "fitted" and self._prior_parts:
            return FullMixturePrior(self.latent_dim, self._prior_parts)
        return NormalPrior(self.latent_dim)

    def _look_at_codes(self, intake: Intake) -> None:
        """Which coordinates of the code depend on the data (Burda et al., 2016)."""
        with torch.no_grad():
            codes = self._posteriors(intake.sample(_LOOK, 0)).mean
        self.unit_activity_ = codes.var(0, unbiased=False).double().cpu().numpy()
        if not (self.unit_activity_ > _ACTIVE).any():
            warnings.warn(
                f"{type(self).__name__}.fit: the posterior has collapsed: no coordinate of the code depends on the "
                "data; lower beta, or set kl_warmup or free_bits",
                stacklevel=3,
            )

    def _posteriors(self, rows: Batch) -> Any:
        """q(z|x) of rows in data units."""
        network, given = self.network_, self._given(rows)
        x = self.scales_.transform(rows.X.to(device_of(network))).to(next(network.parameters()).dtype)
        return network.posterior(x, None if given is None else given.to(x))

    def active_units(self) -> int:
        """How many coordinates of the code depend on the data: the variance of their posterior mean is over 0.01."""
        return int((self.unit_activity_ > _ACTIVE).sum())

    def _facts(self) -> dict[str, Any]:
        law = {"decoder": self.space_.kind, **self._plan().notes()}
        return {**super()._facts(), **law, "active units": f"{self.active_units()} of {self.latent_dim}"}

    def plot(self, examples: Any = None) -> Any:
        """The loss over training, and beside it samples of pictures or what the code uses, as a matplotlib figure.

        examples: rows or pictures; they are shown above their reconstructions, or as a map of their codes.
        """
        drawn = not self._conditions() or hasattr(self, "classes_")  # a vector to draw given is not known here
        return training_picture(self, examples, samples=drawn)

    # -- codes -----------------------------------------------------------------------------------------

    def _encode(self, X: Tensor) -> Tensor:
        return self._evaluate(lambda network, rows: network.posterior(self.scales_.transform(rows)).mean, X)

    def _decode(self, Z: Tensor) -> Tensor:
        return self._evaluate(lambda network, codes: self.scales_.inverse(network.mean(codes)), Z)

    # -- samples ---------------------------------------------------------------------------------------

    @torch.no_grad()
    def sample(self, n: int = 1, *, given: Any = None, seed: Any = None, noise: bool | None = None) -> Any:
        """``n`` new examples; given: rows with NaN (one or ``n``) whose gaps are drawn given the rest.

        noise: whether examples are drawn from p(x|z) or are its mean; None is the mean for pictures of a Gaussian
        decoder, whose noise stands for all that the code leaves open and is in no picture, and else a draw.
        """
        source = generator(self._sampling_seed(seed), "sample")
        if given is not None:
            return self._draw_gaps(given, n, source)
        self._check_draws(n)
        network = self._network_for_output()
        return self._shown(network, network.draw_codes(n, source), source, noise)

    def _shown(
        self, network: Any, codes: Tensor, source: torch.Generator, noise: bool | None, c: Tensor | None = None
    ) -> Any:
        """Examples of these codes in data units, with or without the noise of the decoder's law."""
        if noise is None:
            noise = not (self.space_.picture and self.space_.kind == "gaussian")
        rows = network.emit(codes, source, c) if noise else network.mean(codes, c)
        return self._data_out(self.scales_.inverse(rows))

    def _network_for_output(self) -> Any:
        wide = self._fit_origin.dtype == "float64"
        return in_type(self.network_, torch.float64 if wide else torch.float32)

    def _fill(self, X: Tensor, noise: torch.Generator, chains: int = 1) -> Filled:
        """A draw and the mean of the gaps of rows in data units."""
        network = in_type(self.network_, X.dtype)
        rows = self.scales_.transform(X.to(device_of(network)))
        parts = [fill(network, block, noise, chains=chains) for block in rows.split(max(1, _BLOCK // chains))]
        return Filled(*(self.scales_.inverse(torch.cat(part)) for part in zip(*parts, strict=True)))

    def _impute(self, X: Tensor) -> Tensor:
        return self._fill(X, generator(0, "impute"), _IMPUTE_CHAINS).mean  # the same gaps, the same answer

    # -- likelihood ------------------------------------------------------------------------------------

    def _likelihood(self, X: Tensor, method: str | None) -> Likelihood:
        return self._bound(X, method, None)

    def _bound(self, X: Tensor, method: str | None, c: Tensor | None) -> Likelihood:
        with speaking(self, "likelihood"):
            kind, draws = parse_method(method)
            self.space_.check(X)
        network = in_type(self.network_, X.dtype)
        rows = self.scales_.transform(X.to(device_of(network)))
        value, stderr = bound(network, rows, kind, draws, c)
        if self.space_.measure == "density":
            value = value + self._log_jacobian(X)
        name = f"importance({draws})" if kind == "importance" else kind
        return Likelihood(value, stderr, name, "lower", self.space_.measure)

    def _log_jacobian(self, X: Tensor) -> float | Tensor:
        """Of the map from data units to those of the network, over the entries that are known."""
        gaps = torch.isnan(X)
        if not bool(gaps.any()):
            return self.scales_.log_jacobian()
        logs = torch.as_tensor(self.scales_.scale).log().to(X.dtype).to(X.device)
        return -torch.where(gaps, 0.0, logs).sum(1).to(device_of(self.network_))
