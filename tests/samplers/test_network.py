"""Bayesian networks against enumeration of every joint value, networkx, closed forms and known generators."""

from __future__ import annotations

import itertools
import math

import networkx as nx
import numpy as np
import pytest
import scipy.stats as st
import torch
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from torch.distributions import Bernoulli, Categorical, Normal, Poisson

from benthic.base.errors import InvalidInput
from benthic.samplers import BayesianNetwork, Given, LinearGaussian, NeuralConditional, Table
from benthic.samplers.networks.elimination import min_fill

pytestmark = pytest.mark.spec("C-01")


def sprinkler():
    return BayesianNetwork(
        {
            "wet": Table([[[1.0, 0.0], [0.1, 0.9]], [[0.2, 0.8], [0.01, 0.99]]], given=["rain", "sprinkler"]),
            "rain": Table([0.8, 0.2], states=["no", "yes"]),
            "sprinkler": Table([[0.6, 0.4], [0.99, 0.01]], given="rain"),
        }
    )


def random_network(seed, d=6):
    """Tables of 2 or 3 states on a random graph."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 4, d)
    nodes = {}
    for i in range(d):
        parents = [j for j in range(i) if rng.random() < 0.45]
        shape = (*sizes[parents], sizes[i])
        nodes[f"x{i}"] = Table(rng.dirichlet(np.ones(sizes[i]), shape[:-1]), [f"x{j}" for j in parents])
    names = list(nodes)
    rng.shuffle(names)
    return BayesianNetwork({name: nodes[name] for name in names}), dict(
        zip([f"x{i}" for i in range(d)], sizes, strict=True)
    )


def joint_table(net, sizes):
    """Every joint value's probability, by the product rule written out, (states of x0, ..., states of xd)."""
    names = list(sizes)
    table = np.zeros(list(sizes.values()))
    for values in itertools.product(*[range(k) for k in sizes.values()]):
        row = dict(zip(names, values, strict=True))
        table[values] = math.prod(
            float(law.probs[tuple(row[p] for p in law.given)][row[name]]) for name, law in net.nodes.items()
        )
    return table


def enumerated(table, names, query, evidence):
    """The posterior table of the query by summing the joint, and the probability of the evidence."""
    index = tuple(evidence.get(name, slice(None)) for name in names)
    left = [name for name in names if name not in evidence]
    part = table[index]
    total = part.sum()
    part = part.sum(tuple(i for i, name in enumerate(left) if name not in query))
    kept = [name for name in left if name in query]
    return part.transpose([kept.index(name) for name in query]) / total, total


@pytest.mark.parametrize("seed", range(12))
def test_elimination_equals_enumeration(seed):
    net, sizes = random_network(seed)
    table = joint_table(net, sizes)
    assert table.sum() == pytest.approx(1)
    rng = np.random.default_rng(seed)
    names = [str(name) for name in rng.permutation(list(sizes))]
    query, seen = names[:2], {name: int(rng.integers(sizes[name])) for name in names[2:4]}
    truth, total = enumerated(table, list(sizes), query, seen)
    np.testing.assert_allclose(net.posterior(query, seen).numpy(), truth, atol=1e-12)
    assert net.log_evidence(seen) == pytest.approx(math.log(total), abs=1e-12)
    np.testing.assert_allclose(
        net.posterior(names[0]).numpy(), enumerated(table, list(sizes), names[:1], {})[0], atol=1e-12
    )
    best = net.most_likely(seen)
    masked = table[tuple(seen.get(name, slice(None)) for name in sizes)]
    assert table[tuple({**best, **seen}[name] for name in sizes)] == pytest.approx(masked.max())


@pytest.mark.parametrize("seed", range(3))
def test_joint_log_probability_and_ancestral_shares(seed):
    net, sizes = random_network(seed, 4)
    table = joint_table(net, sizes)
    grid = torch.cartesian_prod(*[torch.arange(int(k)) for k in sizes.values()])
    values = {name: grid[:, i] for i, name in enumerate(sizes)}
    np.testing.assert_allclose(net.log_prob(values).exp().numpy(), table.flatten(), rtol=1e-12)
    each = net.log_prob(values, each=True)
    torch.testing.assert_close(sum(each.values()), net.log_prob(values))
    drawn = net.sample(20_000, seed=seed)
    flat = np.ravel_multi_index([drawn[name].numpy() for name in sizes], table.shape)
    counts = np.bincount(flat, minlength=table.size)
    often = table.flatten() * 20_000 > 5
    expected = np.append(table.flatten()[often], table.flatten()[~often].sum()) * 20_000
    seen = np.append(counts[often], counts[~often].sum())
    assert st.chisquare(seen[expected > 0], expected[expected > 0]).pvalue > 1e-5


