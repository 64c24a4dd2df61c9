"""Kill training at random moments; what resumes must end bit-identical to what was never killed."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.harness import Timings, python
from benchmarks.report import Claim, Result, exact

TITLE = "20 random kill -9 during training: resumed runs end bit-identical, no checkpoint is unreadable"
EVERY = 0.1  # least seconds between checkpoints, so that a short run has many to be killed in


def worker(folder: str, steps: int) -> dict[str, object]:
    """Train with checkpoints, resuming where there is one; report a digest of the final weights."""
    import benthic

    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 20)).astype(np.float32)
    y = (X[:, :10].sum(1) + X[:, 10] * X[:, 11] > 0).astype(int)
    trainer = benthic.Trainer(
        steps=steps,
        batch_size=64,
        schedule="warmup_cosine",
        ema=0.99,
        checkpoint={"folder": folder, "every_seconds": EVERY},
        resume=True,
        device="cpu",
        verbose=False,
    )
    model = benthic.MLPClassifier((64, 64), dropout=0.2, trainer=trainer, random_state=0)
    print("started", flush=True)
    start = time.perf_counter()
    model.fit(X, y)
    digest = hashlib.sha256()
    for name, value in sorted(model.network_.state_dict().items()):
        digest.update(name.encode() + value.numpy().tobytes())
    return {"digest": digest.hexdigest(), "seconds": time.perf_counter() - start}


def kill_after(folder: Path, steps: int, seconds: float) -> bool:
    """Start training and kill it `seconds` after fit began; whether it was still running then."""
    command = [sys.executable, "-m", "benchmarks.resume", str(folder), str(steps)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        if process.stdout is None or process.stdout.readline() != "started\n":
            raise RuntimeError("the training process did not start")
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            return True
    return False


def unreadable(folder: Path) -> tuple[int, int]:
    """Count the checkpoints there and those that do not load."""
    from benthic.base.errors import ModelFileError
    from benthic.base.modelfile import load_tree

    paths, bad = sorted((folder / "checkpoints").glob("step-*.safetensors")), 0
    for path in paths:
        try:
            load_tree(path)
        except ModelFileError:
            bad += 1
    return len(paths), bad


def train(folder: Path, steps: int) -> dict[str, object]:
    """Train to the end in a process of its own."""
    found: dict[str, object] = python("-m", "benchmarks.resume", str(folder), str(steps))
    return found


def run(quick: bool = False) -> Result:
    """Kill at 20 moments drawn uniformly over the length of an unbroken run, resume each, compare."""
    steps, kills = (400, 2) if quick else (4000, 20)
    rng = np.random.default_rng(0)
    struck = different = files = bad = 0
    with tempfile.TemporaryDirectory() as root:
        whole = train(Path(root) / "whole", steps)
        trial = 0
        while struck < kills and trial < 5 * kills:
            folder = Path(root) / str(trial)
            trial += 1
            struck += kill_after(folder, steps, float(rng.uniform(0, float(str(whole["seconds"])))))
            present, broken = unreadable(folder)
            files, bad = files + present, bad + broken
            different += train(folder, steps)["digest"] != whole["digest"]
    claims = [
        Claim("runs killed while training", exact(struck), ">=", kills),
        Claim("resumed runs that differ in any bit", exact(different), "<=", 0),
        Claim(f"unreadable checkpoints of the {files} found after a kill", exact(bad), "<=", 0),
    ]
    timings = Timings({"unbroken run": [float(str(whole["seconds"]))]})
    return Result("resume", TITLE, claims, timings, {"steps": steps, "kills": kills, "trials": trial})


if __name__ == "__main__":
    print(json.dumps(worker(sys.argv[1], int(sys.argv[2]))))
