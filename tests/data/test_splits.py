from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

from benthic.base.errors import InvalidInput
from benthic.data import folds, train_test

NUMBERS = np.arange(50)
LABELS = np.array(["rare"] * 10 + ["common"] * 40)

KINDS = {
    "numpy": NUMBERS[:, None],
    "torch": torch.from_numpy(NUMBERS)[:, None],
    "pandas": pd.DataFrame({"n": NUMBERS}, index=NUMBERS + 1000),
    "polars": pl.DataFrame({"n": NUMBERS}),
    "lazy": pl.LazyFrame({"n": NUMBERS}),
    "arrow": pa.table({"n": NUMBERS}),
    "list": [[n] for n in NUMBERS.tolist()],
}


def first_column(X) -> np.ndarray:
    if hasattr(X, "columns"):
        return np.asarray(X["n"])
    return np.asarray(X)[:, 0]


@pytest.mark.parametrize("kind", KINDS)
def test_every_row_is_in_exactly_one_part_with_its_label(kind) -> None:
    train, test, y_train, y_test = train_test(KINDS[kind], LABELS, fraction=0.3, seed=1)
    expected = type(KINDS[kind]) if kind != "lazy" else pl.DataFrame
    assert isinstance(train, expected)
    rows = np.concatenate([first_column(train), first_column(test)])
    assert len(first_column(test)) == 15
    np.testing.assert_array_equal(np.sort(rows), NUMBERS)
    np.testing.assert_array_equal(np.concatenate([y_train, y_test]), LABELS[rows])


def test_labels_of_any_kind_are_split_like_rows() -> None:
    for y in (torch.arange(50), pd.Series(NUMBERS), pl.Series(NUMBERS), pa.array(NUMBERS), NUMBERS.tolist()):
        train, test, y_train, y_test = train_test(NUMBERS[:, None], y)
        np.testing.assert_array_equal(np.asarray(y_train), train[:, 0])
        np.testing.assert_array_equal(np.asarray(y_test), test[:, 0])


def test_the_seed_decides() -> None:
    first, second, other = (train_test(NUMBERS[:, None], seed=seed)[1] for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)


def test_stratified_parts_keep_the_shares_of_the_labels() -> None:
    _, _, _, y_test = train_test(NUMBERS[:, None], LABELS, fraction=0.2, stratify=True)
    assert (y_test == "rare").sum() == 2
    for _, test in folds(NUMBERS[:, None], LABELS, k=5, stratify=True):
        assert (LABELS[test] == "rare").sum() == 2


@pytest.mark.parametrize("kind", ["numpy", "pandas", "polars", "arrow"])
def test_folds_judge_every_row_once(kind) -> None:
    pairs = list(folds(KINDS[kind], k=7, seed=2))
    assert len(pairs) == 7
    np.testing.assert_array_equal(np.sort(np.concatenate([test for _, test in pairs])), NUMBERS)
    for train, test in pairs:
        np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), NUMBERS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"fraction": 1.5}, r"fraction is 1\.5; it must lie between 0 and 1"),
        ({"stratify": True}, "stratify needs labels"),
        ({"y": NUMBERS[:3]}, "X has 50 rows and y has 3"),
        ({"y": np.array([1, *[0] * 49]), "stratify": True}, "label 1 has only one row"),
        ({"X": NUMBERS[:1]}, "at least 2"),
    ],
)
def test_bad_splits_say_what_would_work(arguments, message) -> None:
    with pytest.raises(InvalidInput, match=message):
        train_test(**{"X": NUMBERS[:, None], **arguments})


def test_bad_folds_say_what_would_work() -> None:
    with pytest.raises(InvalidInput, match="k is 51, but there are 50 rows"):
        folds(NUMBERS[:, None], k=51)
    with pytest.raises(InvalidInput, match=r"folds: .*number of members in each class"):
        folds(NUMBERS[:, None], np.repeat(np.arange(25), 2), k=5, stratify=True)
