"""Markov chains against closed forms: two states, ruin, graphs, birth and death, cycles, Ehrenfest's urns."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from benthic.base.errors import InvalidInput
from benthic.samplers import MarkovChain

pytestmark = pytest.mark.spec("C-02")


def two_state(a: float, b: float) -> MarkovChain:
    return MarkovChain([[1 - a, a], [b, 1 - b]], ["x", "y"])


def ruin(n: int, p: float) -> MarkovChain:
    P = np.zeros((n + 1, n + 1))
    P[0, 0] = P[n, n] = 1
    for i in range(1, n):
        P[i, i + 1], P[i, i - 1] = p, 1 - p
    return MarkovChain(P)


def ehrenfest(n: int) -> MarkovChain:
    i = np.arange(n)
    return MarkovChain(np.diag((n - i) / n, 1) + np.diag((i + 1) / n, -1))


def random_matrix(n: int, seed: int, share: float = 1.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    P = rng.random((n, n)) * (rng.random((n, n)) < share)
    P[np.arange(n), (np.arange(n) + 1) % n] += 0.1
    return P / P.sum(1, keepdims=True)


@pytest.mark.parametrize(("a", "b"), [(0.1, 0.5), (0.9, 0.7), (1e-7, 3e-7)])
def test_two_states_have_closed_forms(a, b):
    chain = two_state(a, b)
    law = np.array([b, a]) / (a + b)
    np.testing.assert_allclose(chain.stationary(), law, rtol=1e-8)  # 1 - 1e-7 itself is rounded to 1e-9 of 1e-7
    for n in (0, 1, 7, 40):
        decay = (1 - a - b) ** n
        np.testing.assert_allclose(chain.law(n, "x"), law + decay * np.array([a, -a]) / (a + b), atol=1e-12)
        np.testing.assert_allclose(float(chain.total_variation(n)), max(law) * abs(decay), atol=1e-9)
    assert math.isclose(chain.spectral_gap(), 1 - abs(1 - a - b), rel_tol=1e-6)
    assert chain.reversible and chain.ergodic and chain.period == 1
    expected = max(0, math.ceil(math.log(0.25 / max(law)) / math.log(abs(1 - a - b))))
    assert abs(chain.mixing_time() - expected) <= 1 + 1e-6 * expected


@pytest.mark.parametrize("p", [0.3, 0.5, 0.62])
def test_gamblers_ruin(p):
    n = 12
    chain, i = ruin(n, p), np.arange(n + 1)
    r = (1 - p) / p
    win = i / n if p == 0.5 else (1 - r**i) / (1 - r**n)
    time = i * (n - i) if p == 0.5 else (i - n * win) / (1 - 2 * p)
    np.testing.assert_allclose(chain.absorption_probabilities(), np.stack([1 - win, win], 1), atol=1e-12)
    np.testing.assert_allclose(chain.hitting_probabilities(n), win, atol=1e-12)
    np.testing.assert_allclose(chain.hitting_times([0, n]), time, atol=1e-9)
    np.testing.assert_allclose(chain.fundamental_matrix().sum(1), time[1:-1], atol=1e-9)
    assert chain.hitting_times(n)[:-1].isinf().all() and chain.hitting_times(n)[-1] == 0
    assert chain.absorbing.tolist() == [True] + [False] * (n - 1) + [True]
    assert chain.transient.tolist() == (~chain.absorbing).tolist()
    assert chain.classes == [[0], list(range(1, n)), [n]] and chain.periods == [1, 2, 1]
    np.testing.assert_allclose(chain.limit(5)[[0, n]], [1 - win[5], win[5]], atol=1e-12)
    np.testing.assert_allclose(chain.law(20_000, 5), chain.limit(5), atol=1e-12)


@given(st.integers(3, 25), st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_walks_on_weighted_graphs_are_reversible_with_law_by_degree(n, seed):
    rng = np.random.default_rng(seed)
    W = np.triu(rng.random((n, n)) * (rng.random((n, n)) < 0.4))
    W[np.arange(n - 1), np.arange(1, n)] += 0.05
    W = W + W.T
    degree = W.sum(1)
    chain = MarkovChain(W / degree[:, None])
    np.testing.assert_allclose(chain.stationary(), degree / degree.sum(), rtol=1e-12)
    assert chain.reversible
    np.testing.assert_allclose(chain.time_reversal().matrix, chain.matrix, atol=1e-12)


@given(st.integers(2, 20), st.integers(0, 10_000), st.floats(0.1, 1.0))
@settings(max_examples=25, deadline=None)
def test_laws_of_any_irreducible_chain(n, seed, share):
    chain = MarkovChain(random_matrix(n, seed, share))
    law, P = chain.stationary(), chain.matrix
    assert chain.irreducible and math.isclose(float(law.sum()), 1, rel_tol=1e-12)
    np.testing.assert_allclose(law @ P, law, atol=1e-14)
    np.testing.assert_allclose(chain.stationary("lu"), law, atol=1e-12)
    back = chain.time_reversal()
    np.testing.assert_allclose(back.stationary(), law, rtol=1e-9)
    np.testing.assert_allclose(back.time_reversal().matrix, P, atol=1e-10)
    np.testing.assert_allclose(chain.n_step_matrix(5) @ P, chain.n_step_matrix(6), atol=1e-12)
    times = chain.passage_times()
    np.testing.assert_allclose(times.diagonal(), 1 / law, rtol=1e-8)
    np.testing.assert_allclose(times[:, 0][1:], chain.hitting_times(0)[1:], rtol=1e-8)
    distance = chain.total_variation(range(12))
    assert (distance[1:] <= distance[:-1] + 1e-13).all()


@given(st.integers(3, 40), st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_birth_and_death_in_detailed_balance(n, seed):
    rng = np.random.default_rng(seed)
    up, down = rng.uniform(0.05, 0.5, n - 1), rng.uniform(0.05, 0.5, n - 1)
    P = np.diag(up, 1) + np.diag(down, -1)
    P += np.diag(1 - P.sum(1))
    law = np.concatenate([[1.0], np.cumprod(up / down)])
    for matrix in (P, scipy.sparse.csr_matrix(P)):
        chain = MarkovChain(matrix)
        np.testing.assert_allclose(chain.stationary(), law / law.sum(), rtol=1e-12)  # relative, in every entry
        assert chain.reversible and chain.ergodic


def test_entries_over_hundreds_of_decades_keep_their_digits():
    n = 150
    P = scipy.sparse.diags([np.full(n - 1, 0.01), np.full(n - 1, 0.9)], [-1, 1]).toarray()
    P += np.diag(1 - P.sum(1))
    exact = 90.0 ** (np.arange(n) - (n - 1)) * (1 - 1 / 90)
    for matrix, method in ((P, "gth"), (scipy.sparse.csr_matrix(P), "band")):
        np.testing.assert_allclose(MarkovChain(matrix).stationary(method), exact, rtol=1e-11)
    longer = scipy.sparse.diags([np.full(1999, 0.01), np.full(1999, 0.9)], [-1, 1]).tocsr()
    longer = longer + scipy.sparse.diags(1 - np.asarray(longer.sum(1)).ravel())  # the law spans 10^-3900 to 1
    np.testing.assert_allclose(MarkovChain(longer).stationary()[-n:], exact, rtol=1e-11)


@pytest.mark.parametrize("n", [2, 5, 12])
def test_cycles_have_their_length_as_period(n):
    chain = MarkovChain(np.roll(np.eye(n), 1, 1))
    assert chain.periods == [n] and chain.period == n and not chain.aperiodic and not chain.ergodic
    np.testing.assert_allclose(chain.stationary(), np.full(n, 1 / n), rtol=1e-14)
    assert chain.spectral_gap() == 0 and chain.reversible == (n == 2)
    with pytest.raises(InvalidInput, match=f"limit: the class .* has period {n}"):
        chain.limit()
    assert chain.lazy().ergodic
    np.testing.assert_allclose(chain.lazy().limit(), np.full(n, 1 / n), rtol=1e-14)


def test_two_ways_round_give_the_common_divisor():
    P = np.zeros((8, 8))  # two ways of length 6 from 0 back to 0; later one of length 4
    for i, j in [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (0, 6), (6, 7), (7, 3)]:
        P[i, j] = 1
    assert MarkovChain(P / P.sum(1, keepdims=True)).period == 6
    P[7, 3], P[7, 5] = 0, 1
    assert MarkovChain(P / P.sum(1, keepdims=True)).period == 2


@pytest.mark.parametrize("n", [4, 11, 30])
def test_ehrenfest_is_binomial(n):
    chain = ehrenfest(n)
    np.testing.assert_allclose(chain.stationary(), scipy.stats.binom.pmf(np.arange(n + 1), n, 0.5), rtol=1e-11)
    assert chain.period == 2 and chain.reversible
    assert math.isclose(chain.lazy().spectral_gap(), 1 / n, rel_tol=1e-9)
    assert math.isclose(chain.spectral_gap(absolute=False), 2 / n, rel_tol=1e-9)


def test_classes_are_those_of_the_paths():
    rng = np.random.default_rng(3)
    for _ in range(30):
        n = int(rng.integers(2, 9))
        P = (rng.random((n, n)) < 0.25) + 0.0
        P[P.sum(1) == 0, 0] = 1
        chain = MarkovChain(P / P.sum(1, keepdims=True))
        reach = np.linalg.matrix_power(np.eye(n) + P, n) > 0
        for i in range(n):
            assert chain.class_of(i) == np.flatnonzero(reach[i] & reach[:, i]).tolist()
            recurrent = not (reach[i] & ~reach[:, i]).any()
            assert bool(chain.recurrent[i]) == recurrent
            back = [k for k in range(1, 4 * n * n) if np.linalg.matrix_power(P > 0, k)[i, i]]
            assert chain.periods[chain.structure.labels[i]] == (math.gcd(*back) if back else 0)


def test_one_closed_class_with_transient_states_has_one_law():
    chain = MarkovChain([[0.5, 0.25, 0.25], [0, 0.4, 0.6], [0, 0.3, 0.7]], "abc")
    np.testing.assert_allclose(chain.stationary(), [0, 1 / 3, 2 / 3], rtol=1e-14)
    np.testing.assert_allclose(chain.limit(), chain.law(200, "a"), atol=1e-13)
    assert not chain.irreducible and not chain.ergodic and chain.aperiodic
    with pytest.raises(InvalidInput, match=r"time_reversal: .* reducible with the classes \{a\}, \{b, c\}"):
        chain.time_reversal()


def test_mixing_time_is_the_first_time_below():
    chain = MarkovChain(random_matrix(15, 2, 0.15)).lazy(0.8)
    for epsilon in (0.25, 0.01):
        n = chain.mixing_time(epsilon)
        assert chain.total_variation(n) <= epsilon < chain.total_variation(n - 1)
        n = chain.mixing_time(epsilon, start=3)
        assert chain.total_variation(n, start=3) <= epsilon < chain.total_variation(n - 1, start=3)


def test_gap_is_that_of_all_eigenvalues():
    P = random_matrix(20, 1)
    values = np.sort(np.abs(np.linalg.eigvals(P)))
    assert math.isclose(MarkovChain(P).spectral_gap(), 1 - values[-2], rel_tol=1e-10)


def test_fundamental_matrix_of_an_ergodic_chain():
    P = random_matrix(9, 4)
    chain = MarkovChain(P)
    series = np.eye(9) + sum(np.linalg.matrix_power(P, k) - chain.stationary().numpy() for k in range(1, 400))
    np.testing.assert_allclose(chain.ergodic_fundamental_matrix(), series, atol=1e-10)


def test_gradients_of_the_stationary_law_and_of_hitting_times():
    logits = torch.randn(5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    for question in (
        lambda chain: chain.stationary(),
        lambda chain: chain.hitting_times(2),
        lambda chain: chain.law(3, 0),
        lambda chain: chain.total_variation(2, start=1),
        lambda chain: chain.log_prob(torch.tensor([[0, 1, 4, 2], [3, 3, 0, 1]])),
    ):
        assert torch.autograd.gradcheck(lambda z, ask=question: ask(MarkovChain(z.softmax(1))), logits)
