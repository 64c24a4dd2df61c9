"""One integer decides everything random; global random state is never touched."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

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


class _Streams(threading.local):
    """The generators that draws of this thread come from, one a device; none outside ``streams``."""

    seed: int = 0
    by_device: dict[torch.device, torch.Generator] | None = None


_OURS = _Streams()
_TURN = threading.RLock()


@contextmanager
def streams(seed: int, device: torch.device | str = "cpu") -> Iterator[None]:
    """Inside the block this thread has generators of its own, begun from ``seed``; training runs in here."""
    held = (_OURS.seed, _OURS.by_device)
    _OURS.seed, _OURS.by_device = seed, {}
    try:
        stream(device)
        yield
    finally:
        _OURS.seed, _OURS.by_device = held


def stream(device: torch.device | str) -> torch.Generator:
    """The generator that this thread draws from on a device; torch's own outside ``streams``."""
    place, made = torch.device(device), _OURS.by_device
    if made is None:
        return shared_sources(place).get(place.type, torch.default_generator)
    if str(place) == "cuda":
        place = torch.device("cuda", torch.cuda.current_device())
    if place.type == "meta":  # tensors without numbers, which are refused where they are read
        place = torch.device("cpu")
    if place not in made:
        made[place] = torch.Generator(place).manual_seed(_OURS.seed)
    return made[place]


def alike(x: torch.Tensor) -> dict[str, Any]:
    """Options with which torch draws in the type and place of ``x``, from the stream of this thread."""
    return {"generator": stream(x.device), "dtype": x.dtype, "device": x.device}


def normal_like(x: torch.Tensor) -> torch.Tensor:
    """Standard normal numbers of the shape, type and place of ``x``, from the stream of this thread."""
    return torch.empty_like(x).normal_(generator=stream(x.device))


def uniform_like(x: torch.Tensor) -> torch.Tensor:
    """Uniform numbers in [0, 1), likewise."""
    return torch.empty_like(x).uniform_(generator=stream(x.device))


class _Supplied(TorchFunctionMode):
    """Gives torch's own functions that draw the stream of their device, where they are given no generator."""

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _drawing() and kwargs.get("generator") is None:
            like = next((a for a in (*args, *kwargs.values()) if isinstance(a, torch.Tensor)), None)
            place = kwargs.get("device") or (torch.get_default_device() if like is None else like.device)
            kwargs = {**kwargs, "generator": stream(place)}
        return func(*args, **kwargs)


@cache
def _drawing() -> frozenset[Any]:
    """Torch's functions that draw and take a generator."""
    places = {
        torch: "rand randn randint randperm rand_like randn_like randint_like normal bernoulli multinomial poisson "
        "binomial _standard_gamma _sample_dirichlet",
        torch.Tensor: "normal_ uniform_ bernoulli_ bernoulli exponential_ random_ geometric_ cauchy_ log_normal_ "
        "multinomial",
        torch.nn.init: "uniform_ normal_ kaiming_uniform_ kaiming_normal_ xavier_uniform_ xavier_normal_",
    }
    return frozenset(getattr(place, name) for place, names in places.items() for name in names.split())


def supplied() -> AbstractContextManager[Any]:
    """Inside the block torch's own modules, as they are made, and laws draw from the streams of this thread.

    Every call of torch costs a little more here; what is done at each step of training names its generator instead.
    """
    return _Supplied()


@contextmanager
def drawing(seed: int, device: torch.device | str = "cpu") -> Iterator[None]:
    """Both: streams begun from ``seed``, and torch's modules and laws draw from them."""
    with streams(seed, device), supplied():
        yield


@contextmanager
def shared(seed: int, device: torch.device | str = "cpu") -> Iterator[None]:
    """Torch's own generators, begun from ``seed``, for modules that draw from them by themselves.

    One thread at a time; after the block they stand where they stood before.
    """
    place = torch.device(device)
    with _TURN, torch.random.fork_rng(devices=[place] if place.type == "cuda" else []):
        for drawn in shared_sources(place).values():
            drawn.manual_seed(seed)
        yield


def shared_sources(device: torch.device) -> dict[str, torch.Generator]:
    """Torch's own generators of the CPU and of a device."""
    found = {"cpu": torch.default_generator}
    if device.type == "cuda":
        place = torch.cuda.current_device() if str(device) == "cuda" else device.index
        found["cuda"] = torch.cuda.default_generators[place]
    return found


def sources(device: torch.device) -> dict[str, torch.Generator]:
    """The generators that this thread draws from, of the CPU and of a device."""
    return {name: stream(device if name == device.type else name) for name in shared_sources(device)}
