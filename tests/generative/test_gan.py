"""Adversarial models: losses and penalties against closed forms, games through the engine, and the verbs."""

from __future__ import annotations

import math
import re
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

import benthic
from benthic.base.errors import InvalidInput
from benthic.data.batch import Batch
from benthic.generative.gan.annealing import annealed_likelihood
from benthic.generative.gan.density import Parzen, best_bandwidth
from benthic.generative.gan.diagnostics import Clusters, nearness
from benthic.generative.gan.inversion import invert
from benthic.generative.gan.losses import LOSSES, loss_of
from benthic.generative.gan.penalties import (
    Contestants,
    clip_weights,
    gradient_penalty,
    interpolates,
    regularizer_of,
)
from benthic.optim.games import game_optimizer
from benthic.training.callbacks import Callback
from benthic.training.feed import ArrayFeed
from benthic.training.gradient import GradientLearner, Player, Turn
from benthic.training.loop import Loop
from benthic.training.trainer import Trainer

pytestmark = pytest.mark.spec("N-02")
CPU = torch.device("cpu")
RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(160, 3)) @ RNG.normal(size=(3, 3))


def small(cls=None, **settings):
    trainer = {"steps": 60, "lr": 2e-3, **settings.pop("trainer", {})}
    base = {"hidden_layer_sizes": (16,), "trainer": trainer, "random_state": 0}
    return (cls or benthic.GAN)(settings.pop("latent_dim", 3), **{**base, **settings})


@pytest.fixture(scope="module")
def fitted():
    return small(trainer={"steps": 300}).fit(TABLE)


# -- losses ---------------------------------------------------------------------------------------------


def test_the_best_critic_makes_the_value_twice_jensen_shannon_less_log_four():
    """C(G) = 2 JS(p, q) - log 4, with D* = log p - log q, by quadrature over a fine grid."""
    x = torch.linspace(-12, 12, 20001, dtype=torch.float64)
    p = torch.exp(torch.distributions.Normal(0.0, 1.0).log_prob(x))
    q = torch.exp(torch.distributions.Normal(1.5, 0.7).log_prob(x))
    step = float(x[1] - x[0])
    logit = p.log() - q.log()

    def value(output):
        return -(p * nn.functional.softplus(-output) + q * nn.functional.softplus(output)).sum() * step

    middle = 0.5 * (p + q)
    shannon = 0.5 * ((p * (p / middle).log()).sum() + (q * (q / middle).log()).sum()) * step
    assert float(value(logit)) == pytest.approx(2 * float(shannon) - math.log(4), abs=1e-8)
    for other in (logit + 0.1, 0.9 * logit, logit + 0.1 * torch.sin(x)):
        assert value(other) < value(logit)


def test_the_critic_loss_on_draws_is_minus_that_value():
    real, fake = torch.tensor([0.3, -1.0]), torch.tensor([0.7, 0.2])
    expected = -(torch.sigmoid(real).log().mean() + (1 - torch.sigmoid(fake)).log().mean())
    assert float(loss_of("minimax").critic(real, fake)) == pytest.approx(float(expected), rel=1e-6)
    assert float(loss_of("minimax").generator(real, fake)) == pytest.approx(
        float((1 - torch.sigmoid(fake)).log().mean()), rel=1e-6
    )


@pytest.mark.parametrize(
    ("name", "critic", "generator"),
    [
        ("minimax", 2 * math.log(2), -math.log(2)),
        ("non_saturating", 2 * math.log(2), math.log(2)),
        ("wasserstein", 0.0, 0.0),
        ("hinge", 2.0, 0.0),
        ("least_squares", 0.5, 0.5),
        ("relativistic", math.log(2), math.log(2)),
        ("relativistic_average", math.log(2), math.log(2)),
    ],
)
def test_values_where_the_critic_cannot_tell(name, critic, generator):
    zero = torch.zeros(8)
    assert float(LOSSES[name].critic(zero, zero)) == pytest.approx(critic, abs=1e-6)
    assert float(LOSSES[name].generator(zero, zero)) == pytest.approx(generator, abs=1e-6)


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_the_critic_wants_real_rows_up_and_the_generator_its_own(name):
    real, fake = torch.zeros(4, requires_grad=True), torch.zeros(4, requires_grad=True)
    slope_real, slope_fake = torch.autograd.grad(LOSSES[name].critic(real, fake), (real, fake), allow_unused=True)
    assert (slope_real < 0).all() and (slope_fake >= 0).all()
    (slope,) = torch.autograd.grad(LOSSES[name].generator(real, fake), fake)
    assert (slope < 0).all()


