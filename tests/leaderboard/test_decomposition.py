from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_diabetes, load_iris
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from benthic.base.errors import InvalidInput
from benthic.leaderboard import bias_variance, draw_bias_variance
from benthic.leaderboard.parts import squared_parts, zero_one_parts

pytestmark = pytest.mark.spec("I-04")
few = settings(max_examples=25, deadline=None)


def test_ridge_has_the_bias_and_variance_of_the_textbook():
    rng = np.random.default_rng(0)
    design, coef, sigma, penalty = rng.normal(size=(30, 4)), np.array([2.0, -1.0, 0.5, 3.0]), 0.8, 20.0
    rows = rng.normal(size=(25, 4))
    shrink = np.linalg.inv(design.T @ design + penalty * np.eye(4))
    hat = rows @ shrink @ design.T  # (25, 30)
    bias = (hat @ design @ coef - rows @ coef) ** 2
    variance = sigma**2 * (hat**2).sum(1)

    def draw(generator):
        return design, design @ coef + sigma * generator.normal(size=30)

    model = Ridge(penalty, fit_intercept=False)
    rounds = 600
    found = bias_variance(model, draw, None, rows, truth=rows @ coef, noise=sigma**2, rounds=rounds)
    # the sample variance of 600 Gaussian answers is known to sqrt(2 / 599) a row, 0.06; rows share the draws
    assert found.variance.value == pytest.approx(variance.mean(), rel=4 * np.sqrt(2 / rounds))
    # the mean answer errs by sqrt(v / rounds), which moves the squared bias by about 2 b sqrt(v / rounds)
    slack = 4 * np.mean(2 * np.sqrt(bias * variance / rounds)) + 4 * variance.mean() / rounds
    assert found.bias.value == pytest.approx(bias.mean(), abs=slack)
    assert found.noise.value == pytest.approx(sigma**2)
    assert not found.bias_holds_noise


def test_few_rounds_leave_no_bias_in_the_parts():
    rng = np.random.default_rng(1)
    answers = rng.normal(loc=0.5, size=(3, 200_000))  # bias 0.25, variance 1, three fits
    parts = squared_parts(answers, np.zeros(200_000))
    # Var of both estimates is below 2; four standard errors of 200 000
    assert parts["bias"].mean() == pytest.approx(0.25, abs=4 * np.sqrt(2 / 200_000))
    assert parts["variance"].mean() == pytest.approx(1.0, abs=4 * np.sqrt(2 / 200_000))


@few
@given(st.integers(0, 10**6), st.integers(2, 9), st.sampled_from([(), (2,)]))
def test_squared_parts_add_up_to_the_mean_loss(seed, rounds, columns):
    rng = np.random.default_rng(seed)
    answers, y = rng.normal(size=(rounds, 7, *columns)), rng.normal(size=(7, *columns))
    parts = squared_parts(answers, y)
    loss = ((answers - y) ** 2).mean(0).reshape(7, -1).mean(1)
    np.testing.assert_allclose(parts["loss"], loss, atol=1e-12)


@few
@given(st.integers(0, 10**6), st.integers(2, 5))
def test_zero_one_parts_are_those_of_domingos(seed, k):
    rng = np.random.default_rng(seed)
    answers, law = rng.integers(k, size=(11, 9)), rng.dirichlet(np.ones(k), 9)
    parts = zero_one_parts(answers, None, law, np.arange(k))
    best = law.argmax(1)
    for i in range(9):
        votes = np.bincount(answers[:, i], minlength=k) / 11
        main = votes.argmax()
        expected = sum(votes[a] * law[i, t] for a in range(k) for t in range(k) if a != t)
        assert parts["loss"][i] == pytest.approx(expected, abs=1e-12)
        off = 1 - votes[main]
        c2 = 1.0 if main == best[i] else -votes[best[i]] / off if off else 0.0
        assert parts["net_variance"][i] == pytest.approx(c2 * off, abs=1e-12)
        # c1 = P(y = y*) - P(y != y*) P(y = t | y* != t, y != y*)
        others = [a for a in range(k) if a != best[i]]
        meet = sum(votes[a] * law[i, a] for a in others)
        assert parts["net_noise"][i] == pytest.approx(votes[best[i]] * parts["noise"][i] - meet, abs=1e-12)
        if k == 2:
            assert abs(parts["net_variance"][i]) == pytest.approx(parts["variance"][i], abs=1e-12)
            assert parts["net_noise"][i] == pytest.approx((2 * votes[best[i]] - 1) * parts["noise"][i], abs=1e-12)


@few
@given(st.integers(0, 10**6))
def test_without_noise_the_parts_add_up_to_the_error_rate(seed):
    rng = np.random.default_rng(seed)
    names = np.array(["a", "b", "c"])
    answers, y = names[rng.integers(3, size=(8, 6))], names[rng.integers(3, size=6)]
    parts = zero_one_parts(answers, y)
    np.testing.assert_allclose(parts["bias"] + parts["net_variance"], (answers != y).mean(0), atol=1e-12)


