"""Normalizing flows on a GPU: captured updates against usual ones, densities and samples against the CPU's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import benthic

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.spec("N-03"),
]


@pytest.mark.parametrize("kind", ["nsf", "maf", "iaf", "glow", "nsf_coupling", "naf"])
def test_captured_updates_are_the_usual_ones(kind: str, recwarn: Any) -> None:
    torch.manual_seed(0)
    X = torch.randn(500, 4, device="cuda") @ torch.randn(4, 4, device="cuda")

    def weights(capture: bool) -> torch.Tensor:
        trainer = {"epochs": 6, "batch_size": 64, "capture": capture}
        settings = {"hidden_layer_sizes": (16,), "transforms": 2, "random_state": 0}
        model = benthic.NormalizingFlow(kind, **settings, trainer=trainer).fit(X)
        return torch.cat([p.flatten() for p in model.network_.parameters()])

    torch.testing.assert_close(weights(True), weights(False), rtol=1e-3, atol=1e-4)
    assert not [w for w in recwarn if "not captured" in str(w.message)]


@pytest.mark.parametrize(("kind", "condition"), [("nsf_coupling", None), ("cnf", None), ("cnf", "labels")])
def test_captured_updates_of_pictures(kind: str, condition: str | None, recwarn: Any) -> None:
    torch.manual_seed(0)
    X = torch.randint(0, 17, (300, 1, 8, 8), device="cuda").float()
    y = None if condition is None else torch.arange(300) % 3

    def loss(capture: bool) -> float:
        trainer = {"steps": 20, "batch_size": 50, "capture": capture, "clip": 50.0, "ema": 0.9}
        settings = {"transforms": 1, "channels": 8, "levels": 17, "condition": condition, "random_state": 0}
        return float(benthic.NormalizingFlow(kind, **settings, trainer=trainer).fit(X, y).history_[-1]["loss"])

    assert loss(True) == pytest.approx(loss(False), rel=1e-3)
    assert not [w for w in recwarn if "not captured" in str(w.message)]


@pytest.mark.parametrize("kind", ["nsf", "residual", "cnf"])
def test_the_device_gives_what_the_cpu_gives(kind: str) -> None:
    X = torch.randn(300, 3, dtype=torch.float64)
    settings = {"hidden_layer_sizes": (16,), "transforms": 2, "random_state": 0}
    model = benthic.NormalizingFlow(kind, **settings, trainer={"steps": 20}).fit(X.cuda())
    on_device = model.log_prob(X.cuda()).cpu()
    drawn = model.sample(20, seed=0)
    model.network_.cpu()
    assert torch.allclose(on_device, model.log_prob(X), atol=1e-6)
    np.testing.assert_allclose(drawn.cpu().numpy(), model.sample(20, seed=0).cpu().numpy(), atol=1e-3)


def test_a_continuous_flow_of_pictures_on_the_device_is_that_of_the_cpu() -> None:
    X = torch.randint(0, 17, (100, 1, 8, 8)).float()
    settings = {"channels": 8, "levels": 17, "trainer": {"steps": 20, "batch_size": 50}, "random_state": 0}
    model = benthic.NormalizingFlow("cnf", **settings).fit(X.cuda())
    on_device = model.likelihood(X.cuda(), "elbo(2)").value.cpu()
    model.network_.cpu()
    # each of the solves is right to its tolerance, of which the sum over pixels takes some
    assert torch.allclose(on_device, model.likelihood(X, "elbo(2)").value, atol=0.02)
