"""What both k-nearest-neighbor predictors share: settings, stored rows, a tree over them, and the search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.arrays import Origin
from benthic.base.errors import InvalidInput, nearest
from benthic.base.estimator import Estimator
from benthic.base.settings import is_number, is_whole
from benthic.base.settings import whole as whole_number
from benthic.base.validation import speaking
from benthic.data.batch import Batch
from benthic.kernels.distances import METRICS, covariance_of
from benthic.kernels.neighbors import Tree, flat, plant, search, straight, treelike
from benthic.training.intake import Intake, Target

_ALIASES = {"l1": "manhattan", "cityblock": "manhattan", "l2": "euclidean", "infinity": "chebyshev"}
_ALGORITHMS = ("auto", "brute", "kd_tree")
_MATRICES = {"V": "covariance", "VI": "precision", "covariance": "covariance", "precision": "precision", "p": "p"}
_FEW_ROWS = 64  # rows below which a tree is not worth planting
# A tree is the faster way up to so many columns for each decimal digit of the number of rows: measured on normal data,
# where it and the products cross near 7 columns for 100 000 rows.
_TREE_COLUMNS = 1.4
_TAIL = 0.5  # rows added since the tree was planted, as a share of those in it, after which it is planted anew


@contextmanager
def whole(model: Estimator) -> Iterator[None]:
    """What happens inside happens wholly or, where it fails, not at all."""
    before = dict(model.__dict__)
    try:
        yield
    except (ValueError, TypeError):
        model.__dict__.clear()
        model.__dict__.update(before)
        raise


def taken(model: Estimator, X: Any, y: Any, target: Target, sample_weight: Any = None) -> tuple[Batch, Intake]:
    """All rows with their targets, from arrays, frames or a file."""
    intake = Intake(model, X, y, target=target, sample_weight=sample_weight)
    return intake.data or intake.sample(intake.rows, 0), intake


class _NeighborsModel(Estimator):
    """Rows kept as they are, and the search among them; subclasses say what to do with the neighbors."""

    def __init__(
        self,
        n_neighbors: int = 5,
        *,
        weights: Any = "uniform",
        algorithm: str = "auto",
        leaf_size: int = 16,
        p: float = 2,
        metric: Any = "minkowski",
        metric_params: Mapping[str, Any] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.weights = weights
        self.algorithm = algorithm
        self.leaf_size = leaf_size
        self.p = p
        self.metric = metric
        self.metric_params = metric_params
        self.n_jobs = n_jobs

    # -- settings --------------------------------------------------------------------------------------

    def _check_settings(self) -> None:
        self._check_count(self.n_neighbors)
        if not callable(self.weights) and self.weights not in ("uniform", "distance", None):
            hint = nearest(str(self.weights), ("uniform", "distance"))
            raise InvalidInput(f"weights is {self.weights!r}{hint}; use 'uniform', 'distance' or a function")
        if self.algorithm not in _ALGORITHMS:
            hint = nearest(str(self.algorithm), _ALGORITHMS)
            raise InvalidInput(f"algorithm is {self.algorithm!r}{hint}; use {', '.join(map(repr, _ALGORITHMS))}")
        whole_number("leaf_size", self.leaf_size)
        if not is_number(self.p) or not self.p > 0:
            raise InvalidInput(f"p is {self.p!r}; the power of a Minkowski distance must be positive")
        if self.n_jobs is not None and (not is_whole(self.n_jobs) or self.n_jobs == 0):
            raise InvalidInput(f"n_jobs is {self.n_jobs!r}; use a number of threads, -1 for all cores, or None")
        self._check_metric()

    def _check_metric(self) -> None:
        known = (*METRICS, *_ALIASES)
        if not callable(self.metric) and self.metric not in known:
            raise InvalidInput(
                f"metric is {self.metric!r}{nearest(str(self.metric), known)}; use {', '.join(METRICS)} or a function"
            )
        for name in self.metric_params or {}:
            if name not in _MATRICES:
                raise InvalidInput(
                    f"metric_params has {name!r}{nearest(str(name), _MATRICES)}; it may hold "
                    "'p', 'covariance' (V) or 'precision' (VI)"
                )
        if self.algorithm == "kd_tree" and not (not callable(self.metric) and treelike(self._name(), self._p())):
            raise InvalidInput(f"algorithm 'kd_tree' does not know the metric {self.metric!r}; use 'brute' or 'auto'")

    def _check_count(self, k: Any) -> None:
        if not is_whole(k):
            raise InvalidInput(f"n_neighbors is {k!r}; it must be a whole number of at least 1")
        if k < 1:
            raise InvalidInput(f"Expected n_neighbors > 0. Got {k}; take at least 1")

    def _name(self) -> Any:
        return _ALIASES.get(self.metric, self.metric) if isinstance(self.metric, str) else self.metric

    def _p(self) -> float:
        return float((self.metric_params or {}).get("p", self.p))

    def _options(self) -> dict[str, Any]:
        """What :func:`benthic.kernels.neighbors.search` is told about the metric."""
        if callable(self.metric):
            return {}
        given = {_MATRICES[name]: value for name, value in (self.metric_params or {}).items()}
        given["p"] = self._p()
        if self._name() == "mahalanobis" and "covariance" not in given and "precision" not in given:
            given["covariance"] = self.covariance_
        return given

    # -- rows ------------------------------------------------------------------------------------------

    def _store(self, rows: Tensor, origin: Origin, again: bool) -> None:
        """Keep rows, as arrays or tensors like those given, and plant a tree where it will pay."""
        if again:
            held = torch.as_tensor(self._fit_X)
            rows = torch.cat([held, rows.to(held.device, held.dtype)])
        keep = rows.clone() if not again else rows
        self._fit_X = keep if origin.kind == "torch" else keep.cpu().numpy()
        self.n_samples_fit_ = len(rows)
        if self._name() == "mahalanobis" and not {"V", "VI", "covariance", "precision"} & set(self.metric_params or {}):
            spread = covariance_of(rows.double(), rows[:0].double()) if len(rows) > 1 else None
            if spread is None:
                raise InvalidInput("one row has no covariance; give metric_params={'covariance': ...}")
            self.covariance_ = spread.cpu().numpy()
        self.effective_metric_ = self._effective()
        self._plant(rows, again)

    def _effective(self) -> Any:
        if self._name() == "minkowski":
            return {1.0: "manhattan", 2.0: "euclidean", float("inf"): "chebyshev"}.get(self._p(), "minkowski")
        return self._name()

    def _plant(self, rows: Tensor, again: bool) -> None:
        algorithm = self._algorithm(rows)
        old = getattr(self, "_tree", None) if again else None
        self.algorithm_ = algorithm
        if algorithm == "brute":
            self._tree = None
        elif old is None or len(rows) > (1 + _TAIL) * len(old["order"]) or self._name() == "mahalanobis":
            if not callable(self.metric) and straight(self._name(), self._p()):
                rows = flat(rows, rows, self.effective_metric_, self._options())[1]
            tree = plant(rows, int(self.leaf_size))
            self._tree = vars(tree).copy()

    def _algorithm(self, rows: Tensor) -> str:
        """A tree where it is the faster way: few columns for the number of rows."""
        n, d = rows.shape
        if self.algorithm != "auto":
            return self.algorithm
        possible = not callable(self.metric) and treelike(self._name(), self._p()) and rows.device.type == "cpu"
        return "kd_tree" if possible and n >= _FEW_ROWS and d <= _TREE_COLUMNS * np.log10(n) else "brute"

    # -- search ----------------------------------------------------------------------------------------

    def kneighbors(self, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True) -> Any:
        """The nearest stored rows: distances (n, k) ascending and their indices, or the indices alone.

        X: queries; when None, every stored row is asked for its neighbors without itself. n_neighbors: instead of the
        model's. Of equal distances the row stored first comes first.
        """
        if X is None:
            rows, origin = self._stored("kneighbors")
        else:
            rows, origin = self._arrive(X, "kneighbors")
        distance, index = self._search(rows, "kneighbors", n_neighbors, alone=X is None)
        index = index.to(origin.device) if origin.kind == "torch" else index.cpu().numpy()
        return (origin.mirror(distance), index) if return_distance else index

    def kneighbors_graph(self, X: Any = None, n_neighbors: int | None = None, mode: str = "connectivity") -> Any:
        """A SciPy sparse matrix (n, rows stored): 1 at each neighbor, or its distance (mode "distance")."""
        from scipy.sparse import csr_matrix

        if mode not in ("connectivity", "distance"):
            hint = nearest(str(mode), ("connectivity", "distance"))
            raise self._fail("kneighbors_graph", f"mode is {mode!r}{hint}; use 'connectivity' or 'distance'")
        distance, index = (np.asarray(torch.as_tensor(part).cpu()) for part in self.kneighbors(X, n_neighbors))
        n, k = index.shape
        values = distance.ravel() if mode == "distance" else np.ones(n * k)
        return csr_matrix((values, index.ravel(), np.arange(0, n * k + 1, k)), shape=(n, self.n_samples_fit_))

    def _stored(self, method: str) -> tuple[Tensor, Origin]:
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self)
        return torch.as_tensor(self._fit_X), self._fit_origin

    def _search(
        self, X: Tensor, method: str, n_neighbors: int | None = None, alone: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Distances (n, k) in float64 and indices, where the queries are."""
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        with speaking(self, method):
            self._check_count(k)
            choices = self.n_samples_fit_ - alone
            if k > choices:
                raise InvalidInput(
                    f"Expected n_neighbors <= n_samples_fit, but n_neighbors = {k}, n_samples_fit = {choices}; "
                    "ask for fewer neighbors or fit more rows"
                )
            rows = torch.as_tensor(self._fit_X).to(X.device)
            own = torch.arange(len(rows), device=X.device) if alone else None
            if self._tree is None or X.device.type != "cpu":
                return self._find(X, rows, k, own)
            return self._climb(X, rows, k, own)

    def _find(self, X: Tensor, rows: Tensor, k: int, own: Tensor | None, tree: Tree | None = None) -> Any:
        metric = self.metric if callable(self.metric) else self.effective_metric_
        return search(X, rows, k, metric, own=own, tree=tree, n_jobs=self.n_jobs, **self._options())

    def _climb(self, X: Tensor, rows: Tensor, k: int, own: Tensor | None) -> tuple[Tensor, Tensor]:
        """Neighbors from the tree, and from the rows that came after it was planted."""
        tree = Tree(**self._tree)
        planted = len(tree.order)
        if planted == len(rows):
            return self._find(X, rows, k, own, tree)
        few = min(k, planted - (own is not None))
        parts = [self._find(X, rows[:planted], few, own, tree)] if few > 0 else []
        tail = rows[planted:]
        most = min(k, len(tail) - (own is not None))
        if most > 0:
            distance, index = self._find(X, tail, most, None if own is None else own - planted)
            parts.append((distance, index + planted))
        distance, order = torch.cat([part[0] for part in parts], 1).sort(dim=1, stable=True)
        index = torch.cat([part[1] for part in parts], 1).gather(1, order)
        return distance[:, :k], index[:, :k]

    def _weigh(self, distance: Tensor, method: str) -> Tensor:
        """The weights of neighbors, (n, k), which sum to 1 in every row."""
        if self.weights in ("uniform", None):
            return torch.full_like(distance, 1 / distance.shape[1])
        if self.weights == "distance":
            touching = distance == 0
            weight = torch.where(touching.any(1, keepdim=True), touching.double(), 1 / distance)
            # Distances so small that their inverse overflows count as touching.
            weight = torch.where(torch.isinf(weight).any(1, keepdim=True), torch.isinf(weight).double(), weight)
        else:
            weight = torch.as_tensor(self.weights(distance)).to(distance)
            wrong = tuple(weight.shape) != tuple(distance.shape)
            if wrong or not bool(torch.isfinite(weight).all()) or bool((weight < 0).any()):
                raise self._fail(
                    method, f"weights must map distances {tuple(distance.shape)} to finite weights >= 0 of that shape"
                )
            if not bool((weight > 0).any(1).all()):
                raise self._fail(method, "weights are zero for all neighbors of a row; let some of them count")
        weight = weight / weight.amax(1, keepdim=True)  # so that no sum overflows or vanishes
        return weight / weight.sum(1, keepdim=True)

    # -- words -----------------------------------------------------------------------------------------

    def _facts(self) -> dict[str, Any]:
        metric = getattr(self.metric, "__name__", "a function") if callable(self.metric) else self.effective_metric_
        return {
            "rows stored": self.n_samples_fit_,
            "neighbors": self.n_neighbors,
            "weights": getattr(self.weights, "__name__", "a function") if callable(self.weights) else self.weights,
            "metric": metric if metric != "minkowski" else f"minkowski, p = {self._p():g}",
            "search": self.algorithm_,
        }
