"""Naive Bayes against scikit-learn, on the sets and settings both know."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.naive_bayes as peer
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

import benthic

pytestmark = pytest.mark.spec("F-04")
SETS = {
    "iris": load_iris(return_X_y=True),
    "wine": load_wine(return_X_y=True),
    "breast_cancer": load_breast_cancer(return_X_y=True),
    "digits": load_digits(return_X_y=True),
}
RNG = np.random.default_rng(0)


def agree(ours, theirs, X, names):
    for name in names:
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-10, atol=1e-10)
    joint = theirs.predict_joint_log_proba(X)
    np.testing.assert_allclose(ours.predict_joint_log_proba(X), joint, rtol=1e-10, atol=1e-8)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-8)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


@pytest.mark.parametrize("name", SETS)
def test_gaussian(name):
    X, y = SETS[name]
    ours, theirs = benthic.GaussianNB().fit(X, y), peer.GaussianNB().fit(X, y)
    agree(ours, theirs, X, ("theta_", "var_", "class_prior_", "class_count_", "epsilon_"))


@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer"])
def test_gaussian_with_weights(name):
    # without smoothing: the largest variance that it is a share of counts weights here, and does not there
    X, y = SETS[name]
    weight = RNG.uniform(0.5, 3, len(y))
    ours = benthic.GaussianNB(var_smoothing=0.0).fit(X, y, sample_weight=weight)
    theirs = peer.GaussianNB(var_smoothing=0.0).fit(X, y, sample_weight=weight)
    agree(ours, theirs, X, ("theta_", "var_", "class_prior_", "class_count_", "epsilon_"))


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("settings", [{}, {"alpha": 0.1, "binarize": 3.0}, {"fit_prior": False}, {"binarize": 1.0}])
def test_bernoulli(name, settings):
    X, y = SETS[name]
    weight = RNG.uniform(0, 3, len(y))
    ours = benthic.BernoulliNB(**settings).fit(X, y, sample_weight=weight)
    theirs = peer.BernoulliNB(**settings).fit(X, y, sample_weight=weight)
    agree(ours, theirs, X, ("feature_log_prob_", "feature_count_", "class_count_", "class_log_prior_"))


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("settings", [{}, {"alpha": 0.01}, {"fit_prior": False}])
def test_multinomial(name, settings):
    X, y = SETS[name]
    weight = RNG.uniform(0, 3, len(y))
    ours = benthic.MultinomialNB(**settings).fit(X, y, sample_weight=weight)
    theirs = peer.MultinomialNB(**settings).fit(X, y, sample_weight=weight)
    agree(ours, theirs, X, ("feature_log_prob_", "feature_count_", "class_count_", "class_log_prior_"))


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("settings", [{}, {"alpha": 0.2}, {"fit_prior": False}, {"min_categories": 40}])
def test_categorical(name, settings):
    X, y = SETS[name]
    X = np.floor((X - X.min(0)) / np.maximum(X.max(0) - X.min(0), 1e-9) * 9)
    weight = RNG.uniform(0.1, 3, len(y))
    ours = benthic.CategoricalNB(**settings).fit(X, y, sample_weight=weight)
    theirs = peer.CategoricalNB(**settings).fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(ours.n_categories_, theirs.n_categories_)
    for kind in ("feature_log_prob_", "category_count_"):
        for mine, other in zip(getattr(ours, kind), getattr(theirs, kind), strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-10, atol=1e-10)
    agree(ours, theirs, X, ("class_count_", "class_log_prior_"))


@pytest.mark.parametrize("name", ["GaussianNB", "BernoulliNB", "MultinomialNB", "CategoricalNB"])
def test_priors_that_are_given(name):
    X, y = SETS["iris"]
    X = np.floor(X)
    key = "priors" if name == "GaussianNB" else "class_prior"
    prior = {key: [0.2, 0.7, 0.1]}
    ours, theirs = getattr(benthic, name)(**prior).fit(X, y), getattr(peer, name)(**prior).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-8)


def test_one_smoothing_for_each_feature():
    X, y = SETS["iris"]
    alpha = [0.1, 1.0, 2.0, 3.0]
    ours, theirs = benthic.MultinomialNB(alpha=alpha).fit(X, y), peer.MultinomialNB(alpha=alpha).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-10)
    together = benthic.BernoulliNB(alpha=alpha, binarize=3.0).fit(X, y)
    for j, a in enumerate(alpha):
        alone = benthic.BernoulliNB(alpha=a, binarize=3.0).fit(X[:, j : j + 1], y)
        np.testing.assert_allclose(together.feature_log_prob_[:, j], alone.feature_log_prob_[:, 0], rtol=1e-12)


def test_no_smoothing_leaves_no_chance_at_zero():
    X, y = SETS["digits"]
    for model in (benthic.BernoulliNB(alpha=0.0), benthic.MultinomialNB(alpha=0.0), benthic.CategoricalNB(alpha=0.0)):
        answers = model.fit(X, y).predict_proba(X)
        assert np.isfinite(answers).all() and model.score(X, y) > 0.8
