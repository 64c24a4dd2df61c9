"""Hidden Markov models against sums over all paths, planted truths, and the laws of EM."""

from __future__ import annotations

import warnings
from itertools import permutations, product

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal, norm, poisson
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import benthic
from benthic import HiddenMarkovModel
from benthic.base.errors import InvalidInput
from benthic.base.sequences import read_sequences
from benthic.chains.hidden_learning import Blocks, _expect_on_device, expect

pytestmark = [pytest.mark.spec("H-05"), pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")]

KINDS = ("full", "diag", "tied", "spherical")
EMISSIONS = [("gaussian", kind) for kind in KINDS] + [("mixture", kind) for kind in KINDS]
EMISSIONS += [("categorical", "full"), ("poisson", "full")]


def numbers(n=4, t=25, d=2, k=3, seed=0, gaps=0.0):
    """Sequences of different lengths from three sticky states."""
    rng = np.random.default_rng(seed)
    means = np.array([[0.0, 0.0], [4.0, 1.0], [-1.0, 5.0]])[:k, :d]
    found = []
    for i in range(n):
        states = np.repeat(rng.integers(k, size=t), 3)[: t + 3 * i]
        X = means[states] + rng.normal(size=(len(states), d))
        X[rng.random(X.shape) < gaps] = np.nan
        found.append(X)
    return found


def data_for(emission, seed=0, gaps=0.0, **sizes):
    X = numbers(seed=seed, gaps=gaps, **sizes)
    if emission == "categorical":
        return [[None if np.isnan(x) else "abc"[int(x > 1.0) + int(x > 3.0)] for x in part[:, 0]] for part in X]
    return [np.floor(np.abs(part)) for part in X] if emission == "poisson" else X


def fitted(emission, kind, X, **settings):
    settings = {"n_init": 1, "max_iter": 8, "random_state": 0, **settings}
    return HiddenMarkovModel(2, emission=emission, covariance_type=kind, **settings).fit(X)


def step_log_prob(model, x, state):
    """Log-probability of one observation in a state, by SciPy."""
    if model.emission_ == "categorical":
        return 0.0 if x is None else np.log(model.emissions_[state][model.symbols_.tolist().index(x)])
    seen = ~np.isnan(x)
    if not seen.any():
        return 0.0
    if model.emission_ == "poisson":
        return poisson.logpmf(x[seen], model.rates_[state][seen]).sum()
    mixed = model.emission_ == "mixture"
    means, weights = (model.means_[state], model.weights_[state]) if mixed else (model.means_[state][None], [1.0])
    parts = []
    for j, (mean, weight) in enumerate(zip(means, weights, strict=True)):
        cov = model.covariances_ if model.covariance_type == "tied" else model.covariances_[state]
        cov = cov[j] if mixed and model.covariance_type != "tied" else cov
        cov = cov * np.eye(len(x)) if model.covariance_type == "spherical" else cov
        cov = np.diag(cov) if model.covariance_type == "diag" else cov
        parts.append(np.log(weight) + multivariate_normal.logpdf(x[seen], mean[seen], cov[np.ix_(seen, seen)]))
    return np.logaddexp.reduce(parts)


def all_paths(model, X):
    k = model.n_states_
    paths = np.array(list(product(range(k), repeat=len(X))))
    steps = np.array([[step_log_prob(model, x, s) for s in range(k)] for x in X])
    with np.errstate(divide="ignore"):
        start, moves = np.log(model.start_), np.log(model.transitions_)
    values = start[paths[:, 0]] + steps[np.arange(len(X)), paths].sum(1) + moves[paths[:, :-1], paths[:, 1:]].sum(1)
    return paths, values


@pytest.mark.parametrize(("emission", "kind"), EMISSIONS)
@pytest.mark.parametrize("gaps", [0.0, 0.3])
def test_forward_backward_and_viterbi_are_those_of_all_paths(emission, kind, gaps):
    model = fitted(emission, kind, data_for(emission, gaps=gaps))
    new = [part[:5] for part in data_for(emission, seed=1, gaps=gaps)]
    found, posterior, best = model.log_prob(new), model.predict_proba(new), model.predict(new)
    for i, part in enumerate(new):
        paths, values = all_paths(model, part)
        total = np.logaddexp.reduce(values)
        assert found[i] == pytest.approx(total, abs=1e-9)
        p = np.exp(values - total)
        for t, s in product(range(5), range(2)):
            assert posterior[i][t, s] == pytest.approx(p[paths[:, t] == s].sum(), abs=1e-9)
        assert best[i].tolist() == paths[values.argmax()].tolist()
    kind_of = "mass" if emission in ("categorical", "poisson") else "density"
    assert model.likelihood(new).kind == "exact" and model.likelihood(new).measure == kind_of
    assert model.score(new) == pytest.approx(found.mean())


@pytest.mark.parametrize(("emission", "kind"), EMISSIONS)
@pytest.mark.parametrize("gaps", [0.0, 0.2])
def test_the_objective_never_falls(emission, kind, gaps):
    X = data_for(emission, gaps=gaps)
    model = fitted(emission, kind, X, max_iter=15, tol=0.0, transition_prior=1.5, emission_prior=1.2)
    history = model.log_likelihoods_
    assert len(history) == model.n_iter_ + 1 > 4
    assert (np.diff(history) > -1e-9 * np.abs(history[:-1])).all()
    plain = fitted(emission, kind, X, max_iter=15, tol=0.0)
    assert plain.log_likelihoods_[-1] == pytest.approx(plain.log_prob(X).sum(), rel=1e-12)


def test_one_pass_is_the_expectation_over_all_paths():
    X = [list("aabb"), list("bab")]
    start = {
        "start_init": [0.6, 0.4],
        "transitions_init": [[0.7, 0.3], [0.2, 0.8]],
        "emissions_init": [[0.9, 0.1], [0.3, 0.7]],
    }
    model = HiddenMarkovModel(2, n_init=1, max_iter=1, **start).fit(X)
    before = clone(model).fit(X)
    before.start_, before.transitions_ = np.array(start["start_init"]), np.array(start["transitions_init"])
    before.emissions_ = np.array(start["emissions_init"])
    first, moves, counts = np.zeros(2), np.zeros((2, 2)), np.zeros((2, 2))
    for part in X:
        paths, values = all_paths(before, part)
        for path, p in zip(paths, np.exp(values - np.logaddexp.reduce(values)), strict=True):
            first[path[0]] += p
            np.add.at(moves, (path[:-1], path[1:]), p)
            np.add.at(counts, (path, ["ab".index(x) for x in part]), p)
    np.testing.assert_allclose(model.start_, first / first.sum(), atol=1e-13)
    np.testing.assert_allclose(model.transitions_, moves / moves.sum(1, keepdims=True), atol=1e-13)
    np.testing.assert_allclose(model.emissions_, counts / counts.sum(1, keepdims=True), atol=1e-13)


def matched(truth, found):
    """The order of found rows that is nearest to the true ones."""
    return min(map(list, permutations(range(len(truth)))), key=lambda order: np.abs(truth - found[order]).sum())


def planted(k=3, n=40, t=150, seed=0):
    rng = np.random.default_rng(seed)
    A = 0.8 * np.eye(k) + 0.2 * rng.dirichlet(np.ones(k), size=k)
    states = np.zeros((n, t), dtype=int)
    states[:, 0] = rng.integers(k, size=n)
    for i in range(1, t):
        states[:, i] = (A[states[:, i - 1]].cumsum(1) < rng.random((n, 1))).sum(1)
    return A, states, rng


@pytest.mark.parametrize("kind", KINDS)
def test_planted_gaussian_states_are_found(kind):
    A, states, rng = planted()
    means = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]])
    X = means[states] + 0.7 * rng.normal(size=(*states.shape, 2))
    model = HiddenMarkovModel(3, covariance_type=kind, random_state=0).fit(X)
    order = matched(means, model.means_)
    # 2000 steps a state: standard errors of about 0.7 / sqrt(2000) = 0.016 and sqrt(0.25 / 2000) = 0.011
    np.testing.assert_allclose(model.means_[order], means, atol=0.08)
    np.testing.assert_allclose(model.transitions_[order][:, order], A, atol=0.05)
    inverse = np.argsort(order)
    assert (inverse[model.predict(X)] == states).mean() > 0.97