@pytest.mark.parametrize("seed", range(4))
def test_conditional_draws_are_exact(seed):
    net, sizes = random_network(seed)
    table = joint_table(net, sizes)
    seen = {"x4": 1, "x5": 0}
    truth, _ = enumerated(table, list(sizes), ["x0", "x1", "x2", "x3"], seen)
    drawn = net.sample(20_000, given=seen, seed=seed)
    assert bool((drawn["x4"] == 1).all()) and bool((drawn["x5"] == 0).all())
    flat = np.ravel_multi_index([drawn[f"x{i}"].numpy() for i in range(4)], truth.shape)
    counts, p = np.bincount(flat, minlength=truth.size), truth.flatten()
    tails = np.minimum(st.binom.cdf(counts, 20_000, p), st.binom.sf(counts - 1, 20_000, p))
    assert tails.min() > 1e-5 / truth.size  # cells with hardly a draw are not normal


@pytest.mark.parametrize("seed", range(4))
def test_likelihood_weighting_agrees_with_elimination(seed):
    net, _ = random_network(seed)
    seen = {"x5": 1, "x3": 0}
    weighted = net.likelihood_weighting(20_000, seen, seed=seed)
    truth = net.posterior("x0", seen)
    for k, p in enumerate(truth.tolist()):
        share = weighted.expect(lambda v, k=k: (v["x0"] == k).double())
        assert abs(share.value - p) < 4 * share.stderr
    evidence = weighted.log_normalizer
    assert abs(evidence.value - net.log_evidence(seen)) < 4 * evidence.stderr


def test_the_sprinkler_by_hand():
    net = sprinkler()
    assert net.order == ["rain", "sprinkler", "wet"]
    wet = 0.8 * 0.4 * 0.9 + 0.2 * (0.99 * 0.8 + 0.01 * 0.99)
    rain = 0.2 * (0.99 * 0.8 + 0.01 * 0.99) / wet
    assert float(net.posterior("rain", {"wet": 1})[1]) == pytest.approx(rain)
    assert net.log_evidence({"wet": 1}) == pytest.approx(math.log(wet))
    assert float(net.log_prob({"rain": "yes", "sprinkler": 0, "wet": 1})[0]) == pytest.approx(
        math.log(0.2 * 0.99 * 0.8)
    )
    assert net.decode(net.encode({"rain": ["yes", "no"]}))["rain"].tolist() == ["yes", "no"]
    assert net.markov_blanket("rain") == {"sprinkler", "wet"} and net.children("rain") == ["wet", "sprinkler"]
    assert net.parents("wet") == ("rain", "sprinkler") and "rain, sprinkler -> wet" in repr(net)
    assert net.log_prob({"rain": 0, "sprinkler": 0, "wet": 1})[0] == -math.inf


@pytest.mark.parametrize("seed", range(8))
def test_d_separation_is_that_of_networkx(seed):
    net, sizes = random_network(seed, 7)
    graph = nx.DiGraph()
    graph.add_nodes_from(sizes)
    graph.add_edges_from((parent, name) for name in sizes for parent in net.parents(name))
    rng = np.random.default_rng(seed)
    for _ in range(60):
        names = [str(name) for name in rng.permutation(list(sizes))]
        a, b, c = set(names[:1]), set(names[1 : 2 + rng.integers(2)]), set(names[3 : 3 + rng.integers(4)])
        assert net.d_separated(a, b, c) == nx.is_d_separator(graph, a, b, c)


@pytest.mark.parametrize("seed", range(4))
def test_d_separated_variables_are_independent(seed):
    net, sizes = random_network(seed, 5)
    table = joint_table(net, sizes)
    for a, b, c in itertools.permutations(sizes, 3):
        if net.d_separated(a, b, c):
            for value in range(sizes[c]):
                both = enumerated(table, list(sizes), [a, b], {c: value})[0]
                np.testing.assert_allclose(both, np.outer(both.sum(1), both.sum(0)), atol=1e-12)


