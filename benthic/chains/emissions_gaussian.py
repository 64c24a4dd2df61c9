"""Hidden states that emit Gaussians, or mixtures of them, with entries missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from benthic.chains import emissions_loops as loops
from benthic.chains.emissions import Emission, Sums
from benthic.mixture.common import choose
from benthic.mixture.density import log_joint
from benthic.mixture.missing import Conditional, differences, groups
from benthic.mixture.parameters import LOG_TWO_PI, Gaussians

_LEAST = 1e-8  # expected steps below which a component stays as it is


class Wide(NamedTuple):
    """Rows less the middle of the data, and their squares, side by side, (t, 2 d)."""

    rows: Tensor


@dataclass(frozen=True)
class GaussianEmission(Emission):
    """Each of k states has m Gaussians; ``laws`` holds all k m of them, weights summing to one in each state.

    floor: (d,) least variances. middle: (d,) a point amid the data, that products are taken from. Sums are about the
    means.
    """

    laws: Gaussians
    states: int
    floor: Tensor
    middle: Tensor

    @property
    def k(self) -> int:
        """Number of states."""
        return self.states

    @property
    def m(self) -> int:
        """Components of a state."""
        return self.laws.k // self.states

    # -- densities -----------------------------------------------------------------------------------

    def prepared(self, values: Tensor) -> Tensor | Wide:
        """Rows with their squares for a diagonal kind, if none has gaps."""
        if not self.laws.diagonal or bool(torch.isnan(values.sum())):
            return values
        rows = values - self.middle
        return Wide(torch.cat([rows, rows.square()], 1))

    def _joint(self, values: Tensor | Wide) -> Tensor:
        """Log-weight plus log-density of every component, (t, k m)."""
        laws = self.laws
        if isinstance(values, Wide):
            constants, factors = self._factors
            return torch.addmm(constants, values.rows, factors)
        if laws.diagonal and values.device.type == "cpu":
            deviations = laws.deviations.T.contiguous()
            out = torch.empty(len(values), laws.k, dtype=torch.float64)
            terms = (deviations.log() + 0.5 * LOG_TWO_PI).numpy()
            means, scales = laws.means.T.contiguous().numpy(), (1 / deviations).numpy()
            loops.diagonal_log_prob(values.numpy(), means, scales, terms, laws.weights.log().numpy(), out.numpy())
            return out
        shared = replace(laws, weights=laws.weights / self.states)
        return log_joint(shared, values) + float(np.log(self.states))

    @cached_property
    def _factors(self) -> tuple[Tensor, Tensor]:
        """Constants (c,) and factors (2 d, c) that make log-densities of rows and their squares.

        What products lose to rounding is a part of (spread of all data / deviation of a component) squared, which
        ``floor`` bounds.
        """
        means = self.laws.means - self.middle
        precisions = 1 / self.laws.deviations.square()
        constants = self.laws.log_constants - 0.5 * (means.square() * precisions).sum(1)
        return constants, torch.cat([(means * precisions).T, -0.5 * precisions.T])

    def log_prob(self, values: Tensor | Wide) -> Tensor:
        """(t, k)."""
        joint = self._joint(values)
        return joint if self.m == 1 else torch.logsumexp(joint.view(len(joint), self.k, self.m), 2)

    def _shares(self, values: Tensor | Wide, shares: Tensor) -> Tensor:
        """Probabilities of components (t, k m) from those of states (t, k)."""
        if self.m == 1:
            return shares
        joint = self._joint(values).view(len(shares), self.k, self.m)
        return (joint.softmax(2) * shares[..., None]).flatten(1)

    # -- learning ------------------------------------------------------------------------------------

    def statistics(self, values: Tensor | Wide, shares: Tensor) -> Sums:
        """weight: (c,); mass, first: (c, d); second: (c, d) or (c, d, d), about the means."""
        parts = self._shares(values, shares)
        weight = parts.sum(0)
        if isinstance(values, Wide):
            return {"weight": weight, **self._sums_by_products(values, parts, weight)}
        if self.laws.diagonal:
            return {"weight": weight, **self._diagonal_sums(values, parts)}
        return {"weight": weight, **self._full_sums(values, parts)}

    def _diagonal_sums(self, values: Tensor, parts: Tensor) -> Sums:
        d, c = values.shape[1], self.laws.k
        if values.device.type == "cpu":
            sums = [torch.zeros(d, c, dtype=torch.float64) for _ in range(3)]
            means = self.laws.means.T.contiguous().numpy()
            loops.diagonal_sums(values.numpy(), parts.contiguous().numpy(), means, *(part.numpy() for part in sums))
            mass, first, second = (part.T.contiguous() for part in sums)
            return {"mass": mass, "first": first, "second": second}
        seen = ~torch.isnan(values)
        gaps = torch.where(seen[:, None], values[:, None] - self.laws.means, 0.0)  # (t, c, d)
        return {
            "mass": parts.T @ seen.to(parts),
            "first": torch.einsum("tc,tcd->cd", parts, gaps),
            "second": torch.einsum("tc,tcd->cd", parts, gaps.square()),
        }

    def _sums_by_products(self, values: Wide, parts: Tensor, weight: Tensor) -> Sums:
        means = self.laws.means - self.middle
        first, second = (parts.T @ values.rows).split(self.laws.d, 1)
        mass = weight[:, None].expand_as(means).clone()
        about = first - mass * means
        return {"mass": mass, "first": about, "second": second - means * (first + about)}

    def _full_sums(self, values: Tensor, parts: Tensor) -> Sums:
        c, d = self.laws.means.shape
        first = torch.zeros(c, d, dtype=torch.float64, device=values.device)
        second = torch.zeros(c, d, d, dtype=torch.float64, device=values.device)
        holed = torch.isnan(values).any(1)
        rows, share = (values, parts) if not bool(holed.any()) else (values[~holed], parts[~holed])
        for j, mean in enumerate(self.laws.means):
            gap = rows - mean
            scaled = gap * share[:, j, None]
            first[j] = scaled.sum(0)
            second[j] = scaled.T @ gap
        if bool(holed.any()):
            self._add_holed(values[holed], parts[holed], first, second)
        return {"mass": parts.sum(0)[:, None].expand(c, d).clone(), "first": first, "second": second}

    def _add_holed(self, values: Tensor, parts: Tensor, first: Tensor, second: Tensor) -> None:
        """Rows with gaps count by what is expected in the gaps, and its covariance."""
        c = self.laws.k
        for rows, observed in groups(torch.isnan(values), c):
            given = Conditional(self.laws, observed)
            filled = given.expect(differences(values[rows], self.laws.means, observed))  # (P, c, rows, d)
            share = parts[rows].movedim(2, 1)  # (P, c, rows)
            scaled = filled * share[..., None]
            first += scaled.sum((0, 2))
            second += torch.einsum("pcri,pcrj->cij", scaled, filled)
            second += torch.einsum("pc,pcij->cij", share.sum(2), given.covariance().expand(-1, c, -1, -1))

    def maximized(self, sums: Mapping[str, Tensor]) -> GaussianEmission:
        """Means and covariances, with variances kept at or above the floor."""
        laws = self.laws
        mass = sums["mass"]
        alive = mass > _LEAST
        shift = torch.where(alive, sums["first"] / mass.clamp(min=_LEAST), 0.0)  # (c, d)
        covariances = self._covariances(sums, alive, shift)
        weight = sums["weight"].view(self.k, self.m)
        whole = weight.sum(1, keepdim=True)
        before = laws.weights.view(self.k, self.m)
        weights = torch.where(whole > _LEAST, weight / whole.clamp(min=_LEAST), before).clamp(min=1e-12)
        weights = (weights / weights.sum(1, keepdim=True)).flatten()
        return replace(self, laws=Gaussians.of_covariances(laws.kind, weights, laws.means + shift, covariances))

    def _covariances(self, sums: Mapping[str, Tensor], alive: Tensor, shift: Tensor) -> Tensor:
        mass, second, old = sums["mass"], sums["second"], self.laws.covariances
        kind = self.laws.kind
        if kind == "diag":
            found = second / mass.clamp(min=_LEAST) - shift.square()
            return torch.where(alive, torch.maximum(found, self.floor), old)
        if kind == "spherical":
            total = (second - mass * shift.square()).sum(1) / mass.sum(1).clamp(min=_LEAST)
            return torch.where(alive.any(1), total.clamp(min=float(self.floor.mean())), old)
        count = mass[:, :1, None]
        scatter = second - count * shift[:, :, None] * shift[:, None, :]
        if kind == "tied":
            return self._lifted((scatter.sum(0) / count.sum().clamp(min=_LEAST))[None])[0]
        lifted = self._lifted(torch.where(count > _LEAST, scatter / count.clamp(min=_LEAST), old))
        return torch.where(count > _LEAST, lifted, old)

    def _lifted(self, matrices: Tensor) -> Tensor:
        """Covariances with eigenvalues of at least 1 in units of the floor: the best ones of all such matrices."""
        unit = self.floor.sqrt()
        values, vectors = torch.linalg.eigh((matrices + matrices.mT) / 2 / (unit[:, None] * unit))
        lifted = (vectors * values.clamp(min=1.0)[:, None, :]) @ vectors.mT
        return torch.where((values < 1.0).any(1)[:, None, None], lifted * (unit[:, None] * unit), matrices)

    def moved(self, sums: Mapping[str, Tensor], before: Emission) -> Sums:
        """Sums about other means."""
        if not isinstance(before, GaussianEmission):
            return dict(sums)
        gap = before.laws.means - self.laws.means
        mass, first = sums["mass"], sums["first"]
        if self.laws.diagonal:
            second = sums["second"] + 2 * first * gap + mass * gap.square()
        else:
            cross = first[:, :, None] * gap[:, None, :]
            second = sums["second"] + cross + cross.mT + mass[:, :1, None] * gap[:, :, None] * gap[:, None, :]
        return {**sums, "first": first + mass * gap, "second": second}

    # -- draws ---------------------------------------------------------------------------------------

    def _component(self, chances: Tensor, states: Tensor, generator: torch.Generator) -> Tensor:
        return states * self.m + choose(chances, generator).to(states.device)

    def _draw(self, components: Tensor, generator: torch.Generator) -> Tensor:
        laws = self.laws
        noise = torch.randn(len(components), laws.d, generator=generator, dtype=torch.float64).to(laws.means.device)
        if laws.diagonal:
            return laws.means[components] + noise * laws.deviations[components]
        root = laws.root.expand(laws.k, laws.d, laws.d)
        moved = laws.means[components]
        for j in range(laws.k):
            chosen = components == j
            moved[chosen] += noise[chosen] @ root[j].T
        return moved

    def draw(self, states: Tensor, generator: torch.Generator) -> Tensor:
        """(t, d)."""
        chances = self.laws.weights.view(self.k, self.m)[states]
        return self._draw(self._component(chances, states, generator), generator)

    def fill(self, values: Tensor, states: Tensor, generator: torch.Generator) -> Tensor:
        """Gaps drawn given the state and the observed entries: a free draw, corrected by how it misses them."""
        joint = self._joint(values).view(len(values), self.k, self.m)
        chances = joint[torch.arange(len(values), device=values.device), states].softmax(1)
        components = self._component(chances, states, generator)
        free = self._draw(components, generator)
        gaps = torch.isnan(values)
        if self.laws.diagonal:
            return torch.where(gaps, free, values)
        filled = values.clone()
        holed = gaps.any(1).nonzero()[:, 0]
        for rows, observed in groups(gaps[holed], self.laws.k):
            where = holed[rows]  # (P, r)
            miss = torch.where(gaps[where], 0.0, values[where] - free[where])  # (P, r, d)
            expected = Conditional(self.laws, observed).expect(miss[:, None].expand(-1, self.laws.k, -1, -1))
            own = components[where][:, None, :, None].expand(-1, 1, -1, self.laws.d)
            change = expected.expand(-1, self.laws.k, -1, -1).gather(1, own)[:, 0]  # (P, r, d)
            filled[where] = torch.where(gaps[where], free[where] + change, values[where])
        return filled

    # -- the rest ------------------------------------------------------------------------------------

    def to(self, device: torch.device) -> GaussianEmission:
        """On another device."""
        floor, middle = self.floor.to(device), self.middle.to(device)
        return replace(self, laws=self.laws.to(device, torch.float64), floor=floor, middle=middle)

    def arrays(self) -> dict[str, np.ndarray]:
        """``means_``, ``covariances_`` and, for mixtures, ``weights_``."""
        laws = self.laws.to(torch.device("cpu"), torch.float64)
        covariances = laws.covariances
        if self.m == 1:
            return {"means_": laws.means.numpy(), "covariances_": covariances.numpy()}
        if laws.kind != "tied":
            covariances = covariances.reshape(self.k, self.m, *covariances.shape[1:])
        return {
            "means_": laws.means.reshape(self.k, self.m, laws.d).numpy(),
            "covariances_": covariances.numpy(),
            "weights_": laws.weights.reshape(self.k, self.m).numpy(),
        }

    @property
    def n_parameters(self) -> int:
        """Weights, means and covariances."""
        return self.laws.n_parameters - (self.states - 1)
