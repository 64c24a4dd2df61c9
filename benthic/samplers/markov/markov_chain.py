"""Markov chains on finitely many states, from two to a million."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.seeds import generator as generator_of
from benthic.base.seeds import seed_of
from benthic.samplers.markov import chain_picture, convergence, hitting
from benthic.samplers.markov.chain_structure import ChainStructure, whole_steps
from benthic.samplers.markov.paths import Table, draw_states, numbered, transition_counts
from benthic.samplers.markov.stationary import Stationary, stationary_of
from benthic.samplers.markov.transition import Transition


class MarkovChain(ChainStructure):
    r"""A Markov chain with transition matrix P, dense or sparse.

    .. math:: P(X_{t+1} = j \mid X_t = i) = p(i, j)

    P: (n, n), rows sum to one; tensor, array, nested list, SciPy sparse matrix or torch sparse tensor. Answers are
    tensors of its device and floating type, differentiable in P where P is a dense tensor. states: names, by default
    0 to n - 1. A start is the name of a state, a law (n,), or laws (..., n).

    >>> weather = MarkovChain([[0.9, 0.1], [0.5, 0.5]], states=["dry", "wet"])
    >>> weather.stationary()
    tensor([0.8333, 0.1667], dtype=torch.float64)
    >>> weather.law(2, start="wet")
    tensor([0.7000, 0.3000], dtype=torch.float64)
    """

    def __init__(self, P: Any, states: Sequence[Hashable] | None = None) -> None:
        super().__init__(P, states)
        self._found: dict[tuple[int, str, float], Stationary] = {}

    @classmethod
    def from_sequences(
        cls, sequences: Any, states: Sequence[Hashable] | None = None, smoothing: float = 0.0, sparse: bool = False
    ) -> MarkovChain:
        r"""The most likely chain for observed sequences, with ``smoothing`` added to every count.

        .. math:: \hat p(i, j) = (n_{ij} + \alpha) / (n_i + \alpha s)

        For :math:`\alpha > 0` the mean of the posterior under a Dirichlet prior on each of the s-state rows.
        sequences: one sequence or a list of sequences of states; a string is a sequence of letters. sparse: keep only
        transitions seen; then smoothing is added to those alone.

        >>> MarkovChain.from_sequences("abababbb").matrix
        tensor([[0.0000, 1.0000],
                [0.5000, 0.5000]], dtype=torch.float64)
        """
        if not smoothing >= 0:
            raise InvalidInput(f"MarkovChain.from_sequences: smoothing is {smoothing}; it is a count, 0 or more")
        paths, names = numbered(sequences, states)
        counts = transition_counts(paths, len(names))
        if sparse:
            counts.data += smoothing
        else:
            counts = counts.toarray() + smoothing
        totals = np.asarray(counts.sum(1)).ravel()
        if not (totals > 0).all():
            name = names[int(np.flatnonzero(totals <= 0)[0])]
            raise InvalidInput(
                f"MarkovChain.from_sequences: state {name!r} is never left in the sequences, so its row is unknown; "
                "give smoothing > 0, or leave the state out"
            )
        return cls(counts.multiply(1 / totals[:, None]) if sparse else counts / totals[:, None], names)

    # ------------------------------------------------------------------------------------------ laws in time

    def law(self, n: int, start: Any) -> Tensor:
        r"""The law after n steps, :math:`\mu P^n`, (..., n_states)."""
        return convergence.law_after(self._T, self._start(start, "law"), whole_steps(n, "law"))

    def n_step_matrix(self, n: int) -> Tensor:
        r"""The matrix :math:`P^n`; sparse where P is sparse and has more than 4096 states."""
        n = whole_steps(n, "n_step_matrix")
        if not self._T.sparse or self.n_states <= convergence.FILLED:
            return torch.linalg.matrix_power(self._T.small(convergence.FILLED, "n_step_matrix"), n)
        return convergence.sparse_power(self._T, n)

    def lazy(self, hold: float = 0.5) -> MarkovChain:
        r"""The chain that stays where it is with probability ``hold``: same stationary law, no period."""
        if not 0 < hold < 1:
            raise InvalidInput(f"MarkovChain.lazy: hold is {hold}; it is a probability between 0 and 1")
        return MarkovChain(convergence.held(self._T, hold), self._names.given)

    # ------------------------------------------------------------------------------------------ stationary law

    def stationary(self, method: str = "auto", tolerance: float = 1e-12) -> Tensor:
        r"""The stationary law :math:`\pi = \pi P`, (n,); an error where there are several.

        method: ``auto``, ``gth``, ``lu``, ``band``, ``power`` or ``multigrid``;
        see :func:`benthic.samplers.stationary.stationary_of`.
        """
        return self.stationary_report(method, tolerance).law

    def stationary_report(self, method: str = "auto", tolerance: float = 1e-12) -> Stationary:
        """The stationary law with its residual, its estimated error, and how it was found."""
        return self._stationary(self._only_class("stationary"), method, tolerance)

    def stationary_laws(self) -> Tensor:
        """One stationary law for each closed class, (k, n); all others are mixtures of these."""
        return torch.stack([self._stationary(k).law for k in np.flatnonzero(self.structure.closed)])

    def limit(self, start: Any = None) -> Tensor:
        r"""The limit of :math:`\mu P^n`, (..., n). Without a start, it must be the same from everywhere."""
        self._check_aperiodic("limit")
        if start is None:
            return self._stationary(self._only_class("limit")).law
        return self._start(start, "limit") @ self.absorption_probabilities() @ self.stationary_laws()

    def flow(self) -> Any:
        r"""Probabilities of seeing i, then j, in equilibrium, :math:`\pi(i) p(i, j)`; SciPy sparse (n, n)."""
        import scipy.sparse

        return scipy.sparse.csr_matrix(
            scipy.sparse.diags(self.stationary().detach().double().cpu().numpy()) @ self._T.csr
        )

    @cached_property
    def reversible(self) -> bool:
        r"""Whether :math:`\pi(i) p(i, j) = \pi(j) p(j, i)` for all i and j, to rounding."""
        report, flow = self.stationary_report(), self.flow()
        relative = 1e-8 if self._T.dtype == torch.float64 else 1e-4
        noise = 0.0 if report.method in ("gth", "band") else 4 * report.error
        gap, size = abs(flow - flow.T), flow + flow.T
        return bool((gap - relative * size).max() <= noise)

    def time_reversal(self) -> MarkovChain:
        r"""The chain seen backward in equilibrium, :math:`\hat p(i, j) = \pi(j) p(j, i) / \pi(i)`."""
        self._check_irreducible("time_reversal")
        law = self.stationary()
        if not bool((law > 0).all()):
            raise InvalidInput("MarkovChain.time_reversal: some stationary probabilities underflow to 0 in float64")
        if not self._T.sparse:
            matrix = self.matrix.T * law[None, :] / law[:, None]
            return MarkovChain(matrix / matrix.sum(1, keepdim=True), self._names.given)
        backward = self.flow().T.tocsr()
        matrix = backward.multiply(1 / backward.sum(1)).tocsr()
        return MarkovChain(Transition.compressed(matrix, self._T.device, self._T.dtype), self._names.given)

    # ------------------------------------------------------------------------------------------ where it ends

    def absorption_probabilities(self) -> Tensor:
        """Probability of ending in each closed class, (n, k), from each state."""
        closed = [members for members, c in zip(self.structure.members, self.structure.closed, strict=True) if c]
        return hitting.absorption(self._T, closed, np.flatnonzero(~self.structure.recurrent))

    def hitting_probabilities(self, targets: Any) -> Tensor:
        """Probability of ever reaching a state, or one of a list of states, from each state, (n,)."""
        return hitting.hitting_probabilities(self._T, self._names.places(targets, "hitting_probabilities"))

    def hitting_times(self, targets: Any) -> Tensor:
        """Expected steps to a state, or to one of a list of states, from each state, (n,); may be infinite."""
        return hitting.hitting_times(self._T, self._names.places(targets, "hitting_times"))

    def fundamental_matrix(self) -> Tensor:
        r"""Expected visits to each transient state, (m, m): :math:`N = (I - Q)^{-1}` over the m transient states.

        Row i starts in the i-th transient state; the order is that of ``states``.
        """
        transient = np.flatnonzero(~self.structure.recurrent)
        if not len(transient):
            raise InvalidInput(
                "MarkovChain.fundamental_matrix: no state is transient, so visits never end; "
                "use ergodic_fundamental_matrix() for a chain that stays"
            )
        if len(transient) > convergence.FILLED:
            self._T.small(convergence.FILLED, "fundamental_matrix")
        return hitting.solve_visits(self._T, transient, torch.eye(len(transient), device=self._T.device))

    def ergodic_fundamental_matrix(self) -> Tensor:
        r"""Kemeny and Snell's matrix of an irreducible chain, :math:`Z = (I - P + 1 \pi)^{-1}`, (n, n)."""
        self._check_irreducible("ergodic_fundamental_matrix")
        P = self._T.small(convergence.FILLED, "ergodic_fundamental_matrix")
        return hitting.kemeny_snell(P, self.stationary())

    def passage_times(self) -> Tensor:
        """Expected steps between all pairs of states, (n, n), with mean return times on the diagonal."""
        self._check_irreducible("passage_times")
        return hitting.passage_times(self._T.small(convergence.FILLED, "passage_times"), self.stationary())

    # ------------------------------------------------------------------------------------------ convergence

    def total_variation(self, n: int | Sequence[int], start: Any = None) -> Tensor:
        r"""Distance :math:`d(n)` of the law after n steps from the stationary one, () or (len(n),).

        Without a start, the largest over all starting states; with several starting laws, the largest over these.
        """
        steps = [whole_steps(k, "total_variation") for k in ([n] if np.ndim(n) == 0 else n)]
        law = self._stationary(self._only_class("total_variation")).law
        begin = None if start is None else self._start(start, "total_variation")
        found = convergence.distances(self._T, law, steps, begin)
        return found[0] if np.ndim(n) == 0 else found

    def mixing_time(self, epsilon: float = 0.25, start: Any = None, max_steps: int = 10**9) -> int:
        r"""The smallest n with :math:`d(n) \le \epsilon`, from the worst start or the one given."""
        if not 0 < epsilon < 1:
            raise InvalidInput(f"MarkovChain.mixing_time: epsilon is {epsilon}; it is a distance between 0 and 1")
        self._check_aperiodic("mixing_time")
        law = self._stationary(self._only_class("mixing_time")).law
        begin = None if start is None else self._start(start, "mixing_time")
        return convergence.mixing_time(self._T, law, epsilon, begin, max_steps)

    def spectral_gap(self, absolute: bool = True) -> float:
        r"""One less the second largest modulus of an eigenvalue; with absolute=False, of its real part.

        Its inverse is the relaxation time. A periodic chain has the absolute gap 0.
        """
        law = self._stationary(self._only_class("spectral_gap")).law
        values = convergence.second_eigenvalues(self._T, law, self.irreducible and self.reversible, absolute)
        return convergence.gap_of(values, absolute)

    # ------------------------------------------------------------------------------------------ paths

    @cached_property
    def _table(self) -> Table:
        return Table(self._T)

    def sample(self, n: int, length: int, start: Any = None, seed: int | None = None) -> Tensor:
        """n paths of ``length`` states each, as state numbers (n, length); ``named`` gives their names.

        start: a state, a law, or n laws; without it, the stationary law.
        """
        if n < 1 or length < 1:
            raise InvalidInput(f"MarkovChain.sample: {n} paths of {length} states were asked for; both are at least 1")
        if start is None:
            laws = self._stationary(self._only_class("sample")).law
        else:
            laws = self._start(start, "sample")
        random = generator_of(seed_of(seed), "markov chain", device=self._T.device)
        return self._table.draw(draw_states(laws, n, random), length, random)

    def log_prob(self, path: Any, start: Any = None) -> Tensor:
        r"""Log-probability of paths given their first state, or with it where a start is given.

        .. math:: \log \mu(x_0) + \textstyle\sum_t \log p(x_{t-1}, x_t)

        path: state numbers (..., t) as an integer tensor or array, or one list of names. Returns (...).
        """
        places = self._names.path(path, self._T.device)
        if self._T.sparse:
            steps = self._table.log_probability(places[..., :-1], places[..., 1:]).to(self._T.dtype)
        else:
            steps = self.matrix[places[..., :-1], places[..., 1:]].log()
        total = steps.sum(-1)
        return total if start is None else total + self._start(start, "log_prob")[places[..., 0]].log()

    # ------------------------------------------------------------------------------------------ pictures

    def plot(self, max_states: int = 30) -> Any:
        """The graph: arrows with their probabilities, classes by color; closed classes are filled."""
        return chain_picture.graph(self, max_states)

    def plot_convergence(self, start: Any = None, steps: int | None = None) -> Any:
        """Distance to the stationary law against the number of steps, and the law as it moves there."""
        return chain_picture.convergence(self, start, steps)

    def summary(self) -> str:
        """What a person asks first: classes, periods, the stationary law, how fast it is reached."""
        return chain_picture.summary_of(self)

    # ------------------------------------------------------------------------------------------ inside

    def _stationary(self, k: int, method: str = "auto", tolerance: float = 1e-12) -> Stationary:
        key = (int(k), method, tolerance)
        found = self._found.get(key) or stationary_of(self._T, self.structure.members[k], method, tolerance)
        if not found.law.requires_grad:  # a graph of derivatives is used once
            self._found[key] = found
        return found
