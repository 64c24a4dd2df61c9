"""What every map of rows shares: the places it found, and their picture."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from benthic.base.capabilities import to_numpy
from benthic.base.estimator import Estimator
from benthic.manifold.picture import draw_plane


class _Places(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Estimator):
    """Base of models that find a place for each row they are fitted on; ``fit`` sets ``_places`` (n, k)."""

    n_components: int
    _places: Tensor

    @abstractmethod
    def _merit(self) -> tuple[str, float]:
        """The name and value of the number that says how good the map is."""

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """``fit``, then the places of the rows."""
        self.fit(X, y)
        return self._fit_origin.mirror(self._places)

    def _facts(self) -> dict[str, Any]:
        name, value = self._merit()
        return {"rows": len(self._places), "dimensions": self.n_components, **self._more_facts(), name: value}

    def _more_facts(self) -> dict[str, Any]:
        return {}

    def plot(self, labels: Any = None) -> Any:
        """The places in their first two dimensions, by label if given."""
        check_is_fitted(self)
        name, value = self._merit()
        shown = None if labels is None else np.asarray(to_numpy(labels))
        return draw_plane(self._places.numpy(), shown, f"{name} {value:.3f}")
