"""Small learners and data for the tests of the engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benthic.data.batch import Batch
from benthic.training.feed import ArrayFeed
from benthic.training.gradient import GradientLearner, Player
from benthic.training.learner import Again, Info, Learner, Stats, total_weight
from benthic.training.loop import Loop
from benthic.training.trainer import Trainer

CPU = torch.device("cpu")


def regression(n: int = 64, d: int = 3, dtype: torch.dtype = torch.float64) -> Batch:
    """A noisy linear problem."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    y = X @ np.arange(1.0, d + 1) + 0.1 * rng.normal(size=n)
    return Batch(torch.tensor(X, dtype=dtype), torch.tensor(y, dtype=dtype))


def linear_learner(trainer: Trainer, d: int = 3, dtype: torch.dtype = torch.float64) -> GradientLearner:
    """Least squares by gradient descent, starting from zero."""
    network = nn.Linear(d, 1).to(dtype)
    nn.init.zeros_(network.weight)
    nn.init.zeros_(network.bias)

    def loss(batch: Batch) -> Tensor:
        errors = (network(batch.X)[:, 0] - batch.y).square()
        return errors.sum() if batch.weight is None else (errors * batch.weight).sum()

    return GradientLearner({"fit": Player(network, loss, trainer)}, trainer)


def feed_of(batch: Batch, trainer: Trainer, shuffle: bool = True) -> ArrayFeed:
    """Batches in memory."""
    return ArrayFeed(batch, batch_size=trainer.batch_size or 16, shuffle=shuffle, seed=0, device=CPU)


def run(learner: Learner, feed: ArrayFeed, trainer: Trainer, **options: Any) -> Loop:
    """The loop on the CPU."""
    return Loop(learner, feed, trainer, seed=0, device=CPU, **options).run()


def weights(learner: GradientLearner) -> np.ndarray:
    """All weights in one vector."""
    network = learner.players["fit"].network
    return torch.cat([p.detach().reshape(-1) for p in network.parameters()]).numpy()


class MeanLearner(Learner):
    """The mean of the rows, from one summed pass: the smallest learner of scope ``pass``."""

    scope = "pass"

    def __init__(self, d: int) -> None:
        self.mean = torch.zeros(d, dtype=torch.float64)

    def statistics(self, batch: Batch, phase: str, scale: float) -> Stats:
        weight = torch.ones(len(batch.X), dtype=torch.float64) if batch.weight is None else batch.weight
        return Stats(total_weight(batch), {"x": weight @ batch.X})

    def update(self, stats: Stats, phase: str, again: Again) -> Info:
        new = stats["x"] / stats.weight
        moved = float((new - self.mean).abs().max())
        self.mean = new
        spread = again(lambda b: Stats(total_weight(b), {"s": (b.X - self.mean).square().sum()}))
        return Info(float(spread["s"]) / spread.weight, done=moved < 1e-12)

    def state_dict(self) -> dict[str, Any]:
        return {"mean": self.mean}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.mean = state["mean"]
