"""Frames through the contract: names, categories, text, set_output."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import benthic

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "age": RNG.integers(18, 80, 150),
        "dose": RNG.normal(size=150),
        "city": RNG.choice(["Lima", "Oslo", "Pune"], 150),
        "note": [f"patient {i} said something long and different" for i in range(150)],
    }
)
Y = np.where((FRAME["city"] == "Oslo") & (FRAME["dose"] > 0), "yes", "no")


@pytest.fixture(scope="module")
def model():
    return benthic.MLPClassifier((16,), trainer={"steps": 300, "lr": 0.01}, random_state=0).fit(FRAME, Y)


def test_categories_are_learned_from(model):
    assert model.score(FRAME, Y) > 0.9
    assert list(model.feature_names_in_) == list(FRAME.columns)
    assert model.n_features_in_ == 4


def test_polars_gives_the_same_answers(model):
    np.testing.assert_allclose(model.predict_proba(pl.from_pandas(FRAME)), model.predict_proba(FRAME), rtol=1e-9)
    other = benthic.MLPClassifier((16,), trainer={"steps": 300, "lr": 0.01}, random_state=0)
    other.fit(pl.from_pandas(FRAME), pl.Series(Y))
    np.testing.assert_allclose(other.predict_proba(FRAME), model.predict_proba(FRAME), rtol=1e-9)


def test_an_unknown_category_and_other_columns_are_refused(model):
    wrong = FRAME.copy()
    wrong.loc[0, "city"] = "Rome"
    with pytest.raises(ValueError, match=r"MLPClassifier.predict: .*city.*Rome"):
        model.predict(wrong)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(FRAME.rename(columns={"dose": "does"}))
    with pytest.raises(ValueError, match="fitted on a frame with categories"):
        model.predict(np.zeros((3, 4)))


def test_saved_models_keep_the_schema(model, tmp_path):
    loaded = benthic.load(model.save(tmp_path / "m.safetensors"))
    np.testing.assert_array_equal(loaded.predict_proba(FRAME), model.predict_proba(FRAME))


def test_transform_follows_set_output():
    frame = FRAME[["age", "dose"]]
    model = benthic.VAE(2, trainer={"steps": 5}, random_state=0).set_output(transform="pandas").fit(frame)
    out = model.transform(frame)
    assert list(out.columns) == ["vae0", "vae1"] and list(out.index) == list(frame.index)


def test_the_index_of_a_frame_survives_imputation():
    frame = FRAME[["age", "dose"]].set_index(pd.Index(range(1000, 1150)))
    model = benthic.VAE(1, trainer={"steps": 5}, random_state=0).fit(frame)
    holed = frame.astype({"age": float})
    holed.iloc[0, 1] = np.nan
    assert list(model.impute(holed).index) == list(frame.index)
    assert model.reconstruct(frame)["age"].dtype == frame["age"].dtype


@pytest.mark.parametrize("name", ["VAE", "GaussianMixture", "ExponentialFamilyMixture"])
def test_one_row_of_a_frame_as_condition(name):
    frame = FRAME[["age", "dose"]].astype(float).set_index(pd.Index(range(1000, 1150)))
    model = benthic.catalogue()[name].quick().fit(frame)
    given = frame.iloc[:1].copy()
    given["dose"] = np.nan
    drawn = model.sample(4, given=given, seed=0)
    assert drawn.shape == (4, 2) and (drawn["age"] == given["age"].iloc[0]).all()
