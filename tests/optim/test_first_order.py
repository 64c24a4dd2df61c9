"""Optimizers against the formulas as written, the heavy ball, clipping, and paths."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn

from benthic.base.errors import InvalidInput
from benthic.optim import HeavyBall, clip_to_ball, clip_values, optimizer_of, plot_paths, trajectory
from benthic.optim.build import _NAMED
from tests.optim.problems import D, rosenbrock

pytestmark = pytest.mark.spec("D-01")

LR, EPS = 0.1, 0.3  # a large epsilon shows where it stands
START = torch.tensor([1.0, -2.0, 0.5], dtype=D)
SCALES = torch.tensor([3.0, 0.2, 1.0], dtype=D)


def f(x):
    return 0.5 * (SCALES * x**2).sum()


def steps_of(rule, count=6):
    """Points of a rule that maps (x, gradient, state, t) to (x, state)."""
    x, state, points = START.clone(), None, [START]
    for t in range(1, count + 1):
        x, state = rule(x, SCALES * x, state, t)
        points.append(x)
    return torch.stack(points)


def momentum(x, g, v, t):
    v = g if v is None else 0.9 * v + g
    return x - LR * v, v


def nesterov(x, g, v, t):
    v = g if v is None else 0.9 * v + g
    return x - LR * (g + 0.9 * v), v


def heavy_ball(x, g, before, t):
    return x - LR * g + 0.9 * (x - (x if before is None else before)), x


def adagrad(x, g, s, t):
    s = g**2 if s is None else s + g**2
    return x - LR * g / (s.sqrt() + EPS), s


def rmsprop(x, g, s, t):
    s = 0.01 * g**2 if s is None else 0.99 * s + 0.01 * g**2
    return x - LR * g / (s.sqrt() + EPS), s


def adadelta(x, g, state, t):
    s, u = state or (torch.zeros_like(x), torch.zeros_like(x))
    s = 0.9 * s + 0.1 * g**2
    change = g * (u + EPS).sqrt() / (s + EPS).sqrt()
    return x - LR * change, (s, 0.9 * u + 0.1 * change**2)


def adam(x, g, state, t):
    m, v = state or (torch.zeros_like(x), torch.zeros_like(x))
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
    return x - LR * (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)).sqrt() + EPS), (m, v)


RULES = {
    "sgd": (lambda x, g, _, t: (x - LR * g, None), {}),
    "momentum": (momentum, {}),
    "nesterov": (nesterov, {}),
    "heavy_ball": (heavy_ball, {}),
    "adagrad": (adagrad, {"eps": EPS}),
    "rmsprop": (rmsprop, {"eps": EPS}),
    "adadelta": (adadelta, {"eps": EPS}),
    "adam": (adam, {"eps": EPS}),
}


@pytest.mark.parametrize("name", RULES)
def test_the_optimizer_follows_its_formula(name):
    rule, options = RULES[name]
    path = trajectory(f, START, {"name": name, **options}, steps=6, lr=LR)
    torch.testing.assert_close(path.points, steps_of(rule), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(path.values, torch.stack([f(x) for x in path.points]))


def test_epsilon_stands_outside_the_root_of_adam():
    # the first step of Adam is η g/(|g| + ε); with ε inside it would be η g/√(g² + ε)
    path = trajectory(f, START, {"name": "adam", "eps": EPS}, steps=1, lr=LR)
    g = SCALES * START
    torch.testing.assert_close(path.points[1], START - LR * g / (g.abs() + EPS))
    assert not torch.allclose(path.points[1], START - LR * g / (g**2 + EPS).sqrt(), rtol=1e-2)


@pytest.mark.parametrize("name", ["adagrad", "rmsprop", "adam"])
def test_squares_are_taken_entry_by_entry(name):
    # without ε, every entry of the first step has one length; divided by the norm they would differ
    path = trajectory(f, START, {"name": name, "eps": 1e-30}, steps=1, lr=LR)
    lengths = (path.points[1] - START).abs()
    torch.testing.assert_close(lengths, lengths[:1].expand(3))


def test_adadelta_is_not_rmsprop():
    rms = trajectory(f, START, {"name": "rmsprop", "alpha": 0.9, "eps": 1e-6}, steps=5, lr=LR).points
    delta = trajectory(f, START, {"name": "adadelta", "rho": 0.9, "eps": 1e-6}, steps=5, lr=LR).points
    assert float((rms - delta).abs().max()) > 0.1
    # RMSprop's first step is a multiple of its rate; AdaDelta's is as small as the past steps it has seen
    assert float((rms[1] - START).abs().max()) > 100 * float((delta[1] - START).abs().max())


@pytest.mark.parametrize("name", ["sgd", "momentum", "heavy_ball", "adam", "adagrad", "rmsprop"])
def test_weight_decay_adds_mu_theta_to_the_gradient_and_keeps_its_rate(name):
    mu = 0.7
    with_decay = trajectory(f, START, {"name": name, "weight_decay": mu}, steps=5, lr=LR).points
    penalized = trajectory(lambda x: f(x) + 0.5 * mu * (x**2).sum(), START, name, steps=5, lr=LR).points
    torch.testing.assert_close(with_decay, penalized, rtol=1e-9, atol=1e-12)


def test_decay_shrinks_by_the_rate_times_mu():
    flat = trajectory(lambda x: 0 * x.sum(), START, {"name": "sgd", "weight_decay": 0.5}, steps=1, lr=LR)
    torch.testing.assert_close(flat.points[1], START * (1 - LR * 0.5))
    decoupled = trajectory(f, START, {"name": "adamw", "weight_decay": 0.5}, steps=1, lr=LR).points[1]
    plain = trajectory(f, START, "adam", steps=1, lr=LR).points[1]
    torch.testing.assert_close(decoupled, plain - LR * 0.5 * START)  # past the division, but with the rate


def test_the_heavy_ball_keeps_its_displacement_when_the_rate_changes():
    def run(name):
        return trajectory(f, START, name, steps=2, lr=LR, schedule=lambda step, total: 1.0 if step == 0 else 0.0).points

    ball, sgd = run("heavy_ball"), run("momentum")
    torch.testing.assert_close(ball[1], sgd[1])
    torch.testing.assert_close(ball[2] - ball[1], 0.9 * (ball[1] - ball[0]))
    torch.testing.assert_close(sgd[2], sgd[1])


def test_the_heavy_ball_resumes_from_its_state():
    x = nn.Parameter(START.clone())
    ball = HeavyBall([x], lr=LR, weight_decay=0.1)

    def closure():
        ball.zero_grad()
        loss = f(x)
        loss.backward()
        return loss

    first = ball.step(closure)
    assert float(first.detach()) == pytest.approx(float(f(START)))
    y = nn.Parameter(x.detach().clone())
    twin = HeavyBall([y], lr=LR)
    twin.load_state_dict(copy.deepcopy(ball.state_dict()))  # torch's own would share the tensors
    ball.step(closure)
    y.grad = SCALES * y.detach()
    twin.step()
    torch.testing.assert_close(x.detach(), y.detach())
    with pytest.raises(InvalidInput, match="HeavyBall: momentum=1.5"):
        HeavyBall([x], momentum=1.5)


@pytest.mark.parametrize("name", _NAMED)
def test_every_name_descends(name):
    x = nn.Parameter(START.float().clone())
    optimizer = optimizer_of(name, [x], 1.0 if name == "adadelta" else 0.05)
    before = float(f(x.detach().double()))
    for _ in range(50):
        optimizer.zero_grad()
        (0.5 * (SCALES.float() * x**2).sum()).backward()
        optimizer.step()
    assert float(f(x.detach().double())) < before


def two(*gradients):
    parameters = [nn.Parameter(torch.zeros_like(g)) for g in gradients]
    for p, g in zip(parameters, gradients, strict=True):
        p.grad = g.clone()
    return parameters


def test_the_ball_holds_all_parameters_together():
    first, second = torch.tensor([3.0, 0.0]), torch.tensor([[4.0]])
    parameters = [*two(first, second), nn.Parameter(torch.zeros(2))]  # the last has no gradient
    assert float(clip_to_ball(parameters, 1.0)) == pytest.approx(5.0)
    torch.testing.assert_close(parameters[0].grad, first / 5)
    torch.testing.assert_close(parameters[1].grad, second / 5)
    assert float(clip_to_ball(parameters, 1.5)) == pytest.approx(1.0)  # inside: untouched
    torch.testing.assert_close(parameters[0].grad, first / 5)


@pytest.mark.parametrize("norm", [1.0, 2.0, math.inf])
def test_the_ball_is_that_of_the_norm(norm):
    gradients = [torch.randn(3, 4, generator=torch.Generator().manual_seed(i)) for i in range(3)]
    parameters = two(*gradients)
    flat = torch.cat([g.reshape(-1) for g in gradients])
    before = clip_to_ball(parameters, 0.5, norm=norm)
    torch.testing.assert_close(before, torch.linalg.vector_norm(flat, norm))
    after = torch.cat([p.grad.reshape(-1) for p in parameters])
    torch.testing.assert_close(after, flat * 0.5 / before)


def test_clipping_agrees_with_torch():
    gradients = [torch.randn(5, generator=torch.Generator().manual_seed(i)) for i in range(2)]
    ours, theirs = two(*gradients), two(*gradients)
    total = clip_to_ball(ours, 0.3)
    torch.testing.assert_close(total, nn.utils.clip_grad_norm_(theirs, 0.3))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-5, atol=1e-7)  # torch adds 1e-6 to the norm


def test_gradients_that_are_not_finite_have_no_direction():
    for bad in (math.nan, math.inf):
        parameters = two(torch.tensor([1.0, bad]), torch.tensor([2.0]))
        with pytest.raises(InvalidInput, match="clip_to_ball: the gradient has 1 entries that are not finite"):
            clip_to_ball(parameters, 1.0)
        clip_to_ball(parameters, 1.0, non_finite="keep")
        assert float(parameters[1].grad) == 2.0
        clip_to_ball(parameters, 1.0, non_finite="zero")
        assert all(float(p.grad.abs().sum()) == 0.0 for p in parameters)
    with pytest.raises(InvalidInput, match="clip_values: the gradient has 1 entries"):
        clip_values(two(torch.tensor([math.nan])), 1.0)
    with pytest.raises(InvalidInput, match="non_finite='drop' is unknown"):
        clip_to_ball(parameters, 1.0, non_finite="drop")
    with pytest.raises(InvalidInput, match="radius=0"):
        clip_to_ball(parameters, 0)
    with pytest.raises(InvalidInput, match="limit=-1"):
        clip_values(parameters, -1)
    assert float(clip_to_ball([nn.Parameter(torch.zeros(1))], 1.0)) == 0.0


def test_squares_that_overflow_are_still_a_ball():
    parameters = two(torch.tensor([3e30, 4e30]))
    assert float(clip_to_ball(parameters, 1.0)) == pytest.approx(5e30, rel=1e-6)
    torch.testing.assert_close(parameters[0].grad, torch.tensor([0.6, 0.8]))


def test_values_are_cut_entry_by_entry():
    parameters = two(torch.tensor([-5.0, 0.5, 2.0]))
    clip_values(parameters, 1.0)
    assert parameters[0].grad.tolist() == [-1.0, 0.5, 1.0]


def test_a_path_that_flies_off_ends_there():
    path = trajectory(lambda x: (x**4).sum(), [10.0], "sgd", steps=100, lr=1.0)
    assert len(path.points) < 20 and not math.isfinite(float(path.values[-1]))
    assert len(path.points) == len(path.values)


def test_paths_are_drawn_with_their_names():
    paths = {name: trajectory(rosenbrock, [-1.2, 1.0], name, steps=20, lr=1e-3) for name in ("sgd", "adam")}
    figure = plot_paths(rosenbrock, paths, minima=[[1.0, 1.0]], cells=40)
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["sgd", "adam"]
    drawn = axes.lines[0].get_xydata()
    assert drawn.shape == (21, 2) and drawn[0].tolist() == [-1.2, 1.0]
