"""Columns that are independent given the component, each with a Student's t."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benthic.base.threads import one_torch_thread
from benthic.mixture.degrees import degrees_from, expected_log_excess
from benthic.mixture.law import BLOCK_ROWS, Law, Parameters, Sums, by_columns
from benthic.mixture.law_families import standardized
from benthic.mixture.start import columns_of

_PLAIN_SHARE = 0.01  # of a unit variance in a typical row, should a column be constant
_LEAST = 1e-300
_NARROW = 1e-14
_REACH = 1e4  # how far rows may lie for factors of four columns to be multiplied without overflow


class Rows(NamedTuple):
    """Rows (n, c) in the units of the table, NaN in gaps; whether any has a gap, and the largest distance from 0.

    In memory they lie column after column.
    """

    Z: Tensor
    gaps: bool
    reach: float

    @property
    def compiled(self) -> bool:
        """Whether compiled sums apply: on the CPU, without gaps, near enough, where no gradient is asked for."""
        return self.Z.device.type == "cpu" and not self.Z.requires_grad and not self.gaps and self.reach < _REACH


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
        return standardized(torch.asinh(3 * self._in_units(self.part(X))), weight)

    def refuse(self, X: Tensor, names: Sequence[str]) -> None:
        """Every finite number is allowed."""

    def _in_units(self, values: Tensor) -> Tensor:
        return (values - self.units["shift"]) / self.units["scale"]

    # -- EM ------------------------------------------------------------------------------------------------

    def read(self, X: Tensor) -> Rows:
        """See ``Law``."""
        Z = by_columns(self.part(X), self._in_units)
        if not Z.numel():
            return Rows(Z, False, 0.0)
        low, high = torch.aminmax(Z.detach().T)
        reach = max(-float(low), float(high))  # NaN where there is a gap
        return Rows(Z, math.isnan(reach) or math.isnan(float(low)), reach)

    def ready(self, parameters: Parameters) -> Parameters:
        """With inverse: 1 / (ν scale²). half: (ν + 1) / 2. gain: (ν + 1) / ν. constant: of the log-densities (k, c)."""
        scale, nu = parameters["scale"], parameters["df"]
        normal = torch.lgamma(0.5 * (nu + 1)) - torch.lgamma(0.5 * nu) - 0.5 * (nu * math.pi).log()
        return {
            **parameters,
            "inverse": 1 / (nu * scale.square()),
            "half": 0.5 * (nu + 1),
            "gain": (nu + 1) / nu,
            "constant": normal - scale.log(),
        }

    def kernel(self, rows: Rows, parameters: Parameters) -> Tensor:
        """See ``Law``."""
        known = parameters if "inverse" in parameters else self.ready(parameters)
        if rows.compiled:
            return _log_densities(rows, known)
        Z, parts = rows.Z, []
        for m, v, h, c in zip(*(known[name] for name in ("mean", "inverse", "half", "constant")), strict=True):
            each = c - h * torch.log1p((Z - m).square() * v)  # (n, c)
            parts.append(torch.where(torch.isnan(Z), 0.0, each).sum(1))
        return torch.stack(parts)

    def base(self, X: Tensor) -> Tensor:
        """The units of the observed columns."""
        values, logs = self.part(X).detach(), self.units["scale"].log()
        if not bool(torch.isnan(values.sum())):
            return -logs.sum().expand(len(values))
        return -(~torch.isnan(values)).double() @ logs

    def sums(self, rows: Rows, shares: Tensor, parameters: Parameters | None) -> Sums:
        """seen: sums of r. mass, first, second: of r u, r u z, r u z². tails: of r (E log u − u); (k, c) each."""
        if parameters is None:
            return _plain_sums(rows, shares)
        known = parameters if "inverse" in parameters else self.ready(parameters)
        if rows.compiled:
            seen = shares.sum(1, keepdim=True).expand_as(known["mean"])
            return self._named(seen, _compiled_moments(rows, shares, known, self.df is None), known)
        return self._named(*_moments(rows.Z, shares, known), known)

    def _named(self, seen: Tensor, out: Tensor, known: Parameters) -> Sums:
        """The sums from those of r, and of r / p, r e / p, r e² / p and −r log p (4, k, c)."""
        mean, gain = known["mean"], known["gain"]
        mass, one, two = gain * out[0], gain * out[1], gain * out[2]
        tails = torch.zeros_like(mass)
        if self.df is None:
            tails = out[3] + seen * (gain.log() + expected_log_excess(known["df"], 1)) - mass
        return {
            "seen": seen,
            "mass": mass,
            "first": one + mass * mean,
            "second": two + 2 * mean * one + mass * mean.square(),
            "tails": tails,
        }

    def step(self, rows: Rows, parameters: Parameters, log_weights: Tensor, weight: Tensor | None) -> Sums | None:
        """See ``Law``: compiled, on a CPU without gaps."""
        if not rows.compiled:
            return None
        from benthic.mixture import student_kernels

        student_step: Any = student_kernels.student_step
        constant = parameters["constant"].sum(1) + log_weights
        values = (rows.Z.T, parameters["mean"], parameters["inverse"], parameters["half"], constant)
        k, c = parameters["mean"].shape
        count, out = constant.new_zeros(k), constant.new_zeros(k, 4, c)
        each = (log_weights[:0] if weight is None else weight).contiguous()
        found = student_step(
            *(t.contiguous().numpy() for t in values),
            rows.reach,
            each.numpy(),
            self.df is None,
            count.numpy(),
            out.numpy(),
        )
        sums = self._named(count[:, None].expand(-1, c), out.transpose(0, 1), parameters)
        return {"log_likelihood": constant.new_tensor(found), "count": count, **sums}

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


def _plain_sums(rows: Rows, shares: Tensor) -> Sums:
    """Sums with u = 1, before there are parameters; (k, c) each."""
    out = shares.new_zeros(3, len(shares), rows.Z.shape[1])
    with one_torch_thread():
        for Z, r in zip(rows.Z.split(BLOCK_ROWS), shares.split(BLOCK_ROWS, 1), strict=True):
            out[0] += r @ (~torch.isnan(Z)).to(r.dtype) if rows.gaps else r.sum(1, keepdim=True)
            values = Z.nan_to_num(0.0) if rows.gaps else Z
            out[1] += r @ values
            out[2] += r @ values.square()
    seen, first, second = out
    return {"seen": seen, "mass": seen, "first": first, "second": second, "tails": torch.zeros_like(seen)}


def _moments(Z: Tensor, shares: Tensor, known: Parameters) -> tuple[Tensor, Tensor]:
    """Sums of r over observed values (k, c), and of r / p, r e / p, r e² / p and −r log p (4, k, c).

    e = z − mean and p = 1 + e² inverse.
    """
    there = (~torch.isnan(Z)).double()
    found = []
    for r, m, v in zip(shares, known["mean"], known["inverse"], strict=True):
        e = (Z - m).nan_to_num(0.0)
        w = there / (1 + e.square() * v)
        logs = torch.log1p(e.square() * v)  # 0 in gaps
        found.append(torch.stack((r @ w, r @ (w * e), r @ (w * e * e), -(r @ logs))))
    return shares @ there, torch.stack(found, 1)


def _compiled_moments(rows: Rows, shares: Tensor, known: Parameters, learn: bool) -> Tensor:
    """The same of rows without gaps; logarithms only if ``learn``."""
    from benthic.mixture import student_kernels

    moments: Any = student_kernels.moments
    values = [t.contiguous().numpy() for t in (rows.Z.T, shares, known["mean"], known["inverse"])]
    out = torch.zeros(len(shares), 4, rows.Z.shape[1], dtype=torch.float64)
    moments(*values, learn, out.numpy())
    return out.transpose(0, 1)


def _log_densities(rows: Rows, known: Parameters) -> Tensor:
    """Log-densities (k, n) of rows without gaps."""
    from benthic.mixture import student_kernels

    log_densities: Any = student_kernels.log_densities
    out = torch.empty(len(known["mean"]), len(rows.Z), dtype=torch.float64)
    parts = (rows.Z.T, known["mean"], known["inverse"], known["half"], known["constant"].sum(1))
    log_densities(*(t.contiguous().numpy() for t in parts), rows.reach, out.numpy())
    return out
