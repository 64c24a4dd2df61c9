"""Whether the leading words of a topic stand together in documents."""

from __future__ import annotations

from typing import Any

import numpy as np

from benthic.base.errors import InvalidInput
from benthic.base.settings import whole
from benthic.topics.corpus import Corpus


def coherence(X: Any, topics: Any, *, top: int = 10) -> np.ndarray:
    r"""Mean normalized pointwise mutual information of the leading words of each topic, (topics,), from -1 to 1.

    .. math:: \mathrm{NPMI}(i, j) = \frac{\log p_{ij} - \log p_i p_j}{-\log p_{ij}}

    p are shares of the documents that hold the words; two words that never meet have -1, two that stand in every
    document 0. Bouma, 2009; Lau et al., 2014.

    X: counts (n, words) of reference documents. topics: (topics, words), larger for leading words. top: how many
    words of a topic are taken.

    >>> X = [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]
    >>> coherence(X, [[5, 4, 0, 0], [5, 0, 0, 4]], top=2).tolist()
    [1.0, -1.0]
    """
    corpus = Corpus.of(X)
    weights = np.asarray(topics, dtype=np.float64)
    if weights.ndim != 2 or weights.shape[1] != corpus.width:
        raise InvalidInput(
            f"coherence: topics have shape {weights.shape}; documents of {corpus.width} words need (k, words)"
        )
    whole("coherence: top", top, 2)
    leading = leading_words(weights, int(top))
    if leading.shape[1] < 2:
        return np.zeros(len(weights))
    used, place = np.unique(leading, return_inverse=True)
    together = _together(corpus, used) / len(corpus)
    place = place.reshape(leading.shape)
    first, second = np.triu_indices(leading.shape[1], 1)
    i, j = place[:, first], place[:, second]
    alone = np.diag(together)
    return _npmi(together[i, j], alone[i] * alone[j]).mean(1)


def leading_words(weights: np.ndarray, top: int) -> np.ndarray:
    """The words of largest weight of each topic, (topics, top); the first one among equals."""
    return np.argsort(-weights, axis=1, kind="stable")[:, :top]


def _together(corpus: Corpus, used: np.ndarray) -> np.ndarray:
    """In how many documents each pair of the words stands."""
    import scipy.sparse

    shape = (len(corpus), corpus.width)
    there = scipy.sparse.csr_array((np.ones(len(corpus.words)), corpus.words, corpus.indptr), shape=shape)[:, used]
    return (there.T @ there).toarray()


def _npmi(pair: np.ndarray, apart: np.ndarray) -> np.ndarray:
    safe = np.where((pair > 0) & (pair < 1), pair, 0.5)
    value = np.log(safe / np.where(apart > 0, apart, 1.0)) / -np.log(safe)
    return np.where(pair <= 0, -1.0, np.where(pair >= 1, 0.0, value))
