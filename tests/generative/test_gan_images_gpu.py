"""Adversarial models of pictures on a GPU: captured updates are the usual ones."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import benthic

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.spec("N-02"),
    pytest.mark.filterwarnings("ignore:.*(collapsed|copies)"),
]


def pictures() -> torch.Tensor:
    return torch.rand(200, 1, 12, 12, device="cuda", generator=torch.Generator("cuda").manual_seed(0))


def weights(name: str, capture: bool, **settings: Any) -> torch.Tensor:
    """All weights after a few updates, most of them replayed where they are captured."""
    X = pictures()
    trainer = {"steps": 16, "batch_size": 64, "capture": capture, "lr": 1e-4}
    y = {"ConditionalGAN": torch.arange(200) % 3, "ImageTranslation": 1 - X}.get(name)
    model = getattr(benthic, name)(**settings, trainer=trainer, random_state=0).fit(X, y)
    return torch.cat([p.flatten() for p in model.network_.parameters()])


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("DCGAN", {"latent_dim": 8, "channels": (8, 16)}),
        ("DCGAN", {"latent_dim": 8, "channels": (8, 16), "critic_norm": "spectral", "loss": "hinge"}),
        ("DCGAN", {"latent_dim": 8, "channels": (8, 16), "loss": "wasserstein", "penalty": "gradient"}),
        ("DCGAN", {"latent_dim": 8, "channels": (8, 16), "norm": "virtual", "critic_norm": "virtual"}),
        ("ConditionalGAN", {"latent_dim": 8, "channels": (8, 16)}),
        ("InfoGAN", {"latent_dim": 8, "channels": (8, 16), "categories": 3, "continuous": 1}),
        ("ImageTranslation", {"channels": (8, 16), "critic_channels": (8,)}),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("error:the updates are not captured")
def test_captured_updates_are_the_usual_ones(name, settings):
    one, other = weights(name, True, **settings), weights(name, False, **settings)
    # convolutions add up in no fixed order, and Adam turns a gradient next to zero into a step of full length
    assert (one - other).norm() < 2e-3 * other.norm()


def test_samples_and_translations_stay_on_the_device():
    X = pictures()
    brief = {"steps": 4, "batch_size": 64}
    model = benthic.DCGAN(8, channels=(8, 16), trainer=brief, random_state=0).fit(X)
    assert model.sample(3).device.type == "cuda"
    translated = benthic.ImageTranslation(channels=(8,), critic_channels=(8,), trainer=brief, random_state=0)
    assert translated.fit(X, 1 - X).predict(X[:3]).shape == (3, 1, 12, 12)
