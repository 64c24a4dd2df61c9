"""Normalizing flows on a GPU: spline flows beside zuko's of equal size, and bits per pixel of MNIST.

Run with ``python -m benchmarks.gpu.flows speed OUT_FOLDER [FOLDER_OF_ZUKO]`` for rows learned from and drawn in a
second, and ``python -m benchmarks.gpu.flows mnist OUT_FOLDER MNIST.npz [SECONDS]`` for the likelihood: 28 by 28 pixels
as they are, 256 levels, uniform dequantization, a multi-scale flow of convolutional coupling layers. The file holds
``images`` (70000, 784) uint8, the test digits last. A run that is cut short goes on from its last checkpoint.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import benthic

SIZE: dict[str, Any] = {"transforms": 3, "hidden_layer_sizes": (64, 64), "bins": 8}
ROWS, WIDTH = 1 << 17, 8
LEVELS, PIXELS = 256, 784
# coupling by splines, since the noise that fills the steps of black pixels is far from normal
FLOW: dict[str, Any] = {"kind": "nsf_coupling", "transforms": 10, "channels": 128, "bins": 8, "scales": 2}
TRAINER: dict[str, Any] = {
    "batch_size": 256,
    "lr": 1e-3,
    "schedule": {"name": "cosine", "warmup": 0.02},
    "ema": 0.999,
    "clip": 50.0,
    "precision": "tf32",
    "verbose": False,
}
SECONDS, TRIAL = 520.0, 300


# -- speed -----------------------------------------------------------------------------------------------


def rows() -> torch.Tensor:
    """Correlated rows, some bent, on the device."""
    source = torch.Generator("cuda").manual_seed(0)
    X = torch.randn(ROWS, WIDTH, device="cuda", generator=source)
    X = X @ torch.randn(WIDTH, WIDTH, device="cuda", generator=source)
    return X + 0.3 * X.square().roll(1, 1)


def ours(X: torch.Tensor, batch: int, updates: int, *, capture: bool = True) -> tuple[float, Any]:
    """Seconds of a fit of so many updates, and the model."""
    trainer = {"steps": updates, "batch_size": batch, "lr": 1e-3, "capture": capture, "verbose": False}
    model = benthic.NormalizingFlow("nsf", **SIZE, trainer=trainer, random_state=0)
    torch.cuda.synchronize()
    start = time.perf_counter()
    model.fit(X)
    torch.cuda.synchronize()
    return time.perf_counter() - start, model


def zuko(X: torch.Tensor, batch: int, updates: int) -> tuple[float, Any]:
    """Seconds of a loop written by hand, with a fused optimizer, and the flow."""
    from zuko.flows import NSF

    torch.manual_seed(0)
    scaled = (X - X.mean(0)) / X.std(0)
    flow = NSF(WIDTH, transforms=SIZE["transforms"], hidden_features=SIZE["hidden_layer_sizes"], bins=SIZE["bins"])
    flow = flow.cuda()
    optimizer = torch.optim.Adam(flow.parameters(), lr=1e-3, fused=True)
    torch.cuda.synchronize()
    start, done = time.perf_counter(), 0
    while done < updates:
        for picked in torch.randperm(len(X), device="cuda").split(batch)[: updates - done]:
            optimizer.zero_grad(set_to_none=True)
            (-flow().log_prob(scaled[picked]).mean()).backward()
            optimizer.step()
            done += 1
    torch.cuda.synchronize()
    return time.perf_counter() - start, flow


def rate(work: Callable[[int], tuple[float, Any]], batch: int, few: int, many: int) -> float:
    """Rows learned from in a second once running: a short run is taken off a long one."""
    work(few)
    return batch * (many - few) / (work(many)[0] - work(few)[0])


def drawn(work: Callable[[], Any], count: int, repeats: int = 5) -> float:
    """Rows drawn in a second, by the median time."""
    work()
    times = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return count / float(np.median(times))


def speed(out: Path) -> None:
    """Rates of both, written to one file; without zuko only ours."""
    X = rows()
    found: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    try:
        import zuko as peer

        found["zuko"] = peer.__version__
    except ImportError:
        found["zuko"] = None
    for batch in (512, 4096):
        found[f"train {batch}, benthic"] = rate(lambda n, b=batch: ours(X, b, n), batch, 100, 1100)
        found[f"train {batch}, benthic, not captured"] = rate(
            lambda n, b=batch: ours(X, b, n, capture=False), batch, 20, 120
        )
        if found["zuko"]:
            found[f"train {batch}, zuko"] = rate(lambda n, b=batch: zuko(X, b, n), batch, 20, 120)
            ratio = found[f"train {batch}, benthic"] / found[f"train {batch}, zuko"]
            found[f"train {batch}, benthic / zuko"] = ratio
    model, count = ours(X, 4096, 20)[1], 1 << 14
    found["sample, benthic"] = drawn(lambda: model.sample(count, seed=0), count)
    if found["zuko"]:
        flow = zuko(X, 4096, 20)[1]
        with torch.no_grad():
            found["sample, zuko"] = drawn(lambda: flow().sample((count,)), count)
        found["sample, benthic / zuko"] = found["sample, benthic"] / found["sample, zuko"]
    for name, value in found.items():
        print(f"{name:40} {value}", flush=True)
    (out / "flows_speed.json").write_text(json.dumps(found, indent=1))


# -- MNIST -----------------------------------------------------------------------------------------------


def digits(path: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Levels 0 .. 255 of training and test digits, (n, 1, 28, 28), on the device."""
    with np.load(path) as file:
        images = torch.from_numpy(file["images"]).reshape(-1, 1, 28, 28).float()
    return images[:60_000].cuda(), images[60_000:].cuda()


