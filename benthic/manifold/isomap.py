"""Isomap: distances along the data, flattened."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.settings import number, whole
from benthic.base.validation import speaking
from benthic.kernels.distances import pairwise
from benthic.kernels.neighbors import nearest
from benthic.manifold.places import _Places
from benthic.manifold.scaling import Classical, classical, classical_place
from benthic.training.intake import Intake

_BLOCK = 1 << 24  # distances held at once


class Edges(NamedTuple):
    """Neighbors of rows: (m,) from, to and how far."""

    start: np.ndarray
    end: np.ndarray
    length: np.ndarray


class Isomap(_Places):
    """A map that keeps distances along the surface the rows lie on.

    Neighbors are joined, distances are lengths of the shortest ways in that graph, and classical scaling makes places
    of them (Tenenbaum, de Silva & Langford, 2000). A graph in several parts is joined by the shortest bridges, and a
    warning says how many parts there were.

    n_components: dimensions of the map. n_neighbors: neighbors each row is joined to. radius: join all rows nearer
    than this instead (then n_neighbors is None). metric: as in ``benthic.kernels.pairwise``.

    Learned: ``embedding_`` (n, k), ``geodesics_`` (n, n), ``n_parts_`` of the graph, ``residual_variance_`` (1 minus
    the squared correlation between lengths of ways and distances in the map).

    >>> t = np.linspace(0, 3, 30)
    >>> arc = np.column_stack([np.cos(t), np.sin(t)])
    >>> model = Isomap(1, n_neighbors=2).fit(arc)
    >>> bool(abs(np.corrcoef(model.embedding_[:, 0], t)[0, 1]) > 0.9999)
    True
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        n_neighbors: int | None = 5,
        radius: float | None = None,
        metric: Any = "euclidean",
    ) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.radius = radius
        self.metric = metric

    # -- learning ------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the map of rows ``X`` (n, d). y: ignored; for a file, a column to leave out."""
        with speaking(self, "fit"):
            self._check_settings()
        intake = Intake(self, X, y if isinstance(X, (str, Path)) else None)
        tensor, origin = intake.sample(intake.rows, 0).X, intake.origin
        rows = tensor.double().cpu()
        with speaking(self, "fit"):
            lengths = self._lengths(rows)
        found = classical(torch.from_numpy(lengths), self.n_components)
        self._rows, self._places = rows, found.places
        self._directions, self._means, self._mean = found.directions, found.means, float(found.mean)
        self.geodesics_ = lengths
        self.embedding_ = origin.mirror(found.places)
        self._n_features_out = self.n_components
        self.residual_variance_ = _residual(lengths, found.places)
        return self

    def _lengths(self, rows: Tensor) -> np.ndarray:
        """Lengths of the shortest ways between all rows, (n, n)."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components, shortest_path

        n = len(rows)
        if n == 1:
            self.n_parts_ = 1
            return np.zeros((1, 1))
        edges = self._edges(rows, None)
        graph = _graph(edges, n)
        parts, labels = connected_components(csr_array(graph), directed=False)
        self.n_parts_ = int(parts)
        if parts > 1:
            self._complain(parts)
            bridges = _bridges(rows, labels, parts, self.metric)
            graph = _graph(Edges(*(np.concatenate(pair) for pair in zip(edges, bridges, strict=True))), n)
        return shortest_path(graph, method="D", directed=False)

    def _complain(self, parts: int) -> None:
        more = "n_neighbors" if self.radius is None else "radius"
        warnings.warn(
            f"Isomap.fit: the neighbor graph has {parts} parts, which are joined by the shortest bridges; distances "
            f"between them mean little: raise {more}, or map the parts one by one",
            stacklevel=4,
        )

    def _edges(self, rows: Tensor, fitted: Tensor | None) -> Edges:
        """Neighbors of rows among themselves, or among the fitted ones."""
        if self.radius is not None:
            return _within(rows, rows if fitted is None else fitted, self.radius, self.metric, fitted is None)
        most = (len(rows) - 1) if fitted is None else len(fitted)
        k = min(int(self.n_neighbors or 1), most)
        length, index = nearest(rows, fitted, k=k, metric=self.metric)
        start = np.repeat(np.arange(len(rows)), k)
        return Edges(start, index.numpy().ravel(), length.detach().numpy().ravel().astype(np.float64))

    def _check_settings(self) -> None:
        for name in ("n_components", "n_neighbors"):
            whole(name, getattr(self, name), optional=name == "n_neighbors")
        if (self.n_neighbors is None) == (self.radius is None):
            raise InvalidInput("give either n_neighbors or radius, and None for the other")
        number("radius", self.radius, ends="(]", optional=True)

    # -- use -----------------------------------------------------------------------------------------------

    def transform(self, X: Any) -> Any:
        """Places of rows by their ways over neighbors among the rows fitted on, (n, k)."""
        tensor, origin = self._arrive(X, "transform")
        rows = tensor.double().cpu()
        edges = self._edges(rows, self._rows)
        alone = np.setdiff1d(np.arange(len(rows)), edges.start)
        if len(alone):
            raise self._fail(
                "transform",
                f"row {alone[0]} has no neighbor within radius={self.radius}; raise radius, or use n_neighbors",
            )
        lengths = np.full((len(rows), len(self._rows)), np.inf)
        for start, end, length in zip(*edges, strict=True):
            np.minimum(lengths[start], length + self.geodesics_[end], out=lengths[start])
        mean = torch.tensor(self._mean, dtype=torch.float64)
        kept = Classical(self._places, self._directions, self._means, mean, self._means[:0])
        return origin.mirror(classical_place(kept, torch.from_numpy(lengths)))

    def _merit(self) -> tuple[str, float]:
        return "residual variance", self.residual_variance_

    def _more_facts(self) -> dict[str, Any]:
        return {"parts of the graph": self.n_parts_}


def _graph(edges: Edges, n: int) -> Any:
    """A sparse matrix of lengths, in which a length of zero still is an edge."""
    from scipy.sparse import csr_array

    lengths = np.maximum(edges.length, np.finfo(float).tiny)
    one_way = csr_array((lengths, (edges.start, edges.end)), shape=(n, n))
    return one_way.maximum(one_way.T)


def _within(rows: Tensor, others: Tensor, radius: float, metric: Any, same: bool) -> Edges:
    """All pairs nearer than the radius."""
    found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    step = max(1, _BLOCK // max(len(others), 1))
    for top in range(0, len(rows), step):
        D = pairwise(rows[top : top + step], others, metric=metric).numpy()
        start, end = np.nonzero(radius >= D)
        keep = (start + top != end) if same else np.ones(len(start), dtype=bool)
        found.append((start[keep] + top, end[keep], D[start, end][keep]))
    return Edges(*(np.concatenate(part) for part in zip(*found, strict=True)))


def _bridges(rows: Tensor, labels: np.ndarray, parts: int, metric: Any) -> Edges:
    """The shortest edge between every two parts."""
    found = []
    for a in range(parts):
        for b in range(a + 1, parts):
            here, there = np.flatnonzero(labels == a), np.flatnonzero(labels == b)
            length, index = nearest(rows[here], rows[there], k=1, metric=metric)
            best = int(length[:, 0].argmin())
            found.append((here[best], there[int(index[best, 0])], float(length[best, 0])))
    start, end, length = zip(*found, strict=True)
    return Edges(np.array(start), np.array(end), np.array(length))


def _residual(lengths: np.ndarray, places: Tensor) -> float:
    """The share of the variance of lengths that distances in the map do not explain."""
    upper = np.triu_indices(len(lengths), 1)
    flat = torch.cdist(places, places).numpy()[upper]
    long = lengths[upper]
    if len(long) < 2 or long.std() == 0 or flat.std() == 0:
        return 0.0
    return float(1 - np.corrcoef(long, flat)[0, 1] ** 2)
