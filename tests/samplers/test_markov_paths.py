"""Paths of Markov chains: draws, probabilities, fits; wrong input; pictures."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import torch

from benthic.base.errors import InvalidInput
from benthic.samplers import MarkovChain

pytestmark = pytest.mark.spec("C-02")

WEATHER = [[0.9, 0.1, 0.0], [0.3, 0.4, 0.3], [0.1, 0.5, 0.4]]


@pytest.fixture
def weather() -> MarkovChain:
    return MarkovChain(WEATHER, ["dry", "mild", "wet"])


def test_paths_follow_the_transition_matrix(weather):
    paths = weather.sample(400, 501, seed=0)
    assert paths.shape == (400, 501) and paths.dtype == torch.int64
    counts = np.zeros((3, 3))
    np.add.at(counts, (paths[:, :-1].flatten().numpy(), paths[:, 1:].flatten().numpy()), 1)
    assert counts[0, 2] == 0
    visits = counts.sum(1, keepdims=True)
    P = np.array(WEATHER)
    z = (counts - visits * P) / np.sqrt(np.maximum(visits * P * (1 - P), 1e-12))
    assert np.abs(z[P > 0]).max() < 5  # eight cells, each standard normal
    first = torch.bincount(paths[:, 0], minlength=3).numpy()
    law = weather.stationary().numpy()
    assert np.abs((first - 400 * law) / np.sqrt(400 * law * (1 - law))).max() < 5


def test_draws_are_seeded_and_leave_the_global_state_alone(weather):
    before = torch.random.get_rng_state()
    assert torch.equal(weather.sample(5, 20, seed=3), weather.sample(5, 20, seed=3))
    assert not torch.equal(weather.sample(5, 20, seed=3), weather.sample(5, 20, seed=4))
    weather.sample(5, 20)
    assert torch.equal(before, torch.random.get_rng_state())
    assert weather.named(weather.sample(2, 1, start="wet", seed=0)) == [["wet"], ["wet"]]
    assert (weather.sample(50, 1, start=[0.0, 1.0, 0.0], seed=0) == 1).all()
    each = weather.sample(2, 3, start=torch.tensor([[1.0, 0, 0], [0, 0, 1.0]]), seed=0)
    assert each[:, 0].tolist() == [0, 2]


def test_laws_of_paths_sum_to_one_and_match_products(weather):
    grid = torch.cartesian_prod(*[torch.arange(3)] * 4)
    for chain in (weather, MarkovChain(scipy.sparse.csr_matrix(np.array(WEATHER)))):
        total = chain.log_prob(grid, start=[0.2, 0.5, 0.3]).exp().sum()
        assert math.isclose(float(total), 1, rel_tol=1e-12)
        assert chain.log_prob(torch.tensor([0, 2])) == -torch.inf
    assert math.isclose(float(weather.log_prob(["dry", "mild", "wet"])), math.log(0.1 * 0.3))
    with_start = weather.log_prob(["dry", "mild", "wet"], start=[0.2, 0.5, 0.3])
    assert math.isclose(float(with_start), math.log(0.2 * 0.1 * 0.3))


def test_the_fit_is_the_table_of_counts_and_finds_the_truth(weather):
    chain = MarkovChain.from_sequences([list("aab"), list("ba")], smoothing=1.0)
    np.testing.assert_allclose(chain.matrix, [[2 / 4, 2 / 4], [2 / 3, 1 / 3]])
    assert chain.states == ["a", "b"]
    paths = weather.sample(200, 1000, seed=1)
    for sparse in (False, True):
        fitted = MarkovChain.from_sequences(paths, sparse=sparse)
        error = (fitted.matrix.to_dense() - torch.tensor(WEATHER)).abs()
        assert error.max() < 4.5 * math.sqrt(0.25 / (2e5 * 0.1))  # the rarest row has a tenth of the steps
        assert fitted.log_prob(paths).sum() >= weather.log_prob(paths).sum()  # maximum likelihood
    one = MarkovChain.from_sequences(["rain", "sun", "rain", "rain"], states=["sun", "rain", "snow"], smoothing=0.5)
    np.testing.assert_allclose(one.matrix[1], np.array([1.5, 1.5, 0.5]) / 3.5)


@pytest.mark.parametrize(
    ("P", "match"),
    [
        ([[0.5, 0.4], [0.0, 1.0]], "row 0 of P sums to 0.9; each row"),
        ([[1.0, 0.0], [0.7, 0.7]], "row 1 of P sums to 1.4"),
        ([[1.1, -0.1], [0.0, 1.0]], r"P\[0, 1\] is -0.1, which is negative"),
        ([[float("nan"), 1], [0, 1]], r"P\[0, 0\] is nan, which is not a number"),
        ([[0.5, 0.5]], r"shape \(1, 2\); a transition matrix is square"),
        ([0.5, 0.5], r"shape \(2,\)"),
    ],
)
def test_matrices_that_are_not_stochastic(P, match):
    with pytest.raises(InvalidInput, match=match):
        MarkovChain(P)
    if np.ndim(P) == 2:
        with pytest.raises(InvalidInput, match=match):
            MarkovChain(scipy.sparse.csr_matrix(np.array(P)))
        with pytest.raises(InvalidInput, match=match):
            MarkovChain(torch.tensor(P, dtype=torch.float64).to_sparse_coo())


def test_reducible_and_periodic_chains_are_named_where_one_limit_is_asked():
    chain = MarkovChain(scipy.linalg.block_diag(np.full((2, 2), 0.5), 1.0), ["a", "b", "c"])
    for ask in (chain.stationary, chain.limit, chain.mixing_time, lambda: chain.total_variation(2), chain.spectral_gap):
        with pytest.raises(InvalidInput, match=r"reducible with 2 closed classes, \{a, b\}, \{c\}"):
            ask()
    with pytest.raises(InvalidInput, match="sample: the chain is reducible"):
        chain.sample(2, 3)
    np.testing.assert_allclose(chain.stationary_laws(), [[0.5, 0.5, 0], [0, 0, 1]])
    np.testing.assert_allclose(chain.limit([0.2, 0.2, 0.6]), [0.2, 0.2, 0.6])
    swap = MarkovChain([[0.0, 1.0], [1.0, 0.0]])
    for ask in (swap.limit, swap.mixing_time):
        with pytest.raises(InvalidInput, match=r"the class \{0, 1\} has period 2"):
            ask()


@pytest.mark.parametrize(
    ("ask", "match"),
    [
        (lambda c: c.law(2, "wett"), "law: there is no state 'wett'; did you mean 'wet'"),
        (lambda c: c.hitting_times("snow"), "no state 'snow'.*'dry', 'mild', 'wet'"),
        (lambda c: c.hitting_times([]), "no target states"),
        (lambda c: c.law(-1, "wet"), "law: n is -1"),
        (lambda c: c.law(1.5, "wet"), "law: n is 1.5"),
        (lambda c: c.law(1, [0.5, 0.5]), r"start has shape \(2,\); laws end in the 3 states"),
        (lambda c: c.law(1, [0.5, 0.5, 0.5]), "a sum of 1.5"),
        (lambda c: c.stationary("magic"), "method is 'magic'; it is one of auto, gth"),
        (lambda c: c.mixing_time(0), "epsilon is 0"),
        (lambda c: c.sample(0, 3), "0 paths of 3 states"),
        (lambda c: c.sample(2, 3, start=np.full((3, 3), 1 / 3)), "start has 3 laws for 2 paths"),
        (lambda c: c.log_prob(torch.tensor([0, 3])), "numbers from 0 to 3"),
        (lambda c: c.log_prob(torch.tensor([0.0, 1.0])), "integer tensor"),
        (lambda c: c.fundamental_matrix(), "no state is transient"),
        (lambda c: c.lazy(1.0), "hold is 1.0"),
        (lambda c: c.plot(max_states=0), "max_states is 0"),
        (lambda c: MarkovChain(WEATHER, ["a", "b"]), "states has 2 names, but P has 3 rows"),
        (lambda c: MarkovChain(WEATHER, ["a", "b", "a"]), "'a' is named twice"),
        (lambda c: MarkovChain.from_sequences([]), "there are no sequences"),
        (lambda c: MarkovChain.from_sequences("ab"), "state 'b' is never left"),
        (lambda c: MarkovChain.from_sequences("abx", states="ab"), "sequence 0 has the state 'x'"),
        (lambda c: MarkovChain.from_sequences("aba", smoothing=-1), "smoothing is -1"),
    ],
)
def test_wrong_questions_get_one_sentence(weather, ask, match):
    with pytest.raises(InvalidInput, match=match) as caught:
        ask(weather)
    assert "\n" not in str(caught.value)


def test_floating_type_and_names_are_kept(weather):
    chain = MarkovChain(torch.tensor(WEATHER, dtype=torch.float32))
    assert chain.stationary().dtype == chain.law(2, 0).dtype == chain.hitting_times(1).dtype == torch.float32
    np.testing.assert_allclose(chain.stationary(), weather.stationary(), rtol=1e-6)
    assert weather.lazy().states == weather.time_reversal().states == ["dry", "mild", "wet"]
    assert repr(weather) == "MarkovChain(3 states, dense, 8 transitions)"


def test_the_graph_shows_every_arrow_and_class(weather):
    axes = weather.plot().axes[0]
    written = [text.get_text() for text in axes.texts]
    assert {"dry", "mild", "wet", "0.9", "0.3", "0.5"} <= set(written)
    assert len(written) == 3 + 8
    ruin = MarkovChain([[1, 0, 0, 0], [0.5, 0, 0.5, 0], [0, 0.5, 0, 0.5], [0, 0, 0, 1.0]])
    legend = [text.get_text() for text in ruin.plot().axes[0].get_legend().get_texts()]
    assert legend == ["{0}: closed", "{1, 2}: transient, period 2", "{3}: closed"]
    ring = np.roll(np.eye(100), 1, 1) * 0.5 + np.eye(100) * 0.5
    assert MarkovChain(ring).plot(max_states=10).axes[0].get_title() == "10 of 100 states"


def test_convergence_picture_and_summary_hold_the_numbers(weather):
    left, right = weather.plot_convergence(start="wet").axes
    times, distance = left.lines[0].get_data()
    np.testing.assert_allclose(distance, weather.total_variation(times.tolist(), start="wet"))
    np.testing.assert_allclose(right.lines[-1].get_ydata(), weather.stationary())
    text = weather.summary()
    assert "ergodic" in text and "reversible: no" in text and f"spectral gap: {weather.spectral_gap():.4g}" in text
    assert f"mixing time (distance 1/4): {weather.mixing_time()}" in text
    assert MarkovChain(np.roll(np.eye(4), 1, 1)).plot_convergence().axes[0].get_legend() is not None


def test_one_state_is_a_chain_too():
    chain = MarkovChain([[1.0]], ["home"])
    assert chain.ergodic and chain.reversible and chain.absorbing.all() and chain.mixing_time() == 0
    assert chain.stationary().tolist() == [1.0] and chain.spectral_gap() == 1.0
    assert chain.sample(2, 3, seed=0).tolist() == [[0, 0, 0], [0, 0, 0]]
    assert len(chain.plot().axes[0].texts) == 2 and "ergodic" in chain.summary()
