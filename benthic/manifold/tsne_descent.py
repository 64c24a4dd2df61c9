"""The descent of t-SNE: exaggerated attraction first, then the divergence itself."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.manifold import tsne_loops
from benthic.manifold.tsne_device import OnDevice
from benthic.manifold.tsne_forces import in_parts, repulsion_of

_LOOK = 50  # steps between looks at the divergence
_EARLY, _LATE = 0.5, 0.8  # momentum in the two parts


class Schedule(NamedTuple):
    """Learning rates of the two parts, exaggeration, its steps, all steps, and the slope that ends the descent."""

    rate: float
    late_rate: float
    exaggeration: float
    early: int
    steps: int
    least_slope: float


class Found(NamedTuple):
    """Places (n, k), their divergence, what it was every 50 steps, and the steps made."""

    places: Tensor
    divergence: float
    path: list[float]
    steps: int


class OnProcessor:
    """Forces by compiled loops; places are (k, n) arrays in single precision."""

    def __init__(self, edges: tuple[np.ndarray, np.ndarray, np.ndarray], method: str, n: int, k: int) -> None:
        self._starts, self._columns, values = edges
        self._values, self._p = values.astype(np.float32), values
        self._repulsion = repulsion_of(method, n, k)
        self._pull, self._push = np.empty((2, k, n), dtype=np.float32)

    def slope(self, places: np.ndarray, exaggeration: float) -> np.ndarray:
        """The gradient of the divergence, (k, n)."""
        edges = (self._starts, self._columns, self._values)
        in_parts(lambda a, b: tsne_loops.attract(places, *edges, a, b, self._pull), places.shape[1])
        total = self._repulsion(places, self._push)
        return 4 * (np.float32(exaggeration) * self._pull - self._push / np.float32(total))

    def divergence(self, places: np.ndarray) -> float:
        """KL(P | Q) in nats."""
        total = self._repulsion(places, self._push)
        edges = (self._starts, self._columns, self._p)
        sums = in_parts(lambda a, b: tsne_loops.divergence(places, *edges, a, b), places.shape[1])
        return float(sum(sums) + self._p.sum() * np.log(total))

    @staticmethod
    def advance(places: Any, slope: Any, speed: Any, gain: Any, rate: float, momentum: float) -> None:
        """One step of descent with momentum and gains."""
        tsne_loops.advance(places, slope, speed, gain, np.float32(rate), np.float32(momentum))


@np.errstate(all="ignore")  # places that fly apart are refused in words
def descend(start: Tensor, edges: tuple[np.ndarray, ...], schedule: Schedule, method: str, progress: Any) -> Found:
    """Minimize the divergence from places ``start`` (n, k), on their device.

    edges: starts of rows, columns and values of the symmetric probabilities. progress: is shown the divergence.
    """
    forces: Any
    places: Any
    n, k = start.shape
    if start.device.type == "cpu":
        forces, places = OnProcessor(edges, method, n, k), start.T.contiguous().numpy().copy()
        speed, gain = np.zeros_like(places), np.ones_like(places)
    else:
        forces = OnDevice(*(torch.from_numpy(part).to(start.device) for part in edges))
        places = start.T.contiguous().clone()
        speed, gain = torch.zeros_like(places), torch.ones_like(places)
    path: list[float] = []
    step = 0
    for step in range(1, schedule.steps + 1):
        early = step <= schedule.early
        slope = forces.slope(places, schedule.exaggeration if early else 1.0)
        rate, momentum = (schedule.rate, _EARLY) if early else (schedule.late_rate, _LATE)
        forces.advance(places, slope, speed, gain, rate, momentum)
        if step % _LOOK == 0 or step == schedule.steps:
            path.append(forces.divergence(places))
            if not math.isfinite(path[-1]):
                raise InvalidInput(
                    f"after {step} steps the places are too far apart for single precision; lower early_exaggeration "
                    f"({schedule.exaggeration:g}) or learning_rate ({schedule.rate:g})"
                )
            if progress.due():
                progress.show(step, schedule.steps, path[-1], 0)
            if not early and _length(slope) <= schedule.least_slope:
                break
    found = torch.as_tensor(places).T.contiguous()
    return Found(found, path[-1], path, step)


def _length(slope: Any) -> float:
    return float(torch.as_tensor(slope).norm())
