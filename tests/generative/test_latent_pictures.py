"""Walks, paths and maps through codes: the codes they visit, and what the pictures show."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

import benthic
from benthic.base.errors import InvalidInput
from benthic.generative import latent_pictures as pictures

pytestmark = pytest.mark.spec("N-01")
IMAGES = load_digits().images[:120, None] / 16.0
FRAME = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 3)), columns=["a", "b", "c"])


class Linear:
    """A model whose codes are known: the first two of four numbers, and back with zeros."""

    _n_features_out = 2

    def encode(self, X):
        return np.asarray(X)[:, :2]

    def decode(self, Z):
        return np.concatenate([Z, np.zeros_like(Z)], 1)

    def reconstruct(self, X):
        return self.decode(self.encode(X))


@pytest.fixture(scope="module")
def vae():
    trainer = {"steps": 30}
    return benthic.VAE(3, channels=(4,), trainer=trainer, random_state=0).fit(IMAGES)


def pixels(figure):
    """What each panel of a figure shows as an image."""
    return [np.asarray(axes.images[0].get_array()) for axes in figure.axes if axes.images]


def test_the_spherical_way_keeps_lengths_and_angles():
    rng = np.random.default_rng(0)
    a = rng.normal(size=5)
    b = rng.normal(size=5)
    b *= np.linalg.norm(a) / np.linalg.norm(b)
    way = pictures.interpolate(a, b, 7, "spherical")
    np.testing.assert_allclose(np.linalg.norm(way, axis=1), np.linalg.norm(a))
    steps = np.sum(way[1:] * way[:-1], 1) / np.linalg.norm(a) ** 2
    np.testing.assert_allclose(np.arccos(steps), np.arccos(steps[0]))  # equal angles
    np.testing.assert_allclose(way[[0, -1]], [a, b])


def test_the_linear_way_is_straight_and_equal_ends_stay():
    way = pictures.interpolate([0.0, 2.0], [4.0, 0.0], 5)
    np.testing.assert_allclose(np.diff(way, axis=0), np.tile([[1.0, -0.5]], (4, 1)))
    for ends in (([1.0, 1.0], [2.0, 2.0]), ([0.0, 0.0], [1.0, 0.0]), ([1.0, 0.0], [-1.0, 0.0])):
        np.testing.assert_allclose(pictures.interpolate(*ends, 3, "spherical")[1], np.mean(ends, 0))


def test_a_traversal_moves_one_coordinate():
    rows = np.array([[1.0, 5.0, 0, 0], [3.0, 9.0, 0, 0]])
    figure = pictures.traversals(Linear(), rows, units=[1], steps=3, reach=2.0, shape=(2, 2))
    shown = pixels(figure)
    assert len(shown) == 3
    for picture, second in zip(shown, (7 - 2 * 2, 7, 7 + 2 * 2), strict=True):
        np.testing.assert_allclose(picture, [[2.0, second], [0, 0]])  # center 2 and 7, spread 2 of the second


def test_the_grid_goes_right_and_up():
    figure = pictures.latent_grid(Linear(), cells=3, reach=1.0, shape=(2, 2))
    (whole,) = pixels(figure)
    assert whole.shape == (6, 6)
    np.testing.assert_allclose(whole[0::2, 0::2], np.tile([-1.0, 0, 1], (3, 1)))  # first coordinate, left to right
    np.testing.assert_allclose(whole[0::2, 1::2].T, np.tile([1.0, 0, -1], (3, 1)))  # second, from the top down


def test_interpolations_start_and_end_at_the_reconstructions():
    rows = np.array([[1.0, 0.5, 0, 0], [0.0, 2.0, 0, 0]])
    shown = pixels(pictures.interpolations(Linear(), rows, rows[::-1], steps=4, shape=(2, 2)))
    assert len(shown) == 8
    np.testing.assert_allclose(shown[0].ravel(), rows[0])
    np.testing.assert_allclose(shown[3].ravel(), rows[1])
    with pytest.raises(InvalidInput, match="1 starts and 2 ends"):
        pictures.interpolations(Linear(), rows[:1], rows)


def test_reconstructions_stand_below_what_was_given(vae):
    shown = pixels(pictures.reconstructions(vae, IMAGES, count=4))
    np.testing.assert_allclose(np.stack(shown), np.concatenate([IMAGES[:4], vae.reconstruct(IMAGES[:4])])[:, 0])


def test_the_map_shows_every_code(vae):
    figure = pictures.latent_map(vae, IMAGES, np.arange(120) % 3)
    points = [dots.get_offsets() for dots in figure.axes[0].collections]
    assert [len(group) for group in points] == [40, 40, 40]
    codes = vae.encode(IMAGES)
    spread = np.linalg.svd(codes - codes.mean(0), compute_uv=False)
    assert np.concatenate(points).var(0).sum() * 120 == pytest.approx((spread[:2] ** 2).sum(), rel=1e-4)


def test_tables_become_curves():
    model = benthic.VAE(2, hidden_layer_sizes=(8,), trainer={"steps": 20}, random_state=0).fit(FRAME)
    figure = pictures.traversals(model, FRAME, steps=5)
    assert [len(axes.lines) for axes in figure.axes] == [3, 3]
    assert [line.get_label() for line in figure.axes[0].lines] == ["a", "b", "c"]
    assert pictures.interpolations(model, FRAME.head(1), FRAME.tail(1)).axes
    assert len(pictures.reconstructions(model, FRAME).axes[0].collections) == 1
    with pytest.raises(InvalidInput, match="say shape="):
        pictures.latent_grid(model)


def test_colors_stay_colors():
    rng = np.random.default_rng(0)
    images = rng.random((40, 3, 8, 8))
    model = benthic.Autoencoder(2, channels=(4,), trainer={"steps": 5}, random_state=0).fit(images)
    assert pixels(pictures.reconstructions(model, images, count=3))[0].shape == (8, 8, 3)
    assert pixels(pictures.latent_grid(model, images, cells=4))[0].shape == (32, 32, 3)


def test_the_picture_of_a_model(vae):
    assert [axes.get_title() for axes in vae.plot().axes] == ["VAE", "drawn from the model"]
    assert vae.plot(IMAGES).axes[1].get_title() == "given, and rebuilt"
    table = benthic.VAE(3, hidden_layer_sizes=(8,), trainer={"steps": 5}, random_state=0).fit(FRAME)
    bars = table.plot().axes[1].patches
    np.testing.assert_allclose([bar.get_height() for bar in bars], table.unit_activity_)
    assert len(table.plot(FRAME).axes[1].collections[0].get_offsets()) == 60
    plain = benthic.Autoencoder(2, hidden_layer_sizes=(8,), trainer={"steps": 5}, random_state=0).fit(FRAME)
    assert len(plain.plot().axes) == 1 and len(plain.plot(FRAME).axes) == 2


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: pictures.interpolate([1.0], [1.0, 2.0]), "1 and 2 numbers"),
        (lambda: pictures.interpolate([1.0], [2.0], method="round"), "'linear' or 'spherical'"),
        (lambda: pictures.interpolate([1.0], [2.0], 1), "steps is 1"),
        (lambda: pictures.traversals(Linear(), units=[2]), "coordinates 0 to 1"),
        (lambda: pictures.latent_grid(Linear(), units=(0, 5), shape=(2, 2)), "two coordinates of 2"),
        (lambda: pictures.traversals(Linear(), shape=(3, 3)), r"shape is \(3, 3\), but examples have 4 numbers"),
    ],
)
def test_wrong_questions(call, words):
    with pytest.raises(InvalidInput, match=words):
        call()
