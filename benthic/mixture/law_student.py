"""Columns that are independent given the component, each with a Student's t."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benthic.mixture.degrees import degrees_from, expected_log_excess
from benthic.mixture.law import Law, Parameters, Sums
from benthic.mixture.law_families import standardized
from benthic.mixture.start import columns_of

_PLAIN_SHARE = 0.01  # of a unit variance in a typical row, should a column be constant
_LEAST = 1e-300
_NARROW = 1e-14
_REACH = 1e4  # how far rows may lie for factors of eight columns to be multiplied without overflow


class Rows(NamedTuple):
    """Rows (n, c) in the units of the table, NaN in gaps; whether any has a gap, and the largest distance from 0."""

    Z: Tensor
    gaps: bool
    reach: float

    @property
    def compiled(self) -> bool:
        """Whether compiled sums apply: on the CPU, without gaps, where no gradient is asked for."""
        return self.Z.device.type == "cpu" and not self.Z.requires_grad and not self.gaps


class StudentLaw(Law):
    r"""A product of Student's t, one a column.

    .. math:: p_k(x) = \prod_j t_{\nu_{kj}}(x_j; \mu_{kj}, \sigma_{kj})

    Weights u of the E step make outliers count less (Liu & Rubin, 1995); a gap is left out of the product.
    parameters: ``mean``, ``scale``, ``df``, (k, c) each, the first two in the units of the table. df: None learns it.
    """

    name = "student"

    def __init__(self, columns: Sequence[int], df: float | None = None, units: dict[str, Tensor] | None = None) -> None:
        super().__init__(columns, units)
        self.df = df

    def _settings(self) -> dict[str, Any]:
        return {"df": self.df}

    @property
    def label(self) -> str:
        """One t a column."""
        return "t of columns"

    # -- before EM -----------------------------------------------------------------------------------------

    def settle(self, X: Tensor, weight: Tensor) -> None:
        """Mean and deviation of each column."""
        mean, variance = columns_of(self.of(X), weight)
        known = (variance > 0).double()
        self.units = {"shift": mean, "scale": torch.where(variance > 0, variance, 1.0).sqrt()}
        self.units["typical"] = (1 - _PLAIN_SHARE) * known + _PLAIN_SHARE  # the variance of a typical row

    def view(self, X: Tensor, weight: Tensor) -> Tensor:
        """Standard units with the tails drawn in."""
        return standardized(torch.asinh(3 * self._units(X)), weight)

    def refuse(self, X: Tensor, names: Sequence[str]) -> None:
        """Every finite number is allowed."""

    def _units(self, X: Tensor) -> Tensor:
        return (self.of(X) - self.units["shift"]) / self.units["scale"]

    # -- EM ------------------------------------------------------------------------------------------------

    def read(self, X: Tensor) -> Rows:
        """See ``Law``."""
        Z = self._units(X).contiguous()
        if not Z.numel():
            return Rows(Z, False, 0.0)
        low, high = torch.aminmax(Z.detach())
        reach = max(-float(low), float(high))  # NaN where there is a gap
        return Rows(Z, math.isnan(reach) or math.isnan(float(low)), reach)

    def kernel(self, rows: Rows, parameters: Parameters) -> Tensor:
        """See ``Law``."""
        mean, scale, nu = parameters["mean"], parameters["scale"], parameters["df"]
        constant = torch.lgamma(0.5 * (nu + 1)) - torch.lgamma(0.5 * nu) - 0.5 * (nu * math.pi).log() - scale.log()
        inverse = 1 / (nu * scale.square())
        if rows.compiled and rows.reach < _REACH:
            return self._log_densities(rows.Z, mean, inverse, nu, constant.sum(1))
        Z, parts = rows.Z, []
        for m, v, n, c in zip(mean, inverse, nu, constant, strict=True):
            each = c - 0.5 * (n + 1) * torch.log1p((Z - m).square() * v)  # (n, c)
            parts.append(torch.where(torch.isnan(Z), 0.0, each).sum(1))
        return torch.stack(parts)

    def _log_densities(self, rows: Tensor, mean: Tensor, inverse: Tensor, nu: Tensor, constant: Tensor) -> Tensor:
        from benthic.mixture import student_kernels

        log_densities: Any = student_kernels.log_densities
        out = torch.empty(len(mean), len(rows), dtype=torch.float64)
        shared = bool((nu == nu[:, :1]).all())
        values = [t.contiguous().numpy() for t in (rows.detach(), mean, inverse, 0.5 * (nu + 1), constant)]
        log_densities(*values, shared, out.numpy())
        return out

    def base(self, X: Tensor) -> Tensor:
        """The units of the observed columns."""
        return -(~torch.isnan(self.of(X))).double() @ self.units["scale"].log()

    def sums(self, rows: Rows, shares: Tensor, parameters: Parameters | None) -> Sums:
        """seen: sums of r. mass, first, second: of r u, r u z, r u z². tails: of r (E log u − u); (k, c) each."""
        k, c = len(shares), len(self.columns)
        if parameters is None:
            plain = shares.new_zeros(k, c)
            parameters = {"mean": plain, "scale": plain + 1, "df": plain + math.inf}
        mean, nu = parameters["mean"], parameters["df"]
        inverse = 1 / (nu * parameters["scale"].square())
        gain = torch.where(torch.isinf(nu), 1.0, (nu + 1) / nu)
        learn = self.df is None and not bool(torch.isinf(nu).any())
        if rows.compiled:
            seen = shares.sum(1, keepdim=True).expand(-1, c)
            out = self._moments(rows.Z, shares, mean, inverse, gain, learn)
        else:
            seen, out = _plain_moments(rows.Z, shares, mean, inverse, gain)
        mass, one, two, logs = out
        tails = logs + seen * expected_log_excess(nu, 1) - mass if learn else torch.zeros_like(mass)
        return {
            "seen": seen,
            "mass": mass,
            "first": one + mass * mean,
            "second": two + 2 * mean * one + mass * mean.square(),
            "tails": tails,
        }

    def _moments(
        self, rows: Tensor, shares: Tensor, mean: Tensor, inverse: Tensor, gain: Tensor, learn: bool
    ) -> Tensor:
        from benthic.mixture import student_kernels

        moments: Any = student_kernels.moments
        values = [t.contiguous().numpy() for t in (rows, shares, mean, inverse, gain)]
        out = torch.zeros(4, *mean.shape, dtype=torch.float64)
        moments(*values, learn, out.numpy())
        return out

    def maximize(self, sums: Sums, prior: float, old: Parameters | None) -> Parameters:
        """Weighted moments; the degrees of freedom from the mean of log u − u."""
        count, mass = sums["seen"] + prior, sums["mass"] + prior
        mean = sums["first"] / mass.clamp(min=_LEAST)
        second = sums["second"] + prior * self.units["typical"]
        variance = (second - mass * mean.square()) / count.clamp(min=_LEAST)
        dead = count < 1e-12
        scale = torch.where(dead, 1.0, variance.clamp(min=_NARROW)).sqrt()
        if old is not None:
            mean, scale = torch.where(dead, old["mean"], mean), torch.where(dead, old["scale"], scale)
        return {"mean": mean, "scale": scale, "df": self._degrees(sums, old)}

    def _degrees(self, sums: Sums, old: Parameters | None) -> Tensor:
        seen = sums["seen"]
        if self.df is not None:
            return torch.full_like(seen, float(self.df))
        if old is None:
            return torch.full_like(seen, 10.0)
        learned = degrees_from(sums["tails"] / seen.clamp(min=_LEAST))
        return torch.where(seen < 1e-12, old["df"], learned)

    def log_prior(self, parameters: Parameters) -> float:
        """See ``Law``; the typical row is normal."""
        mean, scale = parameters["mean"], parameters["scale"]
        spread = (self.units["typical"] + mean.square()) / scale.square()
        return float((-0.5 * spread - scale.log() - 0.5 * math.log(2 * math.pi)).sum())

    # -- after EM ------------------------------------------------------------------------------------------

    @property
    def freedom(self) -> int:
        """See ``Law``."""
        return len(self.columns) * (3 if self.df is None else 2)

    def expect(self, X: Tensor, shares: Tensor, parameters: Parameters) -> Tensor:
        """Centers, mixed by the shares."""
        return shares @ self.readable(parameters)["mean"]

    def draw(
        self, which: Tensor, parameters: Parameters, generator: torch.Generator, given: Tensor | None = None
    ) -> Tensor:
        """See ``Law``."""
        nu = parameters["df"][which]
        noise = torch.randn(nu.shape, generator=generator, dtype=torch.float64)
        u = torch._standard_gamma(0.5 * nu, generator=generator) / (0.5 * nu)
        z = parameters["mean"][which] + parameters["scale"][which] * noise / u.sqrt()
        return self.units["shift"] + self.units["scale"] * z

    def readable(self, parameters: Parameters) -> Parameters:
        """Centers and scales in the units of the data."""
        shift, scale = self.units["shift"], self.units["scale"]
        return {
            "mean": shift + scale * parameters["mean"],
            "scale": scale * parameters["scale"],
            "df": parameters["df"],
        }


def _plain_moments(rows: Tensor, shares: Tensor, mean: Tensor, inverse: Tensor, gain: Tensor) -> tuple[Tensor, Tensor]:
    """Sums of r over observed values (k, c), and of r u, r u e, r u e² and r log u (4, k, c)."""
    there = (~torch.isnan(rows)).double()
    found = []
    for r, m, v, g in zip(shares, mean, inverse, gain, strict=True):
        e = (rows - m).nan_to_num(0.0)
        u = there * (g / (1 + e.square() * v))
        logs = there * (g.log() - torch.log1p(e.square() * v))
        found.append(torch.stack((r @ u, r @ (u * e), r @ (u * e * e), r @ logs)))
    return shares @ there, torch.stack(found, 1)
