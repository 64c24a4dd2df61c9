"""L-BFGS: the secant condition, and one inverse in three forms: two loops, dense, compact."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benthic.optim import Memory, minimize
from benthic.optim.metrics import Dense, Limited
from benthic.optim.metrics_rows import DenseRows, LimitedRows
from tests.optim.problems import D, quadratic

pytestmark = pytest.mark.spec("F-02", "D-02")


def normal(*shape, seed):
    return torch.randn(*shape, dtype=D, generator=torch.Generator().manual_seed(seed))


def test_the_inverse_maps_the_last_change_to_the_last_step():
    A, _, _ = quadratic(6, 3)
    memory = Memory(size=3)
    for seed in range(5):
        step = normal(6, seed=seed)
        memory = memory.add(step, A @ step)
    assert len(memory.steps) == 3
    torch.testing.assert_close(memory.inverse(memory.changes[-1]), memory.steps[-1])


def test_the_two_loops_equal_the_dense_update():
    A, _, _ = quadratic(5, 2)
    memory, H = Memory(), torch.eye(5, dtype=D) * 0.7
    for seed in range(4):
        s = normal(5, seed=seed)
        y = A @ s
        memory, rho = memory.add(s, y), 1 / (s @ y)
        V = torch.eye(5, dtype=D) - rho * torch.outer(y, s)
        H = V.T @ H @ V + rho * torch.outer(s, s)
    gradient = torch.arange(5, dtype=D)
    torch.testing.assert_close(memory.inverse(gradient, lambda g: 0.7 * g), H @ gradient)


def test_pairs_without_curvature_are_left_out():
    s = torch.tensor([1.0, 0.0])
    assert not Memory().add(s, -s).steps
    assert not Memory().add(s, torch.tensor([0.0, 1.0])).steps


@pytest.mark.parametrize("host", [True, False])
@pytest.mark.parametrize("pairs", [1, 3, 4, 5, 11])
def test_the_compact_form_equals_the_two_loops(pairs, host):
    A, _, _ = quadratic(9, 2)
    memory, compact = Memory(4), Limited(np.zeros(9) if host else torch.zeros(9, dtype=D), 4)
    form = torch.Tensor.numpy if host else torch.clone
    point, gradient = normal(9, seed=100), normal(9, seed=101)
    for seed in range(pairs):
        s = normal(9, seed=seed)
        y = -(A @ s) if seed == 2 else A @ s  # one pair without curvature
        memory = memory.add(s, y)
        compact.learn(*map(form, (point + s, point, gradient + y, gradient)))
        point, gradient = point + s, gradient + y
    direction, slope = compact.direction(form(gradient))
    direction = torch.as_tensor(direction)
    if pairs <= 4 or pairs >= 8:  # while a skipped pair costs the compact form its oldest, they differ
        torch.testing.assert_close(direction, -memory.inverse(gradient), rtol=1e-9, atol=1e-12)
    assert slope == pytest.approx(float(direction @ gradient), rel=1e-9)


def test_forgetting_leaves_the_gradient():
    compact = Limited(torch.zeros(3, dtype=D))
    point, gradient = normal(3, seed=0), normal(3, seed=1)
    compact.learn(point, 0 * point, gradient, gradient - point)
    assert not compact.fresh
    compact.reset()
    assert compact.fresh
    torch.testing.assert_close(compact.direction(gradient)[0], -gradient)


@pytest.mark.parametrize("kinds", [(Limited, LimitedRows), (Dense, DenseRows)], ids=["limited", "dense"])
def test_rows_learn_what_each_learns_alone(kinds):
    one, many = kinds
    A, _, _ = quadratic(6, 2)
    X, G = normal(3, 6, seed=0), normal(3, 6, seed=1)
    alone, rows = [one(x) for x in X], many(X)
    for round_ in range(14):
        learns = torch.tensor([True, round_ % 2 == 0, round_ < 3])
        S = normal(3, 6, seed=round_ + 2)
        Y = S @ A
        rows.learn(learns, S, Y)
        for i in learns.nonzero()[:, 0].tolist():
            alone[i].learn(X[i] + S[i], X[i], G[i] + Y[i], G[i])
            X[i], G[i] = X[i] + S[i], G[i] + Y[i]
    expected = torch.stack([metric.direction(g)[0] for metric, g in zip(alone, G, strict=True)])
    torch.testing.assert_close(rows.direction(G), expected, rtol=1e-8, atol=1e-10)


def test_a_perfect_preconditioner_needs_one_step():
    A, b, function = quadratic(30, 6)
    inverse = torch.linalg.inv(A)
    found = minimize(function, torch.zeros_like(b), inverse=lambda g: inverse @ g, tol=1e-6)
    plain = minimize(function, torch.zeros_like(b), tol=1e-6, max_iter=2000)
    assert found.converged
    assert found.iterations <= 3 < plain.iterations
    torch.testing.assert_close(found.point, torch.linalg.solve(A, b), rtol=1e-6, atol=1e-8)
