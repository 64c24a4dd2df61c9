"""What adversarial models of pictures share: convolutional networks, pixels between -1 and 1, norms by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benthic.base.errors import InvalidInput, nearest
from benthic.base.seeds import generator
from benthic.data.batch import Batch
from benthic.data.standardize import Standardizer
from benthic.generative.gan.dense import DenseAdversarialEstimator
from benthic.generative.gan.penalties import regularizer_of
from benthic.nets.batchnorms import Referenced
from benthic.nets.critic import ConvCritic, DenseCritic, check_critic
from benthic.nets.generator import GENERATOR_NORMS, ConvGenerator, check_channels, check_upsampling, gan_channels
from benthic.training.distributed import World
from benthic.training.estimator import Session
from benthic.training.gradient import GradientLearner
from benthic.training.intake import Intake

_LEAST = 4  # pixels of the shorter side, from which on convolutions are of use
_REFERENCE = 64  # rows of a reference batch


class PictureAdversarialEstimator(DenseAdversarialEstimator):
    """Base of adversarial models with convolutions for pictures and fully connected layers for tables."""

    channels: Any = None
    norm: str = "batch"
    critic_norm: str = "auto"
    upsampling: str = "transposed"
    residual: bool = False
    minibatch: str | None = None
    dense: int = 0  # units of a fully connected layer beside the codes and before the score

    # -- settings --------------------------------------------------------------------------------------

    @property
    def default_lr(self) -> float:
        """The rate of Adam where the trainer names none."""
        return 3e-4 if self._pictured else 1e-3

    @property
    def spectral(self) -> bool:
        """Whether the critic's layers have norm one."""
        return self._critic_norm() == "spectral"

    @property
    def _pictured(self) -> bool:
        """Whether the networks are convolutional."""
        event = getattr(self, "_event_shape", None)
        return isinstance(self.network, str) and self.network != "mlp" and len(event or ()) == 3 and _large(event)

    @property
    def _event(self) -> tuple[int, int, int]:
        channels, height, width = self._event_shape
        return channels, height, width

    def _channels(self) -> tuple[int, ...]:
        chosen = gan_channels(*self._event[1:]) if self.channels is None else self.channels
        return check_channels(chosen, self._event[1:])

    def _critic_norm(self) -> str:
        """The norm that is named, or the one that suits loss and penalty."""
        if self.critic_norm != "auto":
            return self.critic_norm
        if regularizer_of(self.penalty, self.penalty_weight).by_row:
            return "none"
        return "spectral" if self.loss == "hinge" or self.residual else "batch"

    def _check_settings(self) -> None:
        super()._check_settings()
        check_upsampling(self.upsampling)
        check_critic(self._critic_norm(), self.minibatch)
        if self.norm not in GENERATOR_NORMS:
            raise InvalidInput(
                f"norm {self.norm!r} is unknown{nearest(str(self.norm), GENERATOR_NORMS)}; "
                f"use one of {', '.join(GENERATOR_NORMS)}"
            )
        if self._pictured:
            self._channels()

    # -- units -------------------------------------------------------------------------------------------

    def _scales(self, intake: Intake) -> Standardizer:
        """Pixels from the range of the data to [-1, 1], all alike; tables as usual."""
        seen = super()._scales(intake)
        if not self._pictured:
            return seen
        if seen.spread is None or not seen.spread.any():
            raise InvalidInput(
                f"all {intake.rows} pictures are the same one; a generator learns how pictures differ, and these do not"
            )
        return between(*value_range(intake), seen)

    def _starts_like_data(self) -> bool:
        return super()._starts_like_data() and not self._pictured

    # -- networks ----------------------------------------------------------------------------------------

    def _conv_generator(self, inputs: int, **more: Any) -> nn.Module:
        """A convolutional generator whose pictures are flattened."""
        rows = _REFERENCE if self.norm in ("virtual", "reference") else 0
        body = ConvGenerator(
            inputs,
            self._event,
            self._channels(),
            norm=self.norm,
            upsampling=self.upsampling,
            residual=self.residual,
            dense=self.dense,
            rows=rows,
            **more,
        )
        return Flat(Referenced(body, (rows, inputs)) if rows else body)

    def _conv_critic(self) -> ConvCritic:
        norm = self._critic_norm()
        rows = _REFERENCE if norm in ("virtual", "reference") else 0
        return ConvCritic(
            self._event,
            self._channels(),
            norm=norm,
            minibatch=self.minibatch,
            residual=self.residual,
            dense=self.dense,
            rows=rows,
        )

    def _body(self) -> ConvCritic | DenseCritic:
        """A critic whose features other heads can share."""
        if self._pictured:
            return self._conv_critic()
        return DenseCritic([self._width, *reversed(self._hidden)], spectral=self.spectral)

    def _build_generator(self) -> nn.Module:
        return self._conv_generator(self._code_size()) if self._pictured else super()._build_generator()

    def _build_critic(self) -> nn.Module:
        if not self._pictured:
            return super()._build_critic()
        critic = self._conv_critic()
        if critic.norm in ("virtual", "reference"):
            return Referenced(critic, (_REFERENCE, *self._event))
        return critic

    def _learner(self, network: Any, session: Session, look: Batch) -> GradientLearner:
        if isinstance(network.critic, Referenced):
            network.critic.remember(look.X[:_REFERENCE])
        inner = getattr(network.generator, "body", None)
        if isinstance(inner, Referenced):
            inner.remember(self._codes(_REFERENCE, look.X, generator(session.seed, "reference")))
        return super()._learner(network, session, look)

    def _look_back(self, look: Batch, kept: Batch, held: bool) -> None:
        self.network_.eval()  # the whole of it, so that nothing sets its parts back to training
        super()._look_back(look, kept, held)

    def _facts(self) -> dict[str, Any]:
        found = super()._facts()
        if not self._pictured:
            return found
        cropped = next((m.cropped for m in self.network_.modules() if isinstance(m, ConvGenerator)), "")
        notes = {"channels": "-".join(map(str, self._channels())), "critic's norm": self._critic_norm()}
        return {**found, **notes, **({"pictures": cropped} if cropped else {})}


