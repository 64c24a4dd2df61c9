"""What goes in: missing values, weights, parts, files, frames, codes never seen, wrong data."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_digits, load_iris

import benthic
from benthic.base.errors import InvalidInput

pytestmark = pytest.mark.spec("F-04")
X, Y = load_iris(return_X_y=True)
COUNTS = np.floor(X * 2)
RNG = np.random.default_rng(0)
MODELS = {
    "GaussianNB": (benthic.GaussianNB, X),
    "BernoulliNB": (lambda **s: benthic.BernoulliNB(binarize=3.0, **s), X),
    "MultinomialNB": (benthic.MultinomialNB, COUNTS),
    "CategoricalNB": (benthic.CategoricalNB, COUNTS),
    "binned": (lambda **s: benthic.CategoricalNB(bins=5, **s), X),
}
EVERY = pytest.mark.parametrize("name", MODELS)


def holed(rows, share=0.2, seed=1):
    out = rows.copy()
    out[np.random.default_rng(seed).random(rows.shape) < share] = np.nan
    return out


@EVERY
def test_integer_weights_repeat_rows(name):
    make, rows = MODELS[name]
    rows, weight = holed(rows), RNG.integers(0, 4, len(Y))
    weighted = make().fit(rows, Y, sample_weight=weight)
    repeated = make().fit(np.repeat(rows, weight, axis=0), np.repeat(Y, weight))
    np.testing.assert_allclose(
        weighted.predict_joint_log_proba(rows), repeated.predict_joint_log_proba(rows), rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize(
    "name", [name for name in MODELS if name != "binned"]
)  # whose bins are those of the first part
def test_parts_add_up_to_the_whole(name):
    make, rows = MODELS[name]
    rows = holed(rows)
    model, order = make(), RNG.permutation(len(Y))
    for k, part in enumerate(np.array_split(order, 7)):
        model.partial_fit(rows[part], Y[part], classes=[0, 1, 2] if k == 0 else None)
    whole = make().fit(rows, Y)
    np.testing.assert_allclose(
        model.predict_joint_log_proba(rows), whole.predict_joint_log_proba(rows), rtol=1e-9, atol=1e-9
    )
    half = make().fit(rows[::2], Y[::2]).partial_fit(rows[1::2], Y[1::2])
    np.testing.assert_allclose(half.predict_proba(rows), whole.predict_proba(rows), atol=1e-9)


@EVERY
def test_a_file_gives_what_memory_gives(name, tmp_path):
    make, rows = MODELS[name]
    np.save(tmp_path / "rows.npy", np.column_stack([rows, Y]))
    source = benthic.data.scan(tmp_path / "rows.npy", target=4)
    streamed = make(trainer={"batch_size": 17}).fit(source)
    np.testing.assert_allclose(streamed.predict_proba(rows), make().fit(rows, Y).predict_proba(rows), atol=1e-10)


@EVERY
def test_what_is_missing_everywhere_in_a_row_leaves_the_prior(name):
    make, rows = MODELS[name]
    model = make().fit(rows, Y)
    empty = np.full((1, 4), np.nan)
    np.testing.assert_allclose(model.predict_proba(empty)[0], np.exp(model.class_log_prior_), atol=1e-12)


@pytest.mark.parametrize("name", ["GaussianNB", "BernoulliNB", "CategoricalNB"])
def test_missing_features_are_left_out_of_the_product(name):
    make, rows = MODELS[name]
    gone = rows.copy()
    gone[:, 2] = np.nan
    whole = make().fit(rows, Y)
    settings = {} if name != "GaussianNB" else {"var_smoothing": whole.epsilon_ / rows[:, [0, 1, 3]].var(0).max()}
    narrow = make(**settings).fit(rows[:, [0, 1, 3]], Y)
    np.testing.assert_allclose(
        whole.predict_proba(gone), narrow.predict_proba(rows[:, [0, 1, 3]]), rtol=1e-6, atol=1e-9
    )


def test_missing_counts_renormalize_the_rest():
    model = benthic.MultinomialNB().fit(COUNTS, Y)
    chances = np.exp(model.feature_log_prob_)[:, [0, 1, 3]]
    chances /= chances.sum(1, keepdims=True)
    gone = COUNTS.copy()
    gone[:, 2] = np.nan
    joint = np.log([1 / 3] * 3) + COUNTS[:, [0, 1, 3]] @ np.log(chances).T
    np.testing.assert_allclose(model.predict_joint_log_proba(gone), joint, rtol=1e-10)
    many = np.repeat(COUNTS, 40, axis=0)
    drawn = benthic.MultinomialNB().fit(holed(many, 0.3), np.repeat(Y, 40))
    whole = benthic.MultinomialNB().fit(many, np.repeat(Y, 40))
    np.testing.assert_allclose(drawn.feature_log_prob_, whole.feature_log_prob_, atol=0.02)


def test_means_and_variances_are_those_of_what_is_seen():
    rows = holed(X)
    model = benthic.GaussianNB(var_smoothing=0.0).fit(rows, Y)
    for c in range(3):
        np.testing.assert_allclose(model.theta_[c], np.nanmean(rows[c == Y], axis=0), rtol=1e-12)
        np.testing.assert_allclose(model.var_[c], np.nanvar(rows[c == Y], axis=0), rtol=1e-9)
    rows[Y == 1, 0] = np.nan  # never seen in this class: the law of all rows
    model = benthic.GaussianNB(var_smoothing=0.0).fit(rows, Y)
    assert model.theta_[1, 0] == pytest.approx(np.nanmean(rows[:, 0]))
    assert model.var_[1, 0] == pytest.approx(np.nanvar(rows[:, 0]))
    rows[:, 0] = np.nan
    assert np.isfinite(benthic.GaussianNB().fit(rows, Y).predict_proba(rows)).all()


def test_variances_far_from_zero_keep_their_digits():
    shifted = X + 1e7
    model = benthic.GaussianNB(var_smoothing=0.0).fit(shifted, Y)
    np.testing.assert_allclose(model.var_, benthic.GaussianNB(var_smoothing=0.0).fit(X, Y).var_, rtol=1e-6)


# -- categories ----------------------------------------------------------------------------------------------


def weather():
    rng = np.random.default_rng(3)
    n = 200
    outlook = rng.choice(["sunny", "rain", "overcast"], n)
    windy = rng.random(n) < 0.4
    level = rng.integers(0, 3, n)
    play = np.where((outlook != "rain") | (rng.random(n) < 0.2), "yes", "no")
    return pd.DataFrame({"outlook": pd.Categorical(outlook), "windy": windy, "level": level}), play


def test_category_columns_of_a_frame_are_counted_by_name(tmp_path):
    frame, play = weather()
    model = benthic.CategoricalNB().fit(frame, play)
    codes = np.column_stack([frame["outlook"].cat.codes, frame["windy"], frame["level"]])
    plain = benthic.CategoricalNB().fit(codes, play)
    np.testing.assert_allclose(model.predict_proba(frame), plain.predict_proba(codes), rtol=1e-12)
    assert model.n_categories_.tolist() == [3, 2, 3] and model.plot().axes
    loaded = benthic.load(model.save(tmp_path / "m.safetensors"))
    np.testing.assert_array_equal(loaded.predict(frame), model.predict(frame))
    gaps = frame.copy()
    gaps.loc[3, "outlook"] = None
    assert np.isfinite(model.predict_proba(gaps)).all()
    other = frame.assign(outlook=pd.Categorical(["snow"] * len(frame)))
    with pytest.raises(ValueError, match="snow"):
        model.predict(other)
    frame.assign(play=play).to_csv(tmp_path / "t.csv", index=False)
    streamed = benthic.CategoricalNB().fit(tmp_path / "t.csv", "play")
    np.testing.assert_allclose(streamed.predict_proba(frame), model.predict_proba(frame), rtol=1e-10)


def test_codes_never_seen():
    rows = np.array([[0], [1], [2], [2]])
    labels = ["a", "a", "b", "b"]
    model = benthic.CategoricalNB().fit(rows, labels)
    # no counts, but alpha: 1 / (2 + 3) in both classes
    np.testing.assert_allclose(model.predict_joint_log_proba([[9]])[0], np.log(0.5 * np.array([0.2, 0.2])))
    with pytest.raises(InvalidInput, match="column 0 has the code 9, but fit saw 0 to 2"):
        benthic.CategoricalNB(unseen="error").fit(rows, labels).predict([[9]])
    later = model.partial_fit([[9]], ["a"])
    assert later.n_categories_.tolist() == [10] and later.category_count_[0][:, 9].tolist() == [1, 0]


def test_columns_that_hold_no_codes_are_cut_without_being_asked():
    codes = np.arange(len(X)) % 3
    model = benthic.CategoricalNB().fit(np.column_stack([X, codes]), Y)
    cut = benthic.CategoricalNB(bins=8).fit(X, Y)
    for ours, theirs in zip(model.feature_log_prob_[:-1], cut.feature_log_prob_, strict=True):
        np.testing.assert_allclose(ours, theirs)
    assert model.bin_edges_[-1] is None and model.n_categories_[-1] == 3
    with pytest.raises(InvalidInput, match="not codes 0, 1, 2"):
        model.predict(np.column_stack([X, codes + 0.5]))


def test_bins_are_quantiles():
    t = np.arange(100.0)[:, None]
    model = benthic.CategoricalNB(bins=4).fit(t, (t[:, 0] > 50).astype(int))
    np.testing.assert_allclose(model.bin_edges_[0], [24, 49, 74])
    np.testing.assert_allclose(model.category_count_[0].sum(0), [25, 25, 25, 25])
    two = benthic.CategoricalNB(bins=8).fit(X > 3, Y)
    assert two.n_categories_.max() == 2


# -- generative ------------------------------------------------------------------------------------------------


def test_the_density_integrates_to_one_and_draws_follow_it():
    model = benthic.GaussianNB().fit(X[:, :1], Y)
    grid = np.linspace(0, 12, 20_001)[:, None]
    assert np.trapezoid(np.exp(model.log_prob(grid)), grid[:, 0]) == pytest.approx(1.0, abs=1e-9)
    model = benthic.GaussianNB(random_state=0).fit(X, Y)
    drawn = model.sample(20_000, seed=1)
    np.testing.assert_allclose(drawn.mean(0), X.mean(0), atol=4 * X.std(0).max() / np.sqrt(20_000))
    of_one = model.sample(20_000, given=[2], seed=1)
    np.testing.assert_allclose(of_one.mean(0), model.theta_[2], atol=4 * np.sqrt(model.var_[2].max() / 20_000))
    found = model.likelihood(X)
    assert found.kind == found.bound == "exact" and found.measure == "density"


def test_gaps_are_drawn_and_filled_given_the_rest():
    model = benthic.GaussianNB(random_state=0).fit(X, Y)
    row = np.array([[5.0, np.nan, 1.4, np.nan]])  # a setosa, by its petal
    drawn = model.sample(20_000, given=row, seed=1)
    assert (drawn[:, [0, 2]] == [5.0, 1.4]).all()
    np.testing.assert_allclose(drawn.mean(0)[[1, 3]], model.theta_[0, [1, 3]], atol=0.02)
    np.testing.assert_allclose(model.impute(row)[0, [1, 3]], model.theta_[0, [1, 3]], atol=1e-3)
    with pytest.raises(InvalidInput, match="3 labels for 2 draws"):
        model.sample(2, given=[0, 1, 2])
    with pytest.raises(InvalidInput, match="label 7"):
        model.sample(2, given=[7])


def test_the_gradient_of_the_density_is_that_of_differences():
    model = benthic.GaussianNB().fit(X, Y)
    step, rows = 1e-5, X[:5]
    for j in range(4):
        shift = step * np.eye(4)[j]
        slope = (model.log_prob(rows + shift) - model.log_prob(rows - shift)) / (2 * step)
        np.testing.assert_allclose(model.grad_log_prob(rows)[:, j], slope, rtol=1e-5, atol=1e-6)


def test_the_masses_of_all_patterns_sum_to_one_and_draws_follow_them():
    patterns = np.array(list(product((0.0, 1.0), repeat=4)))
    switches = benthic.BernoulliNB(binarize=3.0).fit(X, Y)
    found = switches.likelihood(patterns * 6)
    assert np.exp(found.value).sum() == pytest.approx(1.0, abs=1e-12) and found.measure == "mass"
    drawn = switches.sample(20_000, seed=0)
    codes = drawn @ [8, 4, 2, 1]
    share = np.bincount(codes.astype(int), minlength=16) / 20_000
    np.testing.assert_allclose(share, np.exp(switches.log_prob(patterns * 6)), atol=4 * 0.5 / np.sqrt(20_000))
    rows = np.array(list(product(range(3), range(2))), dtype=float)
    model = benthic.CategoricalNB(random_state=0).fit(rows, [0, 1, 0, 1, 1, 1])
    assert np.exp(model.log_prob(rows)).sum() == pytest.approx(1.0, abs=1e-12)
    share = np.bincount((model.sample(20_000) @ [2, 1]).astype(int), minlength=6) / 20_000
    np.testing.assert_allclose(share, np.exp(model.log_prob(rows)), atol=4 * 0.5 / np.sqrt(20_000))
    with pytest.raises(InvalidInput, match="method 'elbo' is unknown"):
        model.likelihood(rows, "elbo")


def test_frames_are_drawn_as_frames():
    frame, play = weather()
    model = benthic.CategoricalNB(random_state=0).fit(frame, play)
    drawn = model.sample(2000, given=["no"])
    assert list(drawn.columns) == list(frame.columns) and (drawn.dtypes == frame.dtypes).all()
    assert (drawn["outlook"] == "rain").mean() > 0.9
    cut = benthic.CategoricalNB(bins=5, random_state=0).fit(X, Y)
    numbers = cut.sample(5000)
    assert (numbers >= X.min(0)).all() and (numbers <= X.max(0)).all()
    np.testing.assert_allclose(numbers.mean(0), X.mean(0), atol=0.15)


# -- wrong data --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "rows", "words"),
    [
        (benthic.MultinomialNB(), -X, "Negative values in data passed to MultinomialNB .* column 0"),
        (benthic.CategoricalNB(bins=None), -X, "Negative values in data passed to CategoricalNB"),
        (benthic.CategoricalNB(bins=None), X, "not codes 0, 1, 2.*bins"),
        (benthic.BernoulliNB(binarize=None), X, "values other than 0 and 1"),
        (benthic.BernoulliNB(alpha=-1), X, "alpha is -1"),
        (benthic.BernoulliNB(alpha=[1.0, 2.0]), X, "alpha has 2 numbers for 4 features"),
        (benthic.MultinomialNB(class_prior=[0.5, 0.5]), X, "2 priors for 3 classes"),
        (benthic.GaussianNB(priors=[0.5, 0.4, 0.3]), X, "sum to 1"),
        (benthic.GaussianNB(var_smoothing=-1), X, "var_smoothing is -1"),
        (benthic.CategoricalNB(bins=1), X, "bins is 1"),
        (benthic.CategoricalNB(unseen="what"), COUNTS, "unseen is 'what'"),
        (benthic.CategoricalNB(min_categories=-3), COUNTS, "min_categories is -3"),
        (benthic.MultinomialNB(fit_prior="no"), X, "fit_prior is 'no'"),
    ],
)
def test_refused(model, rows, words):
    with pytest.raises(InvalidInput, match=f"{type(model).__name__}.fit: .*{words}"):
        model.fit(rows, Y)


def test_partial_fit_refuses():
    with pytest.raises(InvalidInput, match="classes must be passed on the first call"):
        benthic.GaussianNB().partial_fit(X, Y)
    model = benthic.GaussianNB().partial_fit(X[:50], Y[:50], classes=[0, 1, 2])
    with pytest.raises(InvalidInput, match="label 5"):
        model.partial_fit(X, Y + 5)
    with pytest.raises(InvalidInput, match="the first call had"):
        model.partial_fit(X, Y, classes=[0, 1])
    assert np.isfinite(model.predict_proba(X)).all()  # two classes have no rows yet


def test_tensors_and_pictures():
    images, digits = load_digits(return_X_y=True)
    model = benthic.MultinomialNB().fit(torch.tensor(images), torch.tensor(digits))
    assert isinstance(model.predict(torch.tensor(images)), torch.Tensor) and model.plot().axes
    narrow = benthic.GaussianNB().fit(images.astype(np.float32), digits)
    assert narrow.predict_proba(images.astype(np.float32)).dtype == np.float32
    assert sum(ax.axison for ax in benthic.GaussianNB().fit(X, Y).plot(X).axes) == 4
    assert "priors" in benthic.BernoulliNB().fit(images, digits).summary()
