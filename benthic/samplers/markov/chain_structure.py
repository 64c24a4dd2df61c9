"""States and classes of a Markov chain: the part that depends on which transitions are possible."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.settings import whole
from benthic.samplers.markov.classes_of_states import Structure, structure_of
from benthic.samplers.markov.naming import Names
from benthic.samplers.markov.transition import Transition


class ChainStructure:
    """Named states with a transition matrix, their communicating classes and periods."""

    def __init__(self, P: Any, states: Sequence[Hashable] | None = None) -> None:
        self._T = Transition(P)
        self._names = Names(states, self._T.n)

    def __repr__(self) -> str:
        kind = "sparse" if self._T.sparse else "dense"
        return f"{type(self).__name__}({self.n_states} states, {kind}, {self._T.csr.nnz} transitions)"

    @property
    def matrix(self) -> Tensor:
        """The transition matrix (n, n): a dense tensor, or torch's compressed rows where it is sparse."""
        return self._T.rows

    @property
    def states(self) -> list[Any]:
        """The names of the states."""
        return self._names.all

    @property
    def n_states(self) -> int:
        """How many states there are."""
        return self._T.n

    @cached_property
    def structure(self) -> Structure:
        """Classes, which of them are closed, and periods, as arrays."""
        return structure_of(self._T.csr)

    @property
    def classes(self) -> list[list[Any]]:
        """Communicating classes: states that can reach each other, as lists of names."""
        return [self._names.of(members) for members in self.structure.members]

    @property
    def irreducible(self) -> bool:
        """Whether every state can reach every other."""
        return self.structure.count == 1

    @property
    def periods(self) -> list[int]:
        """The period of each class, in the order of ``classes``; 0 for a state never returned to."""
        return self.structure.periods.tolist()

    @property
    def period(self) -> int:
        """The period of the only closed class."""
        return int(self.structure.periods[self._only_class("period")])

    @property
    def aperiodic(self) -> bool:
        """Whether every closed class has period 1."""
        return bool((self.structure.periods[self.structure.closed] == 1).all())

    @property
    def ergodic(self) -> bool:
        """Whether the chain is irreducible and aperiodic: one limit, from every start."""
        return self.irreducible and self.aperiodic

    @property
    def recurrent(self) -> Tensor:
        """(n,) bool, whether each state is surely returned to; all of these are positive recurrent."""
        return torch.as_tensor(self.structure.recurrent, device=self._T.device)

    @property
    def transient(self) -> Tensor:
        """(n,) bool, whether each state is left forever with positive probability."""
        return ~self.recurrent

    @property
    def absorbing(self) -> Tensor:
        """(n,) bool, whether each state is never left."""
        sizes = np.bincount(self.structure.labels)
        alone = (sizes == 1) & self.structure.closed
        return torch.as_tensor(alone[self.structure.labels], device=self._T.device)

    def class_of(self, state: Hashable) -> list[Any]:
        """The communicating class of a state."""
        return self._names.of(self.structure.members[self.structure.labels[self._names.place(state, "class_of")]])

    def named(self, paths: Tensor) -> Any:
        """Names instead of state numbers, in lists nested like the tensor."""
        return self._names.nested(paths.tolist())

    # ------------------------------------------------------------------------------------------ checks

    def _only_class(self, what: str) -> int:
        closed = np.flatnonzero(self.structure.closed)
        if len(closed) > 1:
            shown = ", ".join(self._names.show(self.structure.members[k]) for k in closed[:4])
            more = f" and {len(closed) - 4} more" if len(closed) > 4 else ""
            raise InvalidInput(
                f"MarkovChain.{what}: the chain is reducible with {len(closed)} closed classes, {shown}{more}, so "
                "there is no unique answer; use stationary_laws() and absorption_probabilities(), or limit(start)"
            )
        return int(closed[0])

    def _check_irreducible(self, what: str) -> None:
        if not self.irreducible:
            shown = ", ".join(self._names.show(members) for members in self.structure.members[:4])
            more = f" and {self.structure.count - 4} more" if self.structure.count > 4 else ""
            raise InvalidInput(
                f"MarkovChain.{what}: the chain is reducible with the classes {shown}{more}; "
                "every state must reach every other, so keep one closed class only"
            )

    def _check_aperiodic(self, what: str) -> None:
        wrong = np.flatnonzero(self.structure.closed & (self.structure.periods > 1))
        if len(wrong):
            members, period = self.structure.members[wrong[0]], int(self.structure.periods[wrong[0]])
            raise InvalidInput(
                f"MarkovChain.{what}: the class {self._names.show(members)} has period {period}, so laws go round "
                "and have no limit; use stationary(), or lazy() for the chain that sometimes waits"
            )

    def _start(self, start: Any, what: str) -> Tensor:
        """A state's name, or laws, as laws (..., n)."""
        if isinstance(start, (Tensor, np.ndarray, list)) and np.ndim(start) > 0:
            return self._laws(self._T.to(start), what)
        law = torch.zeros(self.n_states, dtype=self._T.dtype, device=self._T.device)
        law[self._names.place(start, what)] = 1
        return law

    def _laws(self, laws: Tensor, what: str) -> Tensor:
        if laws.shape[-1] != self.n_states:
            raise InvalidInput(
                f"MarkovChain.{what}: start has shape {tuple(laws.shape)}; laws end in the {self.n_states} states"
            )
        sums = laws.detach().sum(-1)
        if not bool((laws >= 0).all()) or not bool(((sums - 1).abs() <= 1e-4).all()):
            worst = float(sums.flatten()[(sums.flatten() - 1).abs().argmax()])
            raise InvalidInput(
                f"MarkovChain.{what}: start has the least entry {float(laws.min()):.6g} and a sum of {worst:.6g}; a "
                "law has no negative entries and sums to 1"
            )
        return laws


def whole_steps(n: Any, what: str) -> int:
    """A number of steps as an int, 0 or more."""
    return int(whole(f"MarkovChain.{what}: n", n, 0))
