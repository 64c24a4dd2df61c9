"""Gaussian processes: regression, classification, inducing points, and random fields on a grid."""

from __future__ import annotations

from benthic.base.lazy import lazy

_EXPORTS = {
    "Evidence": "benthic.gp.evidence",
    "GaussianProcessClassifier": "benthic.gp.classifier",
    "GaussianProcessRegressor": "benthic.gp.regressor",
    "LeaveOneOut": "benthic.gp.evidence",
    "collapsed_bound": "benthic.gp.sparse",
    "greedy_inducing": "benthic.gp.sparse",
    "laplace_mode": "benthic.gp.laplace",
    "random_field": "benthic.gp.fields",
}

__all__ = [*_EXPORTS]

__getattr__, __dir__ = lazy(__name__, _EXPORTS)
