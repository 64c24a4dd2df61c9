"""Entries of the catalogue: networks as predictors."""

from __future__ import annotations

from benthic.base.entries.entry import Entry

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "MLPClassifier",
        "benthic.supervised.mlp",
        family="network",
        tasks=("classify",),
        data=("table",),
        rows=("J-07",),
        summary="Fully connected network for classes.",
        quick_params={"hidden_layer_sizes": (16,), "trainer": {"steps": 100, "lr": 0.03}},
    ),
    Entry(
        "MLPRegressor",
        "benthic.supervised.mlp",
        family="network",
        tasks=("regress",),
        data=("table",),
        rows=("J-07",),
        summary="Fully connected network for numbers.",
        quick_params={"hidden_layer_sizes": (16,), "trainer": {"steps": 100, "lr": 0.03}},
    ),
    Entry(
        "BayesianMLPClassifier",
        "benthic.supervised.bayesian_mlp",
        family="network",
        tasks=("classify",),
        data=("table",),
        rows=("Q-01",),
        summary="Fully connected network for classes, averaged over the posterior of its weights.",
        quick_params={
            "hidden_layer_sizes": (8,),
            "chains": 1,
            "draws": 5,
            "warmup": 3,
            "leapfrog_steps": 3,
            "climb_steps": 50,
        },
    ),
    Entry(
        "BayesianMLPRegressor",
        "benthic.supervised.bayesian_mlp",
        family="network",
        tasks=("regress",),
        data=("table",),
        rows=("Q-01",),
        summary="Fully connected network for numbers, averaged over the posterior of weights and noise.",
        quick_params={
            "hidden_layer_sizes": (8,),
            "chains": 1,
            "draws": 5,
            "warmup": 3,
            "leapfrog_steps": 3,
            "climb_steps": 50,
        },
    ),
    Entry(
        "NeuralODEClassifier",
        "benthic.supervised.neural_ode",
        family="network",
        tasks=("classify",),
        data=("table", "image"),
        rows=("E-04",),
        summary="Network of continuous depth for classes: rows follow a learned field.",
        quick_params={
            "width": 16,
            "hidden_layer_sizes": (16,),
            "method": "euler",
            "solver_steps": 1,
            "trainer": {"steps": 60, "lr": 0.05},
        },
    ),
    Entry(
        "NeuralODERegressor",
        "benthic.supervised.neural_ode",
        family="network",
        tasks=("regress",),
        data=("table", "image", "sequence"),
        rows=("E-04",),
        summary="Network of continuous depth for numbers, or the law of motion of trajectories.",
        quick_params={
            "width": 16,
            "hidden_layer_sizes": (16,),
            "method": "euler",
            "solver_steps": 1,
            "trainer": {"steps": 60, "lr": 0.05},
        },
    ),
)
