"""Adversarial models on Gaussians in the plane, judged mode by mode."""

from __future__ import annotations

import numpy as np
import pytest

import benthic
from benchmarks.gan import TOYS, fitted, judged
from benthic.data.toys import rings_of_gaussians

pytestmark = pytest.mark.spec("N-02")


@pytest.mark.parametrize("title", sorted(TOYS))
def test_the_judge_finds_nothing_wrong_with_the_truth(title):
    """Of real rows 98.9 % lie within 3 sigma in the plane: 1 - exp(-9 / 2)."""
    toy = TOYS[title]()
    found = judged(toy.sample(10_000, seed=5), toy)
    assert found["covered"] == 1.0 and found["weights"] < 0.005
    assert found["near"] == pytest.approx(1 - np.exp(-4.5), abs=4 * np.sqrt(0.011 / 10_000))
    assert found["trace"] == pytest.approx(1.0, abs=0.03)


def test_the_judge_sees_missing_modes_bridges_and_narrow_modes():
    toy = rings_of_gaussians()
    rows, part = toy.draw(10_000, seed=5)
    half = judged(rows[part < 4], toy)
    assert half["covered"] == 0.5 and half["weights"] == pytest.approx(np.log(2), abs=0.01)
    narrow = judged(toy.centers[part] + 0.5 * (rows - toy.centers[part]), toy)
    assert narrow["trace"] == pytest.approx(0.25, abs=0.01)
    bridge = np.linspace(0, 1, 10_000)[:, None]
    between = judged(bridge * toy.centers[0] + (1 - bridge) * toy.centers[1], toy)
    assert between["near"] < 0.9


def test_a_short_run_already_reaches_all_modes():
    toy = rings_of_gaussians()
    trainer = {"steps": 1200, "batch_size": 128, "lr": 3e-3, "verbose": False}
    model = benthic.GAN(
        8, latent_components=64, hidden_layer_sizes=(32, 32), generator_lr=2e-3, trainer=trainer, random_state=0
    ).fit(toy.sample(4000, seed=0))
    found = judged(model.sample(4000, seed=0), toy)
    assert found["covered"] > 0.95 and found["near"] > 0.5 and found["weights"] < 0.3


@pytest.mark.slow
def test_all_modes_of_a_ring_are_reached_with_their_weights_and_widths():
    found, _ = fitted("non-saturating + R1", rings_of_gaussians(), 0)
    assert found["covered"] == 1.0
    assert found["near"] >= 0.97
    assert abs(found["trace"] - 1) <= 0.2
    assert found["weights"] <= 0.05
