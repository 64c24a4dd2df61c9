"""Distributions in the plane made of parts, with exact samples and a known density."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.seeds import np_generator

_BLOCK = 2**22  # distances held at a time


class Toy(ABC):
    """A distribution in the plane made of parts, with exact samples and a known density."""

    name: str
    parts: int

    @property
    @abstractmethod
    def box(self) -> tuple[float, float, float, float]:
        """(left, right, bottom, top) around all but a share of 1e-9 of the mass."""

    @abstractmethod
    def draw(self, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """``n`` rows (n, 2) and the part (n,) each was drawn from."""

    @abstractmethod
    def part_log_prob(self, X: Tensor) -> Tensor:
        """Log of the share of each part in the density at every row: (n, 2) -> (n, parts)."""

    def sample(self, n: int, seed: int = 0) -> np.ndarray:
        """``n`` rows (n, 2), float64; a longer sample of the same seed is another sample."""
        return self.draw(n, seed)[0]

    def log_prob(self, X: Any) -> Any:
        """Log-density (n,) of rows (n, 2): an array for an array, a differentiable tensor for a tensor."""
        rows = _rows(X)
        answer = torch.cat([self.part_log_prob(part).logsumexp(1) for part in rows.split(self._block)])
        return answer.to(X.dtype) if isinstance(X, Tensor) else answer.numpy()

    def labels(self, X: Any) -> np.ndarray:
        """The part each row (n, 2) most probably came from, (n,) int64."""
        rows = _rows(X).detach()
        return torch.cat([self.part_log_prob(part).argmax(1) for part in rows.split(self._block)]).numpy()

    @property
    def _block(self) -> int:
        """Rows whose density is computed together."""
        return _BLOCK


def _rows(X: Any) -> Tensor:
    rows = X.double() if isinstance(X, Tensor) else torch.from_numpy(np.array(X, dtype=np.float64))
    if rows.ndim != 2 or rows.shape[1] != 2:
        raise InvalidInput(f"Toy.log_prob: X has shape {tuple(rows.shape)}; points of the plane are (n, 2)")
    return rows


def _gauss(squares: Tensor, noise: float) -> Tensor:
    """Log-density of a round Gaussian in the plane at squared distances from its center."""
    return -squares / (2 * noise**2) - math.log(2 * math.pi * noise**2)


def _squares(X: Tensor, centers: Tensor) -> Tensor:
    """Squared distances (n, m) between points and centers."""
    return (X[:, None, 0] - centers[:, 0]) ** 2 + (X[:, None, 1] - centers[:, 1]) ** 2


@dataclass(frozen=True)
class Gaussians(Toy):
    """Equal round Gaussians around given centers; the density is exact."""

    name: str
    centers: np.ndarray  # (parts, 2)
    noise: float
    parts: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", len(self.centers))

    @property
    def box(self) -> tuple[float, float, float, float]:
        """Seven standard deviations around the centers."""
        return _around(self.centers, self.noise)

    def draw(self, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Rows and the Gaussian of each."""
        rng = np_generator(seed, "toy", self.name)
        part = rng.integers(self.parts, size=n)
        return self.centers[part] + self.noise * rng.normal(size=(n, 2)), part

    def part_log_prob(self, X: Tensor) -> Tensor:
        """Log of weight times Gaussian."""
        centers = torch.as_tensor(self.centers, device=X.device)
        return _gauss(_squares(X, centers), self.noise) - math.log(self.parts)


