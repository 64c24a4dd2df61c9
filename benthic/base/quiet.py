"""Warnings set aside for a block, and modules imported without a trace."""

from __future__ import annotations

import importlib
import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from benthic.base.threads import Together

_FILTERS = Together(warnings.catch_warnings)


@contextmanager
def quiet(category: type[Warning] = Warning, message: str = "") -> Iterator[None]:
    """Set warnings aside inside the block; when the last thread has left its block, the filters are as they were.

    message: a regular expression for how they begin.
    """
    with _FILTERS:
        warnings.filterwarnings("ignore", message, category)
        yield


@cache
def load(name: str) -> Any:
    """A module, whose import draws from Python's own generator or adds filters of warnings: these are put back."""
    state = random.getstate()
    with _FILTERS:
        module = importlib.import_module(name)
    random.setstate(state)
    return module
