"""Energies on MNIST: the likelihood of a restricted Boltzmann machine, and digits drawn from noise.

Run with ``python -m benchmarks.gpu.energy MNIST.npz OUT_FOLDER [--names rbm denoising persistent] [--seconds 3900]
[--quick]``; what is done already is not done again. ``--seconds`` trains energies of pictures by batches of 64 in
bfloat16 for so long, as goes without a GPU, in place of a number of updates.

rbm: 500 hidden units trained by persistent chains on digits binarized afresh; the test digits are binarized once by a
fixed seed. The partition function is annealed forward and in reverse over 20 000 temperatures; in reverse chains begin
at draws that follow 5000 Gibbs turns after training. Salakhutdinov & Murray, 2008, have -86.3 nats with 500 units.

denoising, persistent: energies of pictures, trained by scores at many levels of noise, or by chains. Chains begin at
noise; a classifier that never saw them says how many of the pictures at their ends are surely a digit (a chance over
0.9), and which.
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import benthic
from benchmarks.gpu.picture_judge import SIDE, Judge, Results, arguments, pictures, save_png, train_judge

TEMPERATURES, CHAINS, TURNS = 20_000, 500, 5_000
SURE = 0.9
MACHINE: dict[str, Any] = {"n_components": 500, "gibbs_steps": 5, "chains": 500, "binarize": True, "random_state": 0}
MACHINE_TRAINER: dict[str, Any] = {"epochs": 200, "batch_size": 100, "lr": 0.05, "verbose": False}
SCORES: dict[str, Any] = {"channels": (64, 128, 128), "sampling_steps": 1200}
SCORES_TRAINER: dict[str, Any] = {
    "steps": 30_000,
    "batch_size": 128,
    "lr": 1e-3,
    "schedule": "cosine",
    "ema": 0.999,
    "clip": 400.0,
    "precision": "tf32",
}
CHAINED: dict[str, Any] = {
    "channels": (32, 64, 64),
    "chain_steps": 40,
    "step_size": 1e-3,
    "temperature": 1e-3,
    "regularization": 0.1,
    "noise": 0.05,
    "buffer_size": 8192,
    "sampling_steps": 2000,
}
CHAINED_TRAINER: dict[str, Any] = {
    "steps": 8_000,
    "batch_size": 128,
    "lr": 2e-4,
    "ema": 0.999,
    "clip": 1e3,
    "precision": "tf32",
}
ENERGIES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "denoising": ("denoising", SCORES, SCORES_TRAINER),
    "persistent": ("persistent", CHAINED, CHAINED_TRAINER),
}


def wait() -> None:
    """Until the device is done."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def machine(data: tuple[Tensor, ...], quick: bool, folder: Path) -> dict[str, Any]:
    """Train a machine and enclose its likelihood."""
    X, _, held, _ = data
    bits = torch.bernoulli(held.cpu(), generator=torch.Generator().manual_seed(0)).to(held.device)
    trainer = {**MACHINE_TRAINER, **({"epochs": 2} if quick else {})}
    temperatures, chains, turns = (200, 50, 20) if quick else (TEMPERATURES, CHAINS, TURNS)
    saved = folder / "rbm.safetensors"
    start = time.perf_counter()
    model = benthic.load(saved) if saved.exists() else benthic.BernoulliRBM(**MACHINE, trainer=trainer).fit(X)
    wait()
    trained = time.perf_counter() - start
    model.save(saved)
    start = time.perf_counter()
    forward = model.log_partition(f"ais({temperatures})", chains=chains)
    reverse = model.log_partition(f"reverse({temperatures})", chains=chains, settle=turns)
    free = float(model.free_energy(bits).double().mean())
    picture(model.sample(100, seed=0), folder / "energy_rbm.png")
    return {
        "test nats, forward": -free - forward.value,
        "test nats, reverse": -free - reverse.value,
        "log Z forward": [*forward],
        "log Z reverse": [*reverse],
        "apart": abs(forward.value - reverse.value),
        "train nats, forward": -float(model.free_energy(torch.bernoulli(X[:10_000])).double().mean()) - forward.value,
        "temperatures": temperatures,
        "annealed chains": chains,
        "seconds": trained,
        "annealing seconds": time.perf_counter() - start,
        "settings": {**MACHINE, "trainer": trainer},
    }


