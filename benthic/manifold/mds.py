"""Multidimensional scaling: places whose distances are like those given."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from benthic.base.arrays import Origin
from benthic.base.errors import InvalidInput
from benthic.base.seeds import generator, seed_of
from benthic.base.settings import one_of, whole
from benthic.base.validation import speaking
from benthic.kernels.distances import pairwise
from benthic.manifold.places import _Places
from benthic.manifold.scaling import Classical, Smacof, classical, classical_place, smacof, smacof_place, stress
from benthic.training.intake import Intake

_METHODS = ("metric", "classical")


class MDS(_Places):
    r"""Points in few dimensions whose distances are like those of the rows.

    .. math:: \min_Y \sum_{i<j} (\delta_{ij} - \|y_i - y_j\|)^2

    ``metric`` minimizes this stress by majorization (SMACOF; de Leeuw, 1977) from the classical solution and from
    random starts; ``classical`` (Torgerson, 1952) takes eigenvectors of the centered squared distances, which is
    exact for Euclidean distances that fit, and then the same as PCA.

    n_components: dimensions of the map. method: ``"metric"`` or ``"classical"``. metric: name of a distance of
    ``benthic.kernels.pairwise``, a function of two tensors, or ``"precomputed"`` if X is a matrix of distances.
    n_init: starts of ``metric``; the first is the classical solution. max_iter, tol: steps of a start, and the
    relative fall of stress at which it ends.

    Learned: ``embedding_`` (n, k), ``stress_``, ``normalized_stress_`` (Kruskal's stress-1: 0 is perfect, above 0.2
    poor), ``stress_path_`` (never rising), ``n_iter_``. New rows are placed among the old ones, which stay.

    >>> X = np.random.default_rng(0).normal(size=(20, 2))
    >>> model = MDS(2, random_state=0).fit(X)
    >>> model.normalized_stress_ < 1e-3
    True
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        method: str = "metric",
        metric: Any = "euclidean",
        n_init: int = 4,
        max_iter: int = 300,
        tol: float = 1e-6,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.method = method
        self.metric = metric
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    # -- learning ------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Place rows ``X`` (n, d), or the points of a matrix of distances (n, n).

        y: ignored; for a file, a column to leave out.
        """
        with speaking(self, "fit"):
            self._check_settings()
        intake = Intake(self, X, y if isinstance(X, (str, Path)) else None)
        tensor, origin = intake.sample(intake.rows, 0).X, intake.origin
        with speaking(self, "fit"):
            D = self._distances(tensor.double(), None)
            found = self._placed(D)
        self._keep(found, D, tensor, origin)
        return self

    def _placed(self, D: Tensor) -> Tensor:
        """The best places found, (n, k)."""
        first = classical(D, self.n_components)
        self._of_classical(first)
        if self.method == "classical":
            self.stress_path_, self.n_iter_ = np.array([float(stress(D, first.places))]), 1
            return first.places
        best: Smacof | None = None
        source = generator(seed_of(self.random_state), "mds")
        scale = float(D.square().mean().sqrt()) or 1.0
        for number in range(self.n_init):
            noise = torch.randn(D.shape[0], self.n_components, generator=source, dtype=torch.float64).to(D)
            start = first.places + 1e-6 * scale * noise if number == 0 else scale * noise
            found = smacof(D, start, max_iter=self.max_iter, tol=self.tol)
            if best is None or found.path[-1] < best.path[-1] * (1 - 1e-9):
                best = found
        if best is None:
            raise self._fail("fit", "n_init must be at least 1")
        if not best.converged:
            warnings.warn(
                f"MDS.fit: the stress still fell after {self.max_iter} steps; raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=3,
            )
        self.stress_path_, self.n_iter_ = np.array(best.path), len(best.path) - 1
        return best.places

    def _of_classical(self, found: Classical) -> None:
        """Keep what places new points by classical scaling, and how Euclidean the distances were."""
        self._directions, self._means = found.directions.cpu(), found.means.cpu()
        self._mean = float(found.mean)
        self.eigenvalues_ = found.values.cpu().numpy()

    def _keep(self, places: Tensor, D: Tensor, rows: Tensor, origin: Origin) -> None:
        self.embedding_ = origin.mirror(places)
        self._places = places.cpu()
        self._rows = None if self.metric == "precomputed" else rows.cpu()
        self._n_features_out = self.n_components
        self.stress_ = float(stress(D, places))
        total = float(D.square().sum()) / 2
        self.normalized_stress_ = math.sqrt(self.stress_ / total) if total > 0 else 0.0

    def _distances(self, X: Tensor, Y: Tensor | None) -> Tensor:
        """Distances of rows to each other, or to the rows fitted on; checked if they are given."""
        if self.metric != "precomputed":
            return pairwise(X, X if Y is None else Y, metric=self.metric).double()
        columns = X.shape[0] if Y is None else len(self._places)
        if X.shape[1] != columns:
            raise InvalidInput(f"X has shape {tuple(X.shape)}; with metric='precomputed' it is a matrix of distances")
        if bool((X < 0).any()):
            raise InvalidInput("X has negative distances; they must be at least 0")
        if Y is None and float((X - X.T).abs().max()) > 1e-8 * max(float(X.max()), math.ulp(0.0)):
            raise InvalidInput("X is not symmetric; the distance from i to j must be that from j to i")
        return X

    def _check_settings(self) -> None:
        for name in ("n_components", "n_init", "max_iter"):
            whole(name, getattr(self, name))
        one_of("method", self.method, _METHODS)

    # -- use -----------------------------------------------------------------------------------------------

    def transform(self, X: Any) -> Any:
        """Places of rows among those fitted on, (n, k); a row that was fitted on gets its own place."""
        tensor, origin = self._arrive(X, "transform")
        wide = tensor.double()
        with speaking(self, "transform"):
            D = self._distances(wide, wide.new_zeros(0) if self._rows is None else self._rows.to(wide))
        places = self._places.to(wide)
        kept = Classical(places, self._directions, self._means, torch.tensor(self._mean), places.new_zeros(0))
        new = classical_place(kept, D)
        if self.method == "metric":
            new = smacof_place(places, D, new)
            least, at = D.min(1)
            new = torch.where((least == 0)[:, None], places[at], new)
        return origin.mirror(new)

    def _merit(self) -> tuple[str, float]:
        return "stress-1", self.normalized_stress_

    def _more_facts(self) -> dict[str, Any]:
        return {"stress": self.stress_}