def test_planted_symbols_are_found():
    A, states, rng = planted(k=2, n=60, t=200)
    B = np.array([[0.7, 0.2, 0.1, 0.0], [0.05, 0.15, 0.3, 0.5]])
    X = (B[states].cumsum(-1) < rng.random((*states.shape, 1))).sum(-1)
    model = HiddenMarkovModel(2, random_state=0, tol=1e-7, max_iter=300).fit(X)
    order = matched(B, model.emissions_)
    np.testing.assert_allclose(model.emissions_[order], B, atol=0.03)
    np.testing.assert_allclose(model.transitions_[order][:, order], A, atol=0.05)


def test_mixtures_and_counts_are_found():
    _, states, rng = planted(k=2)
    centers = np.array([[-6.0, 6.0], [-1.0, 1.0]])
    side = rng.integers(2, size=states.shape)
    X = centers[states, side] + 0.3 * rng.normal(size=states.shape)
    model = HiddenMarkovModel(2, emission="mixture", n_init=8, random_state=1).fit(X)
    found = np.sort(model.means_[:, :, 0], axis=1)
    np.testing.assert_allclose(found[np.argsort(found[:, 0])], centers, atol=0.1)
    counts = rng.poisson(np.array([2.0, 9.0])[states])
    rates = HiddenMarkovModel(2, emission="poisson", random_state=0).fit(counts.astype(float)).rates_
    np.testing.assert_allclose(np.sort(rates[:, 0]), [2.0, 9.0], atol=0.2)


