"""Measures of tensors that lie on CUDA are those of the CPU, and curves stay there."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benthic import metrics

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
RNG = np.random.default_rng(0)
Y, P = RNG.integers(3, size=500), RNG.integers(3, size=500)
TABLE = RNG.dirichlet(np.ones(3), 500)
W = RNG.exponential(size=500)


def there(array):
    return torch.tensor(array, device="cuda")


@pytest.mark.parametrize(
    ("measure", "arrays"),
    [
        (metrics.accuracy, (Y, P, W)),
        (metrics.matthews, (Y, P, W)),
        (lambda y, p, w: metrics.f1(y, p, average="macro", sample_weight=w), (Y, P, W)),
        (lambda y, p, w: metrics.iou(y, p, average="macro", labels=[2, 0], sample_weight=w), (Y, P, W)),
        (lambda y, s, w: metrics.auc(y == 1, s, sample_weight=w), (Y, TABLE[:, 1], W)),
        (lambda y, s, w: metrics.average_precision(y == 1, s, sample_weight=w), (Y, TABLE[:, 1], W)),
        (lambda y, t, w: metrics.log_loss(y, t, sample_weight=w), (Y, TABLE, W)),
        (lambda y, t, w: metrics.multiclass_auc(y, t, scheme="ovo", sample_weight=w), (Y, TABLE, W)),
        (lambda y, t, w: metrics.expected_calibration_error(y, t, sample_weight=w), (Y, TABLE, W)),
        (lambda y, p, w: metrics.r2(y, p, w), (Y, TABLE[:, 0], W)),
        (lambda y, t, w: metrics.crps_samples(y, t, sample_weight=w), (TABLE[:, 0], TABLE, W)),
    ],
)
def test_same_numbers(measure, arrays):
    np.testing.assert_allclose(measure(*map(there, arrays)), measure(*arrays), rtol=1e-10)


def test_curves_stay_on_the_device():
    y, s = there(Y == 1), there(TABLE[:, 1])
    assert metrics.roc_curve(y, s).true_positive_rate.device.type == "cuda"
    assert metrics.calibration_curve(y, s).observed.device.type == "cuda"
    assert metrics.confusion_matrix(there(Y), there(P)).counts.device.type == "cuda"
    assert metrics.roc_curve(y, s).plot().axes
