"""Running chains: what comes back, what is refused, what is warned about."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor
from torch.distributions import constraints

from benthic.base.errors import InvalidInput
from benthic.base.progress import Bar
from benthic.samplers.hamiltonian.hmc import HMC
from benthic.samplers.judging.diagnostics import rhat
from benthic.samplers.kernel import SamplerStopped
from benthic.samplers.running import FAR_RHAT, run
from benthic.samplers.target import Target
from tests.samplers.known import chain_z, gaussian

DOUBLE = torch.float64
pytestmark = pytest.mark.spec("C-03")


def two() -> Target:
    def density(p: dict[str, Tensor]) -> Tensor:
        return -0.5 * (p["b"] ** 2).sum() - p["a"] + p["a"].log()

    example = {"a": torch.ones((), dtype=DOUBLE), "b": torch.zeros(2, dtype=DOUBLE)}
    return Target(density, example, constraints={"a": constraints.positive})


@pytest.mark.parametrize("name", ["nuts", "hmc", "chees", "mala", "random_walk"])
def test_kernels_by_name_find_moments(name: str) -> None:
    law, mean, cov = gaussian()
    draws = run(name, law.target, chains=64, draws=100, warmup=150, seed=0, thin=3 if "_" in name else 1)
    assert chain_z(draws["x"], mean, cov) < 5


def test_parameters_come_back_by_name_and_constrained() -> None:
    draws = run("nuts", two(), chains=3, draws=20, warmup=50, seed=0)
    assert draws["a"].shape == (3, 20)
    assert (draws["a"] > 0).all()
    assert draws["b"].shape == (3, 20, 2)
    assert {"accepted", "divergent", "energy", "steps"} <= set(draws.info)
    only = run("nuts", two(), chains=3, draws=20, warmup=50, seed=0, keep=["b"])
    assert list(only.values) == ["b"]
    assert torch.equal(only["b"], draws["b"])


def test_start_is_a_tree_or_rows() -> None:
    start = {"a": torch.full((4,), 2.0, dtype=DOUBLE), "b": torch.zeros(4, 2, dtype=DOUBLE)}
    one = run("nuts", two(), start=start, draws=10, warmup=30, seed=0)
    rows = two().pack(start)
    other = run("nuts", two(), start=rows, draws=10, warmup=30, seed=0)
    assert torch.equal(one["b"], other["b"])


def test_no_warmup_keeps_the_kernel() -> None:
    kernel = HMC(gaussian()[0].target, step_size=0.3)
    draws = run(kernel, draws=20, warmup=0, seed=0, start=torch.zeros(4, 3, dtype=DOUBLE))
    assert draws.meta["kernel"] is kernel


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: run("nut", t), "did you mean 'nuts'"),
        (lambda t: run("nuts"), "needs a target"),
        (lambda t: run(3, t), "give a kernel"),
        (lambda t: run("nuts", t, chains=0), "chains is 0"),
        (lambda t: run("nuts", t, draws=2.5), "draws is 2.5"),
        (lambda t: run("nuts", t, warmup=-1), "warmup is -1"),
        (lambda t: run("nuts", t, thin=0), "thin is 0"),
        (lambda t: run("nuts", t, keep=["c"]), "keep has 'c'"),
        (lambda t: run("nuts", t, start=torch.zeros(3, 3, dtype=DOUBLE)), "start has 3 rows"),
        (lambda t: run("nuts", t, start=torch.zeros(4, 7)), r"\(chains, 3\)"),
        (lambda t: run("chees", t, chains=1), "one chain"),
    ],
)
def test_bad_calls_are_refused(call, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        call(two())


def test_zero_acceptance_stops_with_advice() -> None:
    kernel = HMC(gaussian()[0].target, step_size=1e4)
    with pytest.raises(SamplerStopped, match="not one proposal was accepted"):
        run(kernel, draws=30, warmup=0, seed=0)


def test_improper_density_is_warned_about_and_said() -> None:
    """Constant along one direction: chains stay apart."""
    target = Target(lambda x: -0.5 * x[..., 0] ** 2 - 1e-9 * x[..., 1] ** 2, torch.zeros(2, dtype=DOUBLE), batched=True)
    start = torch.stack([torch.zeros(4), torch.tensor([-3e3, -1e3, 1e3, 3e3])], -1).double()
    kernel = HMC(target, step_size=0.5, steps=5)
    with pytest.warns(UserWarning, match="chains disagree, R-hat"):
        draws = run(kernel, draws=100, warmup=0, start=start, seed=0)
    assert any("R-hat" in sentence for sentence in draws.summary().warnings)


def test_good_chains_are_not_warned_about() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draws = run("nuts", gaussian()[0].target, draws=200, warmup=150, seed=0, progress=True)
    assert float(rhat(draws["x"]).max()) < FAR_RHAT


def test_bar_counts_transitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    bar = Bar("NUTS", 10, True, "transitions")
    bar._next = 0.0
    bar.tick(4)
    bar._next = 0.0
    bar.tick(3)
    assert bar._bar is None or bar._bar.tasks[0].completed == 7
    bar.close()
    assert bar._bar is None


def test_ticks_add_up_to_about_the_transitions() -> None:
    seen: list[int] = []
    law, _, _ = gaussian()
    kernel = HMC(law.target, step_size=0.3)
    stream = torch.Generator().manual_seed(0)
    kernel.collect(kernel.init(law.exact(4, stream)), 10, stream, thin=2, tick=seen.append)
    assert sum(seen) == 20
