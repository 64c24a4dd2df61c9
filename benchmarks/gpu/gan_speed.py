"""How many updates a second adversarial models make on a GPU through the public ``fit``, beside plain PyTorch.

Run with ``python -m benchmarks.gpu.gan_speed OUT_FOLDER [--batches 64 256] [--quick]``. Pictures of 28 by 28 pixels
that lie on the device, the same networks, losses and optimizers in both. Rates are of the later steps: a short run is
taken off a long one.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

import benthic
from benchmarks.gpu.picture_judge import Results, device
from benthic.nets.critic import ConvCritic
from benthic.nets.generator import ConvGenerator

EVENT, LATENT, BETAS = (1, 28, 28), 64, (0.5, 0.999)


def pictures(rows: int) -> Tensor:
    """Blobs on a dark ground, on the device."""
    source = torch.Generator(device()).manual_seed(0)
    codes = torch.randn(rows, 8, device=device(), generator=source)
    patterns = torch.randn(8, 784, device=device(), generator=source)
    return torch.sigmoid(2 * codes @ patterns - 2).reshape(rows, *EVENT)


def ours(X: Tensor, batch: int, steps: int, wasserstein: bool, channels: tuple[int, ...], **more: Any) -> float:
    """Seconds of a fit of so many updates of either player."""
    adam = {"name": "adam", "betas": BETAS}
    trainer = {"steps": steps, "batch_size": batch, "optimizer": adam, "lr": 2e-4, "verbose": False, **more}
    model = model_of(wasserstein, channels, trainer)
    settle()
    start = time.perf_counter()
    model.fit(X)
    settle()
    return time.perf_counter() - start


def model_of(wasserstein: bool, channels: tuple[int, ...], trainer: dict[str, Any]) -> Any:
    """The estimator: the paper's DCGAN, or a WGAN-GP with five updates of the critic for each of the generator."""
    settings: dict[str, Any] = {"loss": "non_saturating", "critic_norm": "batch"}
    if wasserstein:
        settings = {"loss": "wasserstein", "penalty": "gradient", "critic_steps": 5}
    return benthic.DCGAN(LATENT, channels=channels, **settings, trainer=trainer, random_state=0)


def settle() -> None:
    """Wait for the device."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def plain(X: Tensor, batch: int, steps: int, wasserstein: bool, channels: tuple[int, ...]) -> float:
    """Seconds of a loop as one would write it, with fused optimizers."""
    torch.manual_seed(0)
    generator = ConvGenerator(LATENT, EVENT, channels).to(X.device)
    critic = ConvCritic(EVENT, channels, norm="none" if wasserstein else "batch").to(X.device)
    fused = X.device.type == "cuda"
    first = torch.optim.Adam(critic.parameters(), 2e-4, BETAS, fused=fused)
    second = torch.optim.Adam(generator.parameters(), 2e-4, BETAS, fused=fused)
    data = 2 * X - 1
    settle()
    start = time.perf_counter()
    turns = 6 if wasserstein else 2
    order = iter(())
    for step in range(steps):
        rows = next(order, None)
        if rows is None or len(rows) < batch:
            order = iter(torch.randperm(len(data), device=X.device).split(batch))
            rows = next(order)
        if step % turns < turns - 1:
            first.zero_grad(set_to_none=True)
            critic_loss(critic, generator, data[rows], wasserstein).backward()
            first.step()
        else:
            second.zero_grad(set_to_none=True)
            scores = critic(generator(torch.randn(batch, LATENT, device=X.device)))
            (-scores.mean() if wasserstein else F.softplus(-scores).mean()).backward()
            second.step()
    settle()
    return time.perf_counter() - start


def critic_loss(critic: ConvCritic, generator: ConvGenerator, real: Tensor, wasserstein: bool) -> Tensor:
    """The critic's loss, with a gradient penalty for the Wasserstein distance."""
    with torch.no_grad():
        fake = generator(torch.randn(len(real), LATENT, device=real.device))
    judged, made = critic(real), critic(fake)
    if not wasserstein:
        return F.softplus(-judged).mean() + F.softplus(made).mean()
    way = torch.rand(len(real), 1, 1, 1, device=real.device)
    between = torch.lerp(real, fake, way).requires_grad_()
    (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
    penalty = (slope.flatten(1).norm(dim=1) - 1).square().mean()
    return made.mean() - judged.mean() + 10 * penalty


def rate(work: Callable[[int], float], few: int, many: int) -> dict[str, float]:
    """Updates a second once running."""
    work(few)
    short, long = work(few), work(many)
    return {"updates_per_second": (many - few) / (long - short), "seconds": long}


def main() -> None:
    """Every setting, one line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--batches", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    X = pictures(500 if given.quick else 60_000)
    results = Results(given.out, "gan_speed")
    few, many, channels = (12, 36, (4, 8)) if given.quick else (300, 3300, (64, 128))
    for batch in [32] if given.quick else given.batches:
        for name, wasserstein in (("DCGAN", False), ("WGAN-GP", True)):
            kinds: dict[str, Callable[[int], float]] = {
                "ours": lambda n, b=batch, w=wasserstein: ours(X, b, n, w, channels),
                "ours, not captured": lambda n, b=batch, w=wasserstein: ours(X, b, n, w, channels, capture=False),
                "ours, tf32": lambda n, b=batch, w=wasserstein: ours(X, b, n, w, channels, precision="tf32"),
                "plain": lambda n, b=batch, w=wasserstein: plain(X, b, n, w, channels),
            }
            found = {
                kind: results.once(f"{name} {batch} {kind}", lambda k=work: rate(k, few, many))["updates_per_second"]
                for kind, work in kinds.items()
            }
            results.once(f"{name} {batch} ratio", lambda f=found: {"ours/plain": f["ours"] / f["plain"]})


if __name__ == "__main__":
    main()
