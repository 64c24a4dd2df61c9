"""Metrics of samples that lie on CUDA are those of the CPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benthic import metrics

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.spec("I-03"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
RNG = np.random.default_rng(0)
REAL, MADE = RNG.normal(size=(1500, 32)), 1.2 * RNG.normal(size=(1100, 32))


@pytest.mark.parametrize(
    "metric",
    [
        metrics.frechet_distance,
        lambda X, Y: metrics.frechet_distance(X, Y, infinite=True),
        metrics.kernel_distance,
        metrics.prdc,
        lambda X, Y: metrics.prdc(X, X[:500]),
        metrics.sliced_wasserstein,
        lambda X, Y: metrics.exact_wasserstein(X[:200], Y[:200]),
        metrics.authenticity,
        lambda X, Y: metrics.memorization(X[:700], X[700:], Y)[:2],
        lambda X, Y: metrics.marginal_distances(X, Y).mean,
        lambda X, Y: metrics.association_distances(X[:, :5], Y[:, :5]).mean,
        lambda X, Y: metrics.inception_score(torch.softmax(torch.as_tensor(Y), 1)),
        lambda X, Y: metrics.frechet_distance(X, Y, features=metrics.RandomConvolution((2, 4, 4), (8,))),
    ],
)
def test_same_numbers(metric):
    there = metric(*(torch.tensor(part, device="cuda") for part in (REAL, MADE)))
    np.testing.assert_allclose(np.ravel(there), np.ravel(metric(REAL, MADE)), rtol=1e-4, atol=1e-9)
