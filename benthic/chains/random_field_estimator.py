"""What a fitted field can answer: states, marginals, best states, likelihoods and draws."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from benthic.base.capabilities import Encodes, HasDensity, Samples
from benthic.base.errors import InvalidInput
from benthic.base.estimator import Estimator
from benthic.base.likelihood import Likelihood
from benthic.base.seeds import generator
from benthic.base.validation import speaking
from benthic.chains.graph_messages import (
    NEVER,
    Beliefs,
    Graph,
    largest,
    log_weight,
    loopy_messages,
    pick,
    tree_messages,
    tree_states,
)
from benthic.chains.graph_messages_exact import eliminated_beliefs, eliminated_states
from benthic.chains.random_field_columns import UNSEEN, Variable, codes_of, fold, refuse_unseen, unfold
from benthic.chains.random_field_gibbs import Sweeper, annealed_log_partition, local_fields
from benthic.chains.random_field_learning import Field
from benthic.uses.verbs import Uses, conditions

_BLOCK = 1 << 21  # numbers of the messages of a block of rows


def _is_exact(model: Any) -> bool:
    return bool(getattr(model, "exact_", True))


class FieldEstimator(Samples, Uses, HasDensity, Encodes, Estimator):
    """Base of fields: everything that follows from states of columns, log-weights and edges."""

    # what a subclass sets, and learns
    damping: float
    max_iter: int
    tol: float
    sweeps: int
    levels_: list[np.ndarray]
    bin_edges_: list[np.ndarray | None]
    edges_: np.ndarray
    unary_: np.ndarray
    pairwise_: np.ndarray
    exact_: bool
    n_features_in_: int
    schema_: Any
    _scales: np.ndarray
    _order: list[int] | None
    _cells: int
    _seed: int
    _log_z: tuple[float, float] | None

    def _variables(self) -> list[Variable]:
        parts = zip(self.levels_, self.bin_edges_, self._scales, strict=True)
        return [Variable(*part) for part in parts]

    # -- from rows to states and back ------------------------------------------------------------------

    def _names(self) -> list[str]:
        schema = getattr(self, "schema_", None)
        if schema is not None:
            return [str(column.name) for column in schema.columns]
        return [str(name) for name in getattr(self, "feature_names_in_", range(len(self.levels_)))]

    def _states(self, X: Tensor, strict: bool = True) -> tuple[Tensor, Tensor]:
        """Columns of variables (n, v) and their states."""
        columns, variables = fold(X, getattr(self, "schema_", None)), self._variables()
        codes = codes_of(columns, variables)
        if strict:
            refuse_unseen(columns, codes, variables, self._names())
        return columns, codes

    def _encode(self, X: Tensor) -> Tensor:
        with speaking(self, "transform"):
            return self._states(X)[1].to(X.dtype)

    def _decode(self, Z: Tensor) -> Tensor:
        codes = Z.round().long()
        parts = []
        for j, levels in enumerate(self.levels_):
            known = torch.as_tensor(levels).to(Z.device, torch.float64)
            parts.append(known[codes[:, j].clamp(0, len(levels) - 1)])
        return unfold(torch.stack(parts, 1), getattr(self, "schema_", None))

    # -- inference -------------------------------------------------------------------------------------

    def _field(self, device: torch.device | str = "cpu") -> Field:
        unary, pairwise = (torch.as_tensor(part).to(device) for part in (self.unary_, self.pairwise_))
        return Field(unary, pairwise, Graph(len(self.unary_), torch.as_tensor(self.edges_)))

    def _weights_given(self, field: Field, codes: Tensor, evidence: Tensor | None = None) -> Tensor:
        """(n, v, k) log-weights of states with what is known held; a gap leaves its variable free."""
        k = field.unary.shape[1]
        held = torch.arange(k, device=codes.device) == codes[..., None]
        weights = torch.where((codes < 0)[..., None] | held, field.unary, NEVER)
        return weights if evidence is None else weights + torch.where(weights > NEVER / 2, evidence, 0.0)

    def _infer(self, weights: Tensor, field: Field, best: bool = False) -> Any:
        """Beliefs of rows, or their best states (n, v)."""
        if field.graph.is_forest:
            return (
                tree_states(weights, field.pairwise, field.graph)[0] if best else tree_messages(weights, *_pair(field))
            )
        if self.exact_:
            find = eliminated_states if best else eliminated_beliefs
            found = find(weights, field.pairwise, field.graph, tuple(self._order or ()))
            return found[0] if best else found
        run = partial(loopy_messages, damping=float(self.damping), max_iter=int(self.max_iter), tol=float(self.tol))
        return run(weights, *_pair(field), largest).nodes.argmax(-1) if best else run(weights, *_pair(field))

    def _enter(self, X: Any, evidence: Any, method: str) -> tuple[Iterator[Tensor], Any, Field]:
        """Blocks of log-weights (n, v, k) of rows with gaps and evidence, where they came from, and the field."""
        check_is_fitted(self)
        v, k = self.unary_.shape
        with speaking(self, method):
            known = None if evidence is None else torch.as_tensor(evidence, dtype=torch.float64)
            if known is not None and (known.shape[-2:] != (v, k) or known.ndim not in (2, 3)):
                raise InvalidInput(f"evidence has shape {tuple(known.shape)}; expected (n, {v}, {k}) or ({v}, {k})")
            if known is not None and bool(torch.isnan(known).any() | (known == torch.inf).any()):
                raise InvalidInput("evidence contains NaN or plus infinity; it holds log-probabilities")
        if X is None:
            n = 1 if known is None or known.ndim == 2 else len(known)
            codes, origin = torch.full((n, v), -1), replace(self._fit_origin, dtype="float64")
        else:
            rows, origin = self._arrive(X, method, missing=True)
            with speaking(self, method):
                codes = self._states(rows)[1]
        field = self._field(codes.device)
        known = None if known is None else known.clamp(min=NEVER).to(codes.device)
        if known is not None and known.ndim == 3 and len(known) != len(codes):
            raise self._fail(method, f"evidence has {len(known)} rows and X {len(codes)}; pass as many, or one")
        return self._blocks(field, codes, known), origin, field

    def _blocks(self, field: Field, codes: Tensor, evidence: Tensor | None = None) -> Iterator[Tensor]:
        """Log-weights of rows, in parts whose messages fit into memory."""
        v, k = self.unary_.shape
        size = max(1, _BLOCK // max(1, self._cells, len(self.edges_) * k * k, v * k))
        for start in range(0, len(codes), size):
            part = slice(start, start + size)
            known = evidence[part] if evidence is not None and evidence.ndim == 3 else evidence
            yield self._weights_given(field, codes[part], known)

    def beliefs(self, X: Any = None, *, evidence: Any = None) -> Beliefs:
        """What the messages say of rows with gaps (NaN), as tensors: marginals, log Z, whether they settled.

        evidence: (n, v, k) or (v, k) log-probabilities of what was observed under each state, to be added. The log
        Z is that of the rows given: minus ``log_partition_`` it is the log-probability of what is known.
        """
        blocks, _, field = self._enter(X, evidence, "beliefs")
        found = [self._infer(part, field) for part in blocks]
        tensors = [torch.cat(parts) for parts in zip(*(run[:4] for run in found), strict=True)]
        return Beliefs(*tensors, max(run.iterations for run in found), max(run.residual for run in found))

    def marginals(self, X: Any = None, *, evidence: Any = None) -> Any:
        """(n, v, k) the probability of every state given what is known of each row; NaN leaves a column open.

        Columns with fewer than k states have 0 there. evidence: as for ``beliefs``.
        """
        blocks, origin, field = self._enter(X, evidence, "marginals")
        return origin.mirror(torch.cat([self._infer(part, field).nodes for part in blocks]))

    def most_probable(self, X: Any = None, *, evidence: Any = None) -> Any:
        """Rows with the states that are most probable together, given what is known: max-product messages.

        Open columns that are cut into bins get the mean of their bin; known ones stay. On graphs with loops that are
        too large for exact sums the states of the largest max-beliefs are taken.
        """
        blocks, origin, field = self._enter(X, evidence, "most_probable")
        codes = torch.cat([self._infer(part, field, best=True) for part in blocks])
        filled = self._decode(codes.double())
        if X is not None:
            rows, _ = self._arrive(X, "most_probable", missing=True)
            filled = torch.where(torch.isnan(rows), filled.to(rows), rows)
        return self._data_out(filled, origin)

    def _impute(self, X: Tensor) -> Tensor:
        _, codes = self._states(X)
        field = self._field(X.device)
        p = torch.cat([self._infer(part, field).nodes for part in self._blocks(field, codes)])
        parts = []
        for j, (levels, edges) in enumerate(zip(self.levels_, self.bin_edges_, strict=True)):
            known = torch.as_tensor(levels).to(p)
            chance = p[:, j, : len(levels)]
            parts.append(known[chance.argmax(1)] if edges is None else chance @ known)
        return unfold(torch.stack(parts, 1), getattr(self, "schema_", None))

    def impute(self, X: Any) -> Any:
        """``X`` with every NaN replaced: in bins by the expectation, elsewhere by the most probable value."""
        with speaking(self, "impute"):
            return super().impute(X)

    # -- how likely ------------------------------------------------------------------------------------

    @property
    def log_partition_(self) -> float:
        """log Z: exact, or an estimate by annealed importance sampling that is made once and kept."""
        return self._partition()[0]

    @property
    def log_partition_stderr_(self) -> float:
        """The standard error of ``log_partition_``; 0 where it is exact."""
        return self._partition()[1]

    def _partition(self) -> tuple[float, float]:
        if self._log_z is None:
            field, noise = self._field(), generator(self._seed, "anneal")
            self._log_z = annealed_log_partition(field.unary[None], *_pair(field), noise, steps=int(self.sweeps))
        return self._log_z

    def _log_prob(self, X: Tensor) -> Tensor:
        columns, codes = self._states(X.double(), strict=False)
        field = self._field(X.device)
        value = log_weight(field.unary[None], field.pairwise, field.graph, codes.clamp(min=0)) - self.log_partition_
        for j, variable in enumerate(self._variables()):
            value = value + variable.log_density(columns[:, j], codes[:, j])
        return torch.where((codes == UNSEEN).any(1), -torch.inf, value)

    def _likelihood(self, X: Tensor, method: str | None) -> Likelihood:
        kind = "exact" if self.exact_ else "ais"
        if method not in (None, kind):
            raise self._fail("likelihood", f"method {method!r} is unknown; the likelihood of this field is {kind!r}")
        value = self._log_prob(X)
        measure = "mass" if all(edges is None for edges in self.bin_edges_) else "density"
        stderr = torch.full_like(value, self.log_partition_stderr_)
        return Likelihood(value, stderr, kind, "exact" if self.exact_ else "estimate", measure)

    @available_if(_is_exact)
    def log_prob(self, X: Any) -> Any:
        """Exact log-likelihood of each row, (n,); minus infinity where a column holds a value it never had."""
        tensor, origin = self._arrive(X, "log_prob")
        return origin.mirror(self._log_prob(tensor))

    def pseudo_log_prob(self, X: Any) -> Any:
        """(n,) the sum of the log-probabilities of every column given all others of its row, whatever the graph."""
        tensor, origin = self._arrive(X, "pseudo_log_prob")
        with speaking(self, "pseudo_log_prob"):
            _, codes = self._states(tensor)
        field = self._field(tensor.device)
        source, target, tables = field.graph.both_ways(field.pairwise)
        weights = local_fields(field.unary[None], tables, source, target, codes).log_softmax(-1)
        return origin.mirror(weights.gather(2, codes[..., None])[..., 0].sum(1))

    # -- draws -----------------------------------------------------------------------------------------

    def sample(self, n: int = 1, *, given: Any = None, seed: Any = None) -> Any:
        """``n`` new rows; given: rows with NaN (one or ``n``) whose gaps are drawn given the rest.

        Exact where sums are, else by ``sweeps`` of Gibbs sampling for each row.
        """
        self._check_draws(n)
        noise = generator(self._sampling_seed(seed), "sample")
        if given is None:
            known, origin = (
                torch.full((n, self.n_features_in_ if self._plain() else self.schema_.width), torch.nan),
                None,
            )
        else:
            known, origin = self._arrive(given, "sample", missing=True)
            with speaking(self, "sample"):
                known = conditions(known, n)
        known = known.double()
        with speaking(self, "sample"):
            columns, codes = self._states(known)
        states = self._drawn(codes, noise)
        uniform = torch.rand(states.shape, generator=noise, dtype=torch.float64).to(states.device)
        parts = [variable.draw(states[:, j], uniform[:, j]) for j, variable in enumerate(self._variables())]
        drawn = torch.where(torch.isnan(columns), torch.stack(parts, 1), columns)
        drawn = unfold(drawn, getattr(self, "schema_", None))
        return self._data_out(drawn, None if origin is None else replace(origin, index=None))

    def _plain(self) -> bool:
        return getattr(self, "schema_", None) is None

    def _drawn(self, codes: Tensor, noise: torch.Generator) -> Tensor:
        """(n, v) states, those known kept."""
        field = self._field(codes.device)
        if field.graph.is_forest:
            parts = [tree_states(part, *_pair(field), noise)[0] for part in self._blocks(field, codes)]
            return torch.cat(parts)
        if self.exact_:
            order = tuple(self._order or ())
            parts = [eliminated_states(part, *_pair(field), order, noise)[0] for part in self._blocks(field, codes)]
            return torch.cat(parts)
        sweep = Sweeper(field.unary[None], field.pairwise, field.graph, codes < 0)
        states = torch.cat([pick(part, noise) for part in self._blocks(field, codes)])
        for _ in range(int(self.sweeps)):
            states = sweep(states, noise)
        return states


def _pair(field: Field) -> tuple[Tensor, Graph]:
    return field.pairwise, field.graph
