"""Layers through which rows of a batch see each other, so that a critic notices when all of them are alike."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benthic.base.errors import InvalidInput


class MinibatchDiscrimination(nn.Module):
    r"""For each row, how close the others of its batch are, in several learned measures (Salimans et al., 2016).

    .. math:: o_{ib} = \sum_{j \ne i} \exp\big(-\|M_{ib} - M_{jb}\|_1\big), \qquad M_i = x_i T

    where T maps ``inputs`` numbers to ``measures`` vectors of ``size``. The measures join the row. What comes out
    depends on the batch, so that parts of a batch do not add up to it.

    >>> MinibatchDiscrimination(4, measures=3)(torch.zeros(5, 4)).shape
    torch.Size([5, 7])
    """

    couples_rows = True

    def __init__(self, inputs: int, measures: int = 16, size: int = 8) -> None:
        super().__init__()
        self.measures, self.size = measures, size
        self.outputs = inputs + measures
        self.weight = nn.Parameter(torch.randn(inputs, measures * size) * inputs**-0.5)

    def closeness(self, x: Tensor) -> Tensor:
        """The measures alone, (n, measures)."""
        places = (x @ self.weight).reshape(-1, self.measures, self.size)  # (n, b, c)
        distances = (places[:, None] - places[None]).abs().sum(-1)  # (n, n, b)
        return torch.exp(-distances).sum(1) - 1.0  # a row is at no distance from itself

    def forward(self, x: Tensor) -> Tensor:
        """Rows (n, inputs) to (n, inputs + measures)."""
        return torch.cat([x, self.closeness(x)], 1)


class MinibatchDeviation(nn.Module):
    """How much rows of a group differ, as one more channel: a standard deviation averaged over all features.

    Karras et al., 2018. group: rows that are compared, all of the batch when None or when it cannot be divided so.
    Row i is in group i modulo the number of groups.

    >>> MinibatchDeviation()(torch.zeros(4, 2, 3, 3)).shape
    torch.Size([4, 3, 3, 3])
    """

    couples_rows = True

    def __init__(self, group: int | None = None, eps: float = 1e-8) -> None:
        super().__init__()
        if group is not None and group < 2:
            raise InvalidInput(f"MinibatchDeviation: group is {group}; at least 2 rows can differ")
        self.group, self.eps = group, eps

    def forward(self, x: Tensor) -> Tensor:
        """Rows (n, c) or pictures (n, c, h, w) to the same with one channel more."""
        n = len(x)
        size = n if self.group is None or n % self.group else self.group
        groups = x.reshape(size, n // size, *x.shape[1:])  # (g, m, c, ...)
        variance = (groups - groups.mean(0)).square().mean(0)  # (m, c, ...)
        spread = torch.sqrt(variance + self.eps).flatten(1).mean(1)  # (m,)
        plane = spread.repeat(size).reshape(n, *(1,) * (x.ndim - 1)).expand(n, 1, *x.shape[2:])
        return torch.cat([x, plane], 1)
