"""Game optimizers: the rates of theory on plain games, agreement with their formulas, and exact resumption."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from torch import nn

from benthic.base.errors import InvalidInput
from benthic.base.modelfile import load_tree, save_tree
from benthic.optim import (
    Extragradient,
    OptimisticAdam,
    PastExtragradient,
    bilinear,
    dirac_gan,
    game_optimizer,
    game_paths,
    game_round,
    optimizer_of,
    play,
)
from benthic.optim.games import METHODS

pytestmark = pytest.mark.spec("D-03")
D = torch.float64
START = (0.8, -0.6)


def growth(path, tail=50):
    """The factor of the distance from 0 a step, over the last steps of a path."""
    lengths = path.points.norm(dim=1)
    return float((lengths[-1] / lengths[-1 - tail]) ** (1 / tail))


def optimistic_radius(eigenvalues, rate):
    """Of w' = w - 2 rate a w + rate a w_before: the largest root of λ² - (1 - 2 rate a) λ - rate a."""
    return max(abs(np.roots([1, -(1 - 2 * rate * a), -rate * a])).max() for a in eigenvalues)


# -- the bilinear game -------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.05, 0.3, 0.9])
def test_bilinear_rates_are_those_of_theory(rate):
    # all follow from the eigenvalues ±i of the field; lengths change by exactly this factor every step
    lengths = play(bilinear, START, rate=rate, steps=60).points.norm(dim=1)
    expected = math.sqrt(1 + rate**2) ** torch.arange(61, dtype=D)
    torch.testing.assert_close(lengths, expected, rtol=1e-12, atol=0)
    lengths = play(bilinear, START, "extragradient", rate=rate, steps=60).points.norm(dim=1)
    expected = math.sqrt(1 - rate**2 + rate**4) ** torch.arange(61, dtype=D)
    torch.testing.assert_close(lengths, expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("method", ["past_extragradient", "optimistic"])
@pytest.mark.parametrize("rate", [0.1, 0.4])
def test_bilinear_optimistic_contracts(method, rate):
    path = play(bilinear, START, method, rate=rate, steps=400)
    radius = optimistic_radius([1j, -1j], rate)
    assert radius < 1
    assert growth(path, 200) == pytest.approx(radius, rel=1e-3)  # the second root fades; the phase stays in the ratio


def test_bilinear_optimistic_needs_a_small_rate():
    # the root of modulus one is reached at rate 1/sqrt(3)
    assert optimistic_radius([1j], 0.57) < 1 < optimistic_radius([1j], 0.59)
    assert growth(play(bilinear, START, "optimistic", rate=0.62, steps=400), 200) > 1


def test_bilinear_alternating_stays_on_an_ellipse():
    # x² - rate x y + y² is kept by x' = x - rate y, y' = y + rate x'
    path, rate = play(bilinear, START, "alternating", rate=0.3, steps=200), 0.3
    kept = path.x**2 - rate * path.x * path.y + path.y**2
    torch.testing.assert_close(kept, kept[:1].expand_as(kept), rtol=1e-11, atol=0)


def test_extragradient_with_the_other_player_left_behind_is_descent_ascent():
    rate, (x, y) = 0.3, (torch.tensor(v, dtype=D) for v in START)
    plain = play(bilinear, START, rate=rate, steps=40)
    for point in plain.points[1:]:
        x_half, y_half = x - rate * y, y + rate * x
        half_x = x_half.clone().requires_grad_()
        half_y = y_half.clone().requires_grad_()
        (gx,) = torch.autograd.grad(bilinear(half_x, y), half_x)  # own half step, the other at t
        (gy,) = torch.autograd.grad(bilinear(x, half_y), half_y)
        x, y = x - rate * gx, y + rate * gy
        torch.testing.assert_close(torch.stack((x, y)), point, rtol=1e-13, atol=0)
    assert torch.hypot(x, y) > math.sqrt(1 + rate**2) ** 39


def test_a_bilinear_game_of_matrices():
    # x' B y: each singular value s of B turns its own plane, with eigenvalues ±i s
    generator = torch.Generator().manual_seed(0)
    B = torch.randn(3, 3, dtype=D, generator=generator)
    start = torch.randn(2, 3, dtype=D, generator=generator)
    values = torch.linalg.svdvals(B)
    rate = 0.5 / float(values[0])
    slowest = max(float(torch.sqrt(1 - (rate * s) ** 2 + (rate * s) ** 4)) for s in values)
    path = play(lambda x, y: x @ B @ y, start.unbind(), "extragradient", rate=rate, steps=1500)
    assert path.x.shape == (1501, 3) and path.values.shape == (1501,)
    assert growth(path, 600) == pytest.approx(slowest, rel=1e-5)


# -- strongly convex-concave -------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["simultaneous", "extragradient", "optimistic", "past_extragradient"])
def test_convex_concave_quadratic(method):
    # x'Px/2 + x'By - y'Qy/2: the field is linear, so the factor is the largest modulus of a polynomial of its
    # eigenvalues
    generator = torch.Generator().manual_seed(1)
    B = torch.randn(2, 2, dtype=D, generator=generator)
    P, Q = torch.diag(torch.tensor([1.0, 0.6], dtype=D)), torch.diag(torch.tensor([0.5, 0.8], dtype=D))
    field = torch.cat((torch.cat((P, B), 1), torch.cat((-B.T, Q), 1)))
    a, rate = torch.linalg.eigvals(field).numpy(), 0.15
    radius = {
        "simultaneous": abs(1 - rate * a).max(),
        "extragradient": abs(1 - rate * a + (rate * a) ** 2).max(),
    }.get(method, optimistic_radius(a, rate))
    assert radius < 1

    def game(x, y):
        return 0.5 * x @ P @ x + x @ B @ y - 0.5 * y @ Q @ y

    path = play(game, ([1.0, 2.0], [-1.0, 0.5]), method, rate=rate, steps=260)
    # complex pairs turn, so lengths swing around the geometric decay: at most by the conditioning of the eigenvectors
    assert growth(path, 200) == pytest.approx(radius, rel=0.01)


# -- the Dirac-GAN ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["minimax", "nonsaturating", "wasserstein"])
def test_looking_ahead_converges_on_the_dirac_gan(loss):
    # at 0 the field has the eigenvalues ±i f'(0), with f'(0) = 1/2 or 1: extragradient shrinks by at most 0.981 a step
    for method in ("extragradient", "past_extragradient", "optimistic"):
        assert play(dirac_gan(loss), (1.0, 1.0), method, rate=0.4, steps=450).points[-1].norm() < 1e-3


@pytest.mark.parametrize("loss", ["minimax", "wasserstein"])
def test_descent_ascent_cycles_on_the_dirac_gan(loss):
    game, first = dirac_gan(loss), math.sqrt(2)
    out = play(game, (1.0, 1.0), "simultaneous", rate=0.2, steps=500).points.norm(dim=1)
    assert out[-250:].min() > out[:250].max() > first  # outwards
    around = play(game, (1.0, 1.0), "alternating", rate=0.2, steps=500)
    lengths = around.points.norm(dim=1)
    assert 0.85 * first < lengths.min() <= lengths.max() < 1.15 * first
    assert (around.x[-100:].min() < -1) and (around.x[-100:].max() > 1)  # and still going around


def test_the_nonsaturating_dirac_gan_ends_on_a_circle():
    # far out its curvature damps, near 0 the finite rate drives outwards: from both sides to the same cycle
    rest = [play(dirac_gan("nonsaturating"), (s, s), rate=0.4, steps=500).points[-100:] for s in (0.3, 1.0)]
    spans = [points.norm(dim=1).aminmax() for points in rest]
    assert spans[0].min == pytest.approx(float(spans[1].min), rel=1e-2) and spans[0].min > 0.8
    assert spans[0].max == pytest.approx(float(spans[1].max), rel=1e-2) and spans[0].max < 1


def test_r1_makes_descent_ascent_converge():
    # eigenvalues of the field at 0 are those of [[0, 1/2], [-1/2, γ]]: real part γ/2
    for method in ("simultaneous", "alternating"):
        path = play(dirac_gan("minimax", r1=1.0), (1.0, 1.0), method, rate=0.1, steps=800)
        assert path.points[-1].norm() < 1e-10
        a = np.linalg.eigvals(np.array([[0, 0.5], [-0.5, 0.4]]))
        slow = play(dirac_gan("minimax", r1=0.4), (0.01, 0.01), "simultaneous", rate=0.1, steps=400)
        assert growth(slow, 300) == pytest.approx(abs(1 - 0.1 * a).max(), abs=2e-3)


def test_dirac_gan_gradients():
    generator, critic = dirac_gan("nonsaturating", r1=0.3)
    x, y = (torch.tensor(v, dtype=D, requires_grad=True) for v in (0.7, -0.4))
    sigmoid = 1 / (1 + math.exp(0.7 * 0.4))  # of xy
    (gx,) = torch.autograd.grad(generator(x, y), x)
    (gy,) = torch.autograd.grad(critic(x, y), y)
    assert float(gx) == pytest.approx(sigmoid * -0.4, rel=1e-12)
    assert float(gy) == pytest.approx(0.3 * -0.4 - (1 - sigmoid) * 0.7, rel=1e-12)


# -- wrappers -----------------------------------------------------------------------------------------------


def players(make, seed=0, dtype=torch.float32):
    """Two small networks that play, their losses, and an optimizer each."""
    torch.manual_seed(seed)
    nets = [nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 3)).to(dtype) for _ in range(2)]
    X = torch.randn(16, 3, dtype=dtype)

    def value():
        return (nets[0](X) * nets[1](X)).mean() + 0.1 * (nets[0](X) - X).square().mean()

    losses = [value, lambda: 0.05 * nets[1](X).square().mean() - value()]
    return nets, losses, [make(net.parameters()) for net in nets]


