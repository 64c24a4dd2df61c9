"""The data as they come in, and the rules of the comparison."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

from benthic.base.errors import InvalidInput
from benthic.leaderboard.contest.contestants import contestants_of
from benthic.leaderboard.contest.material import material_of
from benthic.leaderboard.contest.protocol import check_budget, deal, seeds_of, split
from benthic.leaderboard.contest.records import Budget


def frame(n: int = 90) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 80, n),
            "income": rng.normal(size=n),
            "city": rng.choice(["Bern", "Rome", "Oslo"], n),
            "member": rng.random(n) < 0.5,
        }
    )


@pytest.mark.parametrize("n", [50, 61, 1000, 70_000])
def test_parts_are_disjoint_and_the_halves_equal(n: int) -> None:
    parts = deal(n, 0.3, seed=3)
    everything = np.concatenate([parts.fit, parts.features, parts.first, parts.second])
    assert np.array_equal(np.sort(everything), np.arange(n))
    assert len(parts.first) == len(parts.second) <= 2000
    assert len(parts.features) <= 5000
    again = deal(n, 0.3, seed=3)
    assert np.array_equal(parts.fit, again.fit)
    assert not np.array_equal(parts.first, deal(n, 0.3, seed=4).first)


@pytest.mark.parametrize("fraction", [0, 1.0, -0.1])
def test_a_fraction_outside_its_range_is_refused(fraction: float) -> None:
    with pytest.raises(InvalidInput, match="fraction is"):
        deal(1000, fraction)


def test_a_fraction_that_leaves_nothing_to_fit_is_refused() -> None:
    with pytest.raises(InvalidInput, match="leave 4 to fit"):
        deal(50, 0.7)


@pytest.mark.parametrize(
    ("value", "kind", "amount", "words"),
    [
        ("30s", "seconds", 30, "30 s a fit"),
        ("10m", "seconds", 600, "10 min a fit"),
        ("2h", "seconds", 7200, "120 min a fit"),
        (12, "seconds", 12, "12 s a fit"),
        (" 1.5 ", "seconds", 1.5, "1.5 s a fit"),
        ({"parameters": 1e5}, "parameters", 1e5, "100,000 parameters a fit"),
        ({"evaluations": 2_000_000}, "evaluations", 2e6, "2,000,000 evaluations a fit"),
        (Budget("seconds", 5), "seconds", 5, "5 s a fit"),
    ],
)
def test_budgets_are_read_and_said(value: Any, kind: str, amount: float, words: str) -> None:
    budget = Budget.of(value)
    assert (budget.kind, budget.amount, str(budget)) == (kind, amount, words)


@pytest.mark.parametrize("value", ["soon", "", "-3s", 0, -1, True, None, {"parameters": -2}, {}, {"a": 1, "b": 2}])
def test_what_is_no_budget_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput, match="compare: budget is"):
        Budget.of(value)


def test_a_misspelled_budget_gets_a_hint() -> None:
    with pytest.raises(InvalidInput, match="did you mean 'parameters'"):
        Budget.of({"parametres": 3})


@pytest.mark.parametrize("value", [0.01, {"parameters": 3}, {"evaluations": 5}])
def test_a_budget_too_small_for_any_model_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput, match="too small for any model"):
        check_budget(Budget.of(value), 10)


@pytest.mark.parametrize("seeds", [0, [1, 1], [], [-1], 1.5, "ab"])
def test_what_are_no_seeds_is_refused(seeds: Any) -> None:
    with pytest.raises(InvalidInput, match="seeds"):
        seeds_of(seeds)


def test_pixel_columns_and_images_are_pictures() -> None:
    digits = material_of("digits")
    assert (digits.facts.kind, digits.shape, digits.facts.columns) == ("image", (1, 8, 8), 64)
    images = material_of(torch.zeros(60, 3, 4, 5, dtype=torch.uint8))
    assert (images.facts.kind, images.shape, images.rows.shape) == ("image", (3, 4, 5), (60, 60))
    vae, mixture = contestants_of(["VAE", "GaussianMixture"])
    assert images.form(vae) == "image"
    assert images.form(mixture) == "flat"
    assert images.give(images.rows[:2], "image").shape == (2, 3, 4, 5)


@pytest.mark.parametrize("library", ["pandas", "arrow"])
def test_frames_go_to_models_and_come_back(library: str) -> None:
    data = frame()
    X = data if library == "pandas" else pa.Table.from_pandas(data)
    material = material_of(X)
    assert material.facts.kind == "frame"
    assert material.facts.columns == 4
    assert [s.stop - s.start for s in material.groups] == [1, 1, 3, 1]
    assert material.categorical.sum() == 3
    own = material.person(material.rows)
    assert type(own) is type(X)
    back = own if library == "pandas" else own.to_pandas()
    pd.testing.assert_frame_equal(back, data, check_dtype=False)
    table = material.give(material.rows[:2], "arrow")
    assert table.column("city").combine_chunks().dictionary.to_pylist() == ["Bern", "Oslo", "Rome"]
    np.testing.assert_array_equal(material.take_back(table, 2), material.rows[:2])


def test_numbers_for_a_frame_become_categories_and_whole_numbers_again() -> None:
    material = material_of(frame())
    made = material.take_back(material.rows[:5] + 0.2, 5)
    np.testing.assert_array_equal(made[:, material.categorical], material.rows[:5, material.categorical])
    assert np.array_equal(made[:, 0], np.round(made[:, 0]))


def test_a_target_is_taken_out_of_a_frame() -> None:
    material = material_of(frame(), target="member", drop=["age"])
    assert material.facts.columns == 2
    assert material.facts.target == "member"
    assert material.y is not None
    assert len(material.y) == 90


def test_text_infinite_values_and_few_rows_are_refused() -> None:
    text = frame().assign(note=[f"remark {i}" for i in range(90)])
    with pytest.raises(
        InvalidInput, match=r"column 'note' cannot be learned from \(text.* distinct values\); leave it out"
    ):
        material_of(text)
    assert material_of(text, drop=["note"]).facts.columns == 4
    gaps = frame()
    gaps.loc[3, "income"] = np.inf
    with pytest.raises(InvalidInput, match="1 rows hold infinite values, first in column 'income'"):
        material_of(gaps)
    X = np.zeros((60, 2))
    X[1, 1] = np.inf
    with pytest.raises(InvalidInput, match="first in column 1"):
        material_of(X)
    with pytest.raises(InvalidInput, match="there are 49 rows; at least 50"):
        material_of(np.zeros((49, 2)))


@pytest.mark.parametrize(
    ("X", "y", "text"),
    [
        (None, None, "there is no data"),
        (np.zeros((60, 2, 2)), None, "X has shape"),
        (np.full((60, 2), "a"), None, "not numbers"),
        (np.zeros((60, 2)), np.zeros(59), "X has 60 rows and y has 59"),
        (np.zeros((60, 2)), np.zeros((60, 2)), "one label a row"),
        ("digitz", None, "did you mean 'digits'"),
    ],
)
def test_what_is_no_data_is_refused(X: Any, y: Any, text: str) -> None:
    with pytest.raises(InvalidInput, match=text):
        material_of(X, y)


def test_the_fingerprint_follows_the_data() -> None:
    X = np.random.default_rng(0).normal(size=(60, 2))
    one = material_of(X).digest()
    assert one == material_of(X.copy()).digest()
    assert one != material_of(X + 1e-12).digest()
    assert one != material_of(X, np.arange(60) % 2).digest()


def test_split_carries_the_labels() -> None:
    y = np.arange(100) % 3
    material = material_of(np.arange(200.0).reshape(100, 2), y)
    parts = split(material, 0.3, 0)
    assert parts.fit_y is not None
    np.testing.assert_array_equal(parts.fit_y, (parts.fit[:, 0] / 2) % 3)
    assert parts.n == 15
