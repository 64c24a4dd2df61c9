"""How well topics explain documents they were not learned from, for topics of any origin.

Every function takes the topics as a matrix (topics, words) and the prior of topics, so that models of different
libraries are judged by one and the same estimate.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benthic.base.errors import InvalidInput
from benthic.base.settings import whole
from benthic.base.threads import Crew, threads
from benthic.topics.corpus import Corpus
from benthic.topics.inference_kernels import fold_in, halve, left_to_right_kernel, mean_field

_PASSES, _TOL = 200, 1e-6
_RESAMPLED = 64  # earlier tokens that are drawn again before each next one
_SEED_MASK = (1 << 63) - 1


@dataclass(frozen=True)
class HeldOut:
    """Log-likelihoods of documents in nats.

    value: (n,) of each document. stderr: (n,) Monte-Carlo standard errors. tokens: (n,) how many words were judged.
    """

    value: np.ndarray
    stderr: np.ndarray
    tokens: np.ndarray

    @property
    def per_word(self) -> float:
        """Mean log-likelihood of a word."""
        return float(self.value.sum() / self.tokens.sum()) if self.tokens.sum() else float("nan")

    @property
    def perplexity(self) -> float:
        """exp of minus that: among how many equally likely words each one seems to be drawn."""
        return float(np.exp(-self.per_word))


def infer(X: Any, topics: Any, alpha: Any, *, n_jobs: int | None = None) -> np.ndarray:
    """Expected shares of the topics in each document, (n, topics); rows sum to one.

    X: counts (n, words), dense or sparse. topics: (topics, words) p(word | topic), or anything proportional to it.
    alpha: prior of topics, one number or (topics,). An empty document gets the prior.

    >>> infer([[4, 0], [0, 0]], [[0.9, 0.1], [0.1, 0.9]], 0.1).round(2).tolist()
    [[0.97, 0.03], [0.5, 0.5]]
    """
    corpus, chances, prior = _given("infer", X, topics, alpha)
    shares = np.empty((len(corpus), len(prior)))

    def work(first: int, last: int) -> None:
        fold_in(
            corpus.indptr, corpus.words, corpus.counts, first, last, chances, prior, _PASSES, _TOL, shares
        )  # fmt: skip

    _shared(len(corpus), work, n_jobs)
    return shares / shares.sum(1, keepdims=True)


def completion(X: Any, topics: Any, alpha: Any, *, seed: int = 0, n_jobs: int | None = None) -> HeldOut:
    r"""Log-likelihood of one half of each document given the other half.

    .. math:: \sum_{w \in \text{second half}} \log \sum_k E[\theta_k \mid \text{first half}]\, \phi_{kw}

    Wallach et al., 2009 (document completion). Tokens are put in halves at random, the odd one into the first.

    X: whole counts (n, words). topics: (topics, words). alpha: prior of topics, one number or (topics,). seed:
    decides the halves, the same for any topics.

    >>> found = completion([[3, 1], [0, 4]], [[0.9, 0.1], [0.1, 0.9]], 0.1)
    >>> found.tokens.tolist(), found.perplexity < 2
    ([2, 2], True)
    """
    corpus, chances, prior = _given("completion", X, topics, alpha, whole=True)
    whole = corpus.counts.astype(np.int64)
    kept = np.zeros_like(whole)
    halve(corpus.indptr, corpus.words, whole, seed & _SEED_MASK, kept)
    first = Corpus(corpus.indptr, corpus.words, kept.astype(np.float64), corpus.width)
    shares = infer(_without_zeros(first), topics, prior, n_jobs=n_jobs)
    left = whole - kept
    documents = corpus.documents
    logs = np.empty(len(left))
    for low in range(0, len(left), 1 << 16):
        part = slice(low, low + (1 << 16))
        logs[part] = np.log(np.einsum("ik,ik->i", shares[documents[part]], chances[corpus.words[part]]))
    value = np.bincount(documents, left * logs, len(corpus))
    tokens = np.bincount(documents, left, len(corpus)).astype(np.int64)
    return HeldOut(value, np.zeros(len(corpus)), tokens)


def left_to_right(
    X: Any, topics: Any, alpha: Any, *, particles: int = 20, seed: int = 0, n_jobs: int | None = None
) -> HeldOut:
    r"""Log-likelihood of whole documents by the left-to-right estimate.

    .. math:: p(w_1 \dots w_N) = \prod_n p(w_n \mid w_{<n}), \qquad
              p(w_n \mid w_{<n}) \approx \frac1R \sum_r p(w_n \mid z^r_{<n})

    Wallach et al., 2009: before each token the topics of those before it (of 64 at random, where there are more)
    are drawn again. The product is unbiased, its logarithm low by half the squared standard error. It is the
    likelihood of the words in an order, as is usual; tokens are taken in random order.

    X: whole counts (n, words). topics: (topics, words). alpha: prior, one number or (topics,). particles: R.

    >>> found = left_to_right([[1, 0]], [[0.9, 0.1], [0.1, 0.9]], [1.0, 1.0])
    >>> float(np.exp(found.value[0]).round(6))
    0.5
    """
    whole("left_to_right: particles", particles)
    corpus, chances, prior = _given("left_to_right", X, topics, alpha, whole=True)
    counts = corpus.counts.astype(np.int64)
    value, error = np.zeros(len(corpus)), np.zeros(len(corpus))

    def work(first: int, last: int) -> None:
        left_to_right_kernel(
            corpus.indptr, corpus.words, counts, first, last, chances, prior, int(particles), _RESAMPLED,
            seed & _SEED_MASK, value, error,
        )  # fmt: skip

    _shared(len(corpus), work, n_jobs)
    return HeldOut(value, error, np.rint(corpus.lengths).astype(np.int64))


def evidence_bound(X: Any, topics: Any, alpha: Any, *, n_jobs: int | None = None) -> HeldOut:
    """A lower bound of the log-likelihood of each document by mean field (Blei et al., 2003); takes any amounts.

    X: counts (n, words). topics: (topics, words). alpha: prior of topics, one number or (topics,).

    >>> float(np.exp(evidence_bound([[1, 0]], [[0.9, 0.1], [0.1, 0.9]], [1.0, 1.0]).value[0])) < 0.5
    True
    """
    from scipy.special import digamma, gammaln

    corpus, chances, prior = _given("evidence_bound", X, topics, alpha)
    lengths = corpus.lengths
    gammas = prior + lengths[:, None] / len(prior)
    value = np.empty(len(corpus))
    none = np.empty((0, len(prior)))

    def work(first: int, last: int) -> None:
        for d in range(first, last):
            value[d] = mean_field(
                corpus.indptr, corpus.words, corpus.counts, d, d + 1, chances, prior, _PASSES, _TOL, gammas, none
            )  # fmt: skip

    _shared(len(corpus), work, n_jobs)
    logs = digamma(gammas) - digamma(gammas.sum(1, keepdims=True))
    value += ((prior - gammas) * logs + gammaln(gammas) - gammaln(prior)).sum(1)
    value += gammaln(prior.sum()) - gammaln(gammas.sum(1))
    return HeldOut(value, np.zeros(len(corpus)), lengths)


def _given(who: str, X: Any, topics: Any, alpha: Any, whole: bool = False) -> tuple[Corpus, np.ndarray, np.ndarray]:
    """The corpus, p(word | topic) as (words, topics), and the prior, all checked."""
    corpus = Corpus.of(X)
    weights = np.asarray(topics, dtype=np.float64)
    if weights.ndim != 2 or weights.shape[1] != corpus.width:
        raise InvalidInput(
            f"{who}: topics have shape {weights.shape}; documents of {corpus.width} words need (k, words)"
        )
    if not np.isfinite(weights).all() or (weights < 0).any() or (weights.sum(1) <= 0).any():
        raise InvalidInput(f"{who}: topics must be finite, >= 0 and have a positive sum each")
    if corpus.negative() is not None:
        raise InvalidInput(f"{who}: Negative values in data, the first of word {corpus.negative()}; counts are >= 0")
    broken = corpus.fraction() if whole else None
    if broken is not None:
        raise InvalidInput(
            f"{who}: document {broken[0]} has a count of {broken[1]:g}; whole counts are needed, round them or use "
            "evidence_bound"
        )
    chances = np.ascontiguousarray((weights / weights.sum(1, keepdims=True)).T)
    chances = np.maximum(chances, np.finfo(np.float64).tiny)
    prior = np.broadcast_to(np.asarray(alpha, dtype=np.float64), (len(weights),)).copy()
    if not (prior > 0).all() or not np.isfinite(prior).all():
        raise InvalidInput(f"{who}: alpha must be positive, but its smallest value is {prior.min():g}")
    return corpus, chances, prior


def _without_zeros(corpus: Corpus) -> Corpus:
    there = corpus.counts > 0
    sums = np.concatenate([[0], np.cumsum(there)])
    return Corpus(sums[corpus.indptr].astype(np.int64), corpus.words[there], corpus.counts[there], corpus.width)


def _shared(n: int, work: Any, n_jobs: int | None) -> None:
    """Do the work for documents ``first:last``, a few at a time, in threads."""
    size = max(1, min(256, n // (4 * threads(n_jobs)) or 1))
    with Crew(threads(n_jobs)) as crew:
        crew.each(partial(_piece, work, n, size), range(0, n, size))


def _piece(work: Any, n: int, size: int, first: int) -> None:
    work(first, min(first + size, n))
