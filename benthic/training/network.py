"""Estimators whose fitted part is one network."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from benthic.base.compiling import compiled
from benthic.base.seeds import supplied
from benthic.base.validation import speaking
from benthic.data.batch import Batch
from benthic.data.standardize import Standardizer
from benthic.nets.evaluate import device_of, in_blocks, in_type
from benthic.pictures.curves import loss_curve
from benthic.training.distributed import World
from benthic.training.estimator import Session, TrainedEstimator
from benthic.training.feed import ArrayFeed
from benthic.training.gradient import GradientLearner, Player
from benthic.training.intake import Intake, Prepare
from benthic.training.trainer import Trainer

# the summed loss of a batch, given the (perhaps compiled) call of the network
Loss = Callable[[Callable[..., Tensor], Batch], Tensor]
MakeLearner = Callable[[nn.Module, Session], GradientLearner]


class NetworkEstimator(TrainedEstimator):
    """Base of estimators with one network ``network_``; a subclass gives ``_build_network``.

    capturable: whether its loss can become a CUDA graph, see ``GradientLearner``.
    """

    network_: nn.Module
    capturable: ClassVar[bool] = False

    def _fit_network(
        self,
        intake: Intake,
        session: Session,
        loss: Loss,
        prepare: Prepare,
        *,
        l2: float = 0.0,
        before: Callable[[int, int], None] | None = None,
    ) -> None:
        """Build the network and train it on the intake's rows, made ready by ``prepare``; before: see the learner."""

        def learner_of(network: nn.Module, session: Session) -> GradientLearner:
            trainer = session.trainer
            forward = _compiled_batches(network, session.device) if trainer.compile else network
            player = Player(network, lambda batch: loss(forward, batch), trainer, l2=l2)
            return GradientLearner(
                {"fit": player}, trainer, world=session.world, capturable=self.capturable, before=before
            )

        self._fit_learner(intake, session, learner_of, prepare)

    def _fit_learner(self, intake: Intake, session: Session, learner_of: MakeLearner, prepare: Prepare) -> None:
        """Build the network and let the learner made of it, which may have several players, learn from the rows."""
        trainer = with_budget(session.trainer, intake.rows)
        session, stopping = replace(session, trainer=trainer), trainer.stopping
        held: Batch | None = None
        with speaking(self, "fit"):
            if stopping is not None and stopping.fraction > 0:
                intake, held = intake.hold_out(stopping.fraction, session.seed)
            with supplied():
                network = self._build_network("network_").to(session.device, training_dtype(session))
            self._begin_network(network)
            network.train()
            learner = learner_of(network, session)
        options: dict[str, Any] = {"seed": session.seed, "device": session.device, "world": session.world}
        feed = intake.feed(batch_size=trainer.batch_size or 128, shuffle=True, prepare=prepare, **options)
        validation = None if held is None else ArrayFeed(prepare(held), batch_size=4096, shuffle=False, **options)
        self._train(learner, feed, session, validation)
        self.network_ = network

    def _begin_network(self, network: nn.Module) -> None:
        """Set weights that are to begin where the data say, before training."""

    def _evaluate(self, function: Callable[[Any, Tensor], Tensor], X: Tensor) -> Tensor:
        """``function(network, rows)`` over blocks of ``X``, in the type of ``X``, on the network's device."""
        network = in_type(self.network_, X.dtype)
        return in_blocks(lambda rows: function(network, rows), X.to(device_of(self.network_)))

    def _facts(self) -> dict[str, Any]:
        return {
            "weights": sum(p.numel() for p in self.network_.parameters()),
            "epochs": self.n_iter_,
            "final loss": float(self.history_[-1]["loss"]),
        }

    def plot(self) -> Any:
        """The loss over training, as a matplotlib figure."""
        return loss_curve(self.history_, title=type(self).__name__)


def _compiled_batches(network: nn.Module, device: torch.device) -> Callable[..., Tensor]:
    """The network, compiled for the whole batches of training alone.

    For the smaller last one of a pass, and for held-out rows, it would be compiled once more. Shapes are fixed,
    whatever was compiled before in this process.
    """
    fast, whole = compiled(network, device, "training", dynamic=False), 0

    def forward(x: Tensor, *rest: Any, **options: Any) -> Tensor:
        nonlocal whole
        whole = max(whole, len(x)) if network.training else whole
        found: Tensor = (fast if network.training and len(x) == whole else network)(x, *rest, **options)
        return found

    return forward


def with_budget(trainer: Trainer, rows: int) -> Trainer:
    """The trainer with batch size and epochs filled in: small data get small batches and some 3000 updates."""
    size = trainer.batch_size or (32 if rows < 4096 else 128)
    trainer = replace(trainer, batch_size=size)
    if trainer.limited:
        return trainer
    per_epoch = max(1, math.ceil(rows / size))
    return replace(trainer, epochs=min(200, max(30, math.ceil(3000 / per_epoch))))


def training_dtype(session: Session) -> torch.dtype:
    """The type weights are trained in."""
    return torch.float64 if session.trainer.precision == "float64" else torch.float32


def scales_of(intake: Intake, column: Literal["X", "y"] = "X") -> Standardizer:
    """Mean and spread of every column of the rows or of the targets, over arrays or by a pass over a source."""
    scales = Standardizer()
    device = torch.device("cpu") if intake.data is None else intake.data.X.device
    for part in intake.feed(batch_size=65536, seed=0, device=device, world=World()).open(0):
        values = part.batch.X if column == "X" else part.batch.y
        if values is not None:
            scales.partial_fit(values[:, None] if values.ndim == 1 else values, part.batch.weight)
    return scales