def test_more_neighbors_trade_variance_for_bias():
    rng = np.random.default_rng(2)
    rows = np.sort(rng.uniform(-1, 1, (60, 1)), 0)

    def draw(generator):
        x = generator.uniform(-1, 1, (50, 1))
        return x, np.sin(4 * x[:, 0]) + 0.3 * generator.normal(size=50)

    truth = np.sin(4 * rows[:, 0])
    found = [
        bias_variance(KNeighborsRegressor(k), draw, None, rows, truth=truth, noise=0.09, rounds=60) for k in (1, 5, 40)
    ]
    assert found[0].variance.value > found[1].variance.value > found[2].variance.value
    assert found[0].bias.value < found[2].bias.value and found[1].bias.value < found[2].bias.value
    assert found[1].loss.value < min(found[0].loss.value, found[2].loss.value)
    # a single neighbor repeats the noise of its row, so its variance is at least that
    assert found[0].variance.value > 0.09


def test_any_estimator_on_given_rows():
    X, y = load_iris(return_X_y=True)
    names = np.array(["s", "v", "w"])[y]
    found = bias_variance(GaussianNB(), X, names, rounds=15, seed=4)
    assert found.kind == "zero_one" and found.bias_holds_noise
    assert found.loss.value == pytest.approx(found.bias.value + found.net_variance.value, abs=1e-12)
    assert len(found.rows["main"]) == 45
    again = bias_variance(GaussianNB(), X, names, rounds=15, seed=4)
    assert again.loss == found.loss
    X, y = load_diabetes(return_X_y=True)
    found = bias_variance(LinearRegression(), X[:300], y[:300], X[300:], y[300:], rounds=15, fraction=0.5)
    assert found.kind == "squared" and found.rows["loss"].shape == (142,)
    weights = np.zeros(142)
    weights[3] = 2.0
    one = bias_variance(
        LinearRegression(), X[:300], y[:300], X[300:], y[300:], rounds=15, fraction=0.5, sample_weight=weights
    )
    assert one.loss.value == pytest.approx(found.rows["loss"][3])


def test_a_house_model_and_tensors():
    import benthic

    X, y = load_iris(return_X_y=True)
    model = benthic.LogisticRegression()
    found = bias_variance(model, X[::2], y[::2], X[1::2], y[1::2], rounds=4)
    there = bias_variance(model, *(torch.tensor(part) for part in (X[::2], y[::2], X[1::2], y[1::2])), rounds=4)
    assert there.loss.value == pytest.approx(found.loss.value)


def test_a_constant_has_no_variance():
    X, y = np.zeros((20, 1)), np.array([0] * 15 + [1] * 5)
    found = bias_variance(DummyClassifier(strategy="most_frequent"), X, y, X, y, rounds=10)
    assert found.variance.value == 0 and found.bias.value == 0.25


def test_the_parts_are_drawn_and_told():
    X, y = load_iris(return_X_y=True)
    found = {k: bias_variance(KNeighborsClassifier(k), X, y, rounds=5) for k in (1, 50)}
    axes = draw_bias_variance(found, xlabel="neighbors").axes[0]
    heights = np.array([bar.get_height() for bar in axes.patches]).reshape(2, 2)  # parts by models
    np.testing.assert_allclose(heights.sum(0), [one.loss.value for one in found.values()], atol=1e-12)
    assert "bias and noise" in found[1].summary()
    assert found[1].plot(title="one").axes[0].get_title() == "one"


ROWS = np.arange(10.0)[:, None]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: bias_variance(LinearRegression(), ROWS), "targets y are needed"),
        (lambda: bias_variance(LinearRegression(), ROWS, ROWS[:, 0], rounds=1), "at least 2"),
        (lambda: bias_variance(LinearRegression(), ROWS, ROWS[:, 0], loss="cubic"), "none of squared"),
        (lambda: bias_variance(LinearRegression(), ROWS, ROWS[:, 0], fraction=2.0), "between 0 and 1"),
        (lambda: bias_variance(LinearRegression(), ROWS, ROWS[:, 0], ROWS), "y_test or the truth"),
        (lambda: bias_variance(LinearRegression(), ROWS, ROWS[:, 0], ROWS, ROWS[:3, 0]), "rows must match"),
        (lambda: bias_variance(DummyRegressor(), lambda g: (ROWS, ROWS[:, 0])), "needs X_test"),
        (lambda: bias_variance(GaussianNB(), ROWS, np.ones(10, int), ROWS, np.ones(10, int)), "one class"),
        (lambda: bias_variance(DummyRegressor(), ROWS, ROWS[:, 0], ROWS, truth=ROWS[:, 0]), "noise variance"),
        (lambda: bias_variance(DummyRegressor(), ROWS, ROWS[:, 0], ROWS, truth=ROWS[:, 0], noise=-1), "zero or more"),
        (
            lambda: bias_variance(GaussianNB(), ROWS, np.arange(10) % 2, ROWS, truth=np.ones((10, 2)), classes=[0, 1]),
            "add up to 1",
        ),
        (
            lambda: bias_variance(GaussianNB(), ROWS, np.arange(10) % 2, ROWS, np.arange(10) % 2, classes=[5, 6]),
            "not among the listed",
        ),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(InvalidInput, match=words):
        call()
