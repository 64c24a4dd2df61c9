"""What Bayesian networks share as estimators: the ways to explore the posterior, the members it leaves."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from benthic.base.arrays import Origin
from benthic.base.capabilities import to_numpy
from benthic.base.errors import NonFiniteLoss
from benthic.base.seeds import generator
from benthic.base.settings import one_of, positive, sizes, whole
from benthic.base.validation import speaking
from benthic.data.batch import Batch
from benthic.pictures.canvas import new_figure
from benthic.samplers.hamiltonian.nuts import NUTS
from benthic.supervised.bayesian_minibatch import MeanField, Tree, chains_of, default_steps
from benthic.supervised.bayesian_posterior import Classes, Hyper, Normal, Posterior, WeightKernel
from benthic.supervised.bayesian_stack import ACTIVATIONS, Stack
from benthic.training.estimator import Session, TrainedEstimator
from benthic.training.feed import ArrayFeed
from benthic.training.gradient import GradientLearner, Player
from benthic.training.trainer import Trainer

INFERENCES = ("hmc", "nuts", "sgld", "sghmc", "variational")
_RATES = {"sgld": 0.2, "sghmc": 0.1, "variational": 0.01}
_NUMBERS = 4_000_000  # hidden numbers held at once when predicting
_BATCH = 128  # rows of a minibatch
_START_ROWS = 4096  # rows that the first climb looks at


class Uncertainty(NamedTuple):
    """How unsure predictions are, row by row, and why: ``total = epistemic + aleatoric``.

    epistemic: what more data would take away. aleatoric: what they would not.
    """

    total: Any
    epistemic: Any
    aleatoric: Any


class Calibration(NamedTuple):
    """What was promised beside what came true.

    expected, observed: (bins,) promised and found shares. error: their mean distance, weighted by rows.
    """

    expected: np.ndarray
    observed: np.ndarray
    error: float


class _BayesianMLP(TrainedEstimator):
    """Base of classifier and regressor; ``_infer`` leaves ``members_``, ``_each`` evaluates them."""

    members_: Tensor
    noise_precision: float | None = None

    def __init__(
        self,
        hidden_layer_sizes: Sequence[int] = (50,),
        activation: str = "relu",
        *,
        inference: str = "hmc",
        chains: int = 4,
        draws: int = 100,
        warmup: int = 100,
        leapfrog_steps: int = 40,
        climb_steps: int = 300,
        prior_precision: float | None = None,
        relevance: bool = True,
        trainer: Any = None,
        random_state: Any = None,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.inference = inference
        self.chains = chains
        self.draws = draws
        self.warmup = warmup
        self.leapfrog_steps = leapfrog_steps
        self.climb_steps = climb_steps
        self.prior_precision = prior_precision
        self.relevance = relevance
        self.trainer = trainer
        self.random_state = random_state

    # -- learning ------------------------------------------------------------------------------------

    @property
    def _hidden(self) -> tuple[int, ...]:
        return sizes("hidden_layer_sizes", self.hidden_layer_sizes, empty=True)

    def _check_settings(self) -> None:
        with speaking(self, "fit"):
            one_of("inference", self.inference, INFERENCES)
            one_of("activation", self.activation, ACTIVATIONS)
            sizes("hidden_layer_sizes", self.hidden_layer_sizes, empty=True)
            for name, least in (("chains", 1), ("draws", 1), ("warmup", 0), ("leapfrog_steps", 1), ("climb_steps", 0)):
                whole(name, getattr(self, name), least)
            for name in ("prior_precision", "noise_precision"):
                positive(name, getattr(self, name), optional=True)

    def _infer(self, session: Session, X: Tensor, y: Tensor, outputs: int, kind: type[Normal] | type[Classes]) -> None:
        """Explore the posterior given standardized rows and keep the members that are found."""
        stack = Stack([X.shape[1], *self._hidden, outputs], self.activation, self.relevance)
        self._shape = (X.shape[1], *self._hidden, outputs)
        posterior = Posterior(stack, X, kind(y), self.prior_precision, self.noise_precision)
        stream = generator(session.seed, "weights", device=session.device)
        some = replace(posterior, X=X[:_START_ROWS], likelihood=kind(y[:_START_ROWS]))
        start = some.climb(int(self.chains), int(self.climb_steps), stream)
        ways = {"hmc": self._by_hmc, "nuts": self._by_nuts, "variational": self._by_bound}
        weights, hyper = ways.get(self.inference, self._by_chains)(session, posterior, start, stream)
        if not bool(weights.isfinite().all()):
            raise self._fail("fit", "weights ran away to infinity; lower the rate with trainer={'lr': ...}")
        self.members_ = weights.flatten(0, 1)
        self.prior_precision_ = hyper.prior.reshape(len(self.members_), -1)
        self.noise_precision_ = hyper.noise.reshape(len(self.members_), -1)
        self.n_chains_ = len(weights)

    def _by_hmc(self, session: Session, posterior: Posterior, start: Any, stream: torch.Generator) -> Any:
        kernel: Any = WeightKernel(posterior, steps=int(self.leapfrog_steps))
        with speaking(self, "fit"):
            state = kernel.init(start[0])
            if self.warmup:
                state, kernel = kernel.adapter().warm(state, int(self.warmup), stream)
            state, trail = kernel.collect(state, int(self.draws), stream)
        self._report(int(self.warmup + self.draws), acceptance=float(trail.info["accepted"].mean()))
        return trail.positions, Hyper(trail.info["prior"], trail.info["noise"])

    def _by_nuts(self, session: Session, posterior: Posterior, start: Any, stream: torch.Generator) -> Any:
        tree = Tree(posterior)
        target = tree.target()
        kernel: Any = NUTS(target, max_depth=max(1, math.ceil(math.log2(self.leapfrog_steps + 1))))
        # not through run: it would warn that chains disagree, which networks with hidden units in another order do
        state = kernel.init(target.pack(tree.start(*start)))
        if self.warmup:
            state, kernel = kernel.adapter().warm(state, int(self.warmup), stream)
        _, trail = kernel.collect(state, int(self.draws), stream)
        values = target.named(trail.positions)
        self._report(int(self.warmup + self.draws), acceptance=float(trail.info["accepted"].mean()))
        return values["weights"], tree.hyper(values)

    def _by_chains(self, session: Session, posterior: Posterior, start: Any, stream: torch.Generator) -> Any:
        rows, trainer = len(posterior.X), session.trainer
        size = min(trainer.batch_size or _BATCH, rows)
        steps = default_steps(rows, size, trainer)
        rate = trainer.lr or _RATES[self.inference]
        draws = int(min(self.draws, steps))
        with speaking(self, "fit"):
            sampler, tree = chains_of(
                posterior,
                self.inference,
                start,
                stream,
                rate=rate,
                rows=rows,
                batch_size=size,
                steps=steps,
                draws=draws,
            )
        try:
            self._run(session, sampler, posterior, replace(trainer, steps=steps, epochs=None, batch_size=size))
        except NonFiniteLoss as error:
            raise NonFiniteLoss(
                f"{type(self).__name__}.fit: the chains of {self.inference} ran away at step {sampler.step}; the rate "
                f"{rate:g} is too large, try trainer={{'lr': {rate / 10:.1g}}}"
            ) from error
        values = sampler.posterior.prior.named(sampler.draws)
        return values["weights"], tree.hyper(values)

    def _by_bound(self, session: Session, posterior: Posterior, start: Any, stream: torch.Generator) -> Any:
        rows, trainer = len(posterior.X), session.trainer
        size = min(trainer.batch_size or _BATCH, rows)
        steps = default_steps(rows, size, trainer)
        settings = replace(trainer, steps=steps, epochs=None, batch_size=size, lr=trainer.lr or _RATES["variational"])
        if settings.schedule is None:
            settings = replace(settings, schedule="cosine")
        field = MeanField(posterior, start, rows, ramp=steps // 2)
        learner = GradientLearner({"fit": Player(field, field.objective, settings)}, settings, world=session.world)
        self._run(session, learner, posterior, settings)
        return field.draw(int(self.draws), stream)

    def _run(self, session: Session, learner: Any, posterior: Posterior, trainer: Trainer) -> None:
        data = Batch(posterior.X, posterior.likelihood.y)
        feed = ArrayFeed(
            data,
            batch_size=trainer.batch_size or _BATCH,
            seed=session.seed,
            device=session.device,
            shuffle=True,
            world=session.world,
        )
        self._train(learner, feed, replace(session, trainer=trainer))

    def _report(self, transitions: int, **numbers: float) -> None:
        self.n_iter_ = max(transitions, 1)
        self.history_ = [{"step": transitions, **numbers}]

    # -- evaluating ----------------------------------------------------------------------------------

    def _each(self, X: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        """``function`` of the outputs (members, n, k) of every member, over blocks of rows, joined along rows."""
        device = self.members_.device
        stack = Stack(self._shape, self.activation, self.relevance)
        members = self.members_.to(X.dtype)
        rows = max(1, _NUMBERS // (len(members) * max(self._shape[1:])))
        scaled = self.scales_.transform(X.to(device))
        with torch.no_grad():
            return torch.cat([function(stack.outputs(members, block)) for block in scaled.split(rows)])

    def posterior(self) -> Any:
        """What was kept of the chains, as ``Draws`` of weights and precisions: R-hat, effective sizes, pictures."""
        from benthic.samplers.judging.draws import Draws

        lead = (self.n_chains_, len(self.members_) // self.n_chains_, -1)
        values = {"weights": self.members_.reshape(lead), "prior": self.prior_precision_.reshape(lead)}
        if self.noise_precision_.shape[1]:
            values["noise"] = self.noise_precision_.reshape(lead)
        return Draws(values)

    def _facts(self) -> dict[str, Any]:
        facts = {
            "inference": self.inference,
            "weights": self.members_.shape[1],
            "members": f"{len(self.members_)} from {self.n_chains_} chains",
        }
        if "acceptance" in self.history_[-1]:
            facts["acceptance"] = float(self.history_[-1]["acceptance"])
        return facts

    def plot(self) -> Any:
        """Precisions over the draws of each chain: of the noise where there is one, else of the weights' prior."""
        noisy = self.noise_precision_.shape[1] > 0
        values = self.noise_precision_[:, 0] if noisy else self.prior_precision_[:, 0]
        figure, axes = new_figure(6, 3.4)
        for chain in values.reshape(self.n_chains_, -1).rsqrt().cpu().numpy():
            axes.plot(chain, linewidth=0.8)
        label = "standard deviation of the noise" if noisy else "spread of the first weights"
        axes.set(title=type(self).__name__, xlabel="draw", ylabel=label)
        return figure

    def _judged(self, X: Any, y: Any, method: str) -> tuple[Tensor, Origin]:
        tensor, origin = self._arrive(X, method)
        if len(to_numpy(y)) != len(tensor):
            raise self._fail(method, f"X has {len(tensor)} rows and y has {len(to_numpy(y))}; they belong together")
        return tensor, origin