# -- penalties ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("one_sided", "scale"), [(False, 3.0), (False, 0.5), (True, 3.0), (True, 0.5)])
def test_the_gradient_penalty_of_a_linear_critic(one_sided, scale):
    weight = scale * torch.tensor([0.6, 0.8], dtype=torch.float64)
    found = gradient_penalty(lambda x: x @ weight, torch.randn(5, 2, dtype=torch.float64), one_sided=one_sided)
    expected = (scale - 1) ** 2 if scale > 1 or not one_sided else 0.0
    assert float(found) == pytest.approx(expected, abs=1e-9)


def test_penalties_at_real_and_generated_rows_of_a_quadratic_critic():
    """D(x) = |x|^2 / 2 has the gradient x, so R1 is half the mean square of real rows, R2 of generated ones."""
    real = torch.randn(6, 3, dtype=torch.float64).requires_grad_()
    fake = torch.randn(6, 3, dtype=torch.float64).requires_grad_()

    def judge(x):
        return 0.5 * x.square().sum(1)

    sides = Contestants(judge, real, fake, judge(real), judge(fake))
    expected = 0.5 * (real.square().sum(1).mean() + fake.square().sum(1).mean())
    assert regularizer_of(("r1", "r2"), 1.0)(sides).item() == pytest.approx(expected.item(), rel=1e-12)
    assert regularizer_of("r1", 3.0)(sides).item() == pytest.approx(1.5 * real.square().sum(1).mean().item(), rel=1e-12)


def test_penalties_have_the_right_gradient_in_the_weights():
    points = torch.randn(4, 2, dtype=torch.float64)

    def penalty(weight, bias):
        return gradient_penalty(lambda x: torch.tanh(x @ weight + bias).sum(1), points)

    inputs = [torch.randn(2, 3, dtype=torch.float64, requires_grad=True), torch.randn(3, dtype=torch.float64)]
    assert torch.autograd.gradcheck(penalty, (inputs[0], inputs[1].requires_grad_()))


def test_interpolates_lie_between_and_weights_are_clipped():
    real, fake = torch.zeros(50, 2), torch.ones(50, 2)
    between = interpolates(real, fake)
    assert ((between >= 0) & (between <= 1)).all() and (between[:, 0] == between[:, 1]).all()
    assert len(between[:, 0].unique()) > 40
    held = [torch.linspace(-1, 1, 9), torch.full((2, 2), -5.0)]
    clip_weights(held, 0.3)
    assert max(float(w.abs().max()) for w in held) == pytest.approx(0.3)


# -- games through the engine ---------------------------------------------------------------------------


class Place(nn.Module):
    """One number: where the generated point lies, or the slope of the critic."""

    def __init__(self, start):
        super().__init__()
        self.value = nn.Parameter(torch.tensor([start], dtype=torch.float64))


def dirac(game, steps, weight=0.0, lr=0.2, loss="wasserstein"):
    """The Dirac-GAN of Mescheder et al., 2018: data at 0, one generated point, a linear critic; returns its end."""
    trainer = Trainer(steps=steps, optimizer="sgd", lr=lr, batch_size=4)
    point, slope = Place(1.0), Place(1.0)
    pair = loss_of(loss)

    def critic(batch):
        fake = slope.value * point.value.detach()
        penalty = 0.5 * weight * slope.value.square().sum()
        return len(batch.X) * (pair.critic(torch.zeros_like(fake), fake) + penalty)

    def generator(batch):
        return len(batch.X) * pair.generator(torch.zeros(1), slope.value * point.value)

    losses = {"critic": (slope, critic), "generator": (point, generator)}
    players = {
        name: Player(module, loss, trainer, wrap=lambda base: game_optimizer(game, base))
        for name, (module, loss) in losses.items()
    }
    both = tuple(players)
    phases = {"extragradient": ("look", "step"), "alternating": both}.get(game, ("step",))
    turns = {"look": Turn(both, "look"), "step": Turn(both)}
    learner = GradientLearner(players, trainer, phases=phases, turns=turns)
    feed = ArrayFeed(Batch(torch.zeros(800, 1, dtype=torch.float64)), batch_size=4, seed=0, device=CPU)
    loop = Loop(learner, feed, trainer, seed=0, device=CPU).run()
    assert math.isfinite(loop.history[-1]["critic_loss"])
    return math.hypot(point.value.item(), slope.value.item())