def test_min_fill_leaves_a_tree_without_new_links():
    chain = [(f"x{i}", f"x{i + 1}") for i in range(60)]
    order = min_fill(chain)
    assert len(order) == 61 and order[0] in ("x0", "x60")
    # a hidden chain of 60 steps is answered at once: the largest table has two variables
    nodes = {"x0": Table([0.5, 0.5])} | {
        f"x{i}": Table([[0.9, 0.1], [0.2, 0.8]], given=f"x{i - 1}") for i in range(1, 300)
    }
    last = BayesianNetwork(nodes).posterior("x299")
    np.testing.assert_allclose(last.numpy(), [2 / 3, 1 / 3], atol=1e-12)  # its stationary law


# -- continuous and mixed networks ---------------------------------------------------------------------


def linear_network():
    return BayesianNetwork(
        {
            "a": LinearGaussian(bias=1.0, scale=2.0),
            "b": LinearGaussian([0.5], bias=-1.0, scale=1.0, given="a"),
            "c": LinearGaussian([1.0, -2.0], scale=0.5, given=["a", "b"]),
        }
    )


def test_a_linear_network_is_one_normal_law():
    net = linear_network()
    names, law = net.normal()
    x = law.sample((50,))
    rows = {name: x[:, i] for i, name in enumerate(names)}
    torch.testing.assert_close(net.log_prob(rows), law.log_prob(x))
    drawn = net.sample(40_000, seed=0)
    z = torch.stack([drawn[name] for name in names], -1)
    d = law.covariance_matrix.diagonal()
    assert bool(((z.mean(0) - law.mean).abs() < 4 * (d / 40_000).sqrt()).all())
    spread = ((torch.outer(d, d) + law.covariance_matrix.square()) / 40_000).sqrt()
    assert bool(((torch.cov(z.T) - law.covariance_matrix).abs() < 4.5 * spread).all())


def test_conditioning_a_linear_network():
    net = linear_network()
    names, law = net.normal({"c": 2.0})
    assert names == ["a", "b"]
    # by Bayes: p(a, b | c) is proportional to the joint, so their log ratio is constant
    x = torch.randn(20, 2, dtype=torch.float64)
    ratio = net.log_prob({"a": x[:, 0], "b": x[:, 1], "c": torch.full((20,), 2.0, dtype=torch.float64)}) - law.log_prob(
        x
    )
    torch.testing.assert_close(ratio, ratio[:1].expand(20))
    drawn = net.sample(20_000, given={"c": 2.0}, seed=0)
    z = torch.stack([drawn["a"], drawn["b"]], -1)
    d = law.covariance_matrix.diagonal()
    assert bool(((z.mean(0) - law.mean).abs() < 4 * (d / 20_000).sqrt()).all())
    weighted = net.likelihood_weighting(40_000, {"c": 2.0}, seed=0)
    mean = weighted.expect(lambda v: v["a"])
    assert abs(mean.value - float(law.mean[0])) < 4 * mean.stderr


def test_an_observed_measurement_of_a_hidden_class():
    net = BayesianNetwork(
        {
            "kind": Table([0.3, 0.7]),
            "height": Given(lambda k: Normal(2.0 * k, 1.0 + k), given="kind"),
            "count": Given(lambda h: Poisson(h.exp()), given="height"),
        }
    )
    truth = np.array([0.3, 0.7]) * st.norm([0, 2], [1, 2]).pdf(1.3)
    np.testing.assert_allclose(net.posterior("kind", {"height": 1.3}).numpy(), truth / truth.sum(), rtol=1e-6)
    assert net.log_evidence({"height": 1.3}) == pytest.approx(math.log(truth.sum()), abs=1e-6)
    drawn = net.sample(10_000, given={"height": 1.3}, seed=0)
    share = truth[1] / truth.sum()
    assert abs(float(drawn["kind"].double().mean()) - share) < 4 * math.sqrt(share * (1 - share) / 10_000)
    assert abs(float(drawn["count"].mean()) - math.exp(1.3)) < 4 * math.sqrt(math.exp(1.3) / 10_000)


def test_resampling_where_nothing_is_exact():
    net = BayesianNetwork({"x": Normal(torch.tensor(0.0), 1.0), "y": Given(lambda x: Normal(x**3, 0.5), given="x")})
    drawn = net.sample(3000, given={"y": 1.0}, seed=0)["x"].double()
    grid = torch.linspace(-5, 5, 20_001, dtype=torch.float64)
    density = torch.exp(-0.5 * grid.square() - 0.5 * ((1 - grid**3) / 0.5).square())
    mean = float((grid * density).sum() / density.sum())
    assert abs(float(drawn.mean()) - mean) < 5 * float(drawn.std()) / math.sqrt(3000)
    with pytest.warns(UserWarning, match="worth"):
        net.sample(100, given={"y": 40.0}, seed=0)


