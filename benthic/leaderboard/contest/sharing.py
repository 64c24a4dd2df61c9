"""One comparison by several machines or processes that ``torchrun`` started, through the folder they share.

Each does its part of the jobs and keeps the outcomes in the folder; then all read all of them, and come to the same
table.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from benthic.base.errors import InvalidInput
from benthic.leaderboard.contest import keeping
from benthic.leaderboard.contest.jobs import Job

_LOCAL = "LOCAL_RANK"
_OURS = ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT")
_PLACE = "BENTHIC_COMPARE_PLACE"  # rank and number of processes, while those of torchrun are put aside
_LOOK = 0.2  # seconds between two looks into the folder
_LONGEST = 3600.0  # seconds that one job of another process may take where the budget does not say


def place_of(surroundings: Mapping[str, str] = os.environ) -> tuple[int, int]:
    """Which of how many processes this is.

    >>> place_of({"RANK": "1", "WORLD_SIZE": "4"}), place_of({})
    ((1, 4), (0, 1))
    """
    known = surroundings.get(_PLACE)
    if known is not None:
        rank, world = known.split("/")
        return int(rank), int(world)
    return int(surroundings.get("RANK", "0")), int(surroundings.get("WORLD_SIZE", "1"))


@contextmanager
def apart() -> Iterator[None]:
    """What is fitted in this block is fitted by this process alone, though there are several."""
    rank, world = place_of()
    if world == 1:
        yield
        return
    before = dict(os.environ)
    try:
        for name in _OURS:
            os.environ.pop(name, None)
        os.environ[_PLACE] = f"{rank}/{world}"
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def check_shared(folder: object, tune: int = 0) -> None:
    """Refuse several processes without a folder between them, or that would each find settings of their own."""
    if place_of()[1] == 1:
        return
    if folder is None:
        raise InvalidInput("compare: several processes share the work through a folder; give folder (--out)")
    if tune:
        raise InvalidInput("compare: settings are searched for by one process; leave out tune, or torchrun")


def is_ours(number: int) -> bool:
    """Whether the job of this number falls to this process, whichever of the others are done already."""
    rank, world = place_of()
    return number % world == rank


def alone(surroundings: Mapping[str, str]) -> dict[str, str]:
    """The surroundings of a fit, which is done by one process and on one GPU.

    >>> alone({"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "HOME": "/h"})
    {'HOME': '/h', 'CUDA_VISIBLE_DEVICES': '1'}
    """
    kept = {name: value for name, value in surroundings.items() if name not in (*_OURS, _LOCAL, _PLACE)}
    if _LOCAL in surroundings:
        kept["CUDA_VISIBLE_DEVICES"] = _device(kept.get("CUDA_VISIBLE_DEVICES"), int(surroundings[_LOCAL]))
    return kept


def _device(visible: str | None, local: int) -> str:
    """The GPU of the process that is so many on its machine."""
    devices = visible.split(",") if visible else []
    return devices[local % len(devices)] if devices else str(local)


def wait_for(jobs: Sequence[Job], longest: float = math.inf) -> None:
    """Wait until other processes have kept the outcomes of their jobs, or for as long as those may take."""
    each = max((min(job.limit + 2 * job.patience, _LONGEST) for job in jobs), default=0.0)
    end = time.monotonic() + min(longest, len(jobs) * each) if jobs else -math.inf
    while time.monotonic() < end:
        if all(keeping.is_kept(job.folder) for job in jobs):
            return
        time.sleep(_LOOK)
