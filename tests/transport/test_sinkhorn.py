"""Entropic transport beside POT, its own optimality conditions, and itself in other forms."""

from __future__ import annotations

import warnings
from itertools import pairwise

import ot
import pytest
import torch

from benthic.transport import PointCloud, sinkhorn, sinkhorn_divergence
from benthic.transport import costs as costs_module
from benthic.transport import kernel as kernel_module
from benthic.transport import scaling as scaling_module
from tests.transport.problems import clouds, squared

pytestmark = pytest.mark.spec("B-04")


@pytest.mark.parametrize("epsilon", [1.0, 0.1, 0.02])
def test_plan_is_that_of_pot(epsilon):
    X, Y, a, b = clouds(30, 40)
    C = squared(X, Y)
    found = sinkhorn(a, b, C, epsilon, tol=1e-13, max_iter=20_000)
    theirs = ot.sinkhorn(a, b, C, epsilon, method="sinkhorn_log", stopThr=1e-13, numItermax=50_000)
    torch.testing.assert_close(found.plan, theirs, rtol=0, atol=1e-12)
    torch.testing.assert_close(found.cost, (theirs * C).sum(), rtol=0, atol=1e-11)
    assert found.converged and not found.scaled


def test_value_is_primal_and_dual():
    X, Y, a, b = clouds(15, 20)
    C, eps = squared(X, Y), 0.05
    found = sinkhorn(a, b, C, eps, tol=1e-13, max_iter=20_000)
    T = found.plan
    primal = (T * C).sum() + eps * (T * (T / (a[:, None] * b)).log()).sum()
    torch.testing.assert_close(found.value, primal, rtol=0, atol=1e-12)
    torch.testing.assert_close((a * found.f).sum(), (b * found.g).sum(), rtol=0, atol=1e-13)


def test_rows_sum_to_a_and_columns_to_b():
    X, Y, a, b = clouds(15, 20)
    found = sinkhorn(a, b, squared(X, Y), 0.05, tol=1e-8, max_iter=20_000)
    torch.testing.assert_close(found.plan.sum(0), b, rtol=0, atol=1e-15)
    off = float((found.plan.sum(1) - a).abs().sum())
    assert off <= float(found.error) <= 1e-8


def test_error_of_row_sums_never_grows():
    X, Y, a, b = clouds(15, 20)
    C = squared(X, Y)
    errors = [float((sinkhorn(a, b, C, 0.01, tol=0, max_iter=k).plan.sum(1) - a).abs().sum()) for k in range(1, 30)]
    assert all(after <= before + 1e-15 for before, after in pairwise(errors))


def test_fixed_number_of_iterations_and_early_stop():
    X, Y, a, b = clouds(15, 20)
    C = squared(X, Y)
    assert int(sinkhorn(a, b, C, 1.0, tol=0, max_iter=37).iterations) == 37
    assert int(sinkhorn(a, b, C, 1.0, max_iter=1000).iterations) < 50
    unfinished = sinkhorn(a, b, C, 0.01, tol=1e-12, max_iter=5)
    assert not unfinished.converged and unfinished.error > 1e-12


@pytest.mark.parametrize("epsilon", [0.3, 0.02])
def test_float32_follows_float64(epsilon):
    X, Y, a, b = clouds(30, 40)
    C = squared(X, Y)
    exact = sinkhorn(a, b, C, epsilon, max_iter=20_000)
    single = sinkhorn(a.float(), b.float(), C.float(), epsilon, max_iter=20_000)
    assert single.plan.dtype == torch.float32 and single.converged
    # each log entry carries the rounding of C / epsilon, and the marginals their tolerance 1e-5
    assert float((single.plan - exact.plan).abs().sum()) < 2e-5 * float(1 / epsilon)
    assert abs(float(single.value - exact.value)) < 1e-6


def test_tiny_epsilon_is_reached_by_scaling_and_says_so():
    X, Y, a, b = clouds(12, 15)
    C = squared(X, Y)
    with pytest.warns(UserWarning, match="epsilon = 0.001 is below 0.001 of the largest difference of costs"):
        found = sinkhorn(a, b, C, 1e-3, max_iter=20_000, tol=1e-6)
    assert found.scaled and found.method.startswith("epsilon scaling") and found.converged
    # the entropic cost exceeds the exact one by at most eps log(n m)
    gap = float(found.cost) - float(ot.emd2(a, b, C))
    assert -1e-6 < gap < 1e-3 * 6
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asked = sinkhorn(a, b, C, 1e-3, max_iter=20_000, tol=1e-6, scaling=True)
    torch.testing.assert_close(asked.plan, found.plan)


