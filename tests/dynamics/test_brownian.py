"""A path is Brownian motion, the seed decides it, and looking closer does not change it."""

from __future__ import annotations

import itertools

import pytest
import torch

from benthic.base.errors import InvalidInput
from benthic.dynamics import BrownianPath

pytestmark = pytest.mark.spec("E-03")
N = 40_000


@pytest.mark.parametrize("cells", [1, 3])
def test_covariances_are_those_of_brownian_motion(cells):
    path = BrownianPath(0.0, 1.0, (N,), seed=1, cells=cells, dtype=torch.float64)
    times = torch.tensor([0.125, 0.3, 1 / 3, 0.5, 0.77, 1.0], dtype=torch.float64)
    found = torch.cov(torch.stack([path(float(t)) for t in times]))
    expected = torch.minimum(times[:, None], times)
    # the variance of an empirical covariance is (c_ii c_jj + c_ij²) / n; five standard deviations
    spread = ((times[:, None] * times + expected**2) / N).sqrt()
    assert bool(((found - expected).abs() < 5 * spread).all())


def test_the_order_of_questions_does_not_matter():
    times = [0.3, 0.9, 0.31, 0.0, 1.0, 0.5, 0.125]
    first = BrownianPath(0.0, 1.0, (4,), seed=2)
    answers = {t: first(t) for t in times}
    second = BrownianPath(0.0, 1.0, (4,), seed=2)
    for t in sorted(times, reverse=True):
        torch.testing.assert_close(second(t), answers[t], rtol=0, atol=0)
    assert not torch.equal(BrownianPath(0.0, 1.0, (4,), seed=3)(0.5), answers[0.5])


def test_coarse_increments_are_sums_of_fine_ones():
    path = BrownianPath(0.0, 2.0, (3,), seed=0, cells=5, dtype=torch.float64)
    grid = [0.1 * i for i in range(21)]
    fine = sum(path.increment(a, b) for a, b in itertools.pairwise(grid))
    torch.testing.assert_close(fine, path(2.0), atol=1e-12, rtol=0)


def test_a_path_may_run_backward_in_time():
    path = BrownianPath(2.0, 0.0, (N,), seed=4, dtype=torch.float64)
    assert float(path(2.0).abs().max()) == 0.0
    assert abs(float(path(0.5).var()) - 1.5) < 5 * 1.5 * (2 / N) ** 0.5


def test_global_random_state_is_left_alone():
    before = torch.random.get_rng_state()
    BrownianPath(0.0, 1.0, (3,), seed=1)(0.3)
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize(("ends", "options"), [((0.0, 0.0), {}), ((0.0, float("inf")), {}), ((0.0, 1.0), {"cells": 0})])
def test_bad_paths_are_refused(ends, options):
    with pytest.raises(InvalidInput, match="BrownianPath: "):
        BrownianPath(*ends, (1,), seed=0, **options)


def test_times_outside_are_refused():
    with pytest.raises(InvalidInput, match="outside"):
        BrownianPath(0.0, 1.0, (1,), seed=0)(1.5)
