"""Slopes and curvatures against autograd, steps of leaves against SciPy's minimum."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar

from benthic.base.errors import InvalidInput
from benthic.trees.losses import (
    LOGISTIC,
    NUMBERS,
    Loss,
    TorchLoss,
    first_score,
    leaf_quantiles,
    leaf_values,
    named_loss,
    respond,
)

pytestmark = pytest.mark.spec("G-02")

TORCH = {
    "squared_error": lambda z, y: 0.5 * (z - y) ** 2,
    "absolute_error": lambda z, y: (z - y).abs(),
    "huber": lambda z, y: torch.nn.functional.huber_loss(z, y, reduction="none", delta=0.7),
    "quantile": lambda z, y: torch.maximum(0.3 * (y - z), 0.7 * (z - y)),
    "poisson": lambda z, y: z.exp() - y * z,
    "gamma": lambda z, y: z + y * (-z).exp(),
    "log_loss": lambda z, y: torch.nn.functional.binary_cross_entropy_with_logits(z, y, reduction="none"),
}
LOSSES = {name: Loss(code, {"huber": 0.7, "quantile": 0.3}.get(name, 0.0)) for name, code in NUMBERS.items()}
LOSSES["log_loss"] = Loss(LOGISTIC)


def problem(name, n=40, seed=0):
    rng = np.random.default_rng(seed)
    raw = rng.normal(size=n)
    y = rng.integers(0, 2, n).astype(float) if name == "log_loss" else rng.gamma(2.0, size=n)
    return raw, y


def answers(loss, raw, y, weight):
    gradient, curvature, report = np.empty(len(y)), np.empty(len(y)), np.zeros(3)
    respond(loss.code, loss.level, raw, y, weight, gradient, curvature, report, 0, len(y))
    return gradient, curvature, report


@pytest.mark.parametrize("name", TORCH)
def test_slope_and_curvature_are_those_of_autograd(name):
    raw, y = problem(name)
    weight = np.random.default_rng(1).uniform(0.5, 2, len(y))
    gradient, curvature, report = answers(LOSSES[name], raw, y, weight)
    z = torch.tensor(raw, requires_grad=True)
    value = torch.tensor(weight) * TORCH[name](z, torch.tensor(y))
    (slope,) = torch.autograd.grad(value.sum(), z, create_graph=True)
    np.testing.assert_allclose(gradient, slope.detach(), rtol=1e-12)
    assert report[0] == pytest.approx(float(value.sum().detach()), rel=1e-12)
    assert report[1] == np.abs(gradient).max() and report[2] == curvature.max()
    if name in ("poisson", "gamma", "log_loss", "squared_error"):
        (bend,) = torch.autograd.grad(slope.sum(), z)
        np.testing.assert_allclose(curvature, bend, rtol=1e-10)


@pytest.mark.parametrize("name", [name for name in TORCH if name != "log_loss"])
def test_the_step_of_a_leaf_is_the_minimum_over_its_rows(name):
    raw, y = problem(name)
    loss, weight = LOSSES[name], np.ones(1)
    gradient, curvature, _ = answers(loss, raw, y, weight)
    rows, values = np.arange(len(y), dtype=np.uint32), np.empty(1)
    starts, stops = np.array([0]), np.array([len(y)])
    bend = np.ones(1) if loss.flat else curvature
    if name in ("absolute_error", "quantile"):
        leaf_quantiles(raw, y, rows, starts, stops, loss.level or 0.5, values)
    else:
        leaf_values(loss.code, loss.level, raw, y, weight, gradient, bend, rows, starts, stops, 0.0, values)

    def total(step):
        return float(TORCH[name](torch.tensor(raw + step), torch.tensor(y)).sum())

    best = minimize_scalar(total, bounds=(-10, 10), method="bounded", options={"xatol": 1e-10})
    assert total(values[0]) <= best.fun + 1e-7 * abs(best.fun)
    if name == "absolute_error":
        assert values[0] == pytest.approx(np.median(y - raw))
    found = TorchLoss(TORCH[name], y).leaf_values(raw, np.zeros(len(y), dtype=int), 1, 0.0)
    assert total(found[0]) <= best.fun + 1e-4 * abs(best.fun)
    start = named_loss(name, y, 0.3, 0.9) if name != "huber" else loss
    if name != "huber":  # whose first score is the median
        constant = minimize_scalar(
            lambda v: float(TORCH[name](torch.full((len(y),), v, dtype=torch.float64), torch.tensor(y)).sum()),
            bounds=(-10, 10),
            method="bounded",
        )
        first = first_score(start, y, weight)
        at_first = float(TORCH[name](torch.full((len(y),), first, dtype=torch.float64), torch.tensor(y)).sum())
        assert at_first <= constant.fun + 1e-6 * abs(constant.fun)


def test_a_long_newton_step_of_the_logistic_loss_is_halved_until_it_descends():
    raw, y = np.array([6.0, 6.0, -3.0]), np.array([0.0, 0.0, 1.0])
    gradient, curvature, _ = answers(LOSSES["log_loss"], raw, y, np.ones(1))
    newton = -gradient.sum() / curvature.sum()
    values = np.empty(1)
    ends = np.array([0]), np.array([3])
    rows = np.arange(3, dtype=np.uint32)
    leaf_values(LOGISTIC, 0.0, raw, y, np.ones(1), gradient, curvature, rows, *ends, 0.0, values)

    def total(step):
        return float(TORCH["log_loss"](torch.tensor(raw + step), torch.tensor(y)).sum())

    assert total(newton) > total(0.0) > total(values[0])


def test_rows_without_weights_have_the_logistic_loss_of_rows_that_weigh_one():
    rng = np.random.default_rng(2)
    raw, y = np.concatenate([rng.normal(size=990) * 4, np.linspace(-700, 700, 10)]), rng.integers(0, 2, 1000) * 1.0
    plain, weighted = (answers(Loss(LOGISTIC), raw, y, weight) for weight in (np.ones(1), np.ones(1000)))
    for got, wanted in zip(plain, weighted, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-15)


def test_losses_refuse_targets_outside_their_domain():
    y = np.array([-1.0, 2.0])
    with pytest.raises(InvalidInput, match="did you mean 'poisson'"):
        named_loss("poison", y, None, 0.9)
    with pytest.raises(InvalidInput, match="'poisson' is for counts"):
        named_loss("poisson", y, None, 0.9)
    with pytest.raises(InvalidInput, match="'gamma' is for positive"):
        named_loss("gamma", y, None, 0.9)
    with pytest.raises(InvalidInput, match="quantile between 0 and 1; it is None"):
        named_loss("quantile", y, None, 0.9)
    with pytest.raises(InvalidInput, match="alpha"):
        named_loss("huber", y, None, 1.5)


def test_torch_losses_of_the_wrong_shape_or_domain():
    y = np.ones(3)
    with pytest.raises(InvalidInput, match=r"returned \(\); it must return one loss a row"):
        TorchLoss(lambda z, y: ((z - y) ** 2).mean(), y).respond(np.zeros(3))
    with pytest.raises(InvalidInput, match="NaN or infinity"):
        TorchLoss(lambda z, y: (z - y).log(), y).respond(np.zeros(3))
