"""What every diffusion model does: learn to tell data from noise, and use it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from torch import Tensor, nn

from benthic.base.errors import InvalidInput
from benthic.base.seeds import generator, streams
from benthic.base.settings import is_number, is_whole
from benthic.base.validation import speaking
from benthic.data.batch import Batch
from benthic.data.standardize import Standardizer
from benthic.generative.diffusion.conditions import (
    ConditionKind,
    flat_targets,
    kind_of,
    scale_numbers,
)
from benthic.generative.diffusion.grids import levels_between
from benthic.generative.diffusion.networks import NetworkPlan
from benthic.generative.diffusion.objectives import DenoisingObjective
from benthic.generative.diffusion.process import Process, process_of
from benthic.generative.diffusion.processes import AddedNoise
from benthic.generative.diffusion.sampling import refuse_noise
from benthic.generative.diffusion.solvers import sampler_of
from benthic.generative.diffusion.solvers.onestep import Ancestral
from benthic.generative.diffusion.times import TimeLaw, time_law
from benthic.generative.diffusion.verbs import DiffusionVerbs
from benthic.nets.evaluate import device_of
from benthic.nets.unet import UNet, channels_last
from benthic.training.distributed import World
from benthic.training.estimator import Session
from benthic.training.intake import Intake
from benthic.training.network import NetworkEstimator, scales_of, training_dtype, with_budget
from benthic.training.trainer import Trainer

_AVERAGED = 0.05  # share of a run over which weights are averaged, where the trainer does not say
_CURVE_ROWS, _CURVE_LEVELS = 32, 12
_PICTURE_BATCH = 32  # pictures of one update, and how many updates there are, where the trainer does not say
_PICTURE_STEPS, _PICTURE_EPOCHS = 1300, 20  # whichever is more
_TABLE_BATCH, _CHARGES = 256, 2048  # most rows of an update, and where all are charges and 256 of them points
_TABLE_STEPS, _LONG_TABLE, _LONG_TABLE_STEPS = 4000, 4096, 6000
# The law of log σ/α in training on tables in standard units: with few columns and narrow clusters low noise decides.
# A network that answers with the noise must be right too where hardly anything but noise is left.
_TABLE_TIMES = TimeLaw("log_normal", mean=-1.4, spread=1.5)
_WIDE_TABLE_TIMES = TimeLaw("log_normal", mean=-1.0, spread=2.0)
_FIELD_TIMES = TimeLaw("log_normal", mean=-2.4, spread=1.5)  # lines of a field bend down to where the data are


@dataclass(frozen=True)
class Preset:
    """What a family member does where its arguments are None."""

    process: Any
    target: str
    weighting: str
    sampler: Any
    steps: int
    times: TimeLaw | None = None


class DiffusionEstimator(DiffusionVerbs, NetworkEstimator):
    """Base of the family; a member is a ``Preset`` and a docstring.

    process: how data become noise: a name (``vp``, ``cosine``, ``subvp``, ``ve``, ``edm``, ``straight``, ``ddpm``,
    ``ddpm_cosine``, ``poisson``, ``pfgm``) or a ``Process``. target: what the network answers: ``noise``, ``data``,
    ``velocity``, ``score``, ``flow`` or ``edm``. weighting: ``simple``, ``noise``, ``variational``, ``min_snr`` or
    ``edm``. times: a ``TimeLaw`` of training, or the name of its law; by default the noise is log-normal on tables, and
    on pictures where it is only added; else, and where the loss is a bound, times are uniform. matching: ``denoising``,
    toward the data behind each noisy point (of pictures); ``stable``, toward what the whole batch expects there (of
    tables; Xu et al., 2023); or score matching that is ``sliced`` or ``exact``. learned_variance: of the steps of a
    chain, by the hybrid loss of Nichol & Dhariwal, 2021; the sampler is then ``Ancestral(variance="learned")``, unless
    another is named. sampler, steps: of ``sample``, unless said there. What is None is as the member has it.
    network: ``auto`` (a U-Net for pictures, else fully connected), ``mlp``, ``unet``, or a module that takes
    (x, level), and the condition if there is one. hidden, depth: of dense layers. unet: changes of ``default_unet``,
    such as ``{"channels": 64}``. dropout: share of units dropped in training.
    condition: what ``y`` of ``fit`` is: ``labels``, ``vectors``, ``images``, ``none`` (ignored) or ``auto``: numbers
    with fractions or columns are vectors, four dimensions pictures, everything else labels. condition_dropout: share
    of rows that learn without their condition, which guidance and everything without ``given`` need.
    clip: keep the expected data of pictures within the range of those seen, while sampling.
    trainer: a ``Trainer`` or dict; its ``precision`` and ``compile`` also hold for sampling. Weights are averaged over
    the last twentieth of a run unless ``ema`` is given.
    """

    accepts_images = True
    capturable: ClassVar[bool] = True
    defaults = {"lr": 2e-3, "optimizer": "adam", "schedule": {"name": "cosine", "warmup": 0.05}}
    preset: ClassVar[Preset] = Preset("ddpm", "noise", "simple", "ancestral", 100)

    network_: nn.Module
    scales_: Standardizer
    process_: Process
    condition_kind_: ConditionKind

    def __init__(
        self,
        *,
        process: Any = None,
        target: str | None = None,
        weighting: str | None = None,
        times: Any = None,
        matching: str | None = None,
        learned_variance: bool = False,
        sampler: Any = None,
        steps: int | None = None,
        network: Any = "auto",
        hidden: int = 128,
        depth: int = 3,
        unet: Mapping[str, Any] | None = None,
        dropout: float = 0.0,
        condition: str = "auto",
        condition_dropout: float = 0.1,
        clip: bool = True,
        trainer: Any = None,
        random_state: Any = None,
    ) -> None:
        self.process = process
        self.target = target
        self.weighting = weighting
        self.times = times
        self.matching = matching
        self.learned_variance = learned_variance
        self.sampler = sampler
        self.steps = steps
        self.network = network
        self.hidden = hidden
        self.depth = depth
        self.unet = unet
        self.dropout = dropout
        self.condition = condition
        self.condition_dropout = condition_dropout
        self.clip = clip
        self.trainer = trainer
        self.random_state = random_state

    # -- learning --------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows or pictures ``X`` (array, frame, path or source); ``y``: labels or vectors to be given."""
        with self._session(X) as session:
            with speaking(self, "fit"):
                shape = tuple(getattr(X, "shape", ()))
                kind = kind_of(self.condition, y, shape[1:] if len(shape) == 4 else None)
            intake = Intake(self, X, flat_targets(y, kind), target=kind.target)
            with speaking(self, "fit"):
                self._enter(intake, kind)
            self._optimize(intake, session)
        return self

    def _enter(self, intake: Intake, kind: ConditionKind) -> None:
        """Look at the data: their scales, their range, what is given with them."""
        self.process_ = process_of(self._setting("process"))
        self._width = self._n_features_out = intake.width
        self.__dict__.pop("classes_", None)
        self.__dict__.pop("condition_scales_", None)
        if kind.kind == "labels" and intake.classes is not None:
            self.classes_ = intake.classes
            kind = replace(kind, shape=(len(intake.classes),))
        elif kind.kind in ("vectors", "images"):
            self.condition_scales_ = scales_of(intake, "y")
            kind = kind if kind.shape else replace(kind, shape=(self.condition_scales_.width,))
        self.condition_kind_ = kind
        seen = scales_of(intake)
        self.scales_ = self._scales(seen)
        self._range = self._look_at_range(intake) if self._is_picture else None
        self._check_settings()

    def _check_settings(self) -> None:
        if not is_whole(self.hidden, 1) or not is_whole(self.depth, 1):
            raise InvalidInput(
                f"hidden is {self.hidden!r} and depth {self.depth!r}; both must be whole numbers of at least 1"
            )
        for name in ("dropout", "condition_dropout"):
            share = getattr(self, name)
            if not is_number(share) or not 0 <= share < 1:
                raise InvalidInput(f"{name} is {share!r}; a share must lie in [0, 1)")
        self._check_sampler()
        self._objective()
        self._plan().check()

    def _setting(self, name: str) -> Any:
        """An argument, or where it is None what the member of the family has."""
        value = getattr(self, name)
        if name == "sampler" and value is None and self.learned_variance:
            return Ancestral(variance="learned")
        if name == "steps" and value is None:
            return min(self.preset.steps, self._levels())
        return getattr(self.preset, name) if value is None else value

    def _levels(self) -> int:
        """How many noise levels the process has: the steps of a chain, else any number."""
        process = process_of(self._setting("process"))
        return levels_between(process, process.t_max)

    def _check_sampler(self) -> None:
        """Refuse what ``sample`` would refuse after the training."""
        levels, steps, sampler = self._levels(), self._setting("steps"), sampler_of(self._setting("sampler"))
        if levels < 2:
            raise InvalidInput(f"process is {self.process_!r}, with a single step; sampling takes at least 2")
        self._check_sampling(sampler, steps)
        if steps > levels:
            raise InvalidInput(f"steps is {steps}, but the chain has no more than {levels}; take at most so many")
        if isinstance(sampler, Ancestral) and sampler.variance == "learned" and not self.learned_variance:
            raise InvalidInput("sampler takes a learned variance, which is not learned; use learned_variance=True")
        refuse_noise(self.process_, sampler)

    @property
    def _is_picture(self) -> bool:
        return len(self._event) == 3

    def _scales(self, seen: Standardizer) -> Standardizer:
        """Columns in standard units; of pictures, every channel as a whole."""
        if not self._is_picture or seen.mean is None or seen.spread is None:
            return seen
        made = Standardizer.identity(self._width)
        means = seen.mean.reshape(self._event[0], -1)
        spreads = np.sqrt(np.square(seen.spread).reshape(means.shape).mean(1) + means.var(1))
        made.mean = means.mean(1).repeat(means.shape[1])
        made.spread = spreads.repeat(means.shape[1])
        return made

    def _look_at_range(self, intake: Intake) -> tuple[float, float]:
        """The least and the greatest pixel, in the units of the network."""
        low, high = math.inf, -math.inf
        device = torch.device("cpu") if intake.data is None else intake.data.X.device
        for part in intake.feed(batch_size=4096, seed=0, device=device, world=World()).open(0):
            least, most = self.scales_.transform(part.batch.X).aminmax()
            low, high = min(low, float(least)), max(high, float(most))
        return (low, high) if low < high else (low - 1.0, high + 1.0)

    def _objective(self) -> DenoisingObjective:
        """What the network is trained on."""
        kind = self.condition_kind_
        return DenoisingObjective(
            self.process_,
            self._setting("target"),
            self._setting("weighting"),
            self._times(),
            sigma_data=1.0,
            sees=self._plan().sees,
            learned_variance=self.learned_variance,
            matching=self._matching(),
            condition_kind=kind.kind,
            classes=kind.shape[0] if kind.kind == "labels" else 0,
            forgets=float(self.condition_dropout) if kind.kind != "none" else 0.0,
        )

    def _times(self) -> TimeLaw:
        found = self._setting("times")
        if found is not None:
            return time_law(found)
        added = isinstance(self.process_, AddedNoise)
        bound = self.learned_variance or self._setting("weighting") == "variational"  # a mean over uniform times
        if not self._is_picture and not bound:
            wide = {"noise": _WIDE_TABLE_TIMES, "score": _WIDE_TABLE_TIMES, "field": _FIELD_TIMES}
            return wide.get(self._setting("target"), _TABLE_TIMES)
        # the log-normal law of Karras et al., 2022, for data of standard deviation 1
        return TimeLaw("log_normal", mean=-0.5, spread=1.2) if added else TimeLaw()

    def _matching(self) -> str:
        found = self.matching
        if found is None:
            found = "denoising" if self._is_picture else "stable"
        return found

    def _optimize(self, intake: Intake, session: Session) -> None:
        dtype, objective, event = training_dtype(session), self._objective(), self._event
        kind = self.condition_kind_

        def prepare(batch: Batch) -> Batch:
            given = batch.y
            if given is not None and kind.kind != "labels":
                given = scale_numbers(given, kind, self.condition_scales_).to(dtype)
            return Batch(self.scales_.transform(batch.X).to(dtype), given, batch.weight)

        def loss(network: Callable[..., Tensor], batch: Batch) -> Tensor:
            losses = self._losses(objective, network, batch.X.reshape(-1, *event), batch.y)
            return losses.sum() if batch.weight is None else (losses * batch.weight).sum()

        session = replace(session, trainer=self._with_budget(session.trainer, intake.rows))
        self._fit_network(intake, session, loss, prepare)
        self._look_at_levels(prepare(intake.sample(_CURVE_ROWS, 0)), objective)

    def _losses(
        self, objective: DenoisingObjective, network: Callable[..., Tensor], x: Tensor, condition: Tensor | None
    ) -> Tensor:
        """The loss of each example (n,); x: (n, *event) in standard units."""
        return objective(network, x, condition)

    def _with_budget(self, trainer: Trainer, rows: int) -> Trainer:
        """The trainer with a batch size, a budget and an average that suit the data."""
        size, budget = trainer.batch_size, trainer.limited
        usual = _TABLE_STEPS if rows < _LONG_TABLE else _LONG_TABLE_STEPS
        if self._plan().kind == "unet":
            trainer = replace(trainer, batch_size=size or (_PICTURE_BATCH if rows < 8192 else 128))
            per_epoch = math.ceil(rows / cast(int, trainer.batch_size))
            usual = max(_PICTURE_STEPS, _PICTURE_EPOCHS * per_epoch)
            if not budget:
                trainer = replace(trainer, steps=usual)
        elif size is None:
            most = _CHARGES if self._setting("target") == "field" else _TABLE_BATCH
            trainer = replace(trainer, batch_size=min(max(32, 1 << (rows // 16).bit_length()), most))
            if not budget:
                trainer = replace(trainer, steps=usual)
        trainer = with_budget(trainer, rows)
        if trainer.ema is None:
            per_epoch = math.ceil(rows / cast(int, trainer.batch_size))
            total = trainer.steps or (trainer.epochs or 0) * per_epoch or self._likely_steps(trainer, usual)
            decay = 1 - 1 / max(_AVERAGED * total, 1.0)
            trainer = replace(trainer, ema=min(decay, 0.9999) if decay > 0 else None)
        return trainer

    def _likely_steps(self, trainer: Trainer, usual: int) -> int:
        """Updates that a budget of time may hold at least; short averages do no harm, long ones keep the beginning."""
        pace = 5 if self._plan().kind == "unet" else 200  # updates a second, of a slow machine
        return usual if trainer.seconds is None else max(1, min(usual, round(pace * trainer.seconds)))

    @torch.no_grad()
    def _look_at_levels(self, batch: Batch, objective: DenoisingObjective) -> None:
        """The loss at several noise levels, which ``plot`` shows."""
        network = self.network_
        device = device_of(network)
        x = batch.X.to(device).reshape(-1, *self._event)
        shares = (torch.arange(_CURVE_LEVELS, device=device) + 0.5) / _CURVE_LEVELS
        times = objective.times.place(self.process_, shares.to(x.dtype))
        with streams(0, device):
            noise = self.process_.draw_noise((_CURVE_LEVELS * len(x), *self._event), x)
        t = times.repeat_interleave(len(x))
        given = None if batch.y is None else batch.y.to(device).repeat(_CURVE_LEVELS, *[1] * (batch.y.ndim - 1))
        plain = replace(objective, matching="denoising")
        losses = plain.at(network, x.repeat(_CURVE_LEVELS, *[1] * (x.ndim - 1)), t, noise, given)
        self.level_losses_ = losses.reshape(_CURVE_LEVELS, -1).mean(1).double().cpu().numpy()
        self.levels_ = self.process_.noise_level(times).exp().double().cpu().numpy()

    # -- the network -----------------------------------------------------------------------------------

    def _plan(self) -> NetworkPlan:
        kind = self.condition_kind_
        return NetworkPlan(
            self.network,
            self._event,
            self.process_,
            hidden=self.hidden,
            depth=self.depth,
            dropout=self.dropout,
            options=self.unet,
            condition=kind.kind,
            condition_shape=kind.shape,
            answers="variance" if self.learned_variance else "field" if self._setting("target") == "field" else "plain",
        )

    def _build_network(self, name: str) -> nn.Module:
        return self._plan().build()

    def _begin_network(self, network: nn.Module) -> None:
        if device_of(network).type == "cuda" and any(isinstance(part, UNet) for part in network.modules()):
            channels_last(network)

    def _facts(self) -> dict[str, Any]:
        kind = self.condition_kind_
        given = {} if kind.kind == "none" else {"given": f"{kind.kind} {'x'.join(map(str, kind.shape))}"}
        how = {
            "process": repr(self.process_),
            "target": self._setting("target"),
            "weighting": self._setting("weighting"),
        }
        draws = {"sampler": f"{self._setting('sampler')}, {self._setting('steps')} steps"}
        return {**how, **draws, **given, **self._plan().notes(self.network_), **super()._facts()}

    def _noise(self, seed: int) -> torch.Generator:
        """Where the draws of a call come from: the CPU, so that devices agree, but for pictures the device itself."""
        device = device_of(self.network_)
        return generator(seed, "sample", device=device if self._is_picture else "cpu")
