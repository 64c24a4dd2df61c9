"""Directions: rows as unit vectors, gathered around one direction in each component."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.distributions.bessel import bessel_ratio, log_excess
from benthic.distributions.directional import VonMisesFisher, concentration_from_length
from benthic.distributions.drawing import draw
from benthic.mixture.law import Law, Panel, Parameters, Sums

_LONGEST = 1 - 1e-12  # of a mean vector; a component of one single direction would be infinitely concentrated
_TYPICAL_LENGTH = 0.9  # most that a typical row may be concentrated


class DirectionLaw(Law):
    r"""The von Mises–Fisher law of x / \|x\|.

    .. math:: p_k(x) = c_d(\kappa_k) \exp(\kappa_k\, \mu_k^T x)

    Banerjee et al., 2005, with the exact concentration in place of their approximation. Only the direction of a row
    counts; densities are with respect to area on the unit sphere. parameters: ``direction`` (k, d) and
    ``concentration`` (k,).
    """

    name = "von_mises_fisher"

    def settle(self, X: Tensor, weight: Tensor) -> None:
        """See ``Law``."""
        self.units = {}
        mean = weight @ self.read(X) / weight.sum()
        self.units["typical"] = mean * (_TYPICAL_LENGTH / mean.norm().clamp(min=_TYPICAL_LENGTH))

    def view(self, X: Tensor, weight: Tensor) -> Tensor:
        """Unit vectors, as long as a standard normal vector is."""
        return self.read(X) * math.sqrt(len(self.columns))

    def refuse(self, X: Tensor, names: Sequence[str]) -> None:
        """Gaps and zero vectors have no direction."""
        values = self.of(X)
        if bool(torch.isnan(values).any()):
            row = int(torch.isnan(values).any(1).nonzero()[0])
            raise InvalidInput(f"row {row} has NaN, and a direction needs all its coordinates; impute or drop it")
        zero = (values == 0).all(1)
        if bool(zero.any()):
            raise InvalidInput(f"row {int(zero.nonzero()[0])} is a zero vector, which has no direction; drop such rows")
        if len(self.columns) < 2:
            raise InvalidInput("von_mises_fisher needs vectors of at least two columns")

    def read(self, X: Tensor) -> Tensor:
        """Unit vectors."""
        values = self.of(X)
        values = values / values.abs().amax(1, keepdim=True).clamp(min=1e-300)
        unit: Tensor = values / values.norm(dim=1, keepdim=True).clamp(min=1e-300)
        return unit

    def kernel(self, rows: Tensor, parameters: Parameters) -> Tensor:
        """See ``Law``."""
        kappa = parameters["concentration"][:, None]
        return self._log_peak(kappa) - kappa * (1 - parameters["direction"] @ rows.T)

    def _log_peak(self, kappa: Tensor) -> Tensor:
        d = len(self.columns)
        area = math.log(2) + 0.5 * d * math.log(math.pi) - math.lgamma(0.5 * d)
        return -area - log_excess(0.5 * d - 1, kappa)

    def base(self, X: Tensor) -> Tensor:
        """Nothing."""
        return torch.zeros(len(X), dtype=torch.float64, device=X.device)

    def sums(self, rows: Tensor, shares: Tensor, parameters: Parameters | None) -> Sums:
        """count: (k,). vector: (k, d) sums of r x."""
        return {"count": shares.sum(1), "vector": shares @ rows}

    def maximize(self, sums: Sums, prior: float, old: Parameters | None) -> Parameters:
        """The direction of the mean vector, and the concentration whose mean vector is as long."""
        vector = sums["vector"] + prior * self.units["typical"]
        norm = vector.norm(dim=1)
        length = (norm / (sums["count"] + prior).clamp(min=1e-300)).clamp(max=_LONGEST)
        first = torch.zeros_like(vector)
        first[:, 0] = 1.0
        still = norm < 1e-300
        direction = torch.where(still[:, None], first, vector / norm.clamp(min=1e-300)[:, None])
        return {"direction": direction, "concentration": concentration_from_length(length, len(self.columns))}

    def log_prior(self, parameters: Parameters) -> float:
        """See ``Law``."""
        kappa = parameters["concentration"]
        return float((self._log_peak(kappa) - kappa * (1 - parameters["direction"] @ self.units["typical"])).sum())

    @property
    def freedom(self) -> int:
        """See ``Law``."""
        return len(self.columns)

    def expect(self, X: Tensor, shares: Tensor, parameters: Parameters) -> Tensor:
        """The mean vector of the mixture; a direction has no gaps."""
        ratio = bessel_ratio(0.5 * len(self.columns) - 1, parameters["concentration"])
        return shares @ (ratio[:, None] * parameters["direction"])

    def draw(
        self, which: Tensor, parameters: Parameters, generator: torch.Generator, given: Tensor | None = None
    ) -> Tensor:
        """See ``Law``."""
        law = VonMisesFisher(parameters["direction"][which], parameters["concentration"][which])
        return draw(law, generator=generator)

    def readable(self, parameters: Parameters) -> Parameters:
        """Directions and concentrations."""
        return dict(parameters)

    def panels(self) -> list[Panel]:
        """The margins of a sphere have no short form; the rows are shown instead."""
        return []
