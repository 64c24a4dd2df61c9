"""Held-out estimates against sums over all topics, and the variational laws against scikit-learn."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.special import gammaln
from sklearn.decomposition import LatentDirichletAllocation as Peer

from benthic import LatentDirichletAllocation
from benthic.base.errors import InvalidInput
from benthic.topics import coherence, completion, evidence_bound, infer, left_to_right
from benthic.topics.corpus import Corpus
from benthic.topics.variational import Settings, begin, by_passes
from tests.topics.conftest import matched, plant

PHI = np.array([[0.6, 0.3, 0.1], [0.1, 0.2, 0.7]])
ALPHA = np.array([0.5, 0.8])


def assignments(tokens, alpha=ALPHA):
    """All assignments of topics with log p(words, topics)."""
    for z in product(range(len(alpha)), repeat=len(tokens)):
        n = np.bincount(np.array(z, dtype=int), minlength=len(alpha))
        law = gammaln(n + alpha).sum() - gammaln(alpha).sum() + gammaln(alpha.sum()) - gammaln(n.sum() + alpha.sum())
        yield n, law + sum(np.log(PHI[k, w]) for k, w in zip(z, tokens, strict=True))


def brute(row):
    """log p(words) and E[shares | words]."""
    tokens = np.repeat(np.arange(3), row)
    listed = list(assignments(tokens))
    logs = np.array([value for _, value in listed])
    p = np.exp(logs - logs.max())
    means = np.array([(n + ALPHA) / (n + ALPHA).sum() for n, _ in listed])
    return logs.max() + np.log(p.sum()), p @ means / p.sum()


@pytest.mark.spec("H-03")
@pytest.mark.parametrize("row", [[1, 0, 0], [2, 1, 0], [1, 2, 3], [4, 0, 3]])
def test_left_to_right_is_the_sum_over_all_topics(row):
    found = left_to_right([row], PHI, ALPHA, particles=4000, seed=1)
    truth, _ = brute(row)
    assert found.value[0] == pytest.approx(truth, abs=5 * found.stderr[0] + 1e-12)
    assert found.stderr[0] < 0.02 and found.tokens[0] == sum(row)


def test_the_standard_error_of_left_to_right_is_honest():
    row = [3, 2, 4]
    runs = [left_to_right([row], PHI, ALPHA, particles=10, seed=seed) for seed in range(300)]
    spread = np.std([run.value[0] for run in runs])
    told = np.mean([run.stderr[0] for run in runs])
    assert told == pytest.approx(spread, rel=0.25)


def test_long_documents_that_are_resampled_in_part_stay_unbiased():
    row = [90, 30, 60]  # more tokens than are drawn again at each step
    few = [left_to_right([row], PHI, ALPHA, particles=30, seed=seed) for seed in range(20)]
    values = np.array([run.value[0] for run in few])
    theta = np.linspace(0.0005, 0.9995, 1000)  # the likelihood is an integral over one share
    logs = np.array(row) @ np.log(np.outer(PHI[0], theta) + np.outer(PHI[1], 1 - theta))
    logs += (ALPHA[0] - 1) * np.log(theta) + (ALPHA[1] - 1) * np.log(1 - theta)
    logs += gammaln(ALPHA.sum()) - gammaln(ALPHA).sum()
    truth = logs.max() + np.log(np.exp(logs - logs.max()).mean() * 0.999)
    assert values.mean() == pytest.approx(truth, abs=4 * values.std() / np.sqrt(20) + 0.01)


@pytest.mark.parametrize("row", [[1, 0, 0], [2, 1, 0], [1, 2, 3], [4, 0, 3]])
def test_bound_and_shares_are_near_the_truth(row):
    truth, shares = brute(row)
    bound = evidence_bound([row], PHI, ALPHA).value[0]
    assert truth - 0.7 < bound <= truth + 1e-9
    np.testing.assert_allclose(infer([row], PHI, ALPHA)[0], shares, atol=0.02)


@pytest.mark.spec("H-03")
def test_completion_judges_half_of_the_words_given_the_other_half():
    counts, phi, _ = plant(documents=200, seed=3)
    good = completion(counts, phi, 0.15)
    assert (good.tokens == 30).all()
    flat = completion(counts, np.ones_like(phi), 0.15)
    assert flat.perplexity == pytest.approx(80.0)
    assert good.perplexity < 0.5 * flat.perplexity
    # the true topics with the true prior are hard to beat
    wrong = completion(counts, np.roll(phi, 1, axis=1), 0.15)
    assert wrong.per_word < good.per_word - 0.5
    same = completion(counts, phi, 0.15)
    np.testing.assert_array_equal(good.value, same.value)
    alone = completion(counts[7:8], phi, 0.15)
    assert alone.value[0] == pytest.approx(good.value[7])  # neighbors do not matter


def test_completion_is_near_the_left_to_right_estimate_of_the_same_words():
    # p(second half | first half) = p(both) / p(first half); for one-word halves it is exact
    row = np.array([[2, 0, 0]])
    truth = brute([2, 0, 0])[0] - brute([1, 0, 0])[0]
    assert completion(row, PHI, ALPHA).value[0] == pytest.approx(truth, abs=0.01)


def test_documents_without_words():
    empty = np.zeros((1, 3))
    np.testing.assert_allclose(infer(empty, PHI, ALPHA)[0], ALPHA / ALPHA.sum())
    assert left_to_right(empty, PHI, ALPHA).value[0] == 0.0
    assert evidence_bound(empty, PHI, ALPHA).value[0] == pytest.approx(0.0, abs=1e-12)
    assert completion(empty, PHI, ALPHA).tokens[0] == 0


@pytest.mark.parametrize("function", [completion, left_to_right])
def test_what_the_estimates_refuse(function):
    with pytest.raises(InvalidInput, match=r"document 1 has a count of 0\.5"):
        function([[1, 0, 0], [0.5, 0, 0]], PHI, ALPHA)
    with pytest.raises(InvalidInput, match="Negative"):
        function([[1, -1, 0]], PHI, ALPHA)
    with pytest.raises(InvalidInput, match="need \\(k, words\\)"):
        function([[1, 0]], PHI, ALPHA)
    with pytest.raises(InvalidInput, match="alpha must be positive"):
        function([[1, 0, 0]], PHI, 0.0)
    with pytest.raises(InvalidInput, match="topics must be finite"):
        function([[1, 0, 0]], -PHI, ALPHA)


# -- variational -----------------------------------------------------------------------------------------------


def the_best(fit, counts, starts):
    """Of fits from several starts the one that says most about the counts: a single one often merges two topics."""
    return min((fit(seed) for seed in range(starts)), key=lambda model: model.perplexity(counts))


@pytest.mark.spec("H-03")
@pytest.mark.parametrize(("learning_method", "starts"), [("batch", 6), ("online", 8)])
def test_planted_topics_are_found_by_variation(learning_method, starts):
    counts, phi, _ = plant(topics=3)

    def fit(seed):  # from a start at random one fit in eight fails in batches, one in four online
        settings = {"learning_method": learning_method, "max_iter": 30, "batch_size": 64, "tol": 0.0}
        return LatentDirichletAllocation(3, method="variational", random_state=seed, **settings).fit(counts)

    assert matched(the_best(fit, counts, starts).topics_, phi)[0].max() < 0.1


@pytest.mark.parametrize("learn", [False, True])
def test_the_bound_never_falls(planted, learn):
    beliefs = begin(80, np.full(5, 0.2), 0.2, seed=1)
    settings = Settings(passes=2000, tol=1e-9, learn=learn)
    bounds = by_passes(Corpus.of(planted[0]), beliefs, settings, passes=60, tol=0.0)
    assert len(bounds) > 10 and np.diff(bounds).min() > -1e-9


def test_a_pass_is_scikit_learns(planted):
    counts = planted[0]
    peer = Peer(4, max_iter=1, doc_topic_prior=0.3, topic_word_prior=0.2, mean_change_tol=1e-12,
                max_doc_update_iter=3000, random_state=0).fit(counts)  # fmt: skip
    before = peer.components_.copy()
    _, sums = peer._e_step(counts, cal_sstats=True, random_init=False)
    beliefs = begin(80, np.full(4, 0.3), 0.2, seed=0)
    beliefs.weights = np.ascontiguousarray(before.T)
    by_passes(Corpus.of(counts), beliefs, Settings(passes=3000, tol=1e-12, learn=False), passes=1, tol=0.0)
    np.testing.assert_allclose(beliefs.weights.T, 0.2 + sums, rtol=1e-6, atol=1e-6)


def test_partial_fit_goes_on():
    counts, phi, _ = plant(topics=3)

    def fit(seed):
        model = LatentDirichletAllocation(3, total_samples=400, learning_offset=2.0, random_state=seed)
        for _ in range(25):
            for at in range(0, 400, 100):
                model.partial_fit(counts[at : at + 100])
        return model

    model = the_best(fit, counts, 6)
    assert model.n_iter_ == 100 and model.method_ == "variational"
    assert matched(model.topics_, phi)[0].max() < 0.1
    with pytest.raises(InvalidInput, match=r"partial_fit: Gibbs sampling needs all documents at once"):
        LatentDirichletAllocation(method="gibbs").partial_fit(counts)


def test_workers_agree_to_rounding(planted):
    fits = [
        LatentDirichletAllocation(4, method="variational", max_iter=5, n_jobs=jobs, random_state=0).fit(planted[0])
        for jobs in (1, 2)
    ]
    np.testing.assert_allclose(fits[0].components_, fits[1].components_, rtol=1e-8)


# -- coherence ---------------------------------------------------------------------------------------------------


@pytest.mark.spec("H-03")
def test_coherence_by_hand():
    X = np.array([[1, 2, 0], [3, 0, 0], [1, 1, 1], [0, 0, 5]])
    p = {(0, 1): 2 / 4, (0, 2): 1 / 4, (1, 2): 1 / 4}
    alone = [3 / 4, 2 / 4, 2 / 4]
    expected = np.mean([np.log(v / (alone[i] * alone[j])) / -np.log(v) for (i, j), v in p.items()])
    assert coherence(X, [[3, 2, 1]], top=3)[0] == pytest.approx(expected)
    with pytest.raises(InvalidInput, match="at least 2"):
        coherence(X, [[3, 2, 1]], top=1)


def test_planted_topics_are_more_coherent_than_mixed_ones(planted):
    counts, phi, _ = planted
    mixed = np.random.default_rng(0).permuted(phi, axis=1)
    assert coherence(counts, phi).mean() > coherence(counts, mixed).mean() + 0.2
