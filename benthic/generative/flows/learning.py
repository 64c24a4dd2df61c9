"""How a normalizing flow is built and trained: columns read, networks designed, conditions made ready."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benthic.base.arrays import is_tensor
from benthic.base.capabilities import to_numpy
from benthic.base.errors import InvalidInput
from benthic.base.settings import is_real, is_whole, one_of, sizes, whole
from benthic.base.validation import speaking
from benthic.data.batch import Batch
from benthic.data.standardize import Standardizer
from benthic.generative.flows.columns import FlowColumns, columns_of, picture_columns
from benthic.generative.flows.model import Dequantizer, FlowModel
from benthic.generative.flows.presets import PICTURES, Design, build, design_kind, learned_noise, scales_allowed
from benthic.generative.vae.conditions import (
    codes_of_labels,
    dimensions,
    one_or_many,
    rows_of_vectors,
)
from benthic.nets.activations import activation
from benthic.nets.evaluate import device_of
from benthic.nets.invertible.transform import Transform
from benthic.training.distributed import World
from benthic.training.estimator import Session
from benthic.training.intake import Intake, Target
from benthic.training.network import NetworkEstimator, scales_of, training_dtype
from benthic.training.trainer import Trainer

DEQUANTIZERS = ("uniform", "variational", None)
CONDITIONS = (None, "labels", "vectors")
_LOOK = 4096  # rows that actnorm begins with, and grids are read from
_ROWS_AN_UPDATE, _LEAST_UPDATES, _MOST_UPDATES = 5, 200, 4000
_BLOCK = 65536
_STILL = 1e-6  # the spread of a column that never changes, over its size


class FlowEstimator(NetworkEstimator):
    """The learning half of ``NormalizingFlow``."""

    accepts_images = True
    network_: FlowModel
    columns_: FlowColumns
    scales_: Standardizer
    classes_: np.ndarray
    condition_scales_: Standardizer
    class_prior_: np.ndarray

    kind: Any
    hidden_layer_sizes: Any
    activation: str
    transforms: int | None
    bins: int
    bound: float
    scales: int | None
    channels: int
    condition: str | None
    columns: Any
    dequantize: str | None
    levels: int

    @property
    def capturable(self) -> bool:
        """Whether updates can become CUDA graphs: residual maps and continuous ones of rows decide on the host."""
        if self.kind == "cnf":
            return self._picture is not None
        return isinstance(self.kind, str) and self.kind != "residual"

    @property
    def _picture(self) -> tuple[int, ...] | None:
        """The shape (c, h, w) of pictures; examples of other shapes are rows."""
        event = getattr(self, "_event_shape", None)
        return event if event is not None and len(event) == 3 else None

    # -- learning --------------------------------------------------------------------------------------

    def _learn(self, X: Any, y: Any, session: Session) -> None:
        with speaking(self, "fit"):
            self._check_settings()
            y = self._checked_condition(X, y)
        targets: dict[str | None, Target] = {"labels": "labels", "vectors": "numbers"}
        intake = Intake(self, X, y if self.condition else None, target=targets.get(self.condition, "none"))
        self._forget()
        if intake.classes is not None:
            self.classes_ = intake.classes
        with speaking(self, "fit"):
            self._enter(intake, session)
        self._fit_network(intake, self._budget(session, intake.rows), self._loss, self._preparation(session))
        self.__dict__.pop("_start", None)

    def _forget(self) -> None:
        for name in ("classes_", "class_prior_", "condition_scales_"):
            self.__dict__.pop(name, None)

    def _budget(self, session: Session, rows: int) -> Session:
        """Updates that grow with the data, unless the trainer names a budget."""
        trainer: Trainer = session.trainer
        if trainer.limited:
            return session
        steps = min(max(rows // _ROWS_AN_UPDATE, _LEAST_UPDATES), _MOST_UPDATES)
        return replace(session, trainer=replace(trainer, steps=steps))

    def _enter(self, intake: Intake, session: Session) -> None:
        """Look at the columns and what they range over."""
        look = intake.sample(_LOOK, session.seed)
        if self._picture is not None:
            self.columns_ = picture_columns(intake.width, look.X, self.levels, self.dequantize is not None)
        else:
            rows = look.X if intake.data is None else intake.data.X
            self.columns_ = columns_of(intake.width, getattr(self, "schema_", None), rows, self.columns)
        if self.columns_.discrete and self.dequantize is None:
            first = self.columns_.names[self.columns_.discrete[0]]
            raise InvalidInput(f"{first} is discrete, and dequantize is None; use 'uniform' or 'variational'")
        self._n_features_out = self.columns_.size
        spreads = to_numpy(look.X.double().std(0, correction=0))
        self._spreads = np.where(spreads > 0, spreads, 1.0)
        self._read_scales(intake)
        if self.condition == "labels":
            self.class_prior_ = _frequencies(intake, len(self.classes_))
        elif self.condition == "vectors":
            self.condition_scales_ = scales_of(intake, "y")
        self._start = look

    def _read_scales(self, intake: Intake) -> None:
        """Mean and spread of every coordinate: of numbers they are taken off outside, of grids inside the network."""
        size, discrete = self.columns_.size, self.columns_.discrete
        self.scales_ = Standardizer.identity(size)
        self._grid_mean, self._grid_scale = np.zeros(len(discrete)), np.ones(len(discrete))
        self._still = np.zeros(0, dtype=np.int64)
        if self._picture is not None:
            return
        seen, filler = Standardizer(), self._dequantizer()
        device = torch.device("cpu") if intake.data is None else intake.data.X.device
        for part in intake.feed(batch_size=_BLOCK, seed=0, device=device, world=World()).open(0):
            self.columns_.check(part.batch.X)
            Y, _ = self.columns_.forward(part.batch.X)
            if filler is not None:
                middle = torch.full((len(Y), len(discrete)), 0.5, dtype=Y.dtype, device=Y.device)
                Y, _ = filler.to(Y)(Y, middle)
            seen.partial_fit(Y)
        if seen.mean is None or seen.spread is None:
            raise InvalidInput("no row was seen")
        self._grid_mean, self._grid_scale = seen.mean[discrete].copy(), seen.scale[discrete].copy()
        seen.mean[discrete], seen.spread[discrete] = 0.0, 1.0
        self._still = np.flatnonzero(seen.spread == 0)
        seen.spread[self._still] = _STILL * np.maximum(np.abs(seen.mean[self._still]), 1.0)
        self.scales_ = seen

    def _preparation(self, session: Session) -> Callable[[Batch], Batch]:
        dtype = training_dtype(session)

        def prepare(batch: Batch) -> Batch:
            with speaking(self, "fit"):
                self.columns_.check(batch.X)
            given = self._given(batch)
            rows = self._ready(batch.X)[0].to(dtype)
            return Batch(rows, None if given is None else given.to(dtype), batch.weight)

        return prepare

    def _ready(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Rows in data units as the network sees them, (n, size) in float64, and the log-Jacobian (n,)."""
        Y, log = self.columns_.forward(X)
        return self.scales_.transform(Y), log + self.scales_.log_jacobian()

    def _loss(self, network: Callable[..., Tensor], batch: Batch) -> Tensor:
        losses = network(batch.X, batch.y)
        return losses.sum() if batch.weight is None else (losses * batch.weight).sum()

    # -- the network -----------------------------------------------------------------------------------

    def _design(self) -> Design:
        return Design(
            design_kind(self.kind, self._picture),
            self.columns_.size,
            self._hidden,
            self.activation,
            self.transforms,
            self.bins,
            float(self.bound),
            self.scales,
            self.channels,
            self._conditions(),
            self._picture,
        )

    @property
    def _hidden(self) -> tuple[int, ...]:
        return sizes("hidden_layer_sizes", self.hidden_layer_sizes)

    def _build_network(self, name: str) -> nn.Module:
        design = self._design()
        filler = self._dequantizer()
        if filler is not None and self.dequantize == "variational":
            filler.posterior = learned_noise(design, len(self.columns_.discrete))
        network = FlowModel(build(design), filler, design.event, self._still_columns())
        if isinstance(design.kind, Transform):
            self._try(network, design)
        return network

    def _still_columns(self) -> Tensor | None:
        places = getattr(self, "_still", ())
        if not len(places):
            return None
        still = torch.zeros(self.columns_.size)
        still[torch.as_tensor(places)] = 1.0
        return still

    @staticmethod
    def _try(network: FlowModel, design: Design) -> None:
        """Refuse a map of the user's that does not take the rows, before training does with fewer words."""
        like = next(network.parameters(), torch.zeros(()))
        rows = torch.zeros((2, design.width), dtype=like.dtype, device=like.device)
        given = rows.new_zeros(2, design.context) if design.context else None
        try:
            with torch.no_grad():
                shape = tuple(network.encode(rows, given)[0].shape)
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            cause = str(error).splitlines()[0]
            beside = f" with {design.context} numbers given" if design.context else ""
            raise InvalidInput(
                f"kind is a Transform that does not take rows of {design.width} columns{beside}: {cause}"
            ) from error
        if shape != tuple(rows.shape):
            raise InvalidInput(f"kind is a Transform that gives {shape} for rows {tuple(rows.shape)}; they must match")

    def _dequantizer(self) -> Dequantizer | None:
        discrete = self.columns_.discrete
        if not discrete:
            return None
        levels = [self.columns_.levels[i] for i in discrete]
        mean, scale = torch.from_numpy(self._grid_mean), torch.from_numpy(self._grid_scale)
        return Dequantizer(discrete, levels, mean, scale, self.columns_.size)

    def _begin_network(self, network: nn.Module) -> None:
        given = self._given(self._start)
        like = next(network.parameters())
        rows = self._ready(self._start.X)[0].to(like.device, like.dtype)
        self.columns_.check(self._start.X)
        start: Any = network
        start.begin(rows, None if given is None else given.to(like.device, like.dtype))

    # -- settings --------------------------------------------------------------------------------------

    def _check_settings(self) -> None:
        design_kind(self.kind, None)
        activation(self.activation)
        one_of("dequantize", self.dequantize, DEQUANTIZERS)
        one_of("condition", self.condition, CONDITIONS)
        sizes("hidden_layer_sizes", self.hidden_layer_sizes)
        for name in ("transforms", "scales", "channels"):
            whole(name, getattr(self, name), optional=True)
        if not is_whole(self.bins, 2, 500) or not is_real(self.bound) or not self.bound > 0:
            raise InvalidInput(f"bins is {self.bins!r} and bound {self.bound!r}; use 2 to 500 bins, a positive bound")

    # -- conditions ------------------------------------------------------------------------------------

    def _checked_condition(self, X: Any, y: Any) -> Any:
        if self.condition is None or (y is None and callable(getattr(X, "open", None))):  # sources bring their own
            return None
        if y is None:
            raise InvalidInput(f"condition={self.condition!r} needs y, the condition of each row")
        if self.condition != "labels" and not isinstance(y, (str, int)) and dimensions(y) > 1:
            y = y if is_tensor(y) else np.asarray(y)
            y = y.reshape(len(y), -1)
            y = y[:, 0] if y.shape[1] == 1 else y
        return y

    def _conditions(self) -> int:
        if self.condition is None:
            return 0
        return len(self.classes_) if self.condition == "labels" else self.condition_scales_.width

    def _given(self, batch: Batch) -> Tensor | None:
        if self.condition is None or batch.y is None:
            return None
        if self.condition == "labels":
            return self._one_hot(batch.y)
        vectors: Tensor = self.condition_scales_.transform(batch.y[:, None] if batch.y.ndim == 1 else batch.y)
        return vectors

    def _one_hot(self, codes: Tensor) -> Tensor:
        return F.one_hot(codes, len(self.classes_)).to(torch.float32)

    def _condition(self, y: Any, n: int, like: Tensor, method: str) -> Tensor:
        """What the network is given for each of ``n`` rows, (n, conditions), where it lies."""
        if self.condition is None:
            raise self._fail(method, "given is a condition, but the flow was fitted without; set condition, and fit")
        with speaking(self, method):
            if self.condition == "labels":
                found, name = self._one_hot(codes_of_labels(y, self.classes_)), "labels"
            else:
                vectors = rows_of_vectors(y, self._conditions()).to(device_of(self.network_))
                found, name = self.condition_scales_.transform(vectors), "vectors"
            return one_or_many(found, n, name).to(device_of(self.network_), like.dtype)

    def _need_condition(self, method: str, call: str = "") -> None:
        if self.condition == "vectors":
            call = call or f"{method}(..., given=vectors)"
            raise self._fail(method, f"a flow given vectors needs them here too: {call}")

    def _every_label(self, n: int, like: Tensor) -> list[Tensor]:
        """The condition of ``n`` rows under each label in turn."""
        eye = torch.eye(len(self.classes_), dtype=like.dtype, device=device_of(self.network_))
        return [row.expand(n, -1) for row in eye]

    # -- words -----------------------------------------------------------------------------------------

    def _facts(self) -> dict[str, Any]:
        design = self._design()
        name = type(design.kind).__name__ if isinstance(design.kind, Transform) else design.kind
        facts: dict[str, Any] = {"kind": name, **super()._facts()}
        if self.columns_.discrete:
            facts["dequantized"] = f"{len(self.columns_.discrete)} of {self.columns_.size}, {self.dequantize}"
        if design.event is not None and design.kind in PICTURES:
            facts["scales"] = design.scales or max(1, min(2, scales_allowed(design.event)))
        if self.condition is not None:
            facts["classes" if self.condition == "labels" else "numbers given"] = self._conditions()
        return facts


def _frequencies(intake: Intake, classes: int) -> np.ndarray:
    """The share of each class among the rows."""
    counts = torch.zeros(classes, dtype=torch.float64)
    device = torch.device("cpu") if intake.data is None else intake.data.X.device
    for part in intake.feed(batch_size=_BLOCK, seed=0, device=device, world=World()).open(0):
        if part.batch.y is not None:
            counts += torch.bincount(part.batch.y.cpu(), minlength=classes).double()
    return (counts / counts.sum()).numpy()
