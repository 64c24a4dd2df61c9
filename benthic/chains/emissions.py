"""What hidden states emit: the protocol, symbols, and counts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.chains import emissions_loops as loops
from benthic.chains.messages_compiled import Steps
from benthic.mixture.common import choose

Sums = dict[str, Tensor]


class Emission(ABC):
    """The laws of observations in each of ``k`` states; parameters are float64 tensors."""

    @property
    @abstractmethod
    def k(self) -> int:
        """Number of states."""

    def prepared(self, values: Tensor) -> Any:
        """Values in a form that the methods work faster with, for many passes; the values themselves by default."""
        return values

    @abstractmethod
    def log_prob(self, values: Any) -> Tensor:
        """Log-probability of each step in each state, (t, k); what is missing is integrated out."""

    def steps(self, values: Any) -> Steps:
        """The same, ready for compiled messages."""
        return Steps.of(self.log_prob(values).numpy())

    @abstractmethod
    def statistics(self, values: Any, shares: Tensor) -> Sums:
        """Sums over steps from which the parameters follow. shares: (t, k) probabilities of the states."""

    @abstractmethod
    def maximized(self, sums: Mapping[str, Tensor]) -> Emission:
        """The most probable parameters for these sums."""

    @abstractmethod
    def draw(self, states: Tensor, generator: torch.Generator) -> Tensor:
        """One observation for each of the states (t,)."""

    @abstractmethod
    def fill(self, values: Tensor, states: Tensor, generator: torch.Generator) -> Tensor:
        """Observations with what is missing drawn anew, given the states and the rest."""

    @abstractmethod
    def to(self, device: torch.device) -> Emission:
        """The same on another device."""

    @abstractmethod
    def arrays(self) -> dict[str, np.ndarray]:
        """The parameters by the names a fitted model has them."""

    @property
    @abstractmethod
    def n_parameters(self) -> int:
        """Free parameters, for information criteria."""

    def log_prior(self) -> float:
        """Log-density of the prior at the parameters, up to a constant."""
        return 0.0

    def moved(self, sums: Mapping[str, Tensor], before: Emission) -> Sums:
        """Sums taken with the parameters ``before``, as if taken with these."""
        return dict(sums)


class Rows(NamedTuple):
    """Codes of symbols (t,), and the same with the last row of a table for those that are missing."""

    codes: Tensor
    rows: np.ndarray


@dataclass(frozen=True)
class Categorical(Emission):
    """Symbols with probabilities (k, m). prior: parameter of a symmetric Dirichlet law, 1 for none."""

    probabilities: Tensor
    prior: float = 1.0

    @property
    def k(self) -> int:
        """Number of states."""
        return len(self.probabilities)

    @cached_property
    def _table(self) -> Tensor:
        """Log-probabilities (m + 1, k); the last row, that -1 finds, is for a missing symbol."""
        logs = self.probabilities.T.log()
        return torch.cat([logs, torch.zeros_like(logs[:1])])

    @cached_property
    def _symbols(self) -> Steps:
        """One step for every symbol."""
        return Steps.of(self._table.numpy())

    def prepared(self, values: Tensor) -> Any:
        """Rows of the table, rather than codes."""
        return Rows(values, torch.where(values < 0, self.probabilities.shape[1], values).cpu().numpy())

    def log_prob(self, values: Any) -> Tensor:
        """(t, k)."""
        return self._table[values.codes if isinstance(values, Rows) else values]

    def steps(self, values: Any) -> Steps:
        """Exponentials are taken once a symbol, not once a step."""
        if not isinstance(values, Rows):
            return self.steps(self.prepared(values))
        table, rows = self._table.numpy(), values.rows
        return Steps(self._symbols.likely, self._symbols.peak, rows, lambda start, stop: table[rows[start:stop]])

    def statistics(self, values: Any, shares: Tensor) -> Sums:
        """counts: (m, k)."""
        values = values.codes if isinstance(values, Rows) else values
        counts = torch.zeros(self.probabilities.shape[1], self.k, dtype=torch.float64, device=values.device)
        if values.device.type == "cpu":
            loops.symbol_counts(values.numpy(), shares.numpy(), counts.numpy())
        else:
            there = values >= 0
            counts.index_add_(0, values[there], shares[there])
        return {"counts": counts}

    def maximized(self, sums: Mapping[str, Tensor]) -> Categorical:
        """Shares of the counts; what was zero stays zero."""
        return Categorical(shares_of(sums["counts"].T, self.probabilities, self.prior), self.prior)

    def draw(self, states: Tensor, generator: torch.Generator) -> Tensor:
        """Codes (t,)."""
        return choose(self.probabilities.to(states.device)[states], generator)

    def fill(self, values: Tensor, states: Tensor, generator: torch.Generator) -> Tensor:
        """Missing codes drawn from the states' laws."""
        return torch.where(values < 0, self.draw(states, generator).to(values), values)

    def to(self, device: torch.device) -> Categorical:
        """On another device."""
        return Categorical(self.probabilities.to(device), self.prior)

    def arrays(self) -> dict[str, np.ndarray]:
        """``emissions_``."""
        return {"emissions_": self.probabilities.cpu().numpy()}

    @property
    def n_parameters(self) -> int:
        """One less than symbols with a chance, each state."""
        return int(((self.probabilities > 0).sum(1) - 1).sum())

    def log_prior(self) -> float:
        """Dirichlet."""
        return log_dirichlet(self.probabilities, self.prior)


