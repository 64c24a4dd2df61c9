"""Autoregressions and fields on another device give what they give on the processor."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benthic.chains.autoregressive import AutoRegressive
from benthic.chains.conditional_random_field import ConditionalRandomField
from benthic.chains.graph_messages import Graph, grid_edges, loopy_messages, tree_messages
from benthic.chains.random_field_gibbs import annealed_log_partition

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.spec("H-05"),
]


def test_series_on_a_device():
    X = np.random.default_rng(0).normal(size=(5, 40, 2))
    here, there = AutoRegressive(2).fit(X), AutoRegressive(2).fit(torch.tensor(X, device="cuda"))
    np.testing.assert_allclose(here.coefficients_, there.coefficients_, rtol=1e-8, atol=1e-10)
    moved = there.forecast(3, given=torch.tensor(X, device="cuda"))
    assert moved.device.type == "cuda"
    np.testing.assert_allclose(moved.cpu(), here.forecast(3), rtol=1e-7, atol=1e-9)
    X[0, 5] = np.nan
    found = there.likelihood(torch.tensor(X, device="cuda")).value
    np.testing.assert_allclose(found.cpu(), here.likelihood(X).value, rtol=1e-8)


def test_chain_fields_on_a_device():
    X = np.random.default_rng(0).normal(size=(6, 8, 2))
    y = (X[:, :, 0] > 0).astype(int)
    here = ConditionalRandomField().fit(X, y)
    there = ConditionalRandomField().fit(torch.tensor(X, device="cuda"), torch.tensor(y))
    np.testing.assert_allclose(here.coef_, there.coef_, atol=1e-4)
    p = there.predict_proba(torch.tensor(X, device="cuda"))
    np.testing.assert_allclose(p.cpu(), here.predict_proba(X), atol=1e-4)


def test_messages_and_annealing_on_a_device():
    graph = Graph.of(12, grid_edges(3, 4))
    noise = torch.Generator().manual_seed(0)
    unary = torch.randn(2, 12, 3, generator=noise, dtype=torch.float64)
    pairwise = 0.3 * torch.randn(len(graph.edges), 3, 3, generator=noise, dtype=torch.float64)
    here, there = loopy_messages(unary, pairwise, graph), loopy_messages(unary.cuda(), pairwise.cuda(), graph)
    torch.testing.assert_close(here.nodes, there.nodes.cpu(), rtol=1e-6, atol=1e-6)
    chain = Graph.of(12, [(i, i + 1) for i in range(11)])
    on = tree_messages(unary.cuda(), pairwise[:11].cuda(), chain)
    torch.testing.assert_close(tree_messages(unary, pairwise[:11], chain).edges, on.edges.cpu())
    first, error = annealed_log_partition(unary[:1].cuda(), pairwise.cuda(), graph, torch.Generator().manual_seed(0))
    second, other = annealed_log_partition(unary[:1], pairwise, graph, torch.Generator().manual_seed(0))
    assert abs(first - second) < 5 * (error + other)
