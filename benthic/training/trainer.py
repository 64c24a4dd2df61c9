"""The settings of training, in one value."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from benthic.base.errors import InvalidInput, nearest
from benthic.base.settings import is_whole, number, one_of, whole
from benthic.optim.schedules import schedule_of


@dataclass(frozen=True)
class _Record:
    """A frozen value that a model file can hold and that is changed by making a changed copy."""

    def to_tree(self) -> dict[str, Any]:
        """Its fields."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> Self:
        """The value with these fields."""
        return cls(**tree)

    @classmethod
    def of(cls, setting: Self | Mapping[str, Any] | None, **defaults: Any) -> Self:
        """One from None, a dict or itself; defaults fill what is not said (what is None)."""
        if setting is None:
            return cls(**defaults)
        if isinstance(setting, Mapping):
            names = [f.name for f in dataclasses.fields(cls)]
            for name in setting:
                if name not in names:
                    raise InvalidInput(
                        f"{cls.__name__} has no setting {name!r}{nearest(str(name), names)}; it has {', '.join(names)}"
                    )
            setting = cls(**setting)
        if not isinstance(setting, cls):
            raise InvalidInput(f"{cls.__name__} settings are {setting!r}; pass a {cls.__name__} or a dict")
        missing = {k: v for k, v in defaults.items() if getattr(setting, k) is None}
        return dataclasses.replace(setting, **missing)


@dataclass(frozen=True)
class EarlyStopping(_Record):
    """Stop when held-out loss has not fallen for a while, and go back to the best epoch.

    patience: epochs without improvement before stopping. min_delta: what counts as one.
    fraction: share of rows held out; 0 watches the training loss instead.
    """

    patience: int = 10
    min_delta: float = 0.0
    fraction: float = 0.1

    def __post_init__(self) -> None:
        whole("EarlyStopping: patience", self.patience)
        number("EarlyStopping: fraction", self.fraction, 0, 1)


@dataclass(frozen=True)
class Checkpoint(_Record):
    """Where and how often the state of training is written.

    folder: the run folder; checkpoints go to ``checkpoints/`` below it, numbers to ``metrics.jsonl``.
    every_steps: write after so many updates; None writes by time, spending under 2 % of the run on it.
    every_seconds: least time between two writes by time. keep: how many of the newest stay.
    """

    folder: str = "runs/default"
    every_steps: int | None = None
    every_seconds: float = 5.0
    keep: int = 2

    def __post_init__(self) -> None:
        whole("Checkpoint: every_steps", self.every_steps, optional=True)
        whole("Checkpoint: keep", self.keep)


PRECISIONS = ("float32", "tf32", "float64", "bf16")


@dataclass(frozen=True)
class Trainer(_Record):
    """How to train: budget, optimizer, precision, checkpoints, device. What is None, the model decides.

    epochs, steps: the budget, passes over the data or updates; give one of them. seconds: the budget in time, after
    which training ends wherever it stands; alone it replaces a model's own number of epochs, and schedules follow it.
    batch_size: rows of one update (over all processes), or of one block where learning takes whole passes.
    optimizer: ``adam``, ``adamw``, ``sgd``, ... or ``{"name": "sgd", "momentum": 0.9}``, or a function.
    lr: base learning rate. schedule: ``constant``, ``linear``, ``cosine``, ``warmup_cosine``,
    ``{"name": "cosine", "warmup": 0.05}``, or a function of (step, total).
    precision: ``float32``, ``float64``, ``bf16`` (weights float32, arithmetic bfloat16) or ``tf32`` (float32, but on
    a GPU products are of numbers rounded to 11 bits).
    compile: compile the network where a compiler is found.
    capture: on a GPU, replay each update as one CUDA graph where the model allows it; the result is the same.
    accumulate: split each batch in so many parts and add their gradients; the result is the same.
    clip: largest gradient norm. ema: decay of an average of the weights, which is what remains.
    early_stopping: None, True, a patience, a dict or ``EarlyStopping``.
    checkpoint: None, a run folder, a dict or ``Checkpoint``. resume: go on from its newest checkpoint.
    new_data: go on although the data are not those the run was begun with, which is refused otherwise.
    callbacks: objects with any of ``on_start, on_step, on_epoch, on_end``.
    device: ``auto`` (where the data lie, else CUDA if present), ``cpu``, ``cuda``, ...
    verbose: a progress bar on a terminal; False is silent.

    >>> Trainer(epochs=5, lr=1e-3).epochs
    5
    """

    epochs: int | None = None
    steps: int | None = None
    seconds: float | None = None
    batch_size: int | None = None
    optimizer: Any = None
    lr: float | None = None
    schedule: Any = None
    precision: str = "float32"
    compile: bool = False
    capture: bool = True
    accumulate: int = 1
    clip: float | None = None
    ema: float | None = None
    early_stopping: Any = None
    checkpoint: Any = None
    resume: bool = False
    new_data: bool = False
    callbacks: tuple[Any, ...] = ()
    device: str = "auto"
    verbose: bool = True

    def __post_init__(self) -> None:
        if self.epochs is not None and self.steps is not None:
            raise InvalidInput("Trainer: epochs and steps are both given; the budget is one of them")
        for name in ("epochs", "steps", "batch_size", "accumulate"):
            whole(f"Trainer: {name}", getattr(self, name), optional=name != "accumulate")
        for name in ("lr", "clip", "seconds"):
            number(f"Trainer: {name}", getattr(self, name), ends="(]", optional=True)
        if self.ema is not None and not 0.0 < self.ema < 1.0:
            raise InvalidInput(f"Trainer: ema is {self.ema!r}; a decay lies between 0 and 1, for example 0.999")
        one_of("Trainer: precision", self.precision, PRECISIONS)
        if self.new_data and not self.resume:
            raise InvalidInput("Trainer: new_data goes with resume; a run that begins has no other data")
        if self.resume and self.checkpoint is None:
            raise InvalidInput("Trainer: resume needs checkpoint, the run folder to go on from")
        schedule_of(self.schedule)

    @classmethod
    def of(cls, setting: Trainer | Mapping[str, Any] | None, **defaults: Any) -> Trainer:
        """A trainer from None, a dict or itself; a budget that is said replaces the default one."""
        plain = super().of(setting)
        if plain.limited:
            defaults = {k: v for k, v in defaults.items() if k not in ("epochs", "steps")}
        return super().of(plain, **defaults)

    @property
    def limited(self) -> bool:
        """Whether a budget is given."""
        return self.epochs is not None or self.steps is not None or self.seconds is not None

    @property
    def stopping(self) -> EarlyStopping | None:
        """The early-stopping setting as one value."""
        setting = self.early_stopping
        if setting is None or setting is False:
            return None
        if setting is True:
            return EarlyStopping()
        if is_whole(setting):
            return EarlyStopping(patience=setting)
        return EarlyStopping.of(setting)

    @property
    def saving(self) -> Checkpoint | None:
        """The checkpoint setting as one value."""
        if self.checkpoint is None:
            return None
        if isinstance(self.checkpoint, (Checkpoint, Mapping)):
            return Checkpoint.of(self.checkpoint)
        return Checkpoint(folder=str(self.checkpoint))
