"""Normalizing flows on a GPU: spline flows beside zuko's of equal size, and bits per pixel of MNIST.

Run with ``python -m benchmarks.gpu.flows speed OUT_FOLDER [FOLDER_OF_ZUKO]`` for rows learned from and drawn in a
second, and ``python -m benchmarks.gpu.flows mnist OUT_FOLDER MNIST.npz [SECONDS]`` for the likelihood: 28 by 28 pixels
as they are, 256 levels, uniform dequantization, a multi-scale flow of convolutional coupling layers. The file holds
``images`` (70000, 784) uint8, the test digits last. A run that is cut short goes on from its last checkpoint.
``python -m benchmarks.gpu.flows cnf OUT_FOLDER MNIST.npz [SECONDS] [--quick]`` takes the same measure of a continuous
flow that is trained by maximum likelihood through its solver; ``--quick`` is a tiny one, to see that it runs, and
``--channels``, ``--batch`` and ``--judged`` make it small enough for a machine without a GPU.
"""

from __future__ import annotations

import argparse
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
from benchmarks.gpu.picture_judge import SIDE, device, save_png

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
CNF: dict[str, Any] = {"kind": "cnf", "channels": 64}
CNF_TRAINER: dict[str, Any] = {**TRAINER, "lr": 1.5e-3}
CNF_SECONDS = 240.0
FRESH, BLOCK = 2, 1000  # draws of noise for each pixel, digits judged at once
TRACED, PROBES = 32, 16  # digits whose trace is also computed exactly, and the probes it is compared with


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
    return images[:60_000].to(device()), images[60_000:].to(device())


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
        **fresh_bits(model.network_, test),
    }
    print(json.dumps(found, indent=1), flush=True)
    model.save(out / "flows_mnist.safetensors")
    (out / "flows_mnist.json").write_text(json.dumps(found, indent=1))


@torch.no_grad()
def log_masses(network: Any, X: torch.Tensor, draws: int, kind: str = "fine") -> torch.Tensor:
    """Estimates (draws, n) of the bound on log P of each picture, in nats; every pixel draws its own noise.

    kind: ``fine``, as everywhere but in training, with a new probe for each draw where the trace is estimated;
    ``training``, by the solver of training; ``exact``, by the exact trace; or ``probes``. The last two draw noise once
    for all, so that they can be compared.
    """
    network.eval()
    source = torch.Generator(X.device).manual_seed(0)
    signs = torch.Generator(X.device).manual_seed(1)
    found = []
    for block in X.flatten(1).split(BLOCK):
        values = []
        u = torch.rand(block.shape, generator=source, device=X.device)
        for draw in range(draws):
            if draw and kind in ("fine", "training"):
                u = torch.rand(block.shape, generator=source, device=X.device)
            y, log = network.dequantizer(block, u)
            probes = torch.randint(2, block.shape, generator=signs, device=X.device) * 2.0 - 1.0
            if kind == "training":
                scaled, more = network.transform.norm(y)
                value = more - network.transform.body.network(scaled, 0.0)
            elif kind == "exact" or not network.estimated:
                value = network.log_density(y)
            else:
                value = network.log_estimate(y, probes)
            values.append(value.double() + log)
        found.append(torch.stack(values))
    return torch.cat(found, 1)


def fresh_bits(network: Any, X: torch.Tensor, kind: str = "fine", name: str = "test") -> dict[str, float]:
    """Bits per pixel, with the standard error over pictures and that which noise and probes alone make."""
    values = -log_masses(network, X, FRESH, kind) / (PIXELS * np.log(2))
    name, n = f"{name} bits per pixel, fresh noise", values.shape[1]
    return {
        name: float(values.mean()),
        f"{name}: standard error": float(values.mean(0).std()) / n**0.5,
        f"{name}: of noise alone": float(values.var(0).mean() / (n * FRESH)) ** 0.5,
    }


def traces(network: Any, X: torch.Tensor) -> dict[str, Any]:
    """The estimated trace beside the exact one, of a few pictures with the same noise."""
    unit = PIXELS * np.log(2)
    exact = -log_masses(network, X, 1, "exact")[0] / unit
    estimates = -log_masses(network, X, PROBES, "probes") / unit
    error = float((estimates.var(0).mean() / (PROBES * len(X))) ** 0.5)
    return {
        "pictures": len(X),
        "bits per pixel, exact trace": float(exact.mean()),
        f"bits per pixel, {PROBES} probes": float(estimates.mean()),
        "standard error of the difference": error,
    }


