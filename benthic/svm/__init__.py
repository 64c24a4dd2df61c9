"""Support vector machines: margins, kernels, and a certificate that the optimum was reached."""

from __future__ import annotations

from benthic.base.lazy import lazy

_EXPORTS = {
    "LinearSVC": "benthic.svm.linear",
    "SVC": "benthic.svm.classifier",
    "SVR": "benthic.svm.regressor",
}

__all__ = [*_EXPORTS]

__getattr__, __dir__ = lazy(__name__, _EXPORTS)
