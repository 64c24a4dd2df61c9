"""Targets: bijections and their volumes, gradients, packing, starting points, bad input."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.distributions import Distribution, Gamma, Normal, constraints
from torch.distributions.transforms import AbsTransform, ExpTransform

from benthic.base.errors import InvalidInput
from benthic.samplers.target import Target

DOUBLE = torch.float64
pytestmark = pytest.mark.spec("C-03")


def flat(target: Target) -> float:
    """A density of one: what is left is the volume of the bijection."""
    return torch.zeros((), dtype=DOUBLE)


def lower(x: Tensor) -> Tensor:
    rows, columns = torch.tril_indices(x.shape[-1], x.shape[-1])
    return x[..., rows, columns]


def below(x: Tensor) -> Tensor:
    rows, columns = torch.tril_indices(x.shape[-1], x.shape[-1], -1)
    return x[..., rows, columns]


CASES = {
    "positive": (constraints.positive, torch.ones(2, dtype=DOUBLE), lambda x: x),
    "unit": (constraints.unit_interval, torch.full((2,), 0.5, dtype=DOUBLE), lambda x: x),
    "interval": (constraints.interval(-1, 3), torch.zeros(2, dtype=DOUBLE), lambda x: x),
    "greater": (constraints.greater_than(2.0), torch.full((1,), 3.0, dtype=DOUBLE), lambda x: x),
    "simplex": (constraints.simplex, torch.full((4,), 0.25, dtype=DOUBLE), lambda x: x[..., :-1]),
    "triangle": (constraints.lower_cholesky, torch.eye(3, dtype=DOUBLE), lower),
    "definite": (constraints.positive_definite, torch.eye(3, dtype=DOUBLE), lower),
    "correlation": (constraints.corr_cholesky, torch.eye(3, dtype=DOUBLE), below),
    "own": (ExpTransform(), torch.ones(2, dtype=DOUBLE), lambda x: x),
}


@pytest.mark.parametrize("case", CASES)
def test_volume_is_the_log_determinant_of_the_jacobian(case: str) -> None:
    constraint, example, free = CASES[case]
    target = Target(flat, example, constraints=constraint)
    row = 0.5 * torch.randn(target.dim, generator=torch.Generator().manual_seed(0), dtype=DOUBLE)
    jacobian = torch.autograd.functional.jacobian(lambda x: free(target.unpack(x)).reshape(-1), row)
    expected = torch.linalg.slogdet(jacobian)[1]
    torch.testing.assert_close(target.log_density(row[None])[0], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("case", CASES)
def test_pack_inverts_unpack(case: str) -> None:
    constraint, example, _ = CASES[case]
    target = Target(flat, example, constraints=constraint)
    rows = torch.randn(5, 2, target.dim, generator=torch.Generator().manual_seed(1), dtype=DOUBLE)
    value = target.unpack(rows)
    assert value.shape == (5, 2, *example.shape)
    torch.testing.assert_close(target.pack(value), rows, rtol=1e-8, atol=1e-8)


def tree_density(p: dict) -> Tensor:
    spread = p["inner"]["tau"]
    return Normal(p["mu"], spread).log_prob(p["pair"][0]).sum() - spread + spread.log() - p["mu"] ** 2


def tree() -> Target:
    one = torch.ones((), dtype=DOUBLE)
    example = {"mu": one, "inner": {"tau": one}, "pair": (torch.zeros(2, 2, dtype=DOUBLE),)}
    return Target(tree_density, example, constraints={"inner.tau": constraints.positive})


def test_trees_of_parameters_have_names_and_gradients() -> None:
    target = tree()
    assert target.dim == 6
    assert target.names == ["mu", "inner.tau", "pair.0[0,0]", "pair.0[0,1]", "pair.0[1,0]", "pair.0[1,1]"]
    rows = torch.randn(4, 6, generator=torch.Generator().manual_seed(2), dtype=DOUBLE)
    value, slope = target.value_and_grad(rows)
    small = 1e-6 * torch.eye(6, dtype=DOUBLE)
    numeric = torch.stack([(target.log_density(rows + e) - target.log_density(rows - e)) / 2e-6 for e in small], -1)
    torch.testing.assert_close(slope, numeric, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(value, target.log_density(rows))
    params = target.unpack(rows)
    assert params["pair"][0].shape == (4, 2, 2)
    torch.testing.assert_close(target.pack(params), rows)


def test_batched_and_mapped_densities_agree_and_keep_dtype() -> None:
    one = Target(lambda x: -(x**4).sum(), torch.zeros(3))
    many = Target(lambda x: -(x**4).sum(-1), torch.zeros(3), batched=True)
    rows = torch.randn(7, 3, generator=torch.Generator().manual_seed(3))
    for a, b in zip(one.value_and_grad(rows), many.value_and_grad(rows), strict=True):
        assert a.dtype == torch.float32
        torch.testing.assert_close(a, b)


def test_validation_of_distributions_is_off_inside_and_restored_outside() -> None:
    before = Distribution._validate_args
    target = Target(lambda p: Gamma(2.0, 1.0).log_prob(p), torch.ones((), dtype=DOUBLE))
    assert not torch.isfinite(target.log_density(torch.tensor([[-1.0]], dtype=DOUBLE)))
    assert Distribution._validate_args is before


def test_start_finds_finite_points_where_most_are_not() -> None:
    target = Target(lambda x: torch.where(x.sum() > 1, -(x**2).sum(), -torch.inf), torch.zeros(2, dtype=DOUBLE))
    rows = target.start(50, torch.Generator().manual_seed(0))
    assert (rows.sum(-1) > 1).all()


@pytest.mark.parametrize("kind", ["nan", "inf"])
def test_start_that_fails_names_the_parameter(kind: str) -> None:
    def density(p: dict[str, Tensor]) -> Tensor:
        bad = (p["sigma"] - 50).log() if kind == "nan" else torch.where(p["sigma"] > 50, 0.0, -torch.inf)
        return -(p["mu"] ** 2) + bad + 0 * p["sigma"]

    target = Target(density, {"mu": torch.zeros((), dtype=DOUBLE), "sigma": torch.zeros((), dtype=DOUBLE)})
    with pytest.raises(InvalidInput, match=r"starting point.*'sigma'"):
        target.start(3, torch.Generator().manual_seed(0))


def test_given_start_is_checked() -> None:
    target = Target(lambda p: p["a"].log() - p["a"] - p["b"] ** 2, {"a": 1.0, "b": 1.0})
    with pytest.raises(InvalidInput, match="'a'"):
        target.check_start(torch.tensor([[-1.0, 0.0], [1.0, 0.0]], dtype=DOUBLE))
    with pytest.raises(InvalidInput, match=r"must be \(chains, 2\)"):
        target.check_start(torch.zeros(3, 5))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Target(lambda x: -(x**2), torch.zeros(3)), "one number"),
        (lambda: Target(lambda x: -(x**2).sum(), torch.zeros(3), batched=True), "leading chain dimension"),
        (lambda: Target(lambda x: 1.0, torch.zeros(3), batched=True), "must return a tensor"),
        (lambda: Target(lambda x: x.sum(), {}), "no parameters"),
        (lambda: Target(lambda p: p["a"], {"a": 1.0}, constraints={"A": constraints.positive}), "did you mean"),
        (lambda: Target(lambda p: p, 1.0, constraints=constraints.boolean), "discrete"),
        (lambda: Target(lambda p: p, 1.0, constraints="positive"), "torch.distributions.constraints"),
        (lambda: Target(lambda p: p, 1.0, constraints=AbsTransform()), "not a bijection"),
        (lambda: Target(lambda p: p, -1.0, constraints=constraints.positive), "outside its set"),
        (lambda: Target(lambda p: p.sum(), torch.ones(2), constraints=constraints.lower_cholesky), "axes"),
        (lambda: Target(lambda p: p["a"], {"a": "x"}), "number or a tensor"),
        (lambda: Target(lambda p: p["a"], {"a": torch.ones(()), "b": torch.ones((), dtype=DOUBLE)}), "one dtype"),
    ],
)
def test_bad_targets_are_refused(make: Callable[[], Target], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make()


def test_wrong_positions_and_parameters_are_refused() -> None:
    target = tree()
    with pytest.raises(InvalidInput, match="5 columns"):
        target.log_density(torch.zeros(2, 5, dtype=DOUBLE))
    with pytest.raises(InvalidInput, match="must end in"):
        target.pack({"mu": 1.0, "inner": {"tau": 1.0}, "pair": (torch.zeros(3),)})
    with pytest.raises(InvalidInput, match="the target has"):
        target.pack({"mu": 1.0})
