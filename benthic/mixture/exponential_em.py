"""EM for mixtures of exponential families: the sums of a pass, the maximum they have, and restarts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.data.batch import Batch
from benthic.distributions.product import Product, Rows
from benthic.mixture.common import Restarts
from benthic.mixture.expectation import responsibilities_
from benthic.training.learner import Again, Info, Learner, Stats, total_weight

_LEAST = 1e-300


class Components(NamedTuple):
    """Weights (k,) and natural parameters (k, P) of the components, in float64."""

    weights: Tensor
    natural: Tensor

    def to(self, device: torch.device | str) -> Components:
        """The same on another device."""
        return Components(self.weights.to(device), self.natural.to(device))


Start = Callable[[int], Components]


def log_joint(product: Product, components: Components, rows: Rows) -> Tensor:
    """log w_k + log p_k(x) over the observed columns of each row, (k, n)."""
    return product.log_prob(rows, components.natural) + components.weights.log()[:, None]


@dataclass(frozen=True)
class Prior:
    r"""The conjugate prior that keeps components from collapsing.

    .. math:: \log p(\eta, w) = \rho \sum_k \Bigl( \langle \eta_k, T_0 \rangle - A(\eta_k) + \log w_k \Bigr)

    It acts as if every component held ``rows`` (ρ) more rows with the statistics ``statistics`` (T₀, (P,)).
    """

    rows: float
    statistics: Tensor

    def log_density(self, product: Product, components: Components) -> float:
        """Up to a constant."""
        if self.rows == 0:
            return 0.0
        weights, natural = components
        each = natural @ self.statistics - product.log_partition(natural).sum(1) + weights.log()
        return self.rows * float(each.sum())


def sums_of(product: Product, rows: Rows, shares: Tensor) -> dict[str, Tensor]:
    """What the M step needs of rows that belong to components by these weighted shares (k, n).

    count: (k,) sums of r. seen: (k, d) the same over observed values. statistics: (k, P) sums of r T(x).
    """
    count = shares.sum(1)
    everywhere = count[:, None].expand(-1, len(product.families))
    seen = everywhere if rows.seen is None else shares @ rows.seen.to(shares.dtype)
    return {"count": count, "seen": seen, "statistics": shares @ rows.statistics}


def maximize(product: Product, sums: Mapping[str, Tensor], prior: Prior, old: Components | None = None) -> Components:
    """The most probable components given the sums of an E step: η from the mean of T, weights from counts.

    old: keeps the parameters of a component without rows where the prior says nothing.
    """
    weights = (sums["count"] + prior.rows).clamp(min=_LEAST)
    held = (sums["seen"] + prior.rows)[:, product.column_of]  # (k, P)
    expected = (sums["statistics"] + prior.rows * prior.statistics) / held.clamp(min=_LEAST)
    expected = torch.where(held > _LEAST, expected, product.reference)
    natural = product.natural(expected, None if old is None else old.natural)
    if old is not None:
        natural = torch.where(held > _LEAST, natural, old.natural)
    return Components(weights / weights.sum(), natural)


class ExponentialEM(Learner):
    """Dempster, Laird & Rubin, 1977, section 4.3: mixtures of exponential families.

    product: the families of the columns. start: the components that restart number i begins with.
    names: of the columns, for errors. device: of the rows.
    """

    scope = "pass"

    def __init__(
        self,
        product: Product,
        start: Start,
        prior: Prior,
        restarts: Restarts,
        *,
        names: list[str],
        device: torch.device,
    ) -> None:
        self.product, self.prior, self.restarts = product, prior, restarts
        self._start, self._names, self._device = start, names, device
        self._there = product.to(device)
        self.components = start(0)
        self._now = self.components.to(device)
        self.bound = -math.inf

    def begin(self, phase: str) -> None:
        """Move the components to where the rows are."""
        self._now = self.components.to(self._device)

    @torch.no_grad()
    def statistics(self, batch: Batch, phase: str, scale: float) -> Stats:
        """Sums of r and of r T(x), and the log-likelihood."""
        rows = self._there.read(batch.X)
        shares = log_joint(self._there, self._now, rows)
        log_likelihood = responsibilities_(shares, None if batch.weight is None else batch.weight.double())
        sums = sums_of(self._there, rows, shares)
        return Stats(total_weight(batch), {"log_likelihood": log_likelihood, **sums})

    def update(self, stats: Stats, phase: str, again: Again) -> Info:
        """One M step; the next start when this one has converged or used up its steps."""
        sums = {name: value.cpu() for name, value in stats.sums.items()}
        self._refuse_empty(sums["seen"])
        log_likelihood = float(sums["log_likelihood"])
        objective = (log_likelihood + self.prior.log_density(self.product, self.components)) / stats.weight
        self.bound = log_likelihood / stats.weight
        info = {"log_likelihood": self.bound, "objective": objective, "restart": self.restarts.number}
        if not math.isfinite(objective):
            return Info(-objective, logs=info)
        last = self.restarts.ends(objective)
        self.components = maximize(self.product, sums, self.prior, self.components)
        if last:
            self._keep()
            if self.restarts.advance():
                self.components = self._start(self.restarts.number)
        return Info(-objective, done=self.restarts.done, logs=info)

    def _keep(self) -> None:
        self.restarts.keep({**self.components._asdict(), "bound": self.bound})

    def _refuse_empty(self, seen: Tensor) -> None:
        empty = (seen.sum(0) == 0).nonzero()
        if len(empty):
            name = self._names[int(empty[0])]
            raise InvalidInput(f"ExponentialFamilyMixture.fit: column {name} of X has no observed value; drop it")

    def finish(self) -> None:
        """Choose the best start, also when the budget ended in the middle of one."""
        if self.restarts.under_way:
            self._keep()
        best = self.restarts.best
        self.components = Components(best["weights"], best["natural"])

    def state_dict(self) -> dict[str, Any]:
        """The current start and the best one so far."""
        return {**self.components._asdict(), "bound": self.bound, "restarts": self.restarts.state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        self.components = Components(state["weights"], state["natural"])
        self.bound = state["bound"]
        self.restarts.load(state["restarts"])
