"""Variational diffusion: the ends of the schedule follow the bound."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import benthic
from benthic.generative.diffusion import continuous_bound
from benthic.generative.diffusion.variational import LearnedSchedule, ScheduledVP

pytestmark = pytest.mark.spec("N-05")
SETTINGS = {"hidden": 16, "depth": 1, "random_state": 0}


def ready(X, high, low):
    """A model about to train, its network silent (the exact denoiser of standard normal data) and its ends put."""
    model = benthic.VariationalDiffusion(**SETTINGS, trainer={"steps": 1, "lr": 1e-12, "verbose": False}).fit(X)
    model._schedule = LearnedSchedule().double()
    with torch.no_grad():
        model._schedule.limits.copy_(torch.tensor([high, low]))
    objective = model._objective()
    model._axis = type(objective)(
        ScheduledVP(log_snrs=(40.0, -40.0)), "noise", "variational", objective.times, sees="level", matching="denoising"
    )
    return model


def silent(x, *_):
    return torch.zeros_like(x)


def test_the_ends_add_what_the_bound_says():
    """The loss is the bound of the same denoiser, in nats of an entry, up to the constant of the normal law."""
    torch.manual_seed(0)
    X = torch.randn(4000, 2, dtype=torch.float64) * 0.3
    model = ready(X.numpy()[:50], 6.0, -5.0)
    process = ScheduledVP(log_snrs=(6.0, -5.0))
    denoiser = type(model._axis)(process, "noise", "variational", sees="level").denoiser(silent)
    bound = -continuous_bound(denoiser, X, samples=256, seed=0).value.mean() / 2
    losses = [model._losses(model._axis, silent, X, None) - regret(model, X) for _ in range(256)]
    found = torch.stack(losses).mean() + 0.5 * math.log(2 * math.pi)
    assert float(found.detach()) == pytest.approx(
        float(bound), abs=0.02
    )  # means of a million terms that vary by about 1.5


def regret(model, X):
    """What the loss has beside the bound: the second moment over its scale, here that of uniform shares."""
    high, low = model._schedule.ends()
    place = (torch.arange(len(X), dtype=X.dtype) + 0.5) / len(X)
    level = (high + (low - high) * place).detach()
    terms = model._errors(silent, X, level, None) * (high - low).detach()
    return (terms.square() / terms.mean().square()).mean()


@pytest.mark.parametrize("narrow", [1.0, 0.01])
def test_the_ends_have_the_slope_of_the_bound(narrow):
    """For normal data the silent denoiser is exact and the bound tight: no slope. For narrow data more is gained.

    With data of standard deviation s and that denoiser the error of the noise is known at each end, and so is the
    slope of the bound by the upper end (here by a difference of its closed form).
    """
    torch.manual_seed(0)
    X = narrow * torch.randn(200_000, 1, dtype=torch.float64)
    model = ready(np.random.default_rng(0).normal(size=(50, 1)), 5.0, -6.0)
    slopes = []
    for _ in range(10):
        model._schedule.zero_grad()
        model._at_ends(silent, X, None).backward()
        slopes.append(model._schedule.limits.grad.clone())
    found, error = torch.stack(slopes).mean(0), torch.stack(slopes).std(0) / math.sqrt(10)
    variance, h = float(X[: len(X) // 16].square().mean()), 1e-4

    def miss(level):  # half the mean square of the error of the noise, for the linear denoiser
        kept, noise = 1 / (1 + math.exp(-level)), 1 / (1 + math.exp(level))
        return 0.5 * (kept * noise * variance + kept**2)

    high = miss(5.0) - 0.5 + (miss(5.0 + h) - miss(5.0 - h)) / (2 * h)
    prior = [0.5 * (k * (variance - 1) - math.log(1 - k)) for k in (1 / (1 + math.exp(6.0 + s * h)) for s in (-1, 1))]
    low = -miss(-6.0) + (prior[0] - prior[1]) / (2 * h)
    assert float(found[0]) == pytest.approx(high, abs=5 * float(error[0]) + 1e-6)
    assert float(found[1]) == pytest.approx(low, abs=5 * float(error[1]) + 1e-6)
    if narrow == 1.0:
        assert abs(high) < 0.01 and abs(low) < 0.001


def test_narrow_data_raise_the_upper_end():
    """Clusters of a hundredth of the spread are seen only with little noise: the schedule reaches down to it."""
    rng = np.random.default_rng(0)
    X = rng.choice([-1.0, 1.0], size=(1000, 1)) + 1e-3 * rng.normal(size=(1000, 1))
    trainer = {"steps": 400, "lr": 0.01, "batch_size": 128, "verbose": False}
    model = benthic.VariationalDiffusion(**SETTINGS, trainer=trainer).fit(X)
    assert model.process_.log_snrs[0] > 10.2
    smooth = benthic.VariationalDiffusion(**SETTINGS, trainer=trainer).fit(rng.normal(size=(1000, 1)))
    assert model.process_.log_snrs[0] > smooth.process_.log_snrs[0]
