"""How fast a U-Net of 35.7 million weights trains and samples on a GPU through ``fit`` and ``sample``.

Run with ``python -m benchmarks.gpu.unet_speed OUT.json [--parts fit bare] [--kinds compiled captured] [--quick]``.
Pictures of 3 x 32 x 32 that lie on the device, batch 512, bfloat16, weights averaged. Beside it a bare step on the same
network in the channels-last layout, compiled or not. Rates of fitting are of the passes after the first, which compiles
or captures, within one fit. The host's waits for the device in the loop of sampling are counted by torch's warnings
about them.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

import benthic
from benthic.nets.unet import UNet
from benthic.training.callbacks import Callback

ROWS, BATCH = 20_480, 512
SHAPE = {"channels": 128, "multipliers": (1, 2, 2, 2), "blocks": 2, "attention": (16,), "scale_shift": False}


def pictures() -> Tensor:
    """Smooth random pictures, on the device."""
    source = torch.Generator("cuda").manual_seed(0)
    coarse = torch.randn(ROWS, 3, 4, 4, device="cuda", generator=source)
    return F.interpolate(coarse, size=(32, 32), mode="bilinear").clamp(-2, 2)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, with the device idle before and after."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    found = work()
    torch.cuda.synchronize()
    return time.perf_counter() - start, found


def model(steps: int, **trainer: Any) -> Any:
    """DDPM with the U-Net of the paper."""
    settings = {"steps": steps, "batch_size": BATCH, "precision": "bf16", "ema": 0.9999, "verbose": False, **trainer}
    return benthic.DDPM(unet={**SHAPE, "dropout": 0.1}, trainer=settings, sampler="ddim", random_state=0)


class Passes(Callback):
    """When each pass over the data ended, with the device idle."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def on_epoch(self, moment: Any, logs: dict[str, Any]) -> None:
        """Take the time."""
        torch.cuda.synchronize()
        self.times.append(time.perf_counter())


def training_rate(X: Tensor, passes: int, **trainer: Any) -> tuple[float, Any]:
    """Images a second of the passes after the first, and the fitted model; every fit compiles anew, so there is one."""
    clock = Passes()
    fitted = model(passes * (len(X) // BATCH), callbacks=[clock], **trainer).fit(X)
    return len(X) * (passes - 1) / (clock.times[-1] - clock.times[0]), fitted


def bare_rate(X: Tensor, compiled: bool, steps: int) -> tuple[float, float]:
    """Images a second of a plain step, and evaluations times images a second of a plain forward pass."""
    torch.manual_seed(0)
    net = UNet.cifar().cuda().to(memory_format=torch.channels_last)
    call: Any = torch.compile(net) if compiled else net
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-4, fused=True)
    x = X[:BATCH].contiguous(memory_format=torch.channels_last)
    t = torch.rand(BATCH, device="cuda") * 1000

    def train(count: int) -> None:
        for _ in range(count):
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cuda", torch.bfloat16):
                loss = (call(x, t) - x).square().mean()
            loss.backward()
            optimizer.step()

    @torch.no_grad()
    def forward(count: int) -> None:
        net.eval()
        with torch.autocast("cuda", torch.bfloat16):
            for _ in range(count):
                call(x, t)

    train(5)
    trained, _ = timed(lambda: train(steps))
    forward(5)
    passed, _ = timed(lambda: forward(2 * steps))
    return BATCH * steps / trained, BATCH * 2 * steps / passed


def sampling_rate(fitted: Any, steps: int) -> tuple[float, int]:
    """Evaluations times images a second of ``sample``, and how often the host waited meanwhile."""
    fitted.sample(BATCH, seed=0, steps=5)
    fitted.sample(BATCH, seed=0, steps=5)
    short, _ = timed(lambda: fitted.sample(BATCH, seed=0, steps=5))
    long, _ = timed(lambda: fitted.sample(BATCH, seed=0, steps=5 + steps))
    waits = [_waits(lambda s=s: fitted.sample(BATCH, seed=0, steps=s)) for s in (5, 25)]
    return BATCH * steps / (long - short), waits[1] - waits[0]  # what more steps add is in the loop


def _waits(work: Callable[[], Any]) -> int:
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            work()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return sum("synchroniz" in str(warning.message) for warning in caught)


def main() -> None:
    """Every setting that is named, written to one file as it is done; what is there already is kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--parts", nargs="+", default=["fit", "bare"], choices=["fit", "bare"])
    parser.add_argument("--kinds", nargs="+", default=["compiled", "captured"], choices=["compiled", "captured"])
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    passes, steps = (2, 10) if given.quick else (4, 60)
    X, found = pictures(), json.loads(given.out.read_text()) if given.out.exists() else {}
    weights = sum(p.numel() for p in UNet.cifar().parameters())
    found.update(device=torch.cuda.get_device_name(), torch=torch.__version__, weights=weights)
    for kind, part in [(kind, part) for kind in given.kinds for part in given.parts]:
        begun = time.perf_counter()
        found.update(through_fit(X, kind, passes, steps) if part == "fit" else bare(X, kind, steps))
        found[f"{part} {kind}, seconds in all"] = time.perf_counter() - begun
        given.out.write_text(json.dumps(found, indent=1))
        print(json.dumps(found), flush=True)


def through_fit(X: Tensor, kind: str, passes: int, steps: int) -> dict[str, float]:
    """Rates of ``fit`` and ``sample``."""
    rate, fitted = training_rate(X, passes, **({"compile": True} if kind == "compiled" else {}))
    drawn, waits = sampling_rate(fitted, steps)
    return {
        f"fit {kind}, images/s": rate,
        f"sample {kind}, evaluations x images/s": drawn,
        f"sample {kind}, waits in the loop": waits,
    }


def bare(X: Tensor, kind: str, steps: int) -> dict[str, float]:
    """Rates of a plain step and a plain forward pass: compiled, or as PyTorch runs them by itself."""
    trained, passed = bare_rate(X, kind == "compiled", steps)
    name = "compiled" if kind == "compiled" else "eager"
    return {f"bare step {name}, images/s": trained, f"bare forward {name}, images/s": passed}


if __name__ == "__main__":
    main()
