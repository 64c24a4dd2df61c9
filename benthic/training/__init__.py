"""The engine: one loop over additive statistics, its settings, checkpoints, callbacks and processes."""

from __future__ import annotations

from benthic.base.lazy import lazy

_EXPORTS = {
    "Callback": "benthic.training.callbacks",
    "Checkpoint": "benthic.training.trainer",
    "EarlyStopping": "benthic.training.trainer",
    "JsonLog": "benthic.training.callbacks",
    "Learner": "benthic.training.learner",
    "Loop": "benthic.training.loop",
    "Stats": "benthic.training.learner",
    "TensorBoard": "benthic.training.callbacks",
    "Trainer": "benthic.training.trainer",
    "find_lr": "benthic.training.finder",
}

__all__ = [*_EXPORTS]

__getattr__, __dir__ = lazy(__name__, _EXPORTS)
