"""All 70 000 MNIST digits through PCA to 50 columns, then onto a t-SNE map and through a Gaussian mixture, pictured.

Run with ``python -m benchmarks.gpu.mnist_maps MNIST.npz OUT``, where MNIST.npz holds ``images`` (70 000, 784) and
``labels`` as bytes, test digits last. The folder OUT gets ``mnist_maps.json``, ``mnist_maps.npz`` and, where matplotlib
is installed, ``mnist_maps.png``; ``python -m benchmarks.gpu.mnist_maps OUT`` draws the picture from the second.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.kernels import nearest
from benthic.manifold import PCA, TSNE
from benthic.metrics import trustworthiness
from benthic.mixture.gaussian import GaussianMixture

COLUMNS, COMPONENTS, TEST, SHOWN, JUDGED = 50, 60, 10_000, 48, 5000
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds and what came out."""
    begun = time.perf_counter()
    found = work()
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - begun, found


def vote(places: Tensor, labels: Tensor, neighbors: int) -> float:
    """Share of points whose nearest others, by majority, are of the same class."""
    index = nearest(places, None, k=neighbors)[1]
    votes = torch.nn.functional.one_hot(labels[index].long(), 10).sum(1)
    return float((votes.argmax(1) == labels).float().mean())


def mapped(codes: Tensor, labels: Tensor, found: dict[str, Any], kept: dict[str, Any]) -> None:
    """The t-SNE map: seconds, divergence, and how well neighbors keep together."""
    TSNE(max_iter=2, random_state=0).fit(codes[:2000])
    model = TSNE(random_state=0)
    seconds, places = timed(lambda: model.fit_transform(codes))
    chosen = np.random.default_rng(0).choice(len(codes), min(JUDGED, len(codes)), replace=False)
    found["t-SNE"] = {
        "seconds": seconds,
        "steps": model.n_iter_,
        "divergence": model.kl_divergence_,
        "nearest on the map is of the same class": vote(places, labels, 1),
        "ten nearest on the map say the class": vote(places, labels, 10),
        "ten nearest of the 50 columns say the class": vote(codes, labels, 10),
        f"trustworthiness of {len(chosen)} rows": trustworthiness(
            codes[chosen].cpu().numpy(), places[chosen].cpu().numpy()
        ).value,
    }
    kept["places"] = places.cpu().numpy().astype(np.float16)


def mixed(codes: Tensor, labels: Tensor, pca: PCA, found: dict[str, Any], kept: dict[str, Any]) -> None:
    """The mixture learned from the training digits: seconds, density of the test digits, and the classes it finds."""
    train, test = codes[:-TEST], codes[-TEST:]
    model = GaussianMixture(COMPONENTS, reg_covar=1e-3, random_state=0, trainer={"batch_size": 1 << 16})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a hundred steps are enough
        seconds, _ = timed(lambda: model.fit(train))
    one = GaussianMixture(1, reg_covar=1e-3).fit(train)
    mine = model.predict(train).long()
    table = torch.zeros(COMPONENTS, 10, device=codes.device)
    table.index_put_((mine, labels[:-TEST].long()), torch.ones(len(mine), device=codes.device), accumulate=True)
    name = table.argmax(1)
    found["mixture"] = {
        "seconds": seconds,
        "components": COMPONENTS,
        "steps": model.n_iter_,
        "test log-likelihood of the 50 columns": model.score(test),
        "the same of one Gaussian": one.score(test),
        "test digits whose component is mostly of their class": float(
            (name[model.predict(test).long()] == labels[-TEST:]).float().mean()
        ),
    }
    order = name.argsort(stable=True)[torch.linspace(0, COMPONENTS - 1, SHOWN).long().to(name.device)]
    draws = torch.as_tensor(model.sample(SHOWN, seed=0)).to(codes)
    for key, rows in (("means", torch.as_tensor(model.means_).to(codes)[order]), ("draws", draws)):
        images = torch.as_tensor(pca.inverse_transform(rows)).clamp(0, 1)
        kept[key] = (255 * images).round().byte().cpu().numpy()
    kept["component"] = model.predict(codes).byte().cpu().numpy()


def tiled(images: np.ndarray, columns: int = 8) -> np.ndarray:
    """Digits (m, 784) side by side."""
    rows = len(images) // columns
    return images[: rows * columns].reshape(rows, columns, 28, 28).swapaxes(1, 2).reshape(28 * rows, 28 * columns)


def draw(folder: Path) -> None:
    """The map by class, and what the mixture makes of the digits."""
    from benthic.pictures.canvas import new_figure

    kept = np.load(folder / "mnist_maps.npz")
    figure, axes = new_figure(12.0, 5.0, 1, 3, width_ratios=[1.3, 1, 1])
    order = np.random.default_rng(0).permutation(len(kept["places"]))
    x, y = kept["places"][order].astype(np.float32).T
    shown = axes[0].scatter(x, y, c=kept["labels"][order], cmap="tab10", s=0.4, linewidth=0)
    axes[0].legend(*shown.legend_elements(), fontsize=7, markerscale=0.7, loc="lower right", ncols=2)
    axes[0].set(title="70 000 digits: PCA, then t-SNE", xticks=[], yticks=[], aspect="equal")
    for panel, key, title in zip(axes[1:], ("means", "draws"), ("means of the mixture", "draws from it"), strict=True):
        panel.imshow(tiled(kept[key]), cmap="gray_r")
        panel.set(title=title, xticks=[], yticks=[])
    figure.savefig(folder / "mnist_maps.png", dpi=90)


def main() -> None:
    """Everything, or the picture alone."""
    if len(sys.argv) == 2:
        draw(Path(sys.argv[1]))
        return
    data, folder = np.load(sys.argv[1]), Path(sys.argv[2])
    rows = torch.from_numpy(data["images"]).to(DEVICE).float() / 255
    labels = torch.from_numpy(data["labels"]).to(DEVICE)
    pca = PCA(COLUMNS)
    PCA(2).fit(rows[:1000])
    seconds, codes = timed(lambda: pca.fit_transform(rows))
    found: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if DEVICE == "cuda" else "cpu",
        "torch": torch.__version__,
        "rows": len(rows),
        "PCA": {"seconds": seconds, "variance kept": float(pca.explained_variance_ratio_.sum())},
    }
    kept: dict[str, Any] = {"labels": data["labels"]}
    mapped(codes, labels, found, kept)
    mixed(codes, labels, pca, found, kept)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "mnist_maps.json").write_text(json.dumps(found, indent=2) + "\n")
    np.savez_compressed(folder / "mnist_maps.npz", **kept)
    print(json.dumps(found, indent=2))
    if find_spec("matplotlib") is not None:
        draw(folder)


if __name__ == "__main__":
    main()
