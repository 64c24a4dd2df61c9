"""Entries of the catalogue: energies and the restricted Boltzmann machine."""

from __future__ import annotations

from benthic.base.entries.entry import Entry

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "EnergyModel",
        "benthic.generative.energy.model",
        family="energy",
        tasks=("density", "generate", "impute"),
        data=("table", "image"),
        rows=("N-04",),
        summary="Energy-based model trained by chains, by scores or by noise; likelihood by annealing.",
        quick_params={
            "objective": "noise_contrastive",
            "hidden_layer_sizes": (16,),
            "sampling_steps": 100,
            "trainer": {"steps": 20, "lr": 0.01},
        },
    ),
    Entry(
        "BernoulliRBM",
        "benthic.generative.energy.boltzmann",
        family="energy",
        tasks=("encode",),
        data=("table", "image"),
        rows=("N-04",),
        summary="Restricted Boltzmann machine: binary hidden units that explain binary visible ones.",
        quick_params={"n_components": 8, "binarize": 0.0, "sampling_steps": 50, "trainer": {"steps": 30}},
    ),
)
