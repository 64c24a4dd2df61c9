"""Vectors with an ellipse for every component: the normal law and Student's t, with gaps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from benthic.mixture.degrees import degrees_from, expected_log_excess
from benthic.mixture.law import Law, Parameters, Sums
from benthic.mixture.law_families import standardized
from benthic.mixture.missing import Conditional, Group, differences, groups
from benthic.mixture.parameters import LOG_TWO_PI, Gaussians
from benthic.mixture.start import columns_of

_PLAIN_SHARE = 0.01  # of a unit covariance in a typical row, should a column be constant
_LEAST = 1e-300
_NARROW = 1e-14  # least eigenvalue of a covariance in units of the table, where no prior keeps it up


@dataclass
class Rows:
    """Rows in the units of the table: the complete ones, and the others by their gaps.

    Z: the complete rows. n: how many rows there are in all. whole: the numbers of the complete ones, None if all
    are. holes: groups of rows with equal gaps and their values (P, c, d), NaN in gaps.
    """

    Z: Tensor
    n: int
    whole: Tensor | None = None
    holes: list[tuple[Group, Tensor]] = field(default_factory=list)


class EllipticalLaw(Law):
    r"""A normal law or a Student's t with a full covariance.

    .. math:: t_\nu(x; \mu, C) = \int N(x; \mu, C/u)\, \Gamma(u; \tfrac\nu2, \tfrac\nu2)\, du

    Gaps by conditional expectations and covariances (Ghahramani & Jordan, 1994); the t by ECM with its degrees of
    freedom learned (Liu & Rubin, 1995; Peel & McLachlan, 2000). parameters: ``mean`` (k, d), ``root`` (k, d, d) in
    the units of the table, and ``df`` (k,) of a t. tails: ``normal`` or ``t``. df: None learns it.
    """

    name = "elliptical"

    def __init__(
        self,
        columns: Sequence[int],
        tails: str = "normal",
        df: float | None = None,
        units: dict[str, Tensor] | None = None,
    ) -> None:
        super().__init__(columns, units)
        self.tails, self.df = tails, df

    def _settings(self) -> dict[str, Any]:
        return {"tails": self.tails, "df": self.df}

    @property
    def label(self) -> str:
        """``normal`` or ``t``."""
        return self.tails

    @property
    def heavy(self) -> bool:
        """Whether this is a t."""
        return self.tails == "t"

    @property
    def borrow(self) -> float:
        """As many rows as make a covariance."""
        return float(len(self.columns) + 1)

    # -- before EM -----------------------------------------------------------------------------------------

    def settle(self, X: Tensor, weight: Tensor) -> None:
        """Mean and deviation of each column, and the covariance of rows with gaps filled by the mean."""
        values = self.of(X)
        mean, variance = columns_of(values, weight)
        scale = torch.where(variance > 0, variance, 1.0).sqrt()
        Z = ((values - mean) / scale).nan_to_num(0.0)
        covariance = (weight[:, None] * Z).T @ Z / weight.sum()
        plain = torch.eye(len(scale), dtype=torch.float64)
        self.units = {"shift": mean, "scale": scale, "typical": (1 - _PLAIN_SHARE) * covariance + _PLAIN_SHARE * plain}

    def view(self, X: Tensor, weight: Tensor) -> Tensor:
        """Standard units; those of a t with its tails drawn in."""
        Z = (self.of(X) - self.units["shift"]) / self.units["scale"]
        return standardized(torch.asinh(3 * Z) if self.heavy else Z, weight)

    def refuse(self, X: Tensor, names: Sequence[str]) -> None:
        """Every finite number is allowed."""

    # -- EM ------------------------------------------------------------------------------------------------

    def _gaussians(self, parameters: Parameters) -> Gaussians:
        means = parameters["mean"]
        equal = means.new_full((len(means),), 1 / len(means))
        return Gaussians.of_roots("full", equal, means, parameters["root"])

    def read(self, X: Tensor) -> Rows:
        """See ``Law``."""
        Z = (self.of(X) - self.units["shift"]) / self.units["scale"]
        gaps = torch.isnan(Z)
        if not bool(gaps.any()):
            return Rows(Z, len(Z))
        holed = gaps.any(1).nonzero()[:, 0]
        holes = []
        for inside, observed in groups(gaps[holed], 8):
            numbers = holed[inside]
            holes.append((Group(numbers, observed), Z[numbers]))
        whole = (~gaps.any(1)).nonzero()[:, 0]
        return Rows(Z[whole], len(Z), whole, holes)

    def kernel(self, rows: Rows, parameters: Parameters) -> Tensor:
        """See ``Law``."""
        mixture = self._gaussians(parameters)
        complete = self._log_density(_distances(mixture, rows.Z), _log_det(mixture)[:, None], mixture.d, parameters)
        if rows.whole is None:
            return complete
        log = complete.new_empty(mixture.k, rows.n)
        log[:, rows.whole] = complete
        for (numbers, observed), z in rows.holes:
            found = _Holes(mixture, observed, z)
            value = self._log_density(found.distances, found.log_det, found.seen, parameters, along=1)
            log[:, numbers.flatten()] = value.movedim(1, 0).flatten(1)
        return log

    def _log_density(
        self, distances: Tensor, log_det: Tensor, seen: Tensor | int, parameters: Parameters, along: int = 0
    ) -> Tensor:
        """From squared distances with the components in dimension ``along``; seen: observed columns."""
        if not self.heavy:
            return -0.5 * distances - log_det - 0.5 * LOG_TWO_PI * seen
        nu = _along(parameters["df"], along, distances.ndim)
        half = 0.5 * (nu + seen)
        constant = torch.lgamma(half) - torch.lgamma(0.5 * nu) - 0.5 * seen * (nu * math.pi).log() - log_det
        return constant - half * torch.log1p(distances / nu)

    def base(self, X: Tensor) -> Tensor:
        """The units of the observed columns."""
        return -(~torch.isnan(self.of(X))).double() @ self.units["scale"].log()

    def sums(self, rows: Rows, shares: Tensor, parameters: Parameters | None) -> Sums:
        """count: (k,). mass: (k,) sums of r u. first, second: of r u z and r u z zᵀ. tails: of r (E log u − u)."""
        k, d = len(shares), len(self.columns)
        mixture = None if parameters is None else self._gaussians(parameters)
        own = shares if rows.whole is None else shares[:, rows.whole]
        tails = shares.new_zeros(k)
        scaled = own
        if self.heavy and parameters is not None and mixture is not None:
            scaled, tails = self._weigh(own, _distances(mixture, rows.Z), d, parameters["df"][:, None], 1)
        sums = {"count": shares.sum(1), "mass": scaled.sum(1), "first": scaled @ rows.Z, "tails": tails}
        spread = (scaled[:, None] * rows.Z.T).reshape(k * d, -1)  # (k d, n)
        sums["second"] = (spread @ rows.Z).view(k, d, d)
        for group, z in rows.holes:
            self._add_holes(sums, group, z, shares, mixture, parameters)
        return sums

    def _weigh(
        self, shares: Tensor, distances: Tensor, seen: Tensor | int, nu: Tensor, dims: int | tuple[int, ...]
    ) -> tuple[Tensor, Tensor]:
        """r u, and the sums of r (E log u − u)."""
        u = (nu + seen) / (nu + distances)
        tails = (shares * (u.log() + expected_log_excess(nu, seen) - u)).sum(dims)
        return shares * u, tails

    def _add_holes(
        self, sums: Sums, group: Group, z: Tensor, shares: Tensor, mixture: Gaussians | None, parameters: Any
    ) -> None:
        """Add rows with gaps: expectations, and the covariance of what is unknown."""
        own = shares[:, group.rows].movedim(0, 1)  # (P, k, c)
        if mixture is None:  # a start: gaps are filled by the mean of the table
            filled = z.nan_to_num(0.0)[:, None].expand(-1, own.shape[1], -1, -1)
            scaled = own
        else:
            found = _Holes(mixture, group.observed, z)
            filled, scaled = found.filled, own
            if self.heavy:
                nu = _along(parameters["df"], 1, 3)
                scaled, tails = self._weigh(own, found.distances, found.seen, nu, (0, 2))
                sums["tails"] = sums["tails"] + tails
            sums["second"] = sums["second"] + torch.einsum("pk,pkij->kij", own.sum(2), found.covariance(mixture.k))
        weighted = scaled[..., None] * filled
        sums["mass"] = sums["mass"] + scaled.sum((0, 2))
        sums["first"] = sums["first"] + weighted.sum((0, 2))
        sums["second"] = sums["second"] + torch.einsum("pkci,pkcj->kij", weighted, filled)

    def maximize(self, sums: Sums, prior: float, old: Parameters | None) -> Parameters:
        """Weighted moments; the degrees of freedom from the mean of log u − u."""
        count, mass = sums["count"] + prior, sums["mass"] + prior
        mean = sums["first"] / mass.clamp(min=_LEAST)[:, None]
        second = sums["second"] + prior * self.units["typical"]
        scatter = second - mass[:, None, None] * mean[:, :, None] * mean[:, None, :]
        covariance = scatter / count.clamp(min=_LEAST)[:, None, None]
        dead = count < 1e-12
        root = _root(torch.where(dead[:, None, None], self.units["typical"], covariance))
        found = {"mean": mean, "root": root}
        if old is not None:
            found["mean"] = torch.where(dead[:, None], old["mean"], mean)
            found["root"] = torch.where(dead[:, None, None], old["root"], root)
        if self.heavy:
            found["df"] = self._degrees(sums, old)
        return found

    def _degrees(self, sums: Sums, old: Parameters | None) -> Tensor:
        count = sums["count"]
        if self.df is not None:
            return torch.full_like(count, float(self.df))
        if old is None:
            return torch.full_like(count, 10.0)
        learned = degrees_from(sums["tails"] / count.clamp(min=_LEAST))
        return torch.where(count < 1e-12, old["df"], learned)

    def log_prior(self, parameters: Parameters) -> float:
        """See ``Law``; the typical row is normal."""
        mixture = self._gaussians(parameters)
        about = self.units["typical"] + mixture.means[:, :, None] * mixture.means[:, None, :]
        spread = (mixture.factor * (about @ mixture.factor)).sum((1, 2))
        return float((-0.5 * spread - _log_det(mixture)).sum()) - 0.5 * mixture.k * mixture.d * LOG_TWO_PI

    # -- after EM ------------------------------------------------------------------------------------------

    @property
    def freedom(self) -> int:
        """See ``Law``."""
        d = len(self.columns)
        return d + d * (d + 1) // 2 + int(self.heavy and self.df is None)

    def expect(self, X: Tensor, shares: Tensor, parameters: Parameters) -> Tensor:
        """Means given the observed columns, mixed by the shares."""
        rows, mixture = self.read(X), self._gaussians(parameters)
        full = torch.zeros(len(X), mixture.d, dtype=torch.float64, device=X.device)
        for (numbers, observed), z in rows.holes:
            filled = _Holes(mixture, observed, z).filled  # (P, k, c, d)
            full[numbers] = torch.einsum("pck,pkcd->pcd", shares[numbers], filled)
        return self.units["shift"] + self.units["scale"] * full

    def draw(
        self, which: Tensor, parameters: Parameters, generator: torch.Generator, given: Tensor | None = None
    ) -> Tensor:
        """Whole rows, moved by what the observed columns differ from them (Matheron's rule; Doucet, 2010)."""
        mixture = self._gaussians(parameters)
        rows = None if given is None else self.read(given)
        noise = torch.randn(len(which), mixture.d, generator=generator, dtype=torch.float64)
        noise = torch.einsum("nij,nj->ni", mixture.root[which], noise)
        if self.heavy:
            noise = noise / self._drawn_weights(which, parameters, generator, rows).sqrt()[:, None]
        free = mixture.means[which] + noise
        if rows is not None:
            for (numbers, observed), z in rows.holes:
                miss = torch.where(observed[:, None], z - free[numbers], 0.0)  # (P, c, d)
                moved = Conditional(mixture, observed).expect(miss[:, None].expand(-1, mixture.k, -1, -1))
                chosen = which[numbers][:, None, :, None].expand(-1, 1, -1, mixture.d)
                free[numbers] = free[numbers] + moved.gather(1, chosen)[:, 0]
        return self.units["shift"] + self.units["scale"] * free

    def _drawn_weights(
        self, which: Tensor, parameters: Parameters, generator: torch.Generator, rows: Rows | None
    ) -> Tensor:
        """u of each row, given the distance of its observed columns."""
        nu = parameters["df"][which]
        shape, rate = 0.5 * nu, 0.5 * nu
        if rows is not None:
            for (numbers, observed), z in rows.holes:
                found = _Holes(self._gaussians(parameters), observed, z)
                distance = found.distances.gather(1, which[numbers][:, None])[:, 0]  # (P, c)
                shape[numbers] = 0.5 * (nu[numbers] + observed.sum(1, keepdim=True))
                rate[numbers] = 0.5 * (nu[numbers] + distance)
        return torch._standard_gamma(shape, generator=generator) / rate

    def readable(self, parameters: Parameters) -> Parameters:
        """Means and covariances in the units of the data."""
        scale = self.units["scale"]
        covariance = parameters["root"] @ parameters["root"].mT * (scale[:, None] * scale)
        found = {"mean": self.units["shift"] + scale * parameters["mean"], "covariance": covariance}
        return {**found, "df": parameters["df"]} if self.heavy else found


class _Holes:
    """A group of rows with equal gaps under every component: (P, k, c) distances, log-determinants, expectations."""

    def __init__(self, mixture: Gaussians, observed: Tensor, z: Tensor) -> None:
        self._given = Conditional(mixture, observed)
        delta = differences(z, mixture.means, observed)
        self.seen = observed.sum(1).to(z.dtype)[:, None, None]  # (P, 1, 1)
        at_mean = self._given.log_density(torch.zeros_like(delta[:, :, :1]))  # (P, k, 1)
        self.distances = 2 * (at_mean - self._given.log_density(delta))
        self.log_det = -at_mean - 0.5 * LOG_TWO_PI * self.seen
        self.filled = self._given.expect(delta) + mixture.means[:, None]  # (P, k, c, d)

    def covariance(self, k: int) -> Tensor:
        """Of the gaps given the rest, (P, k, d, d)."""
        return self._given.covariance().expand(-1, k, -1, -1)


def _along(values: Tensor, dim: int, ndim: int) -> Tensor:
    """(k,) values shaped to stand in dimension ``dim`` of ``ndim``."""
    return values.reshape([-1 if i == dim else 1 for i in range(ndim)])


def _log_det(mixture: Gaussians) -> Tensor:
    return -mixture.factor.diagonal(dim1=1, dim2=2).log().sum(1)


def _distances(mixture: Gaussians, Z: Tensor) -> Tensor:
    """Squared distances (k, n) of rows from the means, in the covariance of each component."""
    whiten = mixture.factor.mT.reshape(-1, mixture.d)  # (k d, d)
    offsets = (mixture.means[:, None] @ mixture.factor).reshape(-1, 1)
    white = torch.addmm(-offsets, whiten, Z.T).view(mixture.k, mixture.d, len(Z))
    return white.square().sum(1)


def _root(covariance: Tensor) -> Tensor:
    """Cholesky factors; eigenvalues that are next to nothing are lifted."""
    covariance = 0.5 * (covariance + covariance.mT)
    root: Tensor
    root, failed = torch.linalg.cholesky_ex(covariance)
    weak = (failed > 0) | (root.diagonal(dim1=1, dim2=2).square() < _NARROW).any(1)
    if bool(weak.any()):
        values, vectors = torch.linalg.eigh(covariance[weak])
        half = vectors * values.clamp(min=_NARROW).sqrt()[:, None, :]
        upper = torch.linalg.qr(half.mT).R
        root = root.clone()
        root[weak] = upper.mT * torch.sign(upper.diagonal(dim1=1, dim2=2))[:, None, :]
    return root
