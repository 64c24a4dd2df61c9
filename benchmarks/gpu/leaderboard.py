"""The leaderboard of generators of pictures: every family with the same seconds a fit on one GPU.

Run with ``python -m benchmarks.gpu.leaderboard PICTURES.npz OUT_FOLDER [--budget 60] [--seeds 3] [--minutes 9]
[--jobs 1] [--names ...] [--work FOLDER] [--quick]``. The file holds images (70000, 784) and labels, those of the test
set last.

Samples are compared in the features of a small classifier that is trained here, on a tenth of the training pictures
and their labels, which no other part of the comparison sees; ``benthic.compare`` deals out the rest. So many ``--jobs``
share the GPU. No fit begins that would end after ``--minutes``, and the same command goes on: fits are kept, with their
weights, in ``OUT_FOLDER/fits`` or another ``--work`` folder, which is large and has to stay where it is. Exit code 3
means that fits are left to do.

Worth taking away are the small files in ``OUT_FOLDER/results``: ``comparison.json``, ``table.md``, ``table.csv``,
``samples.png`` (the first pictures of every model, in the order of ``samples.txt``) and, where matplotlib is found,
``report.html``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

import benthic
from benchmarks.gpu.picture_judge import SIDE, Judge, device, save_png, train_judge
from benthic.base.errors import Interrupted
from benthic.leaderboard.contest.baselines import ResampledRows
from benthic.leaderboard.contest.results import Comparison

JUDGED = 6000  # training pictures from which the classifier learns
LATER = 75.0  # seconds kept for judging and writing, after the last fit
SHOWN = 16  # pictures of each model

UNET: dict[str, Any] = {"channels": 32, "multipliers": (1, 2, 2), "blocks": 1, "attention": (7,)}
FAST: dict[str, Any] = {"batch_size": 256, "lr": 1e-3, "ema": 0.998, "precision": "bf16"}
GAME: dict[str, Any] = {"batch_size": 128, "lr": 2e-4, "ema": 0.999, "precision": "tf32"}
STEADY: dict[str, Any] = {"batch_size": 256, "lr": 1e-3, "precision": "tf32"}
COOLED: dict[str, Any] = {"schedule": "warmup_cosine"}
NAMES = ("GaussianMixture", "VAE", "WGAN-GP", "Glow", "DDPM", "FlowMatching", "PoissonFlow")


def models(quick: bool = False) -> dict[str, Any]:
    """All families, with networks that learn something of 28 by 28 pixels in a minute."""
    unet = {**UNET, "channels": 8} if quick else UNET
    wide = (8, 16) if quick else (64, 128)
    diffusion: dict[str, Any] = {"unet": unet, "trainer": {**FAST, **COOLED}}
    adversarial: dict[str, Any] = {"latent_dim": 64, "channels": wide, "trainer": GAME}
    flow: dict[str, Any] = {"transforms": 2, "channels": 8} if quick else {"transforms": 8, "channels": 64}
    return {
        "GaussianMixture": benthic.GaussianMixture(3 if quick else 50, reg_covar=1e-3, max_iter=50),
        "VAE": benthic.VAE(32, channels=wide, prior="fitted", trainer={**STEADY, **COOLED}),
        "DCGAN": benthic.DCGAN(**adversarial),
        "WGAN-GP": benthic.DCGAN(loss="wasserstein", penalty="gradient", critic_steps=3, **adversarial),
        "Glow": benthic.NormalizingFlow("glow", trainer={**STEADY, **COOLED, "clip": 10.0}, **flow),
        "DDPM": benthic.DDPM(sampler="ddim", steps=50, **diffusion),
        "EDM": benthic.EDM(**diffusion),
        "FlowMatching": benthic.FlowMatching(**diffusion),
        "PoissonFlow": benthic.PoissonFlow(**diffusion),
    }


def pictures(path: str, quick: bool) -> tuple[np.ndarray, np.ndarray]:
    """Pictures (n, 784) in [0, 1], float32, and their labels; of a small trial some of the first and last."""
    with np.load(path) as file:
        images, labels = np.asarray(file["images"]).reshape(-1, SIDE * SIDE), np.asarray(file["labels"])
    if quick:
        rows = np.r_[0 : min(1200, len(images) // 2), -min(300, len(images) // 2) : 0]
        images, labels = images[rows], labels[rows]
    return images.astype(np.float32) / 255, labels.astype(np.int64)


def judge_of(X: np.ndarray, y: np.ndarray, path: Path, quick: bool) -> tuple[Judge, dict[str, float]]:
    """The classifier of these pictures, trained now or kept from before, and its accuracy on a sixth of them."""
    if path.exists():
        kept = torch.load(path, map_location="cpu", weights_only=True)
        judge = Judge()
        judge.load_state_dict(kept["state"])
        return judge.eval(), kept["facts"]
    held = len(X) // 6
    parts = [torch.as_tensor(part).to(device()) for part in (X[held:], y[held:], X[:held], y[:held])]
    judge, facts = train_judge(*parts, epochs=2 if quick else 30)
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save({"state": judge.state_dict(), "facts": facts}, path)
    return judge.cpu(), facts


class Features:
    """What the classifier sees before it decides, as a function of pictures; on the CPU, since fits have the GPU."""

    name = "a classifier of labels that nothing else sees"

    def __init__(self, judge: Judge) -> None:
        self.judge = judge

    def __call__(self, pictures: torch.Tensor) -> torch.Tensor:
        return self.judge.features(pictures)


def compared(given: argparse.Namespace, end: float) -> Comparison:
    """The comparison, as far as there is time; raises ``Interrupted`` where fits are left."""
    X, y = pictures(given.data, given.quick)
    apart = min(JUDGED, len(X) // 4)
    work = given.work or given.out / "fits"
    judge, facts = judge_of(X[:apart], y[:apart], work / "judge.pt", given.quick)
    print(json.dumps({"rows": len(X) - apart, **facts}), flush=True)
    known = models(given.quick)
    left = end - time.perf_counter() - (5.0 if given.quick else LATER)
    found = benthic.compare(
        {name: known[name] for name in given.names} | {"memorizer": ResampledRows()},
        X[apart:].reshape(-1, 1, SIDE, SIDE),
        y[apart:],
        task="generate",
        features=Features(judge),
        budget=given.budget,
        seeds=given.seeds,
        folder=work,
        n_jobs=given.jobs,
        stop_after=max(left, 1.0),
    )
    found.settings.update({"device": _device(), "torch": torch.__version__, "classifier": facts})
    return found


def _device() -> str:
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"


def keep(found: Comparison, folder: Path) -> None:
    """The small files, and the page where there is something to draw with."""
    folder.mkdir(parents=True, exist_ok=True)
    found.to_json(folder / "comparison.json")
    found.to_csv(folder / "table.csv")
    found.to_markdown(folder / "table.md")
    drawn = {
        line.name for line in found.lines if any(o.name == line.name for o in found.outcomes if o.samples is not None)
    }
    names = [line.name for line in found.lines if line.name in drawn]
    grids = [np.asarray(found.real)[:SHOWN], *(np.asarray(found.samples(name))[:SHOWN] for name in names)]
    tiles = torch.as_tensor(np.stack(grids), dtype=torch.float32).reshape(len(grids), -1, SIDE, SIDE)
    save_png(folder / "samples.png", tiles.permute(0, 2, 1, 3).reshape(len(grids) * SIDE, -1))
    (folder / "samples.txt").write_text("\n".join(["held-out pictures", *names]) + "\n")
    if find_spec("matplotlib") is not None:
        found.report(folder / "report.html")


def main() -> int:
    """Fit what there is time for; when all is there, judge and write."""
    begun = time.perf_counter()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="an .npz with images (70000, 784) and labels")
    parser.add_argument("out", type=Path, help="the folder of the results")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds a fit")
    parser.add_argument("--seeds", type=int, default=3, help="fits of each model")
    parser.add_argument("--jobs", type=int, default=1, help="fits that share the GPU")
    parser.add_argument("--minutes", type=float, default=9.0, help="of this call")
    parser.add_argument("--names", nargs="+", choices=list(models()), default=list(NAMES))
    parser.add_argument("--work", type=Path, help="where fits are kept; OUT_FOLDER/fits by default")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    try:
        found = compared(given, begun + 60 * given.minutes)
    except Interrupted as error:
        print(f"{error}; {time.perf_counter() - begun:.0f} s", flush=True)
        return 3
    keep(found, given.out / "results")
    print(found)
    print(f"{given.out / 'results'}: take these files; {time.perf_counter() - begun:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
