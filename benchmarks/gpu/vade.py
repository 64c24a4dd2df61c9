"""VaDE on the 70 000 MNIST digits on a GPU: ten seeds, the best chosen by its bound alone, and all accuracies.

Run with ``python -m benchmarks.gpu.vade MNIST.npz OUT``, where MNIST.npz holds ``images`` (70 000, 784) and ``labels``
as bytes. The folder OUT gets ``vade.json`` after every seed; seeds that it already holds are not run again, and no seed
is begun that would end after ``--minutes``. ``--earlier FILE`` brings the seeds of a run that was cut.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from benthic.generative.vae.vade import VaDE
from benthic.manifold import TSNE

CLUSTERS = 10


def accuracy(labels: Tensor, found: Tensor) -> float:
    """The share of digits in the cluster of their class, under the best pairing of clusters and classes."""
    cells = torch.bincount(found.long().cpu() * CLUSTERS + labels.long().cpu(), minlength=CLUSTERS**2)
    table = cells.reshape(CLUSTERS, CLUSTERS).numpy()
    return float(table[linear_sum_assignment(-table)].sum() / len(labels))


class Watch:
    """Accuracy over the epochs: for the record, it decides nothing."""

    def __init__(self, X: Tensor, labels: Tensor, every: int) -> None:
        self.X, self.labels, self.every, self.path = X, labels, every, []

    def on_epoch(self, moment: Any, logs: dict[str, Any]) -> None:
        """Every so many epochs, where the clusters stand."""
        if logs["epoch"] % self.every and logs["epoch"] != 1:
            return
        network = next(iter(moment.learner.players.values())).network
        network.eval()
        with torch.no_grad():
            parts = [network.responsibilities(network.posterior(x).mean).argmax(1) for x in self.X.split(10_000)]
        network.train()
        self.path.append((logs["epoch"], round(logs["loss"], 3), round(accuracy(self.labels, torch.cat(parts)), 4)))


def one_seed(seed: int, X: Tensor, labels: Tensor, options: argparse.Namespace) -> dict[str, Any]:
    """Fit with one seed: the bound, the accuracy, the seconds."""
    watch = Watch(X, labels, max(1, options.epochs // 10))
    rate = {"name": "steps", "parts": max(1, options.epochs // 10), "factor": 0.9}
    trainer = {"epochs": options.epochs, "batch_size": options.batch, "lr": 2e-3, "schedule": rate}
    model = VaDE(
        CLUSTERS,
        latent_dim=10,
        network="mlp",
        hidden_layer_sizes=options.hidden,
        decoder="bernoulli",
        binarize=True,
        pretrain_epochs=options.pretrain,
        start=start_of(options),
        guided_epochs=options.guided,
        n_init=options.starts,
        trainer={**trainer, "callbacks": (watch,), "verbose": False},
        random_state=seed,
    )
    begun = time.perf_counter()
    model.fit(X)
    seconds = time.perf_counter() - begun
    return {
        "seed": seed,
        "bound": -model.history_[-1]["loss"],
        "accuracy": accuracy(labels, model.labels_),
        "accuracy of the last 10 000": accuracy(labels[-10_000:], model.labels_[-10_000:]),
        "seconds": seconds,
        "weights": model.weights_.round(4).tolist(),
        "epoch, loss, accuracy": watch.path,
    }


def start_of(options: argparse.Namespace) -> Any:
    """Where clusters are looked for: among the codes, or on a map of them, made by t-SNE as usual or as options say."""
    if options.start == "tsne":
        return TSNE()
    if options.start != "map" or not options.exaggeration:
        return options.start
    steps = options.map_steps
    return TSNE(early_exaggeration=options.exaggeration, exaggeration_iter=steps, max_iter=steps)


def report(runs: list[dict[str, Any]], options: argparse.Namespace) -> dict[str, Any]:
    """All seeds, and the one that the bound chooses."""
    best = max(runs, key=lambda run: run["bound"])
    values = [run["accuracy"] for run in runs]
    return {
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "torch": torch.__version__,
        "settings": {k: v for k, v in vars(options).items() if k not in ("mnist", "out", "earlier")},
        "accuracies": values,
        "median accuracy": statistics.median(values),
        "seed with the best bound": best["seed"],
        "its accuracy": best["accuracy"],
        "runs": runs,
    }


def options_of() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("mnist", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--earlier", type=Path)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the seed to begin with")
    parser.add_argument("--rows", type=int, default=70_000)
    parser.add_argument("--pretrain", type=int, default=40)
    parser.add_argument("--guided", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--starts", type=int, default=20)
    parser.add_argument("--start", default="map", choices=("mixture", "map", "tsne"))
    parser.add_argument("--exaggeration", type=float, default=0.0, help="of the map all along; 0 is the model's own")
    parser.add_argument("--map-steps", type=int, default=500)
    parser.add_argument("--hidden", type=int, nargs="+", default=[500, 500, 2000])
    parser.add_argument("--minutes", type=float, default=8.5)
    return parser.parse_args()


def main() -> None:
    """Seed after seed while there is time."""
    options, begun = options_of(), time.perf_counter()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    data = np.load(options.mnist)
    X = torch.from_numpy(data["images"][: options.rows]).to(device).reshape(-1, 784).float() / 255
    labels = torch.from_numpy(data["labels"][: options.rows].astype(np.int64))
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "vade.json"
    source = path if path.exists() else options.earlier
    runs = json.loads(source.read_text())["runs"] if source is not None and source.exists() else []
    longest = 0.0
    for seed in range(options.first, options.first + options.seeds):
        left = 60 * options.minutes - (time.perf_counter() - begun)
        if any(run["seed"] == seed for run in runs) or left < 1.1 * longest:
            continue
        runs.append(one_seed(seed, X, labels, options))
        longest = max(longest, runs[-1]["seconds"])
        path.write_text(json.dumps(report(runs, options), indent=2) + "\n")
        print(json.dumps({k: v for k, v in runs[-1].items() if k != "weights"}), flush=True)
    found = report(runs, options)
    print(f"{len(runs)} seeds: median {found['median accuracy']:.4f}, best bound {found['its accuracy']:.4f}")


if __name__ == "__main__":
    main()
