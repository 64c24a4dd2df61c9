"""Collapsed Gibbs sampling: planted topics, the exact law on a small corpus, workers, priors."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.special import digamma, gammaln

from benthic import LatentDirichletAllocation
from benthic.base.threads import Crew
from benthic.topics.corpus import Corpus
from benthic.topics.gibbs import learn_priors, log_words, sample_topics, start, sweep
from benthic.topics.gibbs_kernels import tally
from tests.topics.conftest import matched, plant


@pytest.mark.spec("H-03")
@pytest.mark.parametrize("sampler", ["dense", "alias"])
@pytest.mark.parametrize("workers", [1, 2])
def test_planted_topics_are_found(planted, sampler, workers):
    counts, phi, shares = planted
    model = LatentDirichletAllocation(
        4, method="gibbs", sampler=sampler, n_jobs=workers, max_iter=150, random_state=1
    ).fit(counts)
    apart, rows, columns = matched(model.topics_, phi)
    # 24000 tokens, 6000 a topic: the noise of a topic's 80 shares is about sqrt(80 / (2 pi 6000)) = 0.05
    assert apart.max() < 0.08
    found = model.transform(counts)[:, rows]
    assert np.abs(found - shares[:, columns]).sum(1).mean() / 2 < 0.08


def exact_law(words, offsets, k, alpha, eta, v):
    """The posterior of all assignments of topics, by counting."""
    states = list(product(range(k), repeat=len(words)))
    logs = []
    for z in states:
        z = np.array(z)
        value = 0.0
        for d in range(len(offsets) - 1):
            n = np.bincount(z[offsets[d] : offsets[d + 1]], minlength=k)
            value += gammaln(n + alpha).sum()
        table = np.zeros((v, k))
        np.add.at(table, (words, z), 1)
        value += gammaln(table + eta).sum() - gammaln(table.sum(0) + v * eta).sum()
        logs.append(value)
    p = np.exp(np.array(logs) - max(logs))
    return states, p / p.sum()


@pytest.mark.spec("H-03")
@pytest.mark.parametrize("sampler", ["dense", "alias"])
def test_the_chain_has_the_exact_posterior_as_its_law(sampler, monkeypatch):
    # one worker samples exactly; tables for every word, so that the Metropolis step is what is tested
    monkeypatch.setattr("benthic.topics.gibbs._TABLE", 1)
    corpus = Corpus.of([[2, 0, 1], [0, 2, 0]])
    alpha, eta = np.array([0.7, 0.3]), 0.4
    chain = start(corpus, alpha, eta, seed=3)
    states, law = exact_law(chain.words, chain.offsets, 2, alpha, eta, 3)
    place = {state: i for i, state in enumerate(states)}
    seen, draws = np.zeros(len(states)), 40_000
    with Crew(1) as crew:
        for _ in range(draws):
            sweep(chain, crew, sampler)
            seen[place[tuple(chain.topics.tolist())]] += 1
    # successive draws depend on each other: ten times the error of independent ones bounds the total variation
    assert np.abs(seen / draws - law).sum() / 2 < 10 * np.sqrt(len(states) / (2 * np.pi * draws))


@pytest.mark.parametrize("sampler", ["dense", "alias"])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_counts_are_those_of_the_tokens_after_sweeps(planted, sampler, workers):
    chain = start(Corpus.of(planted[0]), np.full(11, 0.1), 0.05, workers=workers, seed=0)
    with Crew(chain.workers) as crew:
        for _ in range(5):
            sweep(chain, crew, sampler)
    counts = np.zeros_like(chain.counts)
    np.add.at(counts, (chain.words, chain.topics), 1)
    np.testing.assert_array_equal(chain.counts, counts)
    np.testing.assert_array_equal(chain.totals, counts.sum(0))
    assert chain.topics.max() < 11  # padded topics are never drawn
    both = np.zeros_like(planted[0])
    np.add.at(both, (np.repeat(np.arange(len(both)), np.diff(chain.offsets)), chain.words), 1)
    np.testing.assert_array_equal(both, planted[0])  # no token is lost when words are dealt to workers


@pytest.mark.parametrize("sampler", ["dense", "alias"])
def test_one_seed_and_number_of_workers_give_one_result(planted, sampler):
    def fit(workers, seed=5):
        return sample_topics(
            Corpus.of(planted[0]), np.full(6, 0.1), 0.05, sweeps=15, workers=workers, seed=seed, sampler=sampler
        )

    for workers in (1, 2):
        np.testing.assert_array_equal(fit(workers).counts, fit(workers).counts)
    assert not np.array_equal(fit(1).counts, fit(1, seed=6).counts)


def test_samplers_and_workers_reach_the_same_likelihood():
    counts, _, _ = plant(documents=300, tokens=80, topics=5, words=200, seed=2, sparsity=0.5)
    reached = {
        (sampler, workers): sample_topics(
            Corpus.of(counts), np.full(5, 0.15), 0.5, sweeps=120, workers=workers, seed=0, sampler=sampler, learn=False
        ).trace[-1, 1]
        for sampler in ("dense", "alias")
        for workers in (1, 2)
    }
    assert np.ptp(list(reached.values())) < 0.05  # nats a word


@pytest.mark.spec("H-03")
def test_priors_are_learned():
    alpha = np.array([2.0, 0.6, 0.2])
    rng = np.random.default_rng(0)
    phi = rng.dirichlet(np.full(60, 0.05), 3)
    shares = rng.dirichlet(alpha, 1500)
    counts = np.stack([rng.multinomial(100, law / law.sum()) for law in shares @ phi])
    model = LatentDirichletAllocation(3, method="gibbs", max_iter=400, random_state=0).fit(counts)
    _, rows, columns = matched(model.topics_, phi)
    learned = np.empty(3)
    learned[columns] = model.doc_topic_prior_[rows]
    np.testing.assert_allclose(learned, alpha, rtol=0.15)
    # 180 numbers say it, and the chain comes down slowly: 12 ± 7 % away
    assert model.topic_word_prior_ == pytest.approx(0.05, rel=0.45)


def test_learned_priors_are_fixed_points(planted):
    chain = start(Corpus.of(planted[0]), np.array([0.3, 0.9, 0.2]), 0.07, seed=0)
    shares = np.zeros((len(planted[0]), 3))
    np.add.at(shares, (np.repeat(np.arange(len(shares)), np.diff(chain.offsets)), chain.topics), 1)
    table = np.zeros((3, 61), np.int32)
    tally(chain.topics, chain.offsets, table)
    for k in range(3):
        np.testing.assert_array_equal(table[k, 1:], np.bincount(shares[:, k].astype(int), minlength=61)[1:])
    with Crew(1) as crew:
        for _ in range(30):
            sweep(chain, crew)
    for _ in range(100):
        learn_priors(chain)
    shares = np.zeros((len(planted[0]), 3))
    np.add.at(shares, (np.repeat(np.arange(len(shares)), np.diff(chain.offsets)), chain.topics), 1)
    alpha, eta, words = chain.alpha, chain.eta, chain.counts[:, :3]
    above = (digamma(shares + alpha) - digamma(alpha)).sum(0)
    below = (digamma(shares.sum(1) + alpha.sum()) - digamma(alpha.sum())).sum()
    np.testing.assert_allclose(above, below, rtol=1e-6)  # the gradient in alpha is zero
    v = len(words)
    above = (digamma(words + eta) - digamma(eta)).sum()
    assert above == pytest.approx(v * (digamma(words.sum(0) + v * eta) - digamma(v * eta)).sum(), rel=1e-6)


def test_learning_priors_raises_their_likelihood(planted):
    chain = start(Corpus.of(planted[0]), np.full(4, 1.0), 0.5, workers=1, seed=0)
    with Crew(1) as crew:
        for _ in range(60):
            sweep(chain, crew)

    def evidence():
        shares = np.zeros((len(planted[0]), 4))
        np.add.at(shares, (np.repeat(np.arange(len(shares)), np.diff(chain.offsets)), chain.topics), 1)
        a = chain.alpha
        documents = gammaln(a.sum()) - gammaln(shares.sum(1) + a.sum()) + (gammaln(shares + a) - gammaln(a)).sum(1)
        return documents.sum() + log_words(chain) * len(chain.words)

    values = [evidence()]
    for _ in range(5):
        learn_priors(chain)
        values.append(evidence())
    assert np.all(np.diff(values) > -1e-8 * abs(values[0]))


def test_the_trace_rises_from_random_topics(planted):
    corpus, alpha = Corpus.of(planted[0]), np.full(4, 0.15)
    found = sample_topics(corpus, alpha, 0.1, sweeps=25, seed=0, learn=False)
    assert found.trace[:, 0].tolist() == [10, 20, 25]
    assert (found.trace[:, 1] > log_words(start(corpus, alpha, 0.1, seed=0)) + 0.5).all()