def test_descent_cycles_on_the_dirac_game():
    """Around x y = 0 simultaneous steps of size h grow by sqrt(1 + h^2); alternating ones go round for ever."""
    assert dirac("simultaneous", 50) == pytest.approx(math.sqrt(2) * (1 + 0.04) ** 25, rel=1e-6)
    assert dirac("alternating", 400) > 0.5


@pytest.mark.parametrize("loss", ["wasserstein", "minimax"])
@pytest.mark.parametrize("game", ["extragradient", "optimistic"])
def test_looking_ahead_converges_on_the_dirac_game(game, loss):
    assert dirac(game, 1200, loss=loss, lr=0.4) < 1e-3


@pytest.mark.parametrize("game", ["simultaneous", "alternating"])
def test_a_penalty_converges_on_the_dirac_game(game):
    """With R1 of weight w the linearized game has eigenvalues of real part -w / 2."""
    assert dirac(game, 600, weight=1.0, loss="non_saturating") < 1e-3


# -- fitting --------------------------------------------------------------------------------------------


def test_only_the_generator_is_averaged():
    trainer = {"steps": 40, "lr": 1e-2, "schedule": "constant"}
    plain = small(trainer={**trainer, "ema": 1e-6}).fit(TABLE)
    slow = small(trainer={**trainer, "ema": 0.999}).fit(TABLE)
    for one, other in zip(plain.network_.critic.parameters(), slow.network_.critic.parameters(), strict=True):
        assert torch.equal(one, other)
    first, last = (model.network_.generator[0].weight for model in (slow, plain))
    assert not torch.allclose(first, last)


class StopAt(Callback):
    """Raise in the middle of training, as a crash would."""

    def __init__(self, step):
        self.step = step

    def on_step(self, moment, info):
        if moment.step == self.step:
            raise RuntimeError("crash")


@pytest.mark.parametrize("game", ["alternating", "extragradient", "optimistic"])
def test_a_run_that_was_killed_ends_the_same(game, tmp_path):
    def run(folder, **more):
        folder = {"folder": str(tmp_path / folder), "every_steps": 7}
        trainer = {"steps": 61, "batch_size": 32, "checkpoint": folder, **more}
        return small(benthic.WGAN if game == "alternating" else None, game=game, trainer=trainer)

    whole = run("a").fit(TABLE)
    with pytest.raises(RuntimeError, match="crash"):
        run("b", callbacks=(StopAt(38),)).fit(TABLE)
    again = run("b", resume=True).fit(TABLE)
    for one, other in zip(whole.network_.parameters(), again.network_.parameters(), strict=True):
        assert torch.equal(one, other)
    assert whole.history_ == again.history_
    np.testing.assert_array_equal(whole.sample(5, seed=0), again.sample(5, seed=0))


