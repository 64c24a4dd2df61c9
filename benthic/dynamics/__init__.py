"""What moves points: fields, and solvers of the differential equations they make."""

from __future__ import annotations

from benthic.base.lazy import lazy

_EXPORTS = {
    "BrownianPath": "benthic.dynamics.brownian",
    "Control": "benthic.dynamics.control",
    "Event": "benthic.dynamics.events",
    "LinearSystem": "benthic.dynamics.linear",
    "Recovery": "benthic.dynamics.recovery",
    "Solution": "benthic.dynamics.solution",
    "SolveError": "benthic.dynamics.solution",
    "Tableau": "benthic.dynamics.tableau",
    "phase_portrait": "benthic.dynamics.portrait",
    "recover": "benthic.dynamics.recovery",
    "reversed_in_time": "benthic.dynamics.sde",
    "solve": "benthic.dynamics.ode",
    "solve_sde": "benthic.dynamics.sde",
}

__all__ = [*_EXPORTS]

__getattr__, __dir__ = lazy(__name__, _EXPORTS)
