"""Hidden Markov models and messages on a CUDA device equal those on the processor."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benthic import HiddenMarkovModel
from benthic.chains.messages import log_partition, marginals, viterbi

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.spec("H-05"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA"),
]


def test_messages_agree():
    generator = torch.Generator().manual_seed(0)
    unary = torch.randn(4, 30, 5, generator=generator, dtype=torch.float64)
    pairwise = torch.randn(5, 5, generator=generator, dtype=torch.float64)
    lengths = [30, 1, 12, 29]
    here, there = (marginals(unary.to(d), pairwise.to(d), lengths) for d in ("cpu", "cuda"))
    for ours, other in zip(here, there, strict=True):
        assert other.is_cuda
        torch.testing.assert_close(ours, other.cpu(), rtol=1e-10, atol=1e-12)
    assert torch.equal(viterbi(unary, pairwise, lengths)[0], viterbi(unary.cuda(), pairwise.cuda(), lengths)[0].cpu())
    leaf = unary.cuda().requires_grad_()
    log_partition(leaf, pairwise.cuda(), lengths).sum().backward()
    torch.testing.assert_close(leaf.grad, there.single, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", ["full", "diag"])
@pytest.mark.parametrize("gaps", [0.0, 0.1])
def test_fits_agree(kind, gaps):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 60, 2)) + 4 * rng.integers(2, size=(20, 60, 1))
    X[rng.random(X.shape) < gaps] = np.nan
    settings = {"covariance_type": kind, "max_iter": 10, "n_init": 1, "random_state": 0}
    here = HiddenMarkovModel(2, **settings).fit(X)
    there = HiddenMarkovModel(2, **settings).fit(torch.from_numpy(X).cuda())
    np.testing.assert_allclose(there.means_, here.means_, rtol=1e-8)
    posterior = there.predict_proba(torch.from_numpy(X).cuda())
    assert posterior.is_cuda
    np.testing.assert_allclose(posterior.cpu().numpy(), here.predict_proba(X), atol=1e-8)
    assert there.predict(torch.from_numpy(X).cuda()).is_cuda and there.sample(2, length=4).is_cuda
