"""Laws of motion from trajectories: the field, forecasts, noise, uneven times, files, wrong input."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import benthic
from benthic.base.errors import InvalidInput
from benthic.supervised.trajectories import Motion, Shooting, collocate

pytestmark = pytest.mark.spec("E-04")

TIMES = np.linspace(0, 10, 41)
SETTINGS = {"hidden_layer_sizes": (48,), "activation": "tanh", "solver_steps": 1, "random_state": 0}
TURN = np.array([[-0.1, -1.0], [1.0, -0.1]])


def hares_and_lynxes(z):
    """Lotka and Volterra's field."""
    x, y = np.moveaxis(np.asarray(z), -1, 0)
    return np.stack([x - 0.5 * x * y, 0.3 * x * y - 0.8 * y], -1)


def trajectories(field, starts, times):
    options = {"rtol": 1e-9, "atol": 1e-9, "t_eval": times}
    return np.stack([solve_ivp(lambda t, z: field(z), (times[0], times[-1]), z, **options).y.T for z in starts])


def prey(n, times=TIMES, seed=0):
    starts = np.random.default_rng(seed).uniform([1, 0.5], [5, 3.5], size=(n, 2))
    return trajectories(hares_and_lynxes, starts, times)


def spiral(n, times, seed=0):
    """A damped rotation, whose flow is known."""
    rng = np.random.default_rng(seed)
    radius, angle = rng.uniform(0.5, 2.0, size=n), rng.uniform(0, 2 * np.pi, size=n)
    starts = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1)
    angles = np.stack([np.stack([np.cos(times), -np.sin(times)]), np.stack([np.sin(times), np.cos(times)])])
    return np.einsum("ijt,nj->nti", angles * np.exp(-0.1 * times), starts)


@pytest.fixture(scope="module")
def noisy():
    """A model of noisy trajectories of predator and prey."""
    X = prey(8)
    X += 0.1 * np.random.default_rng(1).normal(size=X.shape)
    return benthic.NeuralODERegressor(**SETTINGS, times=TIMES, trainer={"steps": 100, "batch_size": 48}).fit(X)


@pytest.fixture(scope="module")
def spun():
    """A model of a damped rotation, seen without noise."""
    times = np.linspace(0, 6, 25)
    return benthic.NeuralODERegressor(**SETTINGS, times=times, trainer={"steps": 60}).fit(spiral(12, times))


def relative(found, wanted):
    return np.sqrt(np.square(found - wanted).mean() / np.square(wanted).mean())


def test_the_field_of_predator_and_prey_is_recovered_from_noisy_data(noisy):
    states = prey(8).reshape(-1, 2)
    assert relative(noisy.velocity(states), hares_and_lynxes(states)) < 0.1  # the noise is a twentieth of the states


def test_new_trajectories_are_foretold(noisy):
    new = prey(6, seed=7)
    assert noisy.score(new) > 0.96
    predicted = noisy.predict(new)
    np.testing.assert_array_equal(predicted[:, 0], new[:, 0])
    np.testing.assert_allclose(predicted, noisy.forecast(new[:, 0], TIMES), rtol=1e-6, atol=1e-6)


def test_the_fit_is_nearer_to_the_truth_than_the_data(noisy):
    truth = prey(8)
    begin = noisy.network_, noisy.scales_
    assert begin[0].speed.shape == (2,) and begin[1].width == 2
    fitted = noisy.predict(truth)
    assert np.sqrt(np.square(fitted - truth).mean()) < 0.25  # over two turns, from the true first states


def test_a_known_flow_is_followed_beyond_what_was_seen(spun):
    later = np.linspace(0, 9, 19)  # half as long again
    truth = spiral(5, later, seed=3)
    np.testing.assert_allclose(spun.forecast(truth[:, 0], later), truth, atol=0.07)
    states = truth.reshape(-1, 2)
    assert relative(spun.velocity(states), states @ TURN.T) < 0.05


def test_forecasts_backward_undo_those_forward(spun):
    start = spiral(4, np.zeros(1), seed=4)[:, 0]
    later = spun.forecast(start, [1.0, 2.0])
    back = spun.forecast(later[:, 1], [-1.0, -2.0])
    np.testing.assert_allclose(
        back, np.stack([later[:, 0], start], 1), atol=1e-3
    )  # steps of 1/4 by a fourth-order method


