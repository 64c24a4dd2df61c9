"""Entries of the catalogue: mixtures."""

from __future__ import annotations

from benthic.base.entries.entry import Entry

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "Mixture",
        "benthic.mixture.general",
        family="mixture",
        tasks=("density", "cluster", "generate", "impute"),
        data=("table", "missing"),
        rows=("H-02",),
        summary="Sum of products of any laws fitted by EM: normal, t, counts, categories, directions, mixed columns.",
        quick_params={"n_components": 2},
    ),
    Entry(
        "GaussianMixture",
        "benthic.mixture.gaussian",
        family="mixture",
        tasks=("density", "cluster", "generate", "impute"),
        data=("table", "missing"),
        rows=("H-02",),
        summary="Sum of Gaussians fitted by EM; exact density, sampling and imputation.",
        quick_params={"n_components": 2},
    ),
    Entry(
        "ExponentialFamilyMixture",
        "benthic.mixture.exponential",
        family="mixture",
        tasks=("density", "cluster", "generate", "impute"),
        data=("table", "missing"),
        rows=("H-02",),
        summary="Sum of products of any exponential families fitted by EM; counts, shares, times in one table.",
        quick_params={"n_components": 2},
    ),
)
