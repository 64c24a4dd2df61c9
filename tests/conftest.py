"""What holds for all tests."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from benthic.base import seeds
from benthic.base.settings import is_whole

SHIFT = int(os.environ.get("SHIFT") or 0)


def _shifted_seed_of(random_state: Any) -> int:
    """What `make test SHIFT=k` puts in the place of `seed_of`: every whole ``random_state`` is another seed."""
    seed = _seed_of(random_state)
    return seed + 1_000_003 * SHIFT if is_whole(random_state) else seed


# Before any other module of the package is imported: most of them import `seed_of` by name.
_seed_of = seeds.seed_of
if SHIFT:
    _shifted_seed_of.__doc__ = None  # the doctest of `seed_of` is about the seed itself
    seeds.seed_of = _shifted_seed_of


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With other seeds, leave out the tests that are about the seeds themselves."""
    if SHIFT:
        left_out = [item for item in items if item.get_closest_marker("seeds")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


_STATES: dict[ModuleType, list[tuple[np.random.Generator, dict[str, Any]]]] = {}


def pytest_collection_finish(session: pytest.Session) -> None:
    """Keep the state of each test module's own generators before any test draws from them."""
    for module in {getattr(item, "module", None) for item in session.items} - {None}:
        kept = [value for value in vars(module).values() if isinstance(value, np.random.Generator)]
        _STATES[module] = [(value, value.bit_generator.state) for value in kept]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test draws the same numbers alone, in any order and on any worker."""
    for drawn, state in _STATES.get(getattr(item, "module", None), ()):
        drawn.bit_generator.state = state


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays to the end, so the garbage collector need not look at its million objects again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
