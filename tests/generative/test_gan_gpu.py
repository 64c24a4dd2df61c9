"""Adversarial models on an accelerator: captured games with double backward, the same numbers as without capture."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import benthic

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.spec("N-02"),
]
RNG = np.random.default_rng(0)
X = (RNG.normal(size=(600, 3)) @ RNG.normal(size=(3, 3))).astype(np.float32)


def fit(name, capture, **settings):
    trainer = {"steps": 80, "batch_size": 64, "device": "cuda", "capture": capture, "verbose": False}
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*not captured.*")
        return getattr(benthic, name)(4, hidden_layer_sizes=(16,), trainer=trainer, random_state=0, **settings).fit(X)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("GAN", {}),
        ("GAN", {"latent_components": 8, "penalty": ("r1", "r2"), "loss": "relativistic"}),
        ("GAN", {"game": "extragradient"}),
        ("GAN", {"game": "optimistic"}),
        ("WGAN", {"critic_steps": 3}),
        ("WGAN", {"penalty": "clip", "spectral": False}),
    ],
    ids=str,
)
def test_captured_games_equal_eager_ones(name, settings):
    captured, eager = fit(name, True, **settings), fit(name, False, **settings)
    for one, other in zip(captured.network_.parameters(), eager.network_.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)
    assert captured.history_[-1].keys() == eager.history_[-1].keys()
    assert np.isfinite(captured.sample(20, seed=0)).all()


def test_verbs_work_where_the_network_lies():
    model = fit("GAN", True)
    assert model.encode(X[:20]).shape == (20, 4)
    assert np.isfinite(model.likelihood(X[:20]).value).all()
    assert np.isfinite(model.likelihood(X[:5], "ais(20)").value).all()
    holed = X[:10].copy()
    holed[:, 1] = np.nan
    assert np.isfinite(model.impute(holed)).all()
