"""Every model on CUDA: tensors in, tensors out on the same device, the same answers as on the CPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import benthic
from benthic.training.callbacks import Callback
from tests.contract.conftest import CODE_VERBS, DATA_VERBS, TABLES, X, data_for, make, targets, verbs

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
NAMES = TABLES


def on_gpu(name, **params):
    X, y = data_for(name), targets(name)
    return make(name, **params).fit(
        torch.tensor(X, device="cuda"), None if y is None else torch.tensor(y, device="cuda")
    )


@pytest.mark.parametrize("name", NAMES)
def test_tensors_stay_on_their_device(name):
    X, model = data_for(name), on_gpu(name)
    rows = torch.tensor(X, device="cuda", dtype=torch.float32)
    for verb in verbs(model, CODE_VERBS + DATA_VERBS):
        out = getattr(model, verb)(rows)
        assert out.device.type == "cuda" and out.dtype == torch.float32, verb
        assert isinstance(getattr(model, verb)(X), np.ndarray)
    if hasattr(model, "sample"):
        assert model.sample(3).device.type == "cuda"


@pytest.mark.parametrize("name", ["GaussianMixture", "LogisticRegression"])
def test_summed_passes_give_the_answers_of_the_cpu(name):
    here, there = make(name).fit(X, targets(name)), on_gpu(name)
    for verb in verbs(here, CODE_VERBS):
        np.testing.assert_allclose(getattr(there, verb)(X), getattr(here, verb)(X), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_saved_on_the_gpu_loaded_anywhere(name, tmp_path):
    X, model = data_for(name), on_gpu(name)
    loaded = benthic.load(model.save(tmp_path / "m.safetensors"))
    for verb in verbs(model, CODE_VERBS):
        np.testing.assert_allclose(getattr(loaded, verb)(X), getattr(model, verb)(X), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("precision", ["float32", "bf16", "float64"])
@pytest.mark.parametrize("name", ["MLPClassifier", "VAE"])
def test_precisions_train(name, precision):
    model = on_gpu(name, trainer={"steps": 300, "lr": 0.01, "precision": precision})
    assert model.score(X, targets(name)) > (0.85 if name == "MLPClassifier" else -12)


class StopAt(Callback):
    def on_step(self, moment, info):
        if moment.step == 25:
            raise RuntimeError("crash")


@pytest.mark.parametrize("name", ["MLPClassifier", "VAE"])
def test_resume_is_bit_exact_on_the_gpu(name, tmp_path):
    def settings(folder, **more):
        return {"steps": 60, "batch_size": 32, "checkpoint": {"folder": str(folder), "every_steps": 7}, **more}

    whole = on_gpu(name, trainer=settings(tmp_path / "whole"))
    with pytest.raises(RuntimeError, match="crash"):
        on_gpu(name, trainer=settings(tmp_path / "cut", callbacks=(StopAt(),)))
    resumed = on_gpu(name, trainer=settings(tmp_path / "cut", resume=True))
    for key, value in whole.network_.state_dict().items():
        assert torch.equal(value, resumed.network_.state_dict()[key]), key
    assert whole.history_ == resumed.history_


def test_a_loss_that_is_not_finite_is_noticed_on_the_gpu():
    with pytest.raises(benthic.base.errors.NonFiniteLoss, match="at step"):
        on_gpu("MLPRegressor", trainer={"steps": 500, "lr": 1e18, "optimizer": "sgd"})


def test_numpy_goes_to_the_gpu_by_default():
    model = make("MLPClassifier").fit(X, targets("MLPClassifier"))
    assert next(model.network_.parameters()).device.type == "cuda"