@dataclass(frozen=True)
class Poisson(Emission):
    """Independent counts with rates (k, d)."""

    rates: Tensor

    @property
    def k(self) -> int:
        """Number of states."""
        return len(self.rates)

    def log_prob(self, values: Tensor) -> Tensor:
        """(t, k)."""
        seen = ~torch.isnan(values)
        x = values.nan_to_num(0.0)
        constant = torch.lgamma(x + 1).sum(1, keepdim=True)
        return x @ self.rates.log().T - seen.to(x) @ self.rates.T - constant

    def statistics(self, values: Tensor, shares: Tensor) -> Sums:
        """mass and first: (k, d)."""
        seen = ~torch.isnan(values)
        return {"mass": shares.T @ seen.to(shares), "first": shares.T @ values.nan_to_num(0.0)}

    def maximized(self, sums: Mapping[str, Tensor]) -> Poisson:
        """Mean counts; a rate of zero becomes tiny, so that no count is impossible."""
        mass = sums["mass"]
        return Poisson(torch.where(mass > 0, sums["first"] / mass, self.rates).clamp(min=1e-10))

    def draw(self, states: Tensor, generator: torch.Generator) -> Tensor:
        """Counts (t, d)."""
        return torch.poisson(self.rates[states.to(self.rates.device)].cpu(), generator=generator).to(states.device)

    def fill(self, values: Tensor, states: Tensor, generator: torch.Generator) -> Tensor:
        """Gaps drawn from the states' laws."""
        return torch.where(torch.isnan(values), self.draw(states, generator).to(values), values)

    def to(self, device: torch.device) -> Poisson:
        """On another device."""
        return Poisson(self.rates.to(device))

    def arrays(self) -> dict[str, np.ndarray]:
        """``rates_``."""
        return {"rates_": self.rates.cpu().numpy()}

    @property
    def n_parameters(self) -> int:
        """One rate each."""
        return self.rates.numel()


def shares_of(counts: Tensor, before: Tensor, prior: Any) -> Tensor:
    """Rows of counts as probabilities with a Dirichlet prior; zeros of ``before`` stay, empty rows too."""
    allowed = before > 0
    total = torch.where(allowed, counts + (prior - 1.0), 0.0)
    mass = total.sum(-1, keepdim=True)
    return torch.where(mass > 0, total / mass, before)


def log_dirichlet(probabilities: Tensor, prior: Any) -> float:
    """Log-density of rows under a Dirichlet law up to a constant, zeros left out."""
    if isinstance(prior, float) and prior == 1.0:
        return 0.0
    logs = torch.where(probabilities > 0, probabilities, 1.0).log()
    return float(((prior - 1.0) * logs).sum())


def check_prior(name: str, prior: Any, shape: tuple[int, ...]) -> Any:
    """A number of at least 1, or an array of them."""
    values = np.asarray(prior, dtype=np.float64)
    if not np.isfinite(values).all() or (values < 1).any() or values.shape not in ((), shape):
        raise InvalidInput(
            f"{name} is {prior!r:.60}; it must be a number of at least 1, or an array {shape} of them: 1 for none, "
            "2 for one more of each kind"
        )
    return float(values) if values.ndim == 0 else torch.from_numpy(values)