def test_evidence_above_needs_no_inference():
    net = BayesianNetwork({"x": Normal(torch.tensor(0.0), 1.0), "y": Given(lambda x: Normal(x**3, 0.5), given="x")})
    drawn = net.sample(4000, given={"x": 2.0}, seed=0)
    assert bool((drawn["x"] == 2).all()) and abs(float(drawn["y"].mean()) - 8) < 4 * 0.5 / math.sqrt(4000)


def test_functions_with_states_take_part_in_exact_answers():
    net = BayesianNetwork(
        {
            "a": Categorical(torch.tensor([0.2, 0.8])),
            "b": Given(lambda a: Bernoulli(torch.sigmoid(2.0 * a - 1)), given="a", states=["off", "on"]),
        }
    )
    on = torch.sigmoid(torch.tensor([-1.0, 1.0], dtype=torch.float64))
    truth = torch.tensor([0.2, 0.8], dtype=torch.float64) * on
    torch.testing.assert_close(net.posterior("a", {"b": "on"}), truth / truth.sum(), rtol=1e-6, atol=1e-7)


# -- learning ----------------------------------------------------------------------------------------


def test_tables_are_learned_by_counting():
    net, sizes = random_network(3, 4)
    drawn = net.sample(50_000, seed=0)
    blank = BayesianNetwork(
        {name: Table.empty([*[sizes[p] for p in law.given], sizes[name]], law.given) for name, law in net.nodes.items()}
    ).fit(drawn)
    for name, law in net.nodes.items():
        got = blank.nodes[name].probs
        # the count of every row by hand
        columns = [drawn[p] for p in law.given]
        for index in itertools.product(*[range(sizes[p]) for p in law.given]):
            rows = torch.ones(50_000, dtype=torch.bool)
            for column, value in zip(columns, index, strict=True):
                rows &= column == value
            counts = torch.bincount(drawn[name][rows], minlength=int(sizes[name])).double()
            torch.testing.assert_close(got[index], counts / counts.sum())
    better = float(blank.log_prob(drawn).sum())
    assert better >= float(net.log_prob(drawn).sum())  # maximum likelihood beats even the truth on its own rows


def test_smoothing_and_weights():
    net = BayesianNetwork({"a": Table.empty([2]), "b": Table.empty([2, 3], given="a")})
    data = {"a": [0, 0, 0, 0], "b": [0, 0, 1, 1]}
    fitted = net.fit(data, smoothing=1.0)
    assert fitted.nodes["a"].probs.tolist() == pytest.approx([5 / 6, 1 / 6])
    torch.testing.assert_close(
        fitted.nodes["b"].probs,
        torch.tensor([[3 / 7, 3 / 7, 1 / 7], [1 / 3, 1 / 3, 1 / 3]], dtype=torch.float64),
    )
    weighted = net.fit(data, weight=[3, 3, 1, 1])
    repeated = BayesianNetwork(net.nodes).fit({"a": [0] * 8, "b": [0] * 6 + [1] * 2})
    torch.testing.assert_close(weighted.nodes["b"].probs, repeated.nodes["b"].probs)


def test_linear_laws_are_learned_by_least_squares():
    drawn = linear_network().sample(5000, seed=0)
    net = BayesianNetwork(
        {
            "a": LinearGaussian(),
            "b": LinearGaussian([0.0], given="a"),
            "c": LinearGaussian([0.0, 0.0], given=["a", "b"]),
        }
    ).fit(drawn)
    design = np.stack([np.ones(5000), drawn["a"], drawn["b"]], -1)
    truth, residual, *_ = np.linalg.lstsq(design, drawn["c"].numpy(), rcond=None)
    c = net.nodes["c"]
    np.testing.assert_allclose([c.bias, *c.weights.tolist()], truth, rtol=1e-9, atol=1e-9)
    assert c.scale == pytest.approx(math.sqrt(residual[0] / 5000))


