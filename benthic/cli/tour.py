"""What ``benthic demo`` does: fit, judge, look, and write it all into one page."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import benthic
from benthic.base.estimate import Estimate, mean_of
from benthic.base.seeds import np_generator
from benthic.base.threads import one_torch_thread
from benthic.cli import console
from benthic.cli.figures import Picture, pictures_of
from benthic.cli.inputs import Inputs, open_data, split
from benthic.cli.report import Number, Page
from benthic.cli.work import label, note
from benthic.data.toys import toy
from benthic.metrics.density import bits_per_dimension, log_likelihood
from benthic.metrics.judging import Measure, measures
from benthic.metrics.regression import rmse
from benthic.pictures.canvas import new_figure
from benthic.pictures.grids import image_grid, scatter_map
from benthic.pictures.plane import box_around, density_map, ellipses

Rows = list[tuple[Any, ...]]  # model, data, what was measured, value, remark, seconds


@dataclass
class Chapter:
    """One part of the report."""

    title: str
    text: str
    rows: Rows = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)

    def add(self, model: Any, data: str, found: list[Measure], seconds: float) -> None:
        """Rows of the table for one model."""
        name = model if isinstance(model, str) else type(model).__name__
        for i, m in enumerate(found):
            spent = f"{seconds:.1f}\u00a0s" if i == 0 else ""
            self.rows.append((name, data, label(m), Number(m.value, m.stderr), note(m), spent))


def run(out: Path, json: bool) -> None:
    """Fit everything, print the table, write the report."""
    begin = time.perf_counter()
    chapters = []
    with one_torch_thread():  # models this small gain nothing from a second core, and lose much where it is not free
        for make in (_digits, _diabetes, _moons, _codes):
            console.say(str(make.__doc__))
            chapters.append(make())
    seconds = time.perf_counter() - begin
    _page(chapters, seconds).write(out)
    rows = [row for chapter in chapters for row in chapter.rows]
    if json:
        names = ("model", "data", "measure", "value", "stderr", "note")
        plain = [dict(zip(names, (*row[:3], row[3].value, row[3].stderr, row[4]), strict=True)) for row in rows]
        console.as_json({"report": str(out), "seconds": round(seconds, 1), "results": plain})
        return
    console.table(("model", "data", "measure", "held-out value", "", "fit"), _merged(rows))
    print(f"\n{out}: written after {seconds:.0f} s; open it in a browser")


def _page(chapters: list[Chapter], seconds: float) -> Page:
    page = Page(
        "Benthic: a first look",
        "Models of four families on bundled data, each fitted with one call and judged on rows it never saw.",
    )
    page.heading(
        "All numbers",
        "Every value is followed by its standard error over the held-out rows. A likelihood says how it was "
        f"obtained, since a bound and an exact value are not the same thing. Made in {seconds:.0f} s.",
    )
    columns = ("model", "data", "measure", "value ± standard error", "", "fit")
    page.table(columns, _merged([row for chapter in chapters for row in chapter.rows]))
    for chapter in chapters:
        page.heading(chapter.title, chapter.text)
        page.pictures(chapter.pictures)
    return page


def _merged(rows: Rows) -> Rows:
    """Rows without the model and data that the row above has too."""
    pairs = zip([("", ""), *(row[:2] for row in rows)], rows, strict=False)
    return [("", "", *row[2:]) if row[:2] == above else row for above, row in pairs]


def _timed(fit: Callable[[], Any]) -> tuple[Any, float]:
    begin = time.perf_counter()
    model = fit()
    return model, time.perf_counter() - begin


# -- classes and numbers -------------------------------------------------------------------------------


def _digits() -> Chapter:
    """Handwritten digits: LogisticRegression and MLPClassifier."""
    chapter = Chapter(
        "Which digit is it?",
        "1797 pictures of 8 × 8 pixels. A linear model and a network with one hidden layer answer the same "
        "question; both give probabilities, so they are judged by how sure they were as well as by whether they "
        "were right.",
    )
    fit, test = _parts("digits", labels=True)
    models = (
        benthic.LogisticRegression(C=3),
        benthic.MLPClassifier((64,), trainer={"epochs": 40, "lr": 2e-3}, random_state=0),
    )
    for model in models:
        _, seconds = _timed(lambda model=model: model.fit(fit.X, fit.y))
        chapter.add(model, "digits", measures(model, test.X, test.y), seconds)
        chapter.pictures += _named(model, [p for p in pictures_of(model, test) if p.name in ("roc", "confusion")])
    return chapter


def _diabetes() -> Chapter:
    """Diabetes: MLPRegressor."""
    chapter = Chapter(
        "How does a disease go on?",
        "442 patients, ten measurements, and a number that says how far diabetes had progressed a year later. There "
        "are few rows and much noise, so a small network with a strong penalty does best, and the errors are wide.",
    )
    fit, test = _parts("diabetes")
    model = benthic.MLPRegressor((16,), alpha=0.3, trainer={"epochs": 60, "lr": 5e-3}, random_state=0)
    _, seconds = _timed(lambda: model.fit(fit.X, fit.y))
    chapter.add(model, "diabetes", measures(model, test.X, test.y), seconds)
    chapter.pictures += _named(model, pictures_of(model, test))
    return chapter


# -- a density in the plane ----------------------------------------------------------------------------


def _moons() -> Chapter:
    """Two moons: GaussianMixture, exact density and imputation."""
    chapter = Chapter(
        "What is the density, and what is missing?",
        "Two half moons whose true density is known, so the best possible log-likelihood is known too. A mixture of "
        "twelve Gaussians comes close. Because its conditionals are exact, it also fills in what is missing.",
    )
    truth = toy("moons")
    train, test = truth.sample(3000, seed=1), truth.sample(2000, seed=2)
    model, seconds = _timed(lambda: benthic.GaussianMixture(12, random_state=0).fit(train))
    chapter.add(model, "moons", measures(model, test), seconds)
    best = mean_of(truth.log_prob(test))
    chapter.rows.append(("the truth", "moons", "log likelihood, exact", Number(*best), "the most one can reach", ""))
    holes = test.copy()
    holes[:, 1] = np.nan
    for name, filled in (
        ("GaussianMixture", model.impute(holes)[:, 1]),
        ("column mean", np.full(2000, train[:, 1].mean())),
    ):
        error = Number(*rmse(test[:, 1], filled))
        chapter.rows.append((name, "moons, y hidden", "rmse of the filled y", error, "lower is better", ""))
    chapter.pictures += [_learned(model, truth, test), _filled(model, holes, test)]
    return chapter


def _learned(model: Any, truth: Any, points: np.ndarray) -> Picture:
    figure, both = new_figure(8.6, 3.7, 1, 2, sharex=True, sharey=True)
    box = box_around(points)
    for axes, log_prob, title in zip(both, (truth.log_prob, model.log_prob), ("true density", "learned"), strict=True):
        density_map(axes, log_prob, box)
        axes.set_title(title)
    ellipses(both[1], model.means_, model.covariances_, model.weights_)
    text = (
        "Left the density the points were drawn from, right the one that was learned (strong color is likely), with "
        "one and two standard deviations of every component."
    )
    return Picture("mixture", "GaussianMixture: Density and components", text, figure)


def _filled(model: Any, holes: np.ndarray, truth: np.ndarray) -> Picture:
    some = np.argsort(holes[:300, 0])
    figure, axes = new_figure(8.6, 3.7)
    axes.scatter(truth[:, 0], truth[:, 1], s=4, color="0.75", linewidth=0, label="truth")
    drawn = model.sample(len(some), given=holes[some], seed=0)
    axes.scatter(drawn[:, 0], drawn[:, 1], s=9, linewidth=0, label="drawn given x")
    mean = model.impute(holes[some])
    axes.plot(mean[:, 0], mean[:, 1], color="C1", linewidth=1.5, label="imputed: expected y given x")
    axes.legend(frameon=False, fontsize="small")
    axes.set(xlabel="x, given", ylabel="y, hidden")
    text = (
        "The second coordinate was hidden. Imputation gives its expectation, which may lie between the moons; draws "
        "given the first coordinate land on the moons."
    )
    return Picture("imputation", "GaussianMixture: Filling in what is missing", text, figure)


# -- pictures and their codes --------------------------------------------------------------------------


def _codes() -> Chapter:
    """Digits again: VAE and GaussianMixture as densities."""
    chapter = Chapter(
        "Can it draw digits?",
        "The same digits without their labels. A variational autoencoder learns a code for pictures and how to "
        "draw from it. Pixels are 17 levels of gray, so a uniform step of noise is added before densities are "
        "compared; bits a pixel are then comparable between models, lower is better.",
    )
    plain, held = _parts("digits", labels=True)
    fit, test = (_spread(part) for part in (plain, held))
    vae = benthic.VAE(16, trainer={"epochs": 80}, random_state=0)
    _, seconds = _timed(lambda: vae.fit(fit.X))
    _likelihoods(chapter, vae, test.X, seconds, ("elbo", "importance(64)", "importance(512)"))
    mixture, seconds = _timed(lambda: benthic.GaussianMixture(10, reg_covar=1e-3, random_state=0).fit(fit.X))
    _likelihoods(chapter, mixture, test.X, seconds, ("exact",))
    codes = [p for p in pictures_of(vae, test) if p.name == "reconstructions"]
    chapter.pictures += [_drawn(vae), _map(fit, test), *_named(vae, codes), _halves(vae, test)]
    return chapter


def _likelihoods(chapter: Chapter, model: Any, X: np.ndarray, seconds: float, kinds: tuple[str, ...]) -> None:
    name = type(model).__name__
    for i, kind in enumerate(kinds):
        found = model.likelihood(X, method=kind)
        nats = log_likelihood(found)
        bits = bits_per_dimension(nats, X.shape[1], level=1 / 17)
        m = Measure("log_likelihood", nats.value, nats.stderr, "higher", found.kind, found.bound)
        remark = f"{'lower bound' if found.bound == 'lower' else found.bound}; {_short(bits)} bits a pixel"
        spent = f"{seconds:.1f}\u00a0s" if i == 0 else ""
        chapter.rows.append((name, "digits", label(m), Number(m.value, m.stderr), remark, spent))


def _short(found: Estimate) -> str:
    return f"{found.value:.3f} ± {found.stderr:.3f}"


def _drawn(model: Any) -> Picture:
    """New pictures without the noise of single pixels."""
    codes = np_generator(0, "codes").normal(size=(50, model.latent_dim))
    text = "New digits: what the model expects to see for 50 random codes. None of them is in the data."
    return Picture("samples", "VAE: New digits", text, image_grid(model.decode(codes).reshape(50, 8, 8)))


def _halves(model: Any, rows: Inputs) -> Picture:
    """Pictures with their lower half hidden, filled, and as they were."""
    pictures = np.asarray(rows.X[10:20])
    holes = pictures.copy().reshape(10, 8, 8)
    holes[:, 4:] = np.nan
    filled = model.impute(holes.reshape(10, 64))
    stack = np.concatenate([np.nan_to_num(holes, nan=0.0), filled.reshape(10, 8, 8), pictures.reshape(10, 8, 8)])
    text = "Above what was given, in the middle the lower half filled in by the model, below the truth."
    return Picture("halves", "VAE: The lower half imputed", text, image_grid(stack, columns=10))


def _map(fit: Inputs, test: Inputs) -> Picture:
    model = benthic.VAE(2, trainer={"epochs": 80}, random_state=0).fit(fit.X)
    text = (
        "A second autoencoder with only two numbers a picture: each held-out digit at its code, colored by "
        "the label, which the model never saw."
    )
    return Picture("latent", "VAE: Map of the codes", text, scatter_map(model.encode(test.X), test.y))


# -- data ----------------------------------------------------------------------------------------------


def _parts(name: str, *, labels: bool = False) -> tuple[Inputs, Inputs]:
    rest, held = split(open_data(name), 0.25, 0, labels=labels)
    return rest, rest if held is None else held


def _spread(rows: Inputs) -> Inputs:
    """Gray levels 0/16 ... 16/16 as numbers spread evenly over steps of 1/17 of (0, 1)."""
    noise = np_generator(0, "spread", rows.rows).random(rows.X.shape)
    return replace(rows, X=(np.rint(rows.X * 16) + noise) / 17)


def _named(model: Any, pictures: list[Picture]) -> list[Picture]:
    return [replace(picture, title=f"{type(model).__name__}: {picture.title}") for picture in pictures]
