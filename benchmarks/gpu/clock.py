"""Seconds of work on a device."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch


def seconds(work: Callable[[], Any], repeats: int = 5, device: str = "cuda") -> float:
    """Median wall time after one warm-up, with the device synchronized."""
    wait = torch.cuda.synchronize if device.startswith("cuda") else (lambda: None)
    work()
    times = []
    for _ in range(repeats):
        wait()
        start = time.perf_counter()
        work()
        wait()
        times.append(time.perf_counter() - start)
    return statistics.median(times)
