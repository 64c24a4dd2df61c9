"""What every adversarial model does: let networks compete, sample, invert, give likelihoods by smoothing."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from benthic.base.capabilities import Encodes, HasDensity, Samples
from benthic.base.errors import InvalidInput
from benthic.base.likelihood import Likelihood
from benthic.base.seeds import alike, generator, np_generator, stream
from benthic.base.settings import one_of, positive, whole
from benthic.base.validation import speaking
from benthic.data.batch import Batch
from benthic.data.standardize import Standardizer
from benthic.generative.gan import diagnostics
from benthic.generative.gan.annealing import annealed_likelihood
from benthic.generative.gan.density import Parzen, best_bandwidth
from benthic.generative.gan.inversion import invert
from benthic.generative.gan.losses import LossPair, loss_of
from benthic.generative.gan.networks import (
    AdversarialNetwork,
    couples_rows,
    drawn_rows,
    refuse_probabilities,
    spread_like_data,
    warn_of_probabilities,
)
from benthic.generative.gan.penalties import Contestants, Regularizer, check_critic, clip_weights, regularizer_of
from benthic.generative.gan.picture import game_picture
from benthic.nets.evaluate import device_of, in_blocks, in_type
from benthic.nets.noise import draw_normal
from benthic.optim.games import PastExtragradient, game_optimizer
from benthic.training.estimator import Session
from benthic.training.gradient import GradientLearner, Player, Turn
from benthic.training.intake import Intake, Prepare
from benthic.training.network import NetworkEstimator, scales_of, training_dtype
from benthic.training.trainer import Trainer
from benthic.uses.latent import Filled
from benthic.uses.verbs import Uses

GAMES = ("alternating", "simultaneous", "extragradient", "optimistic")
_HELD, _MOST_HELD, _LEAST_ROWS = 0.05, 500, 100  # share and number of rows kept from training, from so many rows on
_LOOK = 1024  # rows that are watched
_POINTS = 2048  # draws that a likelihood is made of
_CANDIDATES = 256  # codes that inversion chooses its starts from
_STEPS, _LEAST_STEPS, _STEPS_A_ROW = 6000, 1000, 3  # updates of a run: fewer for few rows
_HORIZON = 0.05  # the share of a run that the generator's average goes back
_WORK = 1 << 16  # rows made at once
CODE_SPREAD = 0.25  # standard deviation of codes around their centers, where there are several

Play = Callable[[Any, Batch], Tensor]


class AdversarialEstimator(Uses, Encodes, Samples, HasDensity, NetworkEstimator):
    """Base of the family; a subclass has the parameters of ``GAN`` that it names.

    What a subclass may give: ``_build_network`` (a module with ``make(codes, conditions)`` and ``judge(rows,
    conditions)``, and its parts generator and critic), ``_codes`` (what rows are made from), ``_given`` (conditions
    of a batch), ``_scales`` (from data units to those of the networks), ``_generator_terms`` and ``_critic_terms``
    (what is added to the losses), ``_plays`` (more players).
    """

    accepts_images = True
    capturable = True
    defaults: ClassVar[dict[str, Any]] = {"optimizer": {"name": "adam", "betas": (0.5, 0.9)}, "schedule": "linear"}
    default_batch: ClassVar[int] = 256
    default_steps: ClassVar[int] = _STEPS
    default_lr: ClassVar[float] = 1e-3
    usual_weights: ClassVar[Mapping[str, float]] = {}  # of penalties, where they are not the usual ones

    network_: Any
    scales_: Standardizer
    bandwidth_: float
    diagnostics_: dict[str, float]

    code_centers_: np.ndarray
    latent_dim: int
    # settings that a member of the family may or may not have
    latent_components: int = 1
    loss: Any = "non_saturating"
    penalty: Any = None
    penalty_weight: float | None = None
    critic_steps: int = 1
    generator_lr: float | None = None
    critic_lr: float | None = None
    game: str = "alternating"

    # -- learning --------------------------------------------------------------------------------------

    def _learn(self, intake: Intake, session: Session) -> None:
        """Look at the data, build the networks and let them play."""
        with speaking(self, "fit"):
            self._enter(intake, session)
            intake, held = self._hold_out(intake, session.seed)
            trainer = self._with_budget(session.trainer, intake.rows)
        session = replace(session, trainer=trainer)
        prepare = self._preparation(session)
        look = _on(prepare(intake.sample(_LOOK, session.seed)), session.device)
        kept = look if held is None else _on(prepare(held), session.device)
        self._fit_learner(intake, session, partial(self._learner, look=look), prepare)
        self.network_.eval()
        self._look_back(look, kept, held is not None)

    def _enter(self, intake: Intake, session: Session) -> None:
        """Check the settings and learn how the data are scaled."""
        self._check_settings()
        self._width, self._n_features_out = intake.width, self._code_size()
        self.scales_ = self._scales(intake)
        if self.latent_components > 1:
            self.code_centers_ = code_centers(self.latent_components, self._code_size(), session.seed)

    def _check_settings(self) -> None:
        loss_of(self.loss)
        regularizer_of(self.penalty, self.penalty_weight)
        for name in ("latent_dim", "latent_components", "critic_steps"):
            whole(name, getattr(self, name))
        for name in ("generator_lr", "critic_lr"):
            positive(name, getattr(self, name), optional=True)
        one_of("game", self.game, GAMES)
        if self.critic_steps > 1 and self.game in ("simultaneous", "extragradient"):
            raise InvalidInput(
                f"critic_steps is {self.critic_steps}, but in game={self.game!r} both move at once; use "
                "critic_steps=1, or game='alternating' or 'optimistic'"
            )

    def _scales(self, intake: Intake) -> Standardizer:
        """From data units to those of the networks: each column to mean zero and unit spread."""
        seen = scales_of(intake)
        if seen.spread is None or not seen.spread.any():
            count = "there is only 1 row" if intake.rows == 1 else f"all {intake.rows} rows are the same"
            warnings.warn(
                f"{type(self).__name__}.fit: {count}; a generator learns how rows differ, and can here only learn to "
                "repeat one",
                stacklevel=6,
            )
        return seen

    def _hold_out(self, intake: Intake, seed: int) -> tuple[Intake, Batch | None]:
        """Some rows that are not learned from choose the bandwidth and show whether others are copied."""
        if intake.data is None or intake.rows < _LEAST_ROWS:
            return intake, None
        return intake.hold_out(min(_HELD, _MOST_HELD / intake.rows), seed)

    def _with_budget(self, trainer: Trainer, rows: int) -> Trainer:
        """The trainer with batches of nearly equal size, a length of the run, and an average that fits it."""
        if trainer.early_stopping:
            raise InvalidInput(
                "early_stopping watches a loss that falls, but those of players in a game do not; set the trainer's "
                "steps or epochs instead"
            )
        batches = math.ceil(rows / min(trainer.batch_size or self.default_batch, rows))
        size = math.ceil(rows / batches)
        usual = min(self.default_steps, max(_LEAST_STEPS, _STEPS_A_ROW * rows))
        steps = trainer.steps or (trainer.epochs or 0) * math.ceil(rows / size) or usual
        rounds = max(1.0, steps / len(self._phases()))
        decay = trainer.ema or max(0.01, 1.0 - 1.0 / max(1.0, _HORIZON * rounds))
        if not trainer.limited:
            trainer = replace(trainer, steps=steps)
        return replace(trainer, batch_size=size, ema=decay, lr=trainer.lr or self.default_lr)

    def _preparation(self, session: Session) -> Prepare:
        """What makes rows ready for the networks."""
        dtype = training_dtype(session)

        def prepare(batch: Batch) -> Batch:
            given = self._given(batch)
            return Batch(self._inward(batch.X).to(dtype), given.to(dtype) if given is not None else None)

        return prepare

    def _given(self, batch: Batch) -> Tensor | None:
        """What both networks are told of each row; a conditional model has something."""
        return None

    # -- the game --------------------------------------------------------------------------------------

    def _phases(self) -> tuple[str, ...]:
        if self.game == "extragradient":
            return ("look", "step")
        if self.game == "simultaneous" or (self.game == "optimistic" and self.critic_steps == 1):
            return ("step",)
        return ("critic",) * self.critic_steps + ("generator",)

    def _plays(self, network: Any) -> dict[str, tuple[nn.Module, Play]]:
        """The players by name, in the order of their moves, each with its weights and its mean loss on a batch."""
        return {"critic": (network.critic, self._critic_loss), "generator": (network.generator, self._generator_loss)}

    def _learner(self, network: Any, session: Session, look: Batch) -> GradientLearner:
        trainer = session.trainer
        self._pair = loss_of(self.loss)
        self._regularizer = regularizer_of(self.penalty, self.penalty_weight, self.usual_weights)
        part = couples_rows(network.critic)
        check_critic(part, self._regularizer)
        self._separately = part is not None or self._regularizer.at_real or self._regularizer.at_fake
        refuse_probabilities(network.critic, self._pair)
        warn_of_probabilities(network, look.X, look.y, self._pair, type(self).__name__)
        players = {name: self._player(name, *play, network, trainer) for name, play in self._plays(network).items()}
        everyone = tuple(players)
        turns = {"look": Turn(everyone, "look"), "step": Turn(everyone)}
        codes = self._codes(len(look.X), look.X, generator(session.seed, "watch"))
        gap = "wasserstein" if self._pair.name == "wasserstein" else "critic_gap"
        total = trainer.steps or (trainer.epochs or 0) * math.ceil(len(look.X) / (trainer.batch_size or 1))
        self._watch = diagnostics.Watch(network, look.X, look.y, codes, gap, total or self.default_steps)
        return GradientLearner(
            players,
            trainer,
            phases=self._phases(),
            turns=turns,
            world=session.world,
            capturable=self.capturable,
            watch=self._watch,
        )

    def _player(self, name: str, module: nn.Module, play: Play, network: Any, trainer: Trainer) -> Player:
        rate = {"critic": self.critic_lr, "generator": self.generator_lr}.get(name)
        player = Player(
            module,
            lambda batch: play(network, batch) * len(batch.X),
            trainer,
            lr=rate,
            averaged=name != "critic",
            wrap=self._wrap,
            after=(lambda: self._clip(player)) if name == "critic" and self._regularizer.bound is not None else None,
        )
        return player

    def _wrap(self, optimizer: Optimizer) -> Optimizer:
        return game_optimizer(self.game, optimizer)

    def _clip(self, player: Player) -> None:
        bound = self._regularizer.bound
        if bound is not None:
            ahead = player.optimizer.origins if isinstance(player.optimizer, PastExtragradient) else []
            clip_weights([*(p.detach() for p in player.parameters), *ahead], bound)

    def _critic_loss(self, network: Any, batch: Batch) -> Tensor:
        """The mean loss of the critic on a batch of real rows and as many generated ones."""
        real, c = batch.X, batch.y
        with torch.no_grad():
            fake = network.make(self._codes(len(real), real), c)
        regularizer: Regularizer = self._regularizer
        if regularizer.at_real:
            real = real.detach().requires_grad_()
        if regularizer.at_fake:
            fake = fake.detach().requires_grad_()
        real_scores, fake_scores = self._judge_both(network, real, fake, c)
        loss: Tensor = self._pair.critic(real_scores, fake_scores)
        if regularizer.terms:
            judge = partial(network.judge, conditions=c)
            loss = loss + regularizer(Contestants(judge, real, fake, real_scores, fake_scores))
        return loss + self._critic_terms(network, batch, fake, real_scores, fake_scores)

    def _judge_both(self, network: Any, real: Tensor, fake: Tensor, c: Tensor | None) -> tuple[Tensor, Tensor]:
        """Outputs on both sides, in one call where rows do not see each other."""
        if self._separately:
            return network.judge(real, c), network.judge(fake, c)
        both = network.judge(torch.cat([real, fake]), None if c is None else torch.cat([c, c]))
        return both[: len(real)], both[len(real) :]

    def _generator_loss(self, network: Any, batch: Batch) -> Tensor:
        """The mean loss of the generator; batch: the rows it is compared with."""
        codes = self._codes(len(batch.X), batch.X)
        fake = network.make(codes, batch.y)
        scores = network.judge(fake, batch.y)
        pair: LossPair = self._pair
        real_scores = scores
        if pair.paired:
            with torch.no_grad():
                real_scores = network.judge(batch.X, batch.y)
        return pair.generator(real_scores, scores) + self._generator_terms(network, batch, codes, fake)

    def _critic_terms(
        self, network: Any, batch: Batch, fake: Tensor, real_scores: Tensor, fake_scores: Tensor
    ) -> Tensor | float:
        """What is added to the critic's mean loss."""
        return 0.0

    def _generator_terms(self, network: Any, batch: Batch, codes: Tensor, fake: Tensor) -> Tensor | float:
        """What is added to the generator's mean loss."""
        return 0.0

    # -- the networks ----------------------------------------------------------------------------------

    def _code_size(self) -> int:
        """Numbers in a code."""
        return self.latent_dim

    def _codes(self, n: int, like: Tensor, noise: torch.Generator | None = None) -> Tensor:
        """Codes (n, k) in the type and place of ``like``, from the stream of this thread or from ``noise``."""
        shape = (n, self._code_size())
        if noise is not None:
            codes = draw_normal(shape, like, noise)
        else:
            codes = torch.randn(shape, **alike(like))
        if self.latent_components == 1:
            return codes
        place = torch.device("cpu") if noise is not None else like.device
        chosen = torch.randint(self.latent_components, (n,), generator=noise or stream(place), device=place).to(
            like.device
        )
        return self._code_places(like)[chosen] + CODE_SPREAD * codes

    def _code_places(self, like: Tensor) -> Tensor:
        """The centers of the codes in the type and place of ``like``, kept there while training."""
        held = self.__dict__.get("_places")
        if held is None or held.dtype != like.dtype or held.device != like.device:
            held = torch.as_tensor(self.code_centers_).to(like.device, like.dtype)
            if "_pair" in self.__dict__:
                self._places = held
        return held

    def _build_generator(self) -> nn.Module:
        raise NotImplementedError

    def _build_critic(self) -> nn.Module:
        raise NotImplementedError

    def _build_network(self, name: str) -> nn.Module:
        return AdversarialNetwork(self._build_generator(), self._build_critic())

    def _begin_network(self, network: nn.Module) -> None:
        """Let untrained rows have the mean and spread of the data."""
        like = next(network.parameters())
        if self._code_size() and isinstance(network, AdversarialNetwork) and self._starts_like_data():
            spread_like_data(network.generator, self._codes(512, like, generator(0, "begin")))

    def _starts_like_data(self) -> bool:
        """Whether the last layer of the generator is scaled before training; not where its outputs are bounded."""
        return False

    def _inward(self, X: Tensor) -> Tensor:
        """Rows in data units in those of the networks."""
        rows: Tensor = self.scales_.transform(X)
        return rows

    def _outward(self, rows: Tensor) -> Tensor:
        """Rows of the networks in data units."""
        X: Tensor = self.scales_.inverse(rows)
        return X

    def _smooth_units(self, rows: Tensor) -> Tensor:
        """Rows of the networks in the units in which their law is smoothed."""
        return rows

    # -- after training ----------------------------------------------------------------------------------

    @torch.no_grad()
    def _look_back(self, look: Batch, kept: Batch, held: bool) -> None:
        """Choose the bandwidth, and say what the generator does wrong."""
        watch, network = self._watch, self.network_
        for name in ("_watch", "_pair", "_regularizer", "_separately", "_places"):
            self.__dict__.pop(name, None)
        looks = watch.looks()
        codes = self._codes(len(kept.X), look.X, generator(0, "look back"))
        fake = drawn_rows(network, codes, kept.y)
        looks["nearness"] = diagnostics.nearness(fake, look.X, kept.X if held else None)
        codes = self._codes(len(look.X), look.X, generator(0, "parzen"))
        rows = torch.cat([drawn_rows(network, codes, look.y), fake])
        self.bandwidth_ = best_bandwidth(*(self._smooth_units(part).double() for part in (rows, kept.X[:256])))
        self.diagnostics_ = looks
        self.clusters_ = len(watch.clusters.centers)
        diagnostics.complain(type(self).__name__, looks, self.clusters_)

    def _facts(self) -> dict[str, Any]:
        found = self.diagnostics_
        names = {"wasserstein": "critic's Wasserstein", "critic_gap": "critic's gap"}
        gap = {names[key]: value for key, value in found.items() if key in names}
        last: dict[str, Any] = {}
        for entry in self.history_:
            last |= entry
        slopes = {f"{key.removesuffix('_gradient')} gradient": last[key] for key in last if key.endswith("_gradient")}
        return {
            "weights": sum(p.numel() for p in self.network_.parameters()),
            "epochs": self.n_iter_,
            **gap,
            **slopes,
            "clusters covered": f"{round(found['coverage'] * self.clusters_)} of {self.clusters_}",
            "spread of rows": f"{found['spread']:.3g} of the data's",
            "distance to data": f"{found['nearness']:.3g} of that of unseen rows",
            "bandwidth": self.bandwidth_,
        }

    def plot(self) -> Any:
        """The losses of the players, and beside them samples, as a matplotlib figure."""
        return game_picture(self)

    # -- rows and codes ----------------------------------------------------------------------------------

    @torch.no_grad()
    def sample(self, n: int = 1, *, given: Any = None, seed: Any = None) -> Any:
        """``n`` new examples; given: rows with NaN (one or ``n``) whose gaps are drawn given the rest."""
        self._check_draws(n)
        noise = generator(self._sampling_seed(seed), "sample")
        if given is not None:
            return self._draw_gaps(given, n, noise)
        return self._data_out(self._outward(self._make(n, noise)))

    def _make(self, n: int, noise: torch.Generator) -> Tensor:
        """New rows in the units of the networks, on their device."""
        wide = self._fit_origin.dtype == "float64"
        network = in_type(self.network_, torch.float64 if wide else torch.float32)
        like = torch.empty(0, dtype=torch.float64 if wide else torch.float32)
        codes = self._codes(n, like, noise).to(device_of(network))
        return in_blocks(network.make, codes, _WORK)

    def _encode(self, X: Tensor) -> Tensor:
        network, rows = self._at_work(X)
        candidates = self._codes(_CANDIDATES, rows, generator(0, "candidates"))
        return invert(network.make, rows, candidates, title=f"{type(self).__name__}: looking for codes")

    @torch.no_grad()
    def _decode(self, Z: Tensor) -> Tensor:
        return self._evaluate(lambda network, codes: self._outward(network.make(codes)), Z)

    def _at_work(self, X: Tensor) -> tuple[Any, Tensor]:
        """The network and rows in its units, in a type of at least 32 bits."""
        dtype = X.dtype if X.dtype in (torch.float32, torch.float64) else torch.float32
        network = in_type(self.network_, dtype)
        return network, self._inward(X.detach().to(device_of(network), dtype))

    # -- likelihood and what follows from it -----------------------------------------------------------------

    @torch.no_grad()
    def _parzen(self, network: Any, like: Tensor) -> Parzen:
        """The smoothed law of the generator, always of the same draws."""
        codes = self._codes(_POINTS, like[:0].cpu(), generator(0, "parzen")).to(like.device)
        return Parzen(network.make(codes), self.bandwidth_)

    @torch.no_grad()
    def _likelihood(self, X: Tensor, method: str | None) -> Likelihood:
        kind, temperatures = self._parse(method)
        network, rows = self._at_work(X)
        if kind == "kde":
            value, stderr = self._parzen(network, rows).log_prob(rows)
        else:
            size = self._code_size()
            value, stderr = annealed_likelihood(network.make, rows, size, self.bandwidth_, temperatures)
        bound = "estimate" if kind == "kde" else "lower"
        return Likelihood(value + self._log_jacobian(), stderr, kind, bound, "density")

    def _log_jacobian(self) -> float:
        return self.scales_.log_jacobian()

    def _parse(self, method: str | None) -> tuple[str, int]:
        """``kde``, or ``ais`` with its number of temperatures."""
        if method in (None, "kde"):
            return "kde", 0
        match = re.fullmatch(r"ais(?:\((\d+)\))?", str(method))
        if match is None or match[1] == "0":
            raise self._fail("likelihood", f"method {method!r} is unknown; use 'kde', 'ais' or 'ais(temperatures)'")
        return "ais", int(match[1] or 200)

    @torch.no_grad()
    def _fill(self, X: Tensor, noise: torch.Generator) -> Filled:
        """A draw and the mean of the gaps of rows in data units."""
        network, rows = self._at_work(X)
        found = self._parzen(network, rows).fill(rows, noise)
        return Filled(*(self._outward(part) for part in found))

    def _impute(self, X: Tensor) -> Tensor:
        return self._fill(X, generator(0, "impute")).mean  # the same gaps, the same answer


def code_centers(count: int, size: int, seed: int) -> np.ndarray:
    """Centers (count, size) of codes, so spread that all codes together have unit variance.

    >>> code_centers(3, 2, 0).shape
    (3, 2)
    """
    drawn = np_generator(seed, "code centers").normal(size=(count, size))
    return drawn * math.sqrt(1.0 - CODE_SPREAD**2)


def _on(batch: Batch, device: torch.device) -> Batch:
    return batch.map(lambda t: t.to(device))
