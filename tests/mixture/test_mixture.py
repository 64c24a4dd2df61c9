"""Mixtures of any laws: EM that never falls, densities beside SciPy's, and EM written by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats
from scipy.special import digamma, gammaln, logsumexp, softmax
from sklearn.exceptions import ConvergenceWarning

import benthic
from benthic import ExponentialFamilyMixture, GaussianMixture, Mixture
from benthic.distributions.families import family_of
from benthic.mixture import student_kernels
from benthic.mixture.law_families import FamilyLaw
from benthic.mixture.law_student import StudentLaw
from benthic.mixture.sticks import Sticks

pytestmark = [
    pytest.mark.spec("H-02"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]
RNG = np.random.default_rng(0)
BLOBS = np.concatenate([RNG.normal(c, 0.6, (80, 2)) for c in ([0, 0], [4, 4], [0, 5])])
COUNTS = np.concatenate([RNG.poisson([2, 9, 1], (150, 3)), RNG.poisson([8, 2, 5], (150, 3))]).astype(float)
TAILS = np.concatenate(
    [
        stats.multivariate_t.rvs([0, 0], [[1, 0.5], [0.5, 1]], df=3, size=200, random_state=1),
        stats.multivariate_t.rvs([6, 4], np.eye(2), df=12, size=200, random_state=2),
    ]
)
TURNS = np.concatenate(
    [
        stats.vonmises_fisher([1, 0, 0], 20).rvs(150, random_state=1),
        stats.vonmises_fisher([0, 0.6, 0.8], 6).rvs(200, random_state=2),
    ]
)
CODES = np.stack([RNG.integers(3, size=200), RNG.integers(2, size=200) * 5], 1).astype(float)
CODES[:100, 1] = np.where(CODES[:100, 0] > 0, 5, 0)


def table() -> pd.DataFrame:
    """A frame of every kind of column, in two groups."""
    rng, n = np.random.default_rng(3), 120
    group = rng.integers(2, size=n)
    return pd.DataFrame(
        {
            "age": rng.normal(30 + 20 * group, 5),
            "height": rng.normal(170 - 10 * group, 6),
            "visits": rng.poisson(2 + 8 * group),
            "city": np.where(rng.random(n) < 0.2 + 0.6 * group, "Rome", "Bern"),
            "smokes": rng.random(n) < 0.1 + 0.5 * group,
        }
    )


def holed(X: np.ndarray, share: float = 0.2) -> np.ndarray:
    """With gaps, but no row of gaps alone."""
    X = X.copy()
    gaps = np.random.default_rng(5).random(X.shape) < share
    gaps[gaps.all(1)] = False
    X[gaps] = np.nan
    return X


CASES = {
    "normal": (BLOBS, "normal"),
    "normal with gaps": (holed(BLOBS), "normal"),
    "t": (TAILS, "t"),
    "t with gaps": (holed(TAILS), "t"),
    "t columns": (TAILS, ["t", "t"]),
    "t columns with gaps": (holed(TAILS), ["t", "t"]),
    "poisson": (COUNTS, "poisson"),
    "poisson with gaps": (holed(COUNTS), "poisson"),
    "directions": (TURNS, "von_mises_fisher"),
    "categories": (CODES, "categorical"),
    "categories with gaps": (holed(CODES), "categorical"),
    "mixed": (np.c_[COUNTS, RNG.normal(size=(300, 2))], ["poisson", "poisson", "categorical", "normal", "t"]),
}


def rises(model: Mixture) -> np.ndarray:
    """Changes of the objective from step to step of each start."""
    parts = pd.DataFrame(model.history_).groupby("restart")["objective"]
    return np.concatenate([np.diff(values) for _, values in parts])


# -- the theory --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("alpha", [None, 0.5])
def test_no_step_lowers_the_objective(name, alpha):
    X, components = CASES[name]
    model = Mixture(3, components=components, weight_concentration=alpha, tol=0, max_iter=12, random_state=0).fit(X)
    found = rises(model)
    assert found.min() > -1e-10 and found.max() > 0
    without = Mixture(3, components=components, reg=0.0, tol=0, max_iter=8, random_state=0).fit(X)
    plain = np.diff([entry["log_likelihood"] for entry in without.history_])
    assert plain.min() > -1e-10  # without a prior the log-likelihood itself rises


def poisson_em(X, labels, steps):
    """EM of Poisson columns written by hand."""
    k = labels.max() + 1
    share = np.eye(k)[labels]
    for _ in range(steps + 1):
        weights, rates = share.mean(0), (share.T @ X) / share.sum(0)[:, None]
        joint = np.log(weights) + stats.poisson.logpmf(X[:, None], rates).sum(2)
        share = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
    return weights, rates


def t_em(X, labels, steps, df):
    """EM of t columns with fixed degrees of freedom written by hand."""
    k = labels.max() + 1
    share, u = np.eye(k)[labels], 1.0
    means = scales = None
    for step in range(steps + 1):
        w = share[:, :, None] * u
        means = (w * X[:, None]).sum(0) / w.sum(0) if step else (w * X[:, None]).sum(0) / share.sum(0)[:, None]
        scales = np.sqrt((w * (X[:, None] - means) ** 2).sum(0) / share.sum(0)[:, None])
        weights = share.mean(0)
        joint = np.log(weights) + stats.t.logpdf(X[:, None], df, means, scales).sum(2)
        share = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
        u = (df + 1) / (df + ((X[:, None] - means) / scales) ** 2)
    return weights, means, scales


def test_poisson_steps_are_those_written_by_hand():
    labels = np.random.default_rng(1).integers(2, size=len(COUNTS))
    labels[:100] = 0
    model = Mixture(2, components="poisson", init=labels, reg=0.0, max_iter=20, tol=0).fit(COUNTS)
    weights, rates = poisson_em(COUNTS, labels, 20)
    np.testing.assert_allclose(model.weights_, weights, rtol=1e-9)
    np.testing.assert_allclose(model.parameters_[0]["rate"], rates, rtol=1e-9)


def test_t_steps_are_those_written_by_hand():
    labels = (TAILS[:, 0] > 2).astype(int)
    model = Mixture(2, components=["t", "t"], df=4, init=labels, reg=0.0, max_iter=15, tol=0).fit(TAILS)
    weights, means, scales = t_em(TAILS, labels, 15, 4.0)
    found = model.parameters_[0]
    np.testing.assert_allclose(model.weights_, weights, rtol=1e-9)
    np.testing.assert_allclose(found["mean"], means, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(found["scale"], scales, rtol=1e-8)


def test_a_normal_mixture_is_the_gaussian_mixture():
    ours = Mixture(3, components="normal", reg=0.0, tol=1e-12, max_iter=500, random_state=0).fit(BLOBS)
    theirs = GaussianMixture(3, reg_covar=0.0, tol=1e-12, max_iter=500, random_state=0).fit(BLOBS)
    assert ours.score(BLOBS) == pytest.approx(theirs.score(BLOBS), abs=1e-8)
    order = [int(np.argmin(((theirs.means_ - m) ** 2).sum(1))) for m in ours.parameters_[0]["mean"]]
    np.testing.assert_allclose(ours.parameters_[0]["covariance"], theirs.covariances_[order], rtol=1e-4)
    np.testing.assert_allclose(ours.impute([[4.0, np.nan]]), theirs.impute([[4.0, np.nan]]), rtol=1e-5)


def test_one_component_is_the_maximum_likelihood_of_the_law():
    one = Mixture(1, components="t", reg=0.0, tol=1e-13, max_iter=3000).fit(TAILS[:200])
    found = {name: value[0] for name, value in one.parameters_[0].items() if name in ("mean", "covariance", "df")}
    best = stats.multivariate_t.logpdf(TAILS[:200], found["mean"], found["covariance"], found["df"]).sum()
    for change in (0.97, 1.03):  # a maximum: no parameter can be moved to advantage
        for moved in (
            {**found, "df": found["df"] * change},
            {**found, "covariance": found["covariance"] * change},
            {**found, "mean": found["mean"] + (change - 1)},
        ):
            assert (
                best > stats.multivariate_t.logpdf(TAILS[:200], moved["mean"], moved["covariance"], moved["df"]).sum()
            )
    turns = Mixture(1, components="von_mises_fisher", reg=0.0).fit(TURNS[:150]).parameters_[0]
    direction, kappa = stats.vonmises_fisher.fit(TURNS[:150])
    np.testing.assert_allclose(turns["direction"][0], direction, atol=1e-9)
    assert turns["concentration"][0] == pytest.approx(kappa, rel=1e-6)


def test_degrees_of_freedom_are_learned():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.standard_t(3, (1500, 1)), 30 + rng.standard_t(30, (1500, 1))])
    model = Mixture(2, components=["t"], tol=1e-7, max_iter=150, random_state=0).fit(X)
    low, high = np.sort(model.parameters_[0]["df"][:, 0])
    assert 2.5 < low < 3.5 and high > 8


# -- densities -----------------------------------------------------------------------------------------------


def test_densities_agree_with_scipy():
    model = Mixture(2, components="t", random_state=0).fit(TAILS)
    p, w = model.parameters_[0], model.weights_
    parts = [
        stats.multivariate_t.logpdf(TAILS, m, C, v) for m, C, v in zip(p["mean"], p["covariance"], p["df"], strict=True)
    ]
    np.testing.assert_allclose(model.log_prob(TAILS), logsumexp(np.log(w)[:, None] + parts, axis=0), rtol=1e-10)
    gone = TAILS.copy()
    gone[:, 0] = np.nan  # the margin of a t is a t
    parts = [
        stats.t.logpdf(TAILS[:, 1], v, m[1], np.sqrt(C[1, 1]))
        for m, C, v in zip(p["mean"], p["covariance"], p["df"], strict=True)
    ]
    np.testing.assert_allclose(model.log_prob(gone), logsumexp(np.log(w)[:, None] + parts, axis=0), rtol=1e-10)
    columns = Mixture(2, components=["t", "t"], random_state=0).fit(TAILS)
    p, w = columns.parameters_[0], columns.weights_
    parts = stats.t.logpdf(TAILS[:, None], p["df"], p["mean"], p["scale"]).sum(2).T
    np.testing.assert_allclose(columns.log_prob(TAILS), logsumexp(np.log(w)[:, None] + parts, axis=0), rtol=1e-10)
    turns = Mixture(2, components="von_mises_fisher", random_state=0).fit(TURNS)
    p, w = turns.parameters_[0], turns.weights_
    parts = [stats.vonmises_fisher(m, c).logpdf(TURNS) for m, c in zip(p["direction"], p["concentration"], strict=True)]
    np.testing.assert_allclose(turns.log_prob(TURNS), logsumexp(np.log(w)[:, None] + parts, axis=0), rtol=1e-9)
    np.testing.assert_allclose(turns.log_prob(7 * TURNS), turns.log_prob(TURNS), rtol=1e-9)  # lengths do not count


def test_masses_of_categories_sum_to_one():
    model = Mixture(2, components="categorical", random_state=0).fit(CODES)
    every = np.array([[a, b] for a in (0, 1, 2) for b in (0, 5)], dtype=float)
    assert np.exp(model.log_prob(every)).sum() == pytest.approx(1.0, abs=1e-12)
    assert model.likelihood(every).measure == "mass" and not hasattr(model, "grad_log_prob")
    one = np.exp(model.log_prob([[0, np.nan], [1, np.nan], [2, np.nan]]))
    np.testing.assert_allclose(one, [(CODES[:, 0] == v).mean() for v in range(3)], atol=2e-3)


def test_the_families_are_those_of_the_preset():
    ours = Mixture(2, components="poisson", random_state=0).fit(COUNTS)
    preset = ExponentialFamilyMixture(2, family="poisson", random_state=0).fit(COUNTS)
    np.testing.assert_allclose(ours.log_prob(COUNTS), preset.log_prob(COUNTS), rtol=1e-12)


def test_gradients_are_those_of_the_density():
    model = Mixture(2, components="t", random_state=0).fit(TAILS)
    at, step = TAILS[:5], 1e-5
    slopes = [(model.log_prob(at + step * e) - model.log_prob(at - step * e)) / (2 * step) for e in np.eye(2)]
    np.testing.assert_allclose(model.grad_log_prob(at), np.stack(slopes, 1), rtol=1e-5, atol=1e-6)


# -- compiled parts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_compiled_shares_are_those_of_scipy(weighted):
    rng = np.random.default_rng(0)
    joint, offset = rng.normal(0, 200, (5, 1000)), np.log(rng.dirichlet(np.ones(5)))
    joint[:, 3] = -1e5  # far from all components
    joint[:, 4], joint[2, 4] = -5e4, 2e4  # and at one of them alone
    weight = rng.random(1000) if weighted else np.ones(0)
    each = weight if weighted else np.ones(1000)
    total = logsumexp(joint + offset[:, None], axis=0)
    expected = each * softmax(joint + offset[:, None], axis=0)
    found = student_kernels.shares_of(joint, offset, weight)
    assert found == pytest.approx(each @ total, rel=1e-14)
    np.testing.assert_allclose(joint, expected, rtol=1e-13, atol=1e-250)  # e^-600 stands for next to nothing
    joint[1, 7] = np.nan
    assert np.isnan(student_kernels.shares_of(joint, offset, weight))


@pytest.mark.parametrize("df", [4.0, None])
@pytest.mark.parametrize("columns", [1, 4, 7])
@pytest.mark.parametrize("far", [1.0, 5e3])
def test_compiled_t_columns_are_those_of_scipy(df, columns, far):
    rng = np.random.default_rng(1)
    X = torch.tensor(rng.standard_t(3, (333, columns)))
    law = StudentLaw(range(columns), df)
    law.settle(X, torch.ones(333, dtype=torch.float64))
    X[5] *= far
    rows, shares = law.read(X), torch.tensor(rng.dirichlet(np.ones(3), 333).T.copy())
    nu = rng.uniform(1, 30, (3, columns)) if df is None else np.full((3, columns), df)
    narrow = np.array([1.0, 0.3, 1e-5])[:, None] * np.ones((3, columns))
    known = {
        name: torch.tensor(v) for name, v in {"mean": rng.normal(size=(3, columns)), "scale": narrow, "df": nu}.items()
    }
    assert rows.compiled
    expected = stats.t.logpdf(rows.Z.numpy(), nu[:, None], known["mean"].numpy()[:, None], narrow[:, None]).sum(2)
    np.testing.assert_allclose(law.kernel(rows, known), expected, rtol=1e-11)
    plain = rows._replace(gaps=True)  # as if there were gaps: the sums that torch takes
    np.testing.assert_allclose(law.kernel(plain, known), expected, rtol=1e-11)
    theirs = law.sums(plain, shares, known)
    for name, value in law.sums(rows, shares, known).items():
        np.testing.assert_allclose(value, theirs[name], rtol=1e-10, atol=1e-10, err_msg=name)


def test_base_of_counts_is_the_same_from_a_table_as_one_by_one():
    for top in (20, 10**6):  # the larger are too many for a table
        X = np.random.default_rng(2).integers(0, top, (3000, 3)).astype(np.float32)
        law = FamilyLaw(range(3), [family_of("poisson")] * 3)
        law.settle(torch.tensor(X), torch.ones(3000, dtype=torch.float64))
        expected = -gammaln(X.astype(float) + 1)
        np.testing.assert_allclose(law.base(torch.tensor(X)), expected.sum(1), rtol=1e-13)
        X[::7, 1], expected[::7, 1] = np.nan, 0.0
        np.testing.assert_allclose(law.base(torch.tensor(X)), expected.sum(1), rtol=1e-13)


def test_large_tables_take_the_steps_of_small_ones():
    rng = np.random.default_rng(3)
    labels = rng.integers(3, size=600)
    X = rng.poisson(rng.gamma(4.0, 1.0, (3, 4))[labels]).astype(float)
    T = rng.normal(0, 2, (3, 4))[labels] + rng.standard_t(4, (600, 4))
    for table, components in ((X, "poisson"), (T, ["t"] * 4)):
        found = []
        for times in (1, 40):  # compiled shares and several blocks only in the second
            model = Mixture(3, components=components, init=np.tile(labels, times), reg=0.0, max_iter=5, tol=0)
            found.append(model.fit(np.tile(table, (times, 1))).log_prob(table))
        np.testing.assert_allclose(found[1], found[0], rtol=1e-9)


# -- weights, gaps, draws ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_a_weight_is_a_repeated_row(name):
    X, components = CASES[name]
    weight = np.random.default_rng(2).integers(0, 4, size=len(X))
    settings = {"components": components, "random_state": 0, "max_iter": 8, "tol": 0, "split_merge": 1}
    weighted = Mixture(3, **settings).fit(X, sample_weight=weight)
    repeated = Mixture(3, **settings).fit(np.repeat(X, weight, axis=0))
    seen = X[weight > 0]
    np.testing.assert_allclose(weighted.log_prob(seen), repeated.log_prob(seen), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("name", ["t", "t columns", "mixed", "directions", "categories"])
def test_draws_follow_the_density(name):
    X, components = CASES[name]
    model = Mixture(2, components=components, random_state=0).fit(X)
    drawn = model.sample(20000, seed=1)
    fresh = model.log_prob(model.sample(20000, seed=2))
    both = model.log_prob(drawn)
    error = 5 * np.sqrt((both.var() + fresh.var()) / 20000)
    assert abs(both.mean() - fresh.mean()) < error
    again = Mixture(2, components=components, init=model.predict_proba(drawn), max_iter=1).fit(drawn)
    assert abs(again.score(X) - model.score(X)) < 0.1  # one step from the truth on its own draws stays there


def test_draws_of_a_t_given_a_column_follow_its_conditional():
    model = Mixture(1, components="t", df=6.0, reg=0.0).fit(TAILS[:200])
    mean, C = model.parameters_[0]["mean"][0], model.parameters_[0]["covariance"][0]
    drawn = model.sample(20000, given=[[2.5, np.nan]], seed=0)[:, 1]
    gap = 2.5 - mean[0]
    center, scale2 = mean[1] + C[1, 0] / C[0, 0] * gap, C[1, 1] - C[1, 0] ** 2 / C[0, 0]
    scale = np.sqrt(scale2 * (6 + gap**2 / C[0, 0]) / 7)  # a t with one more degree of freedom
    assert stats.kstest(drawn, stats.t(7, center, scale).cdf).pvalue > 1e-5
    assert model.impute([[2.5, np.nan]])[0, 1] == pytest.approx(center, rel=1e-6)


# -- how many components --------------------------------------------------------------------------------------


@pytest.mark.parametrize("criterion", ["bic", "icl"])
def test_criteria_find_the_number_of_clusters(criterion):
    model = Mixture(criterion, max_components=5, random_state=0).fit(BLOBS)
    assert model.n_components_ == 3 and min(model.selection_, key=model.selection_.get) == 3
    assert model.selection_[3] == pytest.approx(model.bic(BLOBS) if criterion == "bic" else model.icl(BLOBS))
    assert "chosen by" in model.summary() and criterion in model.summary()
    few = Mixture(criterion, max_components=8, random_state=0).fit(BLOBS[[0, 100, 200]])
    assert max(few.selection_) == 3  # never more components than rows


def test_a_dirichlet_process_empties_what_it_does_not_need():
    model = Mixture(8, components="poisson", weight_concentration=1.0, max_iter=500, tol=1e-6, random_state=0).fit(
        COUNTS
    )
    assert (model.weights_[:2] > 0.4).all() and model.weights_[2:].max() < 0.02
    assert (np.diff(model.weights_) <= 1e-12).all() and model.weights_.sum() == pytest.approx(1)


def test_expected_sticks_are_those_of_their_posterior():
    count = torch.tensor([30.0, 12.0, 3.0, 0.0], dtype=torch.float64)
    weights = Sticks(2.0).maximize(count)
    a, b = 1 + count.numpy()[:3], 2.0 + np.array([15.0, 3.0, 0.0])
    rng = np.random.default_rng(0)
    v = np.c_[rng.beta(a, b, (400000, 3)), np.ones(400000)]
    drawn = v * np.cumprod(np.c_[np.ones(400000), 1 - v[:, :-1]], axis=1)
    np.testing.assert_allclose(weights.value, drawn.mean(0), atol=2e-3)
    assert float(weights.log[0]) == pytest.approx(digamma(31) - digamma(48))


def test_splitting_and_merging_leaves_a_bad_start():
    labels = np.where(np.arange(len(BLOBS)) < 80, RNG.integers(2, size=len(BLOBS)), 2)  # one cluster cut, two joined
    stuck = Mixture(3, init=labels, random_state=0, max_iter=200).fit(BLOBS)
    freed = Mixture(3, init=labels, split_merge=2, random_state=0, max_iter=200).fit(BLOBS)
    best = Mixture(3, n_init=5, random_state=0, max_iter=200).fit(BLOBS)
    assert stuck.score(BLOBS) < best.score(BLOBS) - 0.05
    assert freed.score(BLOBS) == pytest.approx(best.score(BLOBS), abs=1e-3)


# -- streams -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["normal", "t", "t columns", "poisson", "categories"])
def test_a_stream_ends_near_the_whole(name):
    X, components = CASES[name]
    X = X[80:] if name == "normal" else X  # two of the three clusters, so that there is one best place to end
    gaps = []
    for seed in range(6 if name == "categories" else 1):  # there one start in ten ends 0.1 lower
        settings = {"components": components, "random_state": seed}
        whole = Mixture(2, tol=1e-6, max_iter=300, **settings).fit(X)
        steps = Mixture(2, batch_size=64, trainer={"epochs": 8}, **settings).fit(X)
        stream = Mixture(2, **settings)
        for epoch in range(4):
            order = np.random.default_rng(epoch).permutation(len(X))
            for part in np.array_split(order, 6):
                stream.partial_fit(X[part])
        assert stream.stream_["steps"] == 24 and stream.stream_["seen"] == 4 * len(X)
        gaps.append([whole.score(X) - model.score(X) for model in (steps, stream)])
    assert np.mean(gaps, axis=0).max() < 0.06


def test_a_stream_of_one_batch_is_one_step():
    first = Mixture(2, components="poisson", random_state=0).partial_fit(COUNTS)
    step = Mixture(2, components="poisson", random_state=0, max_iter=1).fit(COUNTS)
    np.testing.assert_allclose(first.log_prob(COUNTS), step.log_prob(COUNTS), rtol=1e-10)


def test_files_are_learned_from_and_checked(tmp_path):
    np.save(tmp_path / "counts.npy", COUNTS)
    there = Mixture(2, components="poisson", random_state=0).fit(tmp_path / "counts.npy")
    here = Mixture(2, components="poisson", random_state=0).fit(COUNTS)
    np.testing.assert_allclose(there.log_prob(COUNTS), here.log_prob(COUNTS), rtol=1e-9)
    chosen = Mixture("bic", components="poisson", max_components=3, random_state=0).fit(tmp_path / "counts.npy")
    assert chosen.n_components_ == 2


def test_the_number_of_threads_changes_nothing():
    X, before = np.random.default_rng(0).standard_t(4, (5000, 3)), torch.get_num_threads()
    for components in (["t", "t", "t"], "normal"):
        found = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            try:
                found.append(Mixture(20, components=components, max_iter=3, tol=0, random_state=0).fit(X).log_prob(X))
            finally:
                torch.set_num_threads(before)
        np.testing.assert_allclose(found[0], found[1], rtol=1e-12)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_gpu_finds_the_same():
    for X, components in CASES.values():
        here = Mixture(2, components=components, max_iter=5, tol=0, random_state=0).fit(X)
        there = Mixture(2, components=components, max_iter=5, tol=0, random_state=0).fit(torch.tensor(X, device="cuda"))
        np.testing.assert_allclose(there.log_prob(X), here.log_prob(X), rtol=1e-6, atol=1e-6)


# -- tables ------------------------------------------------------------------------------------------------


def test_a_mixed_table_comes_back_as_a_table(tmp_path):
    frame = table()
    frame.loc[3, "age"], frame.loc[4, "city"] = None, None
    model = Mixture(2, random_state=0).fit(frame)
    laws = {law["law"]: law["columns"] for law in model.parameters_}
    assert laws == {"elliptical": [0, 1], "families": [2, 5], "categorical": [3, 4]}
    drawn = model.sample(50, seed=0)
    assert list(drawn.dtypes) == list(frame.dtypes) and drawn["visits"].min() >= 0
    filled = model.impute(frame)
    assert not filled.isna().any().any() and filled.loc[0, "city"] == frame.loc[0, "city"]
    old = model.sample(200, given=pd.DataFrame([{**frame.iloc[0], "age": 60.0, "visits": None, "city": None}]), seed=0)
    assert (old["age"] == 60.0).all() and old["visits"].mean() > 6
    loaded = benthic.load(model.save(tmp_path / "m.safetensors"))
    np.testing.assert_array_equal(loaded.log_prob(frame), model.log_prob(frame))
    assert len(model.plot(frame).axes) >= 5 and "poisson, bernoulli" in model.summary()


def test_laws_by_name_of_column():
    frame = table()
    model = Mixture(2, components={("age", "height"): "t", "visits": "geometric"}, random_state=0).fit(frame)
    assert [law["law"] for law in model.parameters_] == ["elliptical", "families", "categorical"]
    assert "df" in model.parameters_[0]
    one = Mixture(2, components={"age": "t"}, random_state=0).fit(frame)
    assert {law["law"] for law in one.parameters_} == {"elliptical", "student", "families", "categorical"}
    arrays = Mixture(2, components={0: "normal", (1, 2): "von_mises_fisher"}, random_state=0).fit(TURNS)
    assert arrays.sample(3).shape == (3, 3)


@pytest.mark.parametrize("components", ["von_mises_fisher", "categorical", ["t", "normal", "t"], "t"])
def test_every_law_is_saved_and_pictured(components, tmp_path):
    X = np.c_[CODES, CODES[:, :1]] + (0 if components == "categorical" else 1 + TURNS[:200])
    model = Mixture(2, components=components, random_state=0).fit(X)
    loaded = benthic.load(model.save(tmp_path / "m.safetensors"))
    np.testing.assert_array_equal(loaded.log_prob(X), model.log_prob(X))
    np.testing.assert_array_equal(loaded.sample(4, seed=0), model.sample(4, seed=0))
    assert model.plot().axes and model.plot(X).axes
    loaded.partial_fit(X)  # and can be gone on with


# -- bad input ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "X", "words"),
    [
        ({"components": "poisson"}, -COUNTS, "fit: column 0 has .* poisson family allows only whole numbers >= 0"),
        ({"n_components": 9}, BLOBS[:5], "n_components = 9, n_samples = 5"),
        ({"components": "von_mises_fisher"}, np.r_[TURNS, np.zeros((1, 3))], "row 350 is a zero vector"),
        ({"components": "von_mises_fisher"}, holed(TURNS), "has NaN, and a direction needs all"),
        ({"components": "categorical"}, BLOBS, "not one of categories"),
        ({"components": "poison"}, COUNTS, "did you mean 'poisson'"),
        ({"components": ["t"]}, COUNTS, "lists 1 laws for 3 columns"),
        ({"components": {"age": "t"}}, COUNTS, "names column 'age', which X has not"),
        ({"components": {0: "t", (0, 1): "normal"}}, COUNTS, "names column 0 twice"),
        ({"n_components": "bik"}, BLOBS, "did you mean 'bic'"),
        ({"init": np.zeros(4)}, BLOBS, "init has shape"),
        ({"init": "kmean"}, BLOBS, "init 'kmean' is unknown"),
        ({"step_power": 0.4}, BLOBS, "step_power is 0.4"),
        ({"weight_concentration": -1.0}, BLOBS, "weight_concentration is -1.0"),
        ({}, np.c_[BLOBS, np.full(len(BLOBS), np.nan)], "column 2 of X has no observed value"),
    ],
)
def test_unusable_input_is_refused_in_one_sentence(settings, X, words):
    with pytest.raises(ValueError, match=words) as caught:
        Mixture(**{"n_components": 2, **settings}).fit(X)
    assert str(caught.value).startswith("Mixture.fit: ") and "\n" not in str(caught.value)


def test_unseen_categories_are_named():
    codes = Mixture(2, components="categorical", random_state=0).fit(CODES)
    with pytest.raises(
        ValueError, match=r"Mixture.predict: column 1 holds 7, which is not among its 2 categories \(0, 5"
    ):
        codes.predict([[0, 7]])
    frame = table()
    model = Mixture(2, random_state=0).fit(frame)
    frame.loc[0, "city"] = "Oslo"
    with pytest.raises(ValueError, match="'Oslo', which is not among"):
        model.predict(frame)
    with pytest.raises(ValueError, match="holds categories, so its law is 'categorical', not 'poisson'"):
        Mixture(components={"city": "poisson"}).fit(table())


@pytest.mark.parametrize("components", ["normal", "t", ["t", "t"], ["normal", "normal"], "von_mises_fisher"])
def test_duplicated_points_do_not_collapse(components):
    X = np.repeat([[1.0, 2.0], [3.0, -1.0], [5.0, 5.0]], 20, axis=0)
    model = Mixture(4, components=components, random_state=0).fit(X)
    assert np.isfinite(model.log_prob(X)).all() and np.isfinite(model.sample(5, seed=0)).all()
    constant = np.c_[BLOBS, np.full(len(BLOBS), 3.0)]
    kinds = [*components, components[0]] if isinstance(components, list) else components
    assert np.isfinite(Mixture(2, components=kinds, random_state=0).fit(constant).log_prob(constant)).all()


def test_a_stream_needs_a_number_and_enough_rows():
    with pytest.raises(ValueError, match="Mixture.partial_fit: choosing n_components needs all rows"):
        Mixture("bic").partial_fit(BLOBS)
    with pytest.raises(ValueError, match="the first batch has 2 rows, fewer than n_components=3"):
        Mixture(3).partial_fit(BLOBS[:2])
    with pytest.raises(ValueError, match="sample_weight needs whole passes"):
        Mixture(3, batch_size=10).fit(BLOBS, sample_weight=np.ones(len(BLOBS)))


@pytest.mark.parametrize("model", [GaussianMixture(4), Mixture(4, components="normal")], ids=["normal", "laws"])
def test_fewer_different_rows_than_components_are_said(model):
    X = np.repeat([[-0.7, -0.2], [1.7, 0.7]], 7, axis=0)
    with pytest.warns(ConvergenceWarning, match=r"distinct clusters \(2\) found smaller than the number asked for"):
        model.set_params(random_state=0).fit(X)
    assert np.isfinite(model.score(X))
