"""One line of the catalogue, as plain data."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast


@dataclass(frozen=True)
class Entry:
    """One estimator: where it lives, what it is for, and a small setting for quick tests.

    given: the kinds of condition, ``labels`` and ``vectors``, that it learns as ``y`` and draws given.
    """

    name: str
    module: str
    family: str
    tasks: tuple[str, ...]
    data: tuple[str, ...]
    rows: tuple[str, ...]
    summary: str
    quick_params: Mapping[str, Any] = field(default_factory=dict)
    given: tuple[str, ...] = ()

    @property
    def cls(self) -> type:
        """The class itself; the first access imports its room."""
        return cast(type, getattr(importlib.import_module(self.module), self.name))

    def quick(self) -> Any:
        """An instance that fits 200 x 10 in well under a second and still learns."""
        return self.cls(**{name: _copy(value) for name, value in self.quick_params.items()})


def _copy(value: Any) -> Any:
    return dict(value) if isinstance(value, dict) else value
