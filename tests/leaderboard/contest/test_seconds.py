"""Every generator trained by gradients obeys a budget of time alone, whatever its own number of updates is."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benthic.base.catalogue import catalogue
from benthic.training import clock
from benthic.training.loop import Loop

TICK = 0.01  # a look at the clock, of which there are a few in every update
GENERATORS = [
    entry.name
    for entry in catalogue().values()
    if "generate" in entry.tasks and "trainer" in entry.quick_params and "table" in entry.data
]


def _model(name: str, seconds: float) -> Any:
    model = catalogue()[name].quick()
    settings = {key: value for key, value in model.trainer.items() if key not in ("steps", "epochs")}
    return model.set_params(trainer={**settings, "seconds": seconds, "verbose": False}, random_state=0)


@pytest.mark.parametrize("name", GENERATORS)
def test_time_alone_ends_the_fit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    now = [0.0]
    run = Loop.run

    def tick() -> float:
        now[0] += TICK
        return now[0]

    def watched(self: Loop) -> Loop:
        seen.append(self.trainer)  # clusters that a model starts from run the loop too
        return run(self)

    monkeypatch.setattr(clock, "time", SimpleNamespace(perf_counter=tick))
    monkeypatch.setattr(Loop, "run", watched)
    X = np.random.default_rng(0).normal(size=(120, 3))
    y = np.arange(120) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so short a fit is not a good one, and some models say so
        _model(name, 0.3).fit(X, y)
    timed = [trainer for trainer in seen if trainer.seconds is not None]
    assert timed[-1].steps is None and timed[-1].epochs is None
    assert sum(trainer.seconds for trainer in timed) <= 0.3 + 1e-9
    assert now[0] < 3.0  # a few ticks a look; the default budgets would look thousands of times
