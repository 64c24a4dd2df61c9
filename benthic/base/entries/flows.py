"""Entries of the catalogue: normalizing flows."""

from __future__ import annotations

from benthic.base.entries.entry import Entry

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "ContinuousFlow",
        "benthic.generative.flows.continuous",
        family="flow",
        tasks=("density", "generate", "encode", "impute"),
        data=("table",),
        rows=("E-04", "N-03"),
        summary="Continuous normalizing flow: a normal carried to the data by a learned field.",
        quick_params={
            "hidden_layer_sizes": (16,),
            "method": "midpoint",
            "solver_steps": 3,
            "trainer": {"steps": 8, "lr": 0.02},
        },
    ),
    Entry(
        "NormalizingFlow",
        "benthic.generative.flows.normalizing",
        family="flow",
        tasks=("density", "generate", "encode", "impute"),
        data=("table", "image"),
        rows=("N-03",),
        summary="Normalizing flow: spline, coupling, autoregressive, residual or continuous maps to a normal.",
        quick_params={
            "hidden_layer_sizes": (16,),
            "transforms": 2,
            "bins": 4,
            "trainer": {"steps": 16, "lr": 0.01},
        },
        given=("labels", "vectors"),
    ),
)
