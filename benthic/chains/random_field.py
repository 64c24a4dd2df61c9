"""The pairwise Markov random field as an estimator of tables of discrete (or binned) columns."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.seeds import seed_of
from benthic.base.settings import number, one_of, whole
from benthic.base.validation import speaking
from benthic.chains.graph_messages import Graph
from benthic.chains.graph_messages_exact import MOST_CELLS, Plan, plan
from benthic.chains.random_field_columns import Variable, codes_of, fold, variables_of
from benthic.chains.random_field_estimator import FieldEstimator
from benthic.chains.random_field_learning import (
    Counts,
    Field,
    Shape,
    best_tree,
    log_z,
    most_likely,
    most_pseudo_likely,
    tree_field,
)
from benthic.training.intake import Intake

STRUCTURES = ("tree", "chain", "complete", "empty")
COUPLINGS = ("table", "potts")
LEARNING = ("auto", "likelihood", "pseudo")
TIED = (None, "edges", "all")
_LEARN_CELLS = 1 << 14  # of the largest table that maximum likelihood meets many times


class PairwiseMarkovField(FieldEstimator):
    r"""A graph of discrete variables in which each depends on those beside it.

    .. math:: p(x) = \frac{1}{Z} \exp\Big(\sum_i \theta_i(x_i) + \sum_{(i, j) \in E} \theta_{ij}(x_i, x_j)\Big)

    A column of at most ``bins`` different values is taken as it is, category columns of a frame too; any other is cut
    at its quantiles into ``bins`` states. Within its bin a number is spread evenly, and exponentially beyond the
    outermost edges, so that ``likelihood`` is a density of numbers (a mass if no column is cut).

    structure: ``"tree"``, the most likely tree (Chow & Liu, 1968); ``"chain"``, column after column; ``"complete"``,
    all pairs; ``"empty"``, none; or edges (m, 2) between columns, such as ``grid_edges`` of a picture. coupling:
    ``"table"``, any function of two states, or ``"potts"``, one weight for states with the same number (Ising's model
    for two). tied: ``"edges"`` if all edges share one coupling, ``"all"`` if all columns share their weights too; all
    columns then have the same states.
    learning: ``"likelihood"`` (closed form for a tree of tables, else L-BFGS with exact sums), ``"pseudo"`` (every
    column given the others; Besag, 1975), or ``"auto"``: the first as long as sums stay small. alpha: for likelihood,
    rows added that are spread evenly over all states; for pseudo-likelihood, half of it times the squared couplings.
    sweeps: of Gibbs sampling, where draws are not exact. damping, max_iter, tol: of messages on graphs with loops, and
    max_iter, tol of L-BFGS.

    Sums, marginals, best states and draws are exact on forests (messages up and down), and on graphs with loops as
    long as no table of elimination exceeds about a million cells. Beyond, marginals are by loopy belief propagation,
    draws by Gibbs sampling, and log Z is estimated by annealed importance sampling, so that ``likelihood`` has kind
    ``"ais"`` with a standard error and ``log_prob`` is absent.

    edges_: (m, 2). unary_: (v, k) and pairwise_: (m, k, k) log-weights. log_partition_, log_partition_stderr_: log Z;
    where it is not exact it is estimated when first asked for. exact_: whether sums are. converged_, n_iter_: of
    learning.

    >>> rng = np.random.default_rng(0)
    >>> rain = rng.random(2000) < 0.3
    >>> wet = np.where(rain, rng.random(2000) < 0.9, rng.random(2000) < 0.1)
    >>> model = PairwiseMarkovField().fit(np.column_stack([rain, wet]).astype(float))
    >>> model.marginals([[np.nan, 1.0]])[0, 0].round(1)  # rain, given that it is wet
    array([0.2, 0.8])
    >>> model.impute([[1.0, np.nan]])
    array([[1., 1.]])
    """

    def __init__(
        self,
        structure: Any = "tree",
        *,
        coupling: str = "table",
        tied: str | None = None,
        bins: int = 8,
        learning: str = "auto",
        alpha: float = 1.0,
        sweeps: int = 200,
        damping: float = 0.5,
        max_iter: int = 300,
        tol: float = 1e-6,
        random_state: Any = None,
    ) -> None:
        self.structure = structure
        self.coupling = coupling
        self.tied = tied
        self.bins = bins
        self.learning = learning
        self.alpha = alpha
        self.sweeps = sweeps
        self.damping = damping
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    # -- learning --------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows X (n, d), or a file."""
        with speaking(self, "fit"):
            self._check_settings()
        before = dict(self.__dict__)
        try:
            intake = Intake(self, X, None)
            rows = (intake.data or intake.sample(intake.rows, 0)).X
            with speaking(self, "fit"):
                self._learn(rows.double())
        except (ValueError, TypeError):
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def _check_settings(self) -> None:
        named: list[tuple[str, tuple[Any, ...]]] = [("coupling", COUPLINGS), ("learning", LEARNING), ("tied", TIED)]
        if isinstance(self.structure, str):
            named.append(("structure", STRUCTURES))
        for name, known in named:
            one_of(name, getattr(self, name), known)
        for name, least in (("bins", 2), ("sweeps", 1), ("max_iter", 1)):
            whole(name, getattr(self, name), least)
        for name in ("alpha", "tol"):
            number(name, getattr(self, name), ends="[]")
        number("damping", self.damping, 0, 1)

    def _learn(self, X: Tensor) -> None:
        schema = getattr(self, "schema_", None)
        columns = fold(X, schema)
        variables = variables_of(columns, schema, int(self.bins), shared=self.tied is not None)
        self._keep_variables(variables)
        sizes = torch.tensor([variable.size for variable in variables])
        if self.tied and len(set(sizes.tolist())) > 1:
            raise InvalidInput(
                f"tied={self.tied!r} needs columns with as many states each, and they have {set(sizes.tolist())}"
            )
        counts = Counts(codes_of(columns, variables), sizes, float(self.alpha))
        graph = self._graph(counts)
        order = None if graph.is_forest else plan(graph, sizes.tolist())
        field = self._weights(counts, graph, order)
        self.edges_ = graph.edges.numpy().copy()
        self.unary_, self.pairwise_ = field.unary.cpu().numpy(), field.pairwise.cpu().numpy()
        self._n_features_out = len(variables)
        self.exact_ = order is None or order.cells <= MOST_CELLS
        self._order = None if order is None or not self.exact_ else list(order.order)
        self._cells = 1 if self._order is None or order is None else order.cells
        self._seed = seed_of(self.random_state)
        self._log_z = (float(log_z(field, order)), 0.0) if self.exact_ else None

    def _graph(self, counts: Counts) -> Graph:
        v = counts.codes.shape[1]
        pairs: Any = self.structure
        if not isinstance(pairs, str):
            pairs = pairs.detach().cpu().numpy() if isinstance(pairs, Tensor) else pairs
            return Graph.of(v, pairs)
        if pairs == "tree":
            return Graph.of(v, best_tree(counts))
        if pairs == "chain":
            return Graph.of(v, [(i, i + 1) for i in range(v - 1)])
        return Graph.of(v, [(i, j) for i in range(v) for j in range(i + 1, v)] if pairs == "complete" else [])

    def _weights(self, counts: Counts, graph: Graph, order: Plan | None) -> Field:
        self.converged_, self.n_iter_, self.learned_by_ = True, 1, "likelihood, in closed form"
        small = order is None or order.cells <= (_LEARN_CELLS if self.learning == "auto" else MOST_CELLS)
        if self.learning == "likelihood" and not small:
            raise InvalidInput(
                f"learning='likelihood' needs tables of {order.cells if order else 0:.3g} cells on this graph; "
                "use 'pseudo', fewer edges or fewer bins"
            )
        if self.learning != "pseudo" and graph.is_forest and self.coupling == "table" and not self.tied:
            return tree_field(counts, graph)
        shape = Shape(counts.there, graph, self.coupling, self.tied)
        if self.learning != "pseudo" and small:
            field, self.n_iter_, self.converged_ = most_likely(
                counts, shape, order, int(self.max_iter), float(self.tol)
            )
            self.learned_by_ = "likelihood"
        else:
            field, self.n_iter_, self.converged_ = most_pseudo_likely(
                counts, shape, int(self.max_iter), float(self.tol)
            )
            self.learned_by_ = "pseudo-likelihood"
        return field

    def _keep_variables(self, variables: list[Variable]) -> None:
        """In parts that a model file can hold."""
        self.levels_ = [variable.levels for variable in variables]
        self.bin_edges_ = [variable.edges for variable in variables]
        self._scales = np.stack([variable.scales for variable in variables])

    # -- words and pictures ----------------------------------------------------------------------------

    def _facts(self) -> dict[str, Any]:
        cut = sum(edges is not None for edges in self.bin_edges_)
        sizes = [len(levels) for levels in self.levels_]
        settled = "" if self.converged_ else ", not converged: raise max_iter"
        graph = self._field().graph
        kind = "a forest" if graph.is_forest else f"with loops, {graph.n} variables"
        return {
            "states": f"{min(sizes)} to {max(sizes)} a column" + (f", {cut} columns cut into bins" if cut else ""),
            "edges": f"{len(self.edges_)}, {kind}",
            "coupling": self.coupling + (f", tied {self.tied}" if self.tied else ""),
            "learned by": self.learned_by_ + settled,
            "log Z": self._log_z_text(),
        }

    def _log_z_text(self) -> str:
        if self._log_z is None:
            return "not summed up yet: estimated by annealing when a likelihood is asked for"
        value, error = self._log_z
        return f"{value:.6g}, " + ("exact" if self.exact_ else f"annealed, standard error {error:.2g}")

    def plot(self) -> Any:
        """The graph: thicker edges tell more, by the mutual information between their ends."""
        from benthic.chains.random_field_picture import draw_field

        check_is_fitted(self)
        field = self._field()
        found = self.beliefs()
        return draw_field(field.graph, found.nodes[0].numpy(), found.edges[0].numpy(), self._names())