def model_of(trainer: dict[str, Any]) -> Any:
    """The flow of this benchmark."""
    return benthic.NormalizingFlow(**FLOW, levels=LEVELS, trainer={**TRAINER, **trainer}, random_state=0)


def plan(X: torch.Tensor, out: Path, seconds: float) -> int:
    """How many updates fill the seconds, from a trial; kept, so that a run which is resumed keeps its schedule."""
    path = out / "flows_plan.json"
    if path.exists():
        return int(json.loads(path.read_text())["updates"])
    few, many = 40, TRIAL
    model_of({"steps": few}).fit(X)  # kernels are compiled here
    times = []
    for updates in (few, many):
        torch.cuda.synchronize()
        start = time.perf_counter()
        model_of({"steps": updates}).fit(X)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    pace = (many - few) / (times[1] - times[0])
    updates = int(pace * seconds)
    path.write_text(json.dumps({"updates": updates, "updates a second": pace, "seconds": seconds}))
    return updates


def mnist(out: Path, data: str, seconds: float) -> None:
    """Train for so long, then bits per pixel of the test digits."""
    X, test = digits(data)
    updates = plan(X, out, seconds)
    folder = out / "flows_run"
    trainer = {
        "steps": updates,
        "checkpoint": {"folder": str(folder), "every_seconds": 60.0},
        "resume": folder.exists(),
    }
    torch.cuda.synchronize()
    start = time.perf_counter()
    model = model_of(trainer).fit(X)
    torch.cuda.synchronize()
    taken = time.perf_counter() - start
    unit = PIXELS * np.log(2)
    found = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "flow": FLOW,
        "trainer": {key: str(value) for key, value in TRAINER.items()},
        "updates": updates,
        "seconds of this run": taken,
        "weights": sum(p.numel() for p in model.network_.parameters()),
        "train bits per pixel": -model.likelihood(X[:10_000], "elbo(1)").mean() / unit,
        "test bits per pixel": -model.likelihood(test, "elbo(4)").mean() / unit,
        "test bits per pixel, importance(32)": -model.likelihood(test, "importance(32)").mean() / unit,
    }
    print(json.dumps(found, indent=1), flush=True)
    model.save(out / "flows_mnist.safetensors")
    (out / "flows_mnist.json").write_text(json.dumps(found, indent=1))


def main(arguments: list[str]) -> None:
    """One of the two parts."""
    warnings.simplefilter("ignore")
    part, out, *more = arguments
    Path(out).mkdir(parents=True, exist_ok=True)
    if part == "speed":
        sys.path[:0] = more[:1]
        speed(Path(out))
    else:
        mnist(Path(out), more[0], float(more[1]) if len(more) > 1 else SECONDS)


if __name__ == "__main__":
    main(sys.argv[1:])
