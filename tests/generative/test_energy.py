"""The energy-based model: densities against quadrature, chains, resumed runs, pictures, gaps and bad input."""

from __future__ import annotations

import copy
import dataclasses
import math
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import logsumexp
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

import benthic
from benthic.generative.energy.learning import energy_gap
from benthic.training.callbacks import Callback

pytestmark = pytest.mark.spec("N-04")
OBJECTIVES = ("persistent", "contrastive_divergence", "score_matching", "sliced", "denoising", "noise_contrastive")
IMAGES = load_digits().images[:200, None].astype(np.float32) / 16.0
SMALL = {"hidden_layer_sizes": (32, 32), "random_state": 0}
RADIUS, WIDTH = 2.0, 0.3


def ring(n, seed=0):
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, 2 * np.pi, n)
    return RADIUS * np.stack([np.cos(angle), np.sin(angle)], 1) + WIDTH * rng.normal(size=(n, 2))


def ring_log_density(x):
    angle = np.linspace(0, 2 * np.pi, 256, endpoint=False)
    gap = x[:, None] - RADIUS * np.stack([np.cos(angle), np.sin(angle)], 1)
    return logsumexp(-np.square(gap).sum(-1) / (2 * WIDTH**2), axis=1) - math.log(256 * 2 * np.pi * WIDTH**2)


def by_quadrature(model, reach=6.0, cells=200):
    """log Z of a model of two columns."""
    line = np.linspace(-reach, reach, cells)
    grid = np.stack(np.meshgrid(line, line), -1).reshape(-1, 2)
    return logsumexp(-model.energy(grid)) + 2 * math.log(line[1] - line[0])


def trained(objective, X=None, **more):
    steps = {"persistent": 250, "contrastive_divergence": 250}.get(objective, 500)
    trainer = {"steps": steps, "lr": 5e-3, "schedule": "cosine"}
    settings = {**SMALL, "chain_steps": 5, "noise": 0.15 if objective == "denoising" else None, "trainer": trainer}
    return benthic.EnergyModel(objective, **{**settings, **more}).fit(ring(1500) if X is None else X)


@pytest.fixture(scope="module")
def models():
    return {name: trained(name) for name in OBJECTIVES if name != "score_matching"}


@pytest.mark.parametrize("objective", [name for name in OBJECTIVES if name != "score_matching"])
def test_a_ring_is_learned(models, objective):
    model, X = models[objective], ring(2000, seed=1)
    found, truth = -model.energy(X).mean() - by_quadrature(model), ring_log_density(X).mean()
    gauss = -0.5 * math.log(np.linalg.det(2 * np.pi * np.e * np.cov(X.T)))
    assert truth > gauss + 0.5  # there is something to learn
    assert truth - 0.15 < found < truth + 0.02  # held-out rows; the rest is what 1500 rows leave open


@pytest.mark.parametrize("objective", ["noise_contrastive", "sliced"])
def test_annealing_finds_the_normalizer_that_quadrature_finds(models, objective):
    model = models[objective]
    truth, found = by_quadrature(model), model.log_normalizer()
    assert found.stderr < 0.05 and abs(found.value - truth) < 4 * found.stderr
    rows = ring(50)
    likely = model.likelihood(rows)
    assert (likely.kind, likely.bound, likely.measure) == ("ais", "upper", "density")
    np.testing.assert_allclose(likely.value, -model.energy(rows) - model.log_normalizer().value)


def test_noise_contrast_learns_the_normalizer(models):
    model = models["noise_contrastive"]
    assert abs(model.log_normalizer("learned").value - by_quadrature(model)) < 0.1
    found = model.likelihood(ring(10), "learned")
    assert found.kind == "nce" and found.bound == "estimate" and np.isnan(found.stderr).all()


@pytest.mark.parametrize("sampler", ["mala", "hmc", "langevin"])
def test_samples_lie_on_the_ring(models, sampler):
    model = copy.copy(models["sliced"])
    model._settings = dataclasses.replace(model._settings, sampler=sampler, step_size=0.01)
    radius = np.linalg.norm(model.sample(1000, seed=0), axis=1)
    assert abs(np.median(radius) - RADIUS) < 0.15 and (np.abs(radius - RADIUS) < 1.0).mean() > 0.95


def test_chains_can_begin_where_training_left_them(models):
    drawn = models["persistent"].sample(500, seed=0, start="buffer")
    assert abs(np.median(np.linalg.norm(drawn, axis=1)) - RADIUS) < 0.2
    assert abs(models["persistent"].energy_gap_) < 2
    with pytest.raises(ValueError, match=r"EnergyModel.sample: objective='sliced' keeps no buffer; use start='noise'"):
        models["sliced"].sample(3, start="buffer")


