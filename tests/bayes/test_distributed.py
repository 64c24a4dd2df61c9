"""Two processes learn what one learns: naive Bayes and regressions exchange sums."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

SCRIPT = """
import os, sys, numpy as np, torch, benthic
torch.set_num_threads(1)
rng = np.random.default_rng(0)
X = rng.normal(size=(501, 5)) + 3; y = X @ np.arange(5) + rng.normal(size=501); c = (X[:, 0] > 3).astype(int)
X[:, 4] += X[:, 0]
codes = np.floor(np.abs(X)); weight = rng.integers(0, 3, 501)
out = {}
for model in (benthic.LinearRegression(), benthic.Ridge(2.0), benthic.Lasso(0.1, tol=1e-12)):
    out[type(model).__name__] = model.fit(X, y, sample_weight=weight).coef_
for model in (benthic.GaussianNB(), benthic.BernoulliNB(), benthic.MultinomialNB(), benthic.CategoricalNB()):
    out[type(model).__name__] = model.fit(codes, c, sample_weight=weight).predict_joint_log_proba(codes)
if int(os.environ.get("RANK", "0")) == 0:
    np.savez(sys.argv[1], **out)
"""


def _run(tmp_path: Path, processes: int) -> dict[str, np.ndarray]:
    script, out = tmp_path / "script.py", tmp_path / f"out{processes}.npz"
    script.write_text(SCRIPT)
    start = [sys.executable]
    if processes > 1:
        start += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([*start, str(script), str(out)], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(np.load(out))


@pytest.mark.slow
@pytest.mark.spec("F-01", "F-04")
def test_two_processes_equal_one(tmp_path):
    one, two = _run(tmp_path, 1), _run(tmp_path, 2)
    assert set(one) == set(two) and len(one) == 7
    for name in one:
        np.testing.assert_allclose(two[name], one[name], rtol=1e-8, atol=1e-8, err_msg=name)
