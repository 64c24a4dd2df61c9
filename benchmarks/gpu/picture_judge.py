"""A small classifier of pictures of 28 by 28 pixels, by which generated ones are judged."""

from __future__ import annotations

import argparse
import json
import math
import struct
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

SIDE, HELD = 28, 10_000


def device() -> torch.device:
    """The GPU, or the CPU where there is none."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def pictures(path: str, quick: bool, halved: bool = False) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training pictures (n, 784) in [0, 1] and their labels, then those of the test set, on the device.

    halved: pictures of 14 by 14 pixels, (n, 196), means of four pixels each in 256 levels again.
    """
    with np.load(path) as file:
        images = torch.from_numpy(np.asarray(file["images"], dtype=np.uint8).reshape(-1, SIDE * SIDE))
        labels = torch.from_numpy(np.asarray(file["labels"]).astype(np.int64))
    if halved:
        means = F.avg_pool2d(images.reshape(-1, 1, SIDE, SIDE).float(), 2)
        images = means.round().to(torch.uint8).flatten(1)
    cut = len(images) - HELD
    train, test = (slice(0, 2000), slice(cut, cut + 1000)) if quick else (slice(0, cut), slice(cut, None))
    there = device()
    X, held = images[train].to(there) / 255.0, images[test].to(there) / 255.0
    return X, labels[train].to(there), held, labels[test].to(there)


def side_of(rows: Tensor) -> int:
    """Pixels a side of flat square pictures."""
    return math.isqrt(rows.shape[1])


class Judge(nn.Module):
    """Three convolutions, 128 features, ten classes."""

    def __init__(self, classes: int = 10, side: int = SIDE) -> None:
        super().__init__()
        self.side = side
        self.body = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(64, 128, 3, padding=1),
            nn.BatchNorm2d(128),
            nn.ReLU(),
            nn.Flatten(),
            nn.Dropout(0.3),
            nn.Linear(128 * (side // 4) ** 2, 128),
            nn.ReLU(),
        )
        self.head = nn.Linear(128, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Flat pictures in [0, 1], (n, 784) unless of another side, to logits."""
        return self.head(self.body(self._pictures(x)))

    @torch.no_grad()
    def features(self, x: Tensor) -> Tensor:
        """The 128 numbers before the last layer, in blocks."""
        return torch.cat([self.body(self._pictures(block)) for block in x.float().split(4096)])

    @torch.no_grad()
    def classes(self, x: Tensor) -> Tensor:
        """The most probable class of each picture."""
        return torch.cat([self(block).argmax(1) for block in x.float().split(4096)])

    def _pictures(self, x: Tensor) -> Tensor:
        return x.reshape(-1, 1, self.side, self.side)


def train_judge(X: Tensor, y: Tensor, held: Tensor, truth: Tensor, epochs: int) -> tuple[Judge, dict[str, float]]:
    """A judge trained with small random shifts, and what it can do."""
    torch.manual_seed(0)
    start, judge = time.perf_counter(), Judge(side=side_of(X)).to(X.device)
    optimizer = torch.optim.AdamW(judge.parameters(), lr=2e-3, weight_decay=1e-4)
    steps = epochs * -(-len(X) // 256)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=steps)
    for _ in range(epochs):
        for rows in torch.randperm(len(X), device=X.device).split(256):
            optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(judge(shifted(X[rows])), y[rows]).backward()
            optimizer.step()
            schedule.step()
    judge.eval()
    accuracy = float((judge.classes(held) == truth).float().mean())
    return judge, {"judge_accuracy": accuracy, "judge_seconds": time.perf_counter() - start}


def shifted(x: Tensor, reach: int = 2) -> Tensor:
    """Rows of pictures, all moved by the same few pixels."""
    down, right = torch.randint(-reach, reach + 1, (2,)).tolist()
    side = side_of(x)
    return torch.roll(x.reshape(-1, side, side), (down, right), (1, 2)).reshape(len(x), -1)


def save_png(path: Path, gray: Tensor) -> None:
    """A picture (h, w) of values in [0, 1] as a PNG file."""
    pixels = (gray.clamp(0, 1) * 255).round().to(torch.uint8).numpy()
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], 8, 0, 0, 0, 0)
    parts = chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(lines, 9)), chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))


def arguments(text: str, **more: Any) -> argparse.Namespace:
    """The command line that these scripts share: the data, the folder of results, seeds and a small trial."""
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("data", help="an .npz with images (70000, 784) and labels")
    parser.add_argument("out", type=Path, help="the folder of the results")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    for name, options in more.items():
        parser.add_argument(f"--{name}", **options)
    return parser.parse_args()


class Results:
    """Results by name in one JSON file; what is there already is not done again."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / f"{name}.json"
        self.found: dict[str, Any] = json.loads(self._path.read_text()) if self._path.exists() else {}
        self.found["device"] = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"

    def once(self, name: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The result of this name, worked out and written unless it is there."""
        if name not in self.found:
            self.found[name] = work()
            self._path.write_text(json.dumps(self.found, indent=1))
        print(json.dumps({"name": name, **self.found[name]}), flush=True)
        return self.found[name]
