"""Entries of the catalogue: autoencoders."""

from __future__ import annotations

from benthic.base.entries.entry import Entry

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "VAE",
        "benthic.generative.vae.variational",
        family="vae",
        tasks=("generate", "encode", "density", "impute"),
        data=("table", "image", "missing"),
        rows=("N-01",),
        summary="Variational autoencoder for tables and pictures: numbers, bits, levels or mixed columns.",
        quick_params={"latent_dim": 2, "hidden_layer_sizes": (16,), "trainer": {"steps": 60, "lr": 0.01}},
    ),
    Entry(
        "ImportanceWeightedVAE",
        "benthic.generative.vae.importance",
        family="vae",
        tasks=("generate", "encode", "density", "impute"),
        data=("table", "image", "missing"),
        rows=("N-01",),
        summary="Variational autoencoder trained on the tighter bound of several draws.",
        quick_params={"latent_dim": 2, "draws": 3, "hidden_layer_sizes": (16,), "trainer": {"steps": 60, "lr": 0.01}},
    ),
    Entry(
        "HierarchicalVAE",
        "benthic.generative.vae.hierarchical",
        family="vae",
        tasks=("generate", "encode", "density", "impute"),
        data=("table", "image", "missing"),
        rows=("N-01",),
        summary="Variational autoencoder with several levels of codes, inferred from the top or from the bottom.",
        quick_params={
            "level_dims": (2, 1),
            "hidden_layer_sizes": (16,),
            "level_layer_sizes": (8,),
            "trainer": {"steps": 80, "lr": 0.02},
        },
    ),
    Entry(
        "ConditionalVAE",
        "benthic.generative.vae.conditional",
        family="vae",
        tasks=("generate", "encode", "density", "impute", "classify"),
        data=("table", "image", "missing"),
        rows=("N-01",),
        summary="Variational autoencoder given a label or a vector; with labels also a generative classifier.",
        quick_params={"latent_dim": 2, "hidden_layer_sizes": (16,), "trainer": {"steps": 80, "lr": 0.02}},
        given=("labels", "vectors"),
    ),
    Entry(
        "Autoencoder",
        "benthic.generative.autoencoder.estimator",
        family="autoencoder",
        tasks=("encode",),
        data=("table", "image", "missing"),
        rows=("M-01",),
        summary="Codes from which rows can be rebuilt: plain, sparse, denoising, contractive or convolutional.",
        quick_params={"latent_dim": 2, "hidden_layer_sizes": (16,), "trainer": {"steps": 60, "lr": 0.01}},
    ),
    Entry(
        "VaDE",
        "benthic.generative.vae.vade",
        family="vae",
        tasks=("generate", "encode", "density", "impute", "cluster"),
        data=("table", "image", "missing"),
        rows=("N-01",),
        summary="Variational autoencoder whose codes come from clusters, which it finds.",
        quick_params={
            "n_clusters": 2,
            "latent_dim": 2,
            "hidden_layer_sizes": (16,),
            "pretrain_epochs": 5,
            "n_init": 1,
            "trainer": {"steps": 60, "lr": 0.01},
        },
    ),
)
