"""Published methods are settings of one family."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from benthic.base.errors import InvalidInput
from benthic.generative.diffusion import PUBLISHED, process_of, published, sampler_of

ROWS = np.random.default_rng(0).normal(size=(300, 2)) * [0.5, 2.0] + [5.0, -3.0]


@pytest.mark.spec("N-05", "N-06", "N-07")
@pytest.mark.parametrize("name", PUBLISHED)
def test_each_learns_where_the_rows_lie_and_how_far_they_spread(name):
    steps = min(PUBLISHED[name].settings.get("steps", 40), 40)
    trainer = {"steps": 150, "lr": 0.01, "verbose": False}
    model = published(name, hidden=32, steps=steps, trainer=trainer, random_state=0).fit(ROWS)
    drawn = model.sample(1000, seed=0)
    # within half of the spread: a short training is the largest error, that of 1000 draws is a thirtieth
    assert np.all(np.abs(drawn.mean(0) - [5.0, -3.0]) < 0.5 * np.array([0.5, 2.0]))
    assert np.all(np.abs(drawn.std(0) / [0.5, 2.0] - 1) < 0.4)


def test_the_chain_of_improved_ddpm_is_that_of_the_paper():
    settings = published("improved_ddpm").get_params()
    chain = process_of(settings["process"])
    t = torch.arange(1.0, 4001.0, dtype=torch.float64)
    expected = torch.cos((t / 4000 + 0.008) / 1.008 * math.pi / 2) ** 2 / math.cos(0.008 / 1.008 * math.pi / 2) ** 2
    # betas are cut at 0.999, which changes the very last steps alone
    torch.testing.assert_close(chain.alpha(t)[:-10] ** 2, expected[:-10], rtol=1e-6, atol=0.0)
    assert settings["learned_variance"] is True


def test_evaluations_of_a_step_are_those_of_the_paper():
    assert 2 * published("edm")._setting("steps") - 1 == 35
    noisy = sampler_of(published("edm_stochastic").sampler)
    assert (noisy.churn, noisy.low, noisy.high, noisy.noise_scale) == (40.0, 0.05, 50.0, 1.003)


def test_what_is_changed_is_changed_and_what_is_unknown_is_said():
    assert published("pfgm++", sampler="dpm2m", steps=9).get_params()["steps"] == 9
    with pytest.raises(InvalidInput, match=r"no method is called 'imp_ddpm'; did you mean|no method is called"):
        published("imp_ddpm")
    with pytest.raises(TypeError, match="epochs"):
        published("edm", epochs=3)
