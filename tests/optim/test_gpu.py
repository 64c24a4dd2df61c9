"""Minimizers on CUDA: answers stay on the device and are those of the CPU."""

from __future__ import annotations

import pytest
import torch

from benthic.optim import clip_to_ball, minimize, smoothness
from benthic.optim.minimizer import METHODS
from tests.optim.problems import D, himmelblau, random_points, rosenbrock

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.spec("D-02"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


@pytest.mark.parametrize("method", METHODS)
def test_one_start_and_many(method):
    x0 = torch.tensor([3.5, 1.0], dtype=D)
    here, there = minimize(himmelblau, x0, method), minimize(himmelblau, x0.cuda(), method)
    assert there.point.device.type == "cuda" and there.converged
    torch.testing.assert_close(there.point.cpu(), here.point, rtol=0, atol=1e-6)
    X = random_points(20, 2, 3.0)
    many = minimize(himmelblau, X.cuda(), method, batched=True)
    assert many.value.device.type == "cuda"
    torch.testing.assert_close(many.point.cpu(), minimize(himmelblau, X, method, batched=True).point, rtol=0, atol=1e-5)


def test_constants_and_clipping():
    point = torch.tensor([0.3, 0.1], dtype=D)
    assert smoothness(rosenbrock, point.cuda()) == pytest.approx(smoothness(rosenbrock, point))
    p = torch.nn.Parameter(torch.zeros(2, device="cuda"))
    p.grad = torch.tensor([3.0, 4.0], device="cuda")
    assert float(clip_to_ball(p, 1.0)) == 5.0 and p.grad.device.type == "cuda"
