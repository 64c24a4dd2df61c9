"""Data on their way into training: an array, a frame, a file or a source, behind one face."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Unpack

import numpy as np
import torch
from torch import Tensor

from benthic.base.arrays import Origin, from_numpy
from benthic.base.errors import InvalidInput
from benthic.base.estimator import Estimator
from benthic.base.seeds import np_generator
from benthic.base.validation import check_labels, check_targets, check_weights, speaking
from benthic.data.batch import Batch
from benthic.data.scan import as_source, scan
from benthic.data.sources import Source
from benthic.training.feed import ArrayFeed, Feed, Order, SourceFeed

Target = Literal["none", "labels", "numbers"]
Prepare = Callable[[Batch], Batch]


class Intake:
    """Checked training data; ``feed`` gives its batches, ``sample`` some of its rows.

    target: what ``y`` is: nothing, class labels (codes 0..k-1, names in ``classes``) or numbers.
    missing: whether NaN stands for a missing value.
    """

    def __init__(
        self,
        estimator: Estimator,
        X: Any,
        y: Any = None,
        *,
        target: Target = "none",
        sample_weight: Any = None,
        missing: bool | None = None,
    ) -> None:
        self._estimator, self._target = estimator, target
        self._missing = estimator.accepts_missing if missing is None else missing
        self.classes: np.ndarray | None = None
        self.data: Batch | None = None
        with speaking(estimator, "fit"):
            self.source = _source_of(X, y)
        if self.source is not None:
            self._enter_source(self.source, sample_weight)
        else:
            self._enter_array(X, y, sample_weight)

    def _enter_array(self, X: Any, y: Any, sample_weight: Any) -> None:
        estimator = self._estimator
        tensor, self.origin = estimator._arrive(X, "fit", reset=True, missing=self._missing)
        targets: Tensor | None = None
        with speaking(estimator, "fit"):
            if self._target == "labels":
                self.classes, codes = check_labels(y, len(tensor))
                targets = from_numpy(codes).to(tensor.device)
            elif self._target == "numbers":
                targets = check_targets(y, len(tensor)).to(tensor.device)
            self.data = Batch(tensor, targets, check_weights(sample_weight, tensor))
        self.rows, self.width = tensor.shape

    def _enter_source(self, source: Source, sample_weight: Any) -> None:
        estimator = self._estimator
        with speaking(estimator, "fit"):
            if sample_weight is not None:
                raise InvalidInput("sample_weight goes with arrays, not with a file or source")
            if self._target != "none" and source.target is None:
                raise InvalidInput("the source has no target; use benthic.data.scan(path, target='column')")
            if self._target == "labels":
                self.classes, _ = check_labels(source.target_values(), len(source.target_values()))
        self.rows, self.width = source.rows, source.width
        if source.schema is not None:
            estimator.schema_ = source.schema
            estimator.feature_names_in_ = np.array(source.schema.names, dtype=object)
            estimator.n_features_in_ = len(source.schema.names)
        else:
            estimator.__dict__.pop("schema_", None)
            estimator.__dict__.pop("feature_names_in_", None)
            estimator.n_features_in_ = source.width
        if estimator.accepts_images:
            estimator._event_shape = source.event_shape if len(source.event_shape) > 1 else None
        first = self._convert(*source.read(0))
        kind = "frame" if source.schema is not None else "numpy"
        self.origin = Origin(kind, str(first.X.dtype).removeprefix("torch."))
        estimator._fit_origin = replace(self.origin)

    def _convert(self, X: np.ndarray, y: np.ndarray | None) -> Batch:
        """One block of a source as checked tensors."""
        tensor = from_numpy(X if X.dtype in (np.float32, np.float64) else X.astype(np.float64))
        estimator = self._estimator
        with speaking(estimator, "fit"):
            if not self._missing and not bool(torch.isfinite(tensor).all()):
                column = int((~torch.isfinite(tensor)).any(0).nonzero()[0])
                raise InvalidInput(f"the source contains NaN or infinity in column {column}; impute or drop those rows")
            if self._target == "labels" and self.classes is not None and y is not None:
                return Batch(tensor, from_numpy(np.searchsorted(self.classes, y)))
            if self._target == "numbers" and y is not None:
                return Batch(tensor, check_targets(y, len(tensor)))
        return Batch(tensor)

    def feed(self, *, prepare: Prepare | None = None, **order: Unpack[Order]) -> Feed:
        """Batches for the loop. prepare: what to do with rows before they are learned from (types, scales)."""
        ready = prepare or _as_is
        if self.data is not None:
            return ArrayFeed(ready(self.data), origin=self.data, **order)
        return SourceFeed(self._needs_source(), lambda X, y: ready(self._convert(X, y)), **order)

    def hold_out(self, fraction: float, seed: int) -> tuple[Intake, Batch]:
        """The training part and a random held-out part of in-memory data."""
        if self.data is None:
            raise InvalidInput("early stopping with a held-out fraction needs data in memory; use fraction=0")
        held = max(1, round(fraction * self.rows))
        if held >= self.rows:
            raise InvalidInput(f"early stopping cannot hold out {held} of {self.rows} rows; use fraction=0")
        order = torch.from_numpy(np_generator(seed, "hold-out").permutation(self.rows))
        pick = [_rows(self.data, part.sort().values) for part in (order[held:], order[:held])]
        rest = object.__new__(Intake)
        rest.__dict__.update(self.__dict__)
        rest.data, rest.rows = pick[0], self.rows - held
        return rest, pick[1]

    def sample(self, n: int, seed: int) -> Batch:
        """Up to ``n`` rows drawn uniformly, in their order; all rows when there are no more."""
        if self.data is not None:
            if n >= self.rows:
                return self.data
            chosen = np.sort(np_generator(seed, "sample").choice(self.rows, n, replace=False))
            return _rows(self.data, torch.from_numpy(chosen))
        source = self._needs_source()
        return self._convert(*source.sample(min(n, source.rows), seed))

    def _needs_source(self) -> Source:
        if self.source is None:
            raise InvalidInput("there is neither an array nor a source")
        return self.source


def _as_is(batch: Batch) -> Batch:
    return batch


def _rows(batch: Batch, chosen: Tensor) -> Batch:
    return batch.map(lambda t: t[chosen.to(t.device)])


def _source_of(X: Any, y: Any) -> Source | None:
    """A source when ``X`` is a path, a source or an iterator; ``y`` may name its target column."""
    if isinstance(X, (str, Path)):
        if y is not None and not isinstance(y, (str, int)):
            raise InvalidInput("X is a file, so y must be the name of its target column")
        return scan(X, target=y)
    return as_source(X)
