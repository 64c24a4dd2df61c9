"""Ensembles answer rows on a device there, as they do on the CPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import benthic

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.spec("G-02"),
]


@pytest.mark.parametrize("name", ["RandomForestRegressor", "GradientBoostingRegressor"])
def test_answers_on_the_device_are_those_of_the_cpu(name):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 20, 3000), rng.normal(size=(3000, 5))]).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = rng.normal(size=3000) + np.nan_to_num(X[:, 0]) % 3
    model = getattr(benthic, name)(categorical_features=[0], random_state=0).fit(X, y)
    answer = model.predict(torch.tensor(X, device="cuda"))
    assert answer.device.type == "cuda"
    np.testing.assert_allclose(answer.cpu().numpy(), model.predict(X), rtol=1e-12)
