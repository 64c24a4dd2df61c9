"""The numbers by which samples are judged, against the metrics of the house and against leaving rows out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import ks_2samp
from torch import Tensor, nn

from benthic import metrics
from benthic.base.errors import InvalidInput
from benthic.leaderboard.contest import rowwise
from benthic.leaderboard.contest.judging import METRICS, Court, metrics_of
from benthic.leaderboard.contest.labels import choose
from benthic.leaderboard.contest.material import material_of
from benthic.leaderboard.contest.protocol import Split, split
from benthic.leaderboard.contest.spaces import space_of

N = 60
SINGLE = tuple(slice(j, j + 1) for j in range(3))
NUMBERS = np.zeros(3, dtype=bool)

WAYS: dict[str, Callable[[Tensor, Tensor], rowwise.Rowwise]] = {
    "frechet": rowwise.frechet_rows,
    "kernel": rowwise.kernel_rows,
    "energy": rowwise.energy_rows,
    "wasserstein": rowwise.wasserstein_rows,
    "marginals": lambda X, Y: rowwise.marginal_rows(X, Y, SINGLE, NUMBERS),
    "associations": lambda X, Y: rowwise.association_rows(X, Y, SINGLE),
}


def samples(n: int = N, shift: float = 0.5) -> tuple[Tensor, Tensor]:
    source = torch.Generator().manual_seed(0)
    mix = torch.tensor([[1.0, 0.6, 0.0], [0.0, 1.0, -0.3], [0.0, 0.0, 1.0]], dtype=torch.float64)
    X, Y = (torch.randn(n, 3, generator=source, dtype=torch.float64) for _ in range(2))
    return X @ mix, 1.3 * Y + shift


def test_values_agree_with_the_metrics_of_the_house() -> None:
    X, Y = samples()
    assert rowwise.frechet_rows(X, Y).value == pytest.approx(metrics.frechet_distance(X, Y).value, rel=1e-9)
    assert rowwise.kernel_rows(X, Y).value == pytest.approx(metrics.kernel_distance(X, Y).value, rel=1e-9)
    house = metrics.marginal_distances(X.numpy(), Y.numpy()).mean.value
    assert WAYS["marginals"](X, Y).value == pytest.approx(house, abs=1e-12)
    assert house == pytest.approx(np.mean([ks_2samp(X[:, j], Y[:, j]).statistic for j in range(3)]), abs=1e-12)
    house = metrics.association_distances(X.numpy(), Y.numpy()).mean.value
    assert WAYS["associations"](X, Y).value == pytest.approx(house, abs=1e-12)
    line = metrics.sliced_wasserstein(X[:, :1], Y[:, :1], 1)
    assert rowwise.wasserstein_rows(X[:, :1], Y[:, :1]).value == pytest.approx(line.value, rel=1e-12)
    far = torch.pdist(X).mean(), torch.pdist(Y).mean(), torch.cdist(X, Y).mean()
    assert rowwise.energy_rows(X, Y).value == pytest.approx(float(2 * far[2] - far[0] - far[1]), rel=1e-9)


def test_overlap_agrees_with_the_house() -> None:
    X, Y = samples(120)
    house, found = metrics.prdc(X, Y, 5), rowwise.overlap_rows(X, Y, 5)
    for name in ("precision", "recall", "density", "coverage"):
        assert getattr(found, name).value == pytest.approx(getattr(house, name).value, abs=1e-12)


def test_categories_are_compared_by_total_variation() -> None:
    X, Y = (torch.tensor(rows, dtype=torch.float64) for rows in ([[1.0, 0.0]] * 4, [[1.0, 0.0]] + [[0.0, 1.0]] * 3))
    found = rowwise.marginal_rows(X, Y, (slice(0, 2),), np.array([True, True]))
    assert found.value == pytest.approx(0.75)


@pytest.mark.parametrize("name", WAYS)
def test_influences_are_what_leaving_rows_out_shows(name: str) -> None:
    """To first order the jackknife's (n - 1) (m - m without row i) is the influence; they differ by O(1/n)."""
    X, Y = samples(120)
    way = WAYS[name]
    found = way(X, Y)
    for side, influences in (("real", found.of_real), ("made", found.of_made)):
        left = []
        for i in range(len(X)):
            keep = torch.arange(len(X)) != i
            parts = (X[keep], Y) if side == "real" else (X, Y[keep])
            left.append((len(X) - 1) * (found.value - way(*parts).value))
        assert abs(float(influences.mean())) < 1e-9
        numbers = torch.tensor(left, dtype=torch.float64)
        assert float(torch.corrcoef(torch.stack([numbers, influences]))[0, 1]) > 0.97
        assert float(influences.std() / numbers.std()) == pytest.approx(1, abs=0.15)


