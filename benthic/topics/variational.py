"""Variational inference of topics, in passes over all documents or online by batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benthic.base.seeds import np_generator
from benthic.base.threads import Crew
from benthic.topics.corpus import Corpus
from benthic.topics.inference_kernels import mean_field

_LEAST, _MOST = 1e-5, 1e3  # bounds of learned priors


@dataclass
class Beliefs:
    """Dirichlet laws of the topics and what belongs to them.

    weights: (words, topics) parameters of the laws. alpha: (topics,) and eta: priors. updates: batches seen.
    logs: (topics,) running mean of E log θ, for learning alpha online.
    """

    weights: np.ndarray
    alpha: np.ndarray
    eta: float
    updates: int = 0
    logs: np.ndarray | None = None


@dataclass(frozen=True)
class Settings:
    """How to learn.

    passes, tol: of a document's own law. decay, offset: the weight of batch t is (offset + t)^-decay. batch: documents
    of a batch. learn: whether priors are learned.
    """

    passes: int = 100
    tol: float = 1e-3
    decay: float = 0.7
    offset: float = 10.0
    batch: int = 128
    learn: bool = True


def begin(words: int, alpha: np.ndarray, eta: float, seed: int) -> Beliefs:
    """Laws at random, as Hoffman et al. begin."""
    weights = np_generator(seed, "topics").gamma(100.0, 0.01, (len(alpha), words)).T
    return Beliefs(np.ascontiguousarray(weights), np.array(alpha, dtype=np.float64), float(eta))


def expected_logs(weights: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """E log of the chances of words, (words, topics). sums: (topics,) of all words' weights."""
    from scipy.special import digamma

    return digamma(weights) - digamma(sums)


