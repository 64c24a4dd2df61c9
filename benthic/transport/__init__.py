"""Moving mass at least cost: Wasserstein distances, Sinkhorn, barycenters, displacement interpolation."""

from __future__ import annotations

from benthic.base.lazy import lazy

_EXPORTS = {
    "Discrete": "benthic.transport.line",
    "Estimate": "benthic.base.estimate",
    "Exact": "benthic.transport.program",
    "GaussianLaw": "benthic.transport.gaussian",
    "PointCloud": "benthic.transport.costs",
    "Transport": "benthic.transport.entropic",
    "barycenter": "benthic.transport.centers",
    "barycenter_1d": "benthic.transport.line",
    "bures_wasserstein": "benthic.transport.gaussian",
    "displacement": "benthic.transport.paths",
    "displacement_1d": "benthic.transport.line",
    "exact": "benthic.transport.program",
    "free_support_barycenter": "benthic.transport.centers",
    "gaussian_barycenter": "benthic.transport.gaussian",
    "gaussian_displacement": "benthic.transport.gaussian",
    "gaussian_map": "benthic.transport.gaussian",
    "max_sliced": "benthic.transport.slices",
    "plot_displacement": "benthic.transport.paths",
    "sinkhorn": "benthic.transport.entropic",
    "sinkhorn_divergence": "benthic.transport.debiased",
    "sliced": "benthic.transport.slices",
    "wasserstein": "benthic.transport.program",
    "wasserstein_1d": "benthic.transport.line",
    "wasserstein_between": "benthic.transport.line",
    "wasserstein_from_cdf": "benthic.transport.line",
}

__all__ = [*_EXPORTS]

__getattr__, __dir__ = lazy(__name__, _EXPORTS)
