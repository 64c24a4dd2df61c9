"""Entries of the catalogue: naive Bayes classifiers."""

from __future__ import annotations

from benthic.base.entries.entry import Entry

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "GaussianNB",
        "benthic.bayes.gaussian",
        family="bayes",
        tasks=("classify", "generate"),
        data=("table", "missing"),
        rows=("F-04",),
        summary="Naive Bayes with normal features; a density and a generator too.",
        given=("labels",),
    ),
    Entry(
        "BernoulliNB",
        "benthic.bayes.bernoulli",
        family="bayes",
        tasks=("classify",),
        data=("table", "missing"),
        rows=("F-04",),
        summary="Naive Bayes with binary features.",
        given=("labels",),
    ),
    Entry(
        "CategoricalNB",
        "benthic.bayes.categorical",
        family="bayes",
        tasks=("classify", "generate"),
        data=("table", "missing"),
        rows=("F-04",),
        summary="Naive Bayes with categories.",
        quick_params={"bins": 8},
        given=("labels",),
    ),
    Entry(
        "MultinomialNB",
        "benthic.bayes.multinomial",
        family="bayes",
        tasks=("classify",),
        data=("table", "counts", "missing"),
        rows=("F-04",),
        summary="Naive Bayes with counts.",
    ),
)
