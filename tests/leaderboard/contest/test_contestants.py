"""Who may take part, and who is refused before any fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans as TheirKMeans
from sklearn.linear_model import LogisticRegression as TheirLogistic
from sklearn.mixture import GaussianMixture as TheirMixture

import benthic
from benthic.base.errors import InvalidInput
from benthic.leaderboard.contest.baselines import OneGaussian, ResampledRows, ShuffledColumns
from benthic.leaderboard.contest.contestants import DEFAULTS, abilities, check_contestants, contestants_of
from benthic.leaderboard.contest.fitting import fitted_to, grid_of
from benthic.leaderboard.contest.material import material_of


def test_names_classes_instances_and_dicts_become_contestants() -> None:
    mine = benthic.VAE(latent_dim=3)
    found = contestants_of(["wgan", benthic.GaussianMixture, mine, TheirLogistic(), ResampledRows()])
    assert [one.name for one in found[:3]] == ["WGAN", "GaussianMixture", "VAE"]
    assert [one.origin for one in found] == ["catalogue", "catalogue", "catalogue", "scikit-learn", "given"]
    assert found[2].model is mine
    named = contestants_of({"small": benthic.VAE(2), "large": "VAE"})
    assert [one.name for one in named] == ["small", "large"]
    assert isinstance(named[1].model, benthic.VAE)
    assert [one.name for one in contestants_of("VAE")] == ["VAE"]
    assert [one.name for one in contestants_of(mine)] == ["VAE"]


@pytest.mark.parametrize("task", DEFAULTS)
def test_the_default_lists_can_do_their_task(task: str) -> None:
    found = contestants_of(None, task)
    assert len(found) >= 2
    check_contestants(found, task, "table", labels=task in ("classify", "regress"))


@pytest.mark.parametrize(
    ("models", "text"),
    [
        (["GausianMixture"], "no model is called 'GausianMixture'; did you mean 'GaussianMixture'"),
        (["VAE", "VAE"], "two models are called 'VAE'"),
        ([3], "3 is not a model"),
        ([], "there are no models"),
        ([type("Needy", (), {"__init__": lambda self, a: None, "fit": None})], "Needy needs arguments"),
    ],
)
def test_what_is_not_a_list_of_models_is_refused(models: Any, text: str) -> None:
    with pytest.raises(InvalidInput, match=text):
        contestants_of(models)


def test_models_that_cannot_do_the_task_are_named() -> None:
    with pytest.raises(InvalidInput, match="SVC cannot generate; it can classify"):
        check_contestants(contestants_of(["VAE", "SVC"]), "generate", "table", labels=False)
    with pytest.raises(InvalidInput, match="VAE cannot classify"):
        check_contestants(contestants_of(["VAE"]), "classify", "table", labels=True)
    with pytest.raises(InvalidInput, match="HiddenMarkovModel is a model of sequence data"):
        check_contestants(contestants_of(["HiddenMarkovModel"]), "generate", "table", labels=False)
    with pytest.raises(InvalidInput, match="ConditionalGAN learns from labels and there are none"):
        check_contestants(contestants_of(["ConditionalGAN"]), "generate", "table", labels=False)
    check_contestants(contestants_of(["ConditionalGAN"]), "generate", "table", labels=True)


def test_abilities_of_models_outside_the_catalogue() -> None:
    assert abilities(TheirLogistic()) == {"classify"}
    assert abilities(TheirKMeans()) == {"cluster"}
    assert "generate" in abilities(TheirMixture())
    assert abilities(object()) == set()


def test_baselines_keep_what_they_say_they_keep() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 2)) @ np.array([[1.0, 0.9], [0.0, 0.4]])
    copies = ResampledRows().fit(X).sample(500, seed=1)
    assert {tuple(row) for row in copies} <= {tuple(row) for row in X}
    apart = ShuffledColumns().fit(X).sample(4000, seed=1)
    assert abs(np.corrcoef(apart.T)[0, 1]) < 4 / np.sqrt(4000)
    np.testing.assert_allclose(apart.std(0), X.std(0), rtol=0.06)
    normal = OneGaussian().fit(X)
    np.testing.assert_allclose(np.cov(normal.sample(20000, seed=1).T), np.cov(X.T), atol=0.05)
    from scipy.stats import multivariate_normal

    truth = multivariate_normal(normal.mean_, normal.covariance_).logpdf(X[:20])
    np.testing.assert_allclose(normal.log_prob(X[:20]), truth, rtol=1e-9)
    together = ShuffledColumns([slice(0, 2)]).fit(X).sample(500, seed=1)
    assert {tuple(row) for row in together} <= {tuple(row) for row in X}


def test_flows_learn_the_grid_of_pixels() -> None:
    digits = material_of("digits")
    assert grid_of(digits.rows) == 17
    assert grid_of(np.arange(256.0)[None]) == 256
    assert grid_of(np.array([[-1.0, 0.0]])) is None
    assert grid_of(np.zeros((2, 2))) is None
    (flow,) = contestants_of(["NormalizingFlow"])
    assert fitted_to(flow, digits).model.levels == 17


def test_diffusion_of_small_pictures_is_dense_where_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    digits, table = material_of("digits"), material_of("iris")
    (model,) = contestants_of(["PoissonFlow"])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert fitted_to(model, digits).model.network == "mlp"
    assert fitted_to(model, table).model is model.model
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert fitted_to(model, digits).model is model.model


def test_autoencoders_draw_from_the_law_of_their_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    digits, table = material_of("digits"), material_of("iris")
    (model,) = contestants_of(["VAE"])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    of_rows, of_pictures = fitted_to(model, table).model, fitted_to(model, digits).model
    assert of_rows.prior == of_pictures.prior == "fitted"
    assert of_rows.latent_dim == table.rows.shape[1] < model.model.latent_dim == of_pictures.latent_dim
    assert (of_rows.network, of_pictures.network) == ("auto", "mlp")
