"""A metric that changes from place to place, short where data lie, and the shortest ways under it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.dynamics import solve
from benthic.kernels.distances import squared_distances
from benthic.optim.minimizer import minimize
from benthic.pictures.canvas import new_figure


class Geodesic(NamedTuple):
    """A shortest way. points: (t, d), at equal steps of time. length: under the metric. straight: that of the line.

    settled: whether the search for it ended at a minimum.
    """

    points: Tensor
    length: float
    straight: float
    settled: bool


class LocalMetric:
    r"""The inverse of the local diagonal covariance of data, as a Riemannian metric.

    .. math:: M(x)^{-1} = \operatorname{diag}\Bigl(\sum_n w_n(x) (x_n - x)^2\Bigr) + \rho I,
        \qquad w_n(x) = e^{-\|x - x_n\|^2 / 2\sigma^2}

    Arvanitidis, Hansen & Hauberg, 2016. Far from data the metric is 1/ρ, near them it is small, so that shortest ways
    are pulled towards the data and follow them.

    X: (n, d) data. sigma: reach of a point; by default the median distance to the tenth nearest. rho: variance far
    from all data, relative to the largest local one; smaller values hold ways closer to the data.

    >>> t = torch.linspace(0, 3.14, 60, dtype=torch.float64)
    >>> arc = torch.stack([t.cos(), t.sin()], 1)
    >>> metric = LocalMetric(arc, sigma=0.15)
    >>> way = metric.geodesic(arc[0], arc[-1])
    >>> bool(way.points.norm(dim=1).min() > 0.8), way.length < way.straight
    (True, True)
    """

    def __init__(self, X: Any, sigma: float | None = None, rho: float = 1e-2) -> None:
        self.X = torch.as_tensor(X).double()
        if self.X.ndim != 2 or len(self.X) < 2:
            raise InvalidInput(f"LocalMetric: X has shape {tuple(self.X.shape)}; rows (n, d) are needed, at least 2")
        if not bool(torch.isfinite(self.X).all()):
            raise InvalidInput("LocalMetric: X contains NaN or infinity")
        if not rho > 0:
            raise InvalidInput(f"LocalMetric: rho is {rho!r}; it must be positive")
        if sigma is None:
            D = squared_distances(self.X).sqrt()
            sigma = float(D.sort(1).values[:, min(10, len(self.X) - 1)].median())
        if not sigma > 0:
            raise InvalidInput(f"LocalMetric: sigma is {sigma!r}; it must be positive (are most rows the same?)")
        self.sigma, self.rho = float(sigma), float(rho)
        self._floor = 1.0
        self._floor = self.rho * float(self._spread(self.X).max())

    def _spread(self, x: Tensor) -> Tensor:
        """Local variances of columns at points (m, d), without the floor."""
        gaps = self.X[None] - x[:, None]  # (m, n, d)
        w = (-gaps.square().sum(2, keepdim=True) / (2 * self.sigma**2)).exp()
        return (w * gaps.square()).sum(1)

    def diagonal(self, x: Any) -> Tensor:
        """The metric at points (m, d), which is diagonal: its entries, (m, d)."""
        x = torch.as_tensor(x).to(self.X)
        return 1 / (self._spread(x) + self._floor)

    def length(self, points: Any) -> Tensor:
        """The length of a way through points (t, d), by the metric in the middle of each step."""
        points = torch.as_tensor(points).to(self.X)
        steps = points[1:] - points[:-1]
        middle = 0.5 * (points[1:] + points[:-1])
        return (self.diagonal(middle) * steps.square()).sum(1).sqrt().sum()

    def _energy(self, points: Tensor) -> Tensor:
        steps = points[1:] - points[:-1]
        middle = 0.5 * (points[1:] + points[:-1])
        return 0.5 * len(steps) * (self.diagonal(middle) * steps.square()).sum()

    # -- ways ----------------------------------------------------------------------------------------------

    def acceleration(self, x: Tensor, v: Tensor) -> Tensor:
        r"""How a way bends at points x with velocities v, (m, d) each.

        .. math:: \ddot x_k = -\frac{1}{2 M_k} \Bigl(2 \dot M_k \dot x_k - \sum_j \partial_k M_j \dot x_j^2\Bigr)
        """
        gaps = self.X[None] - x[:, None]  # (m, n, d)
        w = (-gaps.square().sum(2) / (2 * self.sigma**2)).exp()  # (m, n)
        spread = (w[..., None] * gaps.square()).sum(1) + self._floor
        M = 1 / spread
        # slopes of the local variance j in direction k: through the weights, and through the square itself
        by = torch.einsum("mn,mnj,mnk->mjk", w, gaps.square(), gaps) / self.sigma**2
        by = by - 2 * torch.diag_embed((w[..., None] * gaps).sum(1))
        slope = -M.square()[..., None] * by  # (m, j, k): of M_j by x_k
        along = torch.einsum("mjk,mk->mj", slope, v)
        across = torch.einsum("mjk,mj->mk", slope, v.square())
        return -(2 * along * v - across) / (2 * M)

    def shoot(self, x: Any, v: Any, times: Any = None, **settings: Any) -> Tensor:
        """The way that starts at x (d,) with velocity v (d,), at the times given: (t, d).

        times: from 0 to 1 in 50 steps by default. settings: of :func:`benthic.dynamics.solve`.
        """
        x, v = (torch.as_tensor(part).to(self.X).reshape(1, -1) for part in (x, v))
        if x.shape[1] != self.X.shape[1] or v.shape != x.shape:
            raise InvalidInput(f"LocalMetric.shoot: x and v must have {self.X.shape[1]} numbers")
        grid = torch.linspace(0, 1, 51, dtype=torch.float64) if times is None else torch.as_tensor(times).double()
        chosen = {"method": "dormand_prince", "rtol": 1e-8, "atol": 1e-10, **settings}

        def field(t: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
            place, speed = state
            return speed, self.acceleration(place, speed)

        return solve(field, (x, v), grid, **chosen).y[0][:, 0]

    def geodesic(self, start: Any, end: Any, steps: int = 40, max_iter: int = 500) -> Geodesic:
        """The shortest way found between two points (d,), as ``steps`` pieces of equal energy.

        A way through the graph of the data is smoothed until its energy is least, so that it does not depend on a
        lucky straight start; a straight start is tried too, and the shorter way is kept.
        """
        start, end = (torch.as_tensor(part).to(self.X).reshape(-1) for part in (start, end))
        if len(start) != self.X.shape[1] or len(end) != self.X.shape[1]:
            raise InvalidInput(f"LocalMetric.geodesic: both ends must have {self.X.shape[1]} numbers")
        t = torch.linspace(0, 1, steps + 1, dtype=torch.float64)[:, None]
        line = start + t * (end - start)
        best: Geodesic | None = None
        straight = float(self.length(line))
        for first in (self._through(start, end, steps), line):
            found = self._smoothed(first, max_iter)
            length = float(self.length(found[0]))
            if best is None or length < best.length:
                best = Geodesic(found[0], length, straight, found[1])
        if best is None:
            raise InvalidInput("LocalMetric.geodesic: no way was found")
        return best

    def _smoothed(self, first: Tensor, max_iter: int) -> tuple[Tensor, bool]:
        ends = (first[:1], first[-1:])
        found = minimize(
            lambda inside: self._energy(torch.cat([ends[0], inside, ends[1]])),
            first[1:-1].contiguous(),
            max_iter=max_iter,
            tol=1e-6 * max(float(self._energy(first)), 1e-12),
        )
        return torch.cat([ends[0], found.point, ends[1]]), found.converged

    def _through(self, start: Tensor, end: Tensor, steps: int) -> Tensor:
        """A way over neighboring data points, resampled to equal lengths under the metric."""
        from scipy.sparse.csgraph import dijkstra

        nodes = torch.cat([start[None], end[None], self.X])
        D = squared_distances(nodes)
        near = D.sort(1).values[:, min(12, len(nodes) - 1)][:, None]
        middle = 0.5 * (self.diagonal(nodes).mean(1)[:, None] + self.diagonal(nodes).mean(1)[None])
        cost = torch.where(torch.minimum(near, near.T) >= D, (D * middle).sqrt(), 0.0)
        cost[0, 1] = cost[1, 0] = float(self.length(torch.stack([start, end]))) + 1e-12
        _, before = dijkstra(cost.numpy(), directed=False, indices=0, return_predecessors=True)
        order = [1]
        while order[-1] != 0:
            order.append(int(before[order[-1]]))
        way = nodes[order[::-1]]
        pieces = [(self.diagonal(0.5 * (a + b)[None])[0] * (b - a).square()).sum().sqrt() for a, b in pairwise(way)]
        at = np.concatenate([[0.0], np.cumsum([float(piece) for piece in pieces])])
        asked = np.linspace(0, at[-1], steps + 1)
        columns = [np.interp(asked, at, column) for column in way.T.numpy()]
        return torch.from_numpy(np.stack(columns, 1))

    # -- picture -------------------------------------------------------------------------------------------

    def plot(self, ways: Any = (), cells: int = 120) -> Any:
        """The volume of the metric over the plane, the data, and ways; for two columns."""
        if self.X.shape[1] != 2:
            raise InvalidInput(f"LocalMetric.plot: the data have {self.X.shape[1]} columns; a picture needs 2")
        low, high = self.X.amin(0), self.X.amax(0)
        pad = 0.15 * (high - low)
        grids = [torch.linspace(float(low[a] - pad[a]), float(high[a] + pad[a]), cells).double() for a in (0, 1)]
        mesh = torch.stack(torch.meshgrid(*grids, indexing="xy"), -1).reshape(-1, 2)
        volume = torch.cat([self.diagonal(part).log().sum(1) / 2 for part in mesh.split(2000)])
        figure, axes = new_figure(5.6, 4.6)
        shown = axes.pcolormesh(*(grid.numpy() for grid in grids), volume.reshape(cells, cells).numpy(), cmap="Greys")
        figure.colorbar(shown, ax=axes, label="logarithm of the volume")
        axes.scatter(*self.X.T.numpy(), s=6, color="C0", linewidth=0)
        for k, way in enumerate(ways):
            points = way.points if isinstance(way, Geodesic) else torch.as_tensor(way)
            axes.plot(*points.T.numpy(), color=f"C{(k + 1) % 10}", linewidth=1.8)
        axes.set(title="ways are short where data lie")
        return figure
