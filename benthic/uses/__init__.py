"""What a fitted density or generator is good for: filling gaps, finding oddities, drawing under conditions."""

from __future__ import annotations

from benthic.base.lazy import lazy

_EXPORTS = {
    "anomaly": "benthic.uses.strangeness",
}

__all__ = [*_EXPORTS]

__getattr__, __dir__ = lazy(__name__, _EXPORTS)