def test_neural_conditionals_learn_a_table_and_a_curve():
    source = torch.Generator().manual_seed(0)
    a, x = torch.randint(3, (4000,), generator=source), 2 * torch.rand(4000, generator=source) - 1
    truth = BayesianNetwork(
        {
            "a": Table([1 / 3, 1 / 3, 1 / 3]),
            "x": torch.distributions.Uniform(torch.tensor(-1.0), 1.0),
            "b": Table([[0.8, 0.2], [0.5, 0.5], [0.1, 0.9]], given="a"),
            "y": Given(lambda x, b: Normal(torch.sin(3 * x) + b, 0.2), given=["x", "b"]),
        }
    )
    data = truth.sample(4000, seed=1) | {"a": a, "x": x}
    data["b"] = truth.nodes["b"].draw([a], 4000, source)
    data["y"] = truth.nodes["y"].draw([x, data["b"]], 4000, source)
    net = BayesianNetwork(
        truth.nodes
        | {
            "b": Given(NeuralConditional([3], states=2), given="a", states=2),
            "y": Given(NeuralConditional([None, 2], hidden=(32, 32)), given=["x", "b"]),
        }
    )
    state = torch.random.get_rng_state()
    net.fit(data, trainer={"epochs": 25, "verbose": False}, seed=0)
    assert torch.equal(state, torch.random.get_rng_state())
    # a softmax over one-hot parents can be any table, and its maximum likelihood is the shares of counts
    with torch.no_grad():
        learned = net.nodes["b"].law([torch.arange(3)]).probs[:, 1]
        curve = net.nodes["y"].law([torch.linspace(-0.9, 0.9, 9), torch.ones(9, dtype=torch.int64)])
    shares = torch.stack([data["b"][a == k].float().mean() for k in range(3)])
    assert float((learned - shares).abs().max()) < 0.02
    assert float((curve.mean - torch.sin(3 * torch.linspace(-0.9, 0.9, 9)) - 1).abs().max()) < 0.12
    assert float((curve.scale - 0.2).abs().max()) < 0.08
    learned_term = net.log_prob(data, each=True)["y"].detach().mean()
    gap = truth.nodes["y"].log_prob(data["y"], [x, data["b"]]).mean() - learned_term
    assert abs(float(gap)) < 0.03


# -- pictures and bad input ---------------------------------------------------------------------------


def test_the_picture_has_every_name_and_arrow():
    net = sprinkler()
    figure = net.plot({"rain": net.posterior("rain", {"wet": 1})}, observed=["wet"])
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert {"rain", "sprinkler", "wet", "no", "yes", "0.64"} <= set(texts)
    assert sum(isinstance(patch, FancyArrowPatch) for patch in figure.axes[0].patches) == 3


def test_arrows_that_skip_layers_go_around_the_nodes():
    names = ["a", "x0", "x1", "x2", "x3"]
    chain = {name: [names[i - 1]] if i < 2 else ["a", names[i - 1]] for i, name in enumerate(names) if i}
    net = BayesianNetwork(
        {"a": LinearGaussian()} | {k: LinearGaussian([1.0] * len(v), given=v) for k, v in chain.items()}
    )
    axes = net.plot().axes[0]
    arrows = [patch for patch in axes.patches if isinstance(patch, FancyArrowPatch)]
    boxes = [patch.get_bbox() for patch in axes.patches if isinstance(patch, FancyBboxPatch)]
    assert len(arrows) == 7 and len(boxes) == 5
    for arrow in arrows:
        points = arrow._path_original.cleaned(curves=False).vertices[:-1]  # the last is where a cleaned path stops
        line = np.concatenate([np.linspace(p, q, 20) for p, q in itertools.pairwise(points)])[1:-1]
        for box in boxes:
            within = (line > [box.x0 + 0.02, box.y0 + 0.02]).all(1) & (line < [box.x1 - 0.02, box.y1 - 0.02]).all(1)
            assert not within.any()


