"""The energy-based model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from benthic.base.capabilities import HasDensity, Samples, to_numpy
from benthic.base.errors import InvalidInput
from benthic.base.estimate import Estimate
from benthic.base.likelihood import Likelihood
from benthic.base.progress import Bar
from benthic.base.seeds import generator
from benthic.base.settings import whole
from benthic.base.validation import speaking
from benthic.data.batch import Batch
from benthic.generative.energy.chains import anneal, groups_of, in_groups, kernel_of, settle, target_of
from benthic.generative.energy.filling import fill_pictures
from benthic.generative.energy.learning import Course, EnergySettings, chain_reach, energy_gap, settings_of
from benthic.generative.energy.networks import EnergyNetwork, OwnEnergy, body_of
from benthic.generative.energy.objectives import energy_slope
from benthic.generative.energy.pictures import energy_picture
from benthic.generative.energy.replay import ReplayLearner
from benthic.generative.energy.units import Whitening
from benthic.generative.flows.gaps import Moments, fill_gaps
from benthic.nets.evaluate import device_of, in_blocks, in_type
from benthic.samplers.annealing.importance import annealed_importance
from benthic.training.estimator import Session
from benthic.training.gradient import Player
from benthic.training.intake import Intake
from benthic.training.network import NetworkEstimator, training_dtype
from benthic.training.trainer import Trainer
from benthic.uses.latent import Filled
from benthic.uses.verbs import Uses, conditions

_CHAINS, _PILOT, _TEMPERATURES, _LEAPFROGS = 200, 8, 200, 3  # of the annealing behind likelihoods
_IMPUTE_CHAINS = 16
_LOOK = 2048  # rows and chains whose energies are compared


class EnergyModel(Uses, Samples, HasDensity, ClassNamePrefixFeaturesOutMixin, TransformerMixin, NetworkEstimator):
    r"""Energy-based model: a network says how strange an example is, and its exponential is the law.

    .. math:: p(x) = \frac{e^{-f(x)}}{Z}, \qquad \nabla_\theta \log p(x) = -\nabla_\theta f(x) + E_p[\nabla_\theta f]

    LeCun et al., 2006; Du & Mordatch, 2019; Song & Kingma, 2021. Rows are whitened inside; pictures have one scale.

    objective: ``contrastive_divergence`` (chains start at the rows; Hinton, 2002), ``persistent`` (chains go on from a
    store; Tieleman, 2008), ``score_matching`` (the exact trace; Hyvärinen, 2005), ``sliced`` (a random one; Song et
    al., 2019), ``denoising`` (Vincent, 2011) or ``noise_contrastive`` (the normalizer is learned too; Gutmann &
    Hyvärinen, 2012); ``auto`` is ``denoising`` for pictures and ``persistent`` for tables.
    network: ``mlp``, ``conv`` (which, with several levels of noise and no reference, is told the level), a module from
    examples to one number each, or ``auto``: ``conv`` for pictures, else ``mlp``. hidden_layer_sizes, channels,
    activation: of these; score matching needs a smooth activation.
    reference: what keeps the law normalizable: ``normal``, the energy is added to that of a normal law with the moments
    of the data; ``box``, it rises outside the range of the data; ``none``; ``auto`` is ``normal`` for tables, for
    pictures ``box`` where chains are run in training, else ``none``.
    sampler: ``langevin``, ``mala`` (with Metropolis' test), ``hmc``, or ``auto``: ``mala`` for tables, ``langevin`` for
    pictures. chain_steps, step_size: of chains in training. buffer_size: chains in the store. restart: the share of
    chains that begin anew. temperature: the network's output is divided by it; below one, chains need not wait until
    its weights have grown. regularization: weight of the squared outputs, which keeps them from drifting.
    noise: standard deviation of noise added to rows in training, in the units of standardized data; for ``denoising`` a
    number or (largest, smallest), and the model is of data with noise of the smallest. noise_levels: how many there
    are between, 60 where the network is told the level and 10 elsewhere if this is None. noise_ratio: noise rows for
    each row. slices: directions of ``sliced``. sampling_steps: steps of ``sample``; with several noise levels, over all
    of them. trainer: a ``Trainer`` or dict.

    ``likelihood`` is ``ais(k)``, annealed over k temperatures with its standard error, an upper bound in expectation;
    where the reference is ``normal`` it needs no settings; elsewhere say ``"ais(1000)"``. After ``noise_contrastive``
    there is ``learned`` too. ``anomaly`` is minus the log-likelihood where that needs no settings, else the energy,
    which ranks rows alike. ``transform`` gives the features of the last hidden layer.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2)) @ np.array([[1.0, 0.8], [0.0, 0.6]])
    >>> model = EnergyModel("sliced", hidden_layer_sizes=(16,), trainer={"steps": 60}, random_state=0).fit(X)
    >>> model.energy(X).shape, model.sample(4).shape
    ((300,), (4, 2))
    >>> bool(abs(model.score(X) + 0.5 * np.log(np.linalg.det(2 * np.pi * np.e * np.cov(X.T)))) < 0.2)
    True
    """

    accepts_images = True
    defaults = {"lr": 1e-3, "optimizer": "adam", "batch_size": 128}

    network_: EnergyNetwork
    units_: Whitening

    def __init__(
        self,
        objective: str = "auto",
        *,
        network: Any = "auto",
        hidden_layer_sizes: Sequence[int] = (128, 128),
        channels: Sequence[int] | None = None,
        activation: str = "silu",
        reference: str = "auto",
        sampler: str = "auto",
        chain_steps: int = 10,
        step_size: float | None = None,
        buffer_size: int = 1024,
        restart: float = 0.05,
        temperature: float | None = None,
        regularization: float = 0.0,
        noise: Any = None,
        noise_levels: int | None = None,
        noise_ratio: int = 4,
        slices: int = 1,
        sampling_steps: int | None = None,
        trainer: Any = None,
        random_state: Any = None,
    ) -> None:
        self.objective = objective
        self.network = network
        self.hidden_layer_sizes = hidden_layer_sizes
        self.channels = channels
        self.activation = activation
        self.reference = reference
        self.sampler = sampler
        self.chain_steps = chain_steps
        self.step_size = step_size
        self.buffer_size = buffer_size
        self.restart = restart
        self.temperature = temperature
        self.regularization = regularization
        self.noise = noise
        self.noise_levels = noise_levels
        self.noise_ratio = noise_ratio
        self.slices = slices
        self.sampling_steps = sampling_steps
        self.trainer = trainer
        self.random_state = random_state

    # -- learning --------------------------------------------------------------------------------------

    def _capturable(self) -> bool:
        """Whether updates can become CUDA graphs: not where the host looks at acceptances, or a user's module might."""
        return not isinstance(self.network, nn.Module) and not self._settings.adaptive

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows or pictures ``X`` (array, frame, path or source); ``y`` is ignored."""
        with self._session(X) as session:
            intake = Intake(self, X)
            with speaking(self, "fit"):
                self._enter(intake, session)
            course = Course(self._settings, self._width, self._limits)
            dtype = training_dtype(session)

            def prepare(batch: Batch) -> Batch:
                return Batch(self.units_.inward(batch.X.double()).to(dtype), None, batch.weight)

            def learner_of(network: nn.Module, session: Session) -> ReplayLearner:
                course.begin(network, session.trainer)
                player = Player(network, lambda batch: course.loss(network, batch), session.trainer)
                return ReplayLearner(
                    {"fit": player},
                    session.trainer,
                    world=session.world,
                    capturable=self._capturable(),
                    replay=course.replay,
                )

            self._fit_learner(intake, session, learner_of, prepare)
            self._keep(course, prepare(intake.sample(_LOOK, session.seed)).X)
        return self

    def _enter(self, intake: Intake, session: Session) -> None:
        """Look at the data, and settle what the settings leave open."""
        self._width = intake.width
        self._settings = settings_of(self, self._event, session.trainer)
        self.units_ = Whitening.of(intake, session.seed, picture=self._settings.picture)
        rows = self.units_.inward(intake.sample(_LOOK, session.seed).X.double())
        self._limits = (float(rows.min()), float(rows.max()))
        self._normalizers: dict[str, tuple[float, float]] = {}
        body: Any = self._body()
        self._n_features_out = 1 if isinstance(body, OwnEnergy) else int(body.size)

    def _keep(self, course: Course, rows: Tensor) -> None:
        """What remains of training besides the network: where the chains are, and how their energies compare."""
        points = None if course.replay is None else course.replay.points
        self.buffer_ = None if points is None or not len(points) else to_numpy(points)
        if not self._settings.by_chains:
            return
        network = self.network_
        rows = rows.to(device_of(network))
        drawn = course.chains(network, rows)
        with speaking(self, "fit"):
            self.energy_gap_ = energy_gap(network, rows, drawn)
            if self._settings.objective == "contrastive_divergence":
                chain_reach(rows, drawn)

    @property
    def _event(self) -> tuple[int, ...]:
        return getattr(self, "_event_shape", None) or (self._width,)

    def _body(self) -> nn.Module:
        leveled = self._settings.leveled
        return body_of(
            self.network, self._event, self.hidden_layer_sizes, self.channels, self.activation, leveled=leveled
        )

    def _build_network(self, name: str) -> nn.Module:
        settings: EnergySettings = self._settings
        made = EnergyNetwork(
            self._body(),
            temperature=settings.temperature,
            reference=settings.reference,
            limits=self._limits,
            wall=settings.wall,
            smallest=settings.noise or 1.0,
        )
        made.log_normalizer.requires_grad_(settings.objective == "noise_contrastive")
        return made

    # -- energies --------------------------------------------------------------------------------------

    def energy(self, X: Any) -> Any:
        """The energy of each row, (n,); larger is stranger."""
        tensor, origin = self._arrive(X, "energy")
        return origin.mirror(self._energy(tensor))

    def _energy(self, X: Tensor) -> Tensor:
        return self._evaluate(lambda network, rows: network(self.units_.inward(rows)), X)

    def grad_log_prob(self, X: Any, t: Any = None) -> Any:
        """Minus the gradient of the energy with respect to each row (the Stein score), like ``X``."""
        tensor, origin = self._arrive(X, "grad_log_prob")
        network = in_type(self.network_, tensor.dtype)

        def slope(rows: Tensor) -> Tensor:
            return -energy_slope(lambda x: network(self.units_.inward(x)), rows)[1]

        found = in_blocks(slope, tensor.to(device_of(network)))
        event = getattr(self, "_event_shape", None)
        return origin.mirror(found if event is None else found.reshape(len(found), *event))

    def transform(self, X: Any) -> Any:
        """The features of the last hidden layer, (n, k)."""
        tensor, origin = self._arrive(X, "transform")
        if isinstance(self.network_.body, OwnEnergy):
            raise self._fail("transform", "a module of your own names no hidden layer; ask the module for its features")
        found = self._evaluate(lambda network, rows: network.features(self.units_.inward(rows)), tensor)
        return origin.mirror(found)

    # -- samples ---------------------------------------------------------------------------------------

    @torch.no_grad()
    def sample(
        self, n: int = 1, *, given: Any = None, seed: Any = None, start: str = "noise", steps: int | None = None
    ) -> Any:
        """``n`` new examples; given: rows with NaN (one or ``n``) whose gaps are drawn given the rest.

        start: where chains begin, ``noise`` or, after chains were run in training, their ``buffer``. steps: of the
        chains, instead of ``sampling_steps``.
        """
        self._check_draws(n)
        whole(f"{type(self).__name__}.sample: steps", steps, optional=True)
        noise = generator(self._sampling_seed(seed), "sample", device=device_of(self.network_))
        if given is None:
            return self._data_out(self.units_.outward(self._draw(n, noise, start, steps)))
        known, origin = self._arrive(given, "sample", missing=True)
        with speaking(self, "sample"):
            known = conditions(known, n)
        drawn = self._fill(known, noise, steps=steps).draw
        return self._data_out(torch.where(torch.isnan(known), drawn.to(known), known), replace(origin, index=None))

    def _network_for_output(self) -> EnergyNetwork:
        return in_type(self.network_, torch.float64 if self._fit_origin.dtype == "float64" else torch.float32)

    def _draw(self, n: int, noise: torch.Generator, start: str, steps: int | None = None) -> Tensor:
        """Rows in the units of the energy."""
        network, settings = self._network_for_output(), self._settings
        count = settings.sampling_steps if steps is None else steps
        first = self._begin_chains(n, noise, start, network)
        levels = settings.levels
        if levels is None:
            kernel = kernel_of(settings.sampler, target_of(network, self._width), settings.step_size)
            return in_groups(lambda x: settle(kernel, x, count, noise), first)
        total = groups_of(n) * max(1, count // levels[2]) * levels[2]
        bar = Bar(type(self).__name__, total, Trainer.of(self.trainer).verbose, "steps")
        try:
            return in_groups(lambda x: anneal(network, x, levels, count, noise, settings.step_size, bar.tick), first)
        finally:
            bar.close()

    def _begin_chains(self, n: int, noise: torch.Generator, start: str, network: EnergyNetwork) -> Tensor:
        like = network.log_normalizer
        if start == "buffer":
            if self.buffer_ is None:
                raise self._fail("sample", f"objective={self._settings.objective!r} keeps no buffer; use start='noise'")
            points = torch.as_tensor(self.buffer_).to(like)
            return points[torch.randint(len(points), (n,), generator=noise, device=like.device)]
        if start != "noise":
            raise self._fail("sample", f"start is {start!r}; use 'noise' or 'buffer'")
        return self._settings.first_points(n, self._width, self._limits, like, noise)

    def _fill(self, X: Tensor, noise: torch.Generator, chains: int = 1, steps: int | None = None) -> Filled:
        """A draw and the mean of the gaps of rows in data units; steps: for pictures, instead of the settings'."""
        network, settings = in_type(self.network_, X.dtype), self._settings
        settings = settings if steps is None else replace(settings, sampling_steps=steps)
        rows = self.units_.scales.transform(X.to(device_of(network)))
        if settings.picture:
            found = fill_pictures(network, rows, settings, self._limits, noise)
        else:
            moments = Moments(torch.zeros_like(rows[0]), self.units_.covariance(rows))
            host = generator(int(torch.randint(1 << 30, (), generator=noise, device=noise.device)), "gaps")
            found = fill_gaps(lambda full: -network(self.units_.whiten(full)), rows, moments, host, chains=chains)
        return Filled(*(self.units_.scales.inverse(part) for part in found))

    @torch.no_grad()
    def _impute(self, X: Tensor) -> Tensor:
        noise = generator(0, "impute", device=device_of(self.network_))  # the same gaps, the same answer
        return self._fill(X, noise, _IMPUTE_CHAINS).mean

    # -- likelihood ------------------------------------------------------------------------------------

    def log_normalizer(self, method: str | None = None) -> Estimate:
        """log Z of the exponential of minus the energy over the data space, with its standard error.

        method: ``ais(k)`` or ``learned``, as of ``likelihood``.
        """
        check_is_fitted(self)
        with speaking(self, "log_normalizer"):
            kind, count = self._parse(method)
        key = f"{kind}({count})"
        if key not in self._normalizers:
            found = self._find_normalizer(kind, count)
            self._normalizers[key] = (found.value, found.stderr)
        value, stderr = self._normalizers[key]
        return Estimate(value - self.units_.log_jacobian(), stderr)

    def _find_normalizer(self, kind: str, count: int) -> Estimate:
        network = in_type(self.network_, torch.float64)
        if kind == "learned":
            return Estimate(network.log_normalizer.item(), float("nan"))
        noise = generator(0, "annealing", device=device_of(network))
        shape = (_CHAINS + _PILOT, self._width)
        start = torch.randn(shape, generator=noise, dtype=torch.float64, device=noise.device)
        found = annealed_importance(
            lambda x: -0.5 * (x.square() + np.log(2 * np.pi)).sum(-1),
            lambda x: -network(x),
            start,
            temperatures=count,
            leapfrogs=_LEAPFROGS,
            pilot=_PILOT,
            generator=noise,
        )
        if not bool(torch.isfinite(found.value)):
            raise self._fail(
                "likelihood",
                f"annealing gave a normalizer of {float(found.value)}; the energy has no lower bound, so that the law "
                "has no density: use reference='normal', or more noise in training",
            )
        return Estimate(float(found.value), float(found.stderr))

    def _parse(self, method: str | None) -> tuple[str, int]:
        """The kind of normalizer and the number of temperatures."""
        settings: EnergySettings = self._settings
        if method is None:
            if settings.reference != "normal":
                raise InvalidInput(
                    "an energy has no known normalizer; ask for annealed importance sampling and say how many "
                    "temperatures, for example likelihood(X, 'ais(1000)')"
                )
            return "ais", _TEMPERATURES
        match = re.fullmatch(r"ais(?:\((\d+)\))?", str(method))
        if match is not None and (match[1] is None or int(match[1]) > 1):
            return "ais", int(match[1] or _TEMPERATURES)
        if method == "learned":
            if settings.objective == "noise_contrastive":
                return "learned", 0
            raise InvalidInput(
                f"method 'learned' needs a normalizer that was learned, by objective='noise_contrastive'; after "
                f"{settings.objective!r} use 'ais(k)' with k >= 2 temperatures"
            )
        raise InvalidInput(
            f"method {method!r} is unknown; use 'ais(k)' with k >= 2 temperatures, or 'learned' after "
            "objective='noise_contrastive'"
        )

    def _likelihood(self, X: Tensor, method: str | None) -> Likelihood:
        with speaking(self, "likelihood"):
            kind, _ = self._parse(method)
        found = self.log_normalizer(method)
        value = -self._energy(X) - found.value
        stderr = torch.full_like(value, found.stderr)
        if kind == "learned":
            return Likelihood(value, stderr, "nce", "estimate", "density")
        return Likelihood(value, stderr, "ais", "upper", "density")

    def _surprise(self, X: Any, **given: Any) -> Any:
        """Minus the log-likelihood where that needs no settings, else the energy."""
        check_is_fitted(self)
        return -self.likelihood(X).value if self._settings.reference == "normal" else self.energy(X)

    # -- words and pictures ------------------------------------------------------------------------------

    def _facts(self) -> dict[str, Any]:
        settings: EnergySettings = self._settings
        facts = {"objective": settings.objective, "reference": settings.reference, **super()._facts()}
        gap = getattr(self, "energy_gap_", None)
        return facts if gap is None else {**facts, "energy of chains over rows": f"{gap:.2g} standard deviations"}

    def plot(self, X: Any = None) -> Any:
        """The energy over two columns as a map; of more the loss over training, and the energies of rows and samples.

        X: rows to show over the map, or whose energies to show.
        """
        return energy_picture(self, X)