@dataclass(frozen=True)
class Curves(Toy):
    r"""A point drawn on a curve and blurred by Gaussian noise.

    .. math:: p(x) = \int N(x; c(t), \sigma^2 I)\, w(t)\, dt

    The integral is a Gauss-Legendre rule of 12 nodes on every piece of curve two noises long, which is
    right to 1e-6 up to sixty noises away from the curve.

    curve: parameters (n,) -> points (parts, n, 2). density, quantile: the law of the parameter on
    ``span``. length: of the longest curve.
    """

    name: str
    parts: int
    noise: float
    span: tuple[float, float]
    length: float
    curve: Callable[[np.ndarray], np.ndarray]
    density: Callable[[np.ndarray], np.ndarray]
    quantile: Callable[[np.ndarray], np.ndarray]
    nodes: np.ndarray = field(init=False, repr=False, compare=False)  # (parts, nodes, 2)
    log_weights: np.ndarray = field(init=False, repr=False, compare=False)  # (nodes,)

    def __post_init__(self) -> None:
        edges = self._edges()
        at, weight = np.polynomial.legendre.leggauss(12)
        half = np.diff(edges)[:, None] / 2  # (pieces, 1)
        t = (edges[:-1, None] + half * (1 + at)).ravel()
        object.__setattr__(self, "nodes", self.curve(t))
        object.__setattr__(self, "log_weights", np.log((half * weight).ravel() * self.density(t)))

    def _edges(self) -> np.ndarray:
        """Pieces two noises long, ever shorter at both ends, where the curve stops all at once."""
        pieces = math.ceil(self.length / (2 * self.noise))
        ends = np.array([1 / 16, 1 / 8, 1 / 4, 1 / 2])
        places = np.concatenate([[0], ends, np.arange(1, pieces), pieces - ends[::-1], [pieces]])
        return self.span[0] + (self.span[1] - self.span[0]) * np.unique(places) / pieces

    @property
    def box(self) -> tuple[float, float, float, float]:
        """Seven standard deviations around the curves."""
        return _around(self.nodes.reshape(-1, 2), self.noise)

    @property
    def _block(self) -> int:
        return max(1, _BLOCK // (self.parts * len(self.log_weights)))

    def draw(self, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Rows and the curve of each."""
        rng = np_generator(seed, "toy", self.name)
        part = rng.integers(self.parts, size=n)
        points = self.curve(self.quantile(rng.random(n)))[part, np.arange(n)]
        return points + self.noise * rng.normal(size=(n, 2)), part

    def part_log_prob(self, X: Tensor) -> Tensor:
        """Log of weight times blurred curve, by quadrature."""
        nodes = torch.as_tensor(self.nodes, device=X.device)
        weights = torch.as_tensor(self.log_weights, device=X.device)
        # -|x - c|^2 / 2 s^2 = (x . c - |c|^2 / 2) / s^2 - |x|^2 / 2 s^2: one product of matrices
        bias = weights - nodes.square().sum(-1) / (2 * self.noise**2)  # (parts, nodes)
        pairs = zip(bias, nodes / self.noise**2, strict=True)
        parts = [torch.addmm(own, X, curve.T).logsumexp(1) for own, curve in pairs]
        return torch.stack(parts, 1) + _gauss(X.square().sum(1, keepdim=True), self.noise) - math.log(self.parts)


@dataclass(frozen=True)
class Segments(Toy):
    """Parallel upright segments side by side, blurred by Gaussian noise; the density is exact."""

    name: str
    positions: tuple[float, ...]
    height: float
    noise: float
    parts: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", len(self.positions))

    @property
    def box(self) -> tuple[float, float, float, float]:
        """Seven standard deviations around the segments."""
        ends = [(x, sign * self.height / 2) for x in self.positions for sign in (-1, 1)]
        return _around(np.array(ends), self.noise)

    def draw(self, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Rows and the segment of each."""
        rng = np_generator(seed, "toy", self.name)
        part = rng.integers(self.parts, size=n)
        along = self.height * (rng.random(n) - 0.5)
        points = np.stack([np.array(self.positions)[part], along], 1)
        return points + self.noise * rng.normal(size=(n, 2)), part

    def part_log_prob(self, X: Tensor) -> Tensor:
        """Log of a Gaussian across times a difference of two Gaussian tails along."""
        across = X[:, :1] - torch.tensor(self.positions, dtype=X.dtype, device=X.device)  # (n, parts)
        across = -0.5 * (across / self.noise) ** 2 - math.log(self.noise * math.sqrt(2 * math.pi))
        # by symmetry only the upper tail is needed, where the difference of the tails keeps its digits
        y = X[:, 1].abs() / self.noise
        half = self.height / (2 * self.noise)
        near: Tensor = torch.special.log_ndtr(half - y)
        far: Tensor = torch.special.log_ndtr(-half - y)
        along = near + torch.log1p(-torch.exp(far - near)) - math.log(self.height)
        return across + along[:, None] - math.log(self.parts)


@dataclass(frozen=True)
class Checkerboard(Toy):
    """Uniform on every second square of a board around zero; the density is exact."""

    name: str
    cells: int
    side: float
    parts: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", (self.cells**2 + 1) // 2)

    @property
    def box(self) -> tuple[float, float, float, float]:
        """The board."""
        half = self.side / 2
        return (-half, half, -half, half)

    def draw(self, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Rows and the square of each."""
        rng = np_generator(seed, "toy", self.name)
        part = rng.integers(self.parts, size=n)
        corner = np.stack(self._squares(), 1)[part]
        return (corner + rng.random((n, 2))) * (self.side / self.cells) - self.side / 2, part

    def part_log_prob(self, X: Tensor) -> Tensor:
        """A constant inside a square and minus infinity outside."""
        cell = torch.floor((X + self.side / 2) * (self.cells / self.side))  # (n, 2)
        column, row = (torch.as_tensor(part, device=X.device) for part in self._squares())
        inside = (cell[:, :1] == column) & (cell[:, 1:] == row)
        level = -math.log(self.parts) - 2 * math.log(self.side / self.cells)
        return torch.where(inside, level, -math.inf).to(X.dtype)

    def _squares(self) -> tuple[np.ndarray, np.ndarray]:
        column, row = np.divmod(np.arange(self.cells**2), self.cells)
        dark = (column + row) % 2 == 0
        return column[dark], row[dark]


def _around(points: np.ndarray, noise: float) -> tuple[float, float, float, float]:
    low, high = points.min(0) - 7 * noise, points.max(0) + 7 * noise
    return (float(low[0]), float(high[0]), float(low[1]), float(high[1]))
