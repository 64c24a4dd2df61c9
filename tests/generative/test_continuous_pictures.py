"""The continuous flow of pictures: its log-determinant, its estimates, its penalty, and what it learns."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch.utils._python_dispatch import TorchDispatchMode

import benthic
from benthic.generative.flows.continuous_map import ContinuousPictures
from benthic.generative.flows.network import FlowNetwork, log_normal, rademacher
from benthic.nets.picture_field import PictureField

pytestmark = [pytest.mark.spec("E-04"), pytest.mark.spec("N-03")]
EVENT = (1, 4, 4)
X = load_digits().images[:, ::2, ::2].astype(np.float32)[:, None]  # (1797, 1, 4, 4), levels 0 .. 16


def strong_flow() -> ContinuousPictures:
    """A flow that bends its pictures, in float64."""
    torch.manual_seed(0)
    flow = ContinuousPictures(EVENT, 4, tolerance=1e-8).double()
    torch.nn.init.normal_(flow.body.network.field.last.weight, std=0.2)
    flow.begin(3 * torch.randn(100, *EVENT, dtype=torch.float64) + 1)
    return flow.eval()


@pytest.fixture(scope="module")
def model() -> Any:
    """A small flow after some updates."""
    trainer = {"steps": 30, "lr": 1e-2, "batch_size": 32}
    return benthic.NormalizingFlow("cnf", channels=4, levels=17, trainer=trainer, random_state=0).fit(X[:1500])


def test_the_log_determinant_is_that_of_the_jacobian_both_ways() -> None:
    flow, x = strong_flow(), torch.randn(2, *EVENT, dtype=torch.float64)
    with torch.no_grad():
        z, log = flow(x)
        torch.testing.assert_close(flow.encode(x), z, rtol=1e-6, atol=1e-7)
        back, other = flow.inverse(z)
        torch.testing.assert_close(flow.decode(z), back)
    torch.testing.assert_close(back, x, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(other, -log, rtol=1e-6, atol=1e-6)
    for one, expected in zip(x, log, strict=True):
        jacobian = torch.autograd.functional.jacobian(lambda y: flow.encode(y[None])[0], one).reshape(16, 16)
        assert float(torch.linalg.slogdet(jacobian)[1]) == pytest.approx(float(expected), abs=1e-5)


@torch.no_grad()
def test_gaps_are_filled_by_a_rough_map_that_pays_for_no_exact_trace(model: Any, monkeypatch: Any) -> None:
    flow, x = strong_flow(), torch.randn(3, *EVENT, dtype=torch.float64)
    rough = flow.rough()
    square = torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64)
    rough.probes = torch.kron(square, torch.kron(square, torch.kron(square, square)))  # orthogonal: the trace is exact
    for one, other in zip(rough(x), flow(x), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0.02)
    for one, other in zip(rough.inverse(x.flatten(1)), flow.inverse(x.flatten(1)), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0.02)
    monkeypatch.setattr(PictureField, "with_divergence", None)
    holed = X[1500:1501].copy()
    holed[:, :, :2] = np.nan
    filled = model.impute(holed)
    assert (filled[:, :, 2:] == holed[:, :, 2:]).all() and filled.min() >= 0 and filled.max() <= 16


@torch.no_grad()
def test_probes_estimate_the_log_determinant_without_bias() -> None:
    flow, x = strong_flow(), torch.randn(4, *EVENT, dtype=torch.float64)
    flow.body.tolerance = 1e-6
    probes = rademacher((1000, 4, 16), x.flatten(1), torch.Generator().manual_seed(0))
    z, found = flow.estimate(x, probes)
    exact_z, exact = flow(x)
    torch.testing.assert_close(z, exact_z, rtol=1e-4, atol=1e-5)
    assert ((found.mean(1) - exact).abs() < 4.5 * found.std(1) / math.sqrt(1000)).all()
    assert found.std(1).min() > 0


@pytest.mark.parametrize("method", ["rk4", "midpoint", "euler"])
@torch.no_grad()
def test_steps_that_run_ahead_are_the_steps_of_the_solver(method: str) -> None:
    field, y = strong_flow().body.network.field, torch.randn(3, 16, dtype=torch.float64)
    losses = []
    for ahead in (True, False):
        network = FlowNetwork(field, exact=False, method=method, steps=3, ahead=ahead).eval()
        torch.manual_seed(1)  # the same probe
        losses.append(network(y, 0.1))
    torch.testing.assert_close(*losses, rtol=1e-7, atol=1e-6)  # the host's times are in float32


@torch.no_grad()
def test_the_penalty_is_the_energy_and_the_norm_of_the_jacobian() -> None:
    """By one step of Euler's method, which takes both where the data lie."""
    field, y = strong_flow().body.network.field, torch.randn(3, 16, dtype=torch.float64)
    network = FlowNetwork(field, exact=False, method="euler", steps=1, ahead=True, smooth=True)
    found = []
    for weight in (0.5, 0.0):
        torch.manual_seed(1)
        found.append(network(y, weight))
    torch.manual_seed(1)
    probe = rademacher((1, 3, 16), y)[0]
    value, product = torch.func.jvp(lambda x: field(torch.ones((), dtype=torch.float64), x), (y,), (probe,))
    torch.testing.assert_close(found[0] - found[1], 0.5 * (value.square() + product.square()).sum(1))


