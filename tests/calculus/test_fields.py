"""Divergences and traces against Jacobians, closed-form variances and the theory of Hutch++."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from benthic.base.errors import InvalidInput
from benthic.calculus import (
    curl,
    divergence,
    hessian,
    jacobian,
    laplacian,
    laplacian_operator,
    matrix_operator,
    probes,
    trace_estimate,
)

pytestmark = pytest.mark.spec("A-03")


def source(seed=0):
    return torch.Generator().manual_seed(seed)


def points(*shape, seed=0):
    return torch.randn(*shape, generator=source(seed), dtype=torch.float64)


MATRIX = points(3, 3, seed=5)


def field(x):
    return torch.sin(x @ MATRIX.T) + x * x.square().sum(1, keepdim=True)


def by_jacobian(function, x):
    return torch.stack(
        [jacobian(lambda z: function(z[None])[0].flatten(), row).reshape(row.numel(), -1).trace() for row in x]
    )


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("chunk", [None, 1, 2])
def test_exact_divergence_is_the_trace_of_the_jacobian(mode, chunk):
    x = points(6, 3)
    torch.testing.assert_close(divergence(field, x, mode=mode, chunk=chunk), by_jacobian(field, x))


def test_no_points_have_no_divergences():
    assert divergence(field, points(0, 3)).shape == (0,)
    assert divergence(field, points(0, 3), "rademacher", 2).shape == (0,)


def test_images_and_float32():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.Tanh(), nn.Conv2d(4, 2, 3, padding=1))
    x = torch.randn(3, 2, 4, 5)
    got = divergence(net, x)
    assert got.shape == (3,) and got.dtype == torch.float32
    torch.testing.assert_close(got, by_jacobian(net, x).to(got), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", ["rademacher", "gaussian", "hutch++"])
def test_estimates_are_unbiased_within_their_error(method):
    x, exact = points(4, 3), by_jacobian(field, points(4, 3))
    value, error = divergence(field, x, method, 3000, generator=source(1), stderr=True)
    assert bool(((value - exact).abs() <= 4 * error + 1e-9).all())
    # Hutch++ with three or more sketched directions in three dimensions leaves nothing to estimate.
    assert bool((error < (1e-9 if method == "hutch++" else 1.0)).all())


@pytest.mark.parametrize("method", ["rademacher", "gaussian", "hutch++"])
def test_estimates_are_unbiased_over_seeds(method):
    x = points(1, 3).expand(4000, 3)
    draws = divergence(field, x, method, 3, generator=source(2))
    error = draws.std() / len(draws) ** 0.5
    assert abs(float(draws.mean() - by_jacobian(field, x[:1])[0])) < 4 * float(error) + 1e-12


@pytest.mark.parametrize("method", ["exact", "rademacher", "hutch++"])
@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_divergence_trains_parameters(method, mode):
    x = points(5, 3)
    noise = None if method == "exact" else probes(method, 6, x, generator=source(3))

    def total(A):
        return divergence(lambda z: torch.tanh(z @ A), x, method, 6, probes=noise, mode=mode).sum()

    A = MATRIX.clone().requires_grad_()
    got = torch.autograd.grad(total(A), A)[0]
    if method == "hutch++":  # the derivative leaves the sketch fixed, and is unbiased for that
        draws = []
        for seed in range(100):
            noise = probes(method, 3, x, generator=source(seed))
            draws.append(
                torch.autograd.grad(divergence(lambda z: torch.tanh(z @ A), x, method, probes=noise).sum(), A)[0]
            )
        draws = torch.stack(draws)
        exact = torch.autograd.grad(divergence(lambda z: torch.tanh(z @ A), x).sum(), A)[0]
        assert bool(((draws.mean(0) - exact).abs() < 4.5 * draws.std(0) / 100**0.5 + 1e-9).all())
    else:
        assert torch.autograd.gradcheck(total, A, eps=1e-6, atol=1e-6)
        torch.testing.assert_close(torch.func.grad(total)(MATRIX), got)


def test_divergence_composes_with_vmap_and_grad():
    x = points(6, 3)
    rows = torch.func.vmap(lambda row: divergence(field, row[None])[0])(x)
    torch.testing.assert_close(rows, divergence(field, x))
    noise = probes("rademacher", 4, x, generator=source(4))
    rows = torch.func.vmap(lambda row, v: divergence(field, row[None], "rademacher", probes=v[:, None])[0], (0, 1))(
        x, noise
    )
    torch.testing.assert_close(rows, divergence(field, x, "rademacher", probes=noise))
    slope = torch.func.grad(lambda z: divergence(field, z).sum())(x)
    assert torch.autograd.gradcheck(lambda z: divergence(field, z), x.clone().requires_grad_())
    assert slope.shape == x.shape


def test_laplacian_is_the_trace_of_the_hessian():
    def f(x):
        return (x**3).sum(1) * torch.sin(x[:, 0])

    x = points(5, 4)
    want = torch.stack([hessian(lambda z: f(z[None])[0], row).trace() for row in x])
    torch.testing.assert_close(laplacian(f, x), want)
    value, error = laplacian(f, x, "hutchinson", 2000, generator=source(6), stderr=True)
    assert bool(((value - want).abs() < 4 * error + 1e-9).all())
    # Harmonic in three dimensions: 1/r away from zero.
    assert float(laplacian(lambda z: 1 / z.norm(dim=1), points(5, 3) + 3).abs().max()) < 1e-12


def test_curl_of_closed_forms():
    x = points(6, 3)
    rotation = curl(lambda z: torch.linalg.cross(torch.tensor([[1.0, 2.0, 3.0]], dtype=z.dtype).expand_as(z), z), x)
    torch.testing.assert_close(rotation, torch.tensor([[2.0, 4.0, 6.0]], dtype=x.dtype).expand(6, 3))
    free = torch.func.grad(lambda z: (torch.sin(z).prod(1)).sum())
    assert float(curl(free, x).abs().max()) < 1e-14  # a gradient has no curl
    assert float(divergence(lambda z: curl(field, z), x).abs().max()) < 1e-12  # a curl has no divergence
    plane = curl(lambda z: torch.stack([-z[:, 1] * z[:, 0], z[:, 0]], 1), x[:, :2])
    torch.testing.assert_close(plane, 1 + x[:, 0])


def symmetric(n, seed):
    A = points(n, n, seed=seed)
    return (A + A.T) / 2


@pytest.mark.parametrize("method", ["rademacher", "gaussian"])
def test_variance_of_one_probe_is_the_formula(method):
    A, draws = symmetric(8, 1), 60_000
    squares = A.square().sum() - (A.diagonal().square().sum() if method == "rademacher" else 0)
    value, error = trace_estimate(A, method=method, samples=draws, generator=source(7))
    variance = float(error**2 * draws)
    # The relative error of a sample variance is about sqrt((kurtosis - 1) / draws) < 0.02 here; four of them.
    assert variance == pytest.approx(float(2 * squares), rel=0.08)
    assert abs(float(value - A.trace())) < 4 * float(error)


def test_hutch_plus_plus_wins_where_the_spectrum_decays():
    basis = torch.linalg.qr(points(60, 60, seed=2))[0]
    A = (basis * torch.arange(1, 61, dtype=torch.float64) ** -2.0) @ basis.T

    def rms(method):
        draws = [trace_estimate(A, method=method, samples=30, generator=source(s)).value for s in range(40)]
        return float((torch.stack(draws) - A.trace()).square().mean().sqrt())

    assert rms("hutch++") < rms("gaussian") / 10 and rms("hutch++") < rms("rademacher") / 10


def test_trace_of_matrices_functions_and_operators():
    A = points(10, 10)
    exact = A.trace()
    assert float(trace_estimate(A, method="exact").value) == pytest.approx(float(exact))
    assert float(trace_estimate(lambda V: A @ V, 10, "exact").value) == pytest.approx(float(exact))
    assert float(trace_estimate(matrix_operator(A), method="exact").value) == pytest.approx(float(exact))
    # 30 products give Hutch++ a basis of all ten dimensions: exact.
    assert float(trace_estimate(lambda V: A @ V, 10, samples=30, generator=source()).value) == pytest.approx(
        float(exact)
    )
    grid = trace_estimate(laplacian_operator((4, 5), "periodic"), method="rademacher", samples=400, generator=source())
    assert abs(float(grid.value) + 4 * 20) < 4 * float(grid.stderr)
    assert torch.isnan(trace_estimate(A, method="gaussian", samples=1).stderr)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: divergence(field, points(3)), r"divergence: x is \(3,\); a tensor"),
        (lambda: divergence(field, torch.zeros(2, 3, dtype=torch.long)), "floating point"),
        (lambda: divergence(lambda x: x[:, :2], points(4, 3)), r"turned \(4, 3\) into \(4, 2\)"),
        (lambda: divergence(field, points(4, 3), "hutch+"), "did you mean 'hutch\\+\\+'"),
        (lambda: divergence(field, points(4, 3), "hutch++", 2), "needs at least 3"),
        (lambda: divergence(field, points(4, 3), "gaussian", 0), "needs at least 1"),
        (lambda: divergence(field, points(4, 3), "gaussian", probes=points(4, 3)), "probes have shape"),
        (lambda: divergence(field, points(4, 3), mode="both"), "mode is 'both'"),
        (lambda: laplacian(field, points(4, 3)), r"laplacian: f turned \(4, 3\) into \(4, 3\)"),
        (lambda: curl(field, points(4, 4)), r"curl: x has shape \(4, 4\)"),
        (lambda: trace_estimate(points(3, 4)), "a square one is needed"),
        (lambda: trace_estimate(lambda V: V), "dim is missing"),
        (lambda: trace_estimate(lambda V: V[:2], 3), "it must keep the shape"),
        (lambda: probes("exact", 1, points(2, 2)), "the exact divergence has none"),
    ],
)
def test_bad_input_gets_a_sentence(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()
