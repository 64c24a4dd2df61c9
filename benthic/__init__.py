"""Benthic: machine learning, all the way down.

Every model shares one contract; ``benthic.catalogue()`` lists them, ``benthic.VAE`` and its like are
imported when first named.
"""

from __future__ import annotations

import importlib
from typing import Any

from benthic.base.catalogue import RECORDS, catalogue, resolve
from benthic.base.errors import nearest

__version__ = "0.1.0"

_FUNCTIONS = {
    "Comparison": "benthic.leaderboard.contest.results",
    "compare": "benthic.leaderboard.contest.comparing",
    "load": "benthic.base.modelfile",
    "save": "benthic.base.modelfile",
}
_ROOMS = (
    "base",
    "pictures",
    "linalg",
    "calculus",
    "optim",
    "kernels",
    "distributions",
    "transport",
    "dynamics",
    "nets",
    "data",
    "metrics",
    "training",
    "samplers",
    "uses",
    "linear",
    "neighbors",
    "trees",
    "memory",
    "svm",
    "cluster",
    "chains",
    "topics",
    "mixture",
    "gp",
    "bayes",
    "manifold",
    "supervised",
    "generative",
    "leaderboard",
)

__all__ = ["__version__", "catalogue", *_FUNCTIONS, *RECORDS, *catalogue()]


def __getattr__(name: str) -> Any:
    if name in _FUNCTIONS:
        return getattr(importlib.import_module(_FUNCTIONS[name]), name)
    if name in RECORDS or name in catalogue():
        return resolve(name)
    if name in _ROOMS:
        return importlib.import_module(f"benthic.{name}")
    raise AttributeError(f"module 'benthic' has no attribute {name!r}{nearest(name, __all__)}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_ROOMS])