def test_forecasts_do_not_depend_on_where_they_are_asked(spun):
    start = np.array([[1.0, 0.5]])
    whole = spun.forecast(start, [6.0])
    np.testing.assert_allclose(spun.forecast(start, np.arange(0.25, 6.1, 0.25))[:, -1:], whole, rtol=1e-6)


def test_uneven_times():
    times = np.sort(np.random.default_rng(0).uniform(0, 6, size=30))
    model = benthic.NeuralODERegressor(**SETTINGS, times=times, trainer={"steps": 60})
    model.fit(spiral(12, times))
    states = spiral(5, times, seed=3).reshape(-1, 2)
    assert relative(model.velocity(states), states @ TURN.T) < 0.06


def test_one_long_noisy_series_is_followed_in_pieces():
    times = np.linspace(0, 40, 161)
    clean = trajectories(hares_and_lynxes, [[4.0, 1.0]], times)
    X = clean + 0.1 * np.random.default_rng(2).normal(size=clean.shape)
    model = benthic.NeuralODERegressor(**SETTINGS, times=times, segment=10, trainer={"steps": 80, "batch_size": 32})
    model.fit(X)
    assert relative(model.velocity(clean[0]), hares_and_lynxes(clean[0])) < 0.15


def test_controlled_steps_agree_with_fixed_ones(spun):
    model = clone(spun).set_params(
        method="dormand_prince", solver_steps=None, rtol=1e-6, atol=1e-6, trainer={"steps": 2}
    )
    times = np.linspace(0, 6, 25)
    model.fit(spiral(4, times))
    start = spiral(3, times, seed=5)[:, 0]
    fixed = clone(model).set_params(method="rk4", solver_steps=8).fit(spiral(4, times))
    np.testing.assert_allclose(model.forecast(start, [1.0, 5.0]), fixed.forecast(start, [1.0, 5.0]), atol=1e-3)


@pytest.mark.parametrize("gradient", ["checkpoint", "adjoint"])
def test_ways_to_the_gradient_agree(gradient):
    torch.manual_seed(0)
    seen, times = torch.randn(2, 6, 2, dtype=torch.float64), torch.linspace(0, 1, 6, dtype=torch.float64)
    found = []
    flow = {"method": "dormand_prince", "steps": None, "rtol": 1e-9, "atol": 1e-9}
    for way in ("steps", gradient):
        torch.manual_seed(1)
        shooting = Shooting(Motion(2, (8,), **flow, gradient=way).double(), seen, times, 3)
        found.append(torch.autograd.grad(shooting(shooting.pieces), list(shooting.parameters())))
    for plain, other in zip(*found, strict=True):
        torch.testing.assert_close(other, plain, rtol=1e-5, atol=1e-7)


def test_shooting_is_the_sum_of_squares_and_gaps():
    motion = Motion(1, (4,), steps=1).double()
    with torch.no_grad():
        for parameter in motion.parameters():
            parameter.zero_()  # nothing moves
    seen = torch.tensor([[[0.0], [1.0], [3.0], [7.0]]], dtype=torch.float64)
    shooting = Shooting(motion, seen, torch.arange(4.0, dtype=torch.float64), 2)
    # pieces 0 1 3 and 1 3 7 stay at 0 and at 1: errors 1 + 9 and 4 + 36, gaps 9 and 36
    assert shooting(shooting.pieces).item() == pytest.approx(0.5 * (10 + 40 + 10 * 45) / 3)


def test_collocation_finds_a_field_without_solving():
    torch.manual_seed(0)
    times = torch.linspace(0, 6, 25, dtype=torch.float64)
    seen = torch.tensor(spiral(12, times.numpy()))
    motion = Motion(2, (32,), steps=1).double()
    motion.pace(seen, times.diff())
    collocate(motion, seen, times.diff(), 1e-8)
    states = torch.tensor(spiral(5, times.numpy(), seed=3)).reshape(-1, 2)
    slopes = motion(torch.zeros(()), states).detach().numpy()
    assert relative(slopes, states.numpy() @ TURN.T) < 0.05