def test_the_score_is_the_slope_of_the_energy(models):
    model, X, step = models["sliced"], ring(5), 1e-5
    found = model.grad_log_prob(X)
    for j in range(2):
        move = np.eye(2)[j] * step
        slope = (model.energy(X - move) - model.energy(X + move)) / (2 * step)
        np.testing.assert_allclose(found[:, j], slope, rtol=1e-5, atol=1e-6)


def test_strange_rows_are_found(models):
    rng = np.random.default_rng(3)
    inside, outside = ring(500, 4), rng.multivariate_normal(np.zeros(2), np.cov(ring(2000).T), 500)
    labels = np.repeat([0, 1], 500)
    both = np.concatenate([inside, outside])
    best = roc_auc_score(labels, -ring_log_density(both))
    assert roc_auc_score(labels, models["sliced"].anomaly(both)) > best - 0.02
    np.testing.assert_allclose(np.argsort(models["sliced"].energy(both)), np.argsort(models["sliced"].anomaly(both)))


def test_gaps_are_filled_by_what_is_left(models):
    rng = np.random.default_rng(0)
    X = rng.multivariate_normal(np.zeros(2), [[1.0, 0.9], [0.9, 1.0]], 800)
    model = trained("sliced", X, trainer={"steps": 150})
    holed = np.stack([X[:100, 0], np.full(100, np.nan)], 1)
    filled = model.impute(holed)
    assert np.square(filled[:, 1] - 0.9 * X[:100, 0]).mean() < 0.05  # the conditional mean, up to the chains' error
    drawn = models["sliced"].sample(200, given=np.array([[0.0, np.nan]]), seed=0)
    assert (drawn[:, 0] == 0).all() and (drawn[:, 1] > 0).any() and (drawn[:, 1] < 0).any()


class StopAt(Callback):
    def on_step(self, moment, info):
        if moment.step == 25:
            raise RuntimeError("crash")


@pytest.mark.parametrize(("objective", "sampler"), [("persistent", "mala"), ("contrastive_divergence", "hmc")])
def test_a_resumed_run_goes_on_with_its_buffer_to_the_bit(objective, sampler, tmp_path):
    def fit(folder, **more):
        trainer = {"steps": 40, "batch_size": 32, "checkpoint": {"folder": str(folder), "every_steps": 7}, **more}
        settings = {"hidden_layer_sizes": (8,), "buffer_size": 64, "chain_steps": 2, "random_state": 0}
        return benthic.EnergyModel(objective, sampler=sampler, trainer=trainer, **settings).fit(ring(150))

    whole = fit(tmp_path / "whole")
    with pytest.raises(RuntimeError, match="crash"):
        fit(tmp_path / "cut", callbacks=(StopAt(),))
    resumed = fit(tmp_path / "cut", resume=True)
    for key, value in whole.network_.state_dict().items():
        assert torch.equal(value, resumed.network_.state_dict()[key]), key
    assert whole.history_ == resumed.history_
    if objective == "persistent":
        np.testing.assert_array_equal(whole.buffer_, resumed.buffer_)


@pytest.mark.parametrize("objective", ["auto", "persistent"])
def test_pictures(objective, tmp_path):
    model = benthic.EnergyModel(
        objective, channels=(4,), chain_steps=3, sampling_steps=20, trainer={"steps": 6}, random_state=0
    ).fit(IMAGES)
    assert model.sample(3, seed=0).shape == (3, 1, 8, 8) and model.energy(IMAGES).shape == (200,)
    assert model.grad_log_prob(IMAGES[:2]).shape == (2, 1, 8, 8)
    np.testing.assert_allclose(model.anomaly(IMAGES), model.energy(IMAGES))
    with pytest.raises(ValueError, match=r"EnergyModel.likelihood: an energy has no known normalizer; ask for"):
        model.likelihood(IMAGES)
    loaded = benthic.load(model.save(tmp_path / "model.safetensors"))
    np.testing.assert_array_equal(loaded.energy(IMAGES), model.energy(IMAGES))
    holed = IMAGES[:2].copy()
    holed[:, :, 4:] = np.nan
    filled = model.impute(holed)
    np.testing.assert_allclose(filled[:, :, :4], IMAGES[:2, :, :4])
    assert np.isfinite(filled).all() and model.plot().axes


