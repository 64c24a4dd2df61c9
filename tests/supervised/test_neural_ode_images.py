"""Images through features, a flow and a head; the identity in place of the flow."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits

import benthic
from benthic.base.errors import InvalidInput
from benthic.nets.conv import ConvField, ConvFront, halvings
from benthic.nets.ode_block import ODEBlock
from benthic.supervised.ode_networks import ImageODENetwork, by_channel

pytestmark = pytest.mark.spec("E-04")

SMALL = {"width": 8, "hidden_layer_sizes": (8,), "method": "midpoint", "solver_steps": 1, "random_state": 0}


def digits(n=400):
    X, y = load_digits(return_X_y=True)
    return X[:n].reshape(-1, 1, 8, 8), y[:n]


def bars(n=240, shape=(2, 9, 13), seed=0):
    """Pictures with a bar that lies or stands somewhere in the second channel."""
    rng = np.random.default_rng(seed)
    X, y = 0.3 * rng.normal(size=(n, *shape)), np.arange(n) % 2
    for picture, lies in zip(X, y, strict=True):
        if lies:
            picture[1, rng.integers(shape[1])] += 1
        else:
            picture[1, :, rng.integers(shape[2])] += 1
    return X.astype(np.float32), np.array(["stands", "lies"])[y]


@pytest.fixture(scope="module")
def fitted():
    X, y = bars()
    return benthic.NeuralODEClassifier(**SMALL, trainer={"steps": 200, "lr": 0.02}).fit(X, y)


@pytest.mark.parametrize("size", [(28, 28), (8, 8), (1, 1), (32, 20), (9, 200)])
def test_the_front_makes_small_features_of_any_size(size):
    features = ConvFront(3, 16, size)(torch.zeros(2, 3, *size))
    assert features.shape[:2] == (2, 16)
    assert min(features.shape[2:]) <= 8 and min(features.shape[2:]) >= min(4, *size)
    assert features.shape[3] == size[1] >> halvings(*size)


def test_features_are_made_without_looking_at_other_pictures():
    torch.manual_seed(0)
    network = ImageODENetwork((3, 16, 16), 4, 8, (8,), steps=2).double()
    x = torch.randn(5, 3 * 256, dtype=torch.float64)
    torch.testing.assert_close(network(x)[2:3], network(x[2:3]), rtol=1e-10, atol=1e-12)


def test_gradients_of_a_field_on_pictures():
    torch.manual_seed(0)
    block = ODEBlock(ConvField(2, (3,), "tanh"), method="midpoint", steps=2, channel=-3).double()
    x = torch.randn(2, 2, 3, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(block, (x,))


@pytest.mark.parametrize("gradient", ["checkpoint", "adjoint"])
def test_ways_to_the_gradient_agree_on_pictures(gradient):
    torch.manual_seed(0)
    field, x = ConvField(4, (4,), "tanh").double(), torch.randn(3, 4, 5, 5, dtype=torch.float64)
    found = []
    for way in ("steps", gradient):
        block = ODEBlock(field, method="dormand_prince", steps=None, rtol=1e-9, atol=1e-9, gradient=way, channel=-3)
        found.append(torch.autograd.grad(block(x).square().sum(), list(field.parameters())))
    for plain, other in zip(*found, strict=True):
        torch.testing.assert_close(other, plain, rtol=1e-6, atol=1e-6)


def test_augmented_channels_begin_at_zero():
    block = ODEBlock(ConvField(5, (8,)), augment=2, channel=-3)
    widened = block.widened(torch.ones(2, 3, 4, 4))
    assert widened.shape == block(torch.ones(2, 3, 4, 4)).shape == (2, 5, 4, 4)
    assert widened[:, :3].eq(1).all() and widened[:, 3:].eq(0).all()


def test_rows_with_their_own_steps_see_their_own_times():
    torch.manual_seed(0)
    field, x = ConvField(4, (4,)).double(), torch.randn(3, 4, 5, 5, dtype=torch.float64)
    block = ODEBlock(field, method="dormand_prince", steps=None, rtol=1e-6, atol=1e-6, channel=-3)
    together = block(x, per_row=True)
    for row in range(3):
        torch.testing.assert_close(block(x[row : row + 1], per_row=True)[0], together[row], rtol=1e-10, atol=1e-12)


def test_without_time_the_block_is_the_identity():
    x = torch.randn(2, 3, 4, 4)
    assert torch.equal(ODEBlock(None, 0.0)(x), x)
    assert torch.equal(ODEBlock(None, 0.0, augment=1, channel=-3)(x)[:, :3], x)
    with pytest.raises(InvalidInput, match="no field to follow"):
        ODEBlock(None, 1.0)


def test_digits_as_pictures():
    X, y = digits()
    flowing, still = (
        benthic.NeuralODEClassifier(
            16, (16,), t1=t1, method="midpoint", solver_steps=1, trainer={"steps": 300, "lr": 0.005}, random_state=0
        ).fit(X[:300], y[:300])
        for t1 in (1.0, 0.0)
    )
    # one convolution and means over pixels see no more than strokes of three pixels: 0.13 beside 0.76 ± 0.06
    assert flowing.score(X[300:], y[300:]) > 0.45
    assert flowing.score(X[300:], y[300:]) > still.score(X[300:], y[300:]) + 0.2
    assert still.network_.flow.field is None


def test_other_sizes_channels_and_names_of_classes(fitted):
    X, y = bars(seed=1)
    assert fitted.score(X, y) > 0.95
    assert fitted.n_features_in_ == 2 * 9 * 13
    probabilities = fitted.predict_proba(X)
    assert probabilities.dtype == np.float32 and fitted.predict_proba(torch.tensor(X)).shape == (240, 2)
    flat = fitted.predict_proba(X.reshape(240, -1))
    np.testing.assert_array_equal(flat, probabilities)


def test_pictures_are_answered_one_by_one(fitted):
    X = bars(20, seed=2)[0].astype(np.float64)
    alone = np.concatenate([fitted.predict_proba(X[i : i + 1]) for i in range(20)])
    np.testing.assert_allclose(alone, fitted.predict_proba(X), rtol=1e-9)


def test_saved_and_loaded(fitted, tmp_path):
    X, _ = bars(30, seed=3)
    loaded = benthic.load(fitted.save(tmp_path / "model.safetensors"))
    np.testing.assert_array_equal(loaded.predict_proba(X), fitted.predict_proba(X))


def test_the_flow_of_features_can_be_seen(fitted):
    X, _ = bars(6)
    path = fitted.flow(X, [0.0, 0.5, 1.0])
    assert path.shape == (3, 6, 8, 4, 6)
    still = clone(fitted).set_params(t1=0.0, trainer={"steps": 1}).fit(*bars(20))
    assert still.flow(X, [0.0]).shape == (1, 6, 8, 4, 6)


@pytest.mark.parametrize("width", [None, 6])
def test_the_flow_may_begin_at_the_pictures(width):
    X, y = bars()
    settings = {**SMALL, "width": width, "augment": 3, "trainer": {"steps": 100, "lr": 0.02}}
    assert benthic.NeuralODEClassifier(**settings).fit(X, y).score(X, y) > 0.8


def test_a_model_moves_between_pictures_and_tables(fitted):
    model = clone(fitted).set_params(trainer={"steps": 2})
    X, y = bars(40)
    table = pd.DataFrame(X.reshape(40, -1)[:, :5], columns=list("abcde"))
    assert model.fit(X, y).fit(table, y).predict_proba(table).shape == (40, 2)
    assert model.fit(X, y).fit(table.to_numpy(), y).predict_proba(table.to_numpy()).shape == (40, 2)


def test_pixels_of_a_channel_share_their_scale():
    X = np.random.default_rng(0).normal(size=(50, 2, 3, 4)) * np.array([1.0, 20.0])[:, None, None] + 3
    flat = X.reshape(50, -1)
    mean, spread = by_channel(flat.mean(0), flat.std(0), 2)
    np.testing.assert_allclose(mean.reshape(2, 12)[:, 0], X.mean((0, 2, 3)))
    np.testing.assert_allclose(spread.reshape(2, 12)[:, 5], X.std((0, 2, 3)))


def test_wrong_shapes(fitted):
    X, y = bars(20)
    with pytest.raises(InvalidInput, match=r"fit: examples of shape \(9, 13\) are no images; X must be"):
        clone(fitted).fit(X[:, 0], y)
    with pytest.raises(InvalidInput, match=r"shape \(2, 8, 13\), but the model was fitted on \(2, 9, 13\)"):
        fitted.predict(X[:, :, 1:])
    dark = X.copy()
    dark[3, 0, 0, 0] = np.nan
    with pytest.raises(InvalidInput, match="NaN"):
        clone(fitted).fit(dark, y)


def test_a_regressor_of_images():
    X, _ = bars(200)
    y = X[:, 1, :4].mean((1, 2)) - X[:, 1, 5:].mean((1, 2))
    model = benthic.NeuralODERegressor(**{**SMALL, "width": 12}, trainer={"steps": 1, "lr": 0.01}).fit(X, y)
    assert model.predict(X).shape == (200,) and isinstance(model.network_, ImageODENetwork)
    brightness = X.mean((1, 2, 3)) * 10
    model.set_params(trainer={"steps": 200, "lr": 0.02}).fit(X, brightness)
    assert model.score(X, brightness) > 0.8


def test_images_streamed_from_a_file(tmp_path):
    X, y = digits(200)
    header = bytes([0, 0, 8, 3]) + b"".join(n.to_bytes(4, "big") for n in (200, 8, 8))
    (tmp_path / "some-images-idx3-ubyte").write_bytes(header + (X * 15).astype(np.uint8).tobytes())
    labels = bytes([0, 0, 8, 1]) + (200).to_bytes(4, "big")
    (tmp_path / "some-labels-idx1-ubyte").write_bytes(labels + y.astype(np.uint8).tobytes())
    model = benthic.NeuralODEClassifier(**SMALL, trainer={"steps": 30, "lr": 0.02})
    model.fit(str(tmp_path / "some-images-idx3-ubyte"))
    assert isinstance(model.network_, ImageODENetwork)
    assert model.predict_proba((X * 15 / 255).astype(np.float32)).shape == (200, 10)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_images_on_a_gpu():
    X, y = bars(60)
    on_gpu = torch.tensor(X, device="cuda")
    model = benthic.NeuralODEClassifier(**SMALL, trainer={"steps": 5}).fit(on_gpu, y)
    assert model.predict_proba(on_gpu).device.type == "cuda"
    np.testing.assert_allclose(model.predict_proba(X.astype(np.float64)).sum(1), 1.0)
