"""The report says what the comparison says, shows it, and loads nothing from elsewhere."""

from __future__ import annotations

import base64
import dataclasses
import io
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import benthic
from benthic.data import load
from benthic.leaderboard.contest.records import Outcome
from benthic.leaderboard.contest.showing import charts, gallery, maps
from benthic.leaderboard.contest.showing.cells import tags_of
from benthic.leaderboard.contest.showing.page import report_page, write_report
from tests.leaderboard.contest import made_up

OUTSIDE = re.compile(r"""(src|href)\s*=\s*["'](?!data:)|url\(|@import|<script|<link""")


class Reader(HTMLParser):
    """Text of a page by section, and whether its tags are closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.sections: dict[str, str] = {}
        self.title = ""
        self.pictures: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        if tag == "img":
            self.pictures.append(dict(attributes)["alt"])
        if tag not in ("meta", "img", "br", "!doctype"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] == ["h2"]:
            self.title = data
        elif "style" not in self.open:
            self.sections[self.title] = self.sections.get(self.title, "") + " " + data


def page_of(comparison) -> tuple[str, Reader]:
    text = report_page(comparison).html()
    assert not OUTSIDE.search(text)
    reader = Reader(text)
    assert not reader.open
    return text, reader


@pytest.fixture(scope="module")
def digits():
    found = made_up.images()
    return dataclasses.replace(found, settings={"image": (8, 8)})


@pytest.mark.spec("I-03")
def test_every_model_is_on_the_page_with_its_numbers_and_its_fate(digits, tmp_path):
    write_report(digits, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    page = Reader(text)
    assert not OUTSIDE.search(text)
    assert "Choose GaussianMixture." in page.sections["What to choose"]
    table = page.sections["All models"]
    for line in digits.lines:
        assert line.name in table
        assert all(finding.text in table for finding in line.findings)
    for words in ("0.10", "0.05 to 0.20", "± 0.03", "60 %", "≥ 60 ± 1", "elbo", "baseline", "collapsed", "not ranked"):
        assert words in table
    wrong = page.sections["What went wrong"]
    assert all(words in wrong for words in ("copies", "it memorizes", "the loss became NaN", "it took 70 s of 12 s"))
    assert "slow &lt;&amp;&gt;" in text and "<&>" not in text
    assert page.pictures == [
        "Scores and ranks",
        "Which metric sees what",
        "Samples",
        "Precision and recall",
        "Quality against time",
        "Log-likelihood",
    ]


def test_pictures_are_pictures(digits):
    from PIL import Image

    text = report_page(digits).html()
    for data in re.findall(r'src="data:image/png;base64,([^"]+)"', text):
        image = Image.open(io.BytesIO(base64.b64decode(data)))
        assert min(image.size) > 150
        ink = np.asarray(image.convert("RGBA"))[..., 3] > 0
        assert 0.005 < ink.mean() < 0.95  # neither empty nor a block


def test_rows_of_the_plane_a_frame_and_classes_have_their_own_pictures():
    rng = np.random.default_rng(0)
    kind = rng.choice(["cat", "dog"], 80)
    weight = np.where(kind == "cat", 4.0, 20.0) + rng.normal(size=80)
    frame = pd.DataFrame({"kind": pd.Categorical(kind), "weight": weight, "price": 10 * weight + rng.normal(size=80)})
    frame["age"] = rng.integers(1, 9, 80)
    frame.loc[3, "price"] = np.nan
    assert {"Samples", "Densities"} <= set(page_of(made_up.plane())[1].pictures)
    pictures = page_of(made_up.table(frame))[1].pictures
    assert {"Samples", "first: columns", "first: pairs of columns"} <= set(pictures)
    assert "second: columns" not in pictures  # it left no samples
    text, page = page_of(made_up.predictors())
    assert page.pictures == ["Scores and ranks", "Which metric sees what", "Metrics"]
    assert "accuracy ↑" in text and "log loss ↓" in text


def test_a_comparison_in_which_nothing_worked_is_still_a_page():
    lost = dataclasses.replace(made_up.images(), verdict=(), metrics=(), outcomes=(), real=None)
    lost = dataclasses.replace(lost, lines=tuple(made_up.broken()[1:]))
    _, page = page_of(lost)
    assert "No model could be ranked" in page.sections["What to choose"]
    assert not page.pictures
    assert "the loss became NaN" in page.sections["What went wrong"]


def test_samples_outside_the_range_or_not_finite_do_not_spoil_the_grid(digits):
    wild = np.full((300, 64), np.nan)
    wild[::2] = 1e6
    outcomes = (*digits.outcomes, Outcome("broken", 3, "not finite", samples=wild))
    figure = gallery.sample_grids(dataclasses.replace(digits, outcomes=outcomes))
    names = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert names == [
        "real, held out",
        "GaussianMixture",
        "spline flow",
        "VAE",
        "WGAN",
        "one Gaussian",
        "copies",
        "broken",
    ]
    for axes in figure.axes:
        for image in axes.images:
            assert image.get_clim() == (0.0, 1.0)
            assert np.isfinite(image.get_array()).all()


def test_color_images_keep_their_colors():
    rng = np.random.default_rng(0)
    images = rng.random((40, 3, 6, 5))
    shown = gallery._images(images, (6, 5))
    assert np.array_equal(shown, images.transpose(0, 2, 3, 1))
    sheet = gallery._mosaic(shown[:20], 0.0, 1.0)
    assert np.allclose(sheet[:6, :5], images[0].transpose(1, 2, 0))
    assert np.allclose(sheet[7:13, :5], images[16].transpose(1, 2, 0))  # the second row begins after sixteen


def test_rank_bars_reach_from_the_lowest_to_the_highest_rank(digits):
    ranks = charts.rank_intervals(digits).axes[1]
    ends = [tuple(bar.get_xdata()) for bar in ranks.lines]
    ranked = [line for line in digits.lines if line.ranked]
    assert ends == [(line.rank_low, line.rank_high) for line in ranked]
    assert charts.rank_intervals(dataclasses.replace(digits, lines=tuple(made_up.broken()))) is None


def test_the_time_plane_joins_exactly_what_nobody_beats(digits):
    figure = charts.quality_against_time(digits)
    dashed = next(line for line in figure.axes[0].lines if line.get_linestyle() == "--")
    lines = [line for line in digits.lines if line.ranked]
    unbeaten = {
        (a.seconds, a.quality)
        for a in lines
        if not any(b.seconds <= a.seconds and b.quality < a.quality for b in lines if b is not a)
    }
    assert set(zip(*dashed.get_data(), strict=True)) == unbeaten


def test_names_in_a_plane_do_not_cover_each_other(digits):
    figure = charts.precision_recall(digits)
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    assert len(boxes) == 7  # six models with samples and the real rows
    for place, box in enumerate(boxes):
        assert not any(charts._overlap(box, other) > 0 for other in boxes[place + 1 :])


def test_a_density_is_the_models_own_where_it_has_one(tmp_path):
    X = load("moons").X
    model = benthic.GaussianMixture(8, random_state=0).fit(X)
    (tmp_path / "first").mkdir()
    model.save(tmp_path / "first" / "model.safetensors")
    plane = made_up.plane()
    outcomes = [dataclasses.replace(o, folder=tmp_path / o.name) for o in plane.outcomes]
    figure = maps.densities(dataclasses.replace(plane, outcomes=tuple(outcomes)))
    assert [axes.get_title() for axes in figure.axes][:2] == ["first", "second (of samples)"]
    image = figure.axes[0].images[0]
    left, right, bottom, top = image.get_extent()
    x, y = np.linspace(left, right, 160), np.linspace(bottom, top, 160)
    points = np.stack([np.full(160, x[40]), y], 1)
    assert np.allclose(image.get_array()[:, 40], np.exp(model.log_prob(points)))


def test_codes_are_mapped_and_slow_ones_are_named(tmp_path, monkeypatch):
    X = load("digits")
    for name, model in (("GaussianMixture", benthic.PCA(8)), ("VAE", benthic.PCA(3))):
        (tmp_path / name).mkdir()
        model.fit(X.X[:300]).save(tmp_path / name / "model.safetensors")
    found = made_up.images()
    outcomes = [dataclasses.replace(o, folder=tmp_path / o.name) for o in found.outcomes]
    found = dataclasses.replace(found, outcomes=tuple(outcomes))
    figure, missing = maps.latent_maps(found, X.y[:400])
    assert [axes.get_title() for axes in figure.axes[:2]] == ["GaussianMixture", "VAE"]
    assert not missing
    drawn = np.concatenate([part.get_offsets() for part in figure.axes[0].collections])
    assert len(figure.axes[0].collections) == 10 and drawn.shape == (400, 2)
    assert drawn[:, 0].std() >= drawn[:, 1].std()
    monkeypatch.setattr(maps, "_PATIENCE", 0.0)
    figure, missing = maps.latent_maps(found)
    assert figure is None
    assert set(missing) == {"GaussianMixture", "VAE"} and all("s a row" in text for text in missing.values())


def test_tags_warn_in_red_and_praise_in_green(digits):
    tones = {line.name: dict(tags_of(line).words) for line in digits.lines}
    assert tones["GaussianMixture"] == {"best": "good"}
    assert tones["WGAN"] == {"collapsed": "bad"}
    assert tones["one Gaussian"] == {"baseline": "plain"}
    assert tones["copies"] == {"memorizes": "bad", "not ranked": "bad"}
    assert tones["broken"] == {"not finite": "bad"}
