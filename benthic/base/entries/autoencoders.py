"""Entries of the catalogue: autoencoders."""

from __future__ import annotations

from benthic.base.entries.entry import Entry

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "VAE",
        "benthic.generative.vae",
        family="vae",
        tasks=("generate", "encode", "density", "impute"),
        data=("table", "image"),
        rows=("N-01",),
        summary="Variational autoencoder with a Gaussian or Bernoulli decoder.",
        quick_params={"latent_dim": 2, "hidden_layer_sizes": (16,), "trainer": {"steps": 60, "lr": 0.01}},
    ),
)
