"""How many rows a second a VAE learns from on a CPU: ours, pythae's trainer, and a loop written by hand."""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.harness import Quality, alternate
from benchmarks.report import Claim, Result

TITLE = "VAE 784-512-256-16, batch 128: fit beside pythae's trainer and a hand-written loop"
BATCH, RATE, LATENT = 128, 1e-3, 16


def pictures(rows: int) -> np.ndarray:
    """Zeros and ones with some structure, float32."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(rows, 8)) @ rng.normal(size=(8, 784))
    return (rng.random((rows, 784)) < 1 / (1 + np.exp(2 - 2 * logits))).astype(np.float32)


def encoder() -> nn.Sequential:
    """From pixels to features."""
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU())


def decoder() -> nn.Sequential:
    """From codes to logits."""
    return nn.Sequential(nn.Linear(LATENT, 256), nn.ReLU(), nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 784))


def by_hand(X: np.ndarray, epochs: int) -> Quality:
    """Shuffled batches, fused Adam, the loss looked at each step."""
    torch.manual_seed(0)
    above, head, below = encoder(), nn.Linear(256, 2 * LATENT), decoder()
    parameters = [*above.parameters(), *head.parameters(), *below.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=RATE, fused=True)
    inputs, total = torch.from_numpy(X), 0.0
    for _ in range(epochs):
        total = 0.0
        for rows in torch.randperm(len(inputs)).split(BATCH):
            x = inputs[rows]
            optimizer.zero_grad(set_to_none=True)
            mean, log_var = head(above(x)).chunk(2, 1)
            z = mean + torch.exp(0.5 * log_var) * torch.randn_like(mean)
            kl = 0.5 * (mean.square() + log_var.exp() - 1 - log_var).sum()
            loss = (F.binary_cross_entropy_with_logits(below(z), x, reduction="sum") + kl) / len(x)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(x)
    return {"last loss": total / len(X)}


def by_pythae(X: np.ndarray, epochs: int) -> Quality:
    """The same networks through pythae's trainer, without checkpoints; its decoder ends in a sigmoid."""
    from pythae.models import VAE, VAEConfig
    from pythae.models.base.base_utils import ModelOutput
    from pythae.models.nn import BaseDecoder, BaseEncoder
    from pythae.pipelines import TrainingPipeline
    from pythae.trainers import BaseTrainerConfig

    class Encoder(BaseEncoder):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.mean, self.log_var = encoder(), nn.Linear(256, LATENT), nn.Linear(256, LATENT)

        def forward(self, x: Tensor) -> Any:
            features = self.body(x)
            return ModelOutput(embedding=self.mean(features), log_covariance=self.log_var(features))

    class Decoder(BaseDecoder):
        def __init__(self) -> None:
            super().__init__()
            self.body = decoder()

        def forward(self, z: Tensor) -> Any:
            return ModelOutput(reconstruction=torch.sigmoid(self.body(z)))

    logging.disable(logging.WARNING)
    config = VAEConfig(input_dim=(784,), latent_dim=LATENT, reconstruction_loss="bce")
    model = VAE(config, encoder=Encoder(), decoder=Decoder())
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        settings = BaseTrainerConfig(
            output_dir=folder,
            num_epochs=epochs,
            per_device_train_batch_size=BATCH,
            learning_rate=RATE,
            optimizer_cls="Adam",
            optimizer_params={"fused": True},
            no_cuda=True,
        )
        TrainingPipeline(training_config=settings, model=model)(train_data=X)
    logging.disable(logging.NOTSET)
    return {}


def by_benthic(X: np.ndarray, epochs: int) -> Quality:
    """The same networks through our fit."""
    import benthic

    trainer = {"epochs": epochs, "batch_size": BATCH, "lr": RATE, "device": "cpu", "verbose": False}
    model = benthic.VAE(
        LATENT, hidden_layer_sizes=(512, 256), decoder="bernoulli", trainer=trainer, random_state=0
    ).fit(X)
    return {"last loss": model.history_[-1]["loss"]}


def run(quick: bool = False) -> Result:
    """Alternate the three on the same rows."""
    rows, epochs, repeats = (1280, 2, 2) if quick else (25_600, 3, 7)
    X = pictures(rows)
    fits = {"benthic": by_benthic, "hand-written": by_hand, "pythae": by_pythae}
    timings = alternate({name: lambda fit=fit: fit(X, epochs) for name, fit in fits.items()}, repeats=repeats)
    claims = [
        Claim("pythae / benthic", timings.ratio("pythae", "benthic"), ">=", 1.05, "x"),
        Claim("hand-written loop / benthic", timings.ratio("hand-written", "benthic"), ">=", 0.97, "x"),
    ]
    settings = {"rows": rows, "epochs": epochs, "batch": BATCH, "threads": torch.get_num_threads()}
    return Result("vae", TITLE, claims, timings, settings)
