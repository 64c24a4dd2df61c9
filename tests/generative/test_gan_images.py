"""Adversarial models of pictures: DCGAN, ConditionalGAN, InfoGAN and ImageTranslation on small pictures."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from torch import nn

import benthic
from benthic.nets.batchnorms import Referenced
from benthic.nets.jitter import jitter
from benthic.training.callbacks import Callback

pytestmark = [pytest.mark.spec("N-02"), pytest.mark.filterwarnings("ignore::UserWarning")]
SETTINGS = {"latent_dim": 4, "channels": (8,), "random_state": 0}
BRIEF = {"steps": 6, "batch_size": 16, "verbose": False}


def bars(n: int, seed: int = 0, size: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Pictures whose left (0, upright) or upper (1, lying) part is bright, more or less wide; values in [0, 5]."""
    rng = np.random.default_rng(seed)
    y, wide = rng.integers(0, 2, n), rng.integers(3, 6, n)
    X = np.zeros((n, 1, size, size))
    for picture, lying, width in zip(X, y, wide, strict=True):
        picture[0, slice(width) if lying else slice(None), slice(None) if lying else slice(width)] = 4.5
    return X + rng.random(X.shape) * 0.5, y


def upright(pictures: np.ndarray) -> np.ndarray:
    """How much more columns differ than rows do, of each picture: positive for upright ones."""
    return pictures[:, 0].mean(1).std(1) - pictures[:, 0].mean(2).std(1)


# -- DCGAN ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"upsampling": "resize"},
        {"residual": True},
        {"norm": "virtual", "critic_norm": "reference"},
        {"critic_norm": "spectral", "loss": "hinge", "minibatch": "discrimination"},
        {"minibatch": "deviation"},
        {"loss": "wasserstein", "penalty": "gradient", "critic_steps": 2},
        {"critic_norm": "instance", "penalty": "r1", "game": "extragradient"},
    ],
    ids=str,
)
def test_every_setting_learns_draws_and_is_saved(settings, tmp_path):
    X, _ = bars(40)
    model = benthic.DCGAN(**SETTINGS, **settings, trainer=BRIEF).fit(X)
    drawn = model.sample(5, seed=1)
    assert drawn.shape == (5, 1, 8, 8) and X.min() - 1e-6 <= drawn.min() <= drawn.max() <= X.max() + 1e-6
    loaded = benthic.load(model.save(tmp_path / "model.safetensors"))
    np.testing.assert_array_equal(loaded.sample(5, seed=1), drawn)
    assert "critic's norm" in model.summary()


@pytest.mark.parametrize("shape", [(1, 5, 9), (3, 11, 6), (1, 28, 28)])
def test_pictures_of_odd_sizes_are_cropped_and_that_is_said(shape):
    X = np.random.default_rng(0).random((20, *shape))
    model = benthic.DCGAN(4, channels=(4, 8), trainer={"steps": 2, "verbose": False}, random_state=0).fit(X)
    assert model.sample(2).shape == (2, *shape)
    odd = any(side % 4 for side in shape[1:])
    assert ("cropped from" in model.summary()) == odd


def test_pixels_are_mapped_to_the_range_of_the_generator():
    X, _ = bars(30)
    model = benthic.DCGAN(**SETTINGS, trainer=BRIEF).fit(X)
    inside = model.scales_.transform(X.reshape(30, -1))
    assert inside.min() == -1 and inside.max() == 1
    assert len(set(model.scales_.scale)) == 1  # all pixels alike, or edges would be blown up


def test_the_reference_batch_is_of_the_data_and_is_kept():
    X, _ = bars(40)
    model = benthic.DCGAN(**SETTINGS, critic_norm="virtual", trainer=BRIEF).fit(X)
    critic = model.network_.critic
    assert isinstance(critic, Referenced)
    rows = model.scales_.transform(X.reshape(40, -1)).astype(np.float32)
    nearest = np.abs(rows[None] - critic.reference.flatten(1).numpy()[:, None]).max(2).min(1)
    assert nearest.max() < 1e-6


def test_a_dcgan_learns_halves():
    X, _ = bars(300)
    model = benthic.DCGAN(
        8, channels=(16, 16), penalty="r1", trainer={"steps": 300, "batch_size": 32, "lr": 3e-3}, random_state=0
    ).fit(X)
    drawn = model.sample(200, seed=0)
    found, real = np.abs(upright(drawn)), np.abs(upright(X))
    assert np.median(found) > 0.5 * np.median(real)  # noise of the same values has about 0.2 of it
    assert 0.2 < (upright(drawn) > 0).mean() < 0.8


class StopAt(Callback):
    def on_step(self, moment, info):
        if moment.step == 13:
            raise RuntimeError("crash")


