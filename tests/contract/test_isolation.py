"""Fits in threads at once equal fits alone, and no verb changes anything global."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import pytest

import benthic
from benthic.base.modelfile import dumps
from tests.contract.conftest import make
from tests.contract.surroundings import data_of, use

ALL = list(benthic.catalogue())
# of every way to learn, one; those first of which threads once disturbed one another
SOME = (
    "VAE",
    "DDPM",
    "GAN",
    "InfoGAN",
    "HierarchicalVAE",
    "VaDE",
    "EnergyModel",
    "BernoulliRBM",
    "NormalizingFlow",
    "PoissonFlow",
    "Autoencoder",
    "MLPClassifier",
    "BayesianMLPRegressor",
    "GaussianMixture",
    "KMeans",
    "LogisticRegression",
    "GaussianProcessRegressor",
    "HiddenMarkovModel",
    "RandomForestRegressor",
    "TSNE",
    "LatentDirichletAllocation",
)
FIRST = ["LogisticRegression", "SVC", "VAE"]  # of which the first fit, load or score imports most


def fit(name: str) -> bytes:
    """The model file of a small fit."""
    X, y = data_of(name)
    dropping = {"dropout": 0.2} if name.startswith(("MLP", "NeuralODE")) else {}
    return dumps(make(name, **dropping).fit(X, y))


alone = cache(fit)


def in_threads(names: list[str], many: int = 4) -> list[str]:
    """Which fits, begun by so many threads at once, end other than alone."""
    before = [alone(name) for name in names]
    with ThreadPoolExecutor(many) as threads:
        found = list(threads.map(fit, names))
    return [name for name, a, b in zip(names, before, found, strict=True) if a != b]


def test_fits_in_threads_equal_fits_alone():
    assert not in_threads([*SOME[:4] * 2, *SOME])


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_fits_of_one_model_in_threads_equal_fits_alone(name):
    assert not in_threads([name] * 8)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in SOME else pytest.mark.slow) for n in ALL])
def test_no_verb_changes_anything_global(name, tmp_path):
    use(name, str(tmp_path))


def in_a_new_process(names: list[str], folder: Any) -> None:
    code = f"from tests.contract.surroundings import use; [use(name, {str(folder)!r}) for name in {names}]"
    found = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)
    assert not found.returncode, found.stderr.splitlines()[-1]


def test_nor_does_its_first_use_in_a_process(tmp_path):
    in_a_new_process(FIRST, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_nor_does_the_first_use_of_any_model(name, tmp_path):
    in_a_new_process([name], tmp_path)
