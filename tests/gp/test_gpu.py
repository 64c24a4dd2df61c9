"""Gaussian processes on CUDA: the answers of the CPU, on the device."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benthic.gp import GaussianProcessClassifier, GaussianProcessRegressor, random_field
from benthic.gp.evidence import Evidence
from benthic.kernels import RBF, Matern, Periodic, White

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, size=(700, 3))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * RNG.normal(size=700)


@pytest.mark.parametrize(
    "kernel",
    [
        1.3 * RBF(0.9) + White(0.1),
        Matern(1.5, torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)) + White(0.1),
        Periodic(1.0, 3.0) * RBF(2.0) + White(0.2),
    ],
    ids=repr,
)
def test_evidence_and_gradient_agree_with_the_cpu(kernel):
    rows, y = torch.tensor(X), torch.tensor(Y)[:, None]
    here = Evidence(kernel, rows, y).value_and_gradient()
    there = Evidence(kernel, rows.cuda(), y.cuda()).value_and_gradient()
    assert there[0] == pytest.approx(here[0], rel=1e-9)
    torch.testing.assert_close(there[1], here[1], rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("method", ["exact", "sgpr", "svgp"])
def test_regression_agrees_with_the_cpu(method):
    settings = {"method": method, "random_state": 0, "trainer": {"steps": 20, "verbose": False, "device": "auto"}}
    if method != "exact":
        settings["inducing"] = 40
    here = GaussianProcessRegressor(**settings).set_params(trainer__device="cpu").fit(X, Y)
    there = GaussianProcessRegressor(**settings).fit(torch.tensor(X).cuda(), torch.tensor(Y).cuda())
    found = there.predict(torch.tensor(X).cuda())
    assert found.device.type == "cuda"
    np.testing.assert_allclose(found.cpu(), here.predict(X), atol=1e-3 if method == "exact" else 0.05)


def test_classification_and_fields_run_on_the_device():
    labels = torch.tensor(Y > 0).long().cuda()
    model = GaussianProcessClassifier().fit(torch.tensor(X).cuda(), labels)
    assert model.score(torch.tensor(X).cuda(), labels) > 0.9
    assert random_field(RBF(5.0), (64, 64), 2, seed=0, device="cuda").device.type == "cuda"