@pytest.mark.parametrize(
    "settings", [{"critic_norm": "spectral"}, {"critic_norm": "batch"}, {"norm": "virtual"}], ids=str
)
def test_a_run_that_was_cut_goes_on_to_the_bit(settings, tmp_path):
    X, _ = bars(40)

    def fit(folder, **more):
        trainer = {"steps": 24, "batch_size": 16, "checkpoint": {"folder": str(folder), "every_steps": 5}, **more}
        return benthic.DCGAN(**SETTINGS, **settings, trainer=trainer).fit(X)

    whole = fit(tmp_path / "whole")
    with pytest.raises(RuntimeError, match="crash"):
        fit(tmp_path / "cut", callbacks=(StopAt(),))
    resumed = fit(tmp_path / "cut", resume=True)
    for key, value in whole.network_.state_dict().items():
        assert torch.equal(value, resumed.network_.state_dict()[key]), key


def test_batch_norm_under_a_gradient_penalty_is_refused_with_the_reason():
    X, _ = bars(20)
    settings = {**SETTINGS, "channels": (4, 8), "trainer": BRIEF}
    model = benthic.DCGAN(**settings, critic_norm="batch", loss="wasserstein", penalty="gradient")
    with pytest.raises(
        ValueError, match=r"DCGAN.fit: the critic has a BatchNorm2d, through which the rows of a batch see"
    ):
        model.fit(X)
    with pytest.raises(ValueError, match="MinibatchDiscrimination"):
        benthic.DCGAN(**SETTINGS, minibatch="discrimination", penalty="r1", trainer=BRIEF).fit(X)


@pytest.mark.parametrize("name", ["DCGAN", "InfoGAN"])
def test_constant_pictures_are_refused_and_few_pictures_are_taken(name):
    cls = getattr(benthic, name)
    with pytest.raises(ValueError, match=f"{name}.fit: all 30 pictures are the same"):
        cls(**SETTINGS, trainer=BRIEF).fit(np.ones((30, 1, 8, 8)))
    model = cls(**SETTINGS, trainer={"steps": 4, "batch_size": 256}).fit(bars(7)[0])  # fewer than a batch
    assert np.isfinite(model.sample(3)).all()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"channels": (8, 8, 8, 8, 8)}, "halve the picture 5 times"),
        ({"norm": "bach"}, "norm 'bach' is unknown; did you mean 'batch'|norm 'bach' is unknown.*batch"),
        ({"upsampling": "nearest"}, "upsampling is 'nearest'"),
        ({"critic_norm": "layer"}, "no norm 'layer'"),
        ({"minibatch": "std"}, "minibatch is 'std'"),
        ({"residual": True, "critic_norm": "batch"}, "residual blocks have norm"),
    ],
)
def test_settings_that_cannot_be(settings, words):
    with pytest.raises(ValueError, match=words):
        benthic.DCGAN(**{**SETTINGS, **settings}, trainer=BRIEF).fit(bars(20)[0])


def test_modules_of_the_user_play_too():
    X, _ = bars(40)
    pair = (nn.Sequential(nn.Linear(4, 64)), nn.Sequential(nn.Flatten(), nn.Linear(64, 1)))
    model = benthic.DCGAN(4, network=pair, penalty="r1", trainer=BRIEF, random_state=0).fit(X)
    assert model.sample(3).shape == (3, 1, 8, 8)


# -- ConditionalGAN -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def conditional():
    X, y = bars(300)
    names = np.array(["upright", "lying"])[y]
    trainer = {"steps": 300, "batch_size": 32, "lr": 3e-3}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return benthic.ConditionalGAN(8, channels=(16, 16), trainer=trainer, random_state=0).fit(X, names), X, names


def test_labels_decide_what_is_drawn(conditional):
    model, _, _ = conditional
    standing, lying = model.sample(100, given="upright", seed=0), model.sample(100, given=["lying"] * 100, seed=0)
    assert standing.shape == (100, 1, 8, 8)
    assert (upright(standing) > 0).mean() > 0.9 and (upright(lying) < 0).mean() > 0.9
    mixed = upright(model.sample(200, seed=0)) > 0
    assert abs(mixed.mean() - model.class_prior_[1]) < 0.15
    np.testing.assert_array_equal(model.sample(3, given="lying", seed=5), model.sample(3, given=["lying"] * 3, seed=5))


