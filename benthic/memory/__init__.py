"""Associative memories: patterns that are recalled from a part or a spoiled copy of themselves."""

from __future__ import annotations

from benthic.base.lazy import lazy

_EXPORTS = {
    "CapacityCurve": "benthic.memory.limits",
    "Hopfield": "benthic.memory.hopfield",
    "Recall": "benthic.memory.network",
    "capacity": "benthic.memory.limits",
    "capacity_curve": "benthic.memory.limits",
    "energy": "benthic.memory.network",
    "recall": "benthic.memory.network",
    "store": "benthic.memory.network",
}

__all__ = [*_EXPORTS]

__getattr__, __dir__ = lazy(__name__, _EXPORTS)
