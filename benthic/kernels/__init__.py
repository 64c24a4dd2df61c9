"""Covariance functions, distances and neighbors in blocks, and the maximum mean discrepancy with its test."""

from __future__ import annotations

from benthic.base.lazy import lazy

_EXPORTS = {
    "Constant": "benthic.kernels.covariance",
    "Gram": "benthic.kernels.gram",
    "Kernel": "benthic.kernels.kernel",
    "Laplace": "benthic.kernels.stationary",
    "Linear": "benthic.kernels.covariance",
    "LinearNetwork": "benthic.kernels.covariance",
    "MMDTest": "benthic.kernels.discrepancy",
    "Matern": "benthic.kernels.stationary",
    "Periodic": "benthic.kernels.stationary",
    "Polynomial": "benthic.kernels.covariance",
    "Product": "benthic.kernels.kernel",
    "RBF": "benthic.kernels.stationary",
    "RationalQuadratic": "benthic.kernels.stationary",
    "Sum": "benthic.kernels.kernel",
    "White": "benthic.kernels.covariance",
    "blocks": "benthic.kernels.points",
    "linear_mmd_test": "benthic.kernels.discrepancy",
    "median_distance": "benthic.kernels.distances",
    "mmd": "benthic.kernels.discrepancy",
    "mmd_squared": "benthic.kernels.discrepancy",
    "mmd_test": "benthic.kernels.discrepancy",
    "nearest": "benthic.kernels.neighbors",
    "pairwise": "benthic.kernels.distances",
    "squared_distances": "benthic.kernels.distances",
}

__all__ = [*_EXPORTS]

__getattr__, __dir__ = lazy(__name__, _EXPORTS)
