"""The one loop: sum statistics over a batch or a pass, update, and keep the run safe."""

from __future__ import annotations

import math
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch

from benthic.base.errors import Interrupted, InvalidInput, ModelFileError, NonFiniteLoss, brief
from benthic.base.modelfile import MALFORMED
from benthic.base.seeds import derive, shared
from benthic.base.threads import Together
from benthic.data.batch import Batch
from benthic.training.callbacks import JsonLog, Progress
from benthic.training.captured import CapturedUpdates
from benthic.training.checkpoint import CheckpointFolder, random_states, restore_random, surroundings
from benthic.training.clock import Clock
from benthic.training.distributed import World
from benthic.training.feed import Feed, Part, split
from benthic.training.foreign import draws_by_itself
from benthic.training.gradient import GradientLearner
from benthic.training.learner import Info, Learner, Stats
from benthic.training.trainer import Trainer

_CHECK_EVERY = 64  # on an accelerator the loss is read this often, so that the host runs ahead
_AGREE_EVERY = 16  # several processes ask one another this often whether time is up


@dataclass
class Loop:
    """One run of training: where it stands, and how it goes on.

    seed: decides the order of batches. device: where the learner works. title: for the progress bar.
    """

    learner: Learner
    feed: Feed
    trainer: Trainer
    seed: int
    device: torch.device
    title: str = "fit"
    validation: Feed | None = None
    world: World = field(default_factory=World)
    step: int = 0
    epoch: int = 0
    batch: int = 0
    loss_sum: Any = 0.0  # a float, or a float64 tensor on an accelerator
    weight_sum: float = 0.0
    history: list[dict[str, Any]] = field(default_factory=list)
    best: dict[str, Any] = field(default_factory=dict)
    done: bool = False  # nothing is left to do under the budget
    complete: bool = False  # nothing would be left to do under any budget

    def __post_init__(self) -> None:
        self._stop_asked = False
        self._checked = 0  # the last step after which the loss was known to be finite
        self._stopping = self.trainer.stopping
        self._folder = CheckpointFolder(s, self.world) if (s := self.trainer.saving) else None
        self._callbacks = [*self.trainer.callbacks] if self.world.first else []
        if self._folder and self.world.first:
            self._callbacks.append(JsonLog(Path(self._folder.setting.folder) / "metrics.jsonl"))
        self._on_step = [c.on_step for c in self._callbacks if hasattr(c, "on_step")]
        self._players = self.learner.players if isinstance(self.learner, GradientLearner) else {}
        self._scheduled: list[Callable[[int, int], None]] = [
            player.set_rate for player in self._players.values() if player.scheduled
        ]
        if isinstance(self.learner, GradientLearner) and self.learner.before is not None:
            self._scheduled.append(self.learner.before)
        # a person's own modules may draw from torch's generators, which this run then has to itself
        self._lent = any(draws_by_itself(player.network) for player in self._players.values())
        self._reads = self.device.type == "cpu"
        self._captured = self._capture()
        self._clock = Clock(self.trainer.seconds)
        self._total = self.total_steps or 0
        self.loss_sum = self._zero()
        if self._scheduled and not self._total:
            raise InvalidInput("a schedule needs to know the length of the run; give the trainer steps or seconds")

    def _capture(self) -> CapturedUpdates | None:
        """Updates as CUDA graphs, where the learner and the settings allow them."""
        learner, trainer = self.learner, self.trainer
        if self.device.type != "cuda" or not trainer.capture or not isinstance(learner, GradientLearner):
            return None
        if self.world.size > 1 or trainer.accumulate > 1 or trainer.compile or not learner.capturable:
            return None
        able = [player.prepare_capture() for player in learner.players.values()]
        return CapturedUpdates(learner, self.device) if all(able) else None

    # -- the run -------------------------------------------------------------------------------------

    @property
    def total_steps(self) -> int | None:
        """Updates in the whole run, where known; under a budget of time, what the pace so far lets expect."""
        limit = self.trainer.steps
        per_epoch = 1 if self.learner.scope == "pass" else self.feed.batches
        if limit is None and per_epoch is not None and self.trainer.epochs is not None:
            limit = per_epoch * self.trainer.epochs
        return self._clock.total(self.step, limit)

    def _late(self) -> bool:
        """Whether time is up; several processes agree on it."""
        if self.trainer.seconds is None:
            return False
        if self.world.size == 1:
            return self._clock.late
        return self.step % _AGREE_EVERY == 0 and any(self.world.gather(self._clock.late))

    def rate(self) -> float | None:
        """The current learning rate of the first player."""
        return next(iter(self._players.values())).rate if self._players else None

    def run(self) -> Loop:
        """Train to the end of the budget, from the newest checkpoint if the trainer says so."""
        with shared(derive(self.seed, "own", self.world.rank), self.device) if self._lent else nullcontext():
            return self._run()

    def _run(self) -> Loop:
        self._clock.restart(0.0)
        if self.trainer.resume:
            self._resume()
        progress = Progress(self.title, self.trainer.verbose and self.world.first)
        self._tell("on_start")
        try:
            with self._gentle_interrupt(), rounded_products(self.trainer.precision == "tf32"):
                if not self.done:
                    (self._passes if self.learner.scope == "pass" else self._epochs)(progress)
        finally:
            progress.close()
            self._tell("on_end")
        if self._folder and not self.done:
            self._save(done=True)
        if self.best.get("state") is not None:
            self.learner.load_best(self.best["state"])
        self.learner.finish()
        return self

    def _epochs(self, progress: Progress) -> None:
        limit = self.trainer.steps if self.trainer.steps is not None else math.inf
        epochs = self.trainer.epochs if self.trainer.epochs is not None else math.inf
        late = False
        while self.epoch < epochs and self.step < limit and not late:
            before = self.step
            for part in self.feed.open(self.epoch, self.batch):
                self._one_batch(part)
                if progress.due():
                    progress.show(self.step, self.total_steps, self._mean_loss(), self.epoch)
                if self._stop_asked:
                    self._interrupt()
                late = self._late()
                if self.step >= limit or late:
                    break
                if self._folder and self._folder.due(self.step):
                    self._save()
            if self.step == before and self.batch == 0:
                raise InvalidInput("the data source gave no batch; it is empty or its open() is exhausted")
            if self._end_epoch():
                self.complete = True
                break

    def _one_batch(self, part: Part) -> None:
        learner, batch = self.learner, part.batch
        phase = learner.phases[self.step % len(learner.phases)]
        total = self._total if self.trainer.seconds is None else self.total_steps or 0
        for set_for in self._scheduled:
            set_for(self.step, total)
        scale = self.world.size / part.weight
        if self._captured is not None:
            info = self._captured(batch, phase, scale)
        else:
            learner.begin(phase)
            if self.trainer.accumulate == 1:
                stats = learner.statistics(batch, phase, scale)
            else:
                stats = self._accumulated(batch, phase, scale)
            if self.world.size > 1:
                stats = self.world.sum_stats(stats)
            info = learner.update(stats, phase, self._again)
        self.step += 1
        self.batch += 1
        self.loss_sum += info.loss
        self.weight_sum += info.weight
        # a sum that is not finite stays so, hence an accelerator need not be asked at every step
        if self._reads or self.step % _CHECK_EVERY == 0:
            if not math.isfinite(self.loss_sum):
                self._fail(self._mean_loss(), batch)
            self._checked = self.step
        for call in self._on_step:
            call(self, info)

    def _accumulated(self, batch: Batch, phase: str, scale: float) -> Stats:
        """The same statistics taken over several small batches; only the last one exchanges gradients."""
        learner, parts = self.learner, split(batch, self.trainer.accumulate)
        total: Stats | None = None
        for i, piece in enumerate(parts):
            if isinstance(learner, GradientLearner):
                learner.last_part = i == len(parts) - 1
            stats = learner.statistics(piece, phase, scale)
            total = stats if total is None else total.__iadd__(stats)
        if total is None:
            raise InvalidInput("a batch without rows")
        return total

    def _passes(self, progress: Progress) -> None:
        limit = self.trainer.steps or self.trainer.epochs or math.inf
        while self.step < limit:
            phase = self.learner.phases[self.step % len(self.learner.phases)]
            self.learner.begin(phase)
            stats = self._again(partial(self.learner.statistics, phase=phase, scale=1.0))
            info = self.learner.update(stats, phase, self._again)
            self.step += 1
            self.epoch += 1
            loss = info.mean()
            if not math.isfinite(loss):
                self._fail(loss, None)
            self._checked = self.step
            self._log(info)
            if progress.due():
                progress.show(self.step, self.total_steps, loss, self.epoch - 1)
            if info.done:
                self.complete = True
                break
            if self._late():
                break
            if self._stop_asked:
                self._interrupt()
            if self._folder and self._folder.due(self.step):
                self._save()

    def _again(self, function: Callable[[Batch], Stats]) -> Stats:
        """``function`` summed over all data and all processes."""
        total: Stats | None = None
        for part in self.feed.open(0):
            stats = function(part.batch)
            total = stats if total is None else total.__iadd__(stats)
        if total is None:
            raise InvalidInput("the data source gave no batch; it is empty or its open() is exhausted")
        return self.world.sum_stats(total)

    # -- epochs ----------------------------------------------------------------------------------------

    def _end_epoch(self) -> bool:
        """Log the epoch; True when early stopping ends the run."""
        loss = self._mean_loss()
        if not math.isfinite(loss):
            self._fail(loss, None)
        self._checked = self.step
        logs = self.learner.report(self.step)
        if self.validation is not None:
            held = self._validate(self.validation)
            logs["val_loss"] = held
        watched = logs.get("val_loss", loss)
        self.epoch += 1
        self.batch = 0
        self.loss_sum, self.weight_sum = self._zero(), 0.0
        self._log(Info(loss, logs=logs))
        return self._stopping is not None and self._judge(watched)

    def _zero(self, value: float = 0.0) -> Any:
        """A running sum: a number, or where reading is slow a float64 tensor that is added to in place."""
        return value if self._reads else torch.tensor(value, dtype=torch.float64, device=self.device)

    def _mean_loss(self) -> float:
        return float(self.loss_sum) / max(self.weight_sum, 1e-300)

    def _validate(self, feed: Feed) -> float:
        total = Stats(0.0, {})
        for part in feed.open(0):
            total += self.learner.evaluate(part.batch)
        total = self.world.sum_stats(total)
        return float(total["loss"]) / total.weight

    def _judge(self, loss: float) -> bool:
        stopping = self._stopping
        if stopping is None:
            return False
        if not self.best or loss < self.best["loss"] - stopping.min_delta:
            self.best = {"loss": loss, "epoch": self.epoch, "state": self.learner.best_state()}
            return False
        return bool(self.epoch - self.best["epoch"] >= stopping.patience)

    def _log(self, info: Info) -> None:
        logs = {"epoch": self.epoch, "step": self.step, "loss": info.mean(), **(info.logs or {})}
        rate = self.rate()
        if rate is not None:
            logs["lr"] = rate
        self.history.append(logs)
        self._tell("on_epoch", logs)

    def _tell(self, moment: str, *args: Any) -> None:
        for callback in self._callbacks:
            method = getattr(callback, moment, None)
            if method is not None:
                method(self, *args)

    # -- safety ----------------------------------------------------------------------------------------

    def _fail(self, loss: float, batch: Batch | None) -> None:
        kept = self._folder.newest() if self._folder else None
        where = f"the last good checkpoint is {kept}" if kept else "no checkpoint was written"
        cause = "the learning rate is likely too high or a column is badly scaled"
        if batch is not None and not bool(torch.isfinite(batch.X).all()):
            cause = "the batch itself holds values that are not finite"
        rate = self.rate()
        tip = f"try lr={rate / 10:.1g} or clip=1.0" if rate else "rescale the data"
        raise NonFiniteLoss(
            f"{self.title}: the loss became {loss} at step {self._when()} (epoch {self.epoch + 1}); "
            f"{cause}; {tip}; {where}"
        )

    def _when(self) -> str:
        """The step that is taken, or where losses are seldom read the first and last of those it may have been."""
        first = self._checked + 1
        return str(self.step) if first >= self.step else f"{first} to {self.step}"

    @contextmanager
    def _gentle_interrupt(self) -> Iterator[None]:
        """Ctrl-C asks the loop to stop after the current update; a second one stops at once.

        So does SIGTERM where there is a folder to save to; without one it ends the process as ever.
        """
        numbers = [signal.SIGINT, *([signal.SIGTERM] if self._folder else [])]
        if threading.current_thread() is not threading.main_thread():
            numbers = []
        before = {number: signal.getsignal(number) for number in numbers}
        usual = (signal.default_int_handler, signal.SIG_DFL)
        held = {number: handler for number, handler in before.items() if handler in usual}

        def ask(number: int, frame: Any) -> None:
            if self._stop_asked:
                raise KeyboardInterrupt
            self._stop_asked = True

        for number in held:
            signal.signal(number, ask)
        try:
            yield
        finally:
            for number, handler in held.items():
                signal.signal(number, handler)

    def _interrupt(self) -> None:
        if self._folder is None:
            raise Interrupted(
                f"{self.title}: stopped at step {self.step}; nothing was saved, because the trainer has no "
                "checkpoint folder (Trainer(checkpoint='runs/name') keeps one)"
            )
        path = self._save()
        folder = self._folder.setting.folder
        raise Interrupted(
            f"{self.title}: stopped at step {self.step} and saved {path}; go on with `benthic resume {folder}` "
            f"or Trainer(checkpoint={folder!r}, resume=True)"
        )

    def _save(self, done: bool = False) -> Path | None:
        if self._folder is None:
            return None
        if not math.isfinite(self.loss_sum):  # which an accelerator is not asked at every step
            self._fail(self._mean_loss(), None)
        self._checked, self.done = self.step, done
        state = {
            "step": self.step,
            "epoch": self.epoch,
            "batch": self.batch,
            "loss_sum": float(self.loss_sum),
            "weight_sum": self.weight_sum,
            "history": self.history,
            "best": self.best,
            "done": done,
            "complete": self.complete,
            "seed": self.seed,
            "spent": self._clock.spent,
            "rows": self.feed.rows,
            "batch_size": self.feed.batch_size,
            "data": self._fingerprint,
            "learner": self.learner.state_dict(),
            "random": self.world.gather(random_states(self.device, self._lent)),
            "surroundings": surroundings(self.world),
        }
        return self._folder.write(state, self.step)

    def _resume(self) -> None:
        state = self._folder.read() if self._folder else None
        if state is None:
            return
        self._check_same_run(state)
        try:
            self._restore(state)
        except InvalidInput:
            raise
        except MALFORMED as error:
            raise ModelFileError(
                f"{self.title}: the newest checkpoint fits no such run ({brief(error)}); resume with "
                "the same settings, or start a new run folder"
            ) from error

    def _restore(self, state: dict[str, Any]) -> None:
        for name in ("step", "epoch", "batch", "loss_sum", "weight_sum", "history", "best", "done", "complete", "seed"):
            setattr(self, name, state[name])
        self.loss_sum = self._zero(self.loss_sum)
        self._checked = self.step
        self._clock.restart(state.get("spent", 0.0))
        self.learner.load_state_dict(state["learner"])
        states: Sequence[Any] = state["random"]
        restore_random(states[min(self.world.rank, len(states) - 1)], self.device, self._lent)
        left = not self._clock.late and (self.total_steps is None or self.step < self.total_steps)
        self.done = self.complete or not left  # a raised budget goes on from where the run ended

    @cached_property
    def _fingerprint(self) -> list[int]:
        return self.feed.fingerprint()

    def _check_same_run(self, state: dict[str, Any]) -> None:
        for name, now in (("rows", self.feed.rows), ("batch_size", self.feed.batch_size)):
            if state.get(name) != now and not (name == "rows" and self.trainer.new_data):
                raise InvalidInput(
                    f"{self.title}: the run was started with {name} {state.get(name)!r:.60}, now it is {now}; "
                    "resume with the same data and settings, or start a new run folder"
                )
        known = state.get("data")  # older checkpoints do not say
        if known is not None and known != self._fingerprint and not self.trainer.new_data:
            raise InvalidInput(
                f"{self.title}: the run was started with other data of the same length; resume with the data it was "
                "started with, start a new run folder, or go on knowingly with `benthic resume RUN --new-data` or "
                "Trainer(..., resume=True, new_data=True)"
            )
        now_here, then = surroundings(self.world), state["surroundings"]
        here = {key: value for key, value in now_here.items() if then.get(key) != value}
        changed = [f"{key} {then.get(key)!s:.60} → {value}" for key, value in here.items()]
        if changed:
            warnings.warn(
                f"{self.title}: resuming under other conditions ({', '.join(changed)}); the result is right, but not "
                "bit-identical to an unbroken run",
                stacklevel=2,
            )


@contextmanager
def _rounding() -> Iterator[None]:
    held = (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = held


_ROUNDED = Together(_rounding)


def rounded_products(wanted: bool) -> AbstractContextManager[Any]:
    """Let CUDA round the factors of products and convolutions to 11 bits inside the block, where wanted."""
    return _ROUNDED if wanted else nullcontext()