def test_it_is_a_classifier_and_a_density(conditional):
    model, X, names = conditional
    assert model.score(X, names) > 0.9
    found = model.likelihood(X[:50], given=names[:50])
    other = model.likelihood(X[:50], given=np.where(names[:50] == "lying", "upright", "lying"))
    assert found.kind == "kde" and (found.value > other.value).mean() > 0.9
    joint = np.logaddexp(
        model.likelihood(X[:5], given="lying").value + np.log(model.class_prior_[0]),
        model.likelihood(X[:5], given="upright").value + np.log(model.class_prior_[1]),
    )
    np.testing.assert_allclose(model.likelihood(X[:5]).value, joint, rtol=1e-9)
    holed = X[:2].copy()
    holed[:, :, 4:] = np.nan
    filled = model.sample(2, given={"X": holed, "y": names[:2]}, seed=0)
    np.testing.assert_array_equal(filled[:, :, :4], holed[:, :, :4])
    assert np.isfinite(filled).all()


def test_codes_go_there_and_back(conditional):
    model, X, _ = conditional
    made = model.sample(3, given="lying", seed=1)
    codes = model.encode(made, given="lying")
    back = model.decode(codes, given="lying")
    assert codes.shape == (3, 8)
    assert np.abs(back - made).mean() < 0.2 * np.abs(made - X.mean(0)).mean()
    assert model.reconstruct(X[:2]).shape == (2, 1, 8, 8)


def test_unseen_labels_and_wrong_numbers_of_them(conditional):
    model, X, names = conditional
    with pytest.raises(ValueError, match=r"ConditionalGAN.sample: given has the label 'askew', which fit has not seen"):
        model.sample(2, given="askew")
    with pytest.raises(ValueError, match="given has 3 labels for 2 rows"):
        model.sample(2, given=["lying"] * 3)
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[300, 299\]"):
        benthic.ConditionalGAN(**SETTINGS).fit(X, names[:-1])
    with pytest.raises(ValueError, match="1 of .* labels are missing"):
        benthic.ConditionalGAN(**SETTINGS).fit(X, [None, *names[1:]])
    with pytest.raises(ValueError, match="reference batch without labels"):
        benthic.ConditionalGAN(**SETTINGS, critic_norm="virtual").fit(X, names)


# -- InfoGAN --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def informed():
    X, y = bars(400)
    settings = {"categories": 2, "continuous": 1, "continuous_weight": 1.0, "channels": (16, 16)}
    trainer = {"steps": 400, "batch_size": 32, "lr": 3e-3}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return benthic.InfoGAN(8, **settings, trainer=trainer, random_state=0).fit(X), X, y


def test_the_bound_is_reported_and_below_the_entropy(informed):
    model, _, _ = informed
    assert 0.5 < model.category_information_ <= np.log(2)  # that of a number has no such limit
    assert model.information_ > model.category_information_
    told = [entry["information"] for entry in model.history_ if "information" in entry]
    assert told[-1] > told[0] and told[-1] == pytest.approx(model.information_, abs=0.4)
    assert "information" in model.summary() and "2 values, 1 numbers" in model.summary()


def test_codes_can_be_told_from_what_is_made_of_them(informed):
    model, _, _ = informed
    for category in (0, 1):
        drawn = model.sample(100, given=category, seed=0)
        assert (model.predict(drawn) == category).mean() > 0.9
        np.testing.assert_allclose(model.predict_proba(drawn).sum(1), 1, atol=1e-6)
    walk = np.linspace(-1, 1, 9)
    codes = model.transform(model.vary(0, walk, category=1, seed=0))
    assert codes.shape == (9, 3) and np.corrcoef(codes[:, 2], walk)[0, 1] > 0.9
    assert model.decode(codes).shape == (9, 1, 8, 8)


def test_the_information_of_real_pictures_needs_no_labels(informed):
    model, X, _ = informed
    shares = model.predict_proba(X)
    mean = shares.mean(0)
    expected = -(mean * np.log(mean)).sum() + (shares * np.log(np.maximum(shares, 1e-300))).sum(1).mean()
    assert model.information(X) == pytest.approx(expected, abs=1e-6) and model.information(X) <= np.log(2)


def test_wrong_codes(informed):
    model, X, _ = informed
    with pytest.raises(ValueError, match="given has the label 7"):
        model.sample(2, given=7)
    with pytest.raises(ValueError, match="unit is 1; there are 1 continuous codes"):
        model.vary(1, [0.0])
    with pytest.raises(ValueError, match="not normal; use 'kde'"):
        model.likelihood(X[:2], "ais")
    for name, value in (("categories", 1), ("continuous", -1), ("dense", -2), ("invariance", -1.0)):
        with pytest.raises(ValueError, match=f"{name} is {value}"):
            benthic.InfoGAN(**SETTINGS, **{name: value}).fit(X)
    several = benthic.InfoGAN(**SETTINGS, categories=(2, 3), continuous=0, trainer=BRIEF).fit(X[:30])
    assert several.transform(X[:4]).shape == (4, 5) and several.predict(X[:4]).shape == (4,)


