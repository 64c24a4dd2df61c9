"""What moves points: fields, and solvers of the differential equations they make."""

from __future__ import annotations

from benthic.base.lazy import lazy

_EXPORTS = {
    "Control": "benthic.dynamics.control",
    "Solution": "benthic.dynamics.solution",
    "SolveError": "benthic.dynamics.solution",
    "Tableau": "benthic.dynamics.tableau",
    "solve": "benthic.dynamics.ode",
}

__all__ = [*_EXPORTS]

__getattr__, __dir__ = lazy(__name__, _EXPORTS)