def test_costs_of_any_size_stay_finite():
    X, Y, a, b = clouds(12, 15, dtype=torch.float32)
    C = squared(X, Y)
    for factor, epsilon in ((1e6, 10.0), (1e-6, 1e-8), (1e4, 1e-2)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = sinkhorn(a, b, factor * C, epsilon, max_iter=500)
        assert torch.isfinite(found.plan).all() and torch.isfinite(found.f).all() and torch.isfinite(found.value)
        rounding = 4 * torch.finfo(torch.float32).eps * float((factor * C).max()) / epsilon  # of an exponent
        torch.testing.assert_close(found.plan.sum(0), b, rtol=max(rounding, 1e-5), atol=0)


def test_pure_log_domain_gives_the_same(monkeypatch):
    X, Y, a, b = clouds(12, 15)
    C = squared(X, Y)
    usual = sinkhorn(a, b, C, 0.01, tol=1e-12, max_iter=5000)
    monkeypatch.setitem(kernel_module.RANGES, torch.float64, kernel_module.Range(0.0, -1.0))
    logs = sinkhorn(a, b, C, 0.01, tol=1e-12, max_iter=5000)
    assert logs.method == "log-sum-exp" and logs.converged
    torch.testing.assert_close(logs.plan, usual.plan, rtol=0, atol=1e-12)


def test_absorption_changes_nothing(monkeypatch):
    X, Y, a, b = clouds(12, 15)
    C = squared(X, Y)
    usual = sinkhorn(a, b, C, 0.005, tol=0, max_iter=60)
    monkeypatch.setitem(kernel_module.RANGES, torch.float64, kernel_module.Range(600.0, 0.1))
    often = sinkhorn(a, b, C, 0.005, tol=0, max_iter=60)
    torch.testing.assert_close(often.plan, usual.plan, rtol=1e-10, atol=1e-15)


@pytest.mark.parametrize("rho", [0.05, 0.5, 5.0])
def test_unbalanced_plan_is_that_of_pot(rho):
    X, Y, a, b = clouds(20, 25)
    a = 1.7 * a
    C = squared(X, Y)
    found = sinkhorn(a, b, C, 0.1, rho=rho, tol=1e-14, max_iter=20_000)
    theirs = ot.unbalanced.sinkhorn_unbalanced(a, b, C, 0.1, rho, reg_type="kl", stopThr=1e-14, numItermax=20_000)
    torch.testing.assert_close(found.plan, theirs, rtol=0, atol=1e-11)


@pytest.mark.parametrize(("epsilon", "rho"), [(0.05, 0.5), (0.005, 1.0), (0.5, 0.01)])
def test_unbalanced_value_and_optimality(epsilon, rho):
    X, Y, a, b = clouds(10, 12)
    b = 0.4 * b
    C = squared(X, Y)
    found = sinkhorn(a, b, C, epsilon, rho=rho, tol=1e-14, max_iter=50_000)
    T = found.plan

    def kl(p, q):
        return (p * (p / q).log() - p + q).sum()

    primal = (T * C).sum() + epsilon * kl(T, a[:, None] * b) + rho * kl(T.sum(1), a) + rho * kl(T.sum(0), b)
    torch.testing.assert_close(found.value, primal, rtol=1e-10, atol=1e-12)
    # stationarity of the primal in log form
    gradient = (
        C + epsilon * (T / (a[:, None] * b)).log() + rho * (T.sum(1) / a).log()[:, None] + rho * (T.sum(0) / b).log()
    )
    assert float(gradient.abs().max()) < 1e-9


def test_marginals_are_kept_as_rho_grows():
    X, Y, a, b = clouds(10, 12)
    C = squared(X, Y)
    balanced = sinkhorn(a, b, C, 0.1, tol=1e-12).plan
    gaps = [
        float((sinkhorn(a, b, C, 0.1, rho=rho, tol=1e-13, max_iter=100_000).plan - balanced).abs().sum())
        for rho in (3.0, 30.0)
    ]
    assert gaps[1] < 0.2 * gaps[0]  # the gap falls like 1 / rho


def test_batch_is_a_loop():
    problems = [clouds(8, 9, seed=seed) for seed in range(6)]
    a, b = (torch.stack([problem[k] for problem in problems]).reshape(2, 3, -1) for k in (2, 3))
    C = torch.stack([squared(X, Y) for X, Y, _, _ in problems]).reshape(2, 3, 8, 9)
    together = sinkhorn(a, b, C, 0.02)
    assert together.plan.shape == (2, 3, 8, 9) and together.value.shape == (2, 3)
    for i in range(2):
        for j in range(3):
            alone = sinkhorn(a[i, j], b[i, j], C[i, j], 0.02)
            assert int(alone.iterations) == int(together.iterations[i, j])
            torch.testing.assert_close(together.plan[i, j], alone.plan, rtol=1e-10, atol=1e-14)
            torch.testing.assert_close(together.cost[i, j], alone.cost, rtol=1e-10, atol=1e-14)
            torch.testing.assert_close(together.f[i, j], alone.f, rtol=1e-10, atol=1e-12)


def test_large_problems_of_a_batch_are_a_loop():
    X, Y, a, b = clouds(100, 110)  # above the size up to which products of a batch are made in one call
    C = torch.stack([squared(X, Y), 2 * squared(X, Y)])
    together = sinkhorn(a, b, C, 0.05)
    for k in range(2):
        torch.testing.assert_close(together.plan[k], sinkhorn(a, b, C[k], 0.05).plan, rtol=1e-9, atol=1e-13)


def test_masses_broadcast_over_one_cost():
    X, Y, a, b = clouds(8, 9)
    _, _, other, _ = clouds(8, 9, seed=1)
    found = sinkhorn(torch.stack([a, other]), b, squared(X, Y), 0.1)
    assert found.plan.shape == (2, 8, 9)
    torch.testing.assert_close(found.plan[1], sinkhorn(other, b, squared(X, Y), 0.1).plan)


def test_warm_start_saves_iterations():
    X, Y, a, b = clouds(20, 25)
    C = squared(X, Y)
    cold = sinkhorn(a, b, C, 0.02, max_iter=20_000)
    near = sinkhorn(a, b, 1.001 * C, 0.02, max_iter=20_000)
    warm = sinkhorn(a, b, 1.001 * C, 0.02, start=(cold.f, cold.g), max_iter=20_000)
    assert int(warm.iterations) < int(near.iterations)
    torch.testing.assert_close(warm.plan, near.plan, rtol=0, atol=1e-9)
    assert int(sinkhorn(a, b, C, 0.02, start=(cold.f, cold.g)).iterations) == 1


def test_wild_start_is_survived():
    X, Y, a, b = clouds(20, 25, dtype=torch.float32)
    C = squared(X, Y)
    usual = sinkhorn(a, b, C, 0.05)
    for f, g in ((1e3, -1e3), (-50.0, -50.0), (90.0, 10.0)):
        found = sinkhorn(a, b, C, 0.05, start=(torch.full((20,), f), torch.full((25,), g)))
        assert found.converged
        torch.testing.assert_close(found.plan, usual.plan, rtol=0, atol=1e-5)


@pytest.mark.parametrize("rho", [None, 0.5])
def test_points_without_mass(rho):
    X, Y, a, b = clouds(8, 9)
    a, b = a.clone(), b.clone()
    a[[0, 3]], b[5] = 0, 0
    X[0] += 50  # far from everything
    a, b = a / a.sum(), b / b.sum()
    C = squared(X, Y)
    found = sinkhorn(a, b, C, 0.05, rho=rho, tol=1e-13, max_iter=20_000, scaling=False)
    rows, columns = a > 0, b > 0
    alone = sinkhorn(a[rows], b[columns], C[rows][:, columns], 0.05, rho=rho, tol=1e-13, max_iter=20_000)
    assert torch.isfinite(found.f).all() and torch.isfinite(found.g).all() and torch.isfinite(found.plan).all()
    assert not found.plan[~rows].any() and not found.plan[:, ~columns].any()
    torch.testing.assert_close(found.plan[rows][:, columns], alone.plan, rtol=0, atol=1e-13)
    torch.testing.assert_close(found.value, alone.value, rtol=0, atol=1e-12)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
@pytest.mark.parametrize("d", [1, 3])
def test_point_clouds_never_store_the_cost_and_agree(monkeypatch, p, d):
    X, Y, a, b = clouds(31, 23, d)
    C = torch.cdist(X, Y) ** p
    stored = sinkhorn(a, b, C, 0.05, tol=1e-12, max_iter=20_000)
    small = sinkhorn(a, b, PointCloud(X, Y, p), 0.05, tol=1e-12, max_iter=20_000)
    monkeypatch.setitem(costs_module._ENTRIES, "cpu", 100)  # blocks of four rows
    streamed = sinkhorn(a, b, PointCloud(X, Y, p), 0.05, tol=1e-12, max_iter=20_000)
    for found in (small, streamed):
        torch.testing.assert_close(found.f, stored.f, rtol=0, atol=1e-11)
        torch.testing.assert_close(found.plan, stored.plan, rtol=0, atol=1e-12)
        torch.testing.assert_close(found.cost, stored.cost, rtol=0, atol=1e-12)
        torch.testing.assert_close(found.value, stored.value, rtol=0, atol=1e-12)
    assert int(streamed.iterations) == int(stored.iterations)


def test_batched_point_clouds(monkeypatch):
    monkeypatch.setitem(costs_module._ENTRIES, "cpu", 100)
    X, Y, a, b = clouds(12, 15)
    both = sinkhorn(a, b, (torch.stack([X, 2 * X]), Y), 0.1)
    for k, points in enumerate((X, 2 * X)):
        torch.testing.assert_close(both.plan[k], sinkhorn(a, b, squared(points, Y), 0.1).plan, rtol=0, atol=1e-12)


def test_streaming_in_logs_and_scaling(monkeypatch):
    monkeypatch.setitem(costs_module._ENTRIES, "cpu", 60)
    X, Y, a, b = clouds(12, 15)
    stored = sinkhorn(a, b, squared(X, Y), 0.05, tol=1e-11, max_iter=20_000)
    scaled = sinkhorn(a, b, (X, Y), 0.05, tol=1e-11, max_iter=20_000, scaling=True)
    torch.testing.assert_close(scaled.plan, stored.plan, rtol=0, atol=1e-10)
    monkeypatch.setitem(kernel_module.RANGES, torch.float64, kernel_module.Range(0.0, -1.0))
    logs = sinkhorn(a, b, (X, Y), 0.05, tol=1e-11, max_iter=20_000)
    assert logs.method == "log-sum-exp"
    torch.testing.assert_close(logs.plan, stored.plan, rtol=0, atol=1e-10)


def test_projection_is_the_conditional_mean():
    X, Y, a, b = clouds(12, 15)
    found = sinkhorn(a, b, (X, Y), 0.05, tol=1e-13, max_iter=20_000)
    torch.testing.assert_close(found.project(Y), found.plan @ Y / a[:, None], rtol=0, atol=1e-12)


def test_divergence_is_that_of_pot():
    X, Y, a, b = clouds(20, 25)
    found = sinkhorn_divergence(X, Y, 0.2, a=a, b=b, tol=1e-13)

    def regularized(p, q, C):  # ⟨T, C⟩ + eps KL(T | p q)
        T = ot.sinkhorn(p, q, C, 0.2, method="sinkhorn_log", stopThr=1e-14, numItermax=20_000)
        return (T * C).sum() + 0.2 * (T * (T / (p[:, None] * q)).log()).sum()

    truth = (
        regularized(a, b, squared(X, Y)) - regularized(a, a, squared(X, X)) / 2 - regularized(b, b, squared(Y, Y)) / 2
    )
    torch.testing.assert_close(found, truth, rtol=0, atol=1e-11)
    costs = (squared(X, Y), squared(X, X), squared(Y, Y))
    torch.testing.assert_close(
        sinkhorn_divergence(costs=costs, epsilon=0.2, a=a, b=b, tol=1e-13), truth, rtol=0, atol=1e-11
    )


def test_divergence_of_a_translation_is_its_square():
    X, _, a, _ = clouds(20, 25)
    shift = torch.tensor([0.3, -0.4], dtype=torch.float64)
    # squared distances split: the plan of a shifted cloud is that of the cloud with itself
    found = sinkhorn_divergence(X, X + shift, 0.3, a=a, b=a, tol=1e-13)
    torch.testing.assert_close(found, torch.tensor(0.25, dtype=torch.float64), rtol=0, atol=1e-10)


@pytest.mark.parametrize("rho", [None, 0.5])
def test_divergence_is_positive_and_zero_for_equals(rho):
    X, Y, a, b = clouds(10, 12)
    assert abs(float(sinkhorn_divergence(X, X, 0.2, a=a, b=a, rho=rho, tol=1e-13))) < 1e-12
    assert float(sinkhorn_divergence(X, Y, 0.2, a=a, b=b, rho=rho)) > 1e-3
    if rho is not None:
        assert float(sinkhorn_divergence(X, X, 0.2, a=a, b=2 * a, rho=rho)) > 1e-3


@pytest.mark.slow
def test_fifty_thousand_points_in_little_memory():
    import resource

    X, Y, _, _ = clouds(50_000, 50_000, dtype=torch.float32)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = sinkhorn(None, None, (X, Y), 0.1, tol=0, max_iter=2)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert torch.isfinite(found.f).all() and grown < 200e6  # the cost would take 10 GB


@pytest.mark.parametrize("epsilon", [0.01, 0.003])
def test_longer_steps_save_iterations_and_give_the_same(monkeypatch, epsilon):
    X, Y, a, b = clouds(30, 40)
    C = squared(X, Y)
    usual = sinkhorn(a, b, C, epsilon, max_iter=20_000)
    monkeypatch.setattr(scaling_module, "_PLAIN", 10**9)
    plain = sinkhorn(a, b, C, epsilon, max_iter=20_000)
    assert int(usual.iterations) < 0.8 * int(plain.iterations)
    assert usual.converged and float((usual.plan.sum(1) - a).abs().sum()) <= 1e-9
    torch.testing.assert_close(usual.plan.sum(0), b, rtol=0, atol=1e-14)
    torch.testing.assert_close(usual.plan, plain.plan, rtol=0, atol=1e-8)
