"""Paths of a Markov chain: drawing them, their probability, and counting transitions in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.samplers.markov.transition import Transition


class Table:
    """Positive entries of P row after row on its device, for drawing and looking up."""

    def __init__(self, T: Transition) -> None:
        csr = T.csr
        csr.sort_indices()
        rows = np.repeat(np.arange(T.n), np.diff(csr.indptr))
        running = np.cumsum(csr.data)
        before = np.concatenate([[0.0], running])[csr.indptr[:-1]]
        within = np.clip(running - before[rows], 0, 1)
        self.n, device = T.n, T.device
        self.bounds = torch.as_tensor(rows + within, device=device)  # (entries,) row + cumulative probability
        self.columns = torch.as_tensor(csr.indices.astype(np.int64), device=device)
        self.first = torch.as_tensor(csr.indptr[:-1].astype(np.int64), device=device)
        self.last = torch.as_tensor(csr.indptr[1:].astype(np.int64) - 1, device=device)
        self.keys = torch.as_tensor(rows * T.n + csr.indices, device=device)
        self.log = torch.as_tensor(np.log(csr.data), device=device)

    def draw(self, states: Tensor, length: int, generator: torch.Generator) -> Tensor:
        """Paths (k, length) from states (k,): one binary search a step for all paths together."""
        path = torch.empty(len(states), length, dtype=torch.int64, device=states.device)
        for t in range(length):
            path[:, t] = states
            if t == length - 1:
                break
            u = torch.rand(len(states), generator=generator, device=states.device, dtype=torch.float64)
            entry = torch.searchsorted(self.bounds, states + u, right=True)
            entry = torch.minimum(torch.maximum(entry, self.first[states]), self.last[states])
            states = self.columns[entry]
        return path

    def log_probability(self, sources: Tensor, targets: Tensor) -> Tensor:
        """log p(i, j) for pairs of states of any shape; minus infinity where no arrow is."""
        keys = sources * self.n + targets
        place = torch.searchsorted(self.keys, keys).clamp(max=len(self.keys) - 1)
        return torch.where(self.keys[place] == keys, self.log[place], -torch.inf)


def draw_states(law: Tensor, k: int, generator: torch.Generator) -> Tensor:
    """k states by cumulative sums: from one law (n,), or from a law for each (k, n)."""
    if law.dim() > 1 and law.shape != (k, law.shape[-1]):
        raise InvalidInput(f"MarkovChain.sample: start has {len(law)} laws for {k} paths; give one, or one each")
    running = law.detach().double().cumsum(-1)
    u = torch.rand(k, generator=generator, device=law.device, dtype=torch.float64)
    if law.dim() == 1:
        found = torch.searchsorted(running, u * running[-1], right=True)
        last = torch.nonzero(law.detach() > 0).max()
        return found.clamp(max=last)
    found = torch.searchsorted(running, (u * running[:, -1])[:, None], right=True)[:, 0]
    positions = torch.arange(law.shape[1], device=law.device)
    return torch.minimum(found, (positions * (law.detach() > 0)).amax(1))


def numbered(sequences: Any, states: Sequence[Any] | None) -> tuple[list[np.ndarray], list[Any]]:
    """Sequences as state numbers, and the states: those given, or those met, sorted where they can be."""
    listed = [list(sequence) for sequence in _as_sequences(sequences)]
    if states is None:
        met = dict.fromkeys(state for sequence in listed for state in sequence)
        try:
            states = sorted(met)
        except TypeError:  # names of several kinds have no order
            states = list(met)
    names = list(states)
    place = {name: i for i, name in enumerate(names)}
    for number, sequence in enumerate(listed):
        for state in sequence:
            if state not in place:
                raise InvalidInput(
                    f"MarkovChain.from_sequences: sequence {number} has the state {state!r}, which is not in states"
                )
    return [np.array([place[state] for state in sequence], dtype=np.int64) for sequence in listed], names


def _as_sequences(sequences: Any) -> Iterable[Any]:
    if isinstance(sequences, (Tensor, np.ndarray)):
        sequences = sequences.tolist()
    if isinstance(sequences, str):
        return [sequences]
    sequences = list(sequences)
    if not sequences:
        raise InvalidInput("MarkovChain.from_sequences: there are no sequences; give a list of lists of states")
    if not isinstance(sequences[0], (list, tuple, Tensor, np.ndarray)):
        return [sequences]
    return [s.tolist() if isinstance(s, (Tensor, np.ndarray)) else s for s in sequences]


def transition_counts(paths: list[np.ndarray], n: int) -> Any:
    """How often each transition was seen, SciPy sparse (n, n)."""
    import scipy.sparse

    sources = np.concatenate([np.empty(0, dtype=np.int64), *[path[:-1] for path in paths]])
    targets = np.concatenate([np.empty(0, dtype=np.int64), *[path[1:] for path in paths]])
    return scipy.sparse.coo_matrix((np.ones(len(sources)), (sources, targets)), shape=(n, n)).tocsr()
