"""The pairwise field against brute force, closed forms and planted weights."""

from __future__ import annotations

import copy
import itertools

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.optimize import minimize as scipy_minimize

import benthic
from benthic.base.errors import InvalidInput
from benthic.chains.graph_messages import Graph, grid_edges, log_weight
from benthic.chains.random_field import PairwiseMarkovField
from benthic.chains.random_field_columns import Variable
from benthic.chains.random_field_gibbs import Sweeper
from benthic.chains.random_field_learning import Counts, best_tree, information

pytestmark = pytest.mark.spec("H-05")


def coins(n=400, seed=0):
    """Five columns of 0, 1 (and 2): a tree 0-1, 1-2, 1-3, 3-4 of noisy copies."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 3, n)
    b = np.where(rng.random(n) < 0.8, a, rng.integers(0, 3, n))
    c = np.where(rng.random(n) < 0.85, b > 0, rng.random(n) < 0.5)
    d = np.where(rng.random(n) < 0.9, b, rng.integers(0, 3, n))
    e = np.where(rng.random(n) < 0.9, d == 2, rng.random(n) < 0.5)
    return np.column_stack([a, b, c, d, e]).astype(float)


def every(model):
    """All rows that a model of states knows, and their exact probabilities from its weights."""
    rows = np.array(list(itertools.product(*model.levels_)))
    codes = torch.tensor(list(itertools.product(*(range(len(levels)) for levels in model.levels_))))
    field = model._field()
    weight = log_weight(field.unary[None], field.pairwise, field.graph, codes)
    return rows, (weight - weight.logsumexp(0)).exp().numpy()


# -- learning ------------------------------------------------------------------------------------------


def test_the_best_tree_is_found_and_its_closed_form_has_the_marginals_of_the_data():
    X = coins(3000)
    model = PairwiseMarkovField(alpha=0.0).fit(X)
    assert {tuple(pair) for pair in model.edges_.tolist()} == {(0, 1), (1, 2), (1, 3), (3, 4)}
    assert model.log_partition_ == pytest.approx(0.0, abs=1e-9)
    rows, p = every(model)
    np.testing.assert_allclose(np.exp(model.log_prob(rows)), p, rtol=1e-8, atol=1e-14)
    for i, j in model.edges_:
        for s, t in itertools.product(model.levels_[i], model.levels_[j]):
            seen = ((X[:, i] == s) & (X[:, j] == t)).mean()
            assert p[(rows[:, i] == s) & (rows[:, j] == t)].sum() == pytest.approx(seen, abs=1e-10)


def test_no_other_tree_is_more_likely():
    X = coins(200, seed=3)[:, :4]
    best = PairwiseMarkovField(alpha=0.0).fit(X).score(X)
    pairs = list(itertools.combinations(range(4), 2))
    trees = [edges for edges in itertools.combinations(pairs, 3) if Graph.of(4, edges).is_forest]
    assert len(trees) == 16
    scores = [PairwiseMarkovField(list(edges), alpha=0.0).fit(X).score(X) for edges in trees]
    assert best == pytest.approx(max(scores), abs=1e-12)


def test_mutual_information_is_its_definition():
    X = coins(300)
    codes = torch.as_tensor(X).long()
    found = information(Counts(codes, torch.tensor([3, 3, 2, 3, 2]), 0.0))
    from sklearn.metrics import mutual_info_score

    for i, j in itertools.product(range(5), repeat=2):
        assert float(found[i, j]) == pytest.approx(mutual_info_score(X[:, i], X[:, j]), abs=1e-10)
    assert len(best_tree(Counts(codes, torch.tensor([3, 3, 2, 3, 2]), 1.0))) == 4


def test_maximum_likelihood_with_loops_matches_all_pairs_of_the_data():
    X = coins(500)
    model = PairwiseMarkovField("complete", alpha=0.5, learning="likelihood", tol=1e-9, max_iter=1000).fit(X)
    assert model.exact_ and model.converged_
    rows, p = every(model)
    n = len(X)
    for i, j in model.edges_:
        sizes = len(model.levels_[i]) * len(model.levels_[j])
        for s, t in itertools.product(model.levels_[i], model.levels_[j]):
            seen = (((X[:, i] == s) & (X[:, j] == t)).sum() + 0.5 / sizes) / (n + 0.5)
            assert p[(rows[:, i] == s) & (rows[:, j] == t)].sum() == pytest.approx(seen, abs=1e-7)
    assert model.score(X) > PairwiseMarkovField("tree", alpha=0.5).fit(X).score(X)


def test_ising_weights_are_those_of_scipy():
    """A ring of four: one weight an edge and one a variable, by brute force."""
    X = np.random.default_rng(0).integers(0, 2, (60, 4)).astype(float)
    X[:, 1] = np.where(np.random.default_rng(1).random(60) < 0.7, X[:, 0], X[:, 1])
    edges = [(0, 1), (1, 2), (2, 3), (3, 0)]
    rows = np.array(list(itertools.product([0, 1], repeat=4)))

    def features(x):
        return np.column_stack([x, *((x[:, i] == x[:, j]) for i, j in edges)]).astype(float)

    mean = features(X).mean(0)
    best = scipy_minimize(lambda w: np.logaddexp.reduce(features(rows) @ w) - mean @ w, np.zeros(8), tol=1e-12)
    model = PairwiseMarkovField(edges, coupling="potts", alpha=0.0, tol=1e-10).fit(X)
    ours = np.concatenate([model.unary_[:, 1] - model.unary_[:, 0], model.pairwise_[:, 0, 0]])
    np.testing.assert_allclose(ours, best.x, atol=1e-4)
    assert -model.score(X) == pytest.approx(best.fun, abs=1e-9)
    np.testing.assert_allclose(model.pairwise_[:, 0, 1], 0.0)


@pytest.mark.parametrize("learning", ["likelihood", "pseudo"])
def test_planted_weights_are_recovered_from_draws(learning):
    edges, weights = [(0, 1), (1, 2), (2, 0), (2, 3)], [1.0, -0.8, 0.6, 1.2]
    planted = PairwiseMarkovField(edges, coupling="potts", alpha=0.0).fit(coins(50)[:, [2, 2, 4, 4]])
    planted.unary_ = np.zeros_like(planted.unary_)
    planted.pairwise_ = np.array(weights)[:, None, None] * np.eye(2)  # draws need no log Z
    X = planted.sample(20_000, seed=0)
    model = PairwiseMarkovField(edges, coupling="potts", learning=learning).fit(X)
    # four standard errors of about sqrt(1 / (n p (1 - p))) each
    np.testing.assert_allclose(model.pairwise_[:, 0, 0], weights, atol=0.12)
    assert model.learned_by_.startswith(learning)


def test_pseudo_likelihood_is_its_definition_and_at_its_maximum():
    X = coins(150)[:, 1:4]
    model = PairwiseMarkovField("complete", learning="pseudo", alpha=0.3, tol=1e-9).fit(X)
    rows, p = every(model)
    lookup = {tuple(row): q for row, q in zip(rows.tolist(), p, strict=True)}
    expected = []
    for x in X[:20]:
        total = 0.0
        for j in range(3):
            around = [lookup[tuple(np.where(np.arange(3) == j, s, x))] for s in model.levels_[j]]
            total += np.log(lookup[tuple(x)] / sum(around))
        expected.append(total)
    np.testing.assert_allclose(model.pseudo_log_prob(X[:20]), expected, rtol=1e-9)

    def loss(step):
        moved = copy.copy(model)
        moved.pairwise_ = model.pairwise_ + step
        penalty = 0.15 * np.square(moved.pairwise_).sum() / len(X)
        return -moved.pseudo_log_prob(X).mean() + penalty

    rng = np.random.default_rng(0)
    for _ in range(5):
        way = rng.normal(size=model.pairwise_.shape) * 1e-3
        assert loss(0.0) <= min(loss(way), loss(-way)) + 1e-10


def test_tied_weights_are_shared():
    X = (np.random.default_rng(0).random((200, 9)) < 0.4).astype(float)
    one = PairwiseMarkovField(grid_edges(3, 3), coupling="potts", tied="all").fit(X)
    assert np.ptp(one.unary_, axis=0).max() < 1e-12 and np.ptp(one.pairwise_, axis=0).max() < 1e-12
    edges = PairwiseMarkovField(grid_edges(3, 3), coupling="potts", tied="edges").fit(X)
    assert np.ptp(edges.unary_, axis=0).max() > 1e-3 and np.ptp(edges.pairwise_, axis=0).max() < 1e-12
    assert edges.score(X) >= one.score(X) - 1e-6


# -- answers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("structure", ["tree", "complete"])
def test_marginals_best_rows_and_draws_given_some_columns(structure):
    model = PairwiseMarkovField(structure).fit(coins())
    rows, p = every(model)
    given = np.array([[np.nan, np.nan, 1.0, np.nan, 0.0], [2.0, np.nan, np.nan, 1.0, np.nan]])
    found = model.marginals(given)
    best = model.most_probable(given)
    for row, x in enumerate(given):
        fits = np.all(np.isnan(x) | (rows == x), 1)
        q = np.where(fits, p, 0.0) / p[fits].sum()
        for j, levels in enumerate(model.levels_):
            expected = [q[rows[:, j] == level].sum() for level in levels]
            np.testing.assert_allclose(found[row, j, : len(levels)], expected, atol=1e-10)
        np.testing.assert_array_equal(best[row], rows[q.argmax()])
        beliefs = model.beliefs(x[None])
        known = float(beliefs.log_partition[0]) - model.log_partition_
        assert known == pytest.approx(np.log(p[fits].sum()), rel=1e-9)
        drawn = model.sample(5000, given=x[None], seed=0)
        known_columns = ~np.isnan(x)
        assert (drawn[:, known_columns] == x[known_columns]).all()
        for j, levels in enumerate(model.levels_):
            for s, level in enumerate(levels):
                share = (drawn[:, j] == level).mean()
                assert share == pytest.approx(found[row, j, s], abs=4.5 * np.sqrt(0.25 / 5000))


def test_soft_evidence_is_multiplied_in():
    model = PairwiseMarkovField().fit(coins())
    rows, p = every(model)
    evidence = np.random.default_rng(0).normal(size=model.unary_.shape)
    weight = p.copy()
    for j, levels in enumerate(model.levels_):
        weight *= np.exp(evidence[j][np.searchsorted(levels, rows[:, j])])
    weight /= weight.sum()
    found = model.marginals(evidence=evidence)[0]
    for j, levels in enumerate(model.levels_):
        np.testing.assert_allclose(found[j, : len(levels)], [weight[rows[:, j] == v].sum() for v in levels], atol=1e-9)
    np.testing.assert_array_equal(model.most_probable(evidence=evidence)[0], rows[weight.argmax()])


def test_a_large_grid_declares_what_it_estimates():
    rng = np.random.default_rng(0)
    X = (rng.random((20, 24 * 24)) < 0.5).astype(float)
    model = PairwiseMarkovField(grid_edges(24, 24), coupling="potts", tied="all", sweeps=30, random_state=0).fit(X)
    assert not model.exact_ and model.learned_by_ == "pseudo-likelihood"
    assert "estimated by annealing when" in model.summary()
    found = model.likelihood(X)
    assert "standard error" in model.summary()
    assert (found.kind, found.bound, found.measure) == ("ais", "estimate", "mass")
    assert not hasattr(model, "log_prob") and found.stderr[0] > 0
    # fair coins: every picture has probability 2^-576
    assert model.score(X) == pytest.approx(-576 * np.log(2), abs=2.0)
    beliefs = model.beliefs()
    assert bool(beliefs.converged.all())
    np.testing.assert_allclose(beliefs.nodes[0, :, 1], X.mean(), atol=0.02)
    drawn = model.sample(50, seed=0)
    assert drawn.shape == (50, 576) and drawn.mean() == pytest.approx(0.5, abs=0.03)
    given = X[:1].copy()
    given[0, 300:] = np.nan
    np.testing.assert_array_equal(model.sample(2, given=given, seed=0)[:, :300], np.repeat(X[:1, :300], 2, 0))
    assert np.isfinite(model.impute(given)).all() and np.isfinite(model.most_probable(given)).all()


def test_a_noisy_picture_is_cleaned_and_the_coupling_is_found():
    """Pictures drawn from Ising's model: pseudo-likelihood finds its weight, messages take back most flips."""
    graph = Graph.of(400, grid_edges(20, 20))
    table = 0.9 * torch.eye(2, dtype=torch.float64)
    noise = torch.Generator().manual_seed(0)
    sweep = Sweeper(torch.zeros(1, 400, 2, dtype=torch.float64), table.expand(len(graph.edges), 2, 2), graph)
    states = torch.randint(2, (60, 400), generator=noise)
    for _ in range(200):
        states = sweep(states, noise)
    clean = states.numpy().astype(float)
    model = PairwiseMarkovField(graph.edges, coupling="potts", tied="all", sweeps=20, random_state=0).fit(clean[20:])
    assert model.pairwise_[0, 0, 0] == pytest.approx(0.9, abs=0.06)
    rng = np.random.default_rng(0)
    noisy = np.where(rng.random((20, 400)) < 0.2, 1 - clean[:20], clean[:20])
    right, wrong = np.log(0.8), np.log(0.2)
    evidence = np.stack([np.where(noisy == 0, right, wrong), np.where(noisy == 1, right, wrong)], -1)
    flips, p = (noisy != clean[:20]).mean(), model.marginals(evidence=evidence)
    wrong_by_sum = (p.argmax(-1) != clean[:20]).mean()
    assert wrong_by_sum < 0.65 * flips and wrong_by_sum == pytest.approx(1 - p.max(-1).mean(), abs=0.03)
    assert (model.most_probable(evidence=evidence) != clean[:20]).mean() < 0.75 * flips


