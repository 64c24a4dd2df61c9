"""Baum-Welch: expected counts of states and moves, and the parameters that follow from them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.sequences import Ragged
from benthic.base.threads import Crew, one_torch_thread, standing_crew
from benthic.chains.emissions import Emission, Sums, log_dirichlet, shares_of
from benthic.chains.messages import marginals
from benthic.chains.messages_compiled import Moves

_BLOCK = 1 << 13  # steps worked on at once
_SMALL = 20_000  # steps below which threads cost more than they bring
_DEVICE_BYTES = 1 << 30
_LOCAL = threading.local()


@dataclass(frozen=True)
class HiddenChain:
    """The law of a hidden Markov model, in float64: start (k,), transitions (k, k) and what states emit."""

    start: Tensor
    transitions: Tensor
    emission: Emission

    @property
    def k(self) -> int:
        """Number of states."""
        return len(self.start)

    def to(self, device: torch.device | str) -> HiddenChain:
        """The same on another device."""
        place = torch.device(device)
        return HiddenChain(self.start.to(place), self.transitions.to(place), self.emission.to(place))

    def moves(self) -> Moves:
        """Its potentials, ready for compiled messages."""
        return Moves.of(self.start.cpu().log().numpy(), self.transitions.cpu().log()[None].contiguous().numpy())

    @property
    def n_parameters(self) -> int:
        """Free parameters; zeros that stay zero are none."""
        free = int((self.start > 0).sum()) - 1 + int(((self.transitions > 0).sum(1) - 1).sum())
        return free + self.emission.n_parameters


@dataclass(frozen=True)
class Priors:
    """Parameters of Dirichlet laws of the start and of the rows of transitions; 1 for none."""

    start: Any = 1.0
    transitions: Any = 1.0

    def log_density(self, chain: HiddenChain) -> float:
        """Of all parameters, up to a constant."""
        parts = log_dirichlet(chain.start, self.start) + log_dirichlet(chain.transitions, self.transitions)
        return parts + chain.emission.log_prior()


class Blocks:
    """Sequences in float64 cut into blocks, whose answers do not depend on the number of threads."""

    def __init__(self, data: Ragged, threads: int = 1) -> None:
        values = data.values
        self.values = values.double() if values.is_floating_point() else values
        self.lengths = data.lengths
        self.offsets = data.offsets.numpy()
        self.device = self.values.device
        goal = np.arange(0, self.offsets[-1], _BLOCK)
        starts = np.unique(np.searchsorted(self.offsets[:-1], goal))
        starts = starts[starts < len(data)]
        self.edges = list(zip(starts.tolist(), [*starts[1:].tolist(), len(data)], strict=True))
        self._ready: list[Any] = [None] * len(self.edges)
        self._threads = threads if self.offsets[-1] >= _SMALL and len(self.edges) > 1 else 1

    def part(self, a: int, b: int) -> tuple[Tensor, np.ndarray]:
        """Values of sequences ``a`` to ``b`` and where each begins among them."""
        lo, hi = self.offsets[a], self.offsets[b]
        return self.values[lo:hi], self.offsets[a : b + 1] - lo

    def each(self, work: Callable[[Any, np.ndarray], Any], emission: Emission | None = None) -> list[Any]:
        """The answers of the work for all blocks, in their order.

        emission: makes the values ready at the first time; they are kept for the passes after it.
        """
        found: list[Any] = [None] * len(self.edges)

        def one(i: int) -> None:
            values, offsets = self.part(*self.edges[i])
            if emission is not None:
                if self._ready[i] is None:
                    self._ready[i] = emission.prepared(values)
                values = self._ready[i]
            found[i] = work(values, offsets)

        with one_torch_thread():  # operations are small: threads of torch's own would only wait for one another
            if self._threads == 1:
                for i in range(len(found)):
                    one(i)
            else:
                crew: Crew = standing_crew(self._threads)
                crew.each(one, range(len(found)))
        return found


def expect(chain: HiddenChain, blocks: Blocks) -> Sums:
    """Expected counts given the observations: sums that add over sequences.

    start: (k,), moves: (k, k), log_likelihood: (), sequences: (), steps: (k,), and those of the emission.
    """
    if blocks.device.type != "cpu":
        return _added(_expect_on_device(chain, blocks))
    moves = chain.moves()

    def work(values: Any, offsets: np.ndarray) -> Sums:
        steps = chain.emission.steps(values)
        log_z, single, double = moves.marginals(steps, offsets, single=_scratch(len(steps.rows), chain.k))
        _check_possible(log_z)
        shares = torch.from_numpy(single)
        return {
            "log_likelihood": torch.tensor(log_z.sum()),
            "sequences": torch.tensor(float(len(log_z)), dtype=torch.float64),
            "start": shares[torch.from_numpy(offsets[:-1])].sum(0),
            "steps": shares.sum(0),
            "moves": torch.from_numpy(double),
            **chain.emission.statistics(values, shares),
        }

    return _added(blocks.each(work, chain.emission))


def _scratch(rows: int, k: int) -> np.ndarray:
    """Memory (rows, k) of this thread that is used again by the next block: fresh memory costs more than the work."""
    held = getattr(_LOCAL, "memory", None)
    if held is None or held.size < rows * k:
        held = _LOCAL.memory = np.empty(rows * k)
    return held[: rows * k].reshape(rows, k)


def _check_possible(log_z: np.ndarray) -> None:
    if np.isneginf(log_z).any():
        raise InvalidInput(
            "a sequence is impossible under the zeros of the start, transitions or emissions; allow what it does, "
            "or smooth with a prior above 1"
        )


def _added(parts: list[Sums]) -> Sums:
    """One sum of many, in their order."""
    return {name: torch.stack([part[name] for part in parts]).sum(0) for name in parts[0]}


def add(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> Sums:
    """The sums over two sets of sequences together."""
    return {name: one[name] + other[name] for name in one}


def _expect_on_device(chain: HiddenChain, blocks: Blocks) -> list[Sums]:
    chain = chain.to(blocks.device)
    found = []
    for a, b in _device_parts(blocks, chain.k):
        values, _ = blocks.part(a, b)
        ragged = Ragged(values, blocks.lengths[a:b])
        unary, mask = ragged.replace(chain.emission.log_prob(values)).padded()
        unary[:, 0] += chain.start.log()
        known = marginals(unary, chain.transitions.log(), blocks.lengths[a:b])
        _check_possible(known.log_partition.cpu().numpy())
        shares = known.single[mask]
        found.append(
            {
                "log_likelihood": known.log_partition.sum(),
                "sequences": torch.tensor(float(b - a), dtype=torch.float64),
                "start": known.single[:, 0].sum(0),
                "steps": shares.sum(0),
                "moves": known.pairs.sum((0, 1)),
                **chain.emission.statistics(values, shares),
            }
        )
    return [{name: value.cpu() for name, value in part.items()} for part in found]


def _device_parts(blocks: Blocks, k: int) -> list[tuple[int, int]]:
    """Sequences that fit the device's memory together."""
    size = max(1, _DEVICE_BYTES // (32 * k * k * int(blocks.lengths.max())))
    n = len(blocks.lengths)
    return [(a, min(a + size, n)) for a in range(0, n, size)]


def maximize(chain: HiddenChain, sums: Mapping[str, Tensor], priors: Priors) -> HiddenChain:
    """The most probable parameters for these expected counts."""
    return HiddenChain(
        shares_of(sums["start"], chain.start, priors.start),
        shares_of(sums["moves"], chain.transitions, priors.transitions),
        chain.emission.maximized(sums),
    )


@dataclass(frozen=True)
class Run:
    """One run of EM: the law, the objective before each pass and after the last, whether it converged, last counts."""

    chain: HiddenChain
    history: list[float]
    converged: bool
    occupancy: Tensor

    @property
    def objective(self) -> float:
        """Log-likelihood of the data, plus the log-prior."""
        return self.history[-1]


def run_em(
    chain: HiddenChain,
    blocks: Blocks,
    priors: Priors,
    *,
    max_iter: int,
    tol: float,
    tick: Callable[[float], None],
) -> Run:
    """Passes until the objective gains less than ``tol`` a step of data, or ``max_iter`` of them.

    The objective never falls (Baum et al., 1970). The last pass only measures what the one before it reached.
    """
    steps = float(blocks.offsets[-1])
    history: list[float] = []
    sums = expect(chain, blocks)
    converged = False
    for _ in range(max_iter):
        history.append(float(sums["log_likelihood"]) + priors.log_density(chain))
        tick(history[-1] / steps)
        if len(history) > 1 and history[-1] - history[-2] < tol * steps:
            converged = True
            break
        chain = maximize(chain, sums, priors)
        sums = expect(chain, blocks)
    else:
        history.append(float(sums["log_likelihood"]) + priors.log_density(chain))
        converged = len(history) > 1 and history[-1] - history[-2] < tol * steps
    return Run(chain, history, converged, sums["steps"] / sums["steps"].sum())


def best_of(runs: list[Run]) -> Run:
    """The run with the highest objective; of those that differ by rounding only, the first."""
    best = runs[0]
    for run in runs[1:]:
        if run.objective > best.objective + 1e-9 * abs(best.objective):
            best = run
    return best
