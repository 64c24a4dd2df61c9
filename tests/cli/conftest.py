from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from benthic.cli.main import app

# small enough to fit in well under a second, and the same in every run
TINY = ("--set", "trainer.steps=40", "--set", "trainer.lr=0.02", "--set", "random_state=0")

# a shell that runs the tests in the background makes them deaf to Ctrl-C, and so would be their children
_PROGRAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from benthic.cli.main import main
main()
"""


class Answer:
    """What a command did."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def ok(self) -> Answer:
        assert self.code == 0, self.err
        return self


def call(*words: Any) -> Answer:
    """One command in this process."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Answer(result.exit_code, result.stdout, result.stderr)


def begin(*words: Any, folder: Path, **settings: str) -> subprocess.Popen[str]:
    """One command in a process of its own, with as many threads as this one."""
    import torch

    environment = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads()), "MPLBACKEND": "Agg", **settings}
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, *map(str, words)],
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BENTHIC_DEBUG", raising=False)


@pytest.fixture(scope="session")
def iris_run(tmp_path_factory) -> Path:
    """A finished run of a classifier."""
    folder = tmp_path_factory.mktemp("iris") / "run"
    call("fit", "MLPClassifier", "iris", *TINY, "--out", folder).ok()
    return folder


@pytest.fixture(scope="session")
def pets(tmp_path_factory) -> Path:
    """A table with every kind of column."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(0)
    n = 120
    kind = rng.choice(["cat", "dog", "bird"], n)
    weight = np.where(kind == "bird", 0.5, 9.0) + rng.normal(0, 0.3, n)
    frame = pd.DataFrame(
        {
            "kind": pd.Categorical(kind, categories=["dog", "cat", "bird"]),
            "age": rng.integers(1, 15, n).astype("int16"),
            "weight": weight.astype("float32"),
            "wild": rng.random(n) < 0.3,
            "born": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D"),
            "note": [f"no two are alike: {i}" for i in range(n)],
            "price": weight * 10 + rng.normal(0, 1, n),
        }
    )
    path = tmp_path_factory.mktemp("pets") / "pets.parquet"
    frame.to_parquet(path)
    frame.to_csv(path.with_suffix(".csv"), index=False)
    return path


@pytest.fixture(scope="session")
def pets_run(tmp_path_factory, pets) -> Path:
    """A finished run of a generative model on a table."""
    folder = tmp_path_factory.mktemp("pets") / "run"
    settings = ("--set", "latent_dim=2", "--set", "hidden_layer_sizes=(16,)")
    call("fit", "VAE", pets, "--drop", "price", *settings, *TINY, "--out", folder).ok()
    return folder
