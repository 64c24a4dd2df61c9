"""Hopfield networks against theory: fixed points, falling energy, cross-talk, capacity, completion."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import ndtr

import benthic
from benthic.base.errors import InvalidInput
from benthic.memory import capacity, capacity_curve, energy, recall, store
from benthic.memory.limits import first_step_error
from benthic.memory.network import _sweep


def patterns(n, d, seed=0):
    return np.random.default_rng(seed).choice([-1.0, 1.0], size=(n, d))


def spoiled(X, share, seed=1):
    flip = np.random.default_rng(seed).random(X.shape) < share
    return np.where(flip, -X, X)


@pytest.mark.spec("F-08")
def test_hebbian_weights_are_the_formula():
    X = patterns(5, 12)
    want = (sum(np.outer(x, x) for x in X) - 5 * np.eye(12)) / 12
    np.testing.assert_allclose(store(X), want, atol=1e-15)
    np.testing.assert_allclose(benthic.Hopfield().fit(X).weights_, want, atol=1e-15)


@pytest.mark.spec("F-08")
def test_the_pseudo_inverse_projects_onto_the_patterns():
    X = patterns(20, 30)
    P = np.linalg.pinv(X) @ X
    np.testing.assert_allclose(store(X, "pseudo-inverse"), P - np.diag(np.diag(P)), atol=1e-12)
    # also where patterns repeat and span less than there are
    twice = np.concatenate([X, X])
    np.testing.assert_allclose(store(twice, "pseudo-inverse"), P - np.diag(np.diag(P)), atol=1e-12)


@pytest.mark.spec("F-08")
@pytest.mark.parametrize("dynamics", ["asynchronous", "synchronous"])
def test_a_stored_pattern_and_its_negative_are_fixed(dynamics):
    X = patterns(4, 200)
    model = benthic.Hopfield(dynamics=dynamics, random_state=0).fit(X)
    for rows in (X, -X):
        found = model.recall(rows)
        np.testing.assert_array_equal(found.state, rows)
        assert found.converged.all() and len(found.energy) == 1
    np.testing.assert_array_equal(model.transform(spoiled(X, 0.15)), X)


@pytest.mark.spec("F-08")
def test_dependent_patterns_are_kept_by_the_pseudo_inverse_alone():
    base = patterns(1, 100)
    X = np.concatenate([base] + [spoiled(base, 0.2, seed) for seed in range(2, 12)])  # alike
    hebbian, projected = (benthic.Hopfield(kind).fit(X) for kind in ("hebbian", "pseudo-inverse"))
    np.testing.assert_array_equal(projected.transform(X), X)
    assert (hebbian.transform(X) != X).any()
    assert np.abs(projected.cross_talk()).max() < 1e-12


@pytest.mark.spec("F-08")
@pytest.mark.parametrize("bias", [None, 0.3])
@pytest.mark.parametrize("storage", ["hebbian", "pseudo-inverse"])
def test_every_flip_lowers_the_energy(storage, bias):
    X = patterns(30, 80)
    W = store(X, storage)
    b = None if bias is None else torch.tensor(np.random.default_rng(3).normal(0, bias, 80))
    found = recall(patterns(50, 80, 5), W, b, seed=4)
    assert bool((found.energy.diff(dim=0) <= 1e-9).all()) and bool(found.converged.all())
    last = found.energy[-1]
    torch.testing.assert_close(last, energy(found.state, W, b))
    # a fixed point: no single flip lowers it
    for i in range(80):
        other = found.state.clone()
        other[:, i] *= -1
        assert bool((energy(other, W, b) >= last - 1e-9).all())


@pytest.mark.spec("F-08")
def test_energy_has_its_minus_and_its_bias():
    x, b = patterns(1, 9)[0], np.arange(9.0)
    model = benthic.Hopfield(bias=b).fit(patterns(3, 9, 2))
    want = -0.5 * x @ model.weights_ @ x + b @ x
    assert model.energy(x[None])[0] == pytest.approx(want)
    pushed = benthic.Hopfield(bias=100.0).fit(patterns(3, 9, 2))
    np.testing.assert_array_equal(pushed.transform(x[None]), -np.ones((1, 9)))


def test_synchronous_recall_may_go_to_and_fro():
    W = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    found = recall([[1, -1]], W, dynamics="synchronous")
    assert not bool(found.converged[0]) and len(found.energy) <= 4
    assert bool(recall([[1, -1]], W).converged[0])


@pytest.mark.spec("F-08")
def test_cross_talk_is_the_double_sum():
    X = patterns(6, 15)
    n, d = X.shape
    want = np.zeros((n, d))
    for m in range(n):
        for i in range(d):
            for v in range(n):
                if v != m:
                    want[m, i] -= X[m, i] * X[v, i] * sum(X[v, j] * X[m, j] for j in range(d) if j != i) / d
    model = benthic.Hopfield().fit(X)
    np.testing.assert_allclose(model.cross_talk(), want, atol=1e-12)
    stable = (X * (X @ model.weights_)) > 0
    np.testing.assert_array_equal(stable, want < (d - 1) / d)


@pytest.mark.spec("F-08")
def test_cross_talk_has_the_variance_of_the_theory():
    X = patterns(80, 500)
    talk = benthic.Hopfield().fit(X).cross_talk()
    # variance (n - 1)(d - 1) / d², from 40000 bits that are nearly independent
    assert talk.var() == pytest.approx(79 * 499 / 500**2, rel=0.05)
    assert abs(talk.mean()) < 0.02
    assert (talk > 1).mean() == pytest.approx(float(ndtr(-np.sqrt(500 / 80))), rel=0.25)


@pytest.mark.spec("F-08")
def test_capacity_is_where_theory_puts_it():
    curve = capacity_curve(500, (0.05, 0.1, 0.13, 0.2), trials=3, seed=0)
    assert curve.wrong_bits[0] < 1e-3
    # at 0.13 about one bit in a hundred is wrong, beyond 0.138 memory breaks down
    assert 0.003 < curve.wrong_bits[2] < 0.06
    assert curve.wrong_bits[3] > 0.15
    first = [recall_step(1000, load).mean() for load in (0.15, 0.2)]
    np.testing.assert_allclose(first, first_step_error([0.15, 0.2]), rtol=0.15)
    assert curve.plot().axes


def recall_step(d, load):
    X = patterns(round(load * d), d, 9)
    field = X @ store(X).numpy()
    return np.where(X * field < 0, 1, 0)


@pytest.mark.spec("F-08")
def test_perfect_recall_up_to_half_d_over_log_d():
    d = 600
    below = capacity_curve(d, (0.6 * capacity(d)["perfect"] / d, 2.5 * capacity(d)["perfect"] / d), trials=2)
    assert below.whole[0] > 0.97 > 0.2 > below.whole[1]
    assert capacity(d)["retrieval"] == pytest.approx(0.138 * d)


def test_the_slow_sweep_of_a_device_is_the_fast_one():
    X, W = torch.tensor(patterns(12, 60, 3)), store(patterns(25, 60))
    found = recall(X, W, max_sweeps=1, seed=7)
    order = benthic.base.seeds.np_generator(benthic.base.seeds.seed_of(7), "sweeps").permutation(60)
    state, active = X.clone(), torch.ones(12, dtype=torch.bool)
    _sweep(state, state @ W, W, order, 1e-12, active)
    assert torch.equal(state, found.state)


@pytest.mark.parametrize("values", [(-1, 1), (0, 1), (False, True)])
def test_two_valued_data_come_back_in_their_values(values):
    X = np.where(patterns(3, 40) > 0, values[1], values[0])
    model = benthic.Hopfield(random_state=0).fit(X)
    out = model.reconstruct(X)
    np.testing.assert_array_equal(out, X.astype(float))
    np.testing.assert_array_equal(model.inverse_transform(model.transform(X)), X.astype(float))


def test_numbers_come_back_as_the_means_of_their_side():
    X = np.random.default_rng(0).normal(size=(4, 30)) + 5
    model = benthic.Hopfield(threshold="median").fit(X)
    assert model.levels_.shape == (2, 30)
    np.testing.assert_allclose(model.levels_[1], [c[c > np.median(c)].mean() for c in X.T])
    assert set(np.unique(model.transform(X))) == {-1.0, 1.0}


@pytest.mark.spec("F-08")
def test_missing_bits_are_completed():
    X = patterns(5, 120)
    model = benthic.Hopfield(random_state=0).fit(X)
    holed = X.copy()
    holed[:, ::2] = np.nan
    np.testing.assert_array_equal(model.impute(holed), X)
    wrong = spoiled(X, 0.05)
    wrong[:, ::3] = np.nan
    full = model.impute(wrong)
    known = ~np.isnan(wrong)
    np.testing.assert_array_equal(full[known], wrong[known])  # what is known stays, right or wrong
    np.testing.assert_array_equal(full[:, ::3], X[:, ::3])


def test_orders_are_decided_by_the_seed_and_shared_by_rows():
    X, noise = patterns(20, 60), patterns(30, 60, 8)
    a, b = (benthic.Hopfield(random_state=s).fit(X) for s in (1, 2))
    np.testing.assert_array_equal(a.transform(noise), a.transform(noise))
    np.testing.assert_array_equal(a.transform(noise)[3:5], a.transform(noise[3:5]))
    assert (a.transform(noise) != b.transform(noise)).any()


def test_patterns_add_up():
    X = patterns(9, 50)
    whole, parts = benthic.Hopfield().fit(X), benthic.Hopfield().partial_fit(X[:4]).partial_fit(X[4:])
    np.testing.assert_allclose(parts.weights_, whole.weights_, atol=1e-15)
    np.testing.assert_array_equal(parts.patterns_, X)


def test_words():
    text = benthic.Hopfield().fit(patterns(10, 100)).summary()
    assert "0.1 patterns for each unit" in text and "13.8 at 1.6 %" in text and "cross-talk" in text


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"storage": "hebian"}, "did you mean 'hebbian'"),
        ({"dynamics": "async"}, "dynamics 'async' is unknown"),
        ({"threshold": "mean"}, "threshold is 'mean'"),
        ({"threshold": [1.0, 2.0]}, "threshold has shape"),
        ({"bias": "large"}, "bias is 'large'"),
        ({"bias": np.ones(3)}, "bias has shape"),
        ({"max_sweeps": 0}, "max_sweeps is 0"),
    ],
)
def test_wrong_settings(settings, words):
    with pytest.raises(InvalidInput, match=words) as caught:
        benthic.Hopfield(**settings).fit(patterns(5, 8))
    assert str(caught.value).startswith("Hopfield.fit: ")


def test_wrong_states():
    with pytest.raises(InvalidInput, match="2 \\* x - 1"):
        store([[0, 1]])
    with pytest.raises(InvalidInput, match="W has shape"):
        recall([[1, -1]], torch.eye(3))
    with pytest.raises(InvalidInput, match="did you mean 'hebbian'"):
        store([[1, -1]], "hebb")
    with pytest.raises(InvalidInput, match="positive loads"):
        capacity_curve(10, (-1.0,))