def test_missing_steps_are_integrated_out():
    model = fitted("gaussian", "full", numbers())
    X = numbers(seed=3)[0][:6]
    holed = X.copy()
    holed[2] = np.nan
    grid = np.linspace(-12, 14, 70)
    area = (grid[1] - grid[0]) ** 2
    filled = np.repeat(holed[None], 70 * 70, axis=0)
    filled[:, 2] = np.array(list(product(grid, grid)))
    total = np.log(np.exp(model.log_prob(filled)).sum() * area)  # the trapezoid rule is exact here to rounding
    assert model.log_prob([holed])[0] == pytest.approx(total, abs=1e-8)


def test_statistics_add_and_update_is_a_pass():
    X = numbers(n=6)
    model = fitted("gaussian", "diag", X, max_iter=2)
    whole, parts = model.statistics(X), [model.statistics(X[:2]), model.statistics(X[2:])]
    added = {name: parts[0][name] + parts[1][name] for name in parts[0]}
    for name, value in whole.items():
        torch.testing.assert_close(added[name], value, rtol=1e-12, atol=1e-9)
    once = clone(model).fit(X).update(added)
    longer = fitted("gaussian", "diag", X, max_iter=3)
    np.testing.assert_allclose(once.means_, longer.means_, rtol=1e-10)
    with pytest.raises(InvalidInput, match="not sums of this model"):
        model.update({"nothing": torch.zeros(1)})


@pytest.mark.parametrize(("emission", "kind"), [("gaussian", "full"), ("gaussian", "diag"), ("categorical", "full")])
def test_streams_of_batches_come_near_the_whole(emission, kind):
    X = data_for(emission, n=60)
    streamed = HiddenMarkovModel(3, emission=emission, covariance_type=kind, random_state=0)
    for start in range(0, 60, 6):
        streamed.partial_fit(X[start : start + 6])
    first = HiddenMarkovModel(3, emission=emission, covariance_type=kind, random_state=0).fit(X[:6])
    whole = HiddenMarkovModel(3, emission=emission, covariance_type=kind, random_state=0).fit(X)
    assert first.score(X) < streamed.score(X) < whole.score(X) + 1e-6
    assert whole.score(X) - streamed.score(X) < 0.5 * (whole.score(X) - first.score(X))


def test_zeros_stay_zero():
    rng = np.random.default_rng(0)
    X = [np.repeat([0.0, 4.0, 8.0], rng.integers(5, 15, size=3)) + rng.normal(size=1) * 0 for _ in range(20)]
    X = [part + 0.5 * rng.normal(size=len(part)) for part in X]
    model = HiddenMarkovModel(3, topology="left-right", transition_prior=2.0, random_state=0).fit(X)
    assert model.start_.tolist() == [1.0, 0.0, 0.0]
    assert (model.transitions_[np.tril_indices(3, -1)] == 0).all() and model.transitions_[0, 2] == 0
    np.testing.assert_allclose(model.means_[:, 0], [0.0, 4.0, 8.0], atol=0.3)
    assert all((np.diff(path) >= 0).all() for path in model.predict(X))
    assert all((np.diff(path) >= 0).all() for path in model.predict(model.sample(20, length=30, seed=0)))
    ring = np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5]])
    cycled = HiddenMarkovModel(3, transitions_init=ring, transition_prior=1.1, random_state=0).fit(X)
    assert ((cycled.transitions_ == 0) == (ring == 0)).all()


