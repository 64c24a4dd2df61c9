"""Entries of the catalogue: adversarial models."""

from __future__ import annotations

from benthic.base.entries.entry import Entry

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "GAN",
        "benthic.generative.gan.adversarial",
        family="gan",
        tasks=("generate", "encode", "density", "impute"),
        data=("table", "image"),
        rows=("N-02",),
        summary="Generative adversarial network: any loss, penalty and game of two players, for tables and pictures.",
        quick_params={"latent_dim": 4, "hidden_layer_sizes": (16,), "trainer": {"steps": 60, "lr": 0.001}},
    ),
    Entry(
        "WGAN",
        "benthic.generative.gan.wasserstein",
        family="gan",
        tasks=("generate", "encode", "density", "impute"),
        data=("table", "image"),
        rows=("N-02",),
        summary="Wasserstein adversarial network, with a gradient penalty or clipped weights.",
        quick_params={
            "latent_dim": 4,
            "hidden_layer_sizes": (16,),
            "critic_steps": 2,
            "trainer": {"steps": 60, "lr": 0.001},
        },
    ),
    Entry(
        "DCGAN",
        "benthic.generative.gan.dcgan",
        family="gan",
        tasks=("generate", "encode", "density", "impute"),
        data=("table", "image"),
        rows=("N-02",),
        summary="Adversarial network of convolutions for pictures of any size, with norms and blocks to choose.",
        quick_params={
            "latent_dim": 4,
            "hidden_layer_sizes": (16,),
            "channels": (8,),
            "penalty": "r1",
            "trainer": {"steps": 60, "lr": 0.001},
        },
    ),
    Entry(
        "ConditionalGAN",
        "benthic.generative.gan.conditional",
        family="gan",
        tasks=("generate", "encode", "density", "impute", "classify"),
        data=("table", "image"),
        rows=("N-02",),
        summary="Adversarial network given a label, judged by projection; also a generative classifier.",
        quick_params={
            "latent_dim": 4,
            "hidden_layer_sizes": (16,),
            "channels": (8,),
            "trainer": {"steps": 60, "lr": 0.0005},
        },
        given=("labels",),
    ),
    Entry(
        "InfoGAN",
        "benthic.generative.gan.infogan",
        family="gan",
        tasks=("generate", "encode", "density", "impute"),
        data=("table", "image"),
        rows=("N-02",),
        summary="Adversarial network whose codes, categories and numbers, can be told from what is made of them.",
        quick_params={
            "latent_dim": 4,
            "categories": 2,
            "continuous": 1,
            "hidden_layer_sizes": (16,),
            "channels": (8,),
            "trainer": {"steps": 60, "lr": 0.001},
        },
    ),
    Entry(
        "ImageTranslation",
        "benthic.generative.gan.translation",
        family="gan",
        tasks=("regress",),
        data=("table", "image"),
        rows=("N-02",),
        summary="Pictures from pictures, learned from pairs: a U-Net, a critic of patches and the absolute error.",
        quick_params={
            "channels": (8,),
            "critic_channels": (8,),
            "hidden_layer_sizes": (32,),
            "trainer": {"steps": 300, "lr": 0.01},
        },
    ),
)
