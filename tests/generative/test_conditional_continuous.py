"""The continuous flow given labels or vectors: its maps, its densities, what it learns, and what it refuses."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

import benthic
from benthic.base.errors import InvalidInput
from benthic.calculus import divergence
from benthic.data import scan
from benthic.data.sources import ArraySource
from benthic.generative.flows.continuous_map import ContinuousPictures, ContinuousTransform
from benthic.generative.flows.model import without_labels
from benthic.generative.flows.network import FlowNetwork, log_normal, rademacher
from benthic.nets.field import TimeField
from benthic.nets.invertible import ActNorm, Chain
from benthic.nets.picture_field import PictureField
from tests.generative.test_continuous_pictures import Waits

pytestmark = pytest.mark.spec("N-03")
CONTEXT, ROWS, EVENT = 3, 4, (1, 4, 4)
RNG = np.random.default_rng(0)
MEANS = np.array([[0.0, 0.0], [4.0, 1.0]])
ROOTS = np.array([[[1.0, 0.0], [0.8, 0.5]], [[0.5, 0.0], [-0.3, 0.7]]])
CODES = RNG.choice(2, 1000, p=[0.6, 0.4])
X = MEANS[CODES] + np.einsum("nij,nj->ni", ROOTS[CODES], RNG.normal(size=(1000, 2)))
Y = np.array(["left", "right"])[CODES]


def strong(made: Any) -> Any:
    """A field or flow that moves points by about their own size, in float64."""
    body = getattr(made, "body", made)
    field = body.network.field if isinstance(body, ContinuousTransform) else body
    torch.nn.init.normal_(field.last.weight, std=1.0 / math.sqrt(field.last.weight[0].numel()))
    return made.double().eval()


def field_of(name: str) -> Any:
    torch.manual_seed(0)
    if name == "pictures":
        return strong(PictureField((2, 5, 3), 4, context=CONTEXT))
    if name == "squeezed pictures":
        return strong(PictureField(EVENT, 4, context=CONTEXT))
    return strong(TimeField(2, (5,) * int(name[0]), context=CONTEXT))


def map_of(name: str) -> Any:
    torch.manual_seed(0)
    if name == "pictures":
        return strong(ContinuousPictures(EVENT, 4, context=CONTEXT, tolerance=1e-8))
    network = FlowNetwork(TimeField(2, (8, 8), context=CONTEXT), exact=True, method="bogacki_shampine")
    return strong(ContinuousTransform(network, 1e-9))


def examples(name: str) -> torch.Tensor:
    return torch.randn(ROWS, *(EVENT if name == "pictures" else (2,)), dtype=torch.float64)


def contexts(rows: int = ROWS) -> torch.Tensor:
    return torch.randn(rows, CONTEXT, dtype=torch.float64)


# -- fields and maps -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["1 layer", "2 layers", "3 layers", "pictures", "squeezed pictures"])
def test_the_divergence_is_the_trace_over_the_point_alone(name: str) -> None:
    field, y = field_of(name), contexts()
    x, v = (torch.randn(*shape, field.width, dtype=torch.float64) for shape in ((ROWS,), (2, ROWS)))
    offsets = field.offsets(y)
    for t in (torch.tensor(0.3, dtype=torch.float64), torch.rand(ROWS, 1, dtype=torch.float64)):
        value, trace = field.with_divergence(t, x, None, offsets)
        torch.testing.assert_close(value, field(t, x, offsets))
        expected = divergence(lambda z, t=t: field(t, z, offsets), x)
        torch.testing.assert_close(trace, expected, rtol=1e-12, atol=1e-12)
        for one, product in zip(v, field.with_products(t, x, v, offsets)[1], strict=True):
            expected = torch.func.jvp(lambda z, t=t: field(t, z, offsets), (x,), (one,))[1]
            torch.testing.assert_close(product, expected, rtol=1e-12, atol=1e-12)
        alone = torch.cat([field(t if t.ndim == 0 else t[i], x[i : i + 1], offsets[i : i + 1]) for i in range(ROWS)])
        torch.testing.assert_close(value, alone, rtol=1e-12, atol=1e-12)  # a row sees its own context
        assert (value - field(t, x, field.offsets(y + 1))).abs().amax(1).min() > 1e-3


@pytest.mark.parametrize("name", ["rows", "pictures"])
def test_the_log_determinant_is_that_of_autograd_and_the_inverse_inverts(name: str) -> None:
    made, x, y = map_of(name), examples(name), contexts()
    with torch.no_grad():
        z, log = made(x, y)
        back, log_back = made.inverse(z, y)
        torch.testing.assert_close(made.encode(x, y), z.flatten(1), rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(made.decode(z, y), back)
    torch.testing.assert_close(back, x, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(log_back, -log, rtol=1e-6, atol=1e-6)
    size = x[0].numel()
    for i in range(2):
        jacobian = torch.autograd.functional.jacobian(lambda row, i=i: made.encode(row[None], y[i : i + 1])[0], x[i])
        found = torch.linalg.slogdet(jacobian.reshape(size, size)).logabsdet
        assert float(found) == pytest.approx(float(log[i]), abs=1e-5)
    with torch.no_grad():
        assert (made(x, y + 1)[1] - log).abs().min() > 1e-3  # another context, another map


@pytest.mark.parametrize("name", ["rows", "pictures"])
@torch.no_grad()
def test_what_training_integrates_is_the_density_given_the_context(name: str) -> None:
    """Of rows by fine steps; of pictures in the mean over probes, by many equal steps."""
    made, x, y = map_of(name), examples(name), contexts()
    z, log = made(x, y)
    expected = -log_normal(z.flatten(1)) - log
    body = made.body if name == "pictures" else made
    body.regularization, body.network.tolerance = 0.0, 1e-8
    if name == "rows":
        torch.testing.assert_close(made.loss(x, y), expected, rtol=0, atol=1e-5)
        return
    body.network.steps, times = 10, 200
    losses = made.loss(x.repeat(times, 1, 1, 1), y.repeat(times, 1)).reshape(times, ROWS)
    assert ((losses.mean(0) - expected).abs() < 4.5 * losses.std(0) / math.sqrt(times) + 1e-4).all()
    probes = rademacher((times, ROWS, 16), x, torch.Generator().manual_seed(0))
    estimates = made.estimate(x, probes, y)[1]
    assert ((estimates.mean(1) - log).abs() < 4.5 * estimates.std(1) / math.sqrt(times)).all()


def test_a_context_that_is_missing_or_of_another_width_is_refused() -> None:
    for made, x in ((map_of("rows"), examples("rows")), (map_of("pictures"), examples("pictures"))):
        code = x.flatten(1)
        for way, at in ((made, x), (made.loss, x), (made.encode, x), (made.inverse, code), (made.decode, code)):
            with pytest.raises(InvalidInput, match="the context has 0 numbers a row; this map was built for 3"):
                way(at)
            with pytest.raises(InvalidInput, match="the context has 2 numbers a row; this map was built for 3"):
                way(at, contexts()[:, :2])
    plain = ContinuousTransform(FlowNetwork(TimeField(2, (4,)), exact=True, method="rk4", steps=2))
    with pytest.raises(InvalidInput, match="the context has 3 numbers a row; this map was built for 0"):
        plain(torch.zeros(ROWS, 2), torch.zeros(ROWS, 3))


def test_it_is_a_part_of_a_chain() -> None:
    made = Chain([ActNorm(2), map_of("rows")]).double()
    x, y = examples("rows"), contexts()
    with torch.no_grad():
        z, log = made(x, y)
        back, log_back = made.inverse(z, y)
    torch.testing.assert_close(back, x, rtol=0, atol=1e-6)
    torch.testing.assert_close(log_back, -log, rtol=0, atol=1e-6)


# -- labels and vectors of tables --------------------------------------------------------------------------


def flow(condition: str | None = "labels", steps: int = 200, **more: Any) -> Any:
    settings = {"hidden_layer_sizes": (24, 24), "trainer": {"steps": steps}, "random_state": 0, **more}
    return benthic.NormalizingFlow("cnf", condition=condition, **settings)


@pytest.fixture(scope="module")
def labeled() -> Any:
    """A flow of two normals, given which of them."""
    return flow().fit(X, Y)


@pytest.fixture(scope="module")
def grid() -> tuple[np.ndarray, float]:
    """Points of a box that holds both normals, and the area that each stands for."""
    sides = np.linspace(-6, 9, 91), np.linspace(-6, 7, 91)
    cell = (sides[0][1] - sides[0][0]) * (sides[1][1] - sides[1][0])
    return np.stack(np.meshgrid(*sides, indexing="ij"), -1).reshape(-1, 2).astype(np.float32), cell


@pytest.mark.parametrize("code", [0, 1])
def test_each_density_integrates_to_one_and_is_nearly_the_truth(labeled: Any, grid: Any, code: int) -> None:
    points, cell = grid
    name = ["left", "right"][code]
    log = labeled.log_prob(points, given=name).astype(float)
    assert np.exp(log).sum() * cell == pytest.approx(1.0, abs=1e-3)
    covariance = torch.from_numpy(ROOTS[code] @ ROOTS[code].T)
    truth = torch.distributions.MultivariateNormal(torch.from_numpy(MEANS[code]), covariance)
    there = truth.log_prob(torch.from_numpy(points).double()).numpy()
    # a short training costs 0.04 ± 0.02 over seeds, the wrong label 8 nats and more
    assert 0 < (np.exp(there) * (there - log)).sum() * cell < 0.2
    drawn, error = labeled.sample(1000, given=name, seed=0), np.sqrt(np.diag(covariance) / 1000)
    assert (np.abs(drawn.mean(0) - MEANS[code]) < 4 * error + 0.1 * np.sqrt(np.diag(covariance))).all()
    assert np.abs(np.cov(drawn.T) - covariance.numpy()).max() < 0.25


def test_labels_are_summed_drawn_and_chosen(labeled: Any) -> None:
    parts = [labeled.log_prob(X, given=name) + math.log(np.mean(name == Y)) for name in ("left", "right")]
    assert np.allclose(labeled.log_prob(X), np.logaddexp(*parts), atol=1e-10)
    assert labeled.score(X, Y) > labeled.score(X)
    found = labeled.likelihood(X[:3], given=Y[:3])
    assert (found.kind, found.bound, found.measure) == ("ode", "exact", "density")
    drawn = labeled.sample(1000, seed=1)
    assert np.mean(drawn[:, 0] > 2.5) == pytest.approx(np.mean(X[:, 0] > 2.5), abs=4 * math.sqrt(0.25 / 1000))
    assert np.abs(labeled.decode(labeled.encode(X, given=Y), given=Y) - X).max() < 1e-4
    assert np.abs(labeled.reconstruct(X) - X).max() < 1e-4
    codes = labeled.encode(X, given=Y)
    assert np.abs(codes.mean(0)).max() < 0.15
    assert np.abs(np.cov(codes.T) - np.eye(2)).max() < 0.25
    assert (labeled.anomaly(X[:50], given=Y[::-1][:50]) >= labeled.anomaly(X[:50], given=Y[:50])).mean() > 0.9
    step = 1e-5 * np.array([1.0, 0.0])
    for given in (None, "left"):
        score = labeled.grad_log_prob(X[:4], given=given)[:, 0]
        rise = labeled.log_prob(X[:4] + step, given=given) - labeled.log_prob(X[:4] - step, given=given)
        assert np.allclose(score, rise / 2e-5, rtol=1e-2, atol=1e-2)


def test_gaps_are_filled_given_the_label(labeled: Any) -> None:
    rows = np.array([[0.5, np.nan], [0.5, np.nan]])
    filled = labeled.impute(rows, given=["left", "right"])
    whole = np.array([[0.5, np.nan], [4.0, 1.0]])  # of one label no row has a gap
    drawn = labeled.sample(2, given={"y": ["left", "right"], "X": whole}, seed=0)
    assert np.array_equal(drawn[1], whole[1])
    assert np.isfinite(drawn).all()
    expected = [0.8 * 0.5, 1.0 - 0.6 * (0.5 - 4.0)]  # the means of normals given their first coordinate
    assert filled[0, 1] == pytest.approx(expected[0], abs=0.5)
    assert filled[1, 1] > filled[0, 1] + 0.5
    assert np.array_equal(filled[:, 0], rows[:, 0])
    drawn = labeled.sample(8, given={"y": "left", "X": rows[:1]}, seed=0)
    assert (drawn[:, 0] == 0.5).all()
    assert np.abs(drawn[:, 1] - expected[0]).max() < 5 * 0.5  # standard deviation 0.5


def test_files_types_and_sources(labeled: Any, tmp_path: Path) -> None:
    loaded = benthic.load(labeled.save(tmp_path / "flow.safetensors"))
    assert np.array_equal(loaded.log_prob(X[:20], given=Y[:20]), labeled.log_prob(X[:20], given=Y[:20]))
    assert np.array_equal(loaded.sample(5, seed=0), labeled.sample(5, seed=0))
    narrow = labeled.log_prob(X[:20].astype(np.float32), given=Y[:20])
    assert narrow.dtype == np.float32
    assert np.allclose(narrow, labeled.log_prob(X[:20], given=Y[:20]), atol=1e-3)
    lines = [f"{a!r},{b!r},{name}" for (a, b), name in zip(X.tolist(), Y, strict=True)]
    (tmp_path / "rows.csv").write_text("\n".join(["a,b,side", *lines]) + "\n")
    streamed = flow(steps=40).fit(scan(tmp_path / "rows.csv", target="side"))
    assert streamed.classes_.tolist() == ["left", "right"]
    left, right = (streamed.sample(100, given=name, seed=0) for name in ("left", "right"))
    assert right.column_names == ["a", "b"]
    assert np.mean(right["a"]) > np.mean(left["a"]) + 0.5
    wide = flow(steps=3, trainer={"steps": 3, "precision": "float64"}).fit(X, Y)
    assert wide.sample(2, given="left", seed=0).dtype == np.float64
    assert next(wide.network_.parameters()).dtype == torch.float64


def test_a_flow_given_vectors() -> None:
    c = RNG.uniform(-1, 1, size=(1000, 2))
    rows = np.stack([3 * c[:, 0], c[:, 0] * c[:, 1]], 1) + 0.3 * RNG.normal(size=(1000, 2))
    model = flow("vectors").fit(rows, c)
    truth = -2 * math.log(0.3) - math.log(2 * math.pi * math.e)  # the entropy of the noise
    assert model.score(rows, c) == pytest.approx(truth, abs=0.15)
    for one in ([0.5, 0.5], [-0.5, 0.5]):
        drawn = model.sample(500, given=one, seed=0)
        assert np.abs(drawn.mean(0) - [3 * one[0], one[0] * one[1]]).max() < 0.15
    many = model.sample(4, given=c[:4], seed=0)
    assert np.abs(many - np.stack([3 * c[:4, 0], c[:4].prod(1)], 1)).max() < 5 * 0.3
    for call in (model.likelihood, model.encode, model.decode, model.reconstruct, model.grad_log_prob):
        with pytest.raises(InvalidInput, match=r"needs them here too: \w+\(..., given=vectors\)"):
            call(rows[:3])
    with pytest.raises(InvalidInput, match=r"vectors of shape \(3,\); the model was fitted on 2 numbers a row"):
        model.sample(1, given=[1.0, 2.0, 3.0])
    with pytest.raises(InvalidInput, match="given is 'east', not numbers; the model was fitted on 2 numbers a row"):
        model.sample(1, given="east")


def test_bad_conditions_are_refused(labeled: Any) -> None:
    for condition in ("labels", "vectors"):
        with pytest.raises(InvalidInput, match=f"condition='{condition}' needs y, the condition of each row"):
            flow(condition).fit(X)
    with pytest.raises(InvalidInput, match="'up', which fit has not seen; it knows 'left', 'right'"):
        labeled.log_prob(X, given="up")
    with pytest.raises(InvalidInput, match="2 labels for 5 rows; pass one or 5"):
        labeled.encode(X[:5], given=["left", "right"])
    with pytest.raises(InvalidInput, match="the source has no target"):
        flow().fit(ArraySource(X))
    with pytest.raises(InvalidInput, match="fitted without"):
        flow(None, 1).fit(X).log_prob(X, given="left")


# -- pictures ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, np.ndarray]:
    """Zeros and ones of 4 x 4 pixels, levels 0 .. 16."""
    data = load_digits(n_class=2)
    return data.images[:, ::2, ::2].astype(np.float32)[:, None], data.target


@pytest.fixture(scope="module")
def drawer(digits: Any) -> Any:
    """A small flow of pictures given their digit."""
    trainer = {"steps": 25, "lr": 1e-2, "batch_size": 32}
    settings = {"channels": 4, "levels": 17, "trainer": trainer, "random_state": 0}
    return benthic.NormalizingFlow("cnf", condition="labels", **settings).fit(digits[0][:300], digits[1][:300])


def test_labels_decide_pictures(drawer: Any, digits: Any, tmp_path: Path) -> None:
    pictures, names = digits
    means = np.stack([pictures[:300][names[:300] == k].mean(0) for k in (0, 1)])
    for k in (0, 1):
        drawn = drawer.sample(60, given=k, seed=0).mean(0)
        assert np.abs(drawn - means[k]).mean() < 0.5 * np.abs(drawn - means[1 - k]).mean()
    test, known = pictures[300:320], names[300:320]
    right, wrong = (drawer.likelihood(test, given=given) for given in (known, 1 - known))
    assert (right.kind, right.bound, right.measure) == ("elbo", "lower", "mass")
    gain = right.value - wrong.value
    assert gain.mean() > 4 * gain.std() / math.sqrt(20)
    assert np.array_equal(drawer.reconstruct(test), test)
    assert np.array_equal(drawer.decode(drawer.encode(test, given=known), given=known), test)
    loaded = benthic.load(drawer.save(tmp_path / "flow.safetensors"))
    assert np.array_equal(loaded.likelihood(test, given=known).value, right.value)


def test_a_bound_without_labels_by_probes_agrees_with_that_by_the_exact_trace(drawer: Any, digits: Any) -> None:
    test = digits[0][300:306]
    found = drawer.likelihood(test, "elbo(16)")
    with torch.no_grad():
        exact = drawer._log_values(torch.from_numpy(test).flatten(1), None, 16).numpy()
    assert np.abs(found.value - exact.mean(0)).max() < 4 * found.stderr.max()
    assert not np.array_equal(found.value, exact.mean(0))
    once = drawer.likelihood(test[:1], "elbo(1)").value[0]  # by the exact trace: one draw has no others
    assert once == pytest.approx(exact[0, 0], abs=1e-4)


def test_a_sum_over_labels_by_noisy_estimates_stays_below_the_truth() -> None:
    """Where the logarithm of the sum of the same estimates lies above."""
    torch.manual_seed(0)
    truth = torch.tensor([-1.0, -1.5, -3.0])
    noisy = truth + 2 * torch.randn(4, 20000, 3)
    target = float(truth.logsumexp(0))
    for found, sign in ((without_labels(noisy), -1), (noisy.logsumexp(-1), 1)):
        mean = found.mean(0)  # over draws; rows are independent
        assert sign * (float(mean.mean()) - target) > 4 * float(mean.std()) / math.sqrt(20000)


def test_training_on_pictures_with_labels_never_waits(drawer: Any, digits: Any) -> None:
    network, rows = drawer.network_, torch.from_numpy(digits[0][:8]).flatten(1)
    given = torch.eye(2)[torch.from_numpy(digits[1][:8])]
    network.train()
    try:
        with Waits():
            network(rows, given).sum().backward()
        field = network.transform.body.network.field
        assert float(field.contexts.weight.grad.abs().max()) > 0
    finally:
        network.eval().zero_grad()
    assert drawer.capturable
