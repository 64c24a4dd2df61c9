"""Prediction on an accelerator: the answers of the processor, on the device of the rows."""

from __future__ import annotations

import pytest
import torch

from benthic.kernels import Matern
from benthic.svm import SVC, SVR, LinearSVC
from tests.svm.problems import standard

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.spec("F-05"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", Matern(2.5, 3.0)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_decisions_on_the_device(kernel, dtype):
    X, y = standard("digits", 500)
    model = SVC(kernel=kernel).fit(X, y)
    rows = torch.tensor(X, dtype=dtype)
    here, there = model.decision_function(rows), model.decision_function(rows.cuda())
    assert there.device.type == "cuda" and there.dtype == dtype
    torch.testing.assert_close(there.cpu(), here, rtol=1e-3 if dtype == torch.float32 else 1e-9, atol=1e-3)
    assert model.predict(rows.cuda()).device.type == "cuda"


def test_fitting_from_the_device():
    X, y = standard("breast_cancer")
    rows, labels = torch.tensor(X).cuda(), torch.tensor(y).cuda()
    for model in (SVC(probability=True, random_state=0), LinearSVC()):
        here = type(model)(**model.get_params()).fit(X, y).decision_function(X)
        there = model.fit(rows, labels).decision_function(rows)
        torch.testing.assert_close(there.cpu(), torch.tensor(here), rtol=1e-7, atol=1e-8)
    assert SVR().fit(rows, rows[:, 0]).predict(rows).device.type == "cuda"
