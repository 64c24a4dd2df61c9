"""The discrepancy against full matrices, its error against simulation, and the size and power of its tests."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import stats

from benthic.base.errors import InvalidInput
from benthic.kernels import (
    RBF,
    Constant,
    Laplace,
    Linear,
    Matern,
    White,
    linear_mmd_test,
    median_distance,
    mmd,
    mmd_squared,
    mmd_test,
)

pytestmark = pytest.mark.spec("B-05")


def normal(n, d=2, seed=0, shift=0.0):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + shift


def by_matrices(X, Y, kernel, unbiased):
    xx, yy, xy = kernel(X, X).numpy(), kernel(Y, Y).numpy(), kernel(X, Y).numpy()
    if not unbiased:
        return xx.mean() + yy.mean() - 2 * xy.mean()
    n, m = len(X), len(Y)
    return (xx.sum() - np.trace(xx)) / (n * (n - 1)) + (yy.sum() - np.trace(yy)) / (m * (m - 1)) - 2 * xy.mean()


KERNELS = [RBF(1.1), Matern(0.5, 0.8), Laplace(), Linear(), RBF(0.5) * 2.0 + RBF(2.0), Constant(1.5) + RBF()]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("unbiased", [True, False])
@pytest.mark.parametrize("elements", [20, None])
def test_value_is_that_of_the_matrices(kernel, unbiased, elements):
    X, Y = normal(31), normal(23, seed=1, shift=0.5)
    want = by_matrices(X, Y, kernel, unbiased)
    assert mmd(X, Y, kernel, unbiased=unbiased, elements=elements).value == pytest.approx(want, rel=1e-11, abs=1e-13)
    assert float(mmd_squared(X, Y, kernel, unbiased=unbiased, elements=elements)) == pytest.approx(want, rel=1e-11)
    if unbiased:
        got = mmd_test(X, Y, kernel, 3, seed=0, elements=elements)
        assert got.statistic == pytest.approx(want, rel=1e-11, abs=1e-13)


def test_gaussians_have_the_closed_form():
    # With an RBF kernel of length l the three expectations are Gaussian integrals in one dimension.
    scale, shift = 0.9, 0.7

    def expected(variance, gap):
        total = scale**2 + variance
        return scale / math.sqrt(total) * math.exp(-(gap**2) / (2 * total))

    want = 2 * expected(2.0, 0.0) - 2 * expected(2.0, shift)
    got = mmd(normal(3000, 1), normal(3000, 1, seed=1, shift=shift), RBF(scale))
    assert abs(got.value - want) < 3.5 * got.stderr and got.stderr < 0.2 * want


def test_a_linear_kernel_compares_means():
    X, Y = normal(40), normal(30, seed=1, shift=1.0)
    gap = (X.mean(0) - Y.mean(0)).square().sum()
    assert mmd(X, Y, Linear(), unbiased=False).value == pytest.approx(float(gap), rel=1e-12)


@pytest.mark.parametrize(("shift", "n", "m"), [(0.0, 40, 60), (0.5, 60, 40), (2.0, 40, 40)])
def test_standard_error_is_the_spread_over_samples(shift, n, m):
    draws = [mmd(normal(n, seed=2 * s), normal(m, seed=2 * s + 1, shift=shift), RBF(1.0)) for s in range(250)]
    values, errors = np.array(draws).T
    # The spread of 250 draws is known to 5 percent or so; the error's own small-sample bias is of order 1/n.
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(values.std(ddof=1), rel=0.2)
    if shift == 0:
        assert abs(values.mean()) < 4 * values.std() / math.sqrt(250)  # unbiased


def test_gradients_reach_points_and_kernel():
    X, Y = normal(7).requires_grad_(), normal(6, seed=1).requires_grad_()
    log = torch.tensor(0.1, dtype=torch.float64, requires_grad=True)

    def loss(a, b, value):
        return mmd_squared(a, b, RBF().with_parameters({"lengthscale": value}), elements=9)

    assert torch.autograd.gradcheck(loss, (X, Y, log))


def test_a_cloud_follows_the_gradient_to_its_target():
    X, Y = normal(60, seed=1).clone().requires_grad_(), normal(60, seed=2, shift=1.5)
    start = float(mmd_squared(X.detach(), Y, RBF(1.5), unbiased=False))
    optimizer = torch.optim.Adam([X], lr=0.1)
    for _ in range(120):
        optimizer.zero_grad()
        mmd_squared(X, Y, RBF(1.5), unbiased=False).backward()
        optimizer.step()
    assert float(mmd_squared(X.detach(), Y, RBF(1.5), unbiased=False)) < 0.02 * start


def test_every_split_of_a_small_sample_is_ranked_as_by_hand():
    # With all 20 splits of six points known, the p-value of many shuffles must near the exact share.
    Z = normal(6, 1)
    kernel = RBF(1.0)
    splits = []
    for first in itertools.combinations(range(6), 3):
        rest = [i for i in range(6) if i not in first]
        splits.append(by_matrices(Z[list(first)], Z[rest], kernel, True))
    exact = np.mean([value >= splits[0] - 1e-12 for value in splits])
    got = mmd_test(Z[:3], Z[3:], kernel, 4000, seed=0)
    assert got.p_value == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 4000) + 1e-3)
    assert set(np.round(got.null.numpy(), 9)) <= set(np.round(splits, 9))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_size_is_right_under_the_null(dtype):
    p = [
        mmd_test(
            normal(25, seed=2 * s).to(dtype), normal(15, seed=2 * s + 1).to(dtype), permutations=59, seed=s
        ).p_value
        for s in range(400)
    ]
    # Exact test: each level is reached with at most its probability; 400 draws know it to about four errors.
    for level in (0.05, 0.1, 0.5):
        share = np.mean(np.array(p) <= level)
        assert abs(share - level) < 4 * math.sqrt(level * (1 - level) / 400), level


def test_power_and_smallest_p_value():
    got = mmd_test(normal(80), normal(80, seed=1, shift=0.8), permutations=199, seed=0)
    assert got.p_value == 1 / 200 and got.statistic > got.quantile(0.99) > got.quantile(0.5)
    # A difference no mean or variance shows: normal against Laplace of the same moments, seen with enough rows.
    same = torch.tensor(np.random.default_rng(0).laplace(scale=math.sqrt(0.5), size=(1500, 1)))
    assert mmd_test(normal(1500, 1), same, RBF(0.5), 199, seed=0).p_value < 0.02


def test_seed_decides_and_tiles_do_not():
    X, Y = normal(50, 6), normal(40, 6, seed=1, shift=0.1)
    one = mmd_test(X, Y, permutations=50, seed=3)
    two = mmd_test(X, Y, permutations=50, seed=3, elements=100)
    torch.testing.assert_close(one.null, two.null, rtol=1e-10, atol=1e-13)
    assert one.p_value == two.p_value
    assert not torch.equal(one.null, mmd_test(X, Y, permutations=50, seed=4).null)
    single = mmd_test(X.float(), Y.float(), permutations=50, seed=3)
    torch.testing.assert_close(single.null, one.null, rtol=0, atol=2e-6)


def test_global_random_state_is_left_alone():
    state = torch.random.get_rng_state()
    mmd_test(normal(20), normal(20, seed=1), permutations=5)
    median_distance(normal(30), 10)
    assert torch.equal(state, torch.random.get_rng_state())


def test_linear_time_test():
    p = np.array(
        [linear_mmd_test(normal(400, seed=2 * s), normal(400, seed=2 * s + 1), RBF(1.0)).p_value for s in range(300)]
    )
    assert stats.kstest(p, "uniform").pvalue > 1e-5
    got = linear_mmd_test(normal(20_000), normal(20_001, seed=1, shift=0.3))
    assert 0 < got.p_value < 1e-6 and got.statistic > got.quantile(0.999)
    full = mmd(normal(2000), normal(2000, seed=1, shift=0.3), RBF(1.0))
    part = linear_mmd_test(normal(20_000), normal(20_000, seed=1, shift=0.3), RBF(1.0))
    assert abs(full.value - part.statistic) < 4 * math.hypot(full.stderr, part.stderr)
    assert part.quantile(0.95) == pytest.approx(part.stderr * stats.norm.ppf(0.95))


def test_noise_does_not_tell_samples_apart():
    X, Y = normal(20), normal(20, seed=1)
    assert mmd(X, Y, RBF() + White(5.0)).value == pytest.approx(mmd(X, Y, RBF()).value, rel=1e-12)


def test_identical_points_give_one():
    X = torch.zeros(10, 2)
    assert mmd_test(X, X, RBF(1.0), 20, seed=0).p_value == 1.0
    assert linear_mmd_test(X, X, RBF(1.0)).p_value == 0.5
    assert math.isnan(mmd(X[:2], X[:2], RBF(1.0)).stderr)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mmd(torch.zeros(0, 2), normal(3)), "mmd: X has shape \\(0, 2\\); at least one point"),
        (lambda: mmd(normal(1), normal(3)), "at least 2 of each"),
        (lambda: mmd(normal(5), normal(5, 3)), "X has 2 columns and Y 3"),
        (lambda: mmd(normal(5), [[1.0, float("nan")]] * 4), "Y holds NaN"),
        (lambda: mmd(normal(5), normal(5), "rbf"), "kernel is str"),
        (lambda: mmd(normal(5), normal(5), RBF(torch.ones(3))), "a parameter for each of 3"),
        (lambda: mmd(torch.ones(5, 2), torch.ones(5, 2)), "all points coincide"),
        (lambda: mmd_test(normal(5), normal(5), permutations=0), "permutations is 0"),
        (lambda: mmd_squared(normal(5), normal(1)), "mmd_squared: X has 5 rows and Y 1"),
        (lambda: linear_mmd_test(normal(3), normal(9)), "at least 4 of each"),
    ],
)
def test_bad_input_gets_a_sentence(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()