def test_potentials_move_the_wasserstein_distance_as_weights_do() -> None:
    """On a line, against quadrature of |F - G| with one row weighing a little more and a little less."""
    X, Y = (side[:, :1] for side in samples(50))
    found = rowwise.wasserstein_rows(X, Y)
    points = torch.cat([X, Y])[:, 0].sort().values
    step = 1e-5

    def distance(weights: Tensor) -> float:
        F = (weights[:, None] * (points[:-1] >= X)).sum(0) / weights.sum()
        G = (points[:-1] >= Y).double().mean(0)
        return float(((F - G).abs() * points.diff()).sum())

    assert distance(torch.ones(50, dtype=torch.float64)) == pytest.approx(found.value, rel=1e-9)
    for i in (0, 7, 23):
        nudge = step * torch.nn.functional.one_hot(torch.tensor(i), 50).double()
        slope = (distance(1 + nudge) - distance(1 - nudge)) / (2 * step) * 50
        assert slope == pytest.approx(float(found.of_real[i]), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("name", [*WAYS, "coverage", "precision"])
def test_errors_from_influences_match_fresh_samples(name: str) -> None:
    """The standard error from influences against the spread of the metric over 60 fresh pairs of samples."""
    values, errors = [], []
    for seed in range(60):
        source = torch.Generator().manual_seed(seed)
        X, Y = (torch.randn(150, 3, generator=source, dtype=torch.float64) for _ in range(2))
        Y = Y + torch.tensor([0.8, 0.0, -0.4], dtype=torch.float64)
        Y[:, 1] = 0.8 * Y[:, 0] + 0.6 * Y[:, 1]
        overlap = rowwise.overlap_rows(X, Y)
        found = WAYS[name](X, Y) if name in WAYS else getattr(overlap, name)
        values.append(found.value)
        errors.append(float(found.of_real.var() / 150 + found.of_made.var() / 150) ** 0.5)
    # the spread of 60 values is known to about 10 %; coverage keeps its radii fixed and is rougher
    assert np.mean(errors) / np.std(values) == pytest.approx(1, abs=0.5 if name in ("coverage", "precision") else 0.3)


def test_trees_tell_apart_what_differs_and_nothing_else() -> None:
    source = torch.Generator().manual_seed(0)
    X, same, other = (torch.randn(300, 2, generator=source, dtype=torch.float64) for _ in range(3))
    null = rowwise.detection_rows(X, same)
    error = float(null.of_real.var() / 300 + null.of_made.var() / 300) ** 0.5
    # of 150 and 150 judged rows the area has the error sqrt((n + m + 1) / (12 n m)) if nothing differs (Mann & Whitney)
    assert error == pytest.approx((301 / (12 * 150 * 150)) ** 0.5, rel=0.15)
    assert abs(null.value - 0.5) < 4 * error
    circle = other / other.norm(dim=1, keepdim=True)  # the same mean and spread, another law
    assert rowwise.detection_rows(X, circle).value > 0.8


def test_names_of_metrics_are_checked() -> None:
    table, digits = material_of(np.random.default_rng(0).normal(size=(60, 2))), material_of("digits")
    assert "energy" in metrics_of(None, table)
    assert "frechet" in metrics_of(None, digits)
    assert "associations" not in metrics_of(None, material_of(np.arange(60.0)[:, None]))
    assert set(METRICS) >= set(metrics_of(None, table))
    with pytest.raises(InvalidInput, match="there is no metric 'frechett'; did you mean 'frechet'"):
        metrics_of(["frechett"], table)
    with pytest.raises(InvalidInput, match="none twice"):
        metrics_of(["energy", "energy"], table)


def test_the_floor_is_small_and_copies_are_found() -> None:
    X = np.random.default_rng(0).normal(size=(1200, 2))
    material = material_of(X)
    parts = split(material)
    court = Court(material, parts, space_of(None, material, parts), ("energy", "wasserstein"))
    floor = court.floor
    assert floor.p_value > 0.01
    assert floor.copies < 0.1
    copier = court.judge(parts.fit[: parts.n])
    assert copier.ratio == 0
    assert copier.p_value <= 0.005
    assert copier.copies == 1
    narrow = court.judge(0.01 * X[: parts.n])
    assert narrow.spread < 0.05
    assert narrow.scores["coverage"].value < 0.2
    assert narrow.scores["energy"].value > 10 * abs(floor.scores["energy"].value)
    same = court.judge(np.repeat(parts.first[:1], parts.n, 0))
    assert same.distinct == 1 / parts.n


@pytest.mark.parametrize("features", [None, "raw", "pca", "random", "classifier"])
def test_spaces_of_pictures_are_small_and_finite(features: Any) -> None:
    material = material_of("digits")
    parts = split(material)
    space = space_of(features, material, parts)
    seen = space(parts.first)
    assert seen.shape[0] == parts.n
    assert 2 <= seen.shape[1] <= parts.n // 8
    assert bool(torch.isfinite(seen).all())
    assert float(seen.var(0).sum()) / seen.shape[1] == pytest.approx(1, abs=0.5)


def test_a_classifier_is_the_choice_where_it_has_learned_from_labels() -> None:
    material = material_of("digits")
    space = space_of(None, material, split(material))
    assert space.name == "random filters"
    assert "179 labeled rows are too few" in space.reason
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 4))
    kinds = {"product": (X[:, 0] * X[:, 1] > 0), "nothing": rng.random(1200) < 0.5}  # no line tells the first apart
    found = {name: choose(Split(X, X, X, X, None, y.astype(int))) for name, y in kinds.items()}
    assert found["product"].features == "classifier"
    assert found["nothing"].features == "random"
    assert "no more than a line" in found["nothing"].reason


