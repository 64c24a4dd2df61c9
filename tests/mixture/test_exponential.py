"""The mixture of exponential families: EM's laws, planted truths, gaps, weights, files."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import integrate, stats
from scipy.special import logsumexp

import benthic
from benthic import ExponentialFamilyMixture, GaussianMixture
from benthic.distributions.families import NAMED
from benthic.mixture.common import Restarts
from benthic.training.callbacks import Callback
from tests.distributions.test_exponential import Rayleigh

pytestmark = [
    pytest.mark.spec("H-02"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

WEIGHTS = np.array([0.35, 0.65])
# two components of each family, well apart
PLANTED = {
    "normal": [stats.norm(-2.0, 0.5), stats.norm(3.0, 1.5)],
    "poisson": [stats.poisson(2.0), stats.poisson(20.0)],
    "exponential": [stats.expon(scale=0.02), stats.expon(scale=3.0)],
    "geometric": [stats.geom(0.9, loc=-1), stats.geom(0.02, loc=-1)],
    "gamma": [stats.gamma(3.0, scale=0.2), stats.gamma(20.0, scale=0.5)],
    "beta": [stats.beta(2.0, 12.0), stats.beta(15.0, 4.0)],
    "lognormal": [stats.lognorm(0.5, scale=1.0), stats.lognorm(0.3, scale=40.0)],
}


def planted(name, n, seed=0, columns=1):
    """Rows of the planted mixture and the component of each."""
    rng = np.random.default_rng(seed)
    which = rng.choice(2, n, p=WEIGHTS)
    if name == "bernoulli":
        p = np.array([[0.1], [0.8]])
        return (rng.random((n, columns)) < p[which]).astype(float), which
    drawn = np.stack([law.rvs((n, columns), random_state=rng) for law in PLANTED[name]])
    return drawn[which, np.arange(n)].astype(float), which


def mix(family, **params):
    return ExponentialFamilyMixture(2, family=family, random_state=0, **params)


# -- EM ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("name", NAMED)
def test_em_never_lowers_the_likelihood(name, gaps):
    X, _ = planted(name, 400, columns=3)
    if gaps:
        X[np.random.default_rng(1).random(X.shape) < 0.3] = np.nan
    for n_components in (2, 4):
        free = ExponentialFamilyMixture(n_components, family=name, reg=0, tol=0, max_iter=25, random_state=0).fit(X)
        rises = np.diff([entry["log_likelihood"] for entry in free.history_])
        assert rises.min() > -1e-10 and rises.max() > 0
        held = free.set_params(reg=2.0).fit(X)
        rises = np.diff([entry["objective"] for entry in held.history_])
        assert rises.min() > -1e-10 and rises.max() > 0


def test_the_normal_family_is_the_diagonal_gaussian_mixture():
    X, _ = planted("normal", 500, columns=3)
    X = X * [1.0, 100.0, 1e-3] + [1e3, 0.0, 0.0]
    start = mix("normal", reg=0, tol=0, max_iter=1).fit(X)
    ours = mix("normal", reg=0, tol=0, max_iter=12).fit(X)
    theirs = GaussianMixture(
        2,
        covariance_type="diag",
        tol=0,
        max_iter=11,
        reg_covar=0,
        weights_init=start.weights_,
        means_init=start.parameters_["mean"],
        precisions_init=1 / start.parameters_["variance"],
    ).fit(X)
    np.testing.assert_allclose(ours.weights_, theirs.weights_, rtol=1e-9)
    np.testing.assert_allclose(ours.parameters_["mean"], theirs.means_, rtol=1e-9)
    np.testing.assert_allclose(ours.parameters_["variance"], theirs.covariances_, rtol=1e-8)
    np.testing.assert_allclose(ours.log_prob(X), theirs.log_prob(X), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(ours.grad_log_prob(X), theirs.grad_log_prob(X), rtol=1e-7, atol=1e-7)
    assert ours.bic(X) == pytest.approx(theirs.bic(X)) and ours.aic(X) == pytest.approx(theirs.aic(X))


@pytest.mark.parametrize("name", PLANTED)
def test_planted_components_are_found(name):
    n = 3000
    X, which = planted(name, n)
    model = mix(name, tol=1e-9, max_iter=500, reg=1e-6).fit(X)
    order = np.argsort(model.means_[:, 0])
    laws = PLANTED[name]
    logs = np.stack([law.logpmf(X[:, 0]) if hasattr(law.dist, "pmf") else law.logpdf(X[:, 0]) for law in laws])
    truth = logsumexp(logs + np.log(WEIGHTS)[:, None], axis=0).sum()
    # Wilks, 1938: twice the gain of the maximum over the truth is chi-squared with as many degrees as parameters
    gain = 2 * (n * model.score(X) - truth)
    freedom = 2 * NAMED[name].size + 1
    assert -1e-3 < gain < stats.chi2.ppf(0.9999, freedom)
    for k, law in enumerate(laws):
        error = law.std() / math.sqrt(n * WEIGHTS[k])  # of the mean if labels were known; they nearly are
        assert abs(model.means_[order[k], 0] - law.mean()) < 6 * error
    assert abs(model.weights_[order[0]] - WEIGHTS[0]) < 6 * math.sqrt(WEIGHTS[0] * WEIGHTS[1] / n)
    right = np.argsort(order)[model.predict(X)] == which
    best = (logs + np.log(WEIGHTS)[:, None]).argmax(0) == which
    assert right.mean() > best.mean() - 0.01


def test_latent_classes_of_answers_are_found():
    X, which = planted("bernoulli", 3000, columns=8)
    model = mix("bernoulli", tol=1e-8, max_iter=300).fit(X)
    low = int(model.means_.mean(1).argmin())
    error = math.sqrt(0.25 / (3000 * WEIGHTS[0]))
    np.testing.assert_allclose(model.parameters_["p"][low], 0.1, atol=5 * error)
    np.testing.assert_allclose(model.parameters_["p"][1 - low], 0.8, atol=5 * error)
    assert ((model.predict(X) == low) == (which == 0)).mean() > 0.98


def test_restarts_keep_the_best():
    X, _ = planted("poisson", 300, columns=2)
    model = ExponentialFamilyMixture(5, family="poisson", n_init=6, random_state=0).fit(X)
    ends = {}
    for entry in model.history_:
        ends[entry["restart"]] = entry
    assert set(ends) == set(range(6)) and len({round(e["objective"], 9) for e in ends.values()}) > 1
    best = max(ends.values(), key=lambda entry: entry["objective"])
    assert model.lower_bound_ == best["log_likelihood"]
    assert model.converged_ and model.n_iter_ <= model.max_iter


def test_restart_bookkeeping():
    restarts = Restarts(total=2, tol=0.1, max_iter=3)
    assert [restarts.ends(v) for v in (1.0, 2.0, 3.0)] == [False, False, True] and not restarts.converged
    restarts.keep({"found": "first"})
    assert restarts.advance() and not restarts.under_way
    assert [restarts.ends(v) for v in (2.0, 2.05)] == [False, True] and restarts.converged
    copy = Restarts(total=2, tol=0.1, max_iter=3)
    copy.load(restarts.state())
    assert copy == restarts
    restarts.keep({"found": "second"})
    assert restarts.best["found"] == "first" and restarts.best["iterations"] == 3
    assert not restarts.advance() and restarts.done


# -- collapse ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMED)
def test_constant_columns_and_repeated_rows_stay_finite(name):
    x = {"bernoulli": 1.0, "beta": 0.25}.get(name, 4.0)
    X, _ = planted(name, 60)
    rows = np.concatenate([np.concatenate([X, np.full((60, 1), x)], 1), np.full((30, 2), x)])
    model = ExponentialFamilyMixture(4, family=name, random_state=0, max_iter=200).fit(rows)
    assert np.isfinite(model.log_prob(rows)).all() and np.isfinite(model.natural_).all()
    assert np.isfinite(model.sample(20, seed=0)).all()
    constant = ExponentialFamilyMixture(3, family=name, random_state=0).fit(np.full((40, 1), x))
    assert np.isfinite(constant.log_prob([[x]])).all()


def test_the_prior_decides_how_narrow_a_collapsed_component_is():
    X = np.concatenate([np.random.default_rng(0).normal(size=(100, 1)), np.full((50, 1), 9.0)])
    for reg in (1e-3, 1.0):
        model = mix("normal", reg=reg, tol=1e-12, max_iter=500).fit(X)
        # 50 equal rows, and reg rows with the mean and variance of the whole column
        share = 50 / (50 + reg)
        expected = (1 - share) * (X.var() + share * (9.0 - X.mean()) ** 2)
        assert model.parameters_["variance"].min() == pytest.approx(expected, rel=1e-6)
        assert model.weights_.min() == pytest.approx((50 + reg) / (150 + 2 * reg), rel=1e-6)


# -- weights and gaps ----------------------------------------------------------------------------------


TABLE = ["poisson", "gamma", "bernoulli", "normal"]


def table(n, seed=0):
    rng = np.random.default_rng(seed)
    which = rng.random(n) < 0.4
    return np.stack(
        [
            rng.poisson(np.where(which, 2.0, 9.0)),
            rng.gamma(np.where(which, 2.0, 6.0), 1.5),
            rng.random(n) < np.where(which, 0.2, 0.7),
            rng.normal(np.where(which, -1.0, 2.0), 1.0),
        ],
        1,
    ).astype(float)


@pytest.mark.parametrize("gaps", [False, True])
def test_a_weight_is_a_repeated_row(gaps):
    X = table(150)
    if gaps:
        X[np.random.default_rng(1).random(X.shape) < 0.2] = np.nan
    count = np.random.default_rng(2).integers(0, 4, len(X))
    weighted = mix(TABLE, n_init=2).fit(X, sample_weight=count)
    order = np.random.default_rng(3).permutation(count.sum())
    repeated = mix(TABLE, n_init=2).fit(np.repeat(X, count, axis=0)[order])
    np.testing.assert_allclose(weighted.weights_, repeated.weights_, rtol=1e-7)
    np.testing.assert_allclose(weighted.natural_, repeated.natural_, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(weighted.log_prob(X), repeated.log_prob(X), rtol=1e-7)


def test_gaps_are_summed_or_integrated_out():
    model = mix(TABLE).fit(table(400))
    row = np.array([[3.0, 4.0, 1.0, 0.5]])

    def densities(column, values):
        rows = np.repeat(row, len(values), axis=0)
        rows[:, column] = values
        return np.exp(model.log_prob(rows))

    without = [math.exp(model.log_prob(np.where(np.arange(4) == j, np.nan, row))[0]) for j in range(4)]
    assert densities(0, np.arange(100.0)).sum() == pytest.approx(without[0], rel=1e-12)
    assert densities(2, np.array([0.0, 1.0])).sum() == pytest.approx(without[2], rel=1e-12)
    grid = np.linspace(1e-9, 150.0, 20_001)
    assert integrate.simpson(densities(1, grid), x=grid) == pytest.approx(without[1], rel=1e-7)
    grid = np.linspace(-20.0, 20.0, 2_001)
    assert integrate.simpson(densities(3, grid), x=grid) == pytest.approx(without[3], rel=1e-10)
    nothing = np.full((1, 4), np.nan)
    assert model.log_prob(nothing)[0] == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(model.predict_proba(nothing)[0], model.weights_)


def test_gaps_in_training_leave_the_truth_where_it_is():
    full = table(4000)
    X = full.copy()
    X[np.random.default_rng(1).random(X.shape) < 0.3] = np.nan
    model, whole = mix(TABLE, tol=1e-6).fit(X), mix(TABLE, tol=1e-6).fit(full)
    order = [np.argsort(m.means_[:, 0]) for m in (model, whole)]
    error = full.std(0) / math.sqrt(0.7 * 0.4 * len(full))
    assert (np.abs(model.means_[order[0]] - whole.means_[order[1]]) < 4 * error).all()


def test_imputation_is_the_mean_of_conditional_samples():
    model = mix(TABLE).fit(table(400))
    known = np.array([[2.0, np.nan, np.nan, np.nan]])
    drawn = model.sample(20_000, given=known, seed=1)
    assert (drawn[:, 0] == 2.0).all()
    filled = model.impute(known)
    error = drawn.std(0) / math.sqrt(len(drawn))
    assert (np.abs(drawn.mean(0) - filled[0])[1:] < 4.5 * error[1:]).all()
    assert model.predict_proba(known)[0] @ model.means_[:, 3] == pytest.approx(filled[0, 3])


def test_samples_follow_the_mixture():
    model = mix(TABLE).fit(table(400))
    drawn = model.sample(20_000, seed=0)
    expected = model.weights_ @ model.means_
    assert (np.abs(drawn.mean(0) - expected) < 4.5 * drawn.std(0) / math.sqrt(len(drawn))).all()
    # the mean of log p over samples is minus the entropy; over another sample it is the same
    first, second = model.log_prob(drawn), model.log_prob(model.sample(20_000, seed=1))
    assert abs(first.mean() - second.mean()) < 4.5 * math.sqrt(2 / 20_000) * first.std()


# -- what is allowed -----------------------------------------------------------------------------------


def test_values_outside_the_support_are_refused_everywhere():
    X = np.abs(table(50)) + 0.5
    model = mix("gamma").fit(X)
    frame = pd.DataFrame(X, columns=["a", "b", "dose", "d"])
    frame.loc[7, "dose"] = -2.5
    words = r"column dose has 1 value such as -2.5, but the gamma family allows only numbers > 0"
    with pytest.raises(ValueError, match=rf"ExponentialFamilyMixture.fit: {words}"):
        mix("gamma").fit(frame)
    for verb in ("predict", "predict_proba", "log_prob", "likelihood", "anomaly", "impute", "score"):
        with pytest.raises(ValueError, match=r"column 2 has 1 value such as -2.5.*numbers > 0"):
            getattr(model, verb)(frame.to_numpy())
    with pytest.raises(ValueError, match=r"sample: column 2 has"):
        model.sample(50, given=frame.to_numpy())


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"family": "poison"}, "did you mean 'poisson'"),
        ({"family": ["normal", "gamma"]}, "lists 2 families for 4 columns"),
        ({"family": None}, "family None is unknown; use normal"),
        ({"reg": -1.0}, "reg is -1.0; it must be a number of at least 0"),
        ({"n_components": 0}, "n_components is 0"),
    ],
)
def test_unusable_settings(params, words):
    with pytest.raises(ValueError, match=words):
        ExponentialFamilyMixture(**params).fit(table(30))


def test_an_empty_column_is_refused():
    X = table(30)
    X[:, 1] = np.nan
    with pytest.raises(ValueError, match="ExponentialFamilyMixture.fit: column 1 of X has no observed value"):
        mix("normal").fit(X)


def test_fewer_rows_than_components_are_refused():
    with pytest.raises(ValueError, match="got n_components = 5, n_samples = 3; use fewer components or more rows"):
        ExponentialFamilyMixture(5, random_state=0).fit(table(3))


def test_the_measure_and_the_gradient():
    X = np.abs(table(80)) + 0.1
    counts, times = mix("poisson").fit(np.floor(X)), mix("gamma").fit(X)
    assert counts.likelihood(np.floor(X)).measure == "mass" and counts.likelihood(np.floor(X)).kind == "exact"
    assert (
        times.likelihood(X).measure == "density" and mix(TABLE).fit(table(50)).likelihood(table(5)).measure == "density"
    )
    assert not hasattr(counts, "grad_log_prob") and not hasattr(mix(TABLE), "grad_log_prob")
    with pytest.raises(AttributeError, match="poisson family has a mass and no density"):
        counts.grad_log_prob(X)
    step = 1e-6 * np.eye(4)
    numeric = np.stack([(times.log_prob(X + e) - times.log_prob(X - e)) / 2e-6 for e in step], 1)
    np.testing.assert_allclose(times.grad_log_prob(X), numeric, rtol=1e-4, atol=1e-5)


def test_large_offsets_cost_no_digits():
    X, _ = planted("normal", 300, columns=2)
    near, far = mix("normal").fit(X), mix("normal").fit(X + 1e8)
    np.testing.assert_allclose(far.parameters_["variance"], near.parameters_["variance"], rtol=1e-6)
    np.testing.assert_allclose(far.log_prob(X + 1e8), near.log_prob(X), atol=1e-6)


def test_float32_samples_stay_in_the_support():
    X = stats.beta(0.05, 0.02).rvs((300, 1), random_state=0).clip(1e-6, 1 - 1e-6).astype(np.float32)
    model = mix("beta").fit(X)
    drawn = model.sample(5000, seed=0)
    assert drawn.dtype == np.float32 and drawn.min() > 0 and drawn.max() < 1
    assert np.isfinite(model.log_prob(drawn)).all()


# -- tables, files, runs -------------------------------------------------------------------------------


def frame(n):
    X = table(n)
    city = np.where(np.random.default_rng(5).random(n) < 0.3, "Rome", "Bern")
    return pd.DataFrame({"visits": X[:, 0].astype(int), "wait": X[:, 1], "paid": X[:, 2] > 0, "city": city})


def test_a_mixed_table_comes_back_as_a_table(tmp_path):
    data = frame(200)
    families = ["poisson", "gamma", "bernoulli", "bernoulli"]
    model = mix(families).fit(data)
    drawn = model.sample(300, seed=0)
    assert (drawn.dtypes == data.dtypes).all() and set(drawn["city"]) == {"Rome", "Bern"}
    holed = data.astype({"paid": object}).assign(wait=np.where(np.arange(200) < 3, np.nan, data["wait"]))
    filled = model.impute(holed)
    assert filled["wait"].notna().all() and filled["visits"].equals(data["visits"])
    one = data.iloc[:1].assign(wait=np.nan)
    assert len(model.sample(4, given=one, seed=0)["wait"].unique()) == 4
    data.to_parquet(tmp_path / "data.parquet")
    streamed = mix(families, trainer={"batch_size": 64}).fit(tmp_path / "data.parquet")
    np.testing.assert_allclose(streamed.natural_, model.natural_, rtol=1e-9)
    panels = [axes for axes in model.plot(data).axes if axes.lines]
    assert [axes.get_xlabel() for axes in panels] == list(model.schema_.encoded_names)
    (panel,) = model.plot(features=[0]).axes
    heights = panel.lines[-1].get_ydata()  # masses of nearly all counts
    assert 0.99 < heights.sum() < 1
    with pytest.raises(ValueError, match="column 9, but there are 5"):
        model.plot(features=[9])


def test_models_of_named_families_are_saved(tmp_path):
    X = table(100)
    model = mix(TABLE).fit(X)
    loaded = benthic.load(model.save(tmp_path / "model.safetensors"))
    np.testing.assert_array_equal(loaded.log_prob(X), model.log_prob(X))
    assert loaded.summary() == model.summary() and loaded.get_params()["family"] == TABLE


def test_a_family_of_ones_own(tmp_path):
    sigma = np.array([0.5, 6.0])
    which = np.random.default_rng(0).choice(2, 2000, p=WEIGHTS)
    X = stats.rayleigh(scale=sigma[which]).rvs(random_state=0)[:, None]
    own = Rayleigh()
    model = mix(own, tol=1e-8, max_iter=300).fit(X)
    found = np.sort(np.sqrt(-0.5 / model.parameters_["eta_0"][:, 0]))
    np.testing.assert_allclose(found, sigma, rtol=5 / math.sqrt(2000 * 0.35))
    assert np.diff([entry["objective"] for entry in model.history_]).min() > -1e-10
    with pytest.raises(ValueError, match="family is Rayleigh"):
        model.save(tmp_path / "model.safetensors")
    path = model.save(tmp_path / "model.safetensors", leave_out=["family"])
    loaded = benthic.load(path, modules={"family": own})
    np.testing.assert_array_equal(loaded.log_prob(X), model.log_prob(X))


class StopAt(Callback):
    def __init__(self, step):
        self.step = step

    def on_epoch(self, moment, logs):
        if moment.step == self.step:
            raise RuntimeError("crash")


def test_a_run_cut_short_ends_like_one_never_cut(tmp_path):
    X = table(200)

    def fit(folder, **more):
        setting = {"checkpoint": {"folder": str(tmp_path / folder), "every_steps": 3}, **more}
        return ExponentialFamilyMixture(
            3, family=TABLE, n_init=3, max_iter=7, tol=0, random_state=0, trainer=setting
        ).fit(X)

    whole = fit("whole")
    with pytest.raises(RuntimeError, match="crash"):
        fit("cut", callbacks=(StopAt(11),))
    resumed = fit("cut", resume=True)
    np.testing.assert_array_equal(resumed.natural_, whole.natural_)
    assert resumed.history_ == whole.history_ and len(whole.history_) == 21


def test_blocks_of_rows_do_not_matter():
    X = table(300)
    whole, parts = mix(TABLE).fit(X), mix(TABLE, trainer={"batch_size": 17}).fit(X)
    np.testing.assert_allclose(parts.natural_, whole.natural_, rtol=1e-9)
    tensors = mix(TABLE).fit(torch.tensor(X))
    assert isinstance(tensors.means_, torch.Tensor) and isinstance(tensors.sample(2), torch.Tensor)
