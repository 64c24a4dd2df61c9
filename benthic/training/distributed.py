"""Several processes as one: what they exchange is a sum.

``torchrun --nproc-per-node N script.py`` starts them; every process calls ``fit`` with the same data and
works on its share of each batch.
"""

from __future__ import annotations

import atexit
import os
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from benthic.training.learner import Stats


@dataclass(frozen=True)
class World:
    """This process among its peers."""

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        """Whether this is the process that writes and speaks."""
        return self.rank == 0

    def share(self, rows: int) -> slice:
        """This process's part of ``rows`` rows; the parts are disjoint, in order, and cover all."""
        return slice(rows * self.rank // self.size, rows * (self.rank + 1) // self.size)

    def sum_stats(self, stats: Stats) -> Stats:
        """The statistics added over all processes, exchanged as one float64 buffer."""
        if self.size == 1:
            return stats
        values = list(stats.sums.values())
        device = values[0].device if values else torch.device("cpu")
        weight = torch.tensor([stats.weight], dtype=torch.float64, device=device)
        flat = torch.cat([weight, *(v.detach().reshape(-1).to(torch.float64) for v in values)])
        dist.all_reduce(flat)
        parts = flat[1:].split([v.numel() for v in values])
        sums = {
            name: part.reshape(value.shape).to(value.dtype)
            for (name, value), part in zip(stats.sums.items(), parts, strict=True)
        }
        return Stats(float(flat[0]), sums)

    def gather(self, value: Any) -> list[Any]:
        """The values of all processes, in order of rank."""
        if self.size == 1:
            return [value]
        held: list[Any] = [None] * self.size
        dist.all_gather_object(held, value)
        return held

    def agree(self, flag: bool) -> bool:
        """Whether any process says yes."""
        return any(self.gather(flag)) if self.size > 1 else flag

    def wait(self) -> None:
        """Until every process is here."""
        if self.size > 1:
            dist.barrier()


def join(device: torch.device) -> World:
    """This process's place among those ``torchrun`` started; alone without it."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if dist.is_available() and dist.is_initialized():
        return World(dist.get_rank(), dist.get_world_size())
    if size == 1 or "RANK" not in os.environ or not dist.is_available():
        return World()
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    atexit.register(_leave)
    return World(dist.get_rank(), dist.get_world_size())


def _leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def local_device(device: torch.device) -> torch.device:
    """The CUDA device of this process on its machine; other devices as they are."""
    rank = os.environ.get("LOCAL_RANK")
    if rank is None or str(device) != "cuda":
        return device
    return torch.device("cuda", int(rank))


def broadcast(tensor: Tensor, world: World) -> Tensor:
    """The first process's tensor, everywhere."""
    if world.size > 1:
        dist.broadcast(tensor, 0)
    return tensor
