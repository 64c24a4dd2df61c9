"""Zero mean and unit spread, with the Jacobian that keeps likelihoods in the units of the data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.arrays import from_numpy
from benthic.base.errors import InvalidInput

_OVERFLOWS = 1e150  # numbers from here on are squared with care
_BLOCK = 2**20  # numbers looked at together, so that fitting a large array needs little more memory


class Standardizer:
    r"""Subtracts the mean of every column and divides by its standard deviation.

    .. math:: z = (x - \mu) / \sigma, \qquad \log p(x) = \log p(z) - \sum_j \log \sigma_j

    Learns from arrays, tensors or a stream of batches; NaN entries are passed over, and a column that is
    constant keeps scale 1. Means and spreads of two parts of the data are merged without ever squaring a
    value, so that numbers near 1e300 do not overflow (Chan, Golub & LeVeque, 1979).

    mean, scale: (*event,) float64. weight: (*event,) total weight seen in each column.

    >>> s = Standardizer().fit(np.array([[1.0, 5.0], [3.0, 5.0]]))
    >>> s.mean.tolist(), s.scale.tolist()
    ([2.0, 5.0], [1.0, 1.0])
    >>> s.transform(np.array([[4.0, 5.0]])).tolist()
    [[2.0, 0.0]]
    """

    def __init__(self) -> None:
        self._forget()

    @classmethod
    def identity(cls, width: int) -> Standardizer:
        """One that changes nothing: mean 0 and scale 1 in ``width`` columns."""
        made = cls()
        made.mean, made.spread, made.weight = np.zeros(width), np.ones(width), np.zeros(width)
        return made

    @property
    def width(self) -> int:
        """The number of columns (of pixels, for pictures)."""
        return int(self._fitted()[0].size)

    def _forget(self) -> None:
        self._tensors: dict[tuple[torch.device, torch.dtype], tuple[Tensor, Tensor]] = {}
        self.mean: np.ndarray | None = None
        self.spread: np.ndarray | None = None
        self.weight: np.ndarray | None = None

    @property
    def scale(self) -> np.ndarray:
        """The standard deviation of every column, 1 where it is constant."""
        spread = self._fitted()[1]
        # below the smallest normal number 1 / scale would overflow
        return np.where(spread < np.finfo(np.float64).tiny, 1.0, spread)

    def fit(self, X: Any, weight: Any = None) -> Standardizer:
        """Learn mean and scale of ``X`` (n, *event); weight: (n,) how often each row counts."""
        self._forget()
        self.partial_fit(X, weight)
        if self.weight is None or not self.weight.any():
            raise InvalidInput("Standardizer.fit: no row counts: there are none, or the weights are all zero")
        return self

    def fit_stream(self, batches: Iterable[Any]) -> Standardizer:
        """Learn from batches, each an array or a tuple that begins with one, as ``Source.open`` gives."""
        self._forget()
        for batch in batches:
            self.partial_fit(batch[0] if isinstance(batch, tuple) else batch)
        return self

    def partial_fit(self, X: Any, weight: Any = None) -> Standardizer:
        """Learn from more rows."""
        rows = _tensor(X)
        w = _weights(weight, rows)
        step = max(1, _BLOCK // max(1, rows[0].numel() if len(rows) else 1))
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            plain = weight is None and _is_plain(rows[part])
            self._merge(*(_plain_moments(rows[part].double()) if plain else _moments(rows[part].double(), w[part])))
        return self

    def merge(self, other: Standardizer) -> Standardizer:
        """Add what another one has learned, as if this one had seen its rows too."""
        if other.weight is not None:
            self._merge(other.weight, *other._fitted())
        return self

    def _merge(self, weight: np.ndarray, mean: np.ndarray, spread: np.ndarray) -> None:
        self._tensors = {}
        if self.weight is None or self.mean is None or self.spread is None:
            self.weight, self.mean, self.spread = weight, mean, spread
            return
        total = self.weight + weight
        share = np.divide(weight, total, out=np.zeros_like(total), where=total > 0)
        gap = np.where(self.weight > 0, mean - self.mean, 0.0)
        within = np.hypot(np.sqrt(1 - share) * self.spread, np.sqrt(share) * spread)
        self.spread = np.hypot(within, np.sqrt(share * (1 - share)) * gap)
        self.mean = np.where(self.weight > 0, self.mean + share * gap, mean)
        self.weight = total

    def transform(self, X: Any) -> Any:
        """Standardized rows, an array or tensor like ``X``."""
        mean, scale = self._like(X)
        if self._changes_nothing():
            return X
        Z = _wide(X) - mean
        Z /= scale
        return _back(Z, X)

    def inverse(self, Z: Any) -> Any:
        """The rows whose standardized form is ``Z``."""
        mean, scale = self._like(Z)
        if self._changes_nothing():
            return Z
        return _back(_wide(Z) * scale + mean, Z)

    def _changes_nothing(self) -> bool:
        return not self._fitted()[0].any() and bool((self.scale == 1.0).all())

    def log_jacobian(self) -> float:
        r"""The log-determinant of the map from x to z: :math:`\log p(x) = \log p(z) +` this number."""
        return -float(np.log(self.scale).sum())

    def to_tree(self) -> dict[str, Any]:
        """Plain values from which ``from_tree`` rebuilds it."""
        return {"mean": self.mean, "spread": self.spread, "weight": self.weight}

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> Standardizer:
        """The standardizer that ``to_tree`` described."""
        made = cls()
        made.mean, made.spread, made.weight = tree["mean"], tree["spread"], tree["weight"]
        return made

    def _fitted(self) -> tuple[np.ndarray, np.ndarray]:
        if self.mean is None or self.spread is None:
            raise InvalidInput("Standardizer: it has not seen any rows yet; call fit(X) first")
        return self.mean, self.spread

    def _like(self, X: Any) -> tuple[Any, Any]:
        """Mean and scale in the kind of array and on the device of ``X``."""
        mean = self._fitted()[0]
        if tuple(X.shape[1:]) != mean.shape:
            raise InvalidInput(
                f"Standardizer.transform: rows have shape {tuple(X.shape[1:])}; it was fitted on {mean.shape}"
            )
        if not isinstance(X, Tensor):
            return mean, self.scale
        place = (X.device, _wide_type(X))
        if place not in self._tensors:
            self._tensors[place] = (torch.as_tensor(mean).to(*place), torch.as_tensor(self.scale).to(*place))
        return self._tensors[place]


def _tensor(X: Any) -> Tensor:
    rows = X.detach() if isinstance(X, Tensor) else from_numpy(np.asarray(X))
    if rows.ndim < 2:
        raise InvalidInput(f"Standardizer.fit: X has shape {tuple(rows.shape)}; rows of shape (n, d) are needed")
    return rows.cpu() if rows.device.type == "mps" else rows


def _weights(weight: Any, rows: Tensor) -> Tensor:
    if weight is None:
        return torch.ones(len(rows), dtype=torch.float64, device=rows.device)
    w = torch.as_tensor(weight, dtype=torch.float64, device=rows.device)
    if w.shape != (len(rows),):
        raise InvalidInput(f"Standardizer.fit: weight has shape {tuple(w.shape)}; X has {len(rows)} rows")
    if not bool((w >= 0).all()):
        raise InvalidInput("Standardizer.fit: weight has negative or missing values; weights must be >= 0")
    return w


def _is_plain(x: Tensor) -> bool:
    """Whether rows have no gaps and no numbers whose squares overflow."""
    if not len(x) or not x.is_floating_point():
        return False
    low, high = x.aminmax()
    return bool((high < _OVERFLOWS) & (low > -_OVERFLOWS))


def _plain_moments(x: Tensor) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same as ``_moments`` in fewer sweeps, for rows that count alike, without gaps and of moderate size."""
    first = x[0].clone()
    gap = x - first  # distances from a row itself: exact zeros for constant columns
    mean = gap.mean(0)
    gap -= mean
    spread = torch.linalg.vector_norm(gap, dim=0) / len(x) ** 0.5
    tiny = spread < 1 / _OVERFLOWS  # constant, or so small that squares vanish
    if bool(tiny.any()) and bool(gap[:, tiny].any()):
        return _moments(x, torch.ones(len(x), dtype=x.dtype, device=x.device))
    total = np.full(tuple(first.shape), float(len(x)))
    return total, (first + mean).cpu().numpy(), spread.cpu().numpy()


