"""Many trees as parallel arrays, and how rows find their leaves: compiled on the CPU, by gathers on a device.

The arrays of all trees follow one another: ``start`` (T + 1,) says where each begins. For every node ``feature`` is
the column asked about (-1 at a leaf), ``threshold`` the largest value that goes left, ``left`` the left child (the
right one follows it), ``missing_left`` whether missing values go left, ``subset`` the row of ``subsets`` (32 bytes,
a bit a category) that says which categories go left, or -1; ``value`` (N, k) what a leaf answers, ``gain`` what a
cut gained, ``rows`` how many rows it saw.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from benthic.base.threads import Crew
from benthic.trees.binning import MOST, Bins

Trees = Mapping[str, np.ndarray]
_BLOCK = 2048  # rows that pass a tree together
_PAIRS = 1 << 24  # rows times trees that a device follows at once


def tree_arrays(
    bins: Bins,
    *,
    feature: np.ndarray,
    place: np.ndarray,
    left: np.ndarray,
    missing_left: np.ndarray,
    named: np.ndarray,
    subsets: np.ndarray,
    value: np.ndarray,
    gain: np.ndarray,
    rows: np.ndarray,
) -> dict[str, np.ndarray]:
    """The arrays of one tree from its nodes as they were grown.

    place: (m,) the last bin that goes left. named: (m,) whether categories are asked about. subsets: (m, 4) words.
    """
    inner = left >= 0
    asked = np.where(inner, feature, -1)
    named = inner & (named != 0)
    edge = bins.edges[np.maximum(asked, 0), np.where(inner, np.minimum(place, MOST - 1), 0)]
    return {
        "start": np.array([0, len(left)], dtype=np.int64),
        "feature": asked.astype(np.int32),
        "threshold": np.where(inner & ~named, edge, np.inf),
        "left": left.astype(np.int32),
        "missing_left": (missing_left != 0).astype(np.uint8),
        "subset": np.where(named, np.cumsum(named) - 1, -1).astype(np.int32),
        "subsets": np.ascontiguousarray(subsets[named]).view(np.uint8).reshape(-1, 32),
        "value": np.ascontiguousarray(value, dtype=np.float64),
        "gain": np.where(inner, gain, 0.0).astype(np.float32),
        "rows": rows.astype(np.int32),
    }


def join(parts: Sequence[Trees]) -> dict[str, np.ndarray]:
    """Several ensembles as one, in their order."""
    whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0] if name != "start"}
    nodes = np.cumsum([0, *(len(part["feature"]) for part in parts)])
    named = np.cumsum([0, *(len(part["subsets"]) for part in parts)])
    whole["left"] = np.concatenate(
        [np.where(part["left"] >= 0, part["left"] + at, -1) for part, at in zip(parts, nodes, strict=False)]
    ).astype(np.int32)
    whole["subset"] = np.concatenate(
        [np.where(part["subset"] >= 0, part["subset"] + at, -1) for part, at in zip(parts, named, strict=False)]
    ).astype(np.int32)
    starts = [part["start"][:-1] + at for part, at in zip(parts, nodes, strict=False)]
    whole["start"] = np.concatenate([*starts, nodes[-1:]]).astype(np.int64)
    return whole


def take(trees: Trees, count: int) -> dict[str, np.ndarray]:
    """The first ``count`` trees of an ensemble."""
    nodes = int(trees["start"][count])
    kept = {name: array if name == "subsets" else array[:nodes] for name, array in trees.items()}
    kept["start"] = trees["start"][: count + 1]
    return kept


def add_up(
    trees: Trees, X: np.ndarray, out: np.ndarray, crew: Crew | None = None, first: int = 0, last: int | None = None
) -> None:
    """Add the answers of the trees ``first:last`` to ``out`` (n, K).

    X: (n, p) float64, categories as positions. Trees with one value a leaf take the columns of ``out`` in turn.
    """
    arrays, value = _arrays(trees), trees["value"]
    end = len(trees["start"]) - 1 if last is None else last
    (crew or Crew(1)).split(len(X), lambda start, stop: _add(X, *arrays, value, out, first, end, start, stop))


def leaves(trees: Trees, X: np.ndarray) -> np.ndarray:
    """The node in which every row ends in every tree, (n, T), counted over the whole ensemble."""
    out = np.empty((len(X), len(trees["start"]) - 1), dtype=np.int32)
    _leaves(X, *_arrays(trees), out)
    return out


def add_up_unseen(trees: Trees, t: int, X: np.ndarray, counts: np.ndarray, out: np.ndarray, votes: np.ndarray) -> None:
    """Add the answer of tree ``t`` to ``out`` (n, K) for the rows that were not in its sample, and count it."""
    _add_unseen(X, *_arrays(trees), trees["value"], counts, out, votes, t)


def _arrays(trees: Trees) -> tuple[np.ndarray, ...]:
    names = ("start", "feature", "threshold", "left", "missing_left", "subset", "subsets")
    return tuple(trees[name] for name in names)


@njit(cache=True, nogil=True, error_model="numpy")
def _descend(X, r, node, feature, threshold, left, missing_left, subset, subsets):
    while True:
        below = left[node]
        if below < 0:
            return node
        x = X[r, feature[node]]
        if x != x:
            side = missing_left[node] != 0
        elif subset[node] >= 0:
            code = int(x)
            side = ((subsets[subset[node], code >> 3] >> (code & 7)) & 1) != 0
        else:
            side = x <= threshold[node]
        node = below if side else below + 1


@njit(cache=True, nogil=True, error_model="numpy")
def _add(X, start, feature, threshold, left, missing_left, subset, subsets, value, out, first, last, low, high):
    width, columns = value.shape[1], out.shape[1]
    for begin in range(low, high, _BLOCK):
        end = min(begin + _BLOCK, high)
        for t in range(first, last):
            for r in range(begin, end):
                node = _descend(X, r, start[t], feature, threshold, left, missing_left, subset, subsets)
                if width == 1:
                    out[r, t % columns] += value[node, 0]
                else:
                    for k in range(width):
                        out[r, k] += value[node, k]


@njit(cache=True, nogil=True, error_model="numpy")
def _add_unseen(X, start, feature, threshold, left, missing_left, subset, subsets, value, counts, out, votes, t):
    for r in range(X.shape[0]):
        if counts[r] == 0:
            node = _descend(X, r, start[t], feature, threshold, left, missing_left, subset, subsets)
            votes[r] += 1
            for k in range(value.shape[1]):
                out[r, k] += value[node, k]


@njit(cache=True, nogil=True, error_model="numpy")
def _leaves(X, start, feature, threshold, left, missing_left, subset, subsets, out):
    for begin in range(0, X.shape[0], _BLOCK):
        end = min(begin + _BLOCK, X.shape[0])
        for t in range(len(start) - 1):
            for r in range(begin, end):
                out[r, t] = _descend(X, r, start[t], feature, threshold, left, missing_left, subset, subsets)


def add_up_on_device(trees: Trees, X: Tensor, columns: int) -> Tensor:
    """The same sums (n, columns) by gathers, for rows on a device; all rows take a step in all trees at once."""
    held = {name: torch.as_tensor(array).to(X.device) for name, array in trees.items() if name != "gain"}
    held = {name: part.long() if name in ("feature", "left", "subset") else part for name, part in held.items()}
    count = len(trees["start"]) - 1
    out = X.new_zeros(len(X), columns, dtype=torch.float64)
    width = held["value"].shape[1]
    rows = max(_PAIRS // max(count, 1), 1)
    for begin in range(0, len(X), rows):
        block = X[begin : begin + rows].double()
        node = held["start"][:-1].expand(len(block), -1).clone()  # (rows, T)
        while bool((held["left"][node] >= 0).any()):
            node = _step(node, block, held)
        value = held["value"][node]  # (rows, T, width)
        if width == 1:
            for k in range(columns):
                out[begin : begin + rows, k] = value[:, k::columns, 0].sum(1)
        else:
            out[begin : begin + rows] = value.sum(1)
    return out


def _step(node: Tensor, block: Tensor, held: Mapping[str, Any]) -> Tensor:
    below, feature, subset = held["left"][node], held["feature"][node], held["subset"][node]
    x = block.gather(1, feature.clamp(min=0))
    side = x <= held["threshold"][node]
    if len(held["subsets"]):
        code = x.nan_to_num(0.0).clamp(min=0).long().clamp(max=255)
        byte = held["subsets"][subset.clamp(min=0), code // 8].long()
        side = torch.where(subset >= 0, ((byte >> (code % 8)) & 1).bool(), side)
    side = torch.where(torch.isnan(x), held["missing_left"][node].bool(), side)
    return torch.where(below >= 0, torch.where(side, below, below + 1), node)
