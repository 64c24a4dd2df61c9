"""Entries of the catalogue: diffusion, score and Poisson-flow models."""

from __future__ import annotations

from typing import Any

from benthic.base.entries.entry import Entry

_GIVEN = ("labels", "vectors")
_QUICK: dict[str, Any] = {"hidden": 16, "depth": 1, "steps": 25, "trainer": {"steps": 12, "lr": 0.01}}


def _entry(name: str, rows: tuple[str, ...], summary: str) -> Entry:
    return Entry(
        name,
        "benthic.generative.diffusion.family",
        family="diffusion",
        tasks=("generate", "encode", "density", "impute"),
        data=("table", "image"),
        rows=rows,
        summary=summary,
        quick_params=_QUICK,
        given=_GIVEN,
    )


ENTRIES: tuple[Entry, ...] = (
    _entry("DDPM", ("N-05",), "Denoising diffusion: a chain of noise undone step by step, for tables and pictures."),
    _entry("EDM", ("N-05", "N-06"), "Diffusion by added noise with a preconditioned network and few steps of Heun."),
    _entry("FlowMatching", ("N-06", "N-03"), "A learned velocity that carries noise to data along straight paths."),
    _entry("ScoreSDE", ("N-06",), "Scores of noisy data, and the stochastic or ordinary equation run backward."),
    _entry("NCSN", ("N-04",), "Scores at many noise levels, sampled by annealed Langevin steps."),
    _entry("PoissonFlow", ("N-07",), "Data as charges, whose field in a larger space carries noise to the data."),
    Entry(
        "VariationalDiffusion",
        "benthic.generative.diffusion.variational",
        family="diffusion",
        tasks=("generate", "encode", "density", "impute"),
        data=("table", "image"),
        rows=("N-05",),
        summary="Diffusion trained on the variational bound itself, with a learned schedule of noise.",
        quick_params=_QUICK,
        given=_GIVEN,
    ),
    Entry(
        "LatentDiffusion",
        "benthic.generative.diffusion.latent",
        family="diffusion",
        tasks=("generate", "encode", "impute"),
        data=("table", "image"),
        rows=("N-05",),
        summary="A diffusion model of the codes of an autoencoder, whose samples are decoded.",
        quick_params={
            "autoencoder": {"latent_dim": 4, "hidden_layer_sizes": (16,), "trainer": {"steps": 60, "lr": 0.01}},
            "diffusion": {**_QUICK, "sampler": "dpm2m"},
        },
        given=_GIVEN,
    ),
)
