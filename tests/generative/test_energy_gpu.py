"""Energies on a GPU: captured updates learn what plain ones do, and tensors stay where they are."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

import benthic

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.spec("N-04"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
IMAGES = load_digits().images[:256, None].astype(np.float32) / 16.0


@pytest.mark.filterwarnings("error:the updates are not captured")
@pytest.mark.parametrize("objective", ["denoising", "sliced", "persistent", "contrastive_divergence"])
def test_captured_updates_of_pictures_equal_plain_ones(objective):
    weights = []
    for capture in (True, False):
        trainer = {"steps": 20, "batch_size": 64, "capture": capture}
        model = benthic.EnergyModel(objective, channels=(8,), chain_steps=2, trainer=trainer, random_state=0)
        model.fit(torch.tensor(IMAGES, device="cuda"))
        weights.append(model.network_.state_dict())
    for key, value in weights[0].items():  # convolutions may add in another order, which chains carry on
        assert float((value - weights[1][key]).norm()) < 0.01 * float(value.norm()) + 1e-4, key


@pytest.mark.filterwarnings("error:the updates are not captured")
@pytest.mark.parametrize("objective", ["persistent", "contrastive_divergence"])
def test_captured_updates_of_a_machine_equal_plain_ones(objective):
    bits = torch.tensor(IMAGES.reshape(-1, 64) > 0.5, device="cuda").float()
    found = []
    for capture in (True, False):
        trainer = {"steps": 20, "batch_size": 64, "capture": capture}
        model = benthic.BernoulliRBM(16, objective=objective, trainer=trainer, random_state=0).fit(bits)
        assert model.transform(bits).device.type == "cuda" and model.sample(3).device.type == "cuda"
        found.append((model.network_.weight.detach(), model.chains_))
    torch.testing.assert_close(found[0][0], found[1][0], rtol=1e-3, atol=1e-5)
    assert (found[0][1] == found[1][1]).mean() > 0.99


def test_the_partition_function_is_that_of_the_cpu():
    bits = torch.tensor(IMAGES.reshape(-1, 64) > 0.5, device="cuda").float()
    model = benthic.BernoulliRBM(8, trainer={"steps": 50}, random_state=0).fit(bits)
    exact, forward = model.log_partition("exact"), model.log_partition("ais(500)")
    assert abs(exact.value - forward.value) < 4 * forward.stderr + 1e-3
    found = model.likelihood(bits)
    assert found.value.device.type == "cuda" and torch.isfinite(found.value).all()
