"""A learned Mahalanobis distance: rows of one class near each other, others far."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from benthic.base.capabilities import to_numpy
from benthic.base.errors import InvalidInput
from benthic.base.estimator import Estimator
from benthic.base.seeds import np_generator, seed_of
from benthic.base.settings import whole
from benthic.base.validation import speaking
from benthic.kernels.distances import squared_distances
from benthic.manifold.picture import draw_plane
from benthic.manifold.spectrum import spectrum
from benthic.optim.minimizer import minimize
from benthic.training.intake import Intake

_PAIRS = 1 << 22  # pairs looked at in one block


class MahalanobisMetric(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Estimator):
    r"""A distance learned from labels, which is the Euclidean one after a linear map.

    .. math:: d(x, y)^2 = (x - y)^T M (x - y), \qquad M = J^T J

    J maximizes the expected number of rows whose stochastic nearest neighbor is of their class (neighborhood
    components; Goldberger et al., 2005). With fewer components than columns M has a null space, and d is only a
    pseudometric: different rows may be at distance zero. Without labels J whitens the data, so that d is
    Mahalanobis's own distance (1936).

    n_components: rows of J, all columns if None. max_iter, tol: of the search. max_rows: so many rows at most are
    learned from, drawn at random. Use it before anything that looks at distances:
    ``make_pipeline(MahalanobisMetric(), KNeighborsClassifier())``.

    Learned: ``components_`` (J, (k, d)), ``metric_`` (M, (d, d)), ``rank_``, ``objective_`` (the expected share of
    rows with a neighbor of their class), ``n_iter_``.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 2)) * [1.0, 30.0]
    >>> model = MahalanobisMetric().fit(X, X[:, 0] > 0)
    >>> bool(model.metric_[0, 0] > 100 * model.metric_[1, 1])
    True
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        max_iter: int = 50,
        tol: float = 1e-5,
        max_rows: int = 5000,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.max_iter = max_iter
        self.tol = tol
        self.max_rows = max_rows
        self.random_state = random_state

    # -- learning ------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows and labels, or from a file: ``fit(path, 'column')``; without labels, from rows alone."""
        with speaking(self, "fit"):
            self._check_settings()
        named = y is not None
        intake = Intake(self, X, y, target="labels" if named else "none")
        batch, origin = intake.sample(intake.rows, 0), intake.origin
        rows = batch.X.double()
        with speaking(self, "fit"):
            if self.n_components is not None and self.n_components > rows.shape[1]:
                raise InvalidInput(f"n_components={self.n_components} is more than the {rows.shape[1]} columns")
        J = self._whitening(rows)
        self.objective_, self.n_iter_ = float("nan"), 0
        if named and batch.y is not None:
            J = self._searched(rows, batch.y.to(rows.device), J)
        origin = replace(origin, dtype=origin.dtype if origin.dtype == "float64" else "float32")
        self.components_, self.metric_ = origin.mirror(J), origin.mirror(J.T @ J)
        self.rank_ = int(torch.linalg.matrix_rank(J))
        self._n_features_out = len(J)
        return self

    def _whitening(self, rows: Tensor) -> Tensor:
        """The leading directions, each over its standard deviation; empty ones are left at zero."""
        found = spectrum(rows, "full", None, 0)
        count = rows.shape[1] if self.n_components is None else self.n_components
        J = rows.new_zeros(count, rows.shape[1])
        some = min(count, len(found.variances))
        largest = max(float(found.variances[0]), 1e-300)
        scale = torch.where(found.variances > 1e-12 * largest, found.variances.clamp(min=1e-300).rsqrt(), 0.0)
        J[:some] = (found.directions * scale[:, None])[:some]
        return J

    def _searched(self, rows: Tensor, labels: Tensor, start: Tensor) -> Tensor:
        if len(rows) > self.max_rows:
            chosen = np_generator(seed_of(self.random_state), "metric").choice(len(rows), self.max_rows, replace=False)
            index = torch.from_numpy(np.sort(chosen)).to(rows.device)
            rows, labels = rows[index], labels[index]
        rows = rows - rows.mean(0)
        scale = rows.std(0, correction=0)
        scale = torch.where(scale > 0, scale, 1.0)
        unit = rows / scale  # the search sees columns of one size

        def loss(J: Tensor) -> tuple[Tensor, Tensor]:
            value, slope = _same_class(J, unit, labels)
            return -value / len(unit), -slope / len(unit)

        found = minimize(loss, start * scale, value_and_gradient=True, tol=self.tol, max_iter=self.max_iter)
        self.objective_, self.n_iter_ = -float(found.value), int(found.iterations)
        if not found.converged:
            warnings.warn(
                f"MahalanobisMetric.fit: the search stopped after {self.n_iter_} steps; raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=3,
            )
        return found.point / scale

    def _check_settings(self) -> None:
        for name in ("n_components", "max_iter", "max_rows"):
            whole(name, getattr(self, name), optional=name == "n_components")

    # -- use -----------------------------------------------------------------------------------------------

    def transform(self, X: Any) -> Any:
        """J x for each row, (n, k): Euclidean distances of these are the learned ones."""
        tensor, origin = self._arrive(X, "transform")
        wide = tensor if tensor.dtype == torch.float64 else tensor.float()
        return origin.mirror(wide @ torch.as_tensor(self.components_).to(wide).T)

    def distances(self, X: Any, Y: Any = None) -> Any:
        """Learned distances between rows of X (n, d) and of Y (m, d), or of X among themselves, (n, m)."""
        tensor, origin = self._arrive(X, "distances")
        other = tensor if Y is None else self._arrive(Y, "distances")[0].to(tensor)
        J = torch.as_tensor(self.components_).to(tensor.device, torch.float64)
        return origin.mirror(squared_distances(tensor.double() @ J.T, other.double() @ J.T).sqrt())

    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"components": self._n_features_out, "rank": self.rank_}
        if self.n_iter_:
            facts["neighbors of the same class"] = f"{100 * self.objective_:.1f} %"
        return facts

    def plot(self, X: Any = None, y: Any = None) -> Any:
        """Rows ``X`` in the first two components, by label ``y``; without rows, the weights of columns in them."""
        check_is_fitted(self)
        if X is None:
            return draw_plane(to_numpy(self.components_).T, None, "columns by their weights in two components")
        labels = None if y is None else np.asarray(to_numpy(y))
        return draw_plane(np.asarray(to_numpy(self.transform(X))), labels, "rows after the learned map")


def _same_class(J: Tensor, X: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    r"""The expected number of rows with a neighbor of their class, and its gradient by J.

    .. math:: \sum_i p_i, \quad p_i = \sum_{j: y_j = y_i} p_{ij}, \quad p_{ij} \propto e^{-\|J x_i - J x_j\|^2}
    """
    Z = X @ J.T
    value = X.new_zeros(())
    inner = X.new_zeros(X.shape[1], X.shape[1])
    step = max(1, _PAIRS // len(X))
    for top in range(0, len(X), step):
        rows = torch.arange(top, min(top + step, len(X)), device=X.device)
        D = squared_distances(Z[rows], Z)
        D[torch.arange(len(rows), device=X.device), rows] = torch.inf
        P = torch.softmax(-D, 1)
        same = P * (labels[rows][:, None] == labels[None, :])
        p = same.sum(1, keepdim=True)
        value += p.sum()
        A = p * P - same  # the slope of the value by D
        inner += (X[rows] * A.sum(1, keepdim=True)).T @ X[rows] + (X * A.sum(0)[:, None]).T @ X
        cross = X[rows].T @ A @ X
        inner -= cross + cross.T
    return value, 2 * J @ inner
