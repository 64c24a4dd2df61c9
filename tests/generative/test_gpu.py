"""Variational autoencoders on a GPU: kernels against plain operations, captured updates against usual ones."""

from __future__ import annotations

import pytest
import torch

import benthic
from benthic.nets.observation import BernoulliObservation, Observation
from benthic.nets.posterior import HIGH, LOW, posterior_of

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.spec("N-01"),
]


def test_the_kernel_of_bits_agrees_with_plain_operations():
    torch.manual_seed(0)
    x = (torch.rand(7, 300, device="cuda") < 0.3).float()
    logits = (5 * torch.randn(3, 7, 300, device="cuda")).requires_grad_()
    law, weight = BernoulliObservation(300), torch.randn(3, 7, device="cuda")
    fast = law.log_prob(x, logits)
    (fast_slope,) = torch.autograd.grad((weight * fast).sum(), logits)
    plain = Observation.log_prob(law, x, logits)
    (slope,) = torch.autograd.grad((weight * plain).sum(), logits)
    torch.testing.assert_close(fast, plain, rtol=1e-5, atol=1e-3)
    torch.testing.assert_close(fast_slope, slope, rtol=1e-4, atol=1e-5)


def test_the_kernel_of_codes_agrees_with_plain_operations():
    from benthic.nets import fused

    torch.manual_seed(0)
    outputs = (6 * torch.randn(9, 10, device="cuda")).requires_grad_()  # some beyond the bounds
    noise, a, b = torch.randn(9, 5, device="cuda"), torch.randn(9, 5, device="cuda"), torch.rand(9, device="cuda")
    z, kl = fused.draw_code(outputs, noise, LOW, HIGH)
    (fast,) = torch.autograd.grad((a * z).sum() + (b * kl).sum(), outputs)
    q = posterior_of(outputs, 5, "diagonal")
    torch.testing.assert_close(z, q.place(noise), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(kl, q.kl(), rtol=1e-5, atol=1e-4)
    (slope,) = torch.autograd.grad((a * q.place(noise)).sum() + (b * q.kl()).sum(), outputs)
    torch.testing.assert_close(fast, slope, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("more", [{}, {"ema": 0.9, "clip": 1.0, "schedule": "cosine"}, {"optimizer": "rmsprop"}])
def test_captured_updates_are_the_usual_ones(more):
    torch.manual_seed(0)
    X = (torch.rand(500, 20, device="cuda") < 0.3).float()

    def weights(capture):
        trainer = {"epochs": 6, "batch_size": 64, "capture": capture, **more}
        model = benthic.VAE(2, hidden_layer_sizes=(32,), decoder="bernoulli", trainer=trainer, random_state=0).fit(X)
        return torch.cat([p.flatten() for p in model.network_.parameters()])

    torch.testing.assert_close(weights(True), weights(False), rtol=1e-4, atol=1e-5)