def test_invariant_categories_agree_on_moved_pictures():
    X, _ = bars(400)
    settings = {"categories": 2, "continuous": 0, "channels": (16, 16), "invariance": 1.0, "penalty": None}
    trainer = {"steps": 150, "batch_size": 32, "lr": 3e-3}
    model = benthic.InfoGAN(8, **settings, trainer=trainer, random_state=0).fit(X)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        moved = jitter(torch.as_tensor(X)).numpy()
    p, q = model.predict_proba(X), model.predict_proba(moved)
    table = 0.5 * (p.T @ q + q.T @ p) / len(p)
    shared = (table * np.log(table / np.outer(table.sum(0), table.sum(1)))).sum()
    assert (p.argmax(1) == q.argmax(1)).mean() > 0.8 and shared > 0.15  # of log 2 = 0.69
    state = torch.get_rng_state()
    assert model.agreement(X, seed=3) == pytest.approx(shared, rel=1e-4)
    assert torch.equal(state, torch.get_rng_state())
    rows = benthic.InfoGAN(2, continuous=0, trainer={**BRIEF, "steps": 2}).fit(np.eye(40))
    with pytest.raises(ValueError, match="copies of pictures"):
        rows.agreement(np.eye(40))
    with pytest.raises(ValueError, match="invariance is for pictures"):
        benthic.InfoGAN(8, invariance=1.0).fit(X.reshape(len(X), -1))


def test_the_networks_of_the_paper_share_a_dense_layer(tmp_path):
    X, _ = bars(60)
    model = benthic.InfoGAN(**SETTINGS, dense=12, penalty=None, trainer=BRIEF).fit(X)
    critic, made = model.network_.critic, model.network_.generator.body
    assert critic.body.features == 12 and critic.told[0].in_features == 12 and made.widen[0].out_features == 12
    assert sum(isinstance(m, torch.nn.BatchNorm1d) for m in model.network_.modules()) == 3
    path = tmp_path / "model.safetensors"
    model.save(path)
    np.testing.assert_array_equal(benthic.load(path).transform(X[:5]), model.transform(X[:5]))


# -- ImageTranslation -----------------------------------------------------------------------------------


def test_a_picture_is_turned_into_another(tmp_path):
    X, _ = bars(200)
    Y = np.roll(np.concatenate([X, X.max() - X], 1), 1, 2)  # moved by a pixel, and its negative
    trainer = {"steps": 300, "batch_size": 32, "lr": 3e-3}
    model = benthic.ImageTranslation(channels=(16, 32), critic_channels=(16,), trainer=trainer, random_state=0)
    model.fit(X[:160], Y[:160])
    made = model.predict(X[160:])
    assert made.shape == (40, 2, 8, 8) and made.dtype == X.dtype
    assert model.score(X[160:], Y[160:]) > 0.8
    loaded = benthic.load(model.save(tmp_path / "model.safetensors"))
    np.testing.assert_array_equal(loaded.predict(X[160:]), made)
    assert isinstance(model.predict(torch.tensor(X[:2])), torch.Tensor)
    assert len(model.plot(X[160:], Y[160:]).axes) == 2


@pytest.mark.parametrize(
    "settings",
    [
        {"penalty": "r1", "critic_norm": "spectral", "loss": "hinge"},
        {"norm": "instance", "upsampling": "resize", "dropout": 0.3},
        {"loss": "relativistic", "critic_norm": "none"},
    ],
    ids=str,
)
def test_other_settings_of_translation(settings):
    X, _ = bars(30, size=9)
    model = benthic.ImageTranslation(channels=(8,), critic_channels=(8,), **settings, trainer=BRIEF, random_state=0)
    assert np.isfinite(model.fit(X, X[:, :, ::-1].copy()).predict(X)).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda X: X[:-1], r"inconsistent numbers of samples: \[20, 19\]"),
        (lambda X: X[:, :, :4], "pass pictures of equal size"),
        (lambda X: X[:, 0, 0, 0], "X holds pictures, but y does not"),
        (lambda X: np.ones_like(X), "all 20 pictures of y are the same"),
        (lambda X: np.where(X > 4, np.nan, X), "NaN"),
    ],
    ids=["count", "size", "numbers", "constant", "nan"],
)
def test_pairs_that_are_none(change, words):
    X, _ = bars(20)
    with pytest.raises(ValueError, match=words) as caught:
        benthic.ImageTranslation(channels=(8,), critic_channels=(8,), trainer=BRIEF).fit(X, change(X))
    assert str(caught.value).startswith("ImageTranslation.fit: ")


def test_batch_norm_in_the_critic_and_a_penalty_do_not_go_together():
    X, _ = bars(20)
    with pytest.raises(ValueError, match="rows of a batch see each other"):
        benthic.ImageTranslation(channels=(8,), critic_channels=(8, 8), penalty="r1", trainer=BRIEF).fit(X, X)
