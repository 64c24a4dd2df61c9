"""Two processes learn what one learns."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from benthic.training.distributed import World
from benthic.training.learner import Stats

SCRIPT = """
import sys, os, numpy as np, torch, benthic
torch.set_num_threads(1)
rng = np.random.default_rng(0)
X = rng.normal(size=(1000, 8)); X[:500] += 2.0; y = (X[:, 0] + X[:, 1] > 1).astype(int)
out = {}
def keep(name, model):
    out.update({name + k: v.double().numpy() for k, v in model.network_.state_dict().items()})
keep("mlp64.", benthic.MLPClassifier((16,), random_state=0, trainer=dict(
    steps=80, batch_size=50, precision="float64", accumulate=2)).fit(X, y))
keep("sgd32.", benthic.MLPClassifier((16,), random_state=0, trainer=dict(
    steps=1, batch_size=50, optimizer="sgd", lr=1.0)).fit(X.astype(np.float32), y))
m = benthic.GaussianMixture(3, tol=0.0, max_iter=20, random_state=0).fit(X)
out.update(weights=m.weights_, means=m.means_, covariances=m.covariances_)
l = benthic.LogisticRegression().fit(X, y)
out.update(coef=l.coef_)
benthic.VAE(2, hidden_layer_sizes=(8,), random_state=0, trainer=dict(
    steps=30, checkpoint=sys.argv[1] + "_run")).fit(X)
if int(os.environ.get("RANK", "0")) == 0:
    np.savez(sys.argv[1], **out)
"""


def _run(tmp_path: Path, processes: int) -> dict[str, np.ndarray]:
    script, out = tmp_path / "script.py", tmp_path / f"out{processes}.npz"
    script.write_text(SCRIPT)
    start = [sys.executable]
    if processes > 1:
        start = [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            f"--nproc-per-node={processes}",
        ]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([*start, str(script), str(out)], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(np.load(out))


def test_two_processes_equal_one(tmp_path):
    one, two = _run(tmp_path, 1), _run(tmp_path, 2)
    assert set(one) == set(two)
    for name, value in one.items():
        tolerance = {"m": 1e-9, "s": 1e-6}.get(name[0], 1e-10) if "." in name else 1e-10
        if name == "coef":
            tolerance = 1e-7  # both stop within the solver's tolerance of the optimum
        np.testing.assert_allclose(two[name], value, rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("rows", [0, 1, 7, 10])
def test_shares_are_disjoint_and_cover_all(size, rows):
    parts = [list(range(rows))[World(rank, size).share(rows)] for rank in range(size)]
    assert [row for part in parts for row in part] == list(range(rows))


def test_stats_add():
    total = Stats(2.0, {"a": torch.ones(2)})
    total += Stats(3.0, {"a": torch.ones(2), "b": torch.tensor(4.0)})
    assert total.weight == 5.0 and total["a"].tolist() == [2.0, 2.0] and float(total["b"]) == 4.0