# -- columns -------------------------------------------------------------------------------------------


def test_binned_columns_have_a_density_that_integrates_to_one():
    x = np.random.default_rng(0).gamma(2.0, size=500)
    variable = Variable.of(x, 6)
    grid = torch.linspace(-40.0, 80.0, 2_400_001, dtype=torch.float64)
    codes = variable.codes(grid)
    density = variable.log_density(grid, codes).exp()
    for s in range(6):
        assert float(density[codes == s].sum() * (120 / 2_400_000)) == pytest.approx(1.0, abs=2e-3)
    counts = torch.bincount(variable.codes(torch.as_tensor(x)))
    assert counts.max() - counts.min() <= 2  # quantiles
    model = PairwiseMarkovField(bins=6, alpha=0.0).fit(x[:, None])
    assert model.likelihood(x[:, None]).measure == "density"


def test_draws_within_bins_have_the_mean_of_their_bin_at_the_ends():
    x = np.random.default_rng(0).normal(size=1000)
    variable = Variable.of(x, 5)
    uniform = torch.rand(50_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for s in (0, 4):
        drawn = variable.draw(torch.full((50_000,), s), uniform)
        assert bool((variable.codes(drawn) == s).all())
        assert float(drawn.mean()) == pytest.approx(variable.levels[s], abs=0.02)
    inner = variable.draw(torch.full((50_000,), 2), uniform)
    assert bool((variable.codes(inner) == 2).all())


def test_bins_of_ties_are_never_empty():
    x = np.concatenate([np.zeros(90), np.arange(10.0)])
    variable = Variable.of(x, 4)
    assert np.bincount(variable.codes(torch.as_tensor(x)).numpy(), minlength=variable.size).min() > 0


def test_frames_with_categories_come_back_as_frames():
    rng = np.random.default_rng(0)
    city = rng.choice(["Bern", "Rome", "Oslo"], 300)
    cold = np.where(city == "Oslo", rng.normal(-5, 1, 300), rng.normal(12, 1, 300))
    frame = pd.DataFrame({"city": pd.Categorical(city), "cold": cold, "coat": cold < 5})
    model = PairwiseMarkovField().fit(frame)
    assert model.unary_.shape[0] == 3
    drawn = model.sample(200, seed=0)
    assert list(drawn.columns) == list(frame.columns) and set(drawn["city"]) <= set(city)
    oslo = drawn[drawn["city"] == "Oslo"]
    assert (oslo["cold"] < 5).mean() > 0.9
    holed = frame.head(5).copy()
    holed["city"] = pd.Categorical([None] * 5, categories=frame["city"].cat.categories)
    guess = model.most_probable(holed)["city"]
    assert ((guess == "Oslo") == (frame["city"].head(5) == "Oslo")).all()


def test_unseen_values_have_no_mass_and_are_named():
    model = PairwiseMarkovField().fit(coins())
    row = coins(1)
    row[0, 2] = 7.0
    assert model.log_prob(row)[0] == -np.inf
    with pytest.raises(InvalidInput, match="PairwiseMarkovField.transform: column 2 holds 7, which fit never saw"):
        model.transform(row)


def test_transform_gives_states_and_back():
    X = coins()
    model = PairwiseMarkovField().fit(X)
    np.testing.assert_array_equal(model.inverse_transform(model.transform(X)), X)


def test_saved_and_loaded_fields_agree(tmp_path):
    X = coins(100)
    for structure in ("tree", "complete"):
        model = PairwiseMarkovField(structure, random_state=0).fit(X)
        loaded = benthic.load(model.save(tmp_path / "field.safetensors"))
        np.testing.assert_array_equal(loaded.sample(5), model.sample(5))
        np.testing.assert_array_equal(loaded.marginals(X[:3]), model.marginals(X[:3]))
        assert loaded.summary() == model.summary() and len(model.plot().axes) == 1


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"structure": "forest"}, "structure 'forest' is unknown"),
        ({"structure": [(0, 9)]}, "names variable 9"),
        ({"coupling": "pots"}, "did you mean 'potts'"),
        ({"bins": 1}, "bins is 1; it must be a whole number of at least 2"),
        ({"alpha": -1}, "alpha is -1"),
        ({"damping": 1.0}, "damping is 1.0"),
        ({"tied": "both"}, "tied 'both' is unknown"),
        ({"learning": "exact"}, "learning 'exact' is unknown"),
    ],
)
def test_bad_settings(settings, words):
    with pytest.raises(InvalidInput, match=words) as caught:
        PairwiseMarkovField(**settings).fit(coins(30))
    assert str(caught.value).startswith("PairwiseMarkovField.fit: ")


def test_bad_requests():
    model = PairwiseMarkovField().fit(coins(50))
    with pytest.raises(InvalidInput, match=r"marginals: evidence has shape \(5, 2\); expected"):
        model.marginals(evidence=np.zeros((5, 2)))
    with pytest.raises(InvalidInput, match="evidence has 2 rows and X 3"):
        model.marginals(coins(3), evidence=np.zeros((2, 5, 3)))
    X = (np.random.default_rng(0).random((20, 30)) < 0.5).astype(float)
    with pytest.raises(InvalidInput, match="needs tables of"):
        PairwiseMarkovField("complete", learning="likelihood").fit(X)