class Wrong(nn.Module):
    """A network for pictures of another size."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(28 * 28, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x.flatten(1))


@pytest.mark.parametrize(
    ("features", "text"),
    [
        (Wrong(), r"Wrong does not take a batch of shape \(\d+, 1, 8, 8\)"),
        (lambda x: x.flatten(1) @ torch.zeros(3, 3, dtype=x.dtype), r"features do not take rows of shape \(1, 8, 8\)"),
        (lambda x: x[:3], "features gave shape"),
        (lambda x: torch.full((len(x), 2), torch.nan), "features hold NaN"),
        ("classifyer", "did you mean 'classifier'"),
        (3, "features is 3"),
    ],
)
def test_features_that_do_not_fit_are_refused(features: Any, text: str) -> None:
    material = material_of("digits")
    with pytest.raises(InvalidInput, match=text):
        space_of(features, material, split(material))


def test_features_that_need_labels_or_pictures_say_so() -> None:
    table = material_of(np.random.default_rng(0).normal(size=(60, 2)))
    with pytest.raises(InvalidInput, match="needs labels"):
        space_of("classifier", table, split(table))
    with pytest.raises(InvalidInput, match="filters of pictures"):
        space_of("random", table, split(table))


def test_a_given_network_is_used() -> None:
    material = material_of("digits")
    parts = split(material)
    space = space_of(nn.Sequential(nn.Flatten(), nn.Linear(64, 6)), material, parts)
    assert space(parts.first).shape == (parts.n, 6)