def drawn(name: str, judge: Judge, data: tuple[Tensor, ...], given: Any) -> dict[str, Any]:
    """Train an energy, draw from noise, and let the judge look."""
    objective, settings, trainer = ENERGIES[name]
    if given.quick:
        settings = {**settings, "channels": (8, 16), "sampling_steps": 40, "chain_steps": 2}
        trainer = {**trainer, "steps": 20}
    elif given.seconds:
        budget = {"steps": 10_000_000, "seconds": given.seconds}
        trainer = {**trainer, **budget, "batch_size": 64, "precision": "bf16"}
    saved = given.out / f"energy_{name}.safetensors"
    start, known = time.perf_counter(), saved.exists()
    if known:
        model = benthic.load(saved)
    else:
        run = {"checkpoint": {"folder": str(given.out / f"run_{name}"), "every_seconds": 60.0}, "resume": True}
        more = {"verbose": False, **run}
        model = benthic.EnergyModel(objective, **settings, trainer={**trainer, **more}, random_state=0)
        model.fit(data[0].reshape(-1, 1, SIDE, SIDE))
        model.save(saved)
    wait()
    trained, start = time.perf_counter() - start, time.perf_counter()
    digits = torch.as_tensor(model.sample(50 if given.quick else 1000, seed=0)).reshape(-1, SIDE * SIDE).float()
    wait()
    seconds = time.perf_counter() - start
    picture(digits, given.out / f"energy_{name}.png")
    chances = torch.softmax(judge(digits.clamp(0, 1).to(data[0].device)), 1).detach()
    sure = chances.max(1).values > SURE
    counts = torch.bincount(chances[sure].argmax(1), minlength=10).tolist()
    return {
        "sure": float(sure.float().mean()),
        "digits": counts,
        "kinds": sum(count > 0 for count in counts),
        "last loss": model.history_[-1]["loss"],
        "updates": model.history_[-1]["step"],
        "gap": getattr(model, "energy_gap_", None),
        "seconds": None if known else trained,  # a model from an earlier call
        "sampling seconds": seconds,
        "settings": {**settings, "trainer": trainer},
    }


def picture(digits: Tensor, path: Path) -> None:
    """A hundred pictures as a small PNG, dark on light."""
    tiles = torch.as_tensor(digits)[:100].reshape(-1, SIDE, SIDE).float().cpu()
    tiles = torch.cat([tiles, tiles.new_zeros(100 - len(tiles), SIDE, SIDE)])
    save_png(path, 1 - tiles.reshape(10, 10, SIDE, SIDE).transpose(1, 2).reshape(10 * SIDE, 10 * SIDE))


def main() -> None:
    """The parts that are named, one line each."""
    names = ["rbm", *ENERGIES]
    parts = {"nargs": "+", "default": ["rbm", "denoising"], "choices": names}
    given = arguments(__doc__ or "", names=parts, seconds={"type": float, "help": "of training, in place of updates"})
    warnings.simplefilter("ignore")
    data = pictures(given.data, given.quick)
    results = Results(given.out, "energy")
    if "rbm" in given.names:
        results.once("rbm", lambda: machine(data, given.quick, given.out))
    pictured = [name for name in ENERGIES if name in given.names]
    if not pictured:
        return
    judge, quality = train_judge(*data, epochs=1 if given.quick else 5)
    results.once("judge", lambda: quality)
    with torch.no_grad():
        sure = torch.softmax(judge(data[2][:5000]), 1).max(1).values > SURE
    results.once("judge on test digits", lambda: {"sure": float(sure.float().mean())})
    for name in pictured:
        results.once(name, lambda name=name: drawn(name, judge, data, given))


if __name__ == "__main__":
    main()
