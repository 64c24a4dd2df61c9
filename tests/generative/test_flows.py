"""NormalizingFlow: densities that integrate to one, exact ways there and back, gaps, conditions, bad input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import benthic
from benthic.base.errors import InvalidInput
from benthic.data.toys import toy
from benthic.generative.flows.gaps import Moments, fill_gaps
from benthic.generative.flows.latent_moves import LatentMoves
from benthic.nets.invertible import ActNorm, Chain, LULinear, Radial

pytestmark = pytest.mark.spec("N-03")

KINDS = ("nsf", "nsf_coupling", "realnvp", "glow", "maf", "iaf", "naf", "residual", "planar", "cnf")
SMALL: dict[str, Any] = {"hidden_layer_sizes": (16,), "transforms": 2, "bins": 5, "random_state": 0}
MOONS = toy("moons").sample(400, seed=0)
RNG = np.random.default_rng(0)
COVARIANCE = np.array([[1.0, 0.8, 0.3], [0.8, 2.0, -0.4], [0.3, -0.4, 1.5]])


def fitted(kind: Any = "nsf", X: Any = MOONS, y: Any = None, steps: int = 30, **more: Any) -> Any:
    """A small flow after a few updates."""
    settings = {**SMALL, **more}
    return benthic.NormalizingFlow(kind, trainer={"steps": steps, "lr": 0.01}, **settings).fit(X, y)


def gaussian_flow(width: int = 3, **more: Any) -> Any:
    """The exact law N(0, COVARIANCE), up to the standardization of the columns and a step of no size."""
    X = RNG.multivariate_normal(np.zeros(3), COVARIANCE, size=2000)
    model = benthic.NormalizingFlow(Chain([LULinear(width)]), trainer={"steps": 1, "lr": 1e-12}, random_state=0).fit(X)
    scale, mean = model.scales_.scale, model.scales_.mean
    root = np.linalg.cholesky(COVARIANCE / np.outer(scale, scale))
    layer = LULinear(width, torch.from_numpy(np.linalg.inv(root)))
    with torch.no_grad():
        layer.bias.copy_(torch.from_numpy(np.linalg.solve(root, mean / scale)))
    model.network_.transform = Chain([layer]).float()
    return model


# -- the density -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_the_density_integrates_to_one_and_codes_return(kind: str) -> None:
    model = fitted(kind, MOONS)
    side = np.linspace(-6, 6, 271)
    grid = np.stack(np.meshgrid(side, side, indexing="ij"), -1).reshape(-1, 2)
    if kind in ("cnf", "iaf", "naf"):  # these are slower
        side = np.linspace(-6, 6, 151)
        grid = np.stack(np.meshgrid(side, side, indexing="ij"), -1).reshape(-1, 2)
    mass = np.exp(model.log_prob(grid.astype(np.float32))).astype(float).sum() * (side[1] - side[0]) ** 2
    assert mass == pytest.approx(1.0, abs=1e-3)
    back = model.decode(model.encode(MOONS))
    assert np.abs(back - MOONS).max() < (1e-4 if kind == "cnf" else 1e-8)
    found = model.likelihood(MOONS)
    assert (found.kind, found.bound, found.measure) == ("ode" if kind == "cnf" else "exact", "exact", "density")


@pytest.mark.parametrize("columns", [None, {0: "positive", 1: (0.0, 1.0)}])
def test_log_prob_is_the_change_of_variables(columns: Any) -> None:
    X = np.stack([RNG.exponential(size=200), RNG.beta(2, 3, size=200)], 1)
    model = fitted("nsf", X, columns=columns)
    rows = X[:4]

    def encode(x: torch.Tensor) -> torch.Tensor:
        network = model._network(x)
        return network.encode(model._rows_ready(x, network)[0])[0]

    for row, found in zip(torch.from_numpy(rows), model.log_prob(rows), strict=True):
        jacobian = torch.autograd.functional.jacobian(encode, row[None])[0, :, 0]
        z = encode(row[None])[0]
        expected = -0.5 * (z.square() + np.log(2 * np.pi)).sum() + torch.linalg.slogdet(jacobian).logabsdet
        assert float(found) == pytest.approx(float(expected.detach()), abs=1e-8)
    step = 1e-6
    score = model.grad_log_prob(rows)
    for j in range(2):
        move = step * np.eye(2)[j]
        slope = (model.log_prob(rows + move) - model.log_prob(rows - move)) / (2 * step)
        assert np.allclose(score[:, j], slope, rtol=1e-4, atol=1e-5)


def test_a_bounded_density_integrates_to_one_over_its_range() -> None:
    X = np.stack([RNG.exponential(size=500), RNG.beta(2, 3, size=500)], 1)
    model = fitted("nsf", X, steps=100, columns={0: "positive", 1: (0.0, 1.0)})
    drawn = model.sample(2000, seed=0)
    assert (drawn[:, 0] > 0).all()
    assert ((drawn[:, 1] > 0) & (drawn[:, 1] < 1)).all()
    # by quadrature in log x and in x: mass beyond the ends is below 1e-4
    logs, inner = np.linspace(-14, 5, 700), (np.arange(300) + 0.5) / 300
    grid = np.stack(np.meshgrid(np.exp(logs), inner, indexing="ij"), -1).reshape(-1, 2)
    values = np.exp(model.log_prob(grid)) * grid[:, 0]
    assert values.sum() * (logs[1] - logs[0]) / 300 == pytest.approx(1.0, abs=2e-3)


def test_codes_of_samples_are_standard_normal() -> None:
    model = fitted("maf", steps=100)
    codes = model.encode(model.sample(4000, seed=1))
    error = 1 / np.sqrt(4000)
    assert np.abs(codes.mean(0)).max() < 4 * error
    assert np.abs(codes.var(0) - 1).max() < 4 * error * np.sqrt(2)
    assert abs(np.corrcoef(codes.T)[0, 1]) < 4 * error


def test_the_continuous_kind_is_the_continuous_flow() -> None:
    model = fitted("cnf", steps=5)
    other = benthic.ContinuousFlow((16,), trainer={"steps": 1}, random_state=0).fit(MOONS)
    other.network_, other.scales_ = model.network_.transform.network, model.scales_
    assert np.allclose(other.log_prob(MOONS), model.log_prob(MOONS), atol=1e-9)


# -- grids -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dequantize", ["uniform", "variational"])
def test_masses_of_a_discrete_table_sum_to_one(dequantize: str) -> None:
    pandas = pytest.importorskip("pandas")
    c = RNG.choice(["x", "y", "z"], 400, p=[0.5, 0.3, 0.2])
    frame = pandas.DataFrame({"c": c, "b": (RNG.random(400) < 0.2) | (c == "z")})
    model = fitted("nsf", frame, steps=200, dequantize=dequantize)
    cells = pandas.DataFrame({"c": np.repeat(["x", "y", "z"], 2), "b": [False, True] * 3})
    found = model.likelihood(cells, "importance(1000)")
    assert (found.measure, found.bound) == ("mass", "lower")
    # rows have their own noise, so errors add up in squares
    error = np.sqrt(np.square(np.exp(found.value) * found.stderr).sum())
    assert np.exp(found.value).sum() == pytest.approx(1.0, abs=4 * error + 1e-3)
    assert (model.likelihood(cells, "elbo(1000)").value <= found.value + 1e-9).all()
    shares = frame.groupby(["c", "b"]).size().reindex(pandas.MultiIndex.from_frame(cells), fill_value=0) / 400
    assert np.abs(np.exp(found.value) - shares.to_numpy()).max() < 0.08
    drawn = model.sample(50, seed=0)
    assert set(drawn["c"]) <= {"x", "y", "z"}
    assert (model.reconstruct(frame) == frame).all().all()
    assert not hasattr(model, "log_prob")


def test_errors_of_bounds_average_out_over_rows_and_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row of 300 alike is an independent estimate: their spread is the standard error that each of them says."""
    X = RNG.integers(0, 4, (300, 2)).astype(float)
    model = fitted("maf", X, steps=20, columns={0: "discrete", 1: "discrete"})
    alike = np.tile(X[:1], (300, 1))
    found = model.likelihood(alike, "elbo(32)")
    truth = model.likelihood(X[:1], "elbo(4096)")
    spread = found.value.std()
    # the relative error of a standard deviation of 300 values is 0.04, that of one of 32 draws 0.13, averaged
    assert spread == pytest.approx(np.sqrt(np.square(found.stderr).mean()), rel=0.25)
    assert abs(found.mean() - truth.mean()) < 4 * np.hypot(spread / np.sqrt(300), truth.stderr[0])
    monkeypatch.setattr("benthic.generative.flows.filling._ROWS", 37)
    np.testing.assert_allclose(model.likelihood(alike, "elbo(32)").value, found.value, rtol=1e-9)