TWO = {"a": Table([0.5, 0.5]), "b": Table([[0.5, 0.5], [0.1, 0.9]], given="a")}


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ({}, "no variables"),
        ({"a": Table([[0.5, 0.5]] * 2, given="b"), "b": TWO["b"]}, "circle, (a -> b -> a|b -> a -> b)"),
        ({"a": TWO["a"], "b": Table([[0.5, 0.5]] * 2, given="A")}, "unknown parent 'A'; did you mean 'a'"),
        ({"a": TWO["a"], "b": Table([[0.5, 0.5], [0.1, 0.8]], given="a")}, "row of 'b' for parents .*1.* sums to 0.9"),
        ({"a": Table([0.5, 0.6])}, "row of 'a' sums to 1.1"),
        ({"a": Table([-0.5, 1.5])}, "negative"),
        ({"a": TWO["a"], "b": Table([[0.5, 0.5]] * 3, given="a")}, r"must be \(2, 2\)"),
        ({"a": LinearGaussian(), "b": TWO["b"]}, "'a' is continuous"),
        ({"a": 3}, "must be a Table"),
        ({"a": TWO["a"], "b": Table([[0.5, 0.5]] * 2, given=["a", "a"])}, "twice"),
    ],
)
def test_networks_that_are_none(nodes, message):
    with pytest.raises(InvalidInput, match=message):
        BayesianNetwork(nodes)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda net: net.posterior("c"), "no variable 'c'"),
        (lambda net: net.posterior("a", {"a": 1}), "asked for and observed"),
        (lambda net: net.posterior(["a", "a"]), "once"),
        (lambda net: net.posterior("a", {"b": 2}), "whole number from 0 to 1"),
        (lambda net: net.posterior("a", {"b": 0.5}), "whole number from 0 to 1"),
        (lambda net: net.posterior("a", {"b": [0, 1]}), "observed 2 times"),
        (lambda net: net.log_prob({"a": 1}), r"\['b'\] have no value"),
        (lambda net: net.sample(0), "at least one"),
        (lambda net: net.sample(3, seed=0, generator=torch.Generator()), "both seed"),
        (lambda net: net.d_separated("a", "a"), "both sides"),
        (lambda net: net.normal(), "not LinearGaussian"),
        (lambda net: net.fit({"a": [0, 1]}), "have no data"),
        (lambda net: net.fit({"a": [0, 1], "b": [0, 1, 1]}), "must be the same"),
        (lambda net: net.fit({"a": [0, 1], "b": [0, 1]}, smoothing=-1), "negative"),
        (lambda net: net.fit({"a": [0, 1], "b": [0, 1]}, weight=[1.0]), "weight must be"),
        (lambda net: net.plot(observed=["z"]), "no variable 'z'"),
    ],
)
def test_questions_that_have_no_answer(call, message):
    with pytest.raises(InvalidInput, match=message):
        call(BayesianNetwork(TWO))


def test_more_bad_input():
    with pytest.raises(InvalidInput, match="'maybe'; its states are"):
        sprinkler().posterior("wet", {"rain": "maybe"})
    impossible = BayesianNetwork({"a": Table([1.0, 0.0]), "b": Table([[1.0, 0.0], [0.5, 0.5]], given="a")})
    with pytest.raises(InvalidInput, match="probability zero"):
        impossible.posterior("a", {"b": 1})
    with pytest.raises(InvalidInput, match="probability zero"):
        impossible.sample(3, given={"b": 1})
    assert impossible.log_evidence({"b": 1}) == -math.inf
    with pytest.raises(InvalidInput, match="every weight is zero"):
        impossible.likelihood_weighting(10, {"b": 1})
    with pytest.raises(InvalidInput, match="continuous and not observed"):
        BayesianNetwork({"x": LinearGaussian(), "y": LinearGaussian([1.0], given="x")}).posterior("x")
    with pytest.raises(InvalidInput, match="1 weights and 2 parents"):
        LinearGaussian([1.0], given=["a", "b"])
    with pytest.raises(InvalidInput, match="must be positive"):
        LinearGaussian(scale=0.0)
    with pytest.raises(InvalidInput, match="must give a torch distribution"):
        BayesianNetwork({"a": TWO["a"], "x": Given(lambda a: a, given="a")}).sample(3)
    with pytest.raises(InvalidInput, match="Independent"):
        BayesianNetwork({"a": TWO["a"], "x": Given(lambda a: Normal(torch.zeros(len(a), 2), 1.0), given="a")}).sample(3)
    with pytest.raises(InvalidInput, match="cannot depend on parents"):
        Given(Normal(0.0, 1.0), given="a")
    with pytest.raises(InvalidInput, match="exact linear function"):
        BayesianNetwork({"x": LinearGaussian()}).fit({"x": [1.0, 1.0]})
    with pytest.raises(InvalidInput, match="missing or infinite"):
        BayesianNetwork({"x": LinearGaussian()}).fit({"x": [1.0, math.nan]})
    many = {f"x{i}": Table([0.5, 0.5]) for i in range(30)}
    with pytest.raises(InvalidInput, match="use likelihood_weighting"):
        BayesianNetwork(many).posterior(list(many))