@pytest.mark.parametrize("settings", [{"loss": name} for name in sorted(LOSSES)] + [
    {"penalty": "gradient"}, {"penalty": ("r1", "r2")}, {"penalty": "one_sided"}, {"penalty": "clip"},
    {"penalty": None},
    {"spectral": True, "penalty": None, "loss": "hinge"}, {"critic_steps": 3}, {"game": "simultaneous"},
    {"game": "extragradient"}, {"game": "optimistic"}, {"game": "optimistic", "critic_steps": 2, "penalty": "clip"},
    {"generator_lr": 1e-3, "critic_lr": 4e-3}, {"latent_components": 8},
    {"loss": (lambda real, fake: (fake - real).mean(), lambda real, fake: -fake.mean())},
    {"penalty": lambda sides: sides.real_scores.square().mean()},
], ids=lambda chosen: re.sub(r" at 0x\w+", "", str(chosen)))  # fmt: skip
def test_every_choice_goes_with_every_other(settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # sixty updates need not reach all clusters
        model = small(**settings).fit(TABLE)
    assert np.isfinite(model.sample(50, seed=0)).all()
    assert {"critic_loss", "generator_loss"} <= {key for entry in model.history_ for key in entry}
    if settings.get("penalty") == "clip":
        assert max(p.abs().max().item() for p in model.network_.critic.parameters()) <= 0.01 + 1e-9


def test_players_have_their_own_rates_and_the_critic_its_own_batches():
    model = small(generator_lr=1e-4, critic_lr=4e-3, critic_steps=3)
    seen = []

    class Spy(Callback):
        def on_step(self, moment, info):
            seen.append({name: player.lr for name, player in moment.learner.players.items()})

    model.set_params(trainer__callbacks=(Spy(),), trainer__steps=8).fit(TABLE)
    assert seen[0] == {"critic": 4e-3, "generator": 1e-4}
    assert model._phases() == ("critic", "critic", "critic", "generator")


# -- verbs ----------------------------------------------------------------------------------------------


def test_frames_come_back_as_frames():
    frame = pd.DataFrame({"height": TABLE[:, 0], "mass": TABLE[:, 1].astype("float32"), "age": np.arange(160)})
    frame["kind"] = pd.Categorical(np.where(TABLE[:, 2] > 0, "up", "down"))
    drawn = small().fit(frame).sample(7, seed=0)
    assert list(drawn.columns) == list(frame.columns) and len(drawn) == 7
    assert (drawn.dtypes == frame.dtypes).all()
    assert set(drawn["kind"]) <= {"up", "down"}


def test_images_keep_their_shape():
    images = load_digits().images[:120, None] / 16.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = small(trainer={"steps": 20}).fit(images)
    assert model.sample(5, seed=0).shape == (5, 1, 8, 8)
    assert model.reconstruct(images[:3]).shape == (3, 1, 8, 8)
    assert model.encode(images[:3]).shape == (3, 3)


def test_likelihoods_declare_their_kind(fitted):
    found = fitted.likelihood(TABLE[:20])
    assert (found.kind, found.bound, found.measure) == ("kde", "estimate", "density")
    annealed = fitted.likelihood(TABLE[:20], "ais(60)")
    assert (annealed.kind, annealed.bound) == ("ais", "lower")
    # the same smoothed law: both estimates agree within their errors, where the draws of the first are dense
    dense = found.stderr < 0.2
    gap = (found.value - annealed.value)[dense]
    assert dense.any() and np.abs(gap).mean() < 0.5
    with pytest.raises(InvalidInput, match=r"GAN.likelihood: method 'exact' is unknown; use 'kde'"):
        fitted.likelihood(TABLE, "exact")


def test_annealing_is_right_for_a_linear_generator():
    """x = W z + sigma e is normal with covariance W W' + sigma^2 I."""
    weight = torch.tensor([[1.0, 0.3], [0.0, 0.8]], dtype=torch.float64)
    rows = torch.randn(6, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    value, stderr = annealed_likelihood(lambda z: z @ weight.T, rows, 2, 0.5, temperatures=200)
    law = torch.distributions.MultivariateNormal(torch.zeros(2).double(), weight @ weight.T + 0.25 * torch.eye(2))
    assert ((value - law.log_prob(rows)).abs() < 4 * stderr + 0.02).all()


def test_a_parzen_density_integrates_to_one_and_fills_gaps_as_it_should():
    points = torch.tensor([[0.0, 1.0], [2.0, -1.0], [2.0, 1.5]], dtype=torch.float64)
    law = Parzen(points, 0.4)
    side = torch.linspace(-4, 6, 301, dtype=torch.float64)
    grid = torch.cartesian_prod(side, side)
    mass = torch.exp(law.log_prob(grid)[0]).sum() * float(side[1] - side[0]) ** 2
    assert float(mass) == pytest.approx(1.0, abs=1e-6)
    row = torch.tensor([[2.0, math.nan]], dtype=torch.float64).repeat(4000, 1)
    filled = law.fill(row, torch.Generator().manual_seed(0))
    weight = math.exp(-(2.0**2) / (2 * 0.16))
    expected = (weight * 1.0 - 1.0 + 1.5) / (2 + weight)
    assert float(filled.mean[0, 1]) == pytest.approx(expected, abs=1e-9)
    assert abs(float(filled.draw[:, 1].mean()) - expected) < 4 * 1.4 / math.sqrt(4000)
    assert (filled.draw[:, 0] == 2.0).all()


def test_the_bandwidth_is_that_of_unseen_rows():
    stream = torch.Generator().manual_seed(0)
    center = torch.randn(50, 2, dtype=torch.float64, generator=stream)
    rows = center.repeat(8, 1) + 0.2 * torch.randn(400, 2, dtype=torch.float64, generator=stream)
    assert best_bandwidth(center, rows, (0.05, 0.1, 0.2, 0.4, 0.8)) == 0.2


def test_inversion_recovers_the_codes_of_a_linear_generator():
    stream = torch.Generator().manual_seed(0)
    weight, codes = (torch.randn(s, dtype=torch.float64, generator=stream) for s in ((3, 5), (20, 3)))
    start = torch.randn(16, 3, dtype=torch.float64, generator=stream)
    found = invert(lambda z: z @ weight, codes @ weight, start, prior=0.0)
    assert (found - codes).abs().max() < 1e-8
    ridge = torch.linalg.solve(weight @ weight.T + 0.1 * torch.eye(3), weight @ (codes @ weight).T).T
    assert (invert(lambda z: z @ weight, codes @ weight, start, prior=0.1) - ridge).abs().max() < 1e-8


def test_codes_of_made_rows_make_them_again(fitted):
    codes = np.random.default_rng(3).normal(size=(40, 3))
    rows = fitted.decode(codes)
    again = fitted.reconstruct(rows)
    gap = np.abs(again - rows).max(1) / TABLE.std(0).mean()
    assert np.median(gap) < 0.01 and (gap < 0.2).mean() > 0.9


# -- diagnostics ----------------------------------------------------------------------------------------


def test_history_and_summary_tell_how_the_game_went(fitted):
    seen = {key for entry in fitted.history_ for key in entry}
    assert {
        "critic_loss",
        "generator_loss",
        "lr",
        "critic_gap",
        "coverage",
        "spread",
        "critic_gradient",
        "generator_gradient",
    } <= seen
    assert "clusters covered" in fitted.summary() and "distance to data" in fitted.summary()
    wasserstein = small(benthic.WGAN).fit(TABLE)
    assert "wasserstein" in {key for entry in wasserstein.history_ for key in entry}


def test_coverage_counts_the_clusters_that_are_reached():
    angle = torch.arange(8) * math.pi / 4
    centers = 10 * torch.stack([angle.cos(), angle.sin()], 1)
    stream = torch.Generator().manual_seed(0)
    rows = centers.repeat(20, 1) + 0.1 * torch.randn(160, 2, generator=stream)
    clusters = Clusters(rows)
    assert clusters.coverage(rows) == 1.0
    assert clusters.coverage(centers[:4].repeat(40, 1)) == pytest.approx(0.5, abs=0.13)


def test_copies_lie_near_and_new_rows_do_not():
    stream = torch.Generator().manual_seed(0)
    train, new, held = (torch.randn(300, 3, generator=stream) for _ in range(3))
    assert nearness(train + 1e-3, train, held) < 0.05
    assert nearness(new, train, held) == pytest.approx(1.0, abs=0.2)
    assert nearness(new, train, None) == pytest.approx(1.0, abs=0.2)


class Stuck(nn.Module):
    """A generator that makes one row whatever the code."""

    def __init__(self):
        super().__init__()
        self.row = nn.Parameter(torch.zeros(1, 3))

    def forward(self, codes):
        return self.row.expand(len(codes), -1) + 0.0 * codes[:, :1]


def test_collapse_is_said_with_advice():
    model = small(network=(Stuck(), nn.Linear(3, 1)))
    with pytest.warns(UserWarning, match=r"GAN.fit: the generator has collapsed.*try penalty"):
        model.fit(TABLE)


# -- bad input ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"loss": "wassertein"}, "loss 'wassertein' is unknown.*did you mean 'wasserstein'"),
        ({"penalty": "r3"}, "penalty 'r3' is unknown.*use one of"),
        ({"penalty_weight": -1.0}, "penalty_weight is -1.0; it must be positive"),
        ({"game": "extragradien"}, "game 'extragradien' is unknown.*did you mean 'extragradient'"),
        ({"game": "extragradient", "critic_steps": 2}, "critic_steps is 2, but in game='extragradient' both move"),
        ({"critic_lr": 0.0}, "critic_lr is 0.0; it must be positive"),
        ({"latent_dim": 0}, "latent_dim is 0"),
        ({"trainer": {"early_stopping": True}}, "early_stopping watches a loss that falls"),
        ({"network": (nn.Linear(3, 2), nn.Linear(3, 1))}, "the generator gives 2 numbers.*the data have 3"),
        ({"network": (nn.Linear(3, 3), nn.Linear(4, 1))}, "the critic does not take examples of shape"),
        (
            {"network": (nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 1), nn.Sigmoid()))},
            "the critic ends in a Sigmoid, but loss='non_saturating' is of outputs before it",
        ),
        (
            {"network": (nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Linear(8, 1)))},
            "the critic has a BatchNorm1d, through which the rows of a batch see each other, but the penalty",
        ),
    ],
    ids=lambda value: "" if isinstance(value, str) else str(value)[:40],
)  # fmt: skip
def test_settings_that_cannot_be(settings, words):
    with pytest.raises(InvalidInput, match=f"GAN.fit: .*{words}"):
        small(**settings).fit(TABLE)


