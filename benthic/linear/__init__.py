"""Models whose scores are linear in the features."""

from __future__ import annotations

from benthic.base.lazy import lazy

_EXPORTS = {
    "ElasticNet": "benthic.linear.lasso",
    "Lasso": "benthic.linear.lasso",
    "LinearRegression": "benthic.linear.regression",
    "LogisticRegression": "benthic.linear.logistic",
    "PenaltyPath": "benthic.linear.path",
    "Perceptron": "benthic.linear.perceptron",
    "PolynomialFeatures": "benthic.linear.polynomial",
    "Ridge": "benthic.linear.ridge",
    "Separation": "benthic.linear.separation",
    "ThresholdUnit": "benthic.linear.threshold",
    "enet_path": "benthic.linear.path",
    "find_unit": "benthic.linear.threshold",
    "lasso_path": "benthic.linear.path",
    "widest_margin": "benthic.linear.separation",
}

__all__ = [*_EXPORTS]

__getattr__, __dir__ = lazy(__name__, _EXPORTS)
