"""One fit in a process of its own: what is imported or compiled once is not counted in it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from benthic.leaderboard.contest.jobs import Caught, Job, do_job
from benthic.leaderboard.contest.material import Material
from benthic.leaderboard.contest.protocol import Split
from benthic.leaderboard.contest.records import Outcome

_WARM: set[str] = set()


def fit_one(job: Job, shared: tuple[Material, Split], say: Callable[[str], None]) -> Outcome:
    """Do a job; what is large of its outcome stays in its folder."""
    warm_once(job.contestant.model)
    say("fit")
    outcome = do_job(job, *shared, say)
    return replace(outcome, samples=None, likelihood=None, labels=None)


def warm_once(model: Any) -> None:
    """Warm up for models of this class, unless that was done."""
    kind = type(model).__name__
    if kind not in _WARM:
        _WARM.add(kind)
        warm_up(kind)


def warm_up(kind: str) -> None:
    """Fit a tiny model of the class, so that what is imported or compiled once is not counted in the first fit."""
    from benthic.base.catalogue import catalogue

    if kind not in catalogue():
        return
    with Caught(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = catalogue()[kind].quick()
        settings = {"trainer__steps": 2, "trainer__verbose": False} if "trainer" in model.get_params() else {}
        rows = np.random.default_rng(0).normal(size=(40, 2))
        model.set_params(**settings).fit(rows, np.arange(40) % 2)
