"""Entries of the catalogue: Gaussian processes."""

from __future__ import annotations

from benthic.base.entries.entry import Entry

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "GaussianProcessRegressor",
        "benthic.gp.regressor",
        family="gp",
        tasks=("regress",),
        data=("table",),
        rows=("F-07",),
        summary="A normal law over functions: exact, or with inducing points for many rows.",
        quick_params={"max_iter": 20},
    ),
    Entry(
        "GaussianProcessClassifier",
        "benthic.gp.classifier",
        family="gp",
        tasks=("classify",),
        data=("table",),
        rows=("F-07",),
        summary="Class probabilities from latent Gaussian processes, by Laplace's method or inducing points.",
        quick_params={"max_iter": 20},
    ),
)
