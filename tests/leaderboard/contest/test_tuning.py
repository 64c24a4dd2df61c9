"""The search for settings: that it finds them, keeps to the rows it may see, and leaves no trace elsewhere."""

from __future__ import annotations

import sys
import time

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import benthic
from benthic.base.errors import InvalidInput
from benthic.leaderboard.contest.contestants import DEFAULTS
from benthic.leaderboard.contest.predicting.defaults import default_predictors
from benthic.leaderboard.contest.predicting.predictors import compare_predictors
from benthic.leaderboard.contest.records import Contestant
from benthic.leaderboard.contest.tuning import spaces as tuning_spaces
from benthic.leaderboard.contest.tuning.inside import Searched
from benthic.leaderboard.contest.tuning.search import optuna, search, searching, tuned
from benthic.leaderboard.contest.tuning.spaces import SPACES, Between, OneOf, Whole, space_of

pytestmark = pytest.mark.spec("I-03")

IRIS = load_iris(return_X_y=True)
ALPHA = {"alpha": Between(1e-3, 1e3, log=True)}


def far(model):
    return abs(np.log10(model.alpha) - 2)


def test_the_search_comes_close_and_repeats():
    found, again = (search(Ridge(1e-3), ALPHA, far, 25, seed=1) for _ in range(2))
    assert found.first == pytest.approx(5.0) and found.loss < 0.5
    assert found.settings == again.settings and len(found.tried) == 25
    assert found.loss == min(loss for _, loss in found.tried)


def test_what_beats_nothing_changes_nothing():
    found = search(Ridge(100.0), ALPHA, far, 5)
    assert found.settings == {} and found.loss == found.first == 0.0


def test_failed_trials_are_noted_and_do_not_end_the_search():
    def fussy(model):
        if model.alpha < 1:
            raise ValueError("too small")
        return np.nan if model.alpha > 500 else far(model)

    found = search(Ridge(1e-3), ALPHA, fussy, 20, seed=0)
    assert np.isnan(found.first) and found.loss < 1.5
    assert any(loss is None for _, loss in found.tried) and found.tried[0] == ({}, None)
    with pytest.raises(InvalidInput, match="every one of 3 settings of Ridge failed"):
        search(Ridge(), ALPHA, lambda model: 1 / 0, 3)


def test_time_ends_the_search():
    found = search(Ridge(), ALPHA, lambda model: time.sleep(0.1) or 1.0, 1000, seconds=0.35)
    assert 3 <= len(found.tried) <= 6


def test_options_of_any_kind_and_whole_numbers():
    space = {"solver": OneOf("svd", "cholesky"), "alpha": OneOf(1.0, 2.0), "max_iter": Whole(5, 9)}
    found = search(Ridge(), space, lambda model: abs((model.max_iter or 99) - 7) + (model.solver != "svd"), 30)
    assert found.loss == 0 and found.settings["max_iter"] == 7 and found.settings["solver"] == "svd"
    assert repr(space["alpha"]) == "OneOf(1.0, 2.0)"


def test_every_default_contestant_has_a_space_of_settings_it_takes():
    entries = benthic.catalogue()
    rows = np.zeros((100, 2))
    for task in ("classify", "regress", "cluster"):
        for one in default_predictors(task, rows, np.arange(100) % 2):
            assert space_of(one.model), one.name
    assert all(name in SPACES for names in DEFAULTS.values() for name in names)
    for name, space in SPACES.items():
        model = entries[name].quick()
        for key, choice in space.items():
            for value in choice.options if isinstance(choice, OneOf) else (choice.low, choice.high):
                model.set_params(**{key: value})
            assert isinstance(choice, OneOf) or choice.low < choice.high
    assert space_of(object()) is None


def test_pipelines_and_cousins_are_found():
    inner = space_of(make_pipeline(StandardScaler(), benthic.SVC()))
    assert set(inner) == {"svc__C", "svc__gamma"}
    assert "l2_regularization" in space_of(HistGradientBoostingClassifier())


# -- generators ----------------------------------------------------------------------------------------------


def test_a_mixture_finds_its_components():
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(size=(150, 2)) + 9 * np.array(c) for c in ((0, 0), (1, 0), (0, 1))])
    start = Contestant("mixture", benthic.GaussianMixture(1, random_state=0), "catalogue")
    found = tuned(start, 12, rows, "2s", seed=0)
    test = np.concatenate([rng.normal(size=(99, 2)) + 9 * np.array(c) for c in ((0, 0), (1, 0), (0, 1))])
    assert found.name == "mixture" and found.model.n_components >= 3 and start.model.n_components == 1
    assert found.model.fit(rows).score(test) > start.model.fit(rows).score(test) + 0.5