def test_arrays_files_and_the_contract(spun, tmp_path):
    times = np.linspace(0, 6, 25)
    X = spiral(3, times, seed=9)
    loaded = benthic.load(spun.save(tmp_path / "motion.safetensors"))
    np.testing.assert_array_equal(loaded.predict(X), spun.predict(X))
    np.testing.assert_array_equal(loaded.forecast(X[:, 0], [0.5, 7.0]), spun.forecast(X[:, 0], [0.5, 7.0]))
    tensors = spun.forecast(torch.tensor(X[:, 0], dtype=torch.float32), [0.5, 7.0])
    assert isinstance(tensors, torch.Tensor) and tensors.dtype == torch.float32 and tensors.shape == (3, 2, 2)
    assert spun.predict(X.astype(np.float32)).dtype == np.float32
    assert "solver" in spun.summary() and spun.plot().axes


def test_the_same_class_learns_tables_and_trajectories():
    times = np.linspace(0, 6, 25)
    model = benthic.NeuralODERegressor(**SETTINGS, width=8, trainer={"steps": 5})
    X = spiral(6, times)
    table, y = X[:, :, 0], X[:, -1, 1]
    assert model.fit(X).predict(X).shape == X.shape
    assert model.fit(table, y).predict(table).shape == (6,)
    assert model.fit(X).velocity(X[:, 0]).shape == (6, 2)
    first = model.forecast(X[:, 0], [1.0])
    np.testing.assert_array_equal(model.fit(X).forecast(X[:, 0], [1.0]), first)


def test_cross_validation_without_targets():
    times = np.linspace(0, 6, 25)
    model = benthic.NeuralODERegressor(**SETTINGS, times=times, trainer={"steps": 10})
    assert cross_val_score(model, spiral(12, times), cv=2).min() > 0.9


def test_early_stopping_holds_out_trajectories():
    times = np.linspace(0, 6, 25)
    trainer = {"epochs": 4, "early_stopping": True}
    model = benthic.NeuralODERegressor(**SETTINGS, times=times, trainer=trainer).fit(spiral(12, times))
    assert model.history_[-1]["val_loss"] < 0.1
    with pytest.raises(InvalidInput, match="cannot hold out 1 of 1 trajectories"):
        clone(model).fit(spiral(1, times))


def test_wrong_input(spun):
    times = np.linspace(0, 6, 25)
    X = spiral(4, times)
    for params, words in (
        ({"times": times[:5]}, r"times have shape \(5,\), but trajectories have 25"),
        ({"times": times[::-1]}, "times do not rise"),
        ({"segment": 0}, "segment is 0"),
        ({"augment": 1}, "augment and dropout are not for trajectories"),
        ({"method": "kvaerno"}, "is implicit"),
    ):
        with pytest.raises(InvalidInput, match=f"NeuralODERegressor.fit: .*{words}"):
            clone(spun).set_params(**params).fit(X)
    with pytest.raises(InvalidInput, match="y must be None"):
        clone(spun).fit(X, X[:, 0, 0])
    with pytest.raises(InvalidInput, match="one observation do not move"):
        clone(spun).fit(X[:, :1])
    with pytest.raises(InvalidInput, match="NaN"):
        clone(spun).fit(np.where(X > 1, np.nan, X))
    with pytest.raises(InvalidInput, match=r"shape \(24, 2\), but the model was fitted on \(25, 2\)"):
        spun.predict(X[:, 1:])


def test_wrong_questions(spun):
    state = np.ones((1, 2))
    for times in ([], [0.5, 0.2, 0.9], [-1.0, 1.0], [np.nan]):
        with pytest.raises(InvalidInput, match="forecast: times are"):
            spun.forecast(state, times)
    with pytest.raises(InvalidInput, match=r"velocity: states have shape \(1, 3\); expected \(n, 2\)"):
        spun.velocity(np.ones((1, 3)))
    with pytest.raises(InvalidInput, match="forecast: states contain NaN"):
        spun.forecast(state * np.nan, [1.0])
    with pytest.raises(InvalidInput, match="flow: the model was fitted on trajectories"):
        spun.flow(state, [1.0])
    table = benthic.NeuralODERegressor(4, (4,), trainer={"steps": 1}).fit(np.eye(4), np.arange(4.0))
    with pytest.raises(InvalidInput, match="forecast: the model was not fitted on trajectories"):
        table.forecast(state, [1.0])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_trajectories_on_a_gpu(spun):
    times = np.linspace(0, 6, 25)
    X = torch.tensor(spiral(6, times), device="cuda")
    model = clone(spun).set_params(trainer={"steps": 5}).fit(X)
    assert model.predict(X).device.type == model.velocity(X[:, 0]).device.type == "cuda"
    assert model.forecast(X[:, 0], [1.0]).shape == (6, 1, 2)
