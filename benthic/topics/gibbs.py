"""Collapsed Gibbs sampling of topics by several workers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from benthic.base.errors import InvalidInput
from benthic.base.seeds import derive, np_generator
from benthic.base.threads import Crew
from benthic.topics.corpus import Corpus
from benthic.topics.gibbs_kernels import sweep_alias, sweep_dense, tally

_PAD = 8  # topics that the compiled sum takes at once
_DENSE = 1536  # topics up to which drawing among all of them, eight at once, is quicker than alias tables
_TABLE = 16  # tokens of a word from which its alias table is worth making
_LEARN_EVERY, _WARM = 10, 20  # sweeps between two steps of the priors, and before the first
_FIXED_POINT = 20  # fixed-point iterations of a step
_ROOM = 1 << 25  # numbers of a table of how often topics stand in documents
_GREEDY = 4096  # words dealt to the lightest group, one by one; the rest goes round
MOST_TOKENS = 1 << 31


@dataclass
class Chain:
    """The state of the sampler: a topic for every token, and the counts that belong to it.

    words, topics: (tokens,). offsets: (documents + 1,). bounds: (documents, workers + 1) where in a document the
    words of each group begin. counts: (words, padded topics). totals: (padded topics,). alpha: (topics,) and eta:
    priors. groups: (words,) the group of each word. edges: (workers + 1,) documents of each worker.
    """

    words: np.ndarray
    topics: np.ndarray
    offsets: np.ndarray
    bounds: np.ndarray
    counts: np.ndarray
    totals: np.ndarray
    alpha: np.ndarray
    eta: float
    groups: np.ndarray
    edges: np.ndarray
    states: list[np.ndarray]
    tables: dict[str, Any] = field(default_factory=dict)

    @property
    def workers(self) -> int:
        """How many workers share a sweep."""
        return len(self.edges) - 1


@dataclass(frozen=True)
class Sampled:
    """What the sampler learned: mean counts (topics, words), priors, and log p(words | topics) a token by sweep."""

    counts: np.ndarray
    alpha: np.ndarray
    eta: float
    trace: np.ndarray


def start(corpus: Corpus, alpha: np.ndarray, eta: float, *, workers: int = 1, seed: int = 0) -> Chain:
    """A chain with random topics. The counts of the corpus must be whole."""
    k, total = len(alpha), int(corpus.counts.sum())
    if total >= MOST_TOKENS:
        raise InvalidInput(f"there are {total:.3g} tokens, more than Gibbs sampling keeps; use method='variational'")
    workers = max(1, min(workers, len(corpus), corpus.width))
    groups = _deal(np.bincount(corpus.words, corpus.counts, corpus.width), workers)
    words, bounds = _lay_out(corpus, groups, workers)
    offsets = np.concatenate([[0], np.cumsum(np.rint(corpus.lengths).astype(np.int64))])
    topics = np_generator(seed, "topics").integers(0, k, total, dtype=np.int32)
    width = -(-k // _PAD) * _PAD
    counts = np.bincount(words.astype(np.int64) * width + topics, minlength=corpus.width * width)
    counts = counts.reshape(corpus.width, width).astype(np.int32)
    edges = np.searchsorted(offsets, np.linspace(0, total, workers + 1)[1:-1])
    states = [np.full(8, derive(seed, "worker", p) | 1, np.uint64) for p in range(workers)]
    return Chain(
        words, topics, offsets, bounds, counts, counts.sum(0, dtype=np.int64), alpha.astype(np.float64), float(eta),
        groups, np.concatenate([[0], edges, [len(corpus)]]).astype(np.int64), states,
    )  # fmt: skip


def _lay_out(corpus: Corpus, groups: np.ndarray, workers: int) -> tuple[np.ndarray, np.ndarray]:
    """The words of all tokens, by document and then by group, and where in a document each group begins."""
    blocks = corpus.documents * workers + groups[corpus.words]
    order = np.argsort(blocks, kind="stable") if workers > 1 else slice(None)
    repeats = corpus.counts[order].astype(np.int64)
    begins = np.concatenate([[0], np.cumsum(repeats)])
    edges = np.searchsorted(blocks[order], np.arange(len(corpus))[:, None] * workers + np.arange(workers + 1))
    return np.repeat(corpus.words[order], repeats), begins[edges]


def _deal(frequencies: np.ndarray, workers: int) -> np.ndarray:
    """Words in as many groups as there are workers, with about as many tokens in each."""
    groups = np.zeros(len(frequencies), np.int64)
    if workers == 1:
        return groups
    order = np.argsort(-frequencies, kind="stable")
    load = [0.0] * workers
    for w in order[:_GREEDY].tolist():
        lightest = load.index(min(load))
        groups[w] = lightest
        load[lightest] += frequencies[w]
    groups[order[_GREEDY:]] = np.arange(max(len(order) - _GREEDY, 0)) % workers
    return groups


def sweep(chain: Chain, crew: Crew, sampler: str = "dense") -> None:
    """Draw the topic of every token once.

    Each worker has its own documents and goes through the groups of words in a turn of its own, so no two workers
    touch the same counts; only the totals of the topics are those of the turn's beginning plus the worker's own
    changes (Yan et al., 2009). The outcome depends on seed and number of workers, not on their speed.
    """
    width = len(chain.totals)
    alpha = np.zeros(width, np.float32)
    alpha[: len(chain.alpha)] = chain.alpha
    if sampler == "alias" and not chain.tables:
        chain.tables = _tables(chain)
    for turn in range(chain.workers):
        local = [chain.totals.copy() for _ in range(chain.workers)]
        crew.together(partial(_work, chain, turn, local, alpha, sampler))
        chain.totals = chain.totals + sum(own - chain.totals for own in local)


def _work(chain: Chain, turn: int, local: list[np.ndarray], alpha: np.ndarray, sampler: str, worker: int) -> None:
    group = (worker + turn) % chain.workers
    shared = (
        chain.words, chain.topics, chain.offsets, chain.bounds, chain.edges[worker : worker + 2], group,
        chain.counts, local[worker], alpha, chain.eta, chain.states[worker],
    )  # fmt: skip
    if sampler == "alias":
        own = chain.tables
        sweep_alias(*shared, own["frequent"][group], *(own[n] for n in ("slots", "weights", "chance", "other", "sums")))
    else:
        sweep_dense(*shared)


def _tables(chain: Chain) -> dict[str, Any]:
    """Room for the alias tables of frequent words."""
    frequent = np.flatnonzero(chain.counts.sum(1) >= _TABLE)
    slots = np.full(len(chain.groups), -1, np.int32)
    slots[frequent] = np.arange(len(frequent))
    shape = (max(len(frequent), 1), len(chain.alpha))
    return {
        "frequent": [frequent[chain.groups[frequent] == g] for g in range(chain.workers)],
        "slots": slots,
        "weights": np.zeros(shape, np.float32),
        "chance": np.zeros(shape, np.float32),
        "other": np.zeros(shape, np.int32),
        "sums": np.zeros(shape[0], np.float32),
    }


def learn_priors(chain: Chain) -> None:
    r"""A few fixed-point iterations of both priors, given the topics of the tokens.

    .. math:: \alpha_k \leftarrow \alpha_k
              \frac{\sum_d \psi(n_{dk} + \alpha_k) - \psi(\alpha_k)}{\sum_d \psi(n_d + \alpha_0) - \psi(\alpha_0)}

    and likewise one η for all words. Minka, 2000.
    """
    chain.alpha = _learned_alpha(chain)
    chain.eta = _learned_eta(chain)


def _learned_alpha(chain: Chain) -> np.ndarray:
    from scipy.special import digamma

    lengths = np.diff(chain.offsets)
    room = min(int(lengths.max()) + 1, max(_ROOM // len(chain.alpha), 2))
    table = np.zeros((len(chain.alpha), room), np.int32)
    tally(chain.topics, chain.offsets, table)
    topic, n = np.nonzero(table)
    times = table[topic, n]
    sizes, many = np.unique(lengths[(lengths > 0) & (lengths < room)], return_counts=True)
    alpha = chain.alpha
    for _ in range(_FIXED_POINT if len(sizes) else 0):
        above = np.bincount(topic, times * (digamma(n + alpha[topic]) - digamma(alpha[topic])), len(alpha))
        below = many @ (digamma(sizes + alpha.sum()) - digamma(alpha.sum()))
        alpha = np.clip(alpha * above / below, 1e-5, 1e3)
    return alpha


def _learned_eta(chain: Chain) -> float:
    from scipy.special import digamma

    v, eta = len(chain.counts), chain.eta
    n, times = np.unique(chain.counts[chain.counts > 0], return_counts=True)
    totals = chain.totals[: len(chain.alpha)]
    for _ in range(_FIXED_POINT if v > 1 else 0):
        above = times @ (digamma(n + eta) - digamma(eta))
        below = v * (digamma(totals + v * eta) - digamma(v * eta)).sum()
        eta = float(np.clip(eta * above / below, 1e-5, 1e2))
    return eta


def log_words(chain: Chain) -> float:
    """Log p(words | topics of the tokens), a token (Griffiths & Steyvers, 2004)."""
    from scipy.special import gammaln

    k, v, eta = len(chain.alpha), len(chain.counts), chain.eta
    present = chain.counts[chain.counts > 0]
    inner = float(np.sum(gammaln(present + eta))) - len(present) * math.lgamma(eta)
    outer = k * math.lgamma(v * eta) - float(np.sum(gammaln(chain.totals[:k] + v * eta)))
    return (inner + outer) / max(len(chain.words), 1)


def sample_topics(
    corpus: Corpus,
    alpha: np.ndarray,
    eta: float,
    *,
    sweeps: int = 200,
    workers: int = 1,
    seed: int = 0,
    sampler: str = "auto",
    learn: bool = True,
    tick: Callable[[float], Any] | None = None,
) -> Sampled:
    """Run a chain and average its counts over the last fifth of the sweeps, every fifth of those.

    alpha: (topics,) prior of topics. eta: prior of words. sampler: ``"dense"``, ``"alias"``, or ``"auto"`` by the
    number of topics. learn: whether priors are learned on the way. tick: is told log p(words | topics).
    """
    chain = start(corpus, alpha, eta, workers=workers, seed=seed)
    if sampler == "auto":
        sampler = "dense" if len(alpha) <= _DENSE else "alias"
    kept = {s for s in range(sweeps, 0, -5) if s > sweeps - max(sweeps // 5, 1)}
    sums = np.zeros_like(chain.counts, dtype=np.float64 if len(kept) > 1 else np.int32)
    trace, likely = [], math.nan
    with Crew(chain.workers) as crew:
        for s in range(1, sweeps + 1):
            sweep(chain, crew, sampler)
            if learn and s % _LEARN_EVERY == 0 and s >= _WARM:
                learn_priors(chain)
            if s % _LEARN_EVERY == 0 or s == sweeps:
                likely = log_words(chain)
                trace.append((s, likely))
            if s in kept:
                sums += chain.counts
            if tick is not None:
                tick(likely)
    mean = np.ascontiguousarray(sums[:, : len(alpha)].T) / len(kept)
    return Sampled(mean, chain.alpha, chain.eta, np.array(trace))
