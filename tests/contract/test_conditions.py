"""Models that learn with a condition: what they say of it, and every verb that takes it."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import benthic
from benthic.base.condition import Condition, Conditional
from tests.contract.conftest import make

RNG = np.random.default_rng(0)
WORDS = np.repeat(["low", "high"], 60)
FAR = RNG.normal(size=(120, 4)) + np.where(WORDS == "low", -8.0, 8.0)[:, None]
CATALOGUE = benthic.catalogue()
TOLD = [name for name, entry in CATALOGUE.items() if entry.given]
BOTH = [name for name in TOLD if "vectors" in CATALOGUE[name].given]


def told(name: str, kind: str) -> dict[str, Any]:
    known = CATALOGUE[name].cls().get_params()
    return {"condition": kind} if "condition" in known else {}


@cache
def fitted(name: str) -> Any:
    return make(name, **told(name, "labels")).fit(FAR, WORDS)


def test_the_catalogue_says_which_models_learn_with_a_condition():
    assert set(TOLD) == {name for name, entry in CATALOGUE.items() if issubclass(entry.cls, Conditional)}
    assert {"DDPM", "LatentDiffusion", "NormalizingFlow", "ConditionalVAE", "ConditionalGAN"} <= set(TOLD)
    assert all(set(CATALOGUE[name].given) <= {"labels", "vectors"} for name in TOLD)


@pytest.mark.parametrize("name", TOLD)
def test_a_model_says_what_it_was_told(name):
    assert fitted(name).condition_ == Condition("labels", ("high", "low"))
    assert not hasattr(make(name), "condition_")
    drawn = [fitted(name).sample(30, given=label, seed=0) for label in ("low", "high")]
    assert not np.array_equal(*drawn)
    if "vectors" in CATALOGUE[name].given:
        vectors = make(name, **told(name, "vectors")).fit(FAR, RNG.normal(size=(120, 2))).condition_
        assert (vectors.kind, vectors.classes, vectors.width) == ("vectors", (), 2)
    if "classify" not in CATALOGUE[name].tasks:
        assert not make(name).fit(FAR).condition_.told


@pytest.mark.parametrize("name", BOTH)
def test_a_needed_condition_is_said_to_be_needed(name):
    dropless = "condition_dropout" in make(name).get_params()
    model = make(name, **told(name, "vectors"), **({"condition_dropout": 0.0} if dropless else {}))
    if name == "LatentDiffusion":
        model.set_params(diffusion={**model.diffusion, "condition_dropout": 0.0})
    model.fit(FAR, RNG.normal(size=(120, 2)))
    assert model.condition_.needed
    with pytest.raises(ValueError, match="given"):
        model.sample(2)
    assert model.sample(2, given=[0.5, 1.0], seed=0).shape == (2, 4)


@pytest.mark.parametrize("name", [name for name in TOLD if hasattr(CATALOGUE[name].cls, "impute")])
def test_gaps_are_filled_given_the_condition(name):
    model = fitted(name)
    holed = FAR[:4].copy()
    holed[:] = np.nan
    holed[:, 0] = FAR[:4, 0]
    low, high = (model.impute(holed, given=label) for label in ("low", "high"))
    for filled in (low, high):
        np.testing.assert_array_equal(filled[:, 0], FAR[:4, 0])
        assert np.isfinite(filled).all()
    assert not np.allclose(low, high)
    mixed = model.impute(holed, given=["low", "high", "low", "high"])
    assert not np.allclose(mixed, low) and not np.allclose(mixed, high)
    with pytest.raises(ValueError, match="'middle'"):
        model.impute(holed, given="middle")


def test_the_label_decides_where_the_rows_say_nothing():
    holed = np.full((3, 4), np.nan)
    for name in ("GaussianNB", "ConditionalGAN"):
        model = fitted(name)
        assert model.impute(holed, given="low").max() < -4 < 4 < model.impute(holed, given=["high"] * 3).min()
