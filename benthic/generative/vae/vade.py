"""The variational autoencoder that finds clusters."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from sklearn.base import ClusterMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.seeds import derive, generator, supplied
from benthic.base.settings import is_whole, whole
from benthic.base.validation import speaking
from benthic.data.batch import Batch
from benthic.generative.vae.clusters import WAYS, ClusterNetwork, start_clusters
from benthic.generative.vae.estimator import VariationalEstimator
from benthic.mixture.common import check_rows
from benthic.nets.evaluate import device_of, in_blocks
from benthic.nets.noise import draw_normal
from benthic.nets.posterior import Diagonal, outputs_needed
from benthic.nets.prior import MixturePrior
from benthic.training.checkpoint import stored_seed
from benthic.training.estimator import Session
from benthic.training.intake import Intake
from benthic.training.network import training_dtype

_START_ROWS = 1 << 17  # rows whose codes the mixture starts from
_JUDGED_ROWS = 1 << 13  # rows on which the number of clusters is chosen
_PRETRAIN_SHARE = 0.3  # of the trainer's seconds, for the plain autoencoder


class _Plain(NamedTuple):
    """What the plain autoencoder leaves: rows in data units, their codes, and weights that all clusterings share."""

    rows: Tensor
    codes: Tensor
    weights: dict[str, Tensor]


class VaDE(ClusterMixin, VariationalEstimator):
    r"""Variational deep embedding: a variational autoencoder whose codes come from clusters.

    .. math:: c \sim \pi, \qquad z \sim N(\mu_c, \sigma_c^2), \qquad x \sim p(x|z)

    Jiang et al., 2017. Encoder and decoder are first trained as a plain autoencoder, a mixture of Gaussians is fitted
    to the codes, and from there everything is trained on the bound with q(c|x) = p(c|z).

    n_clusters: how many, or a list of numbers, of which the one with the lowest ``bic`` is kept (without checkpoints).
    latent_dim: size of the code. pretrain_epochs: passes of the plain autoencoder, None for as many as the
    trainer makes, 0 for none. start: where clusters are looked for at first, ``mixture`` among the codes, or ``map``
    on a t-SNE map of them, which takes longer and is often better (McConville et al., 2021), or an estimator whose
    ``fit_transform`` makes another map. guided_epochs: passes in
    which the clusters of the start are kept as q(c|x), until the codes have settled around them. n_init: starts of the
    mixture. The paper's network for pictures of digits is
    ``network="mlp", hidden_layer_sizes=(500, 500, 2000)`` with ``decoder="bernoulli"``. binarize: whether gray values
    in [0, 1] are probabilities of a one; the encoder sees them as they are, and the bound is its mean over all
    drawings. The other parameters are those of ``VAE``.

    ``predict`` gives the cluster of the mean code, ``sample(n, given=c)`` draws from a cluster. Learned: ``labels_`` of
    rows in memory, ``n_clusters_``, ``weights_``, ``means_`` and ``variances_`` of the clusters in the space of codes,
    ``bics_`` by number of clusters where it was chosen. ``likelihood`` methods: ``elbo`` and ``importance(k)``, in
    which clusters are summed over exactly.

    >>> import numpy as np
    >>> X = np.concatenate([np.random.default_rng(0).normal(m, 1.0, size=(100, 3)) for m in (-4, 4)])
    >>> model = VaDE(2, latent_dim=2, trainer={"steps": 50}, random_state=0).fit(X)
    >>> len(set(model.predict(X[:100]))), model.sample(5, given=0).shape
    (1, (5, 3))
    """

    network_: ClusterNetwork
    defaults = {"lr": 2e-3, "optimizer": "adam", "schedule": {"name": "cosine", "floor": 0.05}}

    def __init__(
        self,
        n_clusters: int | Sequence[int] = 10,
        *,
        latent_dim: int = 10,
        pretrain_epochs: int | None = None,
        start: Any = "mixture",
        guided_epochs: int = 0,
        n_init: int = 10,
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
        trainer: Any = None,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.latent_dim = latent_dim
        self.pretrain_epochs = pretrain_epochs
        self.start = start
        self.guided_epochs = guided_epochs
        self.n_init = n_init
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
        self.trainer = trainer
        self.random_state = random_state

    # -- learning --------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows or images ``X`` (array, frame, path or source); ``y`` is ignored."""
        with self._session(X) as session:
            self._learn(Intake(self, X), session)
        return self

    def _check_settings(self) -> None:
        super()._check_settings()
        whole("pretrain_epochs", self.pretrain_epochs, 0, optional=True)
        whole("guided_epochs", self.guided_epochs, 0)
        whole("n_init", self.n_init)
        if not hasattr(self.start, "fit_transform") and self.start not in WAYS:
            raise InvalidInput(f"start is {self.start!r}; use 'mixture', 'map' or an estimator that makes a map")
        self._counts()

    def _counts(self) -> list[int]:
        """The numbers of clusters to try."""
        counts = self.n_clusters
        if isinstance(counts, range):
            raise InvalidInput(f"n_clusters is {counts}; pass a list, list({counts})")
        found = list(counts) if isinstance(counts, (list, tuple, np.ndarray)) else [counts]
        if not found or not all(is_whole(k, 1) for k in found):
            raise InvalidInput(f"n_clusters is {counts!r}; it must be a whole number of at least 1, or a list of such")
        return sorted({int(k) for k in found})

    def _learn(self, intake: Intake, session: Session) -> None:
        """Train the plain autoencoder, start the clusters from its codes, and train on the bound."""
        with speaking(self, "fit"):
            self._enter(intake, session)
            counts = self._counts()
            check_rows(intake, counts[-1], 2)
        self.n_clusters_ = counts[0]
        if len(counts) > 1:
            session = replace(session, trainer=replace(session.trainer, checkpoint=None, resume=False))
        resumed = session.trainer.resume and stored_seed(session.trainer.saving) is not None
        plain = None if resumed else self._pretrain(intake, _timed(session, _PRETRAIN_SHARE))
        session = _timed(session, (1 - _PRETRAIN_SHARE * (self.pretrain_epochs != 0)) / len(counts))
        self.bics_ = {}
        kept: dict[str, Any] = {}
        for count in counts:
            self._fit_count(count, plain, intake, session)
            if len(counts) > 1:
                self.bics_[count] = self._bic_of_sample(intake)
                if self.bics_[count] == min(self.bics_.values()):
                    kept = {name: getattr(self, name) for name in ("network_", "history_", "n_iter_", "n_clusters_")}
        self.__dict__.update(kept)
        self._keep(intake)

    def _fit_count(self, count: int, plain: _Plain | None, intake: Intake, session: Session) -> None:
        """Train with so many clusters, from what the plain autoencoder found."""
        self.n_clusters_ = count
        if plain is not None:
            with supplied():
                network = self._build_network("network_").to(plain.codes.device)
            network.load_state_dict({**network.state_dict(), **plain.weights})
            found = start_clusters(network, plain.codes, self.start, self.n_init, derive(session.seed, "mixture"))
            self._start = network.state_dict()
            if self.guided_epochs:
                place = plain.rows.device
                self._guide(Batch(plain.rows[found.rows.to(place)], found.shares.to(place)), intake, session)
        self._optimize(intake, session)

    def _guide(self, known: Batch, intake: Intake, session: Session) -> None:
        """Train on the bound with the clusters of the start as q(c|x), so that codes settle around them."""
        looked = copy.copy(intake)
        looked.data, looked.rows = known, len(known.X)
        ready = self._preparation(session)

        def prepare(batch: Batch) -> Batch:
            x = ready(Batch(batch.X)).X
            return Batch(x, None if batch.y is None else batch.y.to(x.dtype))

        def loss(network: Callable[..., Tensor], batch: Batch) -> Tensor:
            return network(batch.X, float(self.beta), shares=batch.y, free=self.free_bits).sum()

        self._fit_network(looked, self._aside(session, self.guided_epochs), loss, prepare)
        self._start = self.network_.state_dict()

    @staticmethod
    def _aside(session: Session, epochs: int | None) -> Session:
        """The session of a phase before the training proper: no checkpoints, its own epochs."""
        trainer = replace(
            session.trainer, checkpoint=None, resume=False, early_stopping=None, callbacks=(), schedule="cosine"
        )
        return replace(session, trainer=trainer if epochs is None else replace(trainer, epochs=epochs, steps=None))

    def _pretrain(self, intake: Intake, session: Session) -> _Plain:
        """Train encoder and decoder without noise."""
        if self.pretrain_epochs == 0:
            with supplied():
                self.network_ = self._build_network("network_").to(session.device, training_dtype(session)).eval()
        else:
            alone = self._aside(session, self.pretrain_epochs)
            self._fit_network(intake, alone, self._plain_loss, self._preparation(session))
            self.pretrain_history_ = self.history_
        network = self.network_
        rows = intake.sample(_START_ROWS, session.seed).X
        x = self._preparation(session)(Batch(rows)).X.to(device_of(network))
        codes = in_blocks(lambda block: network.posterior(block).mean, x)
        state = network.state_dict()
        weights = {name: value.clone() for name, value in state.items() if not name.startswith("prior.")}
        return _Plain(rows, codes, weights)

    def _plain_loss(self, network: Callable[..., Tensor], batch: Batch) -> Tensor:
        losses = network(batch.X, plain=True)
        return losses.sum() if batch.weight is None else (losses * batch.weight).sum()

    def _loss(self, network: Callable[..., Tensor], batch: Batch, beta: float | Tensor) -> Tensor:
        # the logarithm of a Bernoulli law is linear in x: a gray value gives its mean over all drawings
        losses = self._row_losses(network, batch.X, batch.y, beta)
        return losses.sum() if batch.weight is None else (losses * batch.weight).sum()

    def _build_network(self, name: str) -> ClusterNetwork:
        plan, law = self._plan(), self.space_.observation(self.noise, self.noise_floor)
        size = self.latent_dim
        network = ClusterNetwork(
            plan.encoder(outputs_needed(size, "diagonal")),
            plan.decoder(size, law.outputs),
            law,
            size,
            prior=MixturePrior(size, self.n_clusters_),
            masked=self._masked,
        )
        start = self.__dict__.pop("_start", None)
        if start is not None:
            network.load_state_dict(start)
        return network

    def _keep(self, intake: Intake) -> None:
        """Set what is learned of the clusters."""
        self._look_at_codes(intake)
        prior = self.network_.prior
        parts = (torch.softmax(prior.logits, 0), prior.means, torch.exp(prior.log_vars))
        self.weights_, self.means_, self.variances_ = (part.detach().double().cpu().numpy() for part in parts)
        if intake.data is not None:
            self.labels_ = intake.origin.mirror(self._responsibilities(intake.data.X).argmax(1))

    # -- clusters --------------------------------------------------------------------------------------

    def _responsibilities(self, X: Tensor) -> Tensor:
        def of(network: Any, rows: Tensor) -> Tensor:
            found: Tensor = network.responsibilities(network.posterior(self.scales_.transform(rows)).mean)
            return found

        return self._evaluate(of, X)

    def predict_proba(self, X: Any) -> Any:
        """The probability of each cluster at the mean code of each row, (n, n_clusters_)."""
        tensor, origin = self._arrive(X, "predict_proba")
        return origin.mirror(self._responsibilities(tensor))

    def predict(self, X: Any) -> Any:
        """The most probable cluster of each row, (n,)."""
        tensor, origin = self._arrive(X, "predict")
        return origin.mirror(self._responsibilities(tensor).argmax(1))

    def bic(self, X: Any, method: str | None = None) -> float:
        """Bayesian information criterion on ``X``, from a bound on the likelihood by ``method``; lower is better.

        Only the parameters of the clusters are counted: the networks are the same for every number of clusters.
        """
        values = self.likelihood(X, method).value
        return self._penalized(float(values.sum()), len(values))

    def _penalized(self, likelihood: float, rows: int) -> float:
        free = self.n_clusters_ - 1 + 2 * self.n_clusters_ * self.latent_dim
        return -2 * likelihood + free * math.log(rows)

    def _bic_of_sample(self, intake: Intake) -> float:
        rows = intake.sample(_JUDGED_ROWS, 0).X
        if self.space_.binarize:
            rows = torch.bernoulli(rows.cpu(), generator=generator(0, "binarize"))
        mean = float(self._bound(rows, None, None).value.double().mean())
        return self._penalized(intake.rows * mean, intake.rows)

    # -- samples ---------------------------------------------------------------------------------------

    @torch.no_grad()
    def sample(self, n: int = 1, *, given: Any = None, seed: Any = None, noise: bool | None = None) -> Any:
        """``n`` new examples; given: a cluster or ``n`` of them to draw from, or rows with NaN to fill.

        noise: as of ``VAE.sample``.
        """
        check_is_fitted(self)
        labels = None if given is None else self._clusters_of(given, n)
        if labels is None:
            return super().sample(n, given=given, seed=seed, noise=noise)
        self._check_draws(n)
        source = generator(self._sampling_seed(seed), "sample")
        network = self._network_for_output()
        prior: MixturePrior = network.prior
        labels = labels.to(prior.means.device)
        law = Diagonal(prior.means[labels], prior.log_vars[labels])
        codes = law.place(draw_normal((n, self.latent_dim), prior.means, source))
        return self._shown(network, codes, source, noise)

    def _clusters_of(self, given: Any, n: int) -> Tensor | None:
        """The clusters that ``given`` names, (n,); None when it is rows."""
        if np.ndim(given) > 1:
            return None
        labels = given if isinstance(given, Tensor) else torch.as_tensor(np.asarray(given))
        if labels.is_floating_point():
            return None
        labels = labels.reshape(-1).long()
        if len(labels) not in (1, n):
            raise self._fail("sample", f"given names {len(labels)} clusters for {n} draws; pass one or {n}")
        if bool(((labels < 0) | (labels >= self.n_clusters_)).any()):
            raise self._fail("sample", f"given names a cluster outside 0 to {self.n_clusters_ - 1}")
        return labels.expand(n)

    def _facts(self) -> dict[str, Any]:
        weights = ", ".join(f"{w:.3f}" for w in self.weights_)
        return {"clusters": f"{self.n_clusters_}, weights {weights}", **super()._facts()}


def _timed(session: Session, share: float) -> Session:
    """The session with a share of its seconds, where it has any."""
    seconds = session.trainer.seconds
    return session if seconds is None else replace(session, trainer=replace(session.trainer, seconds=share * seconds))
