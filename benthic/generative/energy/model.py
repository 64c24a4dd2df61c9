"""The energy-based model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import torch
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from benthic.base.capabilities import HasDensity, Samples
from benthic.base.estimate import Estimate
from benthic.base.likelihood import Likelihood
from benthic.base.progress import Bar
from benthic.base.seeds import generator
from benthic.base.settings import whole
from benthic.base.validation import speaking
from benthic.generative.energy.chains import anneal, groups_of, in_groups, kernel_of, settle, target_of
from benthic.generative.energy.estimator import EnergyEstimator
from benthic.generative.energy.filling import fill_pictures
from benthic.generative.energy.learning import EnergySettings
from benthic.generative.energy.networks import EnergyNetwork, OwnEnergy
from benthic.generative.energy.normalizer import find_normalizer, parse_method
from benthic.generative.energy.objectives import energy_slope
from benthic.generative.energy.pictures import energy_picture
from benthic.generative.energy.units import Whitening
from benthic.generative.flows.gaps import Moments, fill_gaps
from benthic.nets.evaluate import device_of, in_blocks, in_type
from benthic.training.trainer import Trainer
from benthic.uses.latent import Filled
from benthic.uses.verbs import Uses

_IMPUTE_CHAINS = 16


class EnergyModel(Uses, Samples, HasDensity, ClassNamePrefixFeaturesOutMixin, TransformerMixin, EnergyEstimator):
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

    >>> import numpy as np
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

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows or pictures ``X`` (array, frame, path or source); ``y`` is ignored."""
        with self._session(X) as session:
            self._learn(X, session)
        return self

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
        known, origin = self._known_rows(given, n)
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
            kind, count = parse_method(method, self._settings)
            key = f"{kind}({count})"
            if key not in self._normalizers:
                found = find_normalizer(in_type(self.network_, torch.float64), self._width, kind, count)
                self._normalizers[key] = (found.value, found.stderr)
        value, stderr = self._normalizers[key]
        return Estimate(value - self.units_.log_jacobian(), stderr)

    def _likelihood(self, X: Tensor, method: str | None) -> Likelihood:
        with speaking(self, "likelihood"):
            kind, _ = parse_method(method, self._settings)
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
