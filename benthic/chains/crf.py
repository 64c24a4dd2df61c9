r"""The likelihood of labels along a chain given features, with its exact gradient by forward and backward messages.

.. math:: \log p(y \mid x) = a_{y_1} + e_{y_T} + \sum_t (x_t^\top W_{y_t} + b_{y_t})
    + \sum_{t > 1} M_{y_{t-1} y_t} - \log Z(x)

Lafferty, McCallum & Pereira, 2001. The gradient is what is seen minus what the messages expect.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from benthic.base.arrays import host
from benthic.base.errors import InvalidInput
from benthic.base.sequences import Ragged
from benthic.chains.messages import log_partition
from benthic.chains.messages_compiled import Moves, Steps


class Weights(NamedTuple):
    """W (d, k) of features, b (k,) of labels, a (k,) of the first and e (k,) of the last one, M (k, k) of moves."""

    features: Tensor
    labels: Tensor
    first: Tensor
    last: Tensor
    moves: Tensor

    @classmethod
    def of(cls, vector: Tensor, d: int, k: int) -> Weights:
        """From one vector of all numbers."""
        parts = vector.split([d * k, k, k, k, k * k])
        return cls(parts[0].reshape(d, k), parts[1], parts[2], parts[3], parts[4].reshape(k, k))

    def vector(self) -> Tensor:
        """All numbers in one vector."""
        return torch.cat([part.reshape(-1) for part in self])


def potentials(weights: Weights, series: Ragged) -> Tensor:
    """(total, k) log-potentials of the labels of every step, ends included."""
    unary = series.values @ weights.features + weights.labels
    starts, ends = _ends(series)
    unary = unary.index_add(0, starts, weights.first.expand(len(starts), -1))
    return unary.index_add(0, ends, weights.last.expand(len(ends), -1))


def _ends(series: Ragged) -> tuple[Tensor, Tensor]:
    offsets = series.offsets.to(series.values.device)
    return offsets[:-1], offsets[1:] - 1


def path_scores(weights: Weights, series: Ragged, codes: Tensor) -> Tensor:
    """(n,) log-potentials of given labels (total,)."""
    unary = potentials(weights, series).gather(1, codes[:, None])[:, 0]
    owner = series.numbers()
    total = unary.new_zeros(len(series)).index_add(0, owner, unary)
    same = owner[1:] == owner[:-1]
    return total.index_add(0, owner[1:][same], weights.moves[codes[:-1][same], codes[1:][same]])


def normalizers(weights: Weights, series: Ragged) -> Tensor:
    """(n,) log Z of every sequence, differentiable."""
    wide, _ = series.replace(potentials(weights, series)).padded()
    return log_partition(wide, weights.moves, series.lengths)


@dataclass(frozen=True)
class Loss:
    """Minus the log-likelihood of all labels plus half of ``alpha`` times the squared weights (not those of labels).

    series: features (total, d) in float64. codes: (total,) labels 0 to k - 1.
    """

    series: Ragged
    codes: Tensor
    k: int
    alpha: float

    def seen(self) -> Weights:
        """How often each weight occurs in the labels given: the constant half of the gradient."""
        X, codes, k = self.series.values, self.codes, self.k
        starts, ends = _ends(self.series)
        owner = self.series.numbers()
        same = owner[1:] == owner[:-1]
        moves = torch.bincount(codes[:-1][same] * k + codes[1:][same], minlength=k * k).reshape(k, k)
        features = X.new_zeros(k, X.shape[1]).index_add(0, codes, X).T
        counts = [torch.bincount(part, minlength=k).to(X) for part in (codes, codes[starts], codes[ends])]
        return Weights(features, *counts, moves.to(X))

    def expected(self, weights: Weights) -> tuple[float, Weights]:
        """The sum of log Z, and how often each weight occurs on average over labels."""
        unary = potentials(weights, self.series)
        if unary.device.type != "cpu":
            return self._expected_on_device(weights)
        chain = Moves.of(np.zeros(self.k), weights.moves.numpy()[None])
        log_z, single, moves = chain.marginals(Steps.of(unary.contiguous().numpy()), self.series.offsets.numpy())
        p = torch.from_numpy(single)
        starts, ends = _ends(self.series)
        counts = (p.sum(0), p[starts].sum(0), p[ends].sum(0))
        return float(log_z.sum()), Weights(self.series.values.T @ p, *counts, torch.from_numpy(moves))

    def _expected_on_device(self, weights: Weights) -> tuple[float, Weights]:
        with torch.enable_grad():
            leaves = Weights(*(part.detach().requires_grad_() for part in weights))
            total = normalizers(leaves, self.series).sum()
            return float(total.detach()), Weights(*torch.autograd.grad(total, list(leaves)))

    def __call__(self, vector: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
        """The loss and its gradient by all weights; seen: ``seen().vector()``."""
        vector = vector.detach()
        weights = Weights.of(vector, self.series.values.shape[1], self.k)
        total, counts = self.expected(weights)
        held = weights._replace(labels=torch.zeros_like(weights.labels)).vector()
        value = total - seen @ vector + 0.5 * self.alpha * (held @ held)
        return value, counts.vector() - seen + self.alpha * held


def read_labels(y: object) -> tuple[np.ndarray, np.ndarray, str]:
    """Labels of all steps in one row, the lengths of their sequences, and how they came: array, lists or strings.

    >>> values, lengths, style = read_labels([["noun", "verb"], ["noun"]])
    >>> values.tolist(), lengths.tolist(), style
    (['noun', 'verb', 'noun'], [2, 1], 'lists')
    """
    if isinstance(y, Tensor):
        y = host(y, "y")
    if y is None:
        raise InvalidInput("requires y to be passed, but the target y is None")
    if not isinstance(y, (list, tuple, np.ndarray)) or (isinstance(y, np.ndarray) and y.ndim not in (1, 2)):
        raise InvalidInput("y must be labels of every step: an array (n, t), or a list with labels for each sequence")
    parts = [_part(part, i) for i, part in enumerate(y)]
    if len({"number" if part.dtype.kind in "iufb" else part.dtype.kind for part in parts}) > 1:
        raise InvalidInput("y mixes labels of several types; use strings alone or numbers alone")
    values = np.concatenate(parts) if parts else np.zeros(0)
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise InvalidInput("y contains NaN or infinity; every step needs a label")
    style = "array" if isinstance(y, np.ndarray) and y.ndim == 2 else "lists"
    if style == "lists" and all(isinstance(part, str) for part in y):
        style = "strings"
    elif style == "lists" and all(isinstance(part, (np.ndarray, Tensor)) for part in y):
        style = "arrays"
    return values, np.array([len(part) for part in parts], dtype=np.int64), style


def _part(part: object, i: int) -> np.ndarray:
    if isinstance(part, Tensor):
        part = host(part, f"y of sequence {i}")
    found = np.asarray(list(part) if isinstance(part, str) else part)
    if found.dtype == object and all(isinstance(label, str) for label in found.ravel().tolist()):
        found = found.astype(str)
    if found.ndim != 1 or found.dtype.kind not in "iufbU":
        raise InvalidInput(f"the labels of sequence {i} are not one label a step; use strings or numbers, (t,)")
    return found
