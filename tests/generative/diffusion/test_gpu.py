"""Samplers and likelihoods on CUDA: the same answers as on the CPU, and no waiting in the loop."""

from __future__ import annotations

import pytest
import torch

import benthic
from benthic.generative.diffusion import exact_denoiser, log_likelihood, sample
from benthic.generative.diffusion.solvers import SAMPLERS
from tests.generative.diffusion.cases import ALL, MIXTURE

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
STEPPED = [name for name, sampler in SAMPLERS.items() if name not in ("ode", "poisson_ode", "adaptive_sde")]


@pytest.mark.parametrize("on", ALL)
def test_samples_are_those_of_the_cpu(on):
    denoiser = exact_denoiser(MIXTURE, ALL[on])
    for name, sampler in SAMPLERS.items():
        if sampler.stochastic and not ALL[on].gaussian:
            continue
        options = {"sampler": sampler, "steps": 8}
        start = ALL[on].draw_prior((16, 2), torch.empty(0, dtype=torch.float64), torch.Generator().manual_seed(0))
        there = sample(denoiser, start=start.cuda(), generator=torch.Generator().manual_seed(1), **options)
        here = sample(denoiser, start=start, generator=torch.Generator().manual_seed(1), **options)
        assert there.is_cuda, name
        torch.testing.assert_close(there.cpu(), here, rtol=1e-6, atol=1e-6)


class _Network(torch.nn.Module):
    """A network that keeps its numbers where the points are."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)

    def forward(self, x, level):
        return self.layer(x) + level[:, None]


@pytest.mark.parametrize("on", [name for name in ALL if ALL[name].gaussian])
def test_the_loop_does_not_wait(on):
    """With synchronization forbidden, all moves but the question at the end go through."""
    from benthic.generative.diffusion import Denoiser
    from benthic.generative.diffusion.sampling import drawing, grid_for
    from benthic.generative.diffusion.solvers.base import Watch

    denoiser = Denoiser(ALL[on], _Network().cuda(), "data", sees="time")  # the level of a straight path is infinite
    x = torch.randn(8, 2, device="cuda")
    stream = torch.Generator("cuda").manual_seed(0)
    for name in STEPPED:
        sampler = SAMPLERS[name]
        grid = grid_for(ALL[on], sampler, 6, None, None, True)
        torch.cuda.set_sync_debug_mode("error")
        try:
            with torch.no_grad():
                made = sampler.run(denoiser, grid, x, drawing(stream), Watch(6))
        finally:
            torch.cuda.set_sync_debug_mode("default")
        assert made.shape == x.shape and bool(torch.isfinite(made).all()), name


def test_likelihoods_are_those_of_the_cpu():
    denoiser = exact_denoiser(MIXTURE, "vp")
    x = denoiser.draw(4, seed=0)
    there, here = log_likelihood(denoiser, x.cuda()).value, log_likelihood(denoiser, x).value
    torch.testing.assert_close(there.cpu(), here, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("settings", [{}, {"process": "pfgm"}])
def test_targets_of_the_batch_are_learned_there(settings, recwarn):
    """Stable targets and fields are part of the captured update."""
    X = torch.randn(600, 2, device="cuda")
    trainer = {"steps": 40, "verbose": False}
    model = benthic.PoissonFlow(hidden=16, depth=1, random_state=0, trainer=trainer, **settings).fit(X)
    drawn = model.sample(8, seed=0)
    assert drawn.is_cuda and bool(torch.isfinite(drawn).all())
    assert bool(torch.isfinite(model.log_prob(X[:4])).all())
    assert not [w for w in recwarn if "not captured" in str(w.message)]