def test_far_evidence_in_left_right_models_is_not_lost():
    model = HiddenMarkovModel(2, topology="left-right", random_state=0).fit([[0.0, 0.1, 5.0, 5.1, 5.2]] * 3)
    model.covariances_[:] = 1e-4
    X = np.array([[0.0] * 5 + [5.0] * 500 + [0.0]])
    paths = norm.logpdf(X[0][:, None], model.means_[:, 0], 1e-2)
    stay, go = np.log(model.transitions_[0])
    best = -np.inf
    for leave in range(1, len(X[0]) + 1):  # steps spent in the first state
        value = paths[:leave, 0].sum() + paths[leave:, 1].sum() + (leave - 1) * stay + (go if leave < len(X[0]) else 0)
        best = np.logaddexp(best, value)
    assert model.log_prob(X)[0] == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize(("emission", "kind"), EMISSIONS)
def test_samples_are_like_the_data_and_decided_by_the_seed(emission, kind):
    model = fitted(emission, kind, data_for(emission))
    drawn = model.sample(3, length=[4, 2, 7], seed=1)
    assert [len(part) for part in drawn] == [4, 2, 7]
    again = model.sample(3, length=[4, 2, 7], seed=1)
    assert all(np.array_equal(a, b) for a, b in zip(drawn, again, strict=True))
    assert len(model.sample(2)[0]) == model.typical_length_
    one, other = (model.score(model.sample(2500, length=50, seed=seed)) for seed in (0, 1))
    assert one == pytest.approx(other, rel=0.03)


def test_samples_have_the_moments_of_the_law():
    model = fitted("gaussian", "full", numbers())
    model.start_, model.transitions_ = np.array([0.3, 0.7]), np.array([[0.9, 0.1], [0.4, 0.6]])
    drawn = np.stack(model.sample(20_000, length=3, seed=0))
    law = model.start_ @ np.linalg.matrix_power(model.transitions_, 2)
    mean = law @ model.means_
    error = 5 * drawn[:, 2].std(0) / np.sqrt(20_000)
    assert (np.abs(drawn[:, 2].mean(0) - mean) < error).all()
    second = np.einsum("k,kij->ij", law, model.covariances_ + model.means_[:, :, None] * model.means_[:, None])
    np.testing.assert_allclose(np.cov(drawn[:, 2].T), second - np.outer(mean, mean), rtol=0.06, atol=0.06)


@pytest.mark.parametrize(("emission", "kind"), EMISSIONS)
def test_conditional_samples_keep_what_is_given_and_follow_the_posterior(emission, kind):
    model = fitted(emission, kind, data_for(emission))
    given = data_for(emission, seed=5)[0][:4]
    if emission == "categorical":
        given = [*given[:1], None, *given[2:4]]
        drawn = model.sample(4000, given=[given], seed=0)
        assert all(part[0] == given[0] and part[2:] == given[2:] for part in drawn)
        options = model.symbols_.tolist()
        logs = model.log_prob([[given[0], option, *given[2:]] for option in options])
        truth = np.exp(logs - np.logaddexp.reduce(logs))
        shares = np.array([np.mean([part[1] == option for part in drawn]) for option in options])
        assert (np.abs(shares - truth) < 5 * 0.5 / np.sqrt(4000)).all()
        return
    given = given.copy()
    given[1, 1] = np.nan
    drawn = np.stack(model.sample(4000, given=[given], seed=0))
    known = ~np.isnan(given)
    np.testing.assert_array_equal(drawn[:, known], np.repeat(given[known][None], 4000, axis=0))
    grid = np.arange(0.0, 40.0) if emission == "poisson" else np.linspace(-12, 14, 801)
    filled = np.repeat(given[None], len(grid), axis=0)
    filled[:, 1, 1] = grid
    logs = model.log_prob(filled)
    p = np.exp(logs - np.logaddexp.reduce(logs))
    mean = p @ grid
    deviation = np.sqrt(p @ (grid - mean) ** 2)
    assert abs(drawn[:, 1, 1].mean() - mean) < 5 * deviation / np.sqrt(4000) + 1e-3
    assert drawn[:, 1, 1].std() == pytest.approx(deviation, rel=0.1)
    with pytest.raises(InvalidInput, match="one sequence or 5"):
        model.sample(5, given=[given, given])


