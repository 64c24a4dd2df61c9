"""t-SNE of all 70 000 MNIST digits on a GPU, every pair at every step: PCA to 50 columns, neighbors, 1000 steps.

Run with ``python -m benchmarks.gpu.tsne MNIST OUT.json``, where MNIST is the folder of the four gzipped files.
"""

from __future__ import annotations

import gzip
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benthic.manifold import PCA, TSNE


def digits(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """All images (70 000, 784) from 0 to 1, and their labels."""
    images, labels = [], []
    for part in ("train", "t10k"):
        with gzip.open(folder / f"{part}-images-idx3-ubyte.gz") as file:
            images.append(np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784))
        with gzip.open(folder / f"{part}-labels-idx1-ubyte.gz") as file:
            labels.append(np.frombuffer(file.read(), np.uint8, offset=8))
    return np.concatenate(images).astype(np.float32) / 255, np.concatenate(labels)


def timed(work: Any) -> tuple[float, Any]:
    """Seconds and what came out."""
    torch.cuda.synchronize()
    begun = time.perf_counter()
    found = work()
    torch.cuda.synchronize()
    return time.perf_counter() - begun, found


def agreement(places: np.ndarray, labels: np.ndarray) -> float:
    """Share of points whose nearest other point on the map is of the same class."""
    from benthic.kernels import nearest

    index = nearest(torch.as_tensor(places).cuda(), None, k=1)[1][:, 0].cpu().numpy()
    return float((labels[index] == labels).mean())


def main() -> None:
    """One run after a short one that compiles."""
    X, labels = digits(Path(sys.argv[1]))
    rows = torch.from_numpy(X).cuda()
    TSNE(max_iter=2, random_state=0).fit(rows[:2000, :50].contiguous())
    first, codes = timed(lambda: PCA(50).fit_transform(rows))
    model = TSNE(random_state=0)
    second, places = timed(lambda: model.fit_transform(codes))
    found = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "rows": len(X),
        "steps": model.n_iter_,
        "seconds of PCA": first,
        "seconds of t-SNE": second,
        "divergence": model.kl_divergence_,
        "nearest on the map is of the same class": agreement(places.cpu().numpy(), labels),
    }
    text = json.dumps(found, indent=2)
    Path(sys.argv[2]).write_text(text + "\n")
    np.savez_compressed(
        Path(sys.argv[2]).with_suffix(".npz"), places=places.cpu().numpy().astype(np.float16), labels=labels
    )
    print(text)


if __name__ == "__main__":
    main()
