"""Polynomial features against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures as Peer

import benthic
from benthic.base.errors import InvalidInput

pytestmark = pytest.mark.spec("F-01")
X = np.random.default_rng(0).normal(size=(30, 4))


@pytest.mark.parametrize("degree", [0, 1, 2, 3, 5, (2, 3), (0, 2), (1, 1)])
@pytest.mark.parametrize("interaction_only", [False, True])
@pytest.mark.parametrize("include_bias", [True, False])
def test_products_order_and_names_are_those_of_scikit_learn(degree, interaction_only, include_bias):
    settings = {"degree": degree, "interaction_only": interaction_only, "include_bias": include_bias}
    if degree == 0 and not include_bias:
        with pytest.raises(InvalidInput, match="leaves no column"):
            benthic.PolynomialFeatures(**settings).fit(X)
        return
    ours, theirs = benthic.PolynomialFeatures(**settings).fit(X), Peer(**settings).fit(X)
    np.testing.assert_allclose(ours.transform(X), theirs.transform(X), rtol=1e-13)
    np.testing.assert_array_equal(ours.powers_, theirs.powers_)
    assert ours.get_feature_names_out().tolist() == theirs.get_feature_names_out().tolist()
    assert ours.n_output_features_ == theirs.n_output_features_


def test_the_columns_come_back():
    model = benthic.PolynomialFeatures(3).fit(X)
    np.testing.assert_array_equal(model.inverse_transform(model.transform(X)), X)
    late = benthic.PolynomialFeatures((2, 3)).fit(X)
    with pytest.raises(InvalidInput, match="not among the products"):
        late.inverse_transform(late.transform(X))


def test_frames_give_their_names():
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [2.0, 0.0, 1.0]})
    model = benthic.PolynomialFeatures(2, include_bias=False).set_output(transform="pandas").fit(frame)
    assert list(model.transform(frame).columns) == ["a", "b", "a^2", "a b", "b^2"]
    city = frame.assign(city=pd.Categorical(["Bern", "Rome", "Bern"]))
    names = benthic.PolynomialFeatures(2, interaction_only=True).fit(city).get_feature_names_out()
    assert "a city=Bern" in names


def test_a_curve_is_a_line_in_its_powers():
    t = np.linspace(-1, 1, 40)[:, None]
    y = 1 - 2 * t[:, 0] + 3 * t[:, 0] ** 3
    model = make_pipeline(benthic.PolynomialFeatures(3, include_bias=False), benthic.LinearRegression()).fit(t, y)
    np.testing.assert_allclose(model[-1].coef_, [-2, 0, 3], atol=1e-10)


def test_gradients_do_not_leak_and_types_stay():
    rows = torch.tensor(X, dtype=torch.float32)
    out = benthic.PolynomialFeatures(2).fit(rows).transform(rows)
    assert out.dtype == torch.float32 and out.shape == (30, 15)


@pytest.mark.parametrize("degree", [-1, 1.5, (3, 2), (1, 2, 3), "two", True])
def test_degrees_that_make_no_sense(degree):
    with pytest.raises(InvalidInput, match="PolynomialFeatures.fit: degree is"):
        benthic.PolynomialFeatures(degree).fit(X)


def test_too_many_products_are_refused_before_memory_is():
    with pytest.raises(InvalidInput, match="products, more than 5000000"):
        benthic.PolynomialFeatures(8).fit(np.zeros((1, 200)))
