"""Names of a package that are imported when first asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from benthic.base.errors import nearest


def lazy(package: str, exports: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` for a package. exports: from name to the module that has it."""

    def get(name: str) -> Any:
        if name in exports:
            return getattr(importlib.import_module(exports[name]), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}{nearest(name, exports)}")

    def names() -> list[str]:
        return sorted(exports)

    return get, names
