"""Where Baum-Welch starts: clusters of steps, even parts of sequences, random symbols, or what the user gives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput, nearest
from benthic.base.sequences import Ragged
from benthic.chains.emissions import Categorical, Emission, Poisson
from benthic.chains.emissions_gaussian import GaussianEmission
from benthic.chains.hidden_learning import HiddenChain
from benthic.cluster.seeding import assign, lloyd, plus_plus, sort_rows
from benthic.mixture.parameters import Gaussians, covariance_shape

_SAMPLE_ROWS = 1 << 14
_CHUNK = 1 << 14
_SURE = 0.95  # how much a step belongs to its own cluster at the start
_SCATTERED = 0.6  # starts that put clusters together to states at random
TOPOLOGIES = ("full", "left-right")


@dataclass(frozen=True)
class Plan:
    """What is asked for: states, components of a state, kind of emission and of covariance, and what is given.

    given: arrays by the name of the parameter, ``start_init`` and so on; those left out are found.
    """

    k: int
    m: int
    emission: str
    kind: str
    min_covar: float
    emission_prior: float
    topology: str
    given: dict[str, Any]


class Starter:
    """Makes the start of each run of EM from the sequences, on the CPU."""

    def __init__(self, data: Ragged, plan: Plan, n_symbols: int = 0) -> None:
        values = data.values.cpu()
        self.data = Ragged(values.double() if values.is_floating_point() else values, data.lengths)
        self.plan, self.n_symbols = plan, n_symbols
        self.start, self.transitions = read_topology(plan)
        if plan.emission != "categorical":
            self._moments()

    def __call__(self, rng: np.random.Generator) -> HiddenChain:
        """One start."""
        if self.plan.emission == "categorical":
            return HiddenChain(*self._random_moves(rng), self._random_symbols(rng))
        if set(self.plan.given) == {"start_init", "transitions_init", "means_init", "covariances_init"}:
            return HiddenChain(*self._allowed(self.start, self.transitions), self._all_given())
        labels = self._labels(rng)
        states = labels // self.plan.m
        start, transitions = self._counted_moves(states)
        return HiddenChain(start, transitions, self._emission(labels))

    # -- numbers -------------------------------------------------------------------------------------

    def _moments(self) -> None:
        values = self.data.values
        if bool(torch.isnan(values.sum())):
            if bool(torch.isnan(values).all(0).any()):
                column = int(torch.isnan(values).all(0).nonzero()[0])
                raise InvalidInput(f"column {column} of X has no observed value; drop it")
            self.mean = values.nanmean(0)
            spread = (values - self.mean).square().nanmean(0)
        else:
            spread, self.mean = torch.var_mean(values, 0, correction=0)
        self.variance = torch.where(spread > 0, spread, 1.0)

    @cached_property
    def _shown(self) -> Tensor:
        """Steps in standard units, gaps filled by the mean: what clusters are looked for in."""
        values = self.data.values
        filled = torch.where(torch.isnan(values), self.mean, values)
        shown = filled.clamp(min=0).sqrt() if self.plan.emission == "poisson" else filled
        scale, middle = torch.std_mean(shown, 0, correction=0)
        return (shown - middle) / torch.where(scale > 0, scale, 1.0)

    def _labels(self, rng: np.random.Generator) -> Tensor:
        """The component that each step starts in, (total,)."""
        k, m = self.plan.k, self.plan.m
        means = self.plan.given.get("means_init")
        if means is not None and self.plan.emission != "poisson":
            return self._nearest(means.reshape(k * m, -1))
        if means is None and self.plan.topology == "left-right":
            states = self._even_parts()
        else:
            states = self._clusters(self._shown, k, rng)
        if m == 1:
            return states
        if self.plan.topology == "full" and rng.random() < _SCATTERED:  # components of a state may lie far apart
            return torch.from_numpy(rng.permutation(k * m))[self._clusters(self._shown, k * m, rng)]
        labels = states * m
        for j in range(k):
            chosen = (states == j).nonzero()[:, 0]
            if len(chosen) >= m:
                labels[chosen] += self._clusters(self._shown[chosen], m, rng)
        return labels

    def _clusters(self, rows: Tensor, k: int, rng: np.random.Generator) -> Tensor:
        if k == 1:
            return torch.zeros(len(rows), dtype=torch.int64)
        ordered = sort_rows(rows, limit=_SAMPLE_ROWS)
        centers = lloyd(ordered, plus_plus(ordered, k, rng), 10)
        return torch.cat([assign(part, centers) for part in rows.split(_CHUNK)])

    def _nearest(self, means: Tensor) -> Tensor:
        """The nearest of the given means, in units of each column's deviation."""
        unit = self.variance.sqrt()
        filled = torch.where(torch.isnan(self.data.values), self.mean, self.data.values)
        return torch.cat([assign(part / unit, means / unit) for part in filled.split(_CHUNK)])

    def _even_parts(self) -> Tensor:
        parts = [(torch.arange(n) * self.plan.k) // n for n in self.data.lengths.tolist()]
        return torch.cat(parts)

    def _emission(self, labels: Tensor) -> Emission:
        plan, c = self.plan, self.plan.k * self.plan.m
        shares = _SURE * torch.nn.functional.one_hot(labels, c).double() + (1 - _SURE) / c
        if plan.emission == "poisson":
            rates = self.mean.clamp(min=1e-3).expand(c, -1).clone()
            found = Poisson(rates).maximized(Poisson(rates).statistics(self.data.values, shares))
            given = plan.given.get("means_init")
            return found if given is None else Poisson(given)
        return self._gaussian(shares)

    def _gaussian(self, shares: Tensor) -> GaussianEmission:
        """One step of EM for components apart, from the spread of all data; then the weights of each state."""
        plan, c, d = self.plan, self.plan.k * self.plan.m, len(self.mean)
        diagonal = torch.diag(self.variance)
        whole = {"full": diagonal.expand(c, d, d), "tied": diagonal, "diag": self.variance.expand(c, d)}
        wide = whole.get(plan.kind, self.variance.mean().expand(c)).contiguous()
        even = torch.full((c,), 1.0, dtype=torch.float64)
        laws = Gaussians.of_covariances(plan.kind, even, self.mean.expand(c, d).contiguous(), wide)
        floor = plan.min_covar * self.variance
        apart = GaussianEmission(laws, c, floor, self.mean)
        found = apart.maximized(apart.statistics(self.data.values, shares)).laws
        weight = shares.sum(0).view(plan.k, plan.m)
        found = replace(found, weights=(weight / weight.sum(1, keepdim=True)).flatten())
        return GaussianEmission(self._as_given(found), plan.k, floor, self.mean)

    def _all_given(self) -> GaussianEmission:
        """Nothing is left to find but the weights of mixtures, which start even."""
        plan, c, d = self.plan, self.plan.k * self.plan.m, len(self.mean)
        shape = covariance_shape(plan.kind, c, d)
        covariances = plan.given["covariances_init"].reshape(shape)
        weights = torch.full((c,), 1.0 / plan.m, dtype=torch.float64)
        laws = Gaussians.of_covariances(plan.kind, weights, plan.given["means_init"].reshape(c, d), covariances)
        return GaussianEmission(laws, plan.k, plan.min_covar * self.variance, self.mean)

    def _as_given(self, laws: Gaussians) -> Gaussians:
        """The laws with what the user gives in place."""
        given = self.plan.given
        means = given.get("means_init", laws.means).reshape(laws.k, laws.d)
        shape = covariance_shape(laws.kind, laws.k, laws.d)
        covariances = given.get("covariances_init", laws.covariances).reshape(shape)
        return Gaussians.of_covariances(laws.kind, laws.weights, means, covariances)

    # -- moves ---------------------------------------------------------------------------------------

    def _counted_moves(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Start and transitions by counting those of the labels, one more of each; zeros stay."""
        k = self.plan.k
        offsets = self.data.offsets
        first = torch.bincount(states[offsets[:-1]], minlength=k).double()
        inside = torch.ones(len(states), dtype=torch.bool)
        inside[offsets[:-1]] = False
        pairs = (states[:-1] * k + states[1:])[inside[1:]]
        moves = torch.bincount(pairs, minlength=k * k).double().view(k, k)
        return self._allowed(first + 1, moves + 1)

    def _random_moves(self, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        k = self.plan.k
        moves = 0.5 * np.eye(k) + 0.5 * rng.dirichlet(np.ones(k), size=k)
        return self._allowed(torch.from_numpy(rng.dirichlet(np.full(k, 5.0))), torch.from_numpy(moves))

    def _allowed(self, start: Tensor, moves: Tensor) -> tuple[Tensor, Tensor]:
        if "start_init" in self.plan.given:
            start = self.start
        if "transitions_init" in self.plan.given:
            moves = self.transitions
        start, moves = start * (self.start > 0), moves * (self.transitions > 0)
        return start / start.sum(), moves / moves.sum(1, keepdim=True)

    def _random_symbols(self, rng: np.random.Generator) -> Categorical:
        """Each state prefers other symbols than all data do."""
        given = self.plan.given.get("emissions_init")
        if given is not None:
            return Categorical(given, self.plan.emission_prior)
        codes = self.data.values[self.data.values >= 0]
        shares = torch.bincount(codes, minlength=self.n_symbols).double() + 0.1
        table = shares * torch.from_numpy(rng.gamma(1.0, size=(self.plan.k, self.n_symbols)) + 0.01)
        return Categorical(table / table.sum(1, keepdim=True), self.plan.emission_prior)


def read_topology(plan: Plan) -> tuple[Tensor, Tensor]:
    """Start (k,) and transitions (k, k) that show by their zeros what can never be."""
    k = plan.k
    if plan.topology not in TOPOLOGIES:
        raise InvalidInput(
            f"topology {plan.topology!r} is unknown{nearest(str(plan.topology), TOPOLOGIES)}; use "
            f"{' or '.join(TOPOLOGIES)}, or zeros in transitions_init"
        )
    start, moves = torch.ones(k, dtype=torch.float64), torch.ones(k, k, dtype=torch.float64)
    if plan.topology == "left-right":
        start[1:] = 0.0
        moves = torch.eye(k, dtype=torch.float64) + torch.diag(torch.ones(k - 1, dtype=torch.float64), 1)
    start = plan.given.get("start_init", start / start.sum())
    return start, plan.given.get("transitions_init", moves / moves.sum(1, keepdim=True))


def read_given(values: dict[str, Any], shapes: dict[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """The user's start, checked: shapes, and rows of probabilities that sum to 1."""
    found = {}
    for name, value in values.items():
        if value is None:
            continue
        if name not in shapes:
            raise InvalidInput(f"{name} does not belong to this emission; it is for another one")
        array = value.detach().cpu().numpy() if isinstance(value, Tensor) else value
        tensor = torch.from_numpy(np.array(array, dtype=np.float64))
        if tuple(tensor.shape) != shapes[name]:
            raise InvalidInput(f"{name} has shape {tuple(tensor.shape)}; expected {shapes[name]}")
        if not bool(torch.isfinite(tensor).all()):
            raise InvalidInput(f"{name} contains NaN or infinity")
        if name in ("start_init", "transitions_init", "emissions_init"):
            sums = tensor.sum(-1)
            if bool((tensor < 0).any()) or bool(((sums - 1).abs() > 1e-6).any()):
                raise InvalidInput(f"{name} must hold probabilities: at least 0, and each row with sum 1")
        found[name] = tensor
    return found
