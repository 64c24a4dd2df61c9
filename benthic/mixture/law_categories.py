"""Categories: each component has a probability for every level of every variable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.mixture.common import choose
from benthic.mixture.law import Law, Panel, Parameters, Sums

_PLAIN_ROWS = 0.01  # of equal levels in a typical row
_MOST_LEVELS = 1000


class CategoricalLaw(Law):
    r"""Independent categorical variables.

    .. math:: p_k(x) = \prod_j \pi_{k j x_j}

    A variable is either a group of columns, of which one is 1 and the others 0 (``sizes`` says how many each), or a
    column of whole numbers whose levels are those seen in ``fit``. A gap is left out of the product.
    parameters: ``log_p`` (k, L), all levels of all variables one after the other.
    """

    name = "categorical"
    measure = "mass"

    def __init__(
        self,
        columns: Sequence[int],
        sizes: Sequence[int] | None = None,
        coded: bool = False,
        units: dict[str, Tensor] | None = None,
    ) -> None:
        super().__init__(columns, units)
        self.coded = coded
        self.sizes = list(sizes or [])

    def _settings(self) -> dict[str, Any]:
        return {"coded": self.coded, "sizes": list(self.sizes)}

    def settle(self, X: Tensor, weight: Tensor) -> None:
        """See ``Law``."""
        if self.coded:
            levels = [torch.unique(column[~torch.isnan(column)]) for column in self.of(X).T]
            self.sizes = [len(found) for found in levels]
            self.units["levels"] = torch.cat(levels)
        seen = weight @ self.read(X)
        shares = []
        for part in seen.split(self.sizes):
            mixed = part + _PLAIN_ROWS * weight.sum() / len(part)
            shares.append(mixed / mixed.sum())
        self.units["typical"] = torch.cat(shares)

    def view(self, X: Tensor, weight: Tensor) -> Tensor:
        """Indicators scaled so that a whole variable has variance one."""
        parts = []
        for part, typical in zip(
            self.read(X).split(self.sizes, 1), self.units["typical"].split(self.sizes), strict=True
        ):
            spread = (1 - typical.square().sum()).clamp(min=1e-6).sqrt()
            observed = part.sum(1, keepdim=True)
            parts.append((part - typical * observed) / spread)
        return torch.cat(parts, 1)

    def refuse(self, X: Tensor, names: Sequence[str]) -> None:
        """Unseen levels, numbers that are no codes, and groups that are not one-hot."""
        values = self.of(X)
        if not self.coded:
            bad = ~((values == 0) | (values == 1) | torch.isnan(values))
            if bool(bad.any()):
                column = int(bad.any(0).nonzero()[0])
                raise InvalidInput(f"column {names[self.columns[column]]} of a category is neither 0 nor 1")
            return
        for number, column in enumerate(values.T):
            there = column[~torch.isnan(column)]
            name = names[self.columns[number]]
            if "levels" in self.units:
                known = self.units["levels"].split(self.sizes)[number].to(there)
                new = there[~torch.isin(there, known)]
                if len(new):
                    listed = ", ".join(f"{float(v):g}" for v in known[:8]) + (", ..." if len(known) > 8 else "")
                    raise InvalidInput(
                        f"column {name} holds {float(new[0]):g}, which is not among its {len(known)} categories "
                        f"({listed}); use one of them or NaN, or fit again with it"
                    )
            elif bool((there != there.round()).any()) or len(torch.unique(there)) > _MOST_LEVELS:
                raise InvalidInput(
                    f"column {name} is not one of categories: codes are whole numbers, at most {_MOST_LEVELS} different"
                )

    def read(self, X: Tensor) -> Tensor:
        """Indicators (n, L); a variable with a gap has none."""
        values = self.of(X)
        if not self.coded:
            return values.nan_to_num(0.0)
        which = torch.repeat_interleave(torch.tensor(self.sizes, device=X.device))
        return (values[:, which] == self.units["levels"]).to(values.dtype)

    def kernel(self, rows: Tensor, parameters: Parameters) -> Tensor:
        """See ``Law``."""
        return parameters["log_p"] @ rows.T

    def base(self, X: Tensor) -> Tensor:
        """Nothing."""
        return torch.zeros(len(X), dtype=torch.float64, device=X.device)

    def sums(self, rows: Tensor, shares: Tensor, parameters: Parameters | None) -> Sums:
        """levels: (k, L) sums of r over the rows of each level."""
        return {"levels": shares @ rows}

    def maximize(self, sums: Sums, prior: float, old: Parameters | None) -> Parameters:
        """Shares of the levels."""
        counts = sums["levels"] + prior * self.units["typical"]
        parts = []
        for number, part in enumerate(counts.split(self.sizes, 1)):
            total = part.sum(1, keepdim=True)
            typical = self.units["typical"].split(self.sizes)[number].expand_as(part)
            share = torch.where(total > 0, part / total.clamp(min=1e-300), typical)
            parts.append(share.clamp(min=1e-300).log())
        return {"log_p": torch.cat(parts, 1)}

    def log_prior(self, parameters: Parameters) -> float:
        """See ``Law``."""
        return float((parameters["log_p"] @ self.units["typical"]).sum())

    @property
    def freedom(self) -> int:
        """See ``Law``."""
        return sum(self.sizes) - len(self.sizes)

    def expect(self, X: Tensor, shares: Tensor, parameters: Parameters) -> Tensor:
        """Probabilities of the levels of a group; the most probable level of a column of codes."""
        found = shares @ parameters["log_p"].exp()
        if not self.coded:
            return found
        best = [part.argmax(1) for part in found.split(self.sizes, 1)]
        return self._levels(best)

    def draw(
        self, which: Tensor, parameters: Parameters, generator: torch.Generator, given: Tensor | None = None
    ) -> Tensor:
        """See ``Law``."""
        p = parameters["log_p"].exp()[which]
        chosen = [choose(part, generator) for part in p.split(self.sizes, 1)]
        if self.coded:
            return self._levels(chosen)
        hot = [torch.nn.functional.one_hot(c, size) for c, size in zip(chosen, self.sizes, strict=True)]
        return torch.cat(hot, 1).double()

    def _levels(self, chosen: list[Tensor]) -> Tensor:
        levels = self.units["levels"].split(self.sizes)
        return torch.stack([part[c] for part, c in zip(levels, chosen, strict=True)], 1)

    def readable(self, parameters: Parameters) -> Parameters:
        """Probabilities."""
        return {"probabilities": parameters["log_p"].exp()}

    def panels(self) -> list[Panel]:
        """Bars for each variable."""
        if self.coded:
            levels = self.units["levels"].split(self.sizes)
            return [Panel([c], "levels", tuple(v.tolist())) for c, v in zip(self.columns, levels, strict=True)]
        found, start = [], 0
        for size in self.sizes:
            found.append(Panel(self.columns[start : start + size], "levels"))
            start += size
        return found
