"""One integer decides everything random; global random state is never touched."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from benthic.base.errors import InvalidInput, shown
from benthic.base.settings import is_whole


def seed_of(random_state: Any) -> int:
    """An integer seed from scikit-learn's ``random_state``: None is fresh entropy, an int is itself.

    A ``RandomState`` or ``Generator`` is drawn from, so it advances as it would in scikit-learn.

    >>> seed_of(3)
    3
    """
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(2, np.uint32).view(np.uint64)[0] >> 1)
    if is_whole(random_state):
        if not 0 <= random_state < 2**63:
            raise InvalidInput(
                f"random_state is {shown(random_state)}; it must be a non-negative integer below 2**63, or None"
            )
        return int(random_state)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(0, 2**31 - 1))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(0, 2**62))
    raise InvalidInput(f"random_state is {random_state!r}; it must be None, an integer, a RandomState or a Generator")


def derive(seed: int, *path: str | int) -> int:
    """A child seed that depends on the seed and a path of names, so streams never share numbers.

    >>> derive(0, "shuffle", 1) != derive(0, "shuffle", 2)
    True
    """
    words = [zlib.crc32(part.encode()) if isinstance(part, str) else int(part) for part in path]
    state = np.random.SeedSequence([seed, *words]).generate_state(2, np.uint32)
    return int(state.view(np.uint64)[0] >> 1)


def generator(seed: int, *path: str | int, device: torch.device | str = "cpu") -> torch.Generator:
    """A torch generator for the stream named by ``path`` below ``seed``."""
    return torch.Generator(device=device).manual_seed(derive(seed, *path))


def np_generator(seed: int, *path: str | int) -> np.random.Generator:
    """A NumPy generator for the stream named by ``path`` below ``seed``."""
    return np.random.default_rng(derive(seed, *path))


@contextmanager
def forked(seed: int, device: torch.device | str = "cpu") -> Iterator[None]:
    """Seed torch's default generators inside the block and restore them after it.

    Dropout and module initialization read the default generators, so training runs in here.
    """
    device = torch.device(device)
    devices = []
    if device.type == "cuda":
        devices = [torch.cuda.current_device() if str(device) == "cuda" else device.index]
    with torch.random.fork_rng(devices=devices):
        torch.default_generator.manual_seed(seed)
        for index in devices:
            torch.cuda.default_generators[index].manual_seed(seed)
        yield
