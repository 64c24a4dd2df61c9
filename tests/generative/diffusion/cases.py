"""Processes that end in nearly pure noise, and laws with known scores, on which solvers are proved."""

from __future__ import annotations

import torch

from benthic.generative.diffusion import (
    VE,
    VP,
    AddedNoise,
    CosineVP,
    DiscreteChain,
    StraightPath,
    SubVP,
)
from benthic.generative.poisson import PoissonPath

GAUSSIAN = {
    "vp": VP(),
    "cosine": CosineVP(),
    "subvp": SubVP(),
    "ve": VE(),
    "edm": AddedNoise(),
    "straight": StraightPath(),
    "chain": DiscreteChain(1000),
    "cosine_chain": DiscreteChain(1000, "cosine"),
}
POISSON = {"pfgm++": PoissonPath(), "pfgm": PoissonPath(dimensions=1.0)}
ALL = {**GAUSSIAN, **POISSON}
SMOOTH = {name: process for name, process in GAUSSIAN.items() if "chain" not in name}

# Two Gaussians of different weight, width and direction.
MIXTURE = (
    [0.3, 0.7],
    [[-2.0, 0.0], [1.0, 1.0]],
    [[[0.3, 0.1], [0.1, 0.2]], [[0.2, 0.0], [0.0, 0.4]]],
)
LINE = ([0.4, 0.6], [[-1.5], [1.0]], [[[0.2]], [[0.3]]])
NORMAL = ([1.0], [[0.7]], [[[0.5]]])


def inner_times(process, count, low=0.02, high=0.95):
    """Times inside of a process."""
    return process.t_min + (process.t_max - process.t_min) * torch.linspace(low, high, count, dtype=torch.float64)
