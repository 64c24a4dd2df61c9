"""Naive Bayes: classes whose features are independent of each other within a class."""

from __future__ import annotations

from benthic.base.lazy import lazy

_EXPORTS = {
    "BernoulliNB": "benthic.bayes.bernoulli",
    "CategoricalNB": "benthic.bayes.categorical",
    "GaussianNB": "benthic.bayes.gaussian",
    "MultinomialNB": "benthic.bayes.multinomial",
}

__all__ = [*_EXPORTS]

__getattr__, __dir__ = lazy(__name__, _EXPORTS)
