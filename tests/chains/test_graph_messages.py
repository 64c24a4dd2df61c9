"""Messages on graphs against sums over every state."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from benthic.base.errors import InvalidInput
from benthic.chains.graph_messages import (
    NEVER,
    Graph,
    grid_edges,
    largest,
    log_weight,
    loopy_messages,
    tree_messages,
    tree_states,
)
from benthic.chains.graph_messages_exact import eliminate, eliminated_beliefs, eliminated_states, plan
from benthic.chains.messages import marginals, viterbi
from benthic.chains.random_field_gibbs import Sweeper, annealed_log_partition, local_fields

pytestmark = pytest.mark.spec("H-05")

TREE = Graph.of(6, [(1, 0), (1, 2), (3, 1), (4, 5)])  # two parts
LOOP = Graph.of(5, [(0, 1), (1, 2), (2, 3), (3, 0), (3, 4), (0, 2)])
KINDS = [2, 3, 3, 2, 3, 1]


def field(graph, batch=2, seed=0, strength=1.0):
    """Random log-weights; variables have two, three or one states."""
    noise = torch.Generator().manual_seed(seed)
    unary = torch.randn(batch, graph.n, 3, generator=noise, dtype=torch.float64)
    for i in range(graph.n):
        unary[:, i, KINDS[i] :] = NEVER
    return unary, strength * torch.randn(len(graph.edges), 3, 3, generator=noise, dtype=torch.float64)


def brute(unary, pairwise, graph):
    """log Z (B,), marginals and joint tables, and the best states, by visiting every state."""
    states = torch.tensor(list(itertools.product(*(range(KINDS[i]) for i in range(graph.n)))))
    out = []
    for row in range(len(unary)):
        one = unary[row : row + 1]
        weight = log_weight(one, pairwise, graph, states)
        total = weight.logsumexp(0)
        p = (weight - total).exp()
        nodes = torch.zeros(graph.n, 3, dtype=torch.float64)
        edges = torch.zeros(len(graph.edges), 3, 3, dtype=torch.float64)
        for i in range(graph.n):
            nodes[i].index_add_(0, states[:, i], p)
        for e, (i, j) in enumerate(graph.edges.tolist()):
            edges[e].view(-1).index_add_(0, 3 * states[:, i] + states[:, j], p)
        out.append((total, nodes, edges, states[weight.argmax()], weight.max()))
    return [torch.stack(part) for part in zip(*out, strict=True)]


def test_the_weight_of_states_is_the_sum_of_its_parts():
    unary, pairwise = field(LOOP)
    states = torch.tensor([[0, 2, 1, 1, 0], [1, 0, 2, 0, 2]])
    for row, x in enumerate(states.tolist()):
        by_hand = sum(unary[row, i, x[i]] for i in range(5))
        by_hand += sum(pairwise[e, x[i], x[j]] for e, (i, j) in enumerate(LOOP.edges.tolist()))
        assert float(log_weight(unary, pairwise, LOOP, states)[row]) == pytest.approx(float(by_hand), rel=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_messages_on_a_forest_are_exact(seed):
    unary, pairwise = field(TREE, seed=seed)
    total, nodes, edges, best, weight = brute(unary, pairwise, TREE)
    found = tree_messages(unary, pairwise, TREE)
    for ours, theirs in ((found.log_partition, total), (found.nodes, nodes), (found.edges, edges)):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-12)
    most = tree_messages(unary, pairwise, TREE, largest)
    torch.testing.assert_close(most.log_partition, weight)
    torch.testing.assert_close(most.nodes.argmax(-1), best)
    states, value = tree_states(unary, pairwise, TREE)
    torch.testing.assert_close(states, best)
    torch.testing.assert_close(value, weight)


def test_tables_may_differ_from_row_to_row():
    unary, pairwise = field(TREE)
    other = field(TREE, seed=9)[1]
    both = tree_messages(unary, torch.stack([pairwise, other]), TREE)
    for row, table in enumerate((pairwise, other)):
        one = tree_messages(unary[row : row + 1], table, TREE)
        torch.testing.assert_close(both.edges[row : row + 1], one.edges)


def test_marginals_are_derivatives_of_the_log_partition():
    unary, pairwise = field(TREE)
    unary, pairwise = unary.requires_grad_(), pairwise.requires_grad_()
    found = tree_messages(unary, pairwise, TREE)
    nodes, edges = torch.autograd.grad(found.log_partition.sum(), (unary, pairwise))
    torch.testing.assert_close(nodes, found.nodes, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(edges, found.edges.sum(0), rtol=1e-9, atol=1e-12)


def test_a_chain_is_a_tree_and_its_messages_are_those_of_chains():
    """Forward and backward passes written out for a chain give what the general tree does."""
    noise = torch.Generator().manual_seed(3)
    steps, k = 7, 3
    emission = torch.randn(1, steps, k, generator=noise, dtype=torch.float64)
    move = torch.randn(k, k, generator=noise, dtype=torch.float64)
    forward = [emission[0, 0]]
    for t in range(1, steps):
        forward.append((forward[-1][:, None] + move).logsumexp(0) + emission[0, t])
    backward = [torch.zeros(k, dtype=torch.float64)]
    for t in range(steps - 1, 0, -1):
        backward.append((move + emission[0, t] + backward[-1]).logsumexp(1))
    single = torch.stack([f + b for f, b in zip(forward, backward[::-1], strict=True)]).softmax(-1)
    graph = Graph.of(steps, [(t, t + 1) for t in range(steps - 1)])
    found = tree_messages(emission, move.expand(steps - 1, k, k), graph)
    torch.testing.assert_close(found.nodes[0], single)
    torch.testing.assert_close(found.log_partition[0], forward[-1].logsumexp(0))
    chain = marginals(emission, move)
    torch.testing.assert_close(found.nodes, chain.single)
    torch.testing.assert_close(found.edges, chain.pairs)
    torch.testing.assert_close(found.log_partition, chain.log_partition)
    path, weight = viterbi(emission, move)
    states, value = tree_states(emission, move.expand(steps - 1, k, k), graph)
    torch.testing.assert_close(states, path)
    torch.testing.assert_close(value, weight)


@pytest.mark.parametrize("graph", [TREE, LOOP], ids=["forest", "loops"])
def test_elimination_is_exact(graph):
    unary, pairwise = field(graph)
    total, nodes, edges, best, weight = brute(unary, pairwise, graph)
    order = plan(graph, KINDS[: graph.n]).order
    found = eliminated_beliefs(unary, pairwise, graph, order)
    for ours, theirs in ((found.log_partition, total), (found.nodes, nodes), (found.edges, edges)):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)
    states, value = eliminated_states(unary, pairwise, graph, order)
    torch.testing.assert_close(states, best)
    torch.testing.assert_close(value, weight)
    # any order gives the same sum
    torch.testing.assert_close(eliminate(unary, pairwise, graph, tuple(range(graph.n))), total)


def test_the_largest_table_of_a_grid_is_as_wide_as_its_side():
    assert plan(Graph.of(16, grid_edges(4, 4)), [2] * 16).cells <= 2**5
    assert plan(Graph.of(50, [(i, i + 1) for i in range(49)]), [3] * 50).cells == 9


@pytest.mark.parametrize("way", ["tree", "elimination"])
def test_draws_have_the_exact_marginals(way):
    graph = TREE if way == "tree" else LOOP
    unary, pairwise = field(graph, batch=1)
    _, nodes, edges, *_ = brute(unary, pairwise, graph)
    n, noise = 20_000, torch.Generator().manual_seed(0)
    wide = unary.expand(n, -1, -1)
    if way == "tree":
        states, _ = tree_states(wide, pairwise, graph, noise)
    else:
        states, _ = eliminated_states(wide, pairwise, graph, plan(graph, KINDS).order, noise)
    check_draws(states, nodes[0], edges[0], graph, n)


def check_draws(states, nodes, edges, graph, effective):
    """Frequencies within four and a half standard errors."""
    one_hot = torch.nn.functional.one_hot(states, 3).double()
    assert float(((one_hot.mean(0) - nodes).abs() / (nodes * (1 - nodes) / effective + 1e-12).sqrt()).max()) < 4.5
    i, j = graph.edges.unbind(1)
    pairs = torch.einsum("nea,neb->eab", one_hot[:, i], one_hot[:, j]) / len(states)
    assert float(((pairs - edges).abs() / (edges * (1 - edges) / effective + 1e-12).sqrt()).max()) < 4.5


def test_loopy_messages_are_exact_on_a_forest():
    unary, pairwise = field(TREE)
    exact, found = tree_messages(unary, pairwise, TREE), loopy_messages(unary, pairwise, TREE, damping=0.0, tol=1e-12)
    assert bool(found.converged.all()) and found.iterations <= 6
    for name in ("log_partition", "nodes", "edges"):
        torch.testing.assert_close(getattr(found, name), getattr(exact, name), rtol=1e-9, atol=1e-10)
    most = loopy_messages(unary, pairwise, TREE, largest, tol=1e-12)
    torch.testing.assert_close(most.nodes.argmax(-1), tree_states(unary, pairwise, TREE)[0])


def test_loopy_messages_come_close_where_edges_are_weak_and_report_where_they_do_not_settle():
    unary, pairwise = field(LOOP, strength=0.3)
    exact = eliminated_beliefs(unary, pairwise, LOOP, plan(LOOP, KINDS).order)
    found = loopy_messages(unary, pairwise, LOOP)
    assert bool(found.converged.all()) and found.residual < 1e-6
    assert float((found.nodes - exact.nodes).abs().max()) < 0.02
    assert float((found.log_partition - exact.log_partition).abs().max()) < 0.05
    short = loopy_messages(unary, pairwise, LOOP, max_iter=2)
    assert not bool(short.converged.any()) and short.iterations == 2 and short.residual > 1e-6


def test_damping_settles_a_frustrated_graph():
    """Five variables that all want to differ: plain messages swing for ever, damped ones stand still."""
    graph = Graph.of(5, list(itertools.combinations(range(5), 2)))
    unary = torch.tensor([[[0.3, 0.0]] * 5], dtype=torch.float64)
    pairwise = torch.tensor([[-2.0, 0.0], [0.0, -2.0]], dtype=torch.float64).expand(10, 2, 2)
    assert not bool(loopy_messages(unary, pairwise, graph, damping=0.0).converged)
    assert bool(loopy_messages(unary, pairwise, graph, damping=0.7).converged)


def test_local_fields_are_conditional_laws():
    unary, pairwise = field(LOOP, batch=1)
    source, target, tables = LOOP.both_ways(pairwise)
    states = torch.tensor([[1, 2, 0, 1, 2]])
    found = local_fields(unary, tables, source, target, states).log_softmax(-1)
    for i in range(5):
        tried = states.repeat(KINDS[i], 1)
        tried[:, i] = torch.arange(KINDS[i])
        expected = log_weight(unary, pairwise, LOOP, tried).log_softmax(0)
        torch.testing.assert_close(found[0, i, : KINDS[i]], expected)


@pytest.mark.parametrize("way", ["loops", "colors"])
def test_gibbs_sweeps_reach_the_exact_law(way):
    unary, pairwise = field(LOOP, batch=1)
    _, nodes, edges, *_ = brute(unary, pairwise, LOOP)
    n, noise = 8000, torch.Generator().manual_seed(1)
    sweep = Sweeper(unary, pairwise, LOOP)
    if way == "colors":  # as on another device
        source, target, tables = LOOP.both_ways(pairwise)
        sweep.compiled, sweep._groups = False, []
        for color in LOOP.colors:
            inside = torch.isin(target, torch.tensor(color)).nonzero().squeeze(1)
            place = torch.tensor([color.index(int(i)) for i in target[inside]])
            sweep._groups.append((torch.tensor(color), source[inside], place, tables[inside]))
    states = torch.zeros(n, 5, dtype=torch.int64)
    for _ in range(40):
        states = sweep(states, noise)
    check_draws(states, nodes[0], edges[0], LOOP, n)


def test_annealing_finds_the_partition_function():
    unary, pairwise = field(LOOP, batch=1)
    total = float(brute(unary, pairwise, LOOP)[0])
    value, stderr = annealed_log_partition(unary, pairwise, LOOP, torch.Generator().manual_seed(0))
    assert 0 < stderr < 0.1 and abs(value - total) < 4 * stderr + 0.01


def test_sums_along_edges_are_the_weight_without_the_states():
    unary, pairwise = field(LOOP)
    states = torch.tensor([[0, 2, 1, 1, 0], [1, 0, 2, 0, 2]])
    expected = log_weight(torch.zeros_like(unary), pairwise, LOOP, states)
    torch.testing.assert_close(Sweeper(unary, pairwise, LOOP).edge_sums(states), expected)


def test_ising_square_against_its_transfer_matrix():
    """A 3 x 4 grid of +-1 spins: log Z by products of column matrices."""
    coupling, height, width = 0.4, 3, 4
    columns = np.array(list(itertools.product([-1, 1], repeat=height)))
    inside = np.exp(coupling * (columns[:, 1:] * columns[:, :-1]).sum(1))
    across = np.exp(coupling * columns @ columns.T)
    vector = inside.copy()
    for _ in range(width - 1):
        vector = inside * (across.T @ vector)
    graph = Graph.of(12, grid_edges(height, width))
    table = torch.tensor([[coupling, -coupling], [-coupling, coupling]], dtype=torch.float64)
    unary, pairwise = torch.zeros(1, 12, 2).double(), table.expand(len(graph.edges), 2, 2)
    total = eliminate(unary, pairwise, graph, plan(graph, [2] * 12).order)
    assert float(total) == pytest.approx(math.log(vector.sum()), rel=1e-12)


@pytest.mark.parametrize(
    ("edges", "words"),
    [
        ([(0, 3)], "names variable 3; variables are 0 to 2"),
        ([(1, 1)], "joins variable 1 with itself"),
        ([(0, 1), (1, 0)], "named twice"),
        ([(0, 1, 2)], "pairs of whole numbers"),
        ([(0.5, 1)], "pairs of whole numbers"),
    ],
)
def test_bad_edges(edges, words):
    with pytest.raises(InvalidInput, match=words):
        Graph.of(3, edges)


def test_tree_messages_refuse_loops():
    with pytest.raises(InvalidInput, match="has loops"):
        tree_messages(*field(LOOP), LOOP)
