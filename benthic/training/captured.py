"""Updates as CUDA graphs: all kernels of a step are launched together, and the host only says go."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from benthic.base.seeds import stream
from benthic.data.batch import Batch
from benthic.training.gradient import GradientLearner
from benthic.training.learner import Info, total_weight

_EAGER = 3  # steps of each kind taken as usual first, so that libraries have chosen kernels and workspaces
_KINDS = 16  # different phases and shapes of batches that are captured


class CapturedUpdates:
    """One update of a learner after another, replayed from graphs once each kind of batch has been seen.

    A kind is a phase and the shapes of a batch: the last batch of an epoch is often a smaller one. The first steps
    of a kind are taken as usual; they draw the same noise and make the same updates as replayed ones. A learner that
    cannot be captured (it waits for the device, or draws on the host) goes on as usual, with one warning.
    """

    def __init__(self, learner: GradientLearner, device: torch.device) -> None:
        self._learner = learner
        self._stream = torch.cuda.Stream(device)
        self._seen: dict[Any, int] = {}
        self._steps: dict[Any, _Step] = {}
        self._able = True

    def __call__(self, batch: Batch, phase: str, scale: float) -> Info:
        """Learn from one batch; scale: see ``Learner.statistics``."""
        kind = (phase, *((t.shape, t.dtype) for t in batch if t is not None))
        step = self._steps.get(kind)
        if step is not None:
            return step(batch, scale)
        self._seen[kind] = self._seen.get(kind, 0) + 1
        if self._able and self._seen[kind] > _EAGER and len(self._steps) < _KINDS:
            try:
                self._steps[kind] = _Step(self._learner, batch, phase, scale)
                return self._steps[kind](batch, scale)
            except RuntimeError as error:
                self._able = False
                cause = str(error).splitlines()[0]
                warnings.warn(f"the updates are not captured as a CUDA graph, which is slower: {cause}", stacklevel=2)
        return self._usual(batch, phase, scale)

    def _usual(self, batch: Batch, phase: str, scale: float) -> Info:
        here = torch.cuda.current_stream(self._stream.device)
        self._stream.wait_stream(here)
        with torch.cuda.stream(self._stream):
            self._learner.begin(phase)
            stats = self._learner.statistics(batch, phase, scale)
            info = self._learner.update(stats, phase, _no_second_pass)
        here.wait_stream(self._stream)
        return info


class _Step:
    """The update of one kind of batch as a graph, with the tensors it reads and writes."""

    def __init__(self, learner: GradientLearner, batch: Batch, phase: str, scale: float) -> None:
        self._batch = batch.map(torch.clone)
        self._scale = scale
        self._seed = torch.tensor(scale, device=batch.X.device)
        self._graph = torch.cuda.CUDAGraph()
        drawn = stream(batch.X.device)
        if drawn not in torch.cuda.default_generators:  # those are known to every graph
            self._graph.register_generator_state(drawn)
        learner.begin(phase)
        with torch.cuda.graph(self._graph):
            stats = learner.statistics(self._batch, phase, self._seed)
            self._loss = learner.update(stats, phase, _no_second_pass).loss

    def __call__(self, batch: Batch, scale: float) -> Info:
        for place, value in zip(self._batch, batch, strict=True):
            if isinstance(place, Tensor) and isinstance(value, Tensor):
                place.copy_(value)
        if scale != self._scale:
            self._seed.fill_(scale)
            self._scale = scale
        self._graph.replay()
        return Info(self._loss, weight=total_weight(batch))


def _no_second_pass(function: Any) -> Any:
    raise RuntimeError("a captured update asked for another pass over the data")
