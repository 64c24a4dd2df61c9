"""Bayesian networks: variables on a directed acyclic graph, each with a law given its parents."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution, MultivariateNormal

from benthic.base.errors import InvalidInput
from benthic.distributions.tables import as_tensor
from benthic.samplers.direct.importance import WeightedDraws
from benthic.samplers.direct.inversion import uniform_source
from benthic.samplers.networks.conditionals import Conditional, Given
from benthic.samplers.networks.exact import Exact
from benthic.samplers.networks.graph import Graph
from benthic.samplers.networks.linear_gaussian import all_linear, joint_normal, sample_normal

Values = dict[str, Tensor]


class BayesianNetwork:
    r"""Variables whose joint law is a product over a graph without directed cycles.

    .. math:: p(x_1, \ldots, x_d) = \prod_i p(x_i \mid x_{\mathrm{pa}(i)})

    Pearl, 1988. nodes: from name to law, in any order: ``Table``, ``LinearGaussian``, ``Given`` (any function of the
    parents that gives a distribution, or an ``nn.Module``), or a distribution for a variable without parents. Laws
    name their parents. Values are tensors (n,), whole numbers from 0 for discrete variables; where states have
    names, lists and arrays may hold these (tensors always hold numbers).

    >>> from benthic.samplers import Table
    >>> net = BayesianNetwork({
    ...     "rain": Table([0.8, 0.2], states=["no", "yes"]),
    ...     "sprinkler": Table([[0.6, 0.4], [0.99, 0.01]], given="rain"),
    ...     "wet": Table([[[1.0, 0.0], [0.1, 0.9]], [[0.2, 0.8], [0.01, 0.99]]], given=["rain", "sprinkler"]),
    ... })
    >>> net.posterior("rain", {"wet": 1})
    tensor([0.6423, 0.3577], dtype=torch.float64)
    >>> net.d_separated("rain", "sprinkler")
    False
    """

    def __init__(self, nodes: Mapping[str, Conditional | Distribution]) -> None:
        if not nodes:
            raise InvalidInput("BayesianNetwork: there are no variables; at least one is needed")
        self.nodes = {name: Given(law) if isinstance(law, Distribution) else law for name, law in nodes.items()}
        for name, law in self.nodes.items():
            if not isinstance(law, Conditional):
                raise InvalidInput(
                    f"BayesianNetwork: {name!r} is a {type(law).__name__}; it must be a Table, LinearGaussian, Given "
                    "or a distribution"
                )
        self.graph = Graph({name: law.given for name, law in self.nodes.items()})
        for name, law in self.nodes.items():
            law.check(name, [self.nodes[parent].size for parent in law.given])

    def __repr__(self) -> str:
        arrows = [f"{', '.join(law.given)} -> {name}" if law.given else name for name, law in self.nodes.items()]
        return f"BayesianNetwork({'; '.join(arrows)})"

    @property
    def device(self) -> torch.device | None:
        """Where the laws keep their numbers; values are brought there."""
        return next((law.device for law in self.nodes.values() if law.device is not None), None)

    # -- the graph -----------------------------------------------------------------------------------

    @property
    def order(self) -> list[str]:
        """Names with parents before children."""
        return list(self.graph.order)

    def parents(self, name: str) -> tuple[str, ...]:
        """What a variable depends on directly."""
        return self.graph.parents[self.graph.known(name, "BayesianNetwork.parents")[0]]

    def children(self, name: str) -> list[str]:
        """What depends on a variable directly."""
        return list(self.graph.children[self.graph.known(name, "BayesianNetwork.children")[0]])

    def markov_blanket(self, name: str) -> set[str]:
        """Parents, children and the children's other parents: given these, the rest tells nothing more."""
        return self.graph.blanket(self.graph.known(name, "BayesianNetwork.markov_blanket")[0])

    def d_separated(
        self, first: str | Iterable[str], second: str | Iterable[str], given: str | Iterable[str] = ()
    ) -> bool:
        """Whether the graph alone makes two sets of variables independent given a third (Shachter, 1998)."""
        where = "BayesianNetwork.d_separated"
        sets = [self.graph.known(names, where) for names in (first, second, given)]
        if set(sets[0]) & set(sets[1]):
            raise InvalidInput(
                f"{where}: {sorted(set(sets[0]) & set(sets[1]))} stand on both sides; take disjoint sets"
            )
        return self.graph.separated(*sets)

    # -- probabilities -------------------------------------------------------------------------------

    def log_prob(self, values: Mapping[str, Any], *, each: bool = False) -> Any:
        """The joint log probability (mass or density) of rows in which every variable has a value.

        values: from name to (n,) or a single value. each: return the term of every variable, a dict of (n,).
        """
        rows = self.encode(values, "BayesianNetwork.log_prob")
        missing = [name for name in self.order if name not in rows]
        if missing:
            raise InvalidInput(
                f"BayesianNetwork.log_prob: {missing} have no value; use likelihood_weighting or posterior"
            )
        n = max(len(column) for column in rows.values())
        rows = {name: column.expand(n, *column.shape[1:]) for name, column in rows.items()}
        terms = {name: self._term(name, rows) for name in self.order}
        return terms if each else torch.stack([*torch.broadcast_tensors(*terms.values())]).sum(0)

    def posterior(self, query: str | Sequence[str], given: Mapping[str, Any] | None = None) -> Tensor:
        """The exact joint law of discrete variables given others, by variable elimination.

        query: one name or several. given: values of other variables; continuous ones may be observed, too, as long
        as nothing continuous above them is unknown. Returns (states of the first, ...), which sums to one.
        """
        names = self.graph.known(query, "BayesianNetwork.posterior")
        return self._exact(given, "posterior").posterior(names)

    def log_evidence(self, given: Mapping[str, Any]) -> float:
        """The exact log probability (or density) of what is observed."""
        return self._exact(given, "log_evidence").log_evidence()

    def most_likely(self, given: Mapping[str, Any] | None = None) -> dict[str, int]:
        """The most likely joint values of all unobserved discrete variables (max-product elimination)."""
        return self._exact(given, "most_likely").most_likely()

    def normal(self, given: Mapping[str, Any] | None = None) -> tuple[list[str], MultivariateNormal]:
        """The joint normal law of a network of linear-Gaussian variables, given some of them."""
        return joint_normal(self.nodes, self.order, self._evidence(given, "normal"))

    def _exact(self, given: Mapping[str, Any] | None, verb: str) -> Exact:
        return Exact(self.nodes, self.graph, self._evidence(given, verb), self.device)

    # -- draws ---------------------------------------------------------------------------------------

    def sample(
        self,
        n: int,
        *,
        given: Mapping[str, Any] | None = None,
        seed: int | None = None,
        generator: torch.Generator | None = None,
    ) -> Values:
        """Draws of all variables, parents first; those that are given keep their value.

        Draws are exact where everything above the evidence is observed, discrete (by elimination and sampling back)
        or linear-Gaussian. Elsewhere they are resampled from fifty times as many weighted draws, and a warning says
        when their effective size is below n. Returns from name to (n, ...).
        """
        if n < 1:
            raise InvalidInput(f"BayesianNetwork.sample: n is {n}; at least one draw is needed")
        source = uniform_source("BayesianNetwork.sample", seed, generator, "cpu")
        evidence = self._evidence(given, "sample")
        above = self.graph.ancestors(evidence)
        fixed = {name: value.expand(n, *value.shape[1:]) for name, value in evidence.items()}
        if above <= set(evidence):
            return self._forward(n, fixed, source)[0]
        exact = Exact(self.nodes, self.graph, evidence, self.device)
        if exact.possible(above):
            return self._forward(n, fixed | exact.sample(n, source), source)[0]
        if all_linear(self.nodes, above):
            order = [name for name in self.order if name in above]
            return self._forward(n, fixed | sample_normal(self.nodes, order, evidence, n, source), source)[0]
        return self._resampled(n, evidence, source)

    def likelihood_weighting(
        self,
        n: int,
        given: Mapping[str, Any],
        *,
        seed: int | None = None,
        generator: torch.Generator | None = None,
    ) -> WeightedDraws:
        r"""Draws from the parents down with the evidence held, weighted by how likely it was.

        .. math:: w = \prod_{i \in E} p(e_i \mid x_{\mathrm{pa}(i)})

        Fung & Chang, 1990. The mean weight estimates the probability of the evidence. Returns ``WeightedDraws``
        whose values are a dict of (n, ...).
        """
        source = uniform_source("BayesianNetwork.likelihood_weighting", seed, generator, "cpu")
        evidence = self._evidence(given, "likelihood_weighting")
        fixed = {name: value.expand(n, *value.shape[1:]) for name, value in evidence.items()}
        return WeightedDraws(*self._forward(n, fixed, source))

    def _forward(self, n: int, fixed: Values, source: torch.Generator) -> tuple[Values, Tensor]:
        """Ancestral draws where some variables are held, and the log probability of those."""
        rows: Values = {}
        log_weight = torch.zeros(n, dtype=torch.float64)
        with torch.no_grad():
            for name in self.order:
                law = self.nodes[name]
                if name in fixed:
                    rows[name] = fixed[name]
                    log_weight = log_weight.to(rows[name].device) + self._term(name, rows).double()
                else:
                    rows[name] = law.draw([rows[parent] for parent in law.given], n, source)
        return {name: rows[name] for name in self.nodes}, log_weight

    def _resampled(self, n: int, evidence: Values, source: torch.Generator) -> Values:
        weighted = self.likelihood_weighting(50 * n, evidence, generator=source)
        if weighted.ess < n:
            warnings.warn(
                f"BayesianNetwork.sample: {len(weighted)} weighted draws are worth {weighted.ess:.0f}, fewer than the "
                f"{n} asked for, so draws repeat; sample more, or use a Markov chain",
                stacklevel=3,
            )
        places = torch.randperm(n, generator=source, device=source.device)
        seed = int(torch.randint(2**62, (), generator=source, device=source.device))
        drawn = weighted.resample(n, seed=seed)
        return {name: part[places.to(part.device)] for name, part in drawn.items()}

    def _term(self, name: str, rows: Values) -> Tensor:
        law = self.nodes[name]
        return law.log_prob(rows[name], [rows[parent] for parent in law.given])

    # -- values --------------------------------------------------------------------------------------

    def encode(self, values: Mapping[str, Any], where: str = "BayesianNetwork") -> Values:
        """Values as tensors (n, ...): names of states become numbers, discrete values are checked."""
        self.graph.known(values, where)
        return {name: self._column(name, value, where) for name, value in values.items()}

    def decode(self, values: Mapping[str, Tensor]) -> dict[str, Any]:
        """The inverse of ``encode``: names of states, as NumPy arrays, where there are any."""
        return {
            name: np.asarray(self.nodes[name].labels)[column.cpu().numpy()] if self.nodes[name].labels else column
            for name, column in values.items()
        }

    def _column(self, name: str, value: Any, where: str) -> Tensor:
        law = self.nodes[name]
        if law.labels is not None and not isinstance(value, Tensor):
            value = _codes(value, law.labels, name, where)
        column = as_tensor(value).to(self.device)
        column = column.reshape(1) if column.ndim == 0 else column
        if law.size is None:
            return column if column.is_floating_point() else column.to(torch.get_default_dtype())
        codes = column.to(torch.int64)
        if bool((codes != column).any() | (codes < 0).any() | (codes >= law.size).any()):
            raise InvalidInput(f"{where}: a value of {name!r} is not a whole number from 0 to {law.size - 1}")
        return codes

    def _evidence(self, given: Mapping[str, Any] | None, verb: str) -> Values:
        evidence = self.encode(given or {}, f"BayesianNetwork.{verb}")
        for name, value in evidence.items():
            if len(value) != 1:
                raise InvalidInput(
                    f"BayesianNetwork.{verb}: {name!r} is observed {len(value)} times; one value a variable is needed"
                )
            if not bool(torch.isfinite(value).all()):
                raise InvalidInput(f"BayesianNetwork.{verb}: the observed {name!r} is not finite; leave it out instead")
        return evidence

    # -- learning and looking ------------------------------------------------------------------------

    def fit(
        self,
        data: Mapping[str, Any],
        *,
        smoothing: float = 0.0,
        weight: Any = None,
        trainer: Any = None,
        seed: int | None = None,
    ) -> BayesianNetwork:
        """Maximum likelihood from complete rows: counts for tables, least squares, gradients for networks.

        data: from name to (n,). smoothing: added to every count of a table (1 is Laplace's rule). weight: (n,) how
        often each row counts. trainer: ``Trainer`` settings for variables that are networks. Returns self, with
        the laws replaced by fitted ones and networks trained in place.
        """
        from benthic.samplers.networks.learning import fit_nodes

        rows = self.encode(data, "BayesianNetwork.fit")
        self.nodes = fit_nodes(self.nodes, rows, smoothing, weight, trainer, seed)
        return self

    def plot(self, marginals: Mapping[str, Any] | None = None, *, observed: Iterable[str] = ()) -> Any:
        """A picture of the graph, parents above children.

        marginals: from name to the probabilities of its states, drawn as bars in the node. observed: names to shade.
        """
        from benthic.pictures.dag import plot_dag

        shaded = self.graph.known(observed, "BayesianNetwork.plot")
        bars = {name: (np.asarray(p, dtype=float), self.nodes[name].labels) for name, p in (marginals or {}).items()}
        self.graph.known(bars, "BayesianNetwork.plot")
        return plot_dag(self.graph.layers(), self.graph.parents, bars=bars, shaded=shaded)


def _codes(value: Any, labels: list[Any], name: str, where: str) -> Any:
    """Numbers for names of states; numbers that are no names stay."""
    listed = value.tolist() if isinstance(value, np.ndarray) else value
    many = isinstance(listed, (list, tuple))
    place = {label: i for i, label in enumerate(labels)}
    codes = []
    for item in listed if many else [listed]:
        if item not in place and isinstance(item, str):
            raise InvalidInput(f"{where}: {name!r} has no state {item!r}; its states are {labels}")
        codes.append(place.get(item, item))
    return np.asarray(codes) if many else codes[0]
