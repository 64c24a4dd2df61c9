"""Autoencoders on CUDA: updates replayed as graphs learn what eager ones learn."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import benthic

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
RNG = np.random.default_rng(0)
ROWS = (RNG.normal(size=(512, 3)) @ RNG.normal(size=(3, 8))).astype(np.float32)
KINDS = {
    "plain": {},
    "tied": {"tied": True},
    "l1": {"sparsity": "l1"},
    "kl": {"sparsity": "kl"},
    "gaussian": {"corruption": "gaussian"},
    "masking": {"corruption": "masking"},
    "salt_and_pepper": {"corruption": "salt_and_pepper"},
    "contraction": {"contraction": 0.1},
}


def losses(model):
    return [entry["loss"] for entry in model.fit(torch.tensor(ROWS, device="cuda")).history_]


@pytest.mark.parametrize("kind", KINDS)
def test_captured_autoencoders_learn_like_eager_ones(kind):
    captured, eager = (
        losses(
            benthic.Autoencoder(
                2, **KINDS[kind], trainer={"epochs": 5, "batch_size": 64, "capture": capture}, random_state=0
            )
        )
        for capture in (True, False)
    )
    np.testing.assert_allclose(captured, eager, rtol=1e-3)


@pytest.mark.parametrize("start", ["mixture", "map"])
def test_captured_clusters_learn_like_eager_ones(start):
    captured, eager = (
        losses(
            benthic.VaDE(
                3,
                latent_dim=2,
                pretrain_epochs=5,
                start=start,
                guided_epochs=2,
                trainer={"epochs": 5, "batch_size": 64, "capture": capture},
                random_state=0,
            )
        )
        for capture in (True, False)
    )
    np.testing.assert_allclose(captured, eager, rtol=1e-2)