def test_a_generator_without_a_density_is_judged_by_its_samples(monkeypatch):
    tiny = {"latent_dim": Whole(1, 4), "hidden_layer_sizes": OneOf((8,), (16,))}
    monkeypatch.setitem(tuning_spaces.SPACES, "VAE", tiny)
    model = benthic.VAE(2, hidden_layer_sizes=(8,), trainer={"steps": 30}, random_state=0)
    found = tuned(Contestant("VAE", model, "catalogue"), 3, np.random.default_rng(0).normal(size=(120, 3)), "3s")
    assert found.model.trainer == {"steps": 30}
    assert found.model.hidden_layer_sizes in ((8,), (16,))


def test_a_conditional_generator_is_told_the_labels(monkeypatch):
    monkeypatch.setitem(tuning_spaces.SPACES, "ConditionalVAE", {"latent_dim": Whole(1, 3)})
    model = benthic.catalogue()["ConditionalVAE"].quick()
    found = tuned(Contestant("c", model), 2, (IRIS[0], IRIS[1]), "3s")
    assert found.model.latent_dim in (1, 2, 3)


# -- predictors ----------------------------------------------------------------------------------------------


class Spy(ClassifierMixin, BaseEstimator):
    """Notes which rows it is fitted on; one of its settings is right."""

    seen: list = []

    def __init__(self, width=1):
        self.width = width

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        Spy.seen.append(set(X[:, 0].astype(int).tolist()))
        return self

    def predict(self, X):
        truth = X[:, 1].astype(int)
        return truth if self.width >= 5 else np.zeros_like(truth)


def test_rows_that_judge_never_choose(monkeypatch):
    """In every fold, all fits of the search see only rows of the training part of that fold."""
    monkeypatch.setitem(tuning_spaces.SPACES, "Spy", {"width": Whole(1, 9)})
    X = np.column_stack([np.arange(100), np.arange(100) % 2]).astype(float)
    Spy.seen.clear()
    found = compare_predictors(
        {"spy": Spy()}, X, np.arange(100) % 2, seeds=1, tune=8, n_jobs=0, progress=False, metrics=["accuracy"]
    )
    assert found.line("spy").scores["accuracy"].value == 1.0 and found.settings["tune"] == 8
    whole = [rows for rows in Spy.seen if len(rows) == 80]  # the last fit of each fold, on all its rows
    assert len(whole) == 5 and len(Spy.seen) == 5 * (8 * 3 + 1)
    for number, rows in enumerate(Spy.seen):
        assert rows <= whole[number // 25]


def test_a_searched_model_is_a_model():
    model = Searched(benthic.LogisticRegression(), trials=3, random_state=0).fit(*IRIS)
    assert model.predict_proba(IRIS[0]).shape == (150, 3) and list(model.classes_) == [0, 1, 2]
    assert not hasattr(model, "predict_interval") and not hasattr(Searched(benthic.SVC()), "predict_proba")
    assert len(model.search_.tried) == 3
    from sklearn.base import clone, is_classifier

    assert is_classifier(model) and clone(model).trials == 3


def test_predictors_search_inside_and_those_without_a_space_stay():
    one = Contestant("p", benthic.Perceptron(), "catalogue")
    assert searching(one, 5, "classify") is one
    svc = Contestant("s", benthic.SVC(), "catalogue")
    assert isinstance(tuned(svc, 5, IRIS, "1s").model, Searched) and tuned(svc, 1, IRIS, "1s") is svc


# -- the library ---------------------------------------------------------------------------------------------


def test_without_optuna_there_is_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(InvalidInput, match=r"tune needs Optuna; install it with pip install 'benthic\[tune\]'"):
        optuna()
    with pytest.raises(InvalidInput, match="tune needs Optuna"):
        compare_predictors(["GaussianNB"], *IRIS, tune=3, n_jobs=0, progress=False)


def test_its_log_is_left_as_it_was(caplog):
    tool = optuna()
    before = tool.logging.get_verbosity()
    search(Ridge(), ALPHA, far, 2)
    assert tool.logging.get_verbosity() == before and not caplog.records


def test_bad_trials():
    with pytest.raises(InvalidInput, match="tune is -1; it must be a whole number"):
        tuned(Contestant("s", benthic.SVC()), -1, IRIS, "1s")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SPACES))
def test_models_fit_all_over_their_space(name):
    """The ends of every range and some options, with training cut short."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 4))
    entry = benthic.catalogue()[name]
    if "counts" in entry.data or name == "BernoulliRBM":
        X = (np.abs(X) > 0.5).astype(float)
    y = (X[:, 0] > 0).astype(int) if "classify" in entry.tasks else X[:, 0] if "regress" in entry.tasks else None
    for side in range(3):
        model = entry.quick()
        for key, choice in SPACES[name].items():
            ends = choice.options if isinstance(choice, OneOf) else (choice.low, choice.high)
            model.set_params(**{key: ends[side % len(ends)]})
        if any(key.startswith("trainer") for key in SPACES[name]) or "trainer" in entry.quick_params:
            model.set_params(trainer__steps=2, trainer__epochs=None)
        fitted = model.fit(X) if y is None else model.fit(X, y)
        assert fitted.n_features_in_ == 4
