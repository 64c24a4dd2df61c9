"""How good a fitted model is: every number comes with its standard error over the rows judged."""

from __future__ import annotations

from benthic.base.lazy import lazy

_EXPORTS = {
    "Estimate": "benthic.base.estimate",
    "Measure": "benthic.metrics.judging",
    "accuracy": "benthic.metrics.classification",
    "auc": "benthic.metrics.classification",
    "judge": "benthic.metrics.judging",
    "log_likelihood": "benthic.metrics.density",
    "log_loss": "benthic.metrics.classification",
    "macro_auc": "benthic.metrics.classification",
    "mae": "benthic.metrics.regression",
    "mean_of": "benthic.base.estimate",
    "measures": "benthic.metrics.judging",
    "r2": "benthic.metrics.regression",
    "rmse": "benthic.metrics.regression",
}

__all__ = [*_EXPORTS]

__getattr__, __dir__ = lazy(__name__, _EXPORTS)
