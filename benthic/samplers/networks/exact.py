"""Exact inference in a network whose unknown variables are discrete."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.samplers.networks.conditionals import Conditional
from benthic.samplers.networks.elimination import Factor, argmax_back, eliminate, min_fill, product, sample_back
from benthic.samplers.networks.graph import Graph


class Exact:
    """Answers by variable elimination. evidence: from name to the one value observed, (1, ...)."""

    def __init__(
        self,
        nodes: Mapping[str, Conditional],
        graph: Graph,
        evidence: Mapping[str, Tensor],
        device: torch.device | None = None,
    ) -> None:
        self.nodes, self.graph, self.evidence, self.device = nodes, graph, evidence, device

    def possible(self, names: Iterable[str]) -> bool:
        """Whether these variables are all discrete or observed."""
        return all(self.nodes[name].size is not None or name in self.evidence for name in names)

    def posterior(self, query: Sequence[str]) -> Tensor:
        """The joint law of the query, in its order."""
        for name in query:
            if name in self.evidence:
                raise InvalidInput(f"BayesianNetwork.posterior: {name!r} is asked for and observed; ask for others")
        if not query or len(set(query)) < len(query):
            raise InvalidInput("BayesianNetwork.posterior: name each variable that is asked for once")
        factors, scale = self._factors([*query, *self.evidence], "posterior")
        left, _, more = eliminate(factors, min_fill([f.names for f in factors], query))
        table, last = product(left)
        self._refuse_impossible(scale + more + last)
        table_in_order = table.values.permute([table.names.index(name) for name in query])
        return table_in_order / table_in_order.sum()

    def log_evidence(self) -> float:
        """The log probability of the evidence."""
        if not self.evidence:
            return 0.0
        factors, scale = self._factors(self.evidence, "log_evidence")
        left, _, more = eliminate(factors, min_fill([f.names for f in factors]))
        table, last = product(left)
        return scale + more + last + (math.log(float(table.values)) if math.isfinite(last) else 0.0)

    def most_likely(self) -> dict[str, int]:
        """The values of highest joint probability."""
        wanted = [name for name, law in self.nodes.items() if law.size is not None]
        factors, scale = self._factors([*wanted, *self.evidence], "most_likely")
        left, steps, more = eliminate(factors, min_fill([f.names for f in factors]), maximum=True)
        self._refuse_impossible(scale + more + product(left)[1])
        best = argmax_back(steps)
        return {name: best[name] for name in wanted if name in best}

    def sample(self, n: int, source: torch.Generator) -> dict[str, Tensor]:
        """Joint draws of everything unknown above the evidence."""
        factors, scale = self._factors(self.evidence, "sample")
        left, steps, more = eliminate(factors, min_fill([f.names for f in factors]))
        self._refuse_impossible(scale + more + product(left)[1])
        return sample_back(steps, n, source)

    def _factors(self, names: Iterable[str], verb: str) -> tuple[list[Factor], float]:
        """One table for each variable that matters, with the evidence put in, and the logarithm of their scale."""
        relevant = self.graph.ancestors(names)
        for name in relevant:
            if not self.possible([name]):
                raise InvalidInput(
                    f"BayesianNetwork.{verb}: {name!r} is continuous and not observed; exact answers need discrete "
                    "unknowns, so use likelihood_weighting, or normal for linear-Gaussian networks"
                )
        pairs = [self._factor(name) for name in self.graph.order if name in relevant]
        return [factor for factor, _ in pairs], sum(scale for _, scale in pairs)

    def _factor(self, name: str) -> tuple[Factor, float]:
        law = self.nodes[name]
        scope = tuple(other for other in (*law.given, name) if other not in self.evidence)
        sizes = [self.nodes[other].size or 1 for other in scope]
        rows = math.prod(sizes)
        grid = torch.cartesian_prod(*[torch.arange(k) for k in sizes]).reshape(rows, len(scope)) if scope else None
        values = {other: column.expand(rows, *column.shape[1:]) for other, column in self.evidence.items()}
        for i, other in enumerate(scope):
            values[other] = grid[:, i].to(self.device)
        with torch.no_grad():
            logs = law.log_prob(values[name], [values[parent] for parent in law.given]).double()
        logs = logs.expand(rows).reshape(sizes)
        top = float(logs.max())
        if top == -math.inf:
            return Factor(scope, torch.zeros_like(logs)), 0.0
        return Factor(scope, (logs - top).exp()), top

    def _refuse_impossible(self, log_scale: float) -> None:
        if log_scale == -math.inf:
            raise InvalidInput(
                f"BayesianNetwork: what is observed, {sorted(self.evidence)}, has probability zero under the network"
            )
