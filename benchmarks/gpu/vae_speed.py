"""How many images a second a VAE learns from on a GPU through the public ``fit``, beside plain PyTorch.

Run with ``python -m benchmarks.gpu.vae_speed OUT.json``. Pictures of 28 by 28 pixels that lie on the device; a fully
connected network 784-512-256-16 and a convolutional one, the latter with the same layers in both.
Rates are of the later epochs: a run of few epochs is taken off a run of many.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import benthic
from benthic.nets.conv import ConvDecoder, ConvEncoder

ROWS, LATENT = 60_000, 16


def pictures() -> Tensor:
    """Zeros and ones with some structure, on the device."""
    source = torch.Generator("cuda").manual_seed(0)
    codes = torch.randn(ROWS, 8, device="cuda", generator=source)
    logits = codes @ torch.randn(8, 784, device="cuda", generator=source)
    return (torch.rand(ROWS, 784, device="cuda", generator=source) < torch.sigmoid(2 * logits - 2)).float()


def ours(X: Tensor, batch: int, epochs: int, **more: Any) -> tuple[float, float]:
    """Seconds of a fit, and the ELBO it reaches."""
    trainer = {"epochs": epochs, "batch_size": batch, "lr": 1e-3, "verbose": False, **more.pop("trainer", {})}
    model = benthic.VAE(
        LATENT, hidden_layer_sizes=(512, 256), decoder="bernoulli", trainer=trainer, random_state=0, **more
    )
    torch.cuda.synchronize()
    start = time.perf_counter()
    model.fit(X)
    torch.cuda.synchronize()
    taken = time.perf_counter() - start
    return taken, model.likelihood(X[:2000], "elbo").mean()


class Plain(nn.Module):
    """A VAE as one would write it."""

    def __init__(self, conv: bool) -> None:
        super().__init__()
        if conv:
            self.encoder: nn.Module = ConvEncoder((1, 28, 28), (32, 64), 2 * LATENT)
            self.decoder: nn.Module = ConvDecoder(LATENT, (32, 64), (1, 28, 28))
        else:
            self.encoder = mlp(784, 512, 256, 2 * LATENT)
            self.decoder = mlp(LATENT, 256, 512, 784)

    def forward(self, x: Tensor) -> Tensor:
        mean, log_var = self.encoder(x).chunk(2, 1)
        z = mean + torch.exp(0.5 * log_var) * torch.randn_like(mean)
        fit = F.binary_cross_entropy_with_logits(self.decoder(z), x, reduction="sum")
        return (fit + 0.5 * (mean.square() + log_var.exp() - 1 - log_var).sum()) / len(x)


def mlp(*widths: int) -> nn.Module:
    """Linear layers with rectifiers between."""
    layers: list[nn.Module] = []
    for a, b in pairwise(widths):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def plain(X: Tensor, batch: int, epochs: int, conv: bool) -> tuple[float, float]:
    """Seconds of an eager loop with a fused optimizer, and its last loss."""
    torch.manual_seed(0)
    model = Plain(conv).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    torch.cuda.synchronize()
    start = time.perf_counter()
    loss = X.new_zeros(())
    for _ in range(epochs):
        order = torch.randperm(len(X), device="cuda")
        for rows in order.split(batch):
            optimizer.zero_grad(set_to_none=True)
            loss = model(X[rows])
            loss.backward()
            optimizer.step()
    torch.cuda.synchronize()
    return time.perf_counter() - start, float(loss)


def rate(work: Callable[[int], tuple[float, float]], few: int, many: int) -> dict[str, float]:
    """Images a second once running."""
    work(1)
    short, _ = work(few)
    long, reached = work(many)
    return {"images_per_second": ROWS * (many - few) / (long - short), "reached": reached, "seconds": long}


def main(path: Path) -> None:
    """Every setting, written to one file."""
    warnings.simplefilter("ignore")
    X = pictures()
    images = X.reshape(-1, 1, 28, 28)
    found: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    for batch, few, many in ((128, 3, 18), (1024, 10, 110)):
        found[f"mlp {batch} ours"] = rate(lambda e, b=batch: ours(X, b, e), few, many)
        found[f"mlp {batch} ours, tf32"] = rate(
            lambda e, b=batch: ours(X, b, e, trainer={"precision": "tf32"}), few, many
        )
        found[f"mlp {batch} ours, not captured"] = rate(
            lambda e, b=batch: ours(X, b, e, trainer={"capture": False}), 2, 6
        )
        found[f"mlp {batch} plain"] = rate(lambda e, b=batch: plain(X, b, e, False), 2, 6)
        found[f"conv {batch} ours"] = rate(lambda e, b=batch: ours(images, b, e), few, max(many // 2, few + 5))
        found[f"conv {batch} plain"] = rate(lambda e, b=batch: plain(X, b, e, True), 2, 6)
        for name, value in found.items():
            if isinstance(value, dict):
                print(f"{name:32} {value['images_per_second']:12.0f} images/s  {value['reached']:.2f}", flush=True)
    path.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
