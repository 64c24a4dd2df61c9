"""The demo compares every family on digits, works on a table, and writes one page."""

from __future__ import annotations

import re

import numpy as np
import pytest

from benthic.cli import tour, tour_table
from benthic.pictures.marginals import columns_of
from tests.cli.conftest import call

FAMILIES = ("GaussianMixture", "VAE", "WGAN", "spline flow", "DDPM", "PoissonFlow")


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The demo with half a second a fit."""
    out = tmp_path_factory.mktemp("demo") / "page.html"
    return call("demo", "--out", out, "--json", "--budget", "0.4s", "--seeds", "1", "--jobs", "0").ok().json, out


@pytest.mark.spec("I-03")
def test_every_family_takes_part_and_the_planted_copier_is_found_out(small):
    answer, _ = small
    lines = {line["name"]: line for line in answer["digits"]["lines"]}
    assert set(FAMILIES) <= set(lines)
    assert all(lines[name]["status"] in ("ok", "out of budget") for name in FAMILIES)  # a machine may be busy
    assert sum(lines[name]["ranked"] for name in FAMILIES) >= 4
    copier = lines["memorizer"]
    assert not copier["ranked"]
    assert "memorizes" in [finding["kind"] for finding in copier["findings"]]
    assert any("memorizer" in sentence for sentence in answer["digits"]["verdict"])


def test_the_page_is_self_contained_and_has_both_parts(small):
    answer, out = small
    page = out.read_text()
    assert not re.search(r"""(src|href)\s*=\s*["'](?!data:)""", page)
    assert page.count("data:image/png;base64,") >= 9
    for words in ("Which model draws digits?", "columns of every type", "Latent maps", "What is missing", *FAMILIES):
        assert words in page
    assert answer["try"] in page
    assert answer["report"] == str(out)


def test_gaps_are_filled_better_than_column_by_column(small):
    answer, _ = small
    by_column: dict[str, dict[str, dict]] = {}
    for row in answer["filled"]:
        by_column.setdefault(row["column"], {})[row["model"]] = row
    assert list(by_column) == ["district", "rooms", "area", "built", "elevator", "rent"]
    for name, found in by_column.items():
        sign = 1 if found["VAE"]["measure"] == "share right" else -1
        gain = sign * (found["GaussianMixture"]["value"] - found["column by column"]["value"])
        assert gain > 2 * found["GaussianMixture"]["stderr"], name


def test_classifiers_of_flats_beat_the_dummy(small):
    lines = {line["name"]: line for line in small[0]["classify"]["lines"]}
    best = lines[small[0]["classify"]["best"]]["scores"]["log_loss"]
    assert best["value"] + 2 * best["stderr"] < lines["dummy"]["scores"]["log_loss"]["value"]


def test_new_rows_are_like_the_table_that_was_given(small):
    table, _ = tour_table.flats(50)
    rows = small[0]["drawn"]
    assert [list(row) for row in rows] == [table.column_names] * 6
    for name, values in columns_of(table).items():
        kinds = {type(value) for value in values}
        assert {type(row[name]) for row in rows} == kinds
    assert {row["district"] for row in rows} <= {"harbor", "center", "hills", "suburb"}


def test_hidden_cells_are_judged_where_they_were_hidden():
    table, _ = tour_table.flats(400, seed=3)
    holes = tour_table.hide(table, 0.25)
    share = np.mean([holes.column(name).null_count / 400 for name in table.column_names])
    assert abs(share - 0.25) < 4 * np.sqrt(0.25 * 0.75 / 2400)
    truth, half = columns_of(table), columns_of(table)
    half["rent"] = [value + 100.0 for value in half["rent"]]
    found = {name: answers for name, _, answers in tour_table.judge_filled(table, holes, {"right": truth, "off": half})}
    assert all(
        answers["right"].value == (1.0 if name in ("district", "elevator") else 0.0) for name, answers in found.items()
    )
    assert found["rent"]["off"].value == pytest.approx(100 / np.std(truth["rent"]))


def test_the_models_of_the_demo_are_in_the_catalogue():
    from benthic import catalogue

    models = tour.models()
    assert len(models) == 7
    assert all(type(model).__name__ in catalogue() for name, model in models.items() if name != "memorizer")


@pytest.mark.slow
def test_digits_of_the_whole_demo_can_be_read(tmp_path):
    """A classifier of real digits is sure of samples of four families clearly more often than of one Gaussian's."""
    from benthic import MLPClassifier
    from benthic.cli.contest import budget_of
    from benthic.data import load

    X, y = load("digits").X, load("digits").y
    judge = MLPClassifier((64,), trainer={"epochs": 40, "lr": 2e-3}, random_state=0).fit(X, y)
    found, labels = tour.digits(budget_of("12s"), 1, 2, tmp_path)
    assert labels is not None and len(labels) == len(found.real)

    def sure(name: str) -> float:
        chances = judge.predict_proba(np.clip(np.asarray(found.samples(name)).reshape(-1, 64), 0, 1))
        every = len(np.unique(chances.argmax(1))) == 10
        return float((chances.max(1) > 0.9).mean()) if every else 0.0

    shares = {name: sure(name) for name in (*FAMILIES, "one Gaussian")}
    error = np.sqrt(0.25 / len(found.samples("VAE")))  # at most, of a share
    better = [name for name in FAMILIES if shares[name] > shares["one Gaussian"] + 2 * error]
    assert len(better) >= 4, shares