def test_the_number_of_states_is_chosen():
    _, states, rng = planted(n=10, t=150)
    X = np.array([0.0, 4.0, 8.0])[states] + 0.8 * rng.normal(size=states.shape)
    model = HiddenMarkovModel("bic", max_states=5, random_state=0).fit(X)
    assert model.n_states_ == 3 and model.choice_["n_states"] == [1, 2, 3, 4, 5]
    assert model.bic(X) == pytest.approx(model.choice_["bic"][2], rel=1e-9)
    parameters = 2 + 6 + 3 + 3
    assert model.aic(X) == pytest.approx(2 * parameters - 2 * model.log_prob(X).sum())


def test_threads_do_not_change_the_result():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 500, 2)) + 4 * rng.integers(2, size=(60, 500, 1))
    one, two = (HiddenMarkovModel(2, n_init=1, max_iter=3, random_state=0, n_jobs=jobs).fit(X) for jobs in (1, 2))
    np.testing.assert_array_equal(one.means_, two.means_)
    np.testing.assert_array_equal(one.log_prob(X), two.log_prob(X))


def test_arrays_tensors_and_lists_go_out_as_they_came():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5, 12, 2)).astype(np.float32)
    model = HiddenMarkovModel(2, random_state=0).fit(X)
    posterior = model.predict_proba(X)
    assert isinstance(posterior, np.ndarray) and posterior.shape == (5, 12, 2) and posterior.dtype == np.float32
    assert model.predict(X).shape == (5, 12) and model.sample(3, length=4).shape == (3, 4, 2)
    tensor = model.predict_proba(torch.from_numpy(X))
    assert isinstance(tensor, torch.Tensor) and tensor.dtype == torch.float32
    np.testing.assert_allclose(tensor.numpy(), posterior)
    listed = model.predict_proba(list(X))
    assert isinstance(listed, list) and np.array_equal(listed[1], posterior[1])
    again = HiddenMarkovModel(2, random_state=0).fit(torch.from_numpy(X))
    np.testing.assert_array_equal(again.means_, model.means_)
    assert isinstance(again.sample(2), torch.Tensor)
    flat = HiddenMarkovModel(2, random_state=0).fit(X[:, :, 0])
    assert flat.n_features_in_ == 1 and flat.sample(2, length=3).shape == (2, 3)
    words = HiddenMarkovModel(2, random_state=0).fit(["abba", "aab"])
    assert all(isinstance(word, str) and len(word) == 5 for word in words.sample(3, length=5))


@pytest.mark.parametrize(("emission", "kind"), EMISSIONS)
def test_models_are_saved_cloned_drawn_and_told(emission, kind, tmp_path):
    X = data_for(emission, gaps=0.1)
    model = fitted(emission, kind, X)
    loaded = benthic.load(model.save(tmp_path / "model.safetensors"))
    np.testing.assert_array_equal(loaded.log_prob(X), model.log_prob(X))
    assert loaded.summary() == model.summary() and "share of time" in model.summary()
    assert all(map(np.array_equal, loaded.sample(2, seed=0), model.sample(2, seed=0)))
    assert "not fitted" in clone(model).summary()
    assert len(model.plot().axes) == 2 and len(model.plot(X, sequence=1).axes) == 2
    np.testing.assert_array_equal(clone(model).fit(X).log_prob(X), model.log_prob(X))
    np.testing.assert_allclose(model.anomaly(X), -model.log_prob(X))


