"""Translation of pictures to pictures, learned from pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benthic.base.arrays import is_tensor
from benthic.base.capabilities import Predicts, to_numpy
from benthic.base.errors import InvalidInput
from benthic.base.settings import sizes, whole
from benthic.base.validation import speaking
from benthic.data.batch import Batch
from benthic.data.standardize import Standardizer
from benthic.generative.gan.images import Flat, between, value_range
from benthic.generative.gan.losses import loss_of
from benthic.generative.gan.networks import AdversarialNetwork, couples_rows, mlp_generator
from benthic.generative.gan.penalties import Contestants, check_critic, regularizer_of
from benthic.generative.latent_pictures import tiled
from benthic.nets.activations import activation
from benthic.nets.critic import DenseCritic
from benthic.nets.generator import check_upsampling
from benthic.nets.patches import PatchCritic, SkipNet, translator_channels
from benthic.pictures.canvas import new_figure
from benthic.training.estimator import Session
from benthic.training.gradient import GradientLearner, Player
from benthic.training.intake import Intake
from benthic.training.network import NetworkEstimator, scales_of, training_dtype

_STEPS, _BATCH = 6000, 64
_HORIZON = 0.05  # share of the run that the generator's average goes back
_LEAST = 4  # pixels of the shorter side that convolutions need
NORMS = ("batch", "instance", "group", "none")


class ImageTranslation(Predicts, NetworkEstimator):
    r"""Pictures from pictures, learned from pairs (X, Y): a U-Net, and a critic that judges patches of both together.

    .. math:: \min_G \max_D\; V(D(x, y), D(x, G(x))) + \lambda\, E\, |y - G(x)|

    Isola et al., 2017. X: (n, c, h, w), Y: (n, c', h, w), as many and as large. ``predict(X)`` gives pictures like Y.
    The L1 term fixes what is where, the critic makes it look real. Values are mapped from their range to [-1, 1] and
    back. Sides that cannot be halved often enough are padded inside, and cropped again. Tables (n, d) with targets
    (n,) or (n, k) get fully connected networks and a critic of whole rows.

    channels: of the U-Net, from the picture inward, one for each halving; by default 64, doubled down to 2 pixels.
    critic_channels: of the patch critic, one for each halving; by default (64,) up to 16 pixels, (64, 128) up to 32
    and (64, 128, 256) beyond, whose scores see 16, 34 and 70 pixels. norm, critic_norm: ``batch``, ``instance``,
    ``group`` or ``none``, the latter also ``spectral``; none at the networks' ends. upsampling: ``transposed`` or
    ``resize``. dropout: in the inner doublings, while training. l1_weight: :math:`\lambda`. loss, penalty,
    penalty_weight, critic_steps, generator_lr, critic_lr: as in ``GAN``. hidden_layer_sizes, activation: of fully
    connected networks.

    >>> X = np.random.default_rng(0).random((40, 1, 8, 8))
    >>> model = ImageTranslation(channels=(8,), critic_channels=(8,), trainer={"steps": 60}, random_state=0)
    >>> model.fit(X, 1.0 - X).predict(X).shape
    (40, 1, 8, 8)
    """

    accepts_images = True
    capturable = True
    defaults = {"optimizer": {"name": "adam", "betas": (0.5, 0.999)}, "schedule": "linear"}

    network_: Any
    scales_: Standardizer
    target_scales_: Standardizer

    def __init__(
        self,
        *,
        channels: Sequence[int] | None = None,
        critic_channels: Sequence[int] | None = None,
        norm: str = "batch",
        critic_norm: str = "batch",
        upsampling: str = "transposed",
        dropout: float = 0.0,
        l1_weight: float = 100.0,
        hidden_layer_sizes: Sequence[int] = (128, 128),
        activation: str = "leaky_relu",
        loss: Any = "non_saturating",
        penalty: Any = None,
        penalty_weight: float | None = None,
        critic_steps: int = 1,
        generator_lr: float | None = None,
        critic_lr: float | None = None,
        trainer: Any = None,
        random_state: Any = None,
    ) -> None:
        self.channels = channels
        self.critic_channels = critic_channels
        self.norm = norm
        self.critic_norm = critic_norm
        self.upsampling = upsampling
        self.dropout = dropout
        self.l1_weight = l1_weight
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.loss = loss
        self.penalty = penalty
        self.penalty_weight = penalty_weight
        self.critic_steps = critic_steps
        self.generator_lr = generator_lr
        self.critic_lr = critic_lr
        self.trainer = trainer
        self.random_state = random_state

    # -- learning --------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from pictures or rows ``X`` and, as many, those that they become, ``y``."""
        with self._session(X) as session:
            with speaking(self, "fit"):
                self._check_settings()
                rows, self._target_event = _flat(y)
            intake = Intake(self, X, rows, target="numbers")
            with speaking(self, "fit"):
                self._enter(intake)
                trainer = self._with_budget(session, intake.rows)
            dtype = training_dtype(session)

            def prepare(batch: Batch) -> Batch:
                targets = self.target_scales_.transform(_columns(batch.y))
                return Batch(self.scales_.transform(batch.X).to(dtype), targets.to(dtype))

            self._fit_learner(intake, replace(session, trainer=trainer), self._learner, prepare)
        return self

    def _check_settings(self) -> None:
        loss_of(self.loss)
        regularizer_of(self.penalty, self.penalty_weight)
        activation(self.activation)
        check_upsampling(self.upsampling)
        if self.norm not in NORMS:
            raise InvalidInput(f"norm is {self.norm!r}; use one of {', '.join(NORMS)}")
        if self.critic_norm not in (*NORMS, "spectral"):
            raise InvalidInput(f"critic_norm is {self.critic_norm!r}; use one of {', '.join((*NORMS, 'spectral'))}")
        if not self.l1_weight >= 0 or not 0 <= self.dropout < 1:
            raise InvalidInput(
                f"l1_weight is {self.l1_weight} and dropout {self.dropout}; they must be >= 0 and in [0, 1)"
            )
        whole("critic_steps", self.critic_steps)

    def _enter(self, intake: Intake) -> None:
        """Look at the pairs: their shapes and their ranges."""
        event, target = getattr(self, "_event_shape", None), self._target_event
        example = intake.sample(1, 0).y
        self._squeeze = example is not None and example.ndim == 1
        self._width = intake.width
        if (event is None) != (target is None):
            which = "X holds pictures, but y does not" if target is None else "y holds pictures, but X does not"
            raise InvalidInput(f"{which}; pass pairs of pictures (n, c, h, w), or of rows")
        if event is not None and target is not None and (len(event) != 3 or event[1:] != target[1:]):
            raise InvalidInput(f"X has examples of shape {event} and y of {target}; pass pictures of equal size")
        seen, told = scales_of(intake), scales_of(intake, "y")
        if not self._pictured:
            self.scales_, self.target_scales_ = seen, told
            return
        if told.spread is None or (not told.spread.any() and intake.rows > 1):
            raise InvalidInput(f"all {intake.rows} pictures of y are the same; there is nothing to translate to")
        low, high = value_range(intake)
        ends = value_range(intake, "y")
        self.scales_ = between(low, high if high > low else low + 1.0, seen)
        self.target_scales_ = between(ends[0], ends[1] if ends[1] > ends[0] else ends[0] + 1.0, told)

    @property
    def _pictured(self) -> bool:
        event = getattr(self, "_event_shape", None)
        return event is not None and len(event) == 3 and min(event[1:]) >= _LEAST

    def _with_budget(self, session: Session, rows: int) -> Any:
        trainer = session.trainer
        if trainer.early_stopping:
            raise InvalidInput(
                "early_stopping watches a loss that falls, but those of a game do not; set steps instead"
            )
        size = math.ceil(rows / math.ceil(rows / min(trainer.batch_size or _BATCH, rows)))
        steps = trainer.steps or (trainer.epochs or 0) * math.ceil(rows / size) or _STEPS
        rounds = steps / (1 + self.critic_steps)
        trainer = trainer if trainer.limited else replace(trainer, steps=steps)
        decay = trainer.ema or max(0.01, 1.0 - 1.0 / max(1.0, _HORIZON * rounds))
        return replace(trainer, batch_size=size, ema=decay, lr=trainer.lr or (3e-4 if self._pictured else 1e-3))

    # -- the game ----------------------------------------------------------------------------------------

    def _learner(self, network: Any, session: Session) -> GradientLearner:
        pair, regularizer = loss_of(self.loss), regularizer_of(self.penalty, self.penalty_weight)
        check_critic(couples_rows(network.critic), regularizer)
        if regularizer.bound is not None:
            raise InvalidInput("penalty='clip' is for WGAN; use 'gradient', 'r1' or critic_norm='spectral' here")

        def critic_loss(batch: Batch) -> Tensor:
            x, y = batch.X, _columns(batch.y)
            with torch.no_grad():
                made = network.make(x)
            real, fake = torch.cat([x, y], 1), torch.cat([x, made], 1)
            real = real.requires_grad_() if regularizer.at_real else real
            fake = fake.requires_grad_() if regularizer.at_fake else fake
            scores = network.judge(real), network.judge(fake)
            loss = pair.critic(*scores)
            if regularizer.terms:
                loss = loss + regularizer(Contestants(network.judge, real, fake, *scores))
            return loss * len(x)

        def generator_loss(batch: Batch) -> Tensor:
            x, y = batch.X, _columns(batch.y)
            made = network.make(x)
            scores = network.judge(torch.cat([x, made], 1))
            with torch.no_grad():
                real = network.judge(torch.cat([x, y], 1)) if pair.paired else scores
            return (pair.generator(real, scores) + self.l1_weight * F.l1_loss(made, y)) * len(x)

        trainer = session.trainer
        players = {
            "critic": Player(network.critic, critic_loss, trainer, lr=self.critic_lr, averaged=False),
            "generator": Player(network.generator, generator_loss, trainer, lr=self.generator_lr),
        }
        phases = ("critic",) * self.critic_steps + ("generator",)
        return GradientLearner(players, trainer, phases=phases, world=session.world, capturable=self.capturable)

    def _build_network(self, name: str) -> nn.Module:
        outputs = self.target_scales_.width
        if not self._pictured:
            hidden = sizes("hidden_layer_sizes", self.hidden_layer_sizes, empty=True)
            spectral = self.critic_norm == "spectral"
            return AdversarialNetwork(
                mlp_generator(self._width, hidden, outputs, self.activation),
                DenseCritic([self._width + outputs, *reversed(hidden)], spectral=spectral),
            )
        planes, height, width = self._event_shape
        given = self.channels
        channels = translator_channels(height, width) if given is None else sizes("channels", given)
        made = self._target_event[0]
        options: dict[str, Any] = {"norm": self.norm, "upsampling": self.upsampling, "dropout": self.dropout}
        generator = Flat(SkipNet(planes, made, (height, width), channels, **options))
        return AdversarialNetwork(
            generator, PatchCritic(planes + made, (height, width), self._patch_channels(), norm=self.critic_norm)
        )

    def _patch_channels(self) -> tuple[int, ...]:
        if self.critic_channels is not None:
            return sizes("critic_channels", self.critic_channels)
        side = min(self._event_shape[1:])
        return (64,) if side <= 16 else (64, 128) if side <= 32 else (64, 128, 256)

    # -- translating ---------------------------------------------------------------------------------------

    def _prediction(self, X: Tensor) -> Tensor:
        made = self._evaluate(lambda net, x: self.target_scales_.inverse(net.make(self.scales_.transform(x))), X)
        if self._target_event is not None:
            return made.reshape(len(made), *self._target_event)
        return made[:, 0] if self._squeeze else made

    def predict(self, X: Any) -> Any:
        """The translation of each picture or row, shaped as the targets were."""
        return super().predict(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Coefficient of determination over all pixels, those that vary counting alike."""
        if self._target_event is None:
            return super().score(X, y, sample_weight)
        truth, found = (np.asarray(to_numpy(part), dtype=np.float64) for part in (y, self.predict(X)))
        weight = np.ones(len(truth)) if sample_weight is None else np.asarray(to_numpy(sample_weight))
        weight = weight.reshape(-1, *[1] * (truth.ndim - 1))
        errors = (weight * (truth - found) ** 2).sum()
        center = (weight * truth).sum(0) / weight.sum()
        return float(1.0 - errors / (weight * (truth - center) ** 2).sum())

    def _facts(self) -> dict[str, Any]:
        last: dict[str, Any] = {}
        for entry in self.history_:
            last |= entry
        losses = {f"{name}'s loss": last[f"{name}_loss"] for name in ("critic", "generator") if f"{name}_loss" in last}
        weights = sum(p.numel() for p in self.network_.parameters())
        return {"weights": weights, "epochs": self.n_iter_, **losses}

    def plot(self, examples: Any = None, targets: Any = None) -> Any:
        """The losses of both players, and beside them pictures above their translations (and what is true)."""
        shown = examples is not None and self._pictured
        figure, axes = new_figure(9.0 if shown else 5.0, 3.4, 1, 1 + shown, squeeze=False)
        for name in ("critic", "generator"):
            points = [(entry["step"], entry[f"{name}_loss"]) for entry in self.history_ if f"{name}_loss" in entry]
            if points:
                axes[0, 0].plot(*zip(*points, strict=True), linewidth=1.0, label=name)
        axes[0, 0].set(xlabel="update", ylabel="mean loss", title=type(self).__name__)
        axes[0, 0].legend(frameon=False)
        if shown:
            self._draw_pairs(axes[0, 1], examples[:8], None if targets is None else targets[:8])
        return figure

    def _draw_pairs(self, axes: Any, X: Any, targets: Any) -> None:
        parts = [X, self.predict(X), *([] if targets is None else [targets])]
        lines = [np.asarray(to_numpy(part), dtype=np.float64)[:, 0] for part in parts]
        lines = [(line - line.min()) / max(float(np.ptp(line)), 1e-12) for line in lines]
        axes.imshow(tiled(np.concatenate(lines), len(X)), cmap="gray_r")
        axes.set_axis_off()
        axes.set_title("given, translated" + ("" if targets is None else ", true"))


def _flat(y: Any) -> tuple[Any, tuple[int, ...] | None]:
    """Targets as rows, and the shape of one where they are pictures."""
    shape = tuple(getattr(y, "shape", ()))
    if len(shape) <= 2:
        return y, None
    if not is_tensor(y):
        y = np.asarray(y)
    return y.reshape(shape[0], -1), shape[1:]


def _columns(y: Tensor | None) -> Tensor:
    if y is None:
        raise InvalidInput("requires y to be passed, but the target y is None")
    return y[:, None] if y.ndim == 1 else y