def weights(nets):
    return torch.cat([p.detach().reshape(-1) for net in nets for p in net.parameters()])


BASES = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, fused=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01),
    "heavy_ball": lambda p: optimizer_of("heavy_ball", p, 0.01),
}
MAKES = {
    **{f"extragradient-{n}": (lambda p, n=n: Extragradient(BASES[n](p))) for n in BASES},
    **{f"past-{n}": (lambda p, n=n: PastExtragradient(BASES[n](p))) for n in BASES},
    "optimistic-adam": lambda p: OptimisticAdam(p, lr=0.01, weight_decay=0.01),
}


def test_extra_adam_follows_its_formula():
    # Gidel et al. 2019, algorithm 4: both calls move the averages, both start from the origin
    lr, (b1, b2), eps = 0.01, (0.5, 0.9), 1e-8
    nets, losses, made = players(lambda p: Extragradient(torch.optim.Adam(p, lr=lr, betas=(b1, b2), eps=eps)), dtype=D)
    twins = copy.deepcopy(nets)
    twin_losses = players(MAKES["past-sgd"], dtype=D)  # only for its losses on other networks
    nets2, losses2 = twin_losses[0], twin_losses[1]
    for net, twin in zip(nets2, twins, strict=True):
        net.load_state_dict(twin.state_dict())
    held = [list(net.parameters()) for net in nets2]
    m = [[torch.zeros_like(p) for p in one] for one in held]
    v = [[torch.zeros_like(p) for p in one] for one in held]
    count = 0
    for _ in range(5):
        game_round(made, losses, "extragradient")
        origin = [[p.detach().clone() for p in one] for one in held]
        for _ in range(2):
            count += 1
            grads = [torch.autograd.grad(loss(), one) for loss, one in zip(losses2, held, strict=True)]
            for i in range(2):
                for j, g in enumerate(grads[i]):
                    m[i][j] = b1 * m[i][j] + (1 - b1) * g
                    v[i][j] = b2 * v[i][j] + (1 - b2) * g * g
                    step = m[i][j] / (1 - b1**count) / ((v[i][j] / (1 - b2**count)).sqrt() + eps)
                    held[i][j].data.copy_(origin[i][j] - lr * step)
    torch.testing.assert_close(weights(nets), weights(nets2), rtol=1e-10, atol=1e-13)


