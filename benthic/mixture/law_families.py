"""Columns that are independent given the component, each of its own exponential family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from benthic.base.threads import one_torch_thread
from benthic.distributions.exponential import Family
from benthic.distributions.product import Product, Rows
from benthic.mixture.law import BLOCK_ROWS, Law, Panel, Parameters, Sums, by_columns
from benthic.mixture.start import columns_of

_LEAST = 1e-300
_FEW = 256  # statistics of a row up to which a tile of rows stays in the cache
_MANY = 1 << 14  # shares for which a compiled sweep is worth loading
_PLAIN_SHARE = 0.01  # of the plain member of a family in a typical row, should a column be constant


class FamilyLaw(Law):
    r"""A product of exponential families.

    .. math:: p_k(x) = \prod_j h_j(x_j) \exp(\langle \eta_{kj}, T_j(x_j) \rangle - A_j(\eta_{kj}))

    Dempster, Laird & Rubin, 1977, section 4.3: the mean of T is all that the M step needs. Gaps are left out of the
    product, which is exact. parameters: ``natural`` (k, P). families: one a column.
    """

    name = "families"

    def __init__(
        self, columns: Sequence[int], families: Sequence[Family], units: dict[str, Tensor] | None = None
    ) -> None:
        super().__init__(columns, units)
        self.families = tuple(families)
        masses = [family.measure == "mass" for family in self.families]
        self.measure = "mass" if all(masses) else "density"
        self._product: Product | None = None  # the last one made

    def _settings(self) -> dict[str, Any]:
        return {"families": list(self.families)}

    @property
    def label(self) -> str:
        """The names of the families."""
        return ", ".join(dict.fromkeys(family.name for family in self.families))

    @property
    def product(self) -> Product:
        """The families in the units of the table."""
        shift, scale = self.units["shift"], self.units["scale"]
        if self._product is None or self._product.shift is not shift or self._product.scale is not scale:
            self._product = Product(self.families, shift, scale)
        return self._product

    @property
    def jumpy(self) -> str:
        """The first family of masses."""
        return next((f"{family.name} family" for family in self.families if family.measure == "mass"), "")

    def settle(self, X: Tensor, weight: Tensor) -> None:
        """See ``Law``."""
        product = Product.measured(self.families, self.of(X), weight)
        self.units = {"shift": product.shift, "scale": product.scale}
        rows = product.read(self.of(X), base=False)
        found = self.sums(rows, weight[None], None)
        plain, seen = product.reference, found["seen"][0, product.column_of]
        mean = torch.where(seen > 0, found["statistics"][0] / seen.clamp(min=_LEAST), plain)
        self.units["typical"] = (1 - _PLAIN_SHARE) * mean + _PLAIN_SHARE * plain

    def view(self, X: Tensor, weight: Tensor) -> Tensor:
        """Every column nearly normal."""
        product = self.product
        Z = (self.of(X) - product.shift) / product.scale
        for family, columns, _ in product.groups:
            Z[:, columns] = family.normal_view(Z[:, columns])
        return standardized(Z, weight)

    def refuse(self, X: Tensor, names: Sequence[str]) -> None:
        """See ``Law``."""
        unit = torch.ones(len(self.families))
        Product(self.families, unit, unit).refuse_outsiders(self.part(X), [names[c] for c in self.columns])

    def read(self, X: Tensor) -> Rows:
        """See ``Law``."""
        part, product = self.part(X), self.product
        if len(part) <= BLOCK_ROWS or part.requires_grad or part.device.type != "cpu":
            rows = product.read(part, base=False)
            return rows._replace(statistics=by_columns(rows.statistics))
        statistics, gaps = torch.empty(product.size, len(part), dtype=torch.float64).T, False
        with one_torch_thread():
            for block, out in zip(part.split(BLOCK_ROWS), statistics.split(BLOCK_ROWS), strict=True):
                rows = product.read(block, base=False)
                out.copy_(rows.statistics)
                gaps = gaps or rows.seen is not None
        return Rows(statistics, None, ~torch.isnan(part) if gaps else None)

    def ready(self, parameters: Parameters) -> Parameters:
        """With the log-partition functions (k, c)."""
        return {**parameters, "partition": self.product.log_partition(parameters["natural"])}

    def kernel(self, rows: Rows, parameters: Parameters) -> Tensor:
        """See ``Law``."""
        return self.product.log_prob(rows, parameters["natural"], parameters.get("partition"))

    def base(self, X: Tensor) -> Tensor:
        """See ``Law``."""
        return self.product.log_base(self.part(X))

    def sums(self, rows: Rows, shares: Tensor, parameters: Parameters | None) -> Sums:
        """seen: (k, c) sums of r over observed values. statistics: (k, P) sums of r T(x)."""
        count = shares.sum(1)[:, None].expand(-1, len(self.families))
        seen = count if rows.seen is None else shares @ rows.seen.to(shares.dtype)
        return {"seen": seen, "statistics": shares @ rows.statistics}

    def step(self, rows: Rows, parameters: Parameters, log_weights: Tensor, weight: Tensor | None) -> Sums | None:
        """See ``Law``: compiled, on a CPU without gaps, for rows so many and statistics so few that it pays."""
        T, k = rows.statistics, len(log_weights)
        if T.device.type != "cpu" or rows.seen is not None or T.shape[1] > _FEW or k * len(T) < _MANY:
            return None
        from benthic.mixture import student_kernels

        linear_step: Any = student_kernels.linear_step
        constant = log_weights - parameters["partition"].sum(1)
        values = (T.T, parameters["natural"], constant, log_weights[:0] if weight is None else weight)
        count, statistics = T.new_zeros(k), T.new_zeros(k, T.shape[1])
        found = linear_step(*(t.contiguous().numpy() for t in values), count.numpy(), statistics.numpy())
        seen = count[:, None].expand(-1, len(self.families))
        return {"log_likelihood": T.new_tensor(found), "count": count, "seen": seen, "statistics": statistics}

    def maximize(self, sums: Sums, prior: float, old: Parameters | None) -> Parameters:
        """η from the mean of T; parameters stay where a component has no rows and the prior says nothing."""
        product = self.product
        held = (sums["seen"] + prior)[:, product.column_of]  # (k, P)
        expected = (sums["statistics"] + prior * self.units["typical"]) / held.clamp(min=_LEAST)
        expected = torch.where(held > _LEAST, expected, product.reference)
        natural = product.natural(expected, None if old is None else old["natural"])
        if old is not None:
            natural = torch.where(held > _LEAST, natural, old["natural"])
        return {"natural": natural}

    def log_prior(self, parameters: Parameters) -> float:
        """See ``Law``."""
        natural = parameters["natural"]
        return float((natural @ self.units["typical"] - self.product.log_partition(natural).sum(1)).sum())

    @property
    def freedom(self) -> int:
        """See ``Law``."""
        return int(self.product.size)

    def expect(self, X: Tensor, shares: Tensor, parameters: Parameters) -> Tensor:
        """See ``Law``."""
        return self.product.pull_in(shares @ self.product.mean(parameters["natural"]))

    def draw(
        self, which: Tensor, parameters: Parameters, generator: torch.Generator, given: Tensor | None = None
    ) -> Tensor:
        """See ``Law``."""
        return self.product.draw(parameters["natural"][which], generator)

    def readable(self, parameters: Parameters) -> Parameters:
        """See ``Law``."""
        return {**self.product.parameters(parameters["natural"]), "mean": self.product.mean(parameters["natural"])}

    def pull_in(self, values: Tensor) -> Tensor:
        """See ``Law``."""
        return self.product.pull_in(values)

    def panels(self) -> list[Panel]:
        """See ``Law``."""
        pairs = zip(self.columns, self.families, strict=True)
        return [Panel([column], "counts" if family.support.whole else "curve") for column, family in pairs]


def standardized(Z: Tensor, weight: Tensor) -> Tensor:
    """Columns of mean 0 and variance 1, with 0 in gaps and in columns that say nothing."""
    known = ~torch.isnan(Z).all(0)
    points = torch.zeros_like(Z)
    mean, variance = columns_of(Z[:, known], weight)
    points[:, known] = (Z[:, known] - mean) / torch.where(variance > 0, variance, 1.0).sqrt()
    return points.nan_to_num(0.0)
