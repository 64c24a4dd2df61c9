"""How fast a U-Net of 35.7 million weights trains and samples on a GPU through ``fit`` and ``sample``.

Run with ``python -m benchmarks.gpu.unet_speed OUT.json [--parts fit bare] [--kinds compiled captured] [--quick]``;
``--cpu`` rehearses everything with a tiny network where there is no GPU. Pictures of 3 x 32 x 32 that lie on the
device, batch 512, bfloat16, weights averaged. Beside it a bare step on the same network in the channels-last layout,
compiled or not. Every number is printed and written as it comes, so that a run that is cut off keeps them. Compilation
is all of the first step, and of the first evaluations, beyond what later ones take; the part that comes second finds
kernels of the first in torch's cache. Where a run stands is printed every two minutes. The host's waits for the device
in the loop of sampling are counted by torch's warnings about them.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

import benthic
from benthic.nets.unet import UNet
from benthic.training.callbacks import Callback

_WATCH = 120  # seconds between two looks at where the run stands


@dataclass(frozen=True)
class Size:
    """What is run. warm: evaluations before those that are timed."""

    device: str
    rows: int
    batch: int
    channels: int
    multipliers: tuple[int, ...]
    blocks: int
    passes: int
    steps: int
    warm: int = 5

    @property
    def network(self) -> dict[str, Any]:
        """Settings of the U-Net of Ho et al., 2020, for CIFAR-10, or of a small one of its kind."""
        shape = {"channels": self.channels, "multipliers": self.multipliers, "blocks": self.blocks}
        return {**shape, "attention": (16,), "scale_shift": False, "dropout": 0.1}


FULL = Size("cuda", 20_480, 512, 128, (1, 2, 2, 2), 2, passes=4, steps=60)
QUICK = Size("cuda", 20_480, 512, 128, (1, 2, 2, 2), 2, passes=2, steps=10)
TINY = Size("cpu", 96, 16, 8, (1, 2), 1, passes=3, steps=4, warm=2)


class Notes:
    """Numbers by name, printed and written as they come; those of an earlier run in the same file stay."""

    def __init__(self, path: Path) -> None:
        self.path, self.begun = path, time.perf_counter()
        self.found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}

    def keep(self, name: str, value: Any) -> None:
        """Keep this one."""
        self.found[name] = value
        self.path.write_text(json.dumps(self.found, indent=1))
        print(f"{time.perf_counter() - self.begun:7.1f} s  {name}: {value}", flush=True)


def wait(size: Size) -> float:
    """The time, with the device idle."""
    if size.device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def timed(work: Callable[[], Any], size: Size) -> float:
    """Seconds, with the device idle before and after."""
    start = wait(size)
    work()
    return wait(size) - start


def pictures(size: Size) -> Tensor:
    """Smooth random pictures, on the device."""
    source = torch.Generator(size.device).manual_seed(0)
    coarse = torch.randn(size.rows, 3, 4, 4, device=size.device, generator=source)
    return F.interpolate(coarse, size=(32, 32), mode="bilinear").clamp(-2, 2)


class Watch(Callback):
    """Notes the rate of each pass over the data, and how much longer the first step took than a later one."""

    def __init__(self, size: Size, kind: str, notes: Notes) -> None:
        self.size, self.kind, self.notes = size, kind, notes
        self.start, self.first, self.passed = 0.0, 0.0, 0.0
        self.rates: list[float] = []

    def on_start(self, moment: Any) -> None:
        """Take the time."""
        self.start = wait(self.size)

    def on_step(self, moment: Any, info: Any) -> None:
        """Take the time of the first step."""
        if moment.step == 1:
            self.first = wait(self.size) - self.start
            self.notes.keep(f"fit {self.kind}, seconds of the first step", self.first)

    def on_epoch(self, moment: Any, logs: dict[str, Any]) -> None:
        """Note the rate of this pass, from the second on, and the median so far."""
        now = wait(self.size)
        if self.passed:
            self.rates.append(self.size.rows / (now - self.passed))
            self.notes.keep(f"fit {self.kind}, images/s of each pass", self.rates)
            self.notes.keep(f"fit {self.kind}, images/s", sorted(self.rates)[len(self.rates) // 2])
        if len(self.rates) == 1:
            step = self.size.batch / self.rates[0]
            self.notes.keep(f"fit {self.kind}, seconds of compilation", self.first - step)
        self.passed = now


def through_fit(X: Tensor, kind: str, size: Size, notes: Notes) -> None:
    """Rates of ``fit`` and ``sample``."""
    settings = {"batch_size": size.batch, "precision": "bf16", "ema": 0.9999, "verbose": False, "device": size.device}
    watch = Watch(size, kind, notes)
    trainer = {**settings, "epochs": size.passes, "compile": kind == "compiled", "callbacks": [watch]}
    begun = time.perf_counter()
    fitted = benthic.DDPM(unet=size.network, trainer=trainer, sampler="ddim", random_state=0).fit(X)
    notes.keep(f"fit {kind}, seconds in all", time.perf_counter() - begun)
    note_compilation(f"fit {kind}", notes)

    def draw(steps: int) -> float:
        return timed(lambda: fitted.sample(size.batch, seed=0, steps=steps), size)

    first = draw(size.warm)
    draw(size.warm)
    short = draw(size.warm)
    notes.keep(f"sample {kind}, seconds of compilation", first - short)
    rate = size.batch * size.steps / (draw(size.warm + size.steps) - short)
    notes.keep(f"sample {kind}, evaluations x images/s", rate)
    if size.device == "cuda":
        waits = [_waits(lambda s=s: fitted.sample(size.batch, seed=0, steps=s)) for s in (5, 25)]
        notes.keep(f"sample {kind}, waits in the loop", waits[1] - waits[0])  # what more steps add is in the loop


def bare(X: Tensor, kind: str, size: Size, notes: Notes) -> None:
    """Rates of a plain step and of a plain forward pass: compiled, or as PyTorch runs them by itself."""
    name = "compiled" if kind == "compiled" else "eager"
    torch.manual_seed(0)
    net = UNet((3, 32, 32), **size.network).to(size.device).to(memory_format=torch.channels_last)
    call: Any = torch.compile(net) if kind == "compiled" else net
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-4, fused=True)
    x = X[: size.batch].contiguous(memory_format=torch.channels_last)
    t = torch.rand(size.batch, device=size.device) * 1000

    def train(count: int) -> None:
        for _ in range(count):
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(size.device, torch.bfloat16):
                loss = (call(x, t) - x).square().mean()
            loss.backward()
            optimizer.step()

    @torch.no_grad()
    def forward(count: int) -> None:
        net.eval()
        with torch.autocast(size.device, torch.bfloat16):
            for _ in range(count):
                call(x, t)

    for what, work in (("step", train), ("forward", forward)):
        first = timed(lambda work=work: work(1), size)
        work(size.warm)
        each = timed(lambda work=work: work(size.steps), size) / size.steps
        notes.keep(f"bare {what} {name}, seconds of compilation", first - each)
        notes.keep(f"bare {what} {name}, images/s", size.batch / each)
    note_compilation(f"bare {name}", notes)


def note_compilation(name: str, notes: Notes) -> None:
    """How many graphs torch has made so far in this process, where it broke them, and what took longest."""
    from torch._dynamo.utils import compilation_time_metrics, counters

    spent = {key: round(sum(values), 1) for key, values in compilation_time_metrics.items()}
    longest = sorted(spent, key=lambda key: -spent[key])[:12]
    notes.keep(f"{name}, graphs so far", counters["stats"]["unique_graphs"])
    notes.keep(f"{name}, breaks of graphs so far", sum(counters["graph_break"].values()))
    notes.keep(f"{name}, seconds of compilation by part so far", {key: spent[key] for key in longest})


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
    """Every setting that is named; what the file has already from other settings is kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--parts", nargs="+", default=["fit", "bare"], choices=["fit", "bare"])
    parser.add_argument("--kinds", nargs="+", default=["compiled", "captured"], choices=["compiled", "captured"])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--cpu", action="store_true")
    given = parser.parse_args()
    size = TINY if given.cpu else QUICK if given.quick else FULL
    faulthandler.dump_traceback_later(_WATCH, repeat=True)
    notes, X = Notes(given.out), pictures(size)
    weights = sum(p.numel() for p in UNet((3, 32, 32), **size.network).parameters())
    device = "cpu" if given.cpu else torch.cuda.get_device_name()
    for name, value in (("device", device), ("torch", torch.__version__), ("weights", weights)):
        notes.keep(name, value)
    for kind, part in [(kind, part) for kind in given.kinds for part in given.parts]:
        (through_fit if part == "fit" else bare)(X, kind, size, notes)


if __name__ == "__main__":
    main()