def _documents(
    corpus: Corpus, table: np.ndarray, alpha: np.ndarray, gammas: np.ndarray, settings: Settings, crew: Crew
) -> tuple[np.ndarray, float]:
    """Fit the documents' laws in place; expected counts (words, topics) and the words' part of the bound."""
    edges = [len(corpus) * k // crew.size for k in range(crew.size + 1)]
    sums = [np.zeros_like(table) for _ in range(crew.size)]
    logs = [0.0] * crew.size

    def work(k: int) -> None:
        logs[k] = mean_field(
            corpus.indptr, corpus.words, corpus.counts, edges[k], edges[k + 1], table, alpha, settings.passes,
            settings.tol, gammas, sums[k],
        )  # fmt: skip

    crew.together(work)
    for other in sums[1:]:
        sums[0] += other
    return sums[0] * table, sum(logs)


def _dirichlet_part(prior: Any, law: np.ndarray, logs: np.ndarray) -> float:
    """Less the divergence of Dirichlet laws (rows of ``law``) from the prior, summed. logs: E log under the laws."""
    from scipy.special import gammaln

    prior = np.broadcast_to(prior, law.shape[1:])
    value = ((prior - law) * logs + gammaln(law)).sum() - gammaln(law.sum(1)).sum()
    return float(value + len(law) * (gammaln(prior.sum()) - gammaln(prior).sum()))


def by_passes(
    corpus: Corpus,
    beliefs: Beliefs,
    settings: Settings,
    *,
    passes: int,
    tol: float,
    workers: int = 1,
    tick: Callable[[float], Any] | None = None,
) -> np.ndarray:
    """Coordinate ascent on the evidence lower bound; returns the bound a word of every pass, which never falls.

    Documents begin anew in each pass, which finds better topics than going on from where they were, until that no
    longer helps; then they go on. It ends after so many passes or when the bound of a word rises by less than ``tol``.
    """
    total, bounds, warm = max(float(corpus.counts.sum()), 1e-300), [-np.inf], False
    gammas = np.empty((0, 0))
    with Crew(workers) as crew:
        while len(bounds) <= passes:
            fresh = gammas.copy() if warm else beliefs.alpha + corpus.lengths[:, None] / len(beliefs.alpha)
            sums, own, bound = _pass(corpus, beliefs, fresh, settings, crew)
            if not warm and bound / total - bounds[-1] < tol:
                warm = True
                continue
            gammas = fresh
            beliefs.weights = beliefs.eta + sums
            beliefs.updates += 1
            if settings.learn:
                _learn(beliefs, own)
            bounds.append(bound / total)
            if tick is not None:
                tick(bounds[-1])
            if bounds[-1] - bounds[-2] < tol:
                break
    return np.array(bounds[1:])


def _pass(
    corpus: Corpus, beliefs: Beliefs, gammas: np.ndarray, settings: Settings, crew: Crew
) -> tuple[np.ndarray, np.ndarray, float]:
    """Fit the documents in place; expected counts, E log θ of each document, and the bound."""
    from scipy.special import digamma

    logs = expected_logs(beliefs.weights, beliefs.weights.sum(0))
    sums, bound = _documents(corpus, np.exp(logs), beliefs.alpha, gammas, settings, crew)
    own = digamma(gammas) - digamma(gammas.sum(1, keepdims=True))
    bound += _dirichlet_part(beliefs.alpha, gammas, own)
    bound += _dirichlet_part(beliefs.eta, beliefs.weights.T, logs.T)
    return sums, own, bound


def _learn(beliefs: Beliefs, own: np.ndarray) -> None:
    """Both priors, given the laws of documents and topics."""
    logs = expected_logs(beliefs.weights, beliefs.weights.sum(0))
    beliefs.alpha = fixed_point(beliefs.alpha, own.mean(0))
    beliefs.eta = float(fixed_point(np.full(1, beliefs.eta), logs.mean(), len(logs))[0])


def update(corpus: Corpus, beliefs: Beliefs, settings: Settings, *, documents: float, workers: int = 1) -> None:
    """One step of online learning from a batch (Hoffman et al., 2010). documents: how many there are in all."""
    from scipy.special import digamma

    if not len(corpus.words):
        return
    present, words = np.unique(corpus.words, return_inverse=True)
    batch = Corpus(corpus.indptr, words.astype(np.int32), corpus.counts, len(present))
    gammas = beliefs.alpha + batch.lengths[:, None] / len(beliefs.alpha)
    table = np.exp(expected_logs(beliefs.weights[present], beliefs.weights.sum(0)))
    with Crew(workers) as crew:
        sums, _ = _documents(batch, table, beliefs.alpha, gammas, settings, crew)
    rate = (settings.offset + beliefs.updates) ** -settings.decay
    beliefs.weights *= 1 - rate
    beliefs.weights += rate * beliefs.eta
    beliefs.weights[present] += rate * documents / len(corpus) * sums
    beliefs.updates += 1
    if settings.learn:
        own = (digamma(gammas) - digamma(gammas.sum(1, keepdims=True))).mean(0)
        beliefs.logs = own if beliefs.logs is None else (1 - rate) * beliefs.logs + rate * own
        beliefs.alpha = fixed_point(beliefs.alpha, beliefs.logs, steps=1)


def fixed_point(prior: np.ndarray, logs: Any, copies: int = 1, steps: int = 10) -> np.ndarray:
    r"""Fixed-point iterations for a Dirichlet prior whose E log is known.

    .. math:: \psi(\alpha_k) = \psi\Bigl(\sum_j \alpha_j\Bigr) + E \log \theta_k

    Minka, 2000. prior: (k,). logs: (k,). copies: how often each entry stands in the Dirichlet, for one that is the
    same for all.

    >>> from scipy.special import digamma
    >>> truth = np.array([0.2, 1.5])
    >>> fixed_point(np.ones(2), digamma(truth) - digamma(truth.sum()), steps=300).round(3).tolist()
    [0.2, 1.5]
    """
    from scipy.special import digamma

    for _ in range(steps):
        prior = np.clip(_inverse_digamma(digamma(copies * prior.sum()) + logs), _LEAST, _MOST)
    return prior


def _inverse_digamma(y: Any) -> np.ndarray:
    """Newton's method from Minka's start."""
    from scipy.special import digamma, polygamma

    y = np.atleast_1d(np.asarray(y, dtype=np.float64))
    x = np.where(y >= -2.22, np.exp(y) + 0.5, -1.0 / (np.minimum(y, -2.22) - digamma(1.0)))
    for _ in range(5):
        x = x - (digamma(x) - y) / polygamma(1, x)
    return x
