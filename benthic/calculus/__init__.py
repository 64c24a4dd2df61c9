"""Derivatives of functions, traces and divergences of fields, and linear operators with their adjoints."""

from __future__ import annotations

from benthic.base.lazy import lazy

_EXPORTS = {
    "AdjointCheck": "benthic.calculus.adjoints",
    "LinearOperator": "benthic.calculus.adjoints",
    "OneSided": "benthic.calculus.derivatives",
    "Subdifferential": "benthic.calculus.derivatives",
    "TraceEstimate": "benthic.calculus.fields",
    "check_adjoint": "benthic.calculus.adjoints",
    "curl": "benthic.calculus.fields",
    "directional_derivatives": "benthic.calculus.derivatives",
    "divergence": "benthic.calculus.fields",
    "divergence_operator": "benthic.calculus.grids",
    "fourier_operator": "benthic.calculus.grids",
    "gradient": "benthic.calculus.derivatives",
    "gradient_operator": "benthic.calculus.grids",
    "hessian": "benthic.calculus.derivatives",
    "hvp": "benthic.calculus.derivatives",
    "identity_operator": "benthic.calculus.adjoints",
    "interpolation_operator": "benthic.calculus.grids",
    "jacobian": "benthic.calculus.derivatives",
    "jvp": "benthic.calculus.derivatives",
    "laplacian": "benthic.calculus.fields",
    "laplacian_operator": "benthic.calculus.grids",
    "matrix_operator": "benthic.calculus.adjoints",
    "per_example_gradients": "benthic.calculus.derivatives",
    "probes": "benthic.calculus.fields",
    "splatting_operator": "benthic.calculus.grids",
    "subdifferential": "benthic.calculus.derivatives",
    "trace_estimate": "benthic.calculus.fields",
    "value_and_gradient": "benthic.calculus.derivatives",
    "vjp": "benthic.calculus.derivatives",
}

__all__ = [*_EXPORTS]

__getattr__, __dir__ = lazy(__name__, _EXPORTS)
