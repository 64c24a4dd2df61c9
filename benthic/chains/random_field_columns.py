"""Columns of a table as variables with a few states: values as they are, or bins of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput

GAP, UNSEEN = -1, -2


@dataclass(frozen=True)
class Variable:
    r"""The states of one column.

    levels: (k,) the value of each state, for bins the mean of the numbers in it. edges: (k - 1,) where bins meet, or
    None for a column of few values. scales: (2,) mean distances of the numbers below the first and above the last
    edge from it. Within its bin a number is spread evenly; beyond the outer edges it falls off exponentially,

    .. math:: p(x) = p(\text{bin}) \cdot \frac{1}{s} e^{-|x - \text{edge}| / s}

    so that every number has a density.
    """

    levels: np.ndarray
    edges: np.ndarray | None
    scales: np.ndarray

    @classmethod
    def of(cls, column: np.ndarray, bins: int) -> Variable:
        """Learn from numbers (n,): up to ``bins`` different values are states, more are cut at their quantiles.

        >>> Variable.of(np.array([3.0, 5.0, 3.0]), 4).levels
        array([3., 5.])
        >>> Variable.of(np.arange(100.0), 4).edges
        array([25., 50., 75.])
        """
        values = np.unique(column)
        if len(values) <= bins:
            return cls(values, None, np.zeros(2))
        cuts = np.quantile(column, np.arange(1, bins) / bins, method="higher")
        edges = np.unique(cuts[cuts > values[0]])
        edges = edges if len(edges) else values[1:2]  # nearly all numbers are the smallest one
        codes = np.searchsorted(edges, column, side="right")
        levels = np.bincount(codes, column, len(edges) + 1) / np.bincount(codes, minlength=len(edges) + 1)
        least = 1e-3 * (values[-1] - values[0])
        scales = np.array([edges[0] - levels[0], levels[-1] - edges[-1]]).clip(min=least)
        return cls(levels, edges, scales)

    @property
    def size(self) -> int:
        """Number of states."""
        return len(self.levels)

    def codes(self, column: Tensor) -> Tensor:
        """(n,) the state of each number, ``GAP`` for NaN, ``UNSEEN`` for a value that is no state."""
        column = column.contiguous()
        if self.edges is not None:
            found = torch.bucketize(column, torch.as_tensor(self.edges).to(column), right=True)
        else:
            levels = torch.as_tensor(self.levels).to(column)
            after = torch.bucketize(column, levels).clamp(max=len(levels) - 1)
            before = (after - 1).clamp(min=0)
            found = torch.where((column - levels[before]).abs() < (levels[after] - column).abs(), before, after)
            near = 8 * torch.finfo(column.dtype).eps * (levels[found].abs() + 1e-300)
            found = torch.where((levels[found] - column).abs() <= near, found, UNSEEN)
        return torch.where(torch.isnan(column), GAP, found)

    def log_density(self, column: Tensor, codes: Tensor) -> Tensor:
        """(n,) log-density of a number given its bin; 0 for states, whose probability is a mass."""
        if self.edges is None:
            return torch.zeros_like(column)
        edges = torch.as_tensor(self.edges).to(column)
        low, high = (float(scale) for scale in self.scales)
        inside = edges.diff().log()
        heights = torch.cat([edges.new_tensor([low]).log(), inside, edges.new_tensor([high]).log()])
        far = torch.where(codes == 0, (edges[0] - column) / low, 0.0)
        far = torch.where(codes == len(edges), (column - edges[-1]) / high, far)
        return -heights[codes.clamp(min=0)] - far

    def draw(self, codes: Tensor, uniform: Tensor) -> Tensor:
        """(n,) a value of each state, from uniform numbers (n,)."""
        levels = torch.as_tensor(self.levels).to(uniform)
        if self.edges is None:
            return levels[codes]
        edges = torch.as_tensor(self.edges).to(uniform)
        low, high = (float(scale) for scale in self.scales)
        tail = -torch.log1p(-uniform)
        left, right = torch.cat([edges[:1], edges]), torch.cat([edges, edges[-1:]])
        inside = left[codes] + uniform * (right[codes] - left[codes])
        outside = torch.where(codes == 0, edges[0] - low * tail, edges[-1] + high * tail)
        return torch.where((codes == 0) | (codes == len(edges)), outside, inside)


def fold(X: Tensor, schema: Any) -> Tensor:
    """One column a variable (n, v): a category of a frame, which has a column for each value, becomes its number."""
    if schema is None or schema.width == len(schema.columns):
        return X
    parts = []
    for column, group in zip(schema.columns, schema.groups, strict=True):
        block = X[:, group]
        if column.kind == "category":
            gone = torch.isnan(block).any(1)
            block = torch.where(gone, torch.nan, block.argmax(1).to(X))[:, None]
        parts.append(block)
    return torch.cat(parts, 1)


def unfold(columns: Tensor, schema: Any) -> Tensor:
    """The way back from variables (n, v) to encoded columns (n, width)."""
    if schema is None or schema.width == len(schema.columns):
        return columns
    parts = []
    for j, (column, group) in enumerate(zip(schema.columns, schema.groups, strict=True)):
        block = columns[:, j : j + 1]
        if column.kind == "category":
            width = group.stop - group.start
            block = torch.nn.functional.one_hot(block[:, 0].long(), width).to(columns)
        parts.append(block)
    return torch.cat(parts, 1)


def variables_of(columns: Tensor, schema: Any, bins: int, shared: bool = False) -> list[Variable]:
    """What ``fit`` learns of every column; all categories of a frame are states, seen or not.

    shared: whether all columns have the same states, those of all their numbers together.
    """
    if shared and (schema is None or all(column.kind != "category" for column in schema.columns)):
        return [Variable.of(columns.double().cpu().numpy().ravel(), bins)] * columns.shape[1]
    kinds = [None] * columns.shape[1] if schema is None else [column.kind for column in schema.columns]
    out = []
    for j, column in enumerate(columns.double().cpu().numpy().T):
        if kinds[j] == "category" and schema is not None:
            group = schema.groups[j]
            out.append(Variable(np.arange(float(group.stop - group.start)), None, np.zeros(2)))
        else:
            out.append(Variable.of(column, bins))
    return out


def codes_of(columns: Tensor, variables: list[Variable]) -> Tensor:
    """(n, v) states of all variables."""
    return torch.stack([variable.codes(columns[:, j]) for j, variable in enumerate(variables)], 1)


def refuse_unseen(columns: Tensor, codes: Tensor, variables: list[Variable], names: list[str]) -> None:
    """An error that names the first value that is no state of its column."""
    bad = (codes == UNSEEN).nonzero()
    if len(bad):
        row, j = bad[0].tolist()
        known = ", ".join(f"{level:g}" for level in variables[j].levels[:6])
        raise InvalidInput(
            f"column {names[j]} holds {float(columns[row, j]):g}, which fit never saw there; it knows {known}; "
            "columns of more than ``bins`` different values are cut into bins instead"
        )
