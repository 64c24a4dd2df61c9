"""The restricted Boltzmann machine."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from benthic.base.capabilities import Encodes, HasDensity, Samples, to_numpy
from benthic.base.errors import InvalidInput
from benthic.base.estimate import Estimate
from benthic.base.likelihood import Bound, Likelihood
from benthic.base.seeds import generator, stream
from benthic.base.settings import one_of, whole
from benthic.base.validation import speaking
from benthic.data.batch import Batch
from benthic.generative.energy.bits import check_binarize, check_bits, cut, thresholds_of
from benthic.generative.energy.boltzmann_network import BoltzmannNetwork, draw_bits
from benthic.generative.energy.partition import MOST_COUNTED, annealed_partition, exact_draws, log_partition
from benthic.generative.energy.pictures import machine_picture
from benthic.generative.energy.replay import Replay, ReplayLearner
from benthic.nets.evaluate import device_of, in_type
from benthic.training.estimator import Session
from benthic.training.gradient import Player
from benthic.training.intake import Intake
from benthic.training.network import NetworkEstimator, scales_of, training_dtype
from benthic.uses.verbs import Uses

OBJECTIVES = ("persistent", "contrastive_divergence")
_COUNTED = 16  # units of the smaller side up to which likelihoods are exact without being asked
_TEMPERATURES = 1000
_FILL_STEPS, _FILL_CHAINS = 100, 16
_LOOK = 4096
_LEAST, _MOST = 0.01, 0.99  # where the rates of units in the data are cut before their logits are taken

_when_small: Callable[[Callable[..., Any]], Any] = available_if(lambda model: model._small)


class BernoulliRBM(Uses, Encodes, Samples, HasDensity, NetworkEstimator):
    r"""Restricted Boltzmann machine: binary units, hidden ones that explain visible ones.

    .. math:: p(v, h) = \frac1Z e^{a^\top v + b^\top h + v^\top W h}, \qquad
        \nabla \log p(v) = -\nabla F(v) + E_{v' \sim p}[\nabla F(v')]

    Smolensky, 1986; contrastive divergence: Hinton, 2002; persistent chains: Tieleman, 2008; the partition function by
    annealing: Salakhutdinov & Murray, 2008.

    n_components: hidden units. objective: ``persistent`` chains, or ``contrastive_divergence``, whose chains start at
    the rows. gibbs_steps: turns of a chain for each update. chains: how many persistent ones there are.
    binarize: False for zeros and ones; True for values in [0, 1], drawn afresh at every step; a number is the threshold
    above which a value is a one; ``auto`` takes zeros and ones as they are, cuts values in [0, 1] at a half, and
    columns with others at their median. sampling_steps: Gibbs turns of ``sample``.
    trainer: a ``Trainer`` or dict; scikit-learn's ``learning_rate``, ``batch_size`` and ``n_iter`` are its ``lr``,
    ``batch_size`` and ``epochs``. Early stopping goes by the pseudo-likelihood of held-out rows.

    ``transform`` gives the chance of each hidden unit. ``likelihood`` is of the bits: ``exact`` where one side has up
    to 16 units (25 if asked for), else ``ais(k)`` with k temperatures, which is an upper bound in expectation, or
    ``reverse(k)``, a lower one as far as its starting points, long chains, are draws of the machine. ``anomaly`` is
    minus the exact log-likelihood, or else the free energy, which differs from it by a constant. ``sample`` and
    ``impute`` give bits and their chances, also where values of other sizes were cut.

    >>> X = np.random.default_rng(0).random((300, 1)) < np.full(6, 0.5)
    >>> model = BernoulliRBM(2, trainer={"epochs": 30}, random_state=0).fit(X.astype(float))
    >>> model.transform(X.astype(float)).shape, model.likelihood(X.astype(float)).kind
    ((300, 2), 'exact')
    """

    accepts_images = True
    capturable = True
    defaults = {"lr": 0.05, "optimizer": "sgd", "schedule": "linear", "batch_size": 100}

    network_: BoltzmannNetwork

    def __init__(
        self,
        n_components: int = 256,
        *,
        objective: str = "persistent",
        gibbs_steps: int = 1,
        chains: int = 100,
        binarize: Any = "auto",
        sampling_steps: int = 1000,
        trainer: Any = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.objective = objective
        self.gibbs_steps = gibbs_steps
        self.chains = chains
        self.binarize = binarize
        self.sampling_steps = sampling_steps
        self.trainer = trainer
        self.random_state = random_state

    # -- learning --------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows or pictures ``X`` (array, frame, path or source); ``y`` is ignored."""
        with self._session(X) as session:
            intake = Intake(self, X)
            with speaking(self, "fit"):
                self._enter(intake, session)
            replay = Replay(self._first_chains(session))
            dtype = training_dtype(session)

            def prepare(batch: Batch) -> Batch:
                with speaking(self, "fit"):
                    return Batch(self._bits(batch.X).to(dtype), None, batch.weight)

            def learner_of(network: nn.Module, session: Session) -> ReplayLearner:
                player = Player(network, lambda batch: self._loss(network, batch, replay), session.trainer)
                return ReplayLearner(
                    {"fit": player},
                    session.trainer,
                    world=session.world,
                    capturable=self.capturable,
                    replay=replay,
                    judge=lambda batch: -_pseudo(network, batch.X).sum(),
                )

            self._fit_learner(intake, session, learner_of, prepare)
            self.chains_ = to_numpy(replay.points).astype(np.uint8)
            self._partitions: dict[str, tuple[float, float]] = {}
        return self

    def _enter(self, intake: Intake, session: Session) -> None:
        """Check the settings, and look at the data."""
        for name in ("n_components", "gibbs_steps", "chains", "sampling_steps"):
            whole(name, getattr(self, name))
        one_of("objective", self.objective, OBJECTIVES)
        check_binarize(self.binarize)
        self._width, self._n_features_out = intake.width, int(self.n_components)
        rows = intake.sample(_LOOK, session.seed).X
        self.thresholds_ = thresholds_of(self.binarize, rows)
        if self.thresholds_ is None:
            rates = np.asarray(scales_of(intake).mean)
        else:
            rates = to_numpy(cut(rows, self.thresholds_).double().mean(0))
        rates = np.clip(rates, _LEAST, _MOST)
        self._base_bias = np.log(rates / (1 - rates))

    @property
    def _gray(self) -> bool:
        """Whether values between 0 and 1 are chances."""
        return self.binarize is True

    def _bits(self, X: Tensor) -> Tensor:
        """Rows in the units of the machine, checked."""
        bits = cut(X, self.thresholds_)
        check_bits(bits, gray=self._gray)
        return bits

    def _first_chains(self, session: Session) -> Tensor:
        """Hidden units (chains, hidden) at random."""
        shape = (int(self.chains), int(self.n_components))
        return torch.randint(2, shape, generator=stream(session.device), device=session.device).to(
            training_dtype(session)
        )

    def _loss(self, network: Any, batch: Batch, replay: Replay) -> Tensor:
        """Free energies of rows minus those of chains, whose gradient is minus that of the log-likelihood."""
        v = draw_bits(batch.X) if self._gray else batch.X
        persistent = self.objective == "persistent"
        there = (
            network.visible_of(replay.points, self.gibbs_steps) if persistent else network.gibbs(v, self.gibbs_steps)
        )
        both = torch.cat([v, there])  # one product for rows and chains
        drive = network.drive(both)
        rows, drawn = network.free_energy(both, drive).split([len(v), len(there)])
        if persistent:
            replay.points.copy_(draw_bits(torch.sigmoid(drive[len(v) :].detach())))
        total = rows.sum() if batch.weight is None else (rows * batch.weight).sum()
        weight = len(v) if batch.weight is None else batch.weight.sum()
        loss: Tensor = total - drawn.mean() * weight
        return loss

    def _build_network(self, name: str) -> nn.Module:
        return BoltzmannNetwork(self._width, int(self.n_components))

    def _begin_network(self, network: Any) -> None:
        with torch.no_grad():  # units start with the rates they have in the data (Hinton, 2010)
            network.visible_bias.copy_(torch.as_tensor(self._base_bias))

    # -- codes -----------------------------------------------------------------------------------------

    def _encode(self, X: Tensor) -> Tensor:
        with speaking(self, "transform"):
            bits = self._bits(X)
        return self._evaluate(lambda network, rows: torch.sigmoid(network.drive(rows)), bits)

    def _decode(self, Z: Tensor) -> Tensor:
        return self._evaluate(lambda network, codes: torch.sigmoid(network.answer(codes)), Z)

    def free_energy(self, X: Any) -> Any:
        """Minus the log of the unnormalized mass of each row, (n,)."""
        tensor, origin = self._arrive(X, "free_energy")
        return origin.mirror(self._free(tensor, "free_energy"))

    def _free(self, X: Tensor, verb: str) -> Tensor:
        with speaking(self, verb):
            bits = self._bits(X)
        return self._evaluate(lambda network, rows: network(rows), bits)

    def pseudo_likelihood(self, X: Any, seed: int = 0) -> Any:
        """An estimate of the pseudo-log-likelihood of each row, (n,), from one unit of it drawn by the seed."""
        tensor, origin = self._arrive(X, "pseudo_likelihood")
        with speaking(self, "pseudo_likelihood"):
            bits = self._bits(tensor)
        network = in_type(self.network_, bits.dtype)
        places = torch.randint(self._width, (len(bits),), generator=generator(seed, "pseudo-likelihood"))
        bits = bits.to(device_of(network))
        return origin.mirror(network.pseudo_likelihood(bits, places.to(bits.device)))

    # -- samples ---------------------------------------------------------------------------------------

    @torch.no_grad()
    def sample(self, n: int = 1, *, given: Any = None, seed: Any = None) -> Any:
        """``n`` new rows of bits; given: rows with NaN (one or ``n``) whose gaps are drawn given the rest."""
        self._check_draws(n)
        noise = self._stream(self._sampling_seed(seed), "sample")
        if given is None:
            return self._data_out(self._walk(n, self.sampling_steps, noise))
        known, origin = self._known_rows(given, n)
        drawn = self._fill(known, noise, "sample")[0]
        return self._data_out(torch.where(torch.isnan(known), drawn.to(known), known), replace(origin, index=None))

    def _stream(self, seed: int, name: str) -> torch.Generator:
        return generator(seed, name, device=device_of(self.network_))

    def _walk(self, n: int, steps: int, noise: torch.Generator, dtype: torch.dtype | None = None) -> Tensor:
        """Chains from where those of training were left."""
        wide = self._fit_origin.dtype == "float64"
        network = in_type(self.network_, dtype or (torch.float64 if wide else torch.float32))
        points = torch.as_tensor(self.chains_).to(network.weight)
        chosen = torch.randint(len(points), (n,), generator=noise, device=noise.device)
        return network.visible_of(points[chosen], steps, noise)

    def _fill(self, X: Tensor, noise: torch.Generator, verb: str, chains: int = 1) -> tuple[Tensor, Tensor]:
        network = in_type(self.network_, X.dtype)
        with speaking(self, verb):
            bits = self._bits(X).to(device_of(network))
        return network.fill(bits, _FILL_STEPS, noise, chains)

    def _impute(self, X: Tensor) -> Tensor:
        return self._fill(X, self._stream(0, "impute"), "impute", _FILL_CHAINS)[1]  # the same gaps, the same answer

    # -- likelihood ------------------------------------------------------------------------------------

    @property
    def _small(self) -> bool:
        return min(getattr(self, "_width", MOST_COUNTED), int(self.n_components)) <= _COUNTED

    def log_partition(self, method: str | None = None, *, chains: int = 100, settle: int = 1000) -> Estimate:
        """log Z with its standard error: ``exact``, ``ais(k)`` or ``reverse(k)`` with k temperatures.

        chains: how many are annealed. In reverse they start from exact draws of a small machine, else from Gibbs chains
        of ``settle`` turns that begin where those of training were left.
        """
        check_is_fitted(self)
        with speaking(self, "log_partition"):
            whole("chains", chains, 2)
            whole("settle", settle)
            kind, count = self._parse(method)
            key = f"{kind}({count}, {chains}, {settle})"
            if key not in self._partitions:
                found = self._find_partition(kind, count, chains, settle)
                self._partitions[key] = (found.value, found.stderr)
        return Estimate(*self._partitions[key])

    def _find_partition(self, kind: str, count: int, chains: int, settle: int) -> Estimate:
        network = in_type(self.network_, torch.float64)
        if kind == "exact":
            return Estimate(log_partition(network), 0.0)
        noise = self._stream(0, kind)
        exact = None
        if kind == "reverse":
            exact = (
                exact_draws(network, chains, noise) if self._small else self._walk(chains, settle, noise, torch.float64)
            )
        base = torch.as_tensor(self._base_bias)
        found = annealed_partition(network, base, temperatures=count, chains=chains, exact=exact, generator=noise)
        return Estimate(float(found.value), float(found.stderr))

    def _parse(self, method: str | None) -> tuple[str, int]:
        if method is None:
            return ("exact", 0) if self._small else ("ais", _TEMPERATURES)
        if method == "exact":
            units = min(self._width, int(self.n_components))
            if units > MOST_COUNTED:
                raise InvalidInput(
                    f"method 'exact': the smaller side has {units} units, too many states to count; up to "
                    f"{MOST_COUNTED} can be counted, beyond use 'ais(k)' or 'reverse(k)'"
                )
            return "exact", 0
        match = re.fullmatch(r"(ais|reverse)(?:\((\d+)\))?", str(method))
        if match is None or (match[2] is not None and int(match[2]) < 2):
            raise InvalidInput(
                f"method {method!r} is unknown; use 'exact', 'ais(k)' or 'reverse(k)' with k >= 2 temperatures"
            )
        return match[1], int(match[2] or _TEMPERATURES)

    def _likelihood(self, X: Tensor, method: str | None) -> Likelihood:
        with speaking(self, "likelihood"):
            kind, _ = self._parse(method)
            check_bits(cut(X, self.thresholds_), gray=False)
        found = self.log_partition(method)
        value = -self._free(X, "likelihood") - found.value
        bounds: dict[str, Bound] = {"exact": "exact", "ais": "upper", "reverse": "lower"}
        name = "exact" if kind == "exact" else "ais"
        return Likelihood(value, torch.full_like(value, found.stderr), name, bounds[kind], "mass")

    @_when_small
    def log_prob(self, X: Any) -> Any:
        """The exact log-mass of each row, (n,); absent where the partition function is only estimated."""
        return self.likelihood(X, "exact").value

    def _surprise(self, X: Any, **given: Any) -> Any:
        """Minus the exact log-likelihood, or else the free energy."""
        check_is_fitted(self)
        shift = self.log_partition("exact").value if self._small else 0.0
        return self.free_energy(X) + shift

    # -- words and pictures ----------------------------------------------------------------------------

    def _facts(self) -> dict[str, Any]:
        counts = {"visible units": self._width, "hidden units": int(self.n_components)}
        return {**counts, **super()._facts(), "log Z": self.log_partition("exact").value if self._small else "unknown"}

    def plot(self) -> Any:
        """The loss over training, and the weights of some hidden units, as a matplotlib figure."""
        return machine_picture(self)


def _pseudo(network: Any, v: Tensor) -> Tensor:
    """The pseudo-likelihood of rows, each by the unit that its number names: no random number is drawn."""
    bits = (v > 0.5).to(v.dtype)
    found: Tensor = network.pseudo_likelihood(bits, torch.arange(len(v), device=v.device) % v.shape[1])
    return found
