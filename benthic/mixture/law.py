"""What a group of columns follows in every component: densities, weighted maximum likelihood, draws."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from benthic.base.likelihood import Measure
from benthic.base.threads import one_torch_thread

Parameters = dict[str, Tensor]  # by name, each (k, ...)
Sums = dict[str, Tensor]
BLOCK_ROWS = 1 << 12  # that are worked on at a time where memory is the limit


def by_columns(X: Tensor, change: Callable[[Tensor], Tensor] | None = None) -> Tensor:
    """Rows (n, c), changed if need be, in float64 and in memory column after column; a block of rows at a time."""
    if X.requires_grad or X.device.type != "cpu":
        return (X if change is None else change(X)).double().T.contiguous().T
    found = torch.empty(X.shape[1], len(X), dtype=torch.float64).T
    with one_torch_thread():  # for so little work threads would only wait for one another
        for block, out in zip(X.split(BLOCK_ROWS), found.split(BLOCK_ROWS), strict=True):
            out.copy_(block if change is None else change(block))
    return found


class Panel(NamedTuple):
    """One picture of a margin: encoded columns, ``curve``, ``counts`` or ``levels``, and names of levels."""

    columns: list[int]
    kind: str
    levels: tuple[float, ...] = ()


class Law(ABC):
    """The law of some columns of a table, the same for all components but for its parameters.

    Everything is in float64. Parameters are tensors by name with the k components first. ``sums`` of two sets of
    rows add up to those of both, so that rows may come in blocks, from files, or one batch after another.

    columns: which encoded columns. units: what was measured of all rows before EM, by name: units in which numbers
    are moderate, and ``typical``: mean statistics of a row, which a component is given ``prior`` rows of.
    """

    name: ClassVar[str]
    measure: Measure = "density"

    def __init__(self, columns: Sequence[int], units: dict[str, Tensor] | None = None) -> None:
        self.columns = list(columns)
        self.units = dict(units or {})

    def to(self, device: torch.device | str) -> Self:
        """The same on another device."""
        moved = copy(self)
        moved.units = {name: value.to(device) for name, value in self.units.items()}
        return moved

    def tree(self) -> dict[str, Any]:
        """Plain values that ``benthic.mixture.naming.law_of_tree`` makes the law from again."""
        return {"law": self.name, "columns": list(self.columns), "units": dict(self.units), **self._settings()}

    def _settings(self) -> dict[str, Any]:
        return {}

    @property
    def label(self) -> str:
        """What a summary calls it."""
        return self.name

    def part(self, X: Tensor) -> Tensor:
        """This law's columns of rows (n, width), as they are."""
        return X if self.columns == list(range(X.shape[1])) else X[:, self.columns]

    def of(self, X: Tensor) -> Tensor:
        """This law's columns of rows (n, width), in float64."""
        return self.part(X).double()

    # -- before EM ---------------------------------------------------------------------------------------

    @abstractmethod
    def settle(self, X: Tensor, weight: Tensor) -> None:
        """Measure ``units`` on rows X (n, width), NaN for gaps, with weights (n,), on the CPU."""

    @abstractmethod
    def view(self, X: Tensor, weight: Tensor) -> Tensor:
        """Rows as points (n, m) of mean 0 and variance about 1 in which distances mean something; no NaN."""

    @abstractmethod
    def refuse(self, X: Tensor, names: Sequence[str]) -> None:
        """An error that names the first column with a value the law does not allow."""

    # -- EM ----------------------------------------------------------------------------------------------

    @abstractmethod
    def read(self, X: Tensor) -> Any:
        """What ``kernel`` and ``sums`` need of rows X (n, width)."""

    def ready(self, parameters: Parameters) -> Parameters:
        """The same with what follows from them, for many calls of ``kernel`` and ``sums``."""
        return parameters

    @abstractmethod
    def kernel(self, rows: Any, parameters: Parameters) -> Tensor:
        """Log-densities of rows under the components, (k, n), without what does not depend on the component."""

    @abstractmethod
    def base(self, X: Tensor) -> Tensor:
        """What ``kernel`` leaves out, (n,)."""

    @abstractmethod
    def sums(self, rows: Any, shares: Tensor, parameters: Parameters | None) -> Sums:
        """What ``maximize`` needs of rows that belong to the components by these weighted shares (k, n).

        parameters: those of the E step; None where there are none yet.
        """

    def step(self, rows: Any, parameters: Parameters, log_weights: Tensor, weight: Tensor | None) -> Sums | None:
        """The whole E step in one sweep, where the law is alone and brings one: as ``sums``, with two names more.

        parameters: from ``ready``. log_weights: (k,) of the components. weight: (n,) of the rows. The two names are
        ``log_likelihood``, less its constant part, and ``count`` (k,).
        """
        return None

    @abstractmethod
    def maximize(self, sums: Sums, prior: float, old: Parameters | None) -> Parameters:
        """Parameters under which the rows of ``sums``, and ``prior`` typical rows each, are most likely."""

    @abstractmethod
    def log_prior(self, parameters: Parameters) -> float:
        """Expected log-density of a typical row, added over the components."""

    @property
    def jumpy(self) -> str:
        """What has a mass and no density, if anything has."""
        return "" if self.measure == "density" else f"{self.name} law"

    @property
    def borrow(self) -> float:
        """Typical rows that a component is given when it is made from a cluster."""
        return 1.0

    # -- after EM ----------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def freedom(self) -> int:
        """Free parameters of a component."""

    @abstractmethod
    def expect(self, X: Tensor, shares: Tensor, parameters: Parameters) -> Tensor:
        """Rows (n, width) with shares (n, k): what to expect in this law's columns, (n, c), where there are gaps."""

    @abstractmethod
    def draw(
        self, which: Tensor, parameters: Parameters, generator: torch.Generator, given: Tensor | None = None
    ) -> Tensor:
        """Values (n, c) of the components ``which`` (n,), given the observed values of rows (n, width); on the CPU."""

    @abstractmethod
    def readable(self, parameters: Parameters) -> Parameters:
        """Parameters as people know them, in the units of the data."""

    def pull_in(self, values: Tensor) -> Tensor:
        """Values (n, c) that rounding put out of the support, moved just inside."""
        return values

    def panels(self) -> list[Panel]:
        """The margins to picture."""
        return [Panel([column], "curve") for column in self.columns]
