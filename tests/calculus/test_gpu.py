"""Derivatives, fields and operators on CUDA agree with the CPU."""

from __future__ import annotations

import pytest
import torch

from benthic.calculus import (
    check_adjoint,
    curl,
    divergence,
    fourier_operator,
    gradient_operator,
    hvp,
    interpolation_operator,
    laplacian,
    subdifferential,
    trace_estimate,
)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


def points(n, d, seed=0):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_fields_agree_with_the_cpu():
    x = points(8, 3)
    for function in (
        lambda z: divergence(torch.sin, z),
        lambda z: laplacian(lambda y: y.prod(1), z),
        lambda z: curl(lambda y: y.roll(1, 1) ** 2, z),
        lambda z: hvp(lambda y: (y**4).sum(), z, torch.ones_like(z)),
        lambda z: subdifferential(lambda y: y.abs().sum(), z[0]).upper,
    ):
        got = function(x.cuda())
        assert got.device.type == "cuda"
        torch.testing.assert_close(got.cpu(), function(x), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("method", ["rademacher", "gaussian", "hutch++"])
def test_estimates_run_on_the_device(method):
    x = points(8, 3).cuda()
    source = torch.Generator("cuda").manual_seed(0)
    value, error = divergence(lambda z: z @ z.T @ z, x[:1], method, 300, generator=source, stderr=True)
    exact = divergence(lambda z: z @ z.T @ z, x[:1])
    assert bool(((value - exact).abs() < 4 * error + 1e-9).all())
    A = points(20, 20).cuda()
    assert abs(float(trace_estimate(A, method="hutch++", samples=60, generator=source).value - A.trace())) < 1e-9


def test_operators_are_adjoint_on_the_device():
    at = (torch.rand(50, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 5).cuda()
    for A in (gradient_operator((5, 6), "dirichlet"), interpolation_operator((5, 6), at), fourier_operator((5, 6))):
        like = torch.zeros(5, 6, dtype=torch.float64, device="cuda")
        assert A(like).device.type == "cuda" and check_adjoint(A, x_like=like).passed