@pytest.mark.parametrize(
    ("X", "settings", "says"),
    [
        ([], {}, "no sequences"),
        ([[1.0, 2.0], []], {}, "sequence 1 has length 0"),
        ([[1.0, np.inf]], {}, "infinity"),
        ([np.zeros((3, 2)), np.zeros((3, 4))], {}, "sequence 1 has 4 numbers a step and sequence 0 has 2"),
        (np.zeros((2, 3, 4, 5)), {}, "4 dimensions"),
        (np.zeros(5), {}, r"a list of one, \[X\]"),
        ([1.0, 2.0], {}, r"a list of one, \[X\]"),
        ([[1.0, 2.0]], {"n_states": 3}, "only 2 observed steps"),
        ([[1.0, np.nan, np.nan]], {}, "only 1 observed steps"),
        ([[3.0, -1.0]], {"emission": "poisson"}, "step 1 of sequence 0 is -1; counts are whole"),
        ([[3.0, 0.5]], {"emission": "poisson"}, "is 0.5; counts are whole"),
        (np.array([[0, -3]]), {}, "negative number -3; symbols as integers count from 0"),
        ([[0.5, 1.0]], {"emission": "categorical"}, "0.5, which is not a symbol"),
        ("abab", {}, "X is one string"),
        (["ab", "c"], {"symbols": "ab"}, "step 0 of sequence 1 is the symbol 'c', which is unknown"),
        ([[1.0, 2.0]], {"n_states": 0}, "n_states is 0"),
        ([[1.0, 2.0]], {"n_states": "bik"}, "did you mean 'bic'"),
        ([[1.0, 2.0]], {"emission": "gausian"}, "did you mean 'gaussian'"),
        ([[1.0, 2.0]], {"covariance_type": "diagonal"}, "did you mean 'diag'"),
        ([[1.0, 2.0]], {"topology": "left"}, "topology 'left' is unknown"),
        ([[1.0, 2.0]], {"transition_prior": 0.5}, "transition_prior is 0.5"),
        ([[1.0, 2.0]], {"start_init": [0.5, 0.6]}, "start_init must hold probabilities"),
        ([[1.0, 2.0]], {"transitions_init": [0.5, 0.5]}, r"expected \(2, 2\)"),
        ([[1.0, 2.0]], {"emissions_init": [[0.5, 0.5]] * 2}, "does not belong to this emission"),
        ([[1.0, 2.0]], {"tol": -1}, "tol is -1"),
        ([np.column_stack([np.arange(4.0), np.full(4, np.nan)])], {}, "column 1 of X has no observed value"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(X, settings, says):
    with pytest.raises(InvalidInput, match=says) as caught:
        HiddenMarkovModel(**{"n_states": 2, **settings}).fit(X)
    assert str(caught.value).startswith("HiddenMarkovModel.fit: ")


def test_later_calls_are_checked_too():
    with pytest.raises(NotFittedError):
        HiddenMarkovModel().predict([[1.0]])
    model = fitted("gaussian", "full", numbers())
    with pytest.raises(InvalidInput, match=r"HiddenMarkovModel.predict: X has 3 features a step"):
        model.predict([np.zeros((4, 3))])
    with pytest.raises(InvalidInput, match="length is 0"):
        model.sample(2, length=0)
    with pytest.raises(InvalidInput, match="n is 0"):
        model.sample(0)
    words = fitted("categorical", "full", ["abab", "bbaa"])
    with pytest.raises(InvalidInput, match="step 1 of sequence 0 is the symbol 'z'"):
        words.log_prob(["az"])
    strict = HiddenMarkovModel(2, symbols="abc", n_init=1, max_iter=2, random_state=0).fit(["abab"])
    strict.emissions_[:, 2] = 0.0
    strict.emissions_ /= strict.emissions_.sum(1, keepdims=True)
    assert strict.log_prob(["aca"])[0] == -np.inf
    for verb in (strict.predict, strict.predict_proba):
        with pytest.raises(InvalidInput, match="sequence 0 is impossible"):
            verb(["aca"])


def test_too_few_passes_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ConvergenceWarning, match="raise max_iter"):
            HiddenMarkovModel(2, max_iter=1, tol=0.0, random_state=0).fit(numbers())


def test_repeated_and_constant_steps_do_not_collapse():
    model = HiddenMarkovModel(2, random_state=0).fit([np.zeros(20), np.r_[np.zeros(10), np.ones(10)]])
    assert np.isfinite(model.log_likelihoods_).all() and (model.covariances_ > 0).all()
    same = HiddenMarkovModel(2, random_state=0).fit([np.ones(20)])
    assert np.isfinite(same.log_prob([np.ones(5)])).all()


@pytest.mark.parametrize(("emission", "kind"), EMISSIONS)
@pytest.mark.parametrize("gaps", [0.0, 0.2])
def test_the_way_of_devices_counts_the_same(emission, kind, gaps):
    X = data_for(emission, gaps=gaps)
    model = fitted(emission, kind, X, max_iter=3)
    data = model._arrive_any(X, "fit")[0] if emission == "categorical" else read_sequences(X)[0]
    blocks = Blocks(data)
    (found,), expected = _expect_on_device(model._chain(), blocks), expect(model._chain(), blocks)
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-9, atol=1e-8)
    chain = model._chain()
    np.testing.assert_allclose(model._on_device(chain, data, "log_partition").numpy(), model.log_prob(X), rtol=1e-10)
    assert model._on_device(chain, data, "path").tolist() == np.concatenate(model.predict(X)).tolist()
    np.testing.assert_allclose(
        model._on_device(chain, data, "single").numpy(), np.concatenate(model.predict_proba(X)), atol=1e-10
    )