class Waits(TorchDispatchMode):
    """Refuses what would make the host wait for a device."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert func not in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default)
        return func(*args, **(kwargs or {}))


def test_training_never_waits_so_that_it_can_be_captured(model: Any) -> None:
    network, rows = model.network_, torch.from_numpy(X[:8]).flatten(1)
    network.train()
    try:
        with Waits():
            network(rows).sum().backward()
    finally:
        network.eval().zero_grad()
    assert model.capturable
    assert not benthic.NormalizingFlow("cnf").capturable


def test_a_new_flow_is_the_normal_of_standardized_pixels() -> None:
    torch.manual_seed(0)
    flow, x = ContinuousPictures(EVENT, 4), 2 * torch.randn(500, *EVENT) + 3
    z = flow.begin(x)
    assert abs(float(z.mean())) < 1e-5
    assert float(z.std()) == pytest.approx(1.0, abs=1e-2)
    flow.body.regularization = 0.0
    torch.testing.assert_close(flow.loss(x), -log_normal(z) - flow.norm.log_scale.sum())


def test_it_learns_digits_and_codes_return(model: Any) -> None:
    test = X[1500:1600]
    start = benthic.NormalizingFlow("cnf", channels=4, levels=17, trainer={"steps": 1, "lr": 1e-9}, random_state=0)
    gain = model.likelihood(test).value - start.fit(X[:1500]).likelihood(test).value
    assert gain.mean() > 4 * gain.std() / 10
    assert np.array_equal(model.decode(model.encode(test)), test)
    drawn = model.sample(50, seed=0)
    assert drawn.shape == (50, *EVENT)
    assert np.isin(drawn, np.arange(17)).all()


def test_the_bound_by_probes_agrees_with_that_by_the_exact_trace(model: Any) -> None:
    test = X[1500:1506]
    found = model.likelihood(test, "elbo(16)")
    assert (found.kind, found.bound, found.measure) == ("elbo", "lower", "mass")
    with torch.no_grad():
        exact = model._log_values(torch.from_numpy(test).flatten(1), None, 16).numpy()
    assert np.abs(found.value - exact.mean(0)).max() < 4 * found.stderr.max()  # noise of pixels is the same in both
    assert not np.array_equal(found.value, exact.mean(0))
    tighter = model.likelihood(test, "importance(16)")
    assert np.allclose(tighter.value, np.log(np.exp(exact - exact.max(0)).mean(0)) + exact.max(0), atol=1e-4)
    assert np.allclose(model.likelihood(test[:3], "elbo(16)").value, found.value[:3], atol=1e-3)


def test_pictures_of_numbers_have_an_exact_density(tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).normal(size=(60, 1, 3, 3)).astype(np.float32)
    trainer = {"steps": 3, "batch_size": 20}
    model = benthic.NormalizingFlow("cnf", channels=4, dequantize=None, trainer=trainer, random_state=0).fit(numbers)
    found = model.likelihood(numbers[:5])
    assert (found.kind, found.bound, found.measure) == ("ode", "exact", "density")
    model.save(tmp_path / "flow.safetensors")
    loaded = benthic.load(tmp_path / "flow.safetensors")
    assert np.array_equal(loaded.log_prob(numbers[:5]), found.value)


def test_early_stopping_takes_the_loss_of_training() -> None:
    trainer = {"epochs": 2, "batch_size": 32, "early_stopping": {"patience": 5, "fraction": 0.2}}
    model = benthic.NormalizingFlow("cnf", channels=4, levels=17, trainer=trainer, random_state=0).fit(X[:100])
    assert all(math.isfinite(entry["val_loss"]) for entry in model.history_)


def test_the_field_is_that_of_pictures(model: Any) -> None:
    assert isinstance(model.network_.transform.body.network.field, PictureField)
    assert "scales" not in model._facts()