class Squashed(nn.Module):
    """A critic that hides its sigmoid."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 1)

    def forward(self, x):
        return torch.sigmoid(self.layer(x))


def test_a_critic_of_probabilities_is_noticed_by_its_outputs():
    with pytest.warns(UserWarning, match="all outputs of the critic lie between 0 and 1, like probabilities"):
        small(network=(nn.Linear(3, 3), Squashed())).fit(TABLE)


def test_batch_norm_is_fine_without_a_penalty_on_rows():
    critic = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
    model = small(network=(nn.Linear(3, 3), critic), penalty=None).fit(TABLE)
    assert np.isfinite(model.sample(5, seed=0)).all()


@pytest.mark.parametrize("rows", [np.full((40, 3), 2.0), np.full((30, 1, 8, 8), 0.5), TABLE[:1]])
def test_rows_that_are_all_the_same_are_said(rows):
    with pytest.warns(UserWarning, match="a generator learns how rows differ"):
        model = small(trainer={"steps": 10}).fit(rows)
    assert np.isfinite(model.sample(3, seed=0)).all()


def test_fewer_rows_than_a_batch():
    model = small(trainer={"steps": 10, "batch_size": 256}).fit(TABLE[:5])
    assert model.sample(4, seed=0).shape == (4, 3)


# -- tables of several kinds ------------------------------------------------------------------------------


def test_mixed_tables_keep_their_kinds_and_shares(tmp_path):
    rng = np.random.default_rng(0)
    kind = rng.choice(["a", "b", "c"], size=400, p=[0.6, 0.3, 0.1])
    frame = pd.DataFrame({
        "kind": pd.Categorical(kind),
        "flag": rng.random(400) < 0.3,
        "size": np.where(kind == "a", -3.0, 3.0) + 0.3 * rng.normal(size=400),
    })  # fmt: skip
    trainer = {"steps": 600, "lr": 2e-3, "verbose": False}
    model = small(hidden_layer_sizes=(32,), trainer=trainer).fit(frame)
    assert model.columns_ is not None and "modes" in model.summary()
    drawn = model.sample(500, seed=0)
    assert (drawn.dtypes == frame.dtypes).all()
    shares = drawn["kind"].value_counts(normalize=True)
    assert abs(shares.get("a", 0.0) - 0.6) < 0.25
    assert drawn.equals(model.sample(500, seed=0)) and not drawn.equals(model.sample(500, seed=1))
    loaded = benthic.load(model.save(tmp_path / "model.safetensors"))
    assert loaded.sample(50, seed=3).equals(model.sample(50, seed=3))
    assert np.isfinite(model.likelihood(frame).value).all()
    assert model.reconstruct(frame[:5]).shape == (5, 3) and model.encode(frame[:5]).shape == (5, 3)
    with pytest.raises(InvalidInput, match="'ais' needs rows without drawn states"):
        model.likelihood(frame, "ais")
    plain = small(columns="standard").fit(frame)
    assert plain.columns_ is None
