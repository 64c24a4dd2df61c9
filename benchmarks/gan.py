"""Adversarial models on rings and grids of Gaussians, judged mode by mode, and their pace beside a plain loop."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from benchmarks.harness import Interval, Quality, alternate
from benchmarks.report import Claim, Result
from benthic.data.planar import Gaussians
from benthic.data.toys import rings_of_gaussians

TITLE = "GAN and WGAN on 8 and 25 Gaussians, all modes judged, and updates a second beside a hand-written loop"
ROWS, DRAWS, SEEDS = 20_000, 10_000, 3
WIDTHS, LATENT, BATCH, RATE, WEIGHT = (128, 128), 8, 256, 1e-3, 0.1
BETAS = (0.5, 0.9)
ADAM = {"name": "adam", "betas": (0.0, 0.9)}
# numbers by the modes of their column, and learning rates of the critics above those of the generators
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "non-saturating + R1": (
        "GAN",
        {
            "latent_dim": 8,
            "columns": "modes",
            "hidden_layer_sizes": (64, 64),
            "penalty_weight": 0.003,
            "critic_steps": 2,
            "critic_lr": 12e-3,
            "trainer": {"steps": 12_000, "batch_size": 512, "lr": 3e-3, "optimizer": ADAM},
        },
    ),
    "Wasserstein + gradient penalty": (
        "WGAN",
        {
            "latent_dim": 4,
            "columns": "modes",
            "hidden_layer_sizes": (128, 128),
            "critic_steps": 2,
            "critic_lr": 6e-3,
            "trainer": {"steps": 10_000, "batch_size": 256, "lr": 3e-3, "optimizer": ADAM},
        },
    ),
}


def grid_of_gaussians(side: int = 5, gap: float = 2.0, noise: float = 0.2) -> Gaussians:
    """``side`` times ``side`` equal Gaussians on a square grid around zero."""
    line = gap * (np.arange(side) - (side - 1) / 2)
    return Gaussians("grid_of_gaussians", np.stack(np.meshgrid(line, line), -1).reshape(-1, 2), noise)


TOYS = {"8 on a ring": rings_of_gaussians, "25 on a grid": grid_of_gaussians}


def judged(rows: np.ndarray, toy: Any) -> dict[str, float]:
    """Each row belongs to its nearest mode: modes reached, rows within 3 sigma, trace and weights of the modes.

    covered: the share of modes with at least a fifth of their rows. near: rows within 3 sigma of their mode. trace:
    that of the covariance of a mode's rows over the true one, on average. weights: KL of the modes' shares from equal
    ones.
    """
    centers, noise = np.asarray(toy.centers), float(toy.noise)
    distance = np.linalg.norm(rows[:, None] - centers[None], axis=2)
    mode, k = distance.argmin(1), len(centers)
    shares = np.bincount(mode, minlength=k) / len(rows)
    traces = [np.trace(np.cov(rows[mode == j].T)) / (2 * noise**2) for j in range(k) if (mode == j).sum() > 9]
    held = shares[shares > 0]
    return {
        "covered": float((shares > 0.2 / k).mean()),
        "near": float((distance.min(1) < 3 * noise).mean()),
        "trace": float(np.mean(traces)),
        "weights": float((held * np.log(held * k)).sum()),
    }


def fitted(model: str, toy: Any, seed: int, **trainer: Any) -> tuple[dict[str, float], float]:
    """What a model makes of a toy, and the seconds of its fit."""
    import benthic

    name, settings = MODELS[model]
    X = toy.sample(ROWS, seed=seed)
    start = time.perf_counter()
    trainer = {**settings["trainer"], "verbose": False, **trainer}
    made = getattr(benthic, name)(**{**settings, "trainer": trainer}, random_state=seed).fit(X)
    seconds = time.perf_counter() - start
    return judged(made.sample(DRAWS, seed=0), toy), seconds


def by_hand(X: np.ndarray, steps: int) -> Quality:
    """The loop a person writes: the same networks, losses, penalty, optimizers, averaging and decay."""
    torch.manual_seed(0)
    generator, critic = _networks()
    average = {name: value.clone() for name, value in generator.state_dict().items()}
    players = [torch.optim.Adam(net.parameters(), lr=RATE, betas=BETAS, fused=True) for net in (generator, critic)]
    rows = torch.from_numpy(((X - X.mean(0)) / X.std(0)).astype(np.float32))
    order, at, total = torch.randperm(len(rows)), 0, 0.0
    for step in range(steps):
        if at + BATCH > len(rows):
            order, at = torch.randperm(len(rows)), 0
        real, at = rows[order[at : at + BATCH]], at + BATCH
        for player in players:
            player.param_groups[0]["lr"] = RATE * (1 - step / steps)
        loss = _critic_turn(generator, critic, real) if step % 2 == 0 else _generator_turn(generator, critic)
        player = players[1 - step % 2]
        player.zero_grad(set_to_none=True)
        loss.backward()
        player.step()
        if step % 2:
            with torch.no_grad():
                now = generator.state_dict()
                torch._foreach_lerp_(list(average.values()), list(now.values()), 0.005)
        total += loss.item()
    return {"mean loss": total / steps}


def _networks() -> tuple[nn.Module, nn.Module]:
    a, b = WIDTHS
    generator = nn.Sequential(nn.Linear(LATENT, a), nn.LeakyReLU(), nn.Linear(a, b), nn.LeakyReLU(), nn.Linear(b, 2))
    critic = nn.Sequential(nn.Linear(2, b), nn.LeakyReLU(), nn.Linear(b, a), nn.LeakyReLU(), nn.Linear(a, 1))
    return generator, critic


def _critic_turn(generator: nn.Module, critic: nn.Module, real: Tensor) -> Tensor:
    with torch.no_grad():
        fake = generator(torch.randn(len(real), LATENT))
    real = real.requires_grad_()
    scores = critic(real)[:, 0]
    (slope,) = torch.autograd.grad(scores.sum(), real, create_graph=True)
    penalty = 0.5 * WEIGHT * slope.square().sum(1).mean()
    return softplus(-scores).mean() + softplus(critic(fake)).mean() + penalty


def _generator_turn(generator: nn.Module, critic: nn.Module) -> Tensor:
    return softplus(-critic(generator(torch.randn(BATCH, LATENT)))).mean()


def by_benthic(X: np.ndarray, steps: int) -> Quality:
    """The same through our fit, with what it watches."""
    import benthic

    trainer = {"steps": steps, "batch_size": BATCH, "lr": RATE, "device": "cpu", "verbose": False}
    model = benthic.GAN(LATENT, hidden_layer_sizes=WIDTHS, penalty_weight=WEIGHT, trainer=trainer, random_state=0).fit(
        X
    )
    return {"coverage": model.diagnostics_["coverage"]}


def _quality(quick: bool) -> tuple[list[Claim], dict[str, dict[str, float]]]:
    claims, table = [], {}
    for model in MODELS:
        for title, toy in TOYS.items():
            runs = [
                fitted(model, toy(), seed, **({"steps": 60} if quick else {})) for seed in range(1 if quick else SEEDS)
            ]
            found = [run[0] for run in runs]
            name = f"{model}, {title}"
            table[name] = {key: float(np.mean([one[key] for one in found])) for key in found[0]}
            for key, relation, limit in (("covered", ">=", 1.0), ("near", ">=", 0.97), ("weights", "<=", 0.05)):
                worst = (min if relation == ">=" else max)(one[key] for one in found)
                claims.append(Claim(f"{name}: {key}, worst seed", Interval(worst, worst, worst), relation, limit))
            off = max(abs(one["trace"] - 1) for one in found)
            claims.append(Claim(f"{name}: trace off by, worst seed", Interval(off, off, off), "<=", 0.2))
            longest = max(run[1] for run in runs)
            claims.append(Claim(f"{name}: seconds, longest", Interval(longest, longest, longest), "<=", 60.0, " s"))
    return claims, table


def run(quick: bool = False) -> Result:
    """Judge the models on the toys, then alternate our fit and the loop by hand."""
    claims, table = _quality(quick)
    steps, repeats = (100, 2) if quick else (3000, 5)
    X = rings_of_gaussians().sample(ROWS, seed=0)
    fits = {"benthic": by_benthic, "hand-written": by_hand}
    timings = alternate({name: lambda fit=fit: fit(X, steps) for name, fit in fits.items()}, repeats=repeats)
    claims.append(Claim("hand-written loop / benthic", timings.ratio("hand-written", "benthic"), ">=", 0.95, "x"))
    timings.quality.update(table)
    settings = {"rows": ROWS, "draws": DRAWS, "batch": BATCH, "steps": steps, "threads": torch.get_num_threads()}
    return Result("gan", TITLE, claims, timings, settings)