@pytest.mark.parametrize("noise", [(5.0, 0.2), 0.5])
def test_denoising_pictures_learn_more_than_noise(noise, tmp_path):
    settings = {"channels": (8,), "noise": noise}
    trainer = {"steps": 150, "lr": 3e-3, "batch_size": 64}
    model = benthic.EnergyModel(**settings, trainer=trainer, random_state=0).fit(IMAGES)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(benthic.load(tmp_path / "model").energy(IMAGES[:9]), model.energy(IMAGES[:9]))
    assert model.transform(IMAGES[:3]).shape == (3, 8 * 4 * 4)
    # zero is the loss of a perfect guess of the noise and half a number a pixel that of none, or of knowing only the
    # variance of pixels where the level is told
    assert model.history_[-1]["loss"] < (0.5 if isinstance(noise, float) else 0.75) * 0.5 * 64
    shuffled = np.random.default_rng(0).permuted(IMAGES.reshape(200, 64), axis=1).reshape(IMAGES.shape)
    labels = np.repeat([0, 1], 200)
    assert roc_auc_score(labels, model.anomaly(np.concatenate([IMAGES, shuffled]))) > 0.95


def test_a_module_of_the_user_and_its_shape():
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(2, 8), torch.nn.Softplus(), torch.nn.Linear(8, 1))
    model = benthic.EnergyModel("sliced", network=module, trainer={"steps": 20}, random_state=0).fit(ring(100))
    assert model.energy(ring(5)).shape == (5,)
    with pytest.raises(ValueError, match=r"EnergyModel.transform: a module of your own"):
        model.transform(ring(5))
    for wrong, words in ((torch.nn.Linear(2, 2), "one number each"), (torch.nn.Linear(3, 1), "does not take")):
        with pytest.raises(ValueError, match=f"EnergyModel.fit: the network .*{words}"):
            benthic.EnergyModel(network=wrong).fit(ring(20))


def test_frames_come_back_as_frames():
    frame = pd.DataFrame({"a": ring(150)[:, 0], "kind": pd.Categorical(["x", "y", "z"] * 50)})
    model = benthic.EnergyModel("sliced", hidden_layer_sizes=(8,), trainer={"steps": 20}, random_state=0).fit(frame)
    drawn = model.sample(20, seed=0)
    assert list(drawn.columns) == ["a", "kind"] and set(drawn["kind"]) <= {"x", "y", "z"}