def test_mixed_columns_are_filled_and_come_back(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    c = RNG.choice(["x", "y"], 300)
    frame = pandas.DataFrame({"a": RNG.normal(size=300) + 6 * (c == "x"), "n": RNG.poisson(3, 300), "c": c})
    model = fitted("nsf", frame, steps=200)
    assert model.likelihood(frame).measure == "density"
    gaps = pandas.DataFrame({"a": [6.0, 0.0, np.nan], "n": [3, 2, 4], "c": [None, None, "x"]})
    filled = model.impute(gaps)
    assert filled["c"].tolist()[:2] == ["x", "y"]
    assert abs(filled["a"][2] - 6) < 1.0
    drawn = model.sample(200, seed=0)
    assert (drawn["n"] == drawn["n"].round()).all()
    loaded = benthic.load(model.save(tmp_path / "flow.safetensors"))
    assert np.array_equal(loaded.likelihood(frame).value, model.likelihood(frame).value)


@pytest.mark.parametrize(("kind", "dequantize"), [("glow", "uniform"), ("nsf_coupling", "variational")])
def test_pictures(kind: str, dequantize: str, tmp_path: Path) -> None:
    from sklearn.datasets import load_digits

    pictures = load_digits().images[:200, None].astype(np.float32)
    settings = {"transforms": 1, "channels": 8, "levels": 17, "dequantize": dequantize}
    model = fitted(kind, pictures, steps=20, **settings)
    found = model.likelihood(pictures[:20])
    assert (found.kind, found.measure) == ("elbo", "mass")
    assert -found.mean() / 64 / np.log(2) < np.log2(17)  # bits a pixel: better than no model
    assert (model.likelihood(pictures[:20], "importance(16)").value >= found.value - 1e-4).all()
    assert np.array_equal(model.reconstruct(pictures[:20]), pictures[:20])
    drawn = model.sample(3, seed=0)
    assert drawn.shape == (3, 1, 8, 8)
    assert set(np.unique(drawn)) <= set(range(17))
    loaded = benthic.load(model.save(tmp_path / "flow.safetensors"))
    assert np.array_equal(loaded.sample(3, seed=0), drawn)
    with pytest.raises(InvalidInput, match=r"lies on the grid 0, 1, ..., 16, but X has 0\.5"):
        model.likelihood(np.full((1, 1, 8, 8), 0.5, np.float32))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("sides", [(1, 1), (2, 2), (5, 3), (7, 7), (9, 9)])
def test_pictures_whose_sides_cannot_be_halved(sides: tuple[int, int], channels: int) -> None:
    pictures = np.random.default_rng(0).integers(0, 4, (100, channels, *sides)).astype(np.float32)
    for kind in ("glow", "realnvp", "nsf_coupling"):
        model = fitted(kind, pictures, steps=3, channels=4, levels=4)
        assert model._facts()["scales"] == 1
        assert np.isfinite(model.likelihood(pictures[:3]).value).all()
        assert np.array_equal(model.reconstruct(pictures[:20]), pictures[:20])
        assert model.sample(2, seed=0).shape == (2, channels, *sides)


def test_advice_about_scales_is_good() -> None:
    """Padded as told, the pictures have as many scales as were asked for."""
    for side, scales in ((7, 2), (8, 3)):
        with pytest.raises(InvalidInput, match="multiples of") as caught:
            fitted("glow", np.zeros((4, 1, side, side), np.float32), scales=scales)
        least = int(str(caught.value).split("and ")[-1].split()[0])
        padded = np.zeros((4, 1, least, least), np.float32)
        settings = {"transforms": 1, "channels": 2, "levels": 2, "scales": scales}
        assert fitted("glow", padded, steps=1, **settings)._facts()["scales"] == scales


def test_a_checkerboard_learns_what_neighbors_have_in_common() -> None:
    """Pixels that are sums of shared noise: the flow comes near their entropy, which independent pixels cannot."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(2, 600, 1, 1, 3))
    pictures = (noise[0] + 0.3 * noise[1]).astype(np.float32)
    pictures = np.concatenate([pictures, (noise[0] - 0.3 * noise[1]).astype(np.float32)], 2)  # (600, 1, 2, 3)
    model = fitted("glow", pictures[:500], steps=100, transforms=4, channels=8, dequantize=None)
    truth = -3 * (np.log(0.6) + np.log(2 * np.pi * np.e))  # a determinant of 0.6² for each pair of pixels
    alone = -3 * (np.log(1.09) + np.log(2 * np.pi * np.e))  # variances of 1.09
    found = model.score(pictures[500:])
    assert alone + 0.7 * (truth - alone) < found < truth + 4 * np.sqrt(3 / 100)


# -- gaps ------------------------------------------------------------------------------------------------


def test_gaps_of_a_gaussian_have_its_conditional_law() -> None:
    model = gaussian_flow()
    direct = torch.distributions.MultivariateNormal(torch.zeros(3).double(), torch.from_numpy(COVARIANCE))
    rows = RNG.normal(size=(5, 3))
    assert np.allclose(model.log_prob(rows), direct.log_prob(torch.from_numpy(rows)).numpy(), atol=1e-5)
    known = np.array([[1.5, np.nan, np.nan]])
    drawn = model.sample(1500, given=known, seed=0)
    assert (drawn[:, 0] == 1.5).all()
    weights = COVARIANCE[1:, 0] / COVARIANCE[0, 0]
    mean, covariance = 1.5 * weights, COVARIANCE[1:, 1:] - np.outer(weights, COVARIANCE[0, 1:])
    error = np.sqrt(np.diag(covariance) / 1500)
    assert (np.abs(drawn[:, 1:].mean(0) - mean) < 4 * error).all()
    # a variance has a relative error of sqrt(2 / n), a covariance no more
    assert np.abs(np.cov(drawn[:, 1:].T) - covariance).max() < 4 * covariance.max() * np.sqrt(2 / 1500)
    filled = model.impute(np.repeat(known, 40, 0))[:, 1:]
    assert np.abs(filled.mean(0) - mean).max() < 0.15


def test_moves_of_codes_keep_the_conditional_law() -> None:
    torch.manual_seed(0)
    root = torch.linalg.cholesky(torch.from_numpy(COVARIANCE))
    law = torch.distributions.MultivariateNormal(torch.zeros(3).double(), torch.from_numpy(COVARIANCE))
    log = float(root.diagonal().log().sum())
    n, value = 4000, 1.5
    weights = COVARIANCE[1:, 0] / COVARIANCE[0, 0]
    covariance = COVARIANCE[1:, 1:] - np.outer(weights, COVARIANCE[0, 1:])
    rest = torch.from_numpy(np.random.default_rng(1).multivariate_normal(value * weights, covariance, size=n))
    rows = torch.cat([torch.full((n, 1), value).double(), rest], 1)
    known = rows.clone()
    known[:, 1:] = torch.nan
    moves = LatentMoves(
        known,
        lambda y: (torch.linalg.solve_triangular(root, y.T, upper=False).T, torch.full((len(y),), -log).double()),
        lambda z: (z @ root.T, torch.full((len(z),), log).double()),
        law.log_prob,
        torch.Generator().manual_seed(0),
    )
    state, logs = rows[None], law.log_prob(rows)[None]
    for _ in range(30):
        state, logs = moves(state, logs)
    moved = (state[0, :, 1:] != rest).any(1)
    assert float(moved.double().mean()) > 0.9
    assert torch.allclose(logs[0], law.log_prob(state[0]))
    found = state[0, :, 1:].numpy()
    assert (np.abs(found.mean(0) - value * weights) < 4 * np.sqrt(np.diag(covariance) / n)).all()
    assert np.abs(np.cov(found.T) - covariance).max() < 4 * covariance.max() * np.sqrt(2 / n)


def test_means_of_gaps_are_taken_in_the_units_of_the_data() -> None:
    X = np.exp(RNG.normal(size=(1000, 1)))
    model = fitted(Chain([ActNorm(1)]), X, steps=1, columns={0: "positive"})
    assert model.impute(np.full((40, 1), np.nan)).mean() == pytest.approx(np.exp(0.5), abs=0.3)  # the median is 1


def test_gaps_of_columns_that_the_moments_hold_for_fixed() -> None:
    ones = torch.ones(2, 2, dtype=torch.float64)  # what one column is, the other is
    law = torch.distributions.Normal(0.0, 1.0)
    rows = torch.tensor([[1.0, torch.nan]], dtype=torch.float64)
    noise = torch.Generator().manual_seed(0)
    found = fill_gaps(lambda y: law.log_prob(y).sum(1), rows, Moments(ones[0] * 0, ones), noise)
    assert found.draw[0, 1] == pytest.approx(1.0, abs=1e-3)
    with pytest.raises(InvalidInput, match="no finite covariance"):
        fill_gaps(lambda y: law.log_prob(y).sum(1), rows, Moments(ones[0] * 0, ones * torch.nan), noise)


# -- columns that say little --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["realnvp", "nsf"])
def test_a_column_that_never_changes_harms_no_other(kind: str) -> None:
    X = np.c_[MOONS, np.full(len(MOONS), 7.0)]
    model = fitted(kind, X, steps=60)
    drawn = model.sample(500, seed=0)
    assert np.abs(drawn[:, 2] - 7).max() < 1e-3
    assert np.abs(drawn[:, :2]).max() < 10
    assert model.impute([[0.5, 0.5, np.nan]])[0, 2] == pytest.approx(7, abs=1e-3)
    assert model.anomaly([[0.5, 0.5, 8.0]]) > model.anomaly([[0.5, 0.5, 7.0]]) + 100


def test_examples_of_other_shapes_are_standardized_rows() -> None:
    X = RNG.normal(50, 3, size=(200, 4, 2))
    drawn = fitted("nsf", X, steps=1).sample(500, seed=0)
    assert drawn.shape == (500, 4, 2)
    assert drawn.mean() == pytest.approx(50, abs=2)


def test_a_row_is_rebuilt_from_its_other_columns_not_from_its_code() -> None:
    kinds = RNG.integers(0, 3, 300)
    frame = pd.DataFrame({"a": 10 * kinds + RNG.integers(0, 3, 300), "kind": pd.Categorical(list("xyz")).take(kinds)})
    model = fitted("nsf", frame, steps=200)
    frame.loc[0, "a"], frame.loc[0, "kind"] = 21, "x"
    strange = model.anomaly(frame[:20], kind="reconstruction")
    assert strange.argmax() == 0
    y = np.repeat(["low", "high"], 100)
    X = RNG.normal(size=(200, 2)) + np.where(y == "high", 6.0, 0.0)[:, None]
    told = fitted("maf", X, y, steps=150, condition="labels")
    assert told.anomaly([[6.0, 6.0]], "low", kind="reconstruction") > told.anomaly(
        [[6.0, 6.0]], "high", kind="reconstruction"
    )


# -- conditions ------------------------------------------------------------------------------------------


def test_a_flow_given_labels() -> None:
    y = np.repeat(["low", "high"], [100, 200])
    X = RNG.normal(size=(300, 2)) + np.where(y == "high", 6.0, 0.0)[:, None]
    model = fitted("maf", X, y, steps=150, condition="labels")
    assert model.sample(300, given="high", seed=0).mean() > 4.5
    parts = [model.log_prob(X, given=str(name)) + np.log(np.mean(y == name)) for name in model.classes_]
    assert np.allclose(model.log_prob(X), np.logaddexp(*parts), atol=1e-10)
    assert model.score(X, y) > model.score(X)
    assert np.allclose(model.decode(model.encode(X, given=y), given=y), X, atol=1e-8)
    filled = model.impute(np.array([[6.0, np.nan], [0.0, np.nan]]))
    assert filled[0, 1] > 3.5
    assert filled[1, 1] < 2.5
    assert model.impute(np.array([[6.0, np.nan]]), given="low")[0, 1] < filled[0, 1]
    assert model.anomaly(X[:1], given="high")[0] > model.anomaly(X[:1], given="low")[0]
    with pytest.raises(InvalidInput, match="'mid', which fit has not seen"):
        model.sample(1, given="mid")


def test_a_flow_given_vectors() -> None:
    c = RNG.normal(size=(300, 1))
    X = np.concatenate([3 * c, -c], 1) + 0.3 * RNG.normal(size=(300, 2))
    model = fitted("nsf", X, c, steps=200, condition="vectors")
    assert np.allclose(model.sample(300, given=[1.0], seed=0).mean(0), [3, -1], atol=0.5)
    assert model.likelihood(X, given=c).mean() > fitted("nsf", X, steps=200).score(X) + 0.5
    with pytest.raises(InvalidInput, match="needs them here too"):
        model.likelihood(X)
    with pytest.raises(InvalidInput, match=r"NormalizingFlow.score: .*score\(X, vectors\)"):
        model.score(X)
    with pytest.raises(InvalidInput, match=r"NormalizingFlow.anomaly: .*given=vectors"):
        model.anomaly(X)
    with pytest.raises(InvalidInput, match=r"NormalizingFlow.sample: .*'y': vectors, 'X': rows"):
        model.sample(2, given={"X": [[np.nan, 1.0]]})


@pytest.mark.parametrize("name", ["NormalizingFlow", "ConditionalVAE", "ConditionalGAN"])
def test_labels_that_tell_nothing_apart_are_refused(name: str) -> None:
    settings = {"condition": "labels"} if name == "NormalizingFlow" else {}
    model = getattr(benthic, name)(**settings)
    with pytest.raises(InvalidInput, match=f"{name}.fit: y has only one class, 'a'; give rows of at least 2 classes"):
        model.fit(MOONS, np.full(len(MOONS), "a"))
    with pytest.raises(InvalidInput, match=f"{name}.fit: Unknown label type: continuous; .*condition='vectors'"):
        model.fit(MOONS, MOONS[:, 0])


# -- bad input -------------------------------------------------------------------------------------------


def test_bad_input_is_refused() -> None:
    X = np.array([[0.5, 1.0], [-0.5, 2.0], [0.1, 3.0]] * 5)
    with pytest.raises(InvalidInput, match="column 0 is declared positive, and the logarithm of it does not exist"):
        fitted("nsf", X, columns={0: "positive"})
    with pytest.raises(InvalidInput, match="between 0 and 1, but X has"):
        fitted("nsf", X, columns={0: (0, 1)})
    with pytest.raises(InvalidInput, match="lies on the grid 1, 2, ..., but X has 1.5; .*declare the column 'real'"):
        fitted("nsf", X, columns={1: "discrete"}).likelihood([[0.5, 1.5]])
    with pytest.raises(InvalidInput, match="names 7, which is no column; there are 0, 1"):
        fitted("nsf", X, columns={7: "real"})
    with pytest.raises(InvalidInput, match="low < high"):
        fitted("nsf", X, columns={0: (1, 1)})
    with pytest.raises(InvalidInput, match="kind 'nfs' is unknown"):
        fitted("nfs", X)
    with pytest.raises(InvalidInput, match="can be halved 0 times, not 2; set scales to 1, or pad.*multiples of 4"):
        fitted("glow", np.zeros((4, 1, 7, 7), np.float32), scales=2)
    with pytest.raises(InvalidInput, match="can be halved 2 times, not 4; set scales to 2 or less$"):
        fitted("glow", np.zeros((4, 1, 8, 8), np.float32), scales=4)
    with pytest.raises(InvalidInput, match="needs y"):
        fitted("nsf", X, condition="labels")
    with pytest.raises(InvalidInput, match="2 to 500 bins|bins is"):
        fitted("nsf", X, bins=1)
    model = fitted("nsf", X)
    with pytest.raises(InvalidInput, match="fitted without"):
        model.likelihood(X, given="a")
    with pytest.raises(InvalidInput, match="method 'elbo' is unknown"):
        model.likelihood(X, "elbo")


def test_a_discrete_column_is_read_from_the_data() -> None:
    X = np.stack([RNG.integers(0, 9, 300) * 0.25 - 1, RNG.normal(size=300)], 1)
    model = fitted("nsf", X, columns={0: "discrete"}, steps=100)
    assert model.columns_.step[0] == pytest.approx(0.25)
    drawn = model.sample(200, seed=0)[:, 0]
    assert np.allclose(drawn * 4, np.round(drawn * 4))
    # log-mass of a column of 9 equally probable values, and the entropy of a normal
    assert model.score(X) == pytest.approx(-np.log(9) - 0.5 * np.log(2 * np.pi * np.e), abs=0.35)


def test_words_and_pictures() -> None:
    model = fitted("nsf")
    assert "nsf" in model.summary()
    assert len(model.plot().axes) >= 1
    assert len(fitted("maf", RNG.normal(size=(100, 3)), steps=3).plot().axes) >= 1
    assert model.capturable
    assert not benthic.NormalizingFlow("residual").capturable


def test_a_grid_of_whole_numbers_holds_all_of_them() -> None:
    X = np.array([[0, 0], [2, 30], [4, 50], [5013, 90]] * 20, dtype=float)
    model = fitted("nsf", X, columns={0: "discrete", 1: "discrete"}, steps=2, hidden_layer_sizes=(8,), transforms=1)
    made = model.sample(50, seed=0)
    assert np.array_equal(made[:, 0], np.round(made[:, 0]))
    assert np.array_equal(made[:, 1] % 10, np.zeros(50))


def test_the_score_has_the_shape_of_pictures_and_stays_within_the_range() -> None:
    pictures = RNG.random((12, 1, 4, 4))
    model = fitted("maf", pictures, steps=3, dequantize=None)
    found = model.grad_log_prob(pictures[:3])
    assert found.shape == (3, 1, 4, 4)
    moved = pictures[:3].copy()
    moved[:, 0, 1, 2] += 1e-6
    slope = (model.log_prob(moved) - model.log_prob(pictures[:3])) / 1e-6
    np.testing.assert_allclose(found[:, 0, 1, 2], slope, rtol=1e-3, atol=1e-4)
    X = np.exp(RNG.normal(size=(50, 2)))
    bounded = fitted("maf", X, steps=3, columns={0: "positive"})
    with pytest.raises(InvalidInput, match=r"NormalizingFlow.grad_log_prob: column 0 is declared positive"):
        bounded.grad_log_prob(-X)
    whole = fitted("maf", np.round(X), steps=3, columns={0: "discrete"})
    assert not hasattr(whole, "grad_log_prob")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"columns": ["positive"]}, "columns is .*it must be a mapping"),
        ({"columns": {0: ("low", "high")}}, "low < high"),
        ({"bound": "wide"}, "a positive bound"),
        ({"hidden_layer_sizes": "deep"}, "hidden_layer_sizes is 'deep'"),
        ({"hidden_layer_sizes": 8.5}, "hidden_layer_sizes is 8.5"),
        ({"kind": Chain([ActNorm(4), Radial(4)])}, "does not take rows of 2 columns"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any], words: str) -> None:
    model = benthic.NormalizingFlow(**{"kind": "maf", **settings}, trainer={"steps": 1}, random_state=0)
    with pytest.raises(InvalidInput, match=f"NormalizingFlow.fit: .*{words}"):
        model.fit(MOONS)


def test_gaps_are_not_filled_beside_values_that_cannot_be() -> None:
    X = np.exp(RNG.normal(size=(50, 2)))
    model = fitted("maf", X, steps=3, columns={0: "positive"})
    with pytest.raises(InvalidInput, match=r"NormalizingFlow.impute: column 0 is declared positive"):
        model.impute([[-1.0, np.nan]])
    with pytest.raises(InvalidInput, match=r"NormalizingFlow.sample: column 0 is declared positive"):
        model.sample(2, given=[[-1.0, np.nan]])
    with pytest.raises(InvalidInput, match=r"NormalizingFlow.sample: given is not rows.*fitted without conditions"):
        model.sample(2, given="left")
