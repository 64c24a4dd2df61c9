"""Estimators that are trained by the loop: settings resolved, generators begun, history kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from benthic.base.arrays import pick_device
from benthic.base.estimator import Estimator
from benthic.base.seeds import derive, seed_of, streams
from benthic.base.threads import usual_torch_threads
from benthic.base.validation import speaking
from benthic.training.checkpoint import stored_seed
from benthic.training.distributed import World, broadcast, join, local_device
from benthic.training.feed import Feed
from benthic.training.learner import Learner
from benthic.training.loop import Loop
from benthic.training.trainer import Trainer


@dataclass(frozen=True)
class Session:
    """What one ``fit`` works with: settings, device, seed and the processes taking part."""

    trainer: Trainer
    device: torch.device
    seed: int
    world: World


class TrainedEstimator(Estimator):
    """Base of estimators with a parameter ``trainer``; ``defaults`` fill what it leaves open."""

    defaults: ClassVar[Mapping[str, Any]] = {}
    trainer: Any
    random_state: Any

    @contextmanager
    def _session(self, X: Any) -> Iterator[Session]:
        """Resolve the settings; inside the block this thread draws from generators of its own.

        A fit that fails leaves the estimator as it was.
        """
        before = dict(vars(self))
        try:
            yield from self._settled(X)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _settled(self, X: Any) -> Iterator[Session]:
        usual_torch_threads()
        with speaking(self, "fit"):
            trainer = Trainer.of(self.trainer, **self.defaults)
            device = local_device(pick_device(trainer.device, X))
            world = join(device)
            seed = stored_seed(trainer.saving) if trainer.resume else None
            if seed is None:
                seed = self._common_seed(world, device)
        # the processes draw different noise, but the first draws what a single process would
        with streams(seed if world.first else derive(seed, "rank", world.rank), device):
            yield Session(trainer, device, seed, world)

    def _common_seed(self, world: World, device: torch.device) -> int:
        seed = seed_of(self.random_state)
        return int(broadcast(torch.tensor([seed], device=device), world)[0]) if world.size > 1 else seed

    def _train(self, learner: Learner, feed: Feed, session: Session, validation: Feed | None = None) -> Loop:
        """Run the loop; keeps ``n_iter_`` (passes made) and ``history_`` (one dict a pass)."""
        loop = Loop(
            learner,
            feed,
            session.trainer,
            seed=session.seed,
            device=session.device,
            title=type(self).__name__,
            validation=validation,
            world=session.world,
        ).run()
        self.history_ = loop.history
        self.n_iter_ = max(loop.epoch, 1)
        return loop