def cnf(out: Path, data: str, seconds: float, given: argparse.Namespace) -> None:
    """Train a continuous flow for so long, then bits per pixel of the test digits, and a picture of samples."""
    X, test = digits(data)
    channels, batch, quick = given.channels, given.batch, given.quick
    test = test[: given.judged]
    if quick:
        X, test, channels, batch = X[:256], test[:16], 4, 16
    flow, settings = {**CNF, "channels": channels}, {**CNF_TRAINER, "batch_size": batch}
    folder = out / "cnf_run"
    trainer = {
        **settings,
        "seconds": seconds,
        "checkpoint": {"folder": str(folder), "every_seconds": 60.0},
        "resume": folder.exists(),
    }
    start = time.perf_counter()
    model = benthic.NormalizingFlow(**flow, levels=LEVELS, trainer=trainer, random_state=0).fit(X)
    updates = model.history_[-1]["step"]  # reading the loss waits for the device
    taken = time.perf_counter() - start
    model.save(out / "cnf_mnist.safetensors")
    body, unit = model.network_.transform.body, PIXELS * np.log(2)
    on_gpu = X.is_cuda
    found: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if on_gpu else "cpu",
        "torch": torch.__version__,
        "flow": flow,
        "trainer": {key: str(value) for key, value in settings.items()},
        "quick": quick,
        "training pictures": len(X),
        "test pictures": len(test),
        "updates": updates,
        "seconds of training": seconds,
        "seconds of this run": taken,
        "most memory of training, bytes": torch.cuda.max_memory_allocated() if on_gpu else None,
        "weights": sum(p.numel() for p in model.network_.parameters()),
        "trace in training": "Hutchinson, one probe of signs a picture, fixed during a solve",
        "trace in testing": f"Hutchinson, one probe of signs for each of {FRESH} draws of noise a picture",
        "solver in training": f"{body.network.method}, {body.network.steps} steps, inner ends moved at random",
        "solver in testing": f"dormand_prince, steps of each picture controlled, rtol = atol = {body.tolerance}",
        "weight of penalties": body.regularization,
        "loss at the end, nats": model.history_[-1]["loss"],
    }
    start = time.perf_counter()
    found |= fresh_bits(model.network_, test)
    found["seconds of judging the test digits"] = time.perf_counter() - start
    report(out, found)
    tiles = torch.as_tensor(model.sample(100, seed=0)).cpu().reshape(10, 10, SIDE, SIDE) / (LEVELS - 1)
    save_png(out / "cnf_samples.png", tiles.transpose(1, 2).reshape(10 * SIDE, 10 * SIDE))
    found |= fresh_bits(model.network_, test, "training", "by the solver of training, test")
    found |= fresh_bits(model.network_, X[: len(test) // 5], name="train")
    report(out, found)
    found["test bits per pixel"] = -model.likelihood(test, f"elbo({FRESH})").mean() / unit
    found["trace"] = traces(model.network_, test[: 2 if quick else TRACED if on_gpu else TRACED // 8])
    report(out, found)
    print(json.dumps(found, indent=1), flush=True)


def report(out: Path, found: dict[str, Any]) -> None:
    """Write what is known so far."""
    (out / "cnf_mnist.json").write_text(json.dumps(found, indent=1))


def main() -> None:
    """One of the parts."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["speed", "mnist", "cnf"])
    parser.add_argument("out", type=Path)
    parser.add_argument("source", nargs="?", help="the digits; of speed, a folder that holds zuko")
    parser.add_argument("seconds", nargs="?", type=float)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--channels", type=int, default=CNF["channels"])
    parser.add_argument("--batch", type=int, default=CNF_TRAINER["batch_size"])
    parser.add_argument("--judged", type=int, default=10_000, help="test digits whose likelihood is taken")
    given = parser.parse_args()
    if given.part != "speed" and given.source is None:
        parser.error(f"{given.part} needs the file of digits")
    given.out.mkdir(parents=True, exist_ok=True)
    if given.part == "speed":
        sys.path[:0] = [given.source] if given.source else []
        speed(given.out)
    elif given.part == "cnf":
        cnf(given.out, given.source, given.seconds or CNF_SECONDS, given)
    else:
        mnist(given.out, given.source, given.seconds or SECONDS)


if __name__ == "__main__":
    main()