def _moments(x: Tensor, w: Tensor) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Total weight, mean and spread of every column, passing over NaN."""
    w = w.reshape(-1, *[1] * (x.ndim - 1))
    seen = ~torch.isnan(x)
    # distances from a value of the column itself: exact zeros for constant columns, few digits lost else
    first = x.gather(0, seen.to(torch.uint8).argmax(0, keepdim=True)).nan_to_num(0.0)
    x = torch.where(seen, x - first, 0.0)
    w = w * seen
    total = w.sum(0)
    w = w / total.clamp(min=torch.finfo(torch.float64).tiny)
    mean = (w * x).sum(0)
    gap = torch.where(seen, x - mean, 0.0)
    largest = gap.abs().amax(0).clamp(min=torch.finfo(torch.float64).tiny)
    spread = largest * (w * (gap / largest) ** 2).sum(0).sqrt()
    return total.cpu().numpy(), (first[0] + mean).cpu().numpy(), spread.cpu().numpy()


def _wide_type(X: Tensor) -> torch.dtype:
    return torch.float32 if X.device.type == "mps" else torch.float64


def _wide(X: Any) -> Any:
    return X.to(_wide_type(X)) if isinstance(X, Tensor) else X


def _back(values: Any, X: Any) -> Any:
    """``values`` in the floating type of ``X``."""
    if isinstance(X, Tensor):
        return values.to(X.dtype) if X.is_floating_point() else values
    return values.astype(X.dtype, copy=False) if X.dtype.kind == "f" else values
