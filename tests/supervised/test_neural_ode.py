"""Networks of continuous depth: the layer, and the predictors made of it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_diabetes, load_digits, load_iris, load_wine
from sklearn.model_selection import cross_val_score
from torch import nn

import benthic
from benthic.base.errors import InvalidInput
from benthic.nets.ode_block import MLPField, ODEBlock

pytestmark = pytest.mark.spec("E-04")

SMALL = {"width": 16, "hidden_layer_sizes": (32,), "method": "midpoint", "solver_steps": 1}


class Turning(nn.Module):
    """The rotation of the plane, so that the flow is known."""

    def forward(self, t, z):
        return torch.stack([-z[..., 1], z[..., 0]], -1)


def spirals(n=200, seed=0):
    rng = np.random.default_rng(seed)
    angle = np.sqrt(rng.random(n)) * 3 * np.pi
    side = np.arange(n) % 2
    turned = angle + np.pi * side
    X = np.stack([angle * np.cos(turned), angle * np.sin(turned)], 1) + 0.3 * rng.normal(size=(n, 2))
    return X, side


def test_one_step_of_euler_is_a_residual_block():
    torch.manual_seed(0)
    field, x = MLPField(4, (8,)), torch.randn(5, 4)
    residual = x + field(torch.tensor(0.0), x)
    torch.testing.assert_close(ODEBlock(field, method="euler", steps=1)(x), residual, rtol=0, atol=0)
    ODEBlock(field, method="euler", steps=1)(x).sum().backward()
    ours = [p.grad.clone() for p in field.parameters()]
    field.zero_grad()
    residual = x + field(torch.tensor(0.0), x)
    residual.sum().backward()
    for mine, p in zip(ours, field.parameters(), strict=True):
        torch.testing.assert_close(mine, p.grad)


@pytest.mark.parametrize("steps", [64, None])
def test_the_block_follows_a_known_flow(steps):
    block = ODEBlock(Turning(), t1=np.pi / 2, method="dormand_prince", steps=steps, rtol=1e-8, atol=1e-8)
    x = torch.tensor([[1.0, 0.0], [0.5, 2.0]], dtype=torch.float64)
    expected = torch.stack([-x[:, 1], x[:, 0]], 1)  # a quarter turn
    for per_row in (False, True):
        torch.testing.assert_close(block(x, per_row), expected, rtol=1e-7, atol=1e-7)


def test_augmented_dimensions_begin_at_zero():
    block = ODEBlock(MLPField(5, (8,)), augment=2)
    assert block(torch.ones(3, 3)).shape == (3, 5)
    torch.testing.assert_close(block.widened(torch.ones(3, 3))[:, 3:], torch.zeros(3, 2))


@pytest.mark.parametrize("gradient", ["checkpoint", "adjoint"])
def test_ways_to_the_gradient_agree(gradient):
    torch.manual_seed(0)
    field = MLPField(4, (8,)).double()
    x = torch.randn(6, 4, dtype=torch.float64)
    found = []
    for way in ("steps", gradient):
        block = ODEBlock(field, method="dormand_prince", steps=None, rtol=1e-9, atol=1e-9, gradient=way)
        found.append(torch.autograd.grad(block(x).square().sum(), list(field.parameters())))
    for plain, other in zip(*found, strict=True):
        torch.testing.assert_close(other, plain, rtol=1e-6, atol=1e-7)


def test_ways_to_the_gradient_give_the_same_fit():
    X, y = load_iris(return_X_y=True)
    settings = {**SMALL, "trainer": {"steps": 15, "lr": 0.01, "precision": "float64"}}
    first, *others = (
        benthic.NeuralODEClassifier(**{**settings, "method": "rk4", "solver_steps": 2, "gradient": way}, random_state=0)
        .fit(X, y)
        .predict_proba(X)
        for way in ("steps", "checkpoint", "adjoint")
    )
    for other in others:
        np.testing.assert_allclose(other, first, atol=0.01)


@pytest.mark.parametrize("load", [load_iris, load_wine])
def test_accuracy_beside_a_plain_network(load):
    X, y = load(return_X_y=True)
    settings = {"steps": 120, "lr": 0.02}
    ours = cross_val_score(benthic.NeuralODEClassifier(**SMALL, trainer=settings, random_state=0), X, y, cv=3).mean()
    plain = cross_val_score(benthic.MLPClassifier((32,), trainer=settings, random_state=0), X, y, cv=3).mean()
    assert ours > 0.88 and ours > plain - 0.08  # the difference varies by 0.015 over seeds


def test_classifier_on_digits():
    X, y = load_digits(return_X_y=True)
    settings = {"trainer": {"epochs": 15, "lr": 3e-3}, "random_state": 0}
    ours = benthic.NeuralODEClassifier(64, (64,), solver_steps=1, **settings).fit(X[::2], y[::2])
    plain = benthic.MLPClassifier((64,), **settings).fit(X[::2], y[::2])
    # two standard errors of the difference of two accuracies near 0.95, each over 898 rows
    assert ours.score(X[1::2], y[1::2]) > plain.score(X[1::2], y[1::2]) - 0.02
    np.testing.assert_allclose(ours.predict_proba(X).sum(1), 1.0)


def test_the_flow_untangles_what_no_line_can_part():
    X, y = spirals()
    settings = {"width": None, "augment": 1, "activation": "tanh", "random_state": 0}
    trainer = {"steps": 300, "lr": 0.03, "batch_size": 200}
    flowing = benthic.NeuralODEClassifier(hidden_layer_sizes=(32,), t1=1.0, trainer=trainer, **settings).fit(X, y)
    still = benthic.NeuralODEClassifier(hidden_layer_sizes=(32,), t1=0.0, trainer=trainer, **settings).fit(X, y)
    assert still.score(X, y) < 0.75  # the identity in place of the flow
    assert flowing.score(X, y) > 0.85  # 0.98 ± 0.03 over seeds


def test_regressor_on_diabetes_and_several_targets():
    X, y = load_diabetes(return_X_y=True)
    model = benthic.NeuralODERegressor(**SMALL, alpha=0.01, trainer={"steps": 150}, random_state=0)
    assert cross_val_score(model, X, y, cv=3).mean() > 0.35
    both = np.stack([y, 100 - 2 * y], axis=1)
    predicted = model.fit(X, both).predict(X)
    assert predicted.shape == both.shape and np.corrcoef(predicted.T)[0, 1] < -0.8


def test_controlled_steps_answer_every_row_by_itself():
    X, y = load_iris(return_X_y=True)
    settings = {**SMALL, "method": "dormand_prince", "solver_steps": None}
    model = benthic.NeuralODEClassifier(**settings, trainer={"steps": 40}, random_state=0).fit(X, y)
    alone = np.concatenate([model.predict_proba(X[i : i + 1]) for i in range(0, 150, 10)])
    np.testing.assert_allclose(alone, model.predict_proba(X)[::10], rtol=1e-9)


def test_the_flow_of_rows_can_be_seen():
    X, y = load_iris(return_X_y=True)
    model = benthic.NeuralODEClassifier(**SMALL, trainer={"steps": 5}, random_state=0).fit(X, y)
    path = model.flow(X, [0.0, 0.5, 1.0])
    assert path.shape == (3, 150, 16) and path.dtype == X.dtype
    head = model.network_.head
    outputs = path[-1] @ head.weight.detach().double().numpy().T + head.bias.detach().numpy()
    odds = np.exp(outputs) / np.exp(outputs).sum(1, keepdims=True)
    np.testing.assert_allclose(odds, model.predict_proba(X), rtol=1e-9)
    with pytest.raises(InvalidInput, match="flow: times are"):
        model.flow(X, [0.5, 0.2])


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"width": 0}, "width is 0"),
        ({"hidden_layer_sizes": (0,)}, "hidden_layer_sizes is"),
        ({"t1": -1.0}, "t1 is -1.0"),
        ({"method": "rk5"}, "method 'rk5' is unknown"),
        ({"method": "kvaerno"}, "is implicit"),
        ({"solver_steps": 0}, "steps is 0"),
        ({"solver_steps": None, "method": "rk4"}, "no error estimate"),
        ({"gradient": "adjoin"}, "did you mean 'adjoint'"),
        ({"augment": -1}, "augment is -1"),
        ({"rtol": 0.0, "atol": 0.0}, "rtol=0.0 and atol=0.0"),
        ({"dropout": 1.0}, "dropout is 1.0"),
        ({"alpha": -1.0}, "alpha is -1.0"),
    ],
)
def test_wrong_settings(params, words):
    with pytest.raises(ValueError, match=f"NeuralODEClassifier.fit: .*{words}"):
        benthic.NeuralODEClassifier(**params).fit(np.eye(4), [0, 1, 0, 1])
