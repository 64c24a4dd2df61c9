"""Entries of the catalogue: sequences, and fields on chains and graphs."""

from __future__ import annotations

from benthic.base.entries.entry import Entry

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "HiddenMarkovModel",
        "benthic.chains.hidden_markov",
        family="chains",
        tasks=("density", "generate", "decode"),
        data=("sequence",),
        rows=("H-05",),
        summary="Sequences emitted by unseen states that follow one another as a Markov chain.",
        quick_params={"n_states": 2, "n_init": 1},
    ),
    Entry(
        "MarkovModel",
        "benthic.chains.markov_model",
        family="chains",
        tasks=("density", "generate"),
        data=("sequence", "symbols"),
        rows=("H-05",),
        summary="Symbols that depend on the last few: a Markov chain of any order, smoothed by backing off.",
        quick_params={"order": 1},
    ),
    Entry(
        "AutoRegressive",
        "benthic.chains.autoregressive",
        family="chains",
        tasks=("density", "generate", "forecast"),
        data=("sequence",),
        rows=("H-05",),
        summary="Steps as linear functions of the last ones: AR(p) and vector AR with exact forecast intervals.",
        quick_params={"order": 1},
    ),
    Entry(
        "ConditionalRandomField",
        "benthic.chains.conditional_random_field",
        family="chains",
        tasks=("label",),
        data=("sequence",),
        rows=("H-05",),
        summary="Labels along sequences of features, each leaning on its neighbors: a linear-chain CRF.",
        quick_params={"max_iter": 100},
    ),
    Entry(
        "PairwiseMarkovField",
        "benthic.chains.random_field",
        family="chains",
        tasks=("density", "generate", "impute"),
        data=("table",),
        rows=("H-05",),
        summary="Discrete or binned columns on a graph: exact messages on trees, loopy and Gibbs elsewhere.",
        quick_params={"structure": "tree"},
    ),
)
