"""Memorization, authenticity and feature spaces."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from torch import nn

from benthic import metrics
from benthic.base.errors import InvalidInput
from benthic.linalg import correlate

pytestmark = pytest.mark.spec("I-03")
RNG = np.random.default_rng(0)
TRAIN, HELD, FRESH = (RNG.normal(size=(n, 3)) for n in (120, 120, 90))


# ------------------------------------------------------------------------------------------------------- copies


def test_ratio_and_share_are_their_definitions():
    found = metrics.memorization(TRAIN, HELD[:80], FRESH)
    equal = metrics.memorization(TRAIN, HELD, FRESH)
    to_train, to_held = cdist(FRESH, TRAIN).min(1), cdist(FRESH, HELD).min(1)
    assert equal.ratio.value == pytest.approx(to_train.mean() / to_held.mean())
    assert equal.share.value == pytest.approx((to_train < to_held).mean())
    assert (equal.expected, found.expected) == (0.5, 0.6)
    assert found.share.value == pytest.approx((to_train < cdist(FRESH, HELD[:80]).min(1)).mean())


def test_a_memorizing_sampler_is_exposed():
    for made in (TRAIN[RNG.integers(120, size=90)], TRAIN[:90] + 0.01 * RNG.normal(size=(90, 3))):
        found = metrics.memorization(TRAIN, HELD, made)
        assert found.ratio.value < 0.1
        assert found.p_value == 0.001
        assert metrics.authenticity(TRAIN, made).value < 0.2


def test_fresh_rows_are_not_accused():
    found = metrics.memorization(TRAIN, HELD, FRESH)
    assert found.p_value > 0.05
    assert abs(found.ratio.value - 1) < 3 * found.ratio.stderr


def test_a_collapsed_model_near_held_out_or_training_rows_is_no_evidence():
    """All generated rows at one place have one nearest row: a coin toss, whatever their number."""
    for seed in range(4):
        place = np.random.default_rng(seed).normal(size=(1, 3))
        assert metrics.memorization(TRAIN, HELD, np.repeat(place, 200, 0)).p_value > 0.4


def test_the_p_value_is_uniform_if_nothing_is_memorized():
    low = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(60, 2))
        low += metrics.memorization(X[:30], X[30:], 0.2 * rng.normal(size=(40, 2)), permutations=99).p_value <= 0.1
    assert low <= 33  # 20 are expected, with a standard deviation of 4.2


def test_rows_in_both_sets_share_alike():
    found = metrics.memorization(TRAIN, TRAIN, FRESH)
    assert found.share.value == pytest.approx(0.5)
    assert found.ratio.value == 1
    both = metrics.memorization(TRAIN, TRAIN, TRAIN)
    assert (both.ratio.value, both.share.value) == (1.0, pytest.approx(0.5))


def test_authenticity_is_its_definition():
    between = cdist(TRAIN, TRAIN)
    np.fill_diagonal(between, np.inf)
    across = cdist(FRESH, TRAIN)
    expected = (across.min(1) > between.min(1)[across.argmin(1)]).mean()
    found = metrics.authenticity(TRAIN, FRESH)
    assert found.value == pytest.approx(expected)
    assert 0 < found.stderr < 0.2
    assert math.isnan(metrics.authenticity(TRAIN[:5], FRESH).stderr)


def test_bad_samples_of_the_three():
    with pytest.raises(InvalidInput, match=r"^memorization: held_out has 2 columns and generated has 3"):
        metrics.memorization(TRAIN, HELD[:, :2], FRESH)
    with pytest.raises(InvalidInput, match=r"^memorization: held_out holds NaN"):
        metrics.memorization(TRAIN, np.full((5, 3), np.nan), FRESH)
    with pytest.raises(InvalidInput, match="train has 1 rows"):
        metrics.memorization(TRAIN[:1], HELD, FRESH)
    with pytest.raises(InvalidInput, match="permutations is 0"):
        metrics.memorization(TRAIN, HELD, FRESH, permutations=0)
    with pytest.raises(InvalidInput, match="train has 2 rows"):
        metrics.authenticity(TRAIN[:2], FRESH)


# ----------------------------------------------------------------------------------------------------- features


IMAGES = RNG.random((40, 2, 6, 5)).astype(np.float32)


def test_projection_is_a_matrix_product():
    matrix, mean = RNG.normal(size=(60, 4)), RNG.normal(size=60)
    found = metrics.Projection(matrix, mean)(IMAGES)
    np.testing.assert_allclose(found, (IMAGES.reshape(40, 60).astype(float) - mean) @ matrix)
    with pytest.raises(InvalidInput, match="60 columns and the matrix has shape"):
        metrics.Projection(matrix[:5])(IMAGES)


def test_random_filters_are_convolutions_decided_by_the_seed():
    features = metrics.RandomConvolution(widths=(3,), batch_size=7)
    found = features(IMAGES)
    assert torch.equal(found, metrics.RandomConvolution((2, 6, 5), (3,))(IMAGES.reshape(40, 60)))
    assert not torch.equal(found, metrics.RandomConvolution(widths=(3,), seed=1)(IMAGES))
    weight = features._filters(2, torch.device("cpu"))[0].double()
    padded = nn.functional.pad(torch.tensor(IMAGES[0]).double(), (1, 1, 1, 1))
    maps = torch.stack([sum(correlate(padded[c], weight[f, c]) for c in range(2)) for f in range(3)])
    seen = maps[:, ::2, ::2].clamp_min(0).flatten(1)  # stride 2
    expected = torch.cat([seen.mean(1), seen.std(1, correction=0)])
    np.testing.assert_allclose(found[0], expected, atol=1e-5)


def test_random_filters_refuse_other_shapes():
    for features, sample in [
        (metrics.RandomConvolution(), IMAGES.reshape(40, 60)),
        (metrics.RandomConvolution((1, 28, 28)), IMAGES),
        (metrics.RandomConvolution(), IMAGES[:0]),
        (metrics.RandomConvolution(), IMAGES[:, :, :1]),
    ]:
        with pytest.raises(InvalidInput, match=r"^RandomConvolution: "):
            features(sample)


def test_a_network_runs_in_evaluation_mode_and_keeps_its_own():
    network = nn.Sequential(nn.Flatten(), nn.Linear(60, 8), nn.Dropout(0.5), nn.BatchNorm1d(8))
    network[1].eval()
    features = metrics.ModuleFeatures(network, batch_size=9)
    assert torch.equal(features(IMAGES), features(IMAGES))
    assert [part.training for part in network] == [True, False, True, True]
    assert not features(IMAGES).requires_grad
    flat = metrics.ModuleFeatures(network, shape=(2, 6, 5))(IMAGES.reshape(40, 60))
    np.testing.assert_allclose(flat, features(IMAGES), rtol=1e-5)


def test_a_network_of_another_input_size_is_said():
    features = metrics.ModuleFeatures(nn.Linear(7, 3))
    with pytest.raises(InvalidInput, match=r"^ModuleFeatures: Linear does not take a batch of shape \(40, 2, 6, 5\)"):
        metrics.frechet_distance(IMAGES, IMAGES, features=features)
    with pytest.raises(InvalidInput, match="does not fit shape"):
        metrics.ModuleFeatures(nn.Linear(7, 3), shape=(7,))(IMAGES)
    with pytest.raises(InvalidInput, match=r"the function returned \(1, 2, 6, 5\)"):
        metrics.ModuleFeatures(lambda batch: batch[:1])(IMAGES)


def test_metrics_see_through_features():
    features = metrics.RandomConvolution()
    noisy = IMAGES + 0.5 * RNG.normal(size=IMAGES.shape).astype(np.float32)
    with pytest.warns(UserWarning, match="singular"):
        far = metrics.frechet_distance(IMAGES, noisy, features=features)
    with pytest.warns(UserWarning, match="singular"):
        near = metrics.frechet_distance(IMAGES[:20], IMAGES[20:], features=features)
    assert far.value > 2 * near.value
