"""The repulsion between all points of a t-SNE map: exactly, or through a grid and Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benthic.base.threads import standing_crew
from benthic.manifold import tsne_loops

_NODES = 4  # interpolation nodes of a box
_LEAST_BOXES = 50
_MOST_BOXES = 400  # on a side, which take a GB; more only where places fly apart
_PAIRS_A_NODE = 50  # pairs that take as long as a node of the grid
_SMALL = 256  # points below which threads do not pay
_EXACT = 20_000  # points up to which all pairs are as quick as the grid


def in_parts(work: Callable[[int, int], Any], n: int) -> list[Any]:
    """``work(begin, end)`` over equal parts of n points, one a thread."""
    threads = 1 if n < _SMALL else torch.get_num_threads()
    return standing_crew(threads).parts(n, lambda part, begin, end: work(begin, end))


Repulsion = Callable[[np.ndarray, np.ndarray], float]


def repulsion_of(method: str, n: int, k: int) -> Repulsion:
    """How to fill the forces (k, n) of places (k, n); what it returns is Σ q over all pairs of different points."""
    if method == "exact" or (method == "auto" and n <= _EXACT) or k > 2:
        return exact_repulsion
    return Grid().cheaper


def exact_repulsion(places: np.ndarray, force: np.ndarray) -> float:
    """All pairs, in single precision."""
    n = places.shape[1]
    parts = in_parts(lambda begin, end: tsne_loops.repel(places, places, begin, end, force), n)
    return float(sum(parts)) - n


class Grid:
    r"""Repulsion in time that grows with the number of points and not of pairs.

    .. math::
        \sum_j q_{ij}^2 (y_i - y_j) = y_i \phi_1(y_i) - \phi_y(y_i), \qquad
        \phi_c(y) = \sum_j c_j (1 + |y - y_j|^2)^{-2}

    Charges are interpolated on a regular grid, where a sum with a kernel is a convolution and taken by FFT (Linderman
    et al., 2019). The transform of the kernel is kept as long as the grid stays the same.
    """

    def __init__(self) -> None:
        self._kernel: tuple[Any, Any] = (None, None)

    def cheaper(self, places: np.ndarray, force: np.ndarray) -> float:
        """See ``repulsion_of``: by the grid, or over all pairs where that takes less time, as for a few thousand."""
        k, n = places.shape
        nodes = (2 * _NODES * _boxes(places)) ** k
        return exact_repulsion(places, force) if n * n <= _PAIRS_A_NODE * nodes else self.repulsion(places, force)

    def repulsion(self, places: np.ndarray, force: np.ndarray) -> float:
        """By the grid."""
        from scipy.fft import irfftn, rfftn

        k, n = places.shape
        low, span = float(places.min()), float(np.ptp(places))
        boxes = _boxes(places)
        width = max(span, 1e-12) * (1 + 1e-6) / boxes
        side = boxes * _NODES
        size = _fast_size(2 * side)
        kernel = self._transform(k, side, size, width / _NODES)
        first, shares = np.empty((k, n), dtype=np.int64), np.empty((k, n, _NODES))
        in_parts(lambda a, b: tsne_loops.weights(places, a, b, low, width, boxes, _NODES, first, shares), n)
        charges = np.zeros((k + 2, side, side if k == 2 else 1))
        tsne_loops.spread(places, first, shares, charges)
        axes, shape = ((1, 2), (size, size)) if k == 2 else ((1,), (size,))
        workers = torch.get_num_threads()
        fields = irfftn(rfftn(charges, shape, axes=axes, workers=workers) * kernel, shape, axes=axes, workers=workers)
        fields = np.ascontiguousarray(fields[:, :side, : side if k == 2 else 1])
        total = in_parts(lambda a, b: tsne_loops.gather(places, first, shares, fields, a, b, force), n)
        return float(sum(total)) - n

    def _transform(self, k: int, side: int, size: int, step: float) -> Any:
        """The transform of the kernel over differences of nodes, wrapped around."""
        from scipy.fft import rfftn

        known, transform = self._kernel
        if known == (k, side, size, step):
            return transform
        away = np.arange(size)
        away = np.where(away < side, away, np.where(away > size - side, away - size, 0)) * step
        square = away[:, None] ** 2 + (away[None, :] ** 2 if k == 2 else 0.0)
        values = (1 + square) ** -2.0
        transform = rfftn(values, axes=(0, 1) if k == 2 else (0,))
        self._kernel = (k, side, size, step), transform
        return transform


def _boxes(places: np.ndarray) -> int:
    """Boxes on a side of the grid, of width 1 or less as long as there are not too many."""
    span = float(np.ptp(places))
    return max(_LEAST_BOXES, int(span) + 1) if span < _MOST_BOXES else _MOST_BOXES  # NaN is not less either


def _fast_size(least: int) -> int:
    from scipy.fft import next_fast_len

    return int(next_fast_len(least, real=True))