def test_a_gap_between_the_energies_of_chains_and_rows_is_said():
    def energy(x):
        return x[:, 0]

    rows = torch.randn(500, 1, generator=torch.Generator().manual_seed(0))
    assert abs(energy_gap(energy, rows, rows)) < 1e-6
    with pytest.warns(UserWarning, match=r"standard deviations above those of the data.*raise chain_steps"):
        energy_gap(energy, rows, rows + 10)
    with pytest.warns(UserWarning, match=r"below those of the data: the model is diverging; lower"):
        energy_gap(energy, rows, rows - 10)
    with pytest.warns(UserWarning, match=r"not finite; lower step_size"):
        energy_gap(energy, rows, rows / 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        energy_gap(energy, rows[:1], rows + 1)  # one row has no spread of its own


def test_steps_of_a_call_are_those_of_the_settings():
    pictures = np.random.default_rng(0).normal(size=(40, 1, 8, 8)).astype(np.float32)
    settings = {"channels": (4,), "noise_levels": 5, "trainer": {"steps": 3}, "random_state": 0}
    short = benthic.EnergyModel(sampling_steps=10, **settings).fit(pictures)
    long = benthic.EnergyModel(sampling_steps=30, **settings).fit(pictures)
    np.testing.assert_array_equal(short.sample(3, seed=0, steps=30), long.sample(3, seed=0))
    assert not np.array_equal(short.sample(3, seed=0), long.sample(3, seed=0))
    gaps = pictures[:2].copy()
    gaps[:, :, :4] = np.nan
    np.testing.assert_array_equal(short.sample(2, given=gaps, seed=0, steps=30), long.sample(2, given=gaps, seed=0))
    for wrong in (0, 2.5, True):
        with pytest.raises(ValueError, match=r"EnergyModel.sample: steps is .*at least 1"):
            short.sample(2, steps=wrong)


def test_chains_that_stay_where_they_begin_are_said():
    settings = {**SMALL, "sampler": "langevin", "chain_steps": 2, "trainer": {"steps": 3}}
    with pytest.warns(UserWarning, match=r"of the spread of the data away from the rows.*raise step_size"):
        benthic.EnergyModel("contrastive_divergence", step_size=1e-8, **settings).fit(ring(200))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        benthic.EnergyModel("contrastive_divergence", step_size=0.05, **settings).fit(ring(200))


def test_a_run_that_diverges_is_told():
    settings = {"sampler": "langevin", "step_size": 1.5, "chain_steps": 2, "temperature": 0.01}
    model = benthic.EnergyModel("contrastive_divergence", trainer={"steps": 60, "lr": 0.03}, **SMALL, **settings)
    with pytest.warns(UserWarning, match="the chains of training"):
        model.fit(ring(300))


def test_chains_that_run_away_are_named_as_a_cause():
    settings = {"sampler": "langevin", "step_size": 50.0, "trainer": {"steps": 50}}
    with pytest.raises(RuntimeError, match="the chains ran away: lower step_size, 50 here, or use sampler='mala'"):
        benthic.EnergyModel("persistent", **SMALL, **settings).fit(ring(100))


def test_a_column_that_never_changes_harms_no_other():
    X = np.c_[np.random.default_rng(0).normal(size=(400, 1)), np.full(400, 5.0)]
    model = benthic.EnergyModel("persistent", trainer={"steps": 100, "lr": 5e-3}, **SMALL)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = model.fit(X).sample(400, seed=0)
    assert np.abs(drawn[:, 1] - 5).max() < 1e-3
    assert drawn[:, 0].std() == pytest.approx(1, abs=0.2)
    assert model.energy_gap_ == pytest.approx(0, abs=0.3)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"objective": "persistant"}, "did you mean 'persistent'"),
        ({"reference": "gauss"}, "reference 'gauss' is unknown"),
        ({"sampler": "gibbs"}, "sampler 'gibbs' is unknown"),
        ({"activation": "reluu"}, "did you mean 'relu'"),
        ({"objective": "sliced", "activation": "relu"}, "second derivatives"),
        ({"network": "unet"}, "network is 'unet'"),
        ({"network": "conv"}, r"network='conv' needs pictures \(n, c, h, w\)"),
        ({"noise_levels": 0}, "noise_levels is 0"),
        ({"hidden_layer_sizes": (0,)}, "whole numbers of at least 1"),
        ({"chain_steps": 0}, "chain_steps is 0"),
        ({"step_size": -1.0}, "step_size is -1.0"),
        ({"temperature": 0.0}, "temperature is 0.0"),
        ({"restart": 2.0}, "restart is 2.0"),
        ({"restart": "often"}, "restart is 'often'"),
        ({"step_size": "small"}, "step_size is 'small'"),
        ({"noise": -0.1}, "noise is -0.1"),
        ({"objective": "denoising", "noise": (0.1, 1.0)}, "largest, smallest"),
        ({"objective": "sliced", "noise": (1.0, 0.1)}, "two levels"),
        ({"objective": "persistent", "trainer": {"early_stopping": True}}, "early stopping needs a loss"),
    ],
)
def test_bad_settings_get_one_sentence(settings, words):
    with pytest.raises(ValueError, match=f"EnergyModel.fit: .*{words}"):
        benthic.EnergyModel(**settings).fit(ring(30))


def test_bad_calls_get_one_sentence(models):
    for method in ("exact", "ais(1)", "learned"):
        words = "needs a normalizer that was learned" if method == "learned" else "is unknown"
        with pytest.raises(ValueError, match=rf"EnergyModel.likelihood: method '.*' {words}.*'ais\(k\)'"):
            models["sliced"].likelihood(ring(3), method)
    with pytest.raises(ValueError, match=r"EnergyModel.sample: start is 'data'"):
        models["sliced"].sample(3, start="data")
    with pytest.raises(ValueError, match=r"EnergyModel.fit: temperature is 0.5, but with several levels of noise"):
        benthic.EnergyModel(temperature=0.5).fit(IMAGES)
    for channels in ((0,), ("many",), 2.5):
        with pytest.raises(ValueError, match=r"EnergyModel.fit: channels is .*; give one or more whole numbers"):
            benthic.EnergyModel(channels=channels).fit(IMAGES)
    with pytest.raises(ValueError, match="halve the picture"):
        benthic.EnergyModel(channels=(4, 4, 4, 4, 4)).fit(IMAGES)


def test_an_exact_trace_learns_the_ring_too():
    model = trained("score_matching", trainer={"steps": 250, "lr": 5e-3, "schedule": "cosine"})
    X = ring(2000, seed=1)
    found = -model.energy(X).mean() - by_quadrature(model)
    assert ring_log_density(X).mean() - 0.15 < found
