"""Walks down a tree on any device: all rows take one step at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor


def _on(device: torch.device, *arrays: np.ndarray) -> list[Tensor]:
    return [torch.as_tensor(array, device=device) for array in arrays]


def _step(tree: list[Tensor], X: Tensor, row: Tensor, node: Tensor) -> Tensor:
    """The node that each row goes to from its node, -1 where its value is missing or leads nowhere."""
    feature, threshold, first, branches, categories = tree
    asked = feature[node]
    value = X[row, asked]
    known = ~torch.isnan(value)
    code = torch.where(known & (categories[asked] > 0), value, (value > threshold[node]).to(value.dtype))
    child = branches[first[node] + code.nan_to_num(0.0).long()]
    return torch.where(known, child, -1)


def leaves_on_device(tree: Any, X: Tensor) -> Tensor:
    """The leaf (n,) of every row of X (n, d)."""
    parts = _on(X.device, tree.feature, tree.threshold, tree.first, tree.branches, tree.categories)
    (missing,) = _on(X.device, tree.missing)
    node = torch.zeros(len(X), dtype=torch.int64, device=X.device)
    for _ in range(int(tree.depth.max())):
        row = (parts[0][node] >= 0).nonzero()[:, 0]
        child = _step(parts, X, row, node[row])
        node[row] = torch.where(child >= 0, child, missing[node[row]])
    return node


def spread_on_device(tree: Any, X: Tensor, value: np.ndarray) -> tuple[Tensor, Tensor]:
    """Values of leaves averaged by shares (n, m), and the leaf of the largest share (n,)."""
    parts = _on(X.device, tree.feature, tree.threshold, tree.first, tree.branches, tree.categories)
    ways, weight, leaf_value = _on(X.device, tree.ways, tree.weight, value)
    row = torch.arange(len(X), device=X.device)
    node, share = torch.zeros_like(row), torch.ones(len(X), dtype=torch.float64, device=X.device)
    out = torch.zeros(len(X), value.shape[1], dtype=torch.float64, device=X.device)
    leaves, largest = torch.zeros_like(row), torch.full_like(share, -1.0)
    while len(row):
        ended = parts[0][node] < 0
        out.index_add_(0, row[ended], share[ended, None] * leaf_value[node[ended]])
        _keep_largest(leaves, largest, row[ended], node[ended], share[ended])
        row, node, share = row[~ended], node[~ended], share[~ended]
        child = _step(parts, X, row, node)
        lost = child < 0
        more = _all_branches(row[lost], node[lost], share[lost], parts, ways, weight)
        row, node, share = (
            torch.cat(pair) for pair in zip((row[~lost], child[~lost], share[~lost]), more, strict=True)
        )
    return out, leaves


def _keep_largest(leaves: Tensor, largest: Tensor, row: Tensor, node: Tensor, share: Tensor) -> None:
    best = largest.scatter_reduce(0, row, share, "amax")
    wins = share >= best[row]
    better = wins & (share > largest[row])
    leaves[row[better]] = node[better]
    largest.copy_(best)


def _all_branches(
    row: Tensor, node: Tensor, share: Tensor, parts: list[Tensor], ways: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Rows repeated for every branch of their nodes, with the shares that go there."""
    count = ways[node]
    begin = torch.repeat_interleave(count.cumsum(0) - count, count)
    at = torch.repeat_interleave(parts[2][node], count) + torch.arange(len(begin), device=row.device) - begin
    child, own = parts[3][at], torch.repeat_interleave(torch.arange(len(row), device=row.device), count)
    reached = child >= 0
    child, own = child[reached], own[reached]
    total = torch.zeros_like(share).index_add_(0, own, weight[child])
    return row[own], child, share[own] * weight[child] / total[own]
