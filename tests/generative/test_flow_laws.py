"""Flows as priors and posteriors of variational autoencoders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import benthic
from benthic.base.errors import InvalidInput
from benthic.nets.flow_laws import FlowPrior, Warped, warp
from benthic.nets.posterior import Diagonal

pytestmark = pytest.mark.spec("N-03")


def ring(rows: int = 400) -> np.ndarray:
    """Points of a curve in space, with noise."""
    rng = np.random.default_rng(0)
    t = rng.random(rows) * 2 * np.pi
    return np.stack([np.cos(t), np.sin(t), np.cos(2 * t)], 1) + 0.05 * rng.normal(size=(rows, 3))


@torch.no_grad()
def test_a_flow_prior_is_a_density_and_is_drawn_from() -> None:
    torch.manual_seed(0)
    prior = FlowPrior(2, transforms=2, hidden=(16,)).double()
    for parameter in prior.parameters():
        parameter.add_(0.05 * torch.randn_like(parameter))
    side = torch.linspace(-8, 8, 501).double()
    grid = torch.cartesian_prod(side, side)
    mass = prior.log_prob(grid, None).exp().sum() * (side[1] - side[0]) ** 2
    assert float(mass) == pytest.approx(1.0, abs=1e-3)
    drawn = prior.draw(5000, grid, torch.Generator().manual_seed(0), None)
    density = prior.log_prob(grid, None).exp()[:, None]
    mean = (grid * density).sum(0) * (side[1] - side[0]) ** 2
    assert (drawn.mean(0) - mean).abs().max() < 4 * float(drawn.std(0).max()) / 5000**0.5
    assert prior.log_prob(grid[:6].reshape(2, 3, 2), None).shape == (2, 3)


@torch.no_grad()
def test_a_warped_posterior_agrees_with_itself_both_ways() -> None:
    torch.manual_seed(0)
    flow = warp(3, hidden=(16,)).double()
    for parameter in flow.parameters():
        parameter.add_(0.2 * torch.randn_like(parameter))
    law = Warped(Diagonal(torch.randn(5, 3).double(), torch.randn(5, 3).double()), flow)
    noise = torch.randn(4, 5, 3).double()
    z = law.place(noise)
    assert torch.allclose(law.log_prob(z), law.log_prob_of_noise(noise), atol=1e-8)
    assert law.mean.shape == (5, 3)


@pytest.mark.parametrize("laws", [{"prior": "flow"}, {"posterior": "flow"}, {"prior": "flow", "posterior": "flow"}])
def test_a_vae_with_flows(laws: dict[str, str], tmp_path: Path) -> None:
    X = ring()
    settings = {"hidden_layer_sizes": (16,), "trainer": {"steps": 60, "lr": 0.01}, "random_state": 0}
    model = benthic.VAE(2, **settings, **laws).fit(X)
    assert model.likelihood(X, "elbo").mean() < model.likelihood(X, "importance(64)").mean()
    assert model.sample(5, seed=0).shape == (5, 3)
    gaps = X[:3].copy()
    gaps[0, 1] = np.nan
    assert np.isfinite(model.impute(gaps)).all()
    loaded = benthic.load(model.save(tmp_path / "vae.safetensors"))
    assert np.array_equal(loaded.encode(X), model.encode(X))


def test_a_flow_posterior_does_not_go_with_pseudo_inputs() -> None:
    with pytest.raises(InvalidInput, match="use prior='flow'"):
        benthic.VAE(2, posterior="flow", prior="vamp", trainer={"steps": 1}).fit(ring())
