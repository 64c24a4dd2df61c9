"""What `fit` costs over the loop one would write by hand: an MLP so small that only the loop shows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from sklearn.datasets import make_classification
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.harness import Quality, alternate
from benchmarks.report import Claim, Result

TITLE = "MLP 20-64-64-10, batch 128: fit beside a hand-written PyTorch loop, and skorch"
BATCH, RATE = 128, 1e-3


def problem(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Ten classes in twenty dimensions, standardized, float32."""
    X, y = make_classification(rows, 20, n_informative=12, n_classes=10, random_state=0)
    X = (X - X.mean(0)) / X.std(0)
    return X.astype(np.float32), y.astype(np.int64)


def network() -> nn.Sequential:
    """Build the 20-64-64-10 network that all three train."""
    return nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def by_hand(X: np.ndarray, y: np.ndarray, epochs: int) -> Quality:
    """Train with the yardstick: shuffled batches, fused Adam, the loss looked at each step."""
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    model = network()
    inputs, labels = torch.from_numpy(X), torch.from_numpy(y)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE, fused=True)
    for _ in range(epochs):
        order = torch.randperm(len(inputs), generator=generator)
        total = 0.0
        for rows in order.split(BATCH):
            optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(model(inputs[rows]), labels[rows])
            loss.backward()
            optimizer.step()
            total += loss.item() * len(rows)
        if not np.isfinite(total):
            raise RuntimeError("the loss is not finite")
    with torch.no_grad():
        return quality(model(inputs).argmax(1), labels)


def by_skorch(X: np.ndarray, y: np.ndarray, epochs: int) -> Quality:
    """Train the same network through skorch."""
    from skorch import NeuralNetClassifier

    torch.manual_seed(0)
    model = NeuralNetClassifier(
        network(),
        criterion=nn.CrossEntropyLoss,
        optimizer=torch.optim.Adam,
        optimizer__fused=True,
        lr=RATE,
        batch_size=BATCH,
        max_epochs=epochs,
        iterator_train__shuffle=True,
        train_split=None,
        verbose=0,
    )
    return quality(torch.from_numpy(model.fit(X, y).predict(X)), torch.from_numpy(y))


def by_benthic(X: np.ndarray, y: np.ndarray, epochs: int) -> Quality:
    """Train the same network through our fit, with the default Trainer."""
    import benthic

    trainer = benthic.Trainer(epochs=epochs, batch_size=BATCH, lr=RATE, device="cpu", verbose=False)
    model = benthic.MLPClassifier(hidden_layer_sizes=(64, 64), alpha=0.0, trainer=trainer, random_state=0)
    return quality(torch.from_numpy(model.fit(X, y).predict(X)), torch.from_numpy(y))


def quality(predicted: Tensor, labels: Tensor) -> Quality:
    """Accuracy on the training rows: all three must have learned alike."""
    return {"train accuracy": (predicted == labels).double().mean().item()}


def run(quick: bool = False) -> Result:
    """Measure the three in turn, on one thread: a second one only waits, and the wait would hide the loop."""
    rows, epochs, repeats = (1280, 2, 2) if quick else (12800, 8, 31)
    X, y = problem(rows)
    fits: dict[str, Callable[[np.ndarray, np.ndarray, int], Quality]] = {
        "benthic": by_benthic,
        "hand-written": by_hand,
        "skorch": by_skorch,
    }
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        timings = alternate({name: lambda fit=fit: fit(X, y, epochs) for name, fit in fits.items()}, repeats=repeats)
    finally:
        torch.set_num_threads(threads)
    claims = [
        Claim("benthic / hand-written loop", timings.ratio("benthic", "hand-written"), "<=", 1.05, "x"),
        Claim("skorch / benthic", timings.ratio("skorch", "benthic"), ">=", 1.0, "x"),
    ]
    settings = {"rows": rows, "epochs": epochs, "batch": BATCH, "threads": 1}
    return Result("training_overhead", TITLE, claims, timings, settings)