class Flat(nn.Module):
    """A generator of pictures as one of rows: (n, c * h * w)."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, codes: Tensor, *conditions: Tensor) -> Tensor:
        """Rows from codes (n, k) and conditions, if there are any."""
        rows: Tensor = self.body(codes, *conditions).flatten(1)
        return rows


def _large(event: Sequence[int] | None) -> bool:
    return event is not None and min(event[1:]) >= _LEAST


def value_range(intake: Intake, column: str = "X") -> tuple[float, float]:
    """The least and largest value of the rows, or of the targets with ``column="y"``, by a pass over the data."""
    low, high = np.inf, -np.inf
    device = torch.device("cpu") if intake.data is None else intake.data.X.device
    for part in intake.feed(batch_size=65536, seed=0, device=device, world=World()).open(0):
        values = part.batch.X if column == "X" else part.batch.y
        if values is not None:
            ends = [float(end) for end in values.aminmax()]
            low, high = min(low, ends[0]), max(high, ends[1])
    return low, high


def between(low: float, high: float, seen: Standardizer) -> Standardizer:
    """The map from [low, high] to [-1, 1] for as many columns as have been seen.

    >>> seen = Standardizer().fit(np.array([[0.0, 2.0], [4.0, 2.0]]))
    >>> between(0.0, 4.0, seen).transform(np.array([[0.0, 3.0]])).tolist()
    [[-1.0, 0.5]]
    """
    made = Standardizer()
    width = seen.width
    made.mean, made.spread = np.full(width, 0.5 * (low + high)), np.full(width, 0.5 * (high - low))
    made.weight = seen.weight
    return made
