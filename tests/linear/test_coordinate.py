"""Coordinate descent: the conditions of optimality, and cases solved by hand."""

from __future__ import annotations

import numpy as np
import pytest

from benthic.linear.coordinate import _descend, descend

pytestmark = pytest.mark.spec("F-02")


def model(m, seed, rank=None):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(rank or 2 * m, m)) @ np.diag(rng.uniform(0.1, 10, m))
    return A.T @ A / m, rng.normal(size=m) * 5, rng.normal(size=m) * rng.integers(0, 2, m)


@pytest.mark.parametrize(("m", "rank"), [(5, None), (60, None), (30, 10)])
def test_the_result_meets_the_subgradient_condition(m, rank):
    H, gradient, start = model(m, seed=m, rank=rank)
    gradient = H @ gradient  # in the range of H, so that singular models are bounded below
    l1 = np.where(np.arange(m) % 4 == 0, 0.0, 0.3 * np.abs(gradient).max())
    w, _ = descend(H, gradient, start, l1, 1e-26, max_sweeps=100_000)
    slope = gradient + H @ (w - start)
    moved = w != 0
    np.testing.assert_allclose(slope[moved], -l1[moved] * np.sign(w[moved]), atol=1e-6)
    assert (np.abs(slope[~moved]) <= l1[~moved] + 1e-6).all()
    assert rank or 0 < moved.sum() < m


def test_without_penalty_it_solves_the_linear_system():
    H, gradient, start = model(20, seed=1)
    w, _ = descend(H, gradient, start, np.zeros(20), 1e-28, max_sweeps=100_000)
    np.testing.assert_allclose(w, start - np.linalg.solve(H, gradient), atol=1e-8)


def test_a_diagonal_model_is_soft_thresholded_in_one_sweep_and_one_check():
    w, sweeps = descend(np.diag([1.0, 2.0, 4.0]), np.array([-3.0, 1.0, 8.0]), np.zeros(3), np.full(3, 2.0), 1e-20)
    np.testing.assert_allclose(w, [1.0, 0.0, -1.5])
    assert sweeps <= 4


def test_the_compiled_kernel_is_the_python_one():
    H, gradient, start = model(12, seed=3)
    l1 = np.full(12, 1.5)
    w, q = start.copy(), gradient.copy()
    _descend(H, q, w, l1, 1e-24, 1000)
    np.testing.assert_allclose(descend(H, gradient, start, l1, 1e-24)[0], w, atol=1e-12)
    np.testing.assert_allclose(q, gradient + H @ (w - start), atol=1e-9)