def test_optimistic_adam_is_past_extragradient_of_adam():
    options = {"lr": 0.01, "betas": (0.5, 0.9)}
    ours, losses, made = players(lambda p: OptimisticAdam(p, **options), dtype=D)
    other, other_losses, past = players(lambda p: PastExtragradient(torch.optim.Adam(p, **options)), dtype=D)
    for _ in range(30):
        game_round(made, losses, "optimistic")
        game_round(past, other_losses, "optimistic")
        torch.testing.assert_close(weights(ours), weights(other), rtol=1e-9, atol=1e-12)


def test_optimistic_adam_follows_its_formula_with_a_schedule():
    x = nn.Parameter(torch.tensor([0.3, -2.0], dtype=D))
    adam = OptimisticAdam([x], lr=torch.tensor(0.1), betas=(0.9, 0.999), weight_decay=0.2)
    point, m, v, last = x.detach().clone(), 0.0, 0.0, 0.0
    for t, rate in enumerate((0.1, 0.03, 0.2, 0.01), start=1):
        adam.param_groups[0]["lr"].fill_(rate)
        x.grad = x.detach().sin()
        g = point.sin() + 0.2 * point
        adam.step()
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        now = m / (1 - 0.9**t) / ((v / (1 - 0.999**t)).sqrt() + 1e-8)
        rate = float(torch.tensor(rate))  # as the float32 tensor has it
        point, last = point - rate * (2 * now - last), now
        torch.testing.assert_close(x.detach(), point, rtol=1e-12, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_optimistic_adam_keeps_types_and_skips_what_has_no_gradient(dtype):
    x, y, z = (nn.Parameter(torch.ones(shape, dtype=dtype)) for shape in ((2,), (), (3,)))
    adam = OptimisticAdam([x, y, z], lr=0.125)
    for _ in range(3):
        x.grad, y.grad = torch.ones_like(x), torch.ones_like(y)
        adam.step()
    assert x.dtype == y.dtype == dtype and z not in adam.state
    assert adam.state[y]["direction"].dtype == dtype
    torch.testing.assert_close(y.detach(), torch.full((), 0.5, dtype=dtype), rtol=1e-2, atol=0)  # 1 - (3 + 1) / 8
    assert torch.equal(x.detach()[0], y.detach()) and bool((z == 1).all())


@pytest.mark.parametrize("name", MAKES)
def test_a_resumed_run_is_the_same_to_the_last_bit(name, tmp_path):
    method = "extragradient" if name.startswith("extragradient") else "optimistic"
    nets, losses, made = players(MAKES[name])
    for _ in range(4):
        game_round(made, losses, method)
    held = {"nets": [dict(n.state_dict()) for n in nets], "made": [o.state_dict() for o in made]}
    tree = load_tree(save_tree(tmp_path / "state.safetensors", held))
    again, again_losses, others = players(MAKES[name], seed=0)
    for net, state in zip(again, tree["nets"], strict=True):
        net.load_state_dict(state)
    for one, state in zip(others, tree["made"], strict=True):
        one.load_state_dict(state)
    for _ in range(4):
        game_round(made, losses, method)
        game_round(others, again_losses, method)
    assert torch.equal(weights(nets), weights(again))


def test_a_run_stopped_while_ahead_resumes():
    nets, losses, made = players(MAKES["extragradient-adam"])
    game_round(made, losses, "extragradient")
    for one, loss, net in zip(made, losses, nets, strict=True):
        one.zero_grad()
        loss().backward(inputs=list(net.parameters()))
    for one in made:
        one.extrapolate()
    state = copy.deepcopy([(net.state_dict(), one.state_dict()) for net, one in zip(nets, made, strict=True)])
    again, again_losses, others = players(MAKES["extragradient-adam"], seed=0)
    for net, one, (weight, kept) in zip(again, others, state, strict=True):
        net.load_state_dict(weight)
        one.load_state_dict(kept)
    for networks, functions, optimizers in ((nets, losses, made), (again, again_losses, others)):
        for net, loss in zip(networks, functions, strict=True):
            net.zero_grad()
            loss().backward(inputs=list(net.parameters()))
        for one in optimizers:
            one.step()
    assert torch.equal(weights(nets), weights(again))


@pytest.mark.parametrize("name", ["extragradient-sgd", "past-adam"])
def test_a_loaded_state_is_a_copy_of_the_held_points(name):
    method = "extragradient" if name.startswith("extragradient") else "optimistic"
    _, losses, made = players(MAKES[name])
    game_round(made, losses, method)
    _, _, others = players(MAKES[name])
    others[0].load_state_dict(made[0].state_dict())
    assert others[0].origins[0].data_ptr() != made[0].origins[0].data_ptr()
    assert torch.equal(others[0].origins[0], made[0].origins[0])


@pytest.mark.parametrize("make", [Extragradient, PastExtragradient])
def test_groups_are_shared_with_the_base(make):
    x, y = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    base = torch.optim.SGD([x], lr=0.1)
    wrapped = make(base)
    wrapped.add_param_group({"params": [y], "lr": 0.5})
    assert wrapped.param_groups is base.param_groups and len(base.param_groups) == 2
    schedule = torch.optim.lr_scheduler.ConstantLR(wrapped, factor=0.5, total_iters=9)
    assert [group["lr"] for group in base.param_groups] == [0.05, 0.25]
    x.grad, y.grad = torch.ones(2), torch.ones(2)
    if make is Extragradient:
        wrapped.extrapolate()
    wrapped.step()
    schedule.step()
    wrapped.load_state_dict(copy.deepcopy(wrapped.state_dict()))
    wrapped.param_groups[0]["lr"] = 3.0
    assert base.param_groups[0]["lr"] == 3.0
    wrapped.zero_grad()
    assert x.grad is None


def test_a_closure_is_evaluated_at_the_look_ahead_point():
    x = nn.Parameter(torch.tensor([2.0]))
    wrapped = Extragradient(torch.optim.SGD([x], lr=0.5))
    x.grad = x.detach().clone()
    wrapped.extrapolate()
    seen = []

    def closure():
        seen.append(x.item())
        x.grad = x.detach().clone()
        return x.square().sum() / 2

    assert wrapped.step(closure).item() == 0.5 and seen == [1.0] and x.item() == 1.5


def test_rates_may_differ_and_optimizers_too():
    path = play(bilinear, (1.0, 1.0), rate=(0.1, 0.4), steps=1)
    torch.testing.assert_close(path.points[1], torch.tensor([0.9, 1.4], dtype=D))
    quick = play(
        bilinear, (1.0, 1.0), "optimistic", rate=0.05, steps=700, optimizer={"name": "adam", "betas": (0.0, 0.9)}
    )
    assert quick.points[-1].norm() < 0.2
    wild = play(bilinear, (1.0, 1.0), rate=1e200, steps=50)
    assert len(wild.x) < 51 and not wild.values[-1].isfinite()


def test_the_picture():
    paths = {m: play(bilinear, START, m, rate=0.3, steps=30) for m in METHODS}
    figure = game_paths(bilinear, paths, equilibrium=(0, 0))
    axes = figure.axes[0]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == list(METHODS)
    drawn = axes.lines[0].get_xydata()
    np.testing.assert_allclose(drawn, paths["simultaneous"].points.numpy())
    (arrows,) = [c for c in axes.collections if hasattr(c, "U")]
    x, y = arrows.X, arrows.Y
    np.testing.assert_allclose(np.arctan2(arrows.V, arrows.U), np.arctan2(x, -y), atol=1e-9)  # the field is (-y, x)


# -- bad input ------------------------------------------------------------------------------------------------


def test_bad_input():
    x = nn.Parameter(torch.ones(1))
    base = torch.optim.SGD([x], lr=0.1)
    with pytest.raises(InvalidInput, match="pass a torch optimizer"):
        Extragradient(x)
    with pytest.raises(InvalidInput, match="LBFGS"):
        PastExtragradient(torch.optim.LBFGS([x]))
    with pytest.raises(InvalidInput, match="such as SGD"):
        Extragradient(Extragradient(base))
    with pytest.raises(InvalidInput, match="did you mean 'extragradient'"):
        game_optimizer("extragradent", base)
    with pytest.raises(InvalidInput, match="call extrapolate first"):
        Extragradient(base).step()
    ahead = Extragradient(base)
    x.grad = torch.ones(1)
    ahead.extrapolate()
    with pytest.raises(InvalidInput, match="ahead already"):
        ahead.extrapolate()
    with pytest.raises(InvalidInput, match="another optimizer"):
        ahead.load_state_dict(base.state_dict())
    with pytest.raises(InvalidInput, match="look ahead together"):
        game_round([ahead], [lambda: x.sum()], "alternating")
    with pytest.raises(InvalidInput, match="1 optimizers and 0 losses"):
        game_round([base], [])


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"start": 1.0}, "both players"),
        ({"start": (1.0, math.inf)}, "not finite"),
        ({"rate": 0.0}, "positive number"),
        ({"rate": (0.1, 0.1, 0.1)}, "two players"),
        ({"steps": -1}, "at least 0"),
        ({"method": "nash"}, "unknown"),
        ({"game": (bilinear,)}, "a game is"),
        ({"game": lambda x, y: torch.stack((x, y))}, "one number"),
    ],
)
def test_bad_games(arguments, match):
    with pytest.raises(InvalidInput, match=match):
        play(**{"game": bilinear, "start": START, **arguments})


def test_bad_settings():
    x = nn.Parameter(torch.ones(1))
    for options in ({"lr": -1.0}, {"betas": (0.5, 1.0)}, {"eps": -1.0}, {"lr": torch.ones(2)}):
        with pytest.raises(InvalidInput, match="OptimisticAdam"):
            OptimisticAdam([x], **options)
    with pytest.raises(InvalidInput, match="dirac_gan"):
        dirac_gan("hinge")
    with pytest.raises(InvalidInput, match="at least 0"):
        dirac_gan(r1=-1.0)
    with pytest.raises(InvalidInput, match="neither a path nor a box"):
        game_paths(bilinear, {})
    with pytest.raises(InvalidInput, match="one a player"):
        game_paths(bilinear, {"wide": play(bilinear, ([1.0, 1.0], [1.0, 0.0]), steps=1)})
