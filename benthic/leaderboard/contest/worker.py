"""A process that fits: it is sent the data once, then one job after another, until nobody asks any more."""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from dataclasses import replace
from multiprocessing.connection import Connection

import numpy as np


def main(incoming: int, outgoing: int, threads: int) -> None:
    """Serve jobs from one pipe and answer on the other; what models print goes nowhere.

    threads: of torch, 0 for its own choice.
    """
    threading.Thread(target=_leave_with, args=(os.getppid(),), daemon=True).start()
    asked, answers = Connection(incoming, writable=False), Connection(outgoing, readable=False)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.dup2(nowhere, sys.stderr.fileno())

    import torch

    from benthic.leaderboard.contest.jobs import do_job

    if threads:
        torch.set_num_threads(threads)
    answers.send(("ready", None))
    material, split = asked.recv()
    warm: set[str] = set()
    while True:
        try:
            job = asked.recv()
        except EOFError:
            return
        kind = type(job.contestant.model).__name__
        if kind not in warm:
            warm_up(kind)
            warm.add(kind)
        outcome = do_job(job, material, split, lambda stage: answers.send((stage, None)))
        answers.send(("done", replace(outcome, samples=None, likelihood=None, labels=None)))


def _leave_with(parent: int) -> None:
    """End this process when the one that started it is gone."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def warm_up(kind: str) -> None:
    """Fit a tiny model of the class, so that what is imported or compiled once is not counted in the first fit."""
    from benthic.base.catalogue import catalogue
    from benthic.leaderboard.contest.jobs import Caught

    if kind not in catalogue():
        return
    with Caught(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = catalogue()[kind].quick()
        settings = {"trainer__steps": 2, "trainer__verbose": False} if "trainer" in model.get_params() else {}
        rows = np.random.default_rng(0).normal(size=(40, 2))
        model.set_params(**settings).fit(rows, np.arange(40) % 2)
