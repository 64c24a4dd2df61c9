"""The ways to take the E step agree with one another and with plain formulas, and each is used where it is safe."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benthic.mixture.expanded import Products, Squares, prepare
from benthic.mixture.expectation import Explicit, Workspace, sliced_moments
from benthic.mixture.missing import add_sums, groups
from benthic.mixture.parameters import Gaussians
from tests.mixture.problems import KINDS, mixture_of

CPU = torch.device("cpu")


def rows(n, d, seed=1):
    return 2 * torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def plain_sums(mixture, X, weight):
    """The E step in the shortest way."""
    delta = X[:, None] - mixture.means  # (n, k, d)
    C = mixture.matrices
    log = torch.distributions.MultivariateNormal(mixture.means, C).log_prob(X[:, None]) + mixture.weights.log()
    r = torch.softmax(log, 1) * weight[:, None]
    root = torch.linalg.cholesky(C)
    y = torch.linalg.solve_triangular(root, delta[..., None], upper=False)[..., 0]
    second = torch.einsum("nk,nki,nkj->kij", r, y, y)
    shape = {
        "full": second,
        "tied": second.sum(0),
        "diag": second.diagonal(dim1=1, dim2=2),
        "spherical": second.diagonal(dim1=1, dim2=2),
    }
    return {
        "log_likelihood": torch.logsumexp(log, 1) @ weight,
        "count": r.sum(0),
        "first": torch.einsum("nk,nki->ki", r, delta),
        "second": shape[mixture.kind],
    }


@pytest.mark.spec("H-02")
@pytest.mark.parametrize("way", ["explicit", "expanded"])
@pytest.mark.parametrize("kind", KINDS)
def test_block_sums_are_the_plain_sums(kind, way):
    mixture, X = mixture_of(kind, 3, 4), rows(500, 4)
    weight = torch.rand(500, dtype=torch.float64)
    cls = Explicit if way == "explicit" else Products if kind == "full" else Squares
    blocks = cls(mixture, X.mean(0), torch.float64, CPU)
    blocks.rows = 64  # so that there are several, the last of them smaller
    found = blocks.sums(X, weight, Workspace(torch.float64, CPU))
    for name, expected in plain_sums(mixture, X, weight).items():
        torch.testing.assert_close(found[name], expected, rtol=1e-10, atol=1e-9, msg=name)


@pytest.mark.spec("H-02")
@pytest.mark.parametrize("kind", ["full", "tied"])
def test_patterns_without_gaps_give_the_plain_sums(kind):
    mixture, X = mixture_of(kind, 3, 4), rows(50, 4)
    weight = torch.rand(50, dtype=torch.float64)
    found = Explicit(mixture, X.mean(0), torch.float64, CPU).zeros()
    add_sums(found, mixture, X, weight)
    for name, expected in plain_sums(mixture, X, weight).items():
        torch.testing.assert_close(found[name], expected, rtol=1e-10, atol=1e-9, msg=name)


def test_patterns_are_grouped_completely_and_without_overlap():
    gaps = torch.rand(400, 5, generator=torch.Generator().manual_seed(0)) < 0.3
    seen = []
    for chosen, observed in groups(gaps, k=2):
        assert bool((gaps[chosen] == ~observed[:, None]).all())
        seen += chosen.flatten().tolist()
    assert sorted(seen) == list(range(400))


@pytest.mark.spec("H-02")
@pytest.mark.parametrize("kind", KINDS)
def test_narrow_components_far_away_are_not_multiplied_out(kind):
    """Two clusters 1e5 deviations apart: the multiplied-out square would keep six digits at best."""
    wide = mixture_of(kind, 2, 3)
    far = Gaussians.of_roots(kind, wide.weights, wide.means * torch.tensor([[1e5], [-1e5]]), wide.root)
    center = torch.zeros(3, dtype=torch.float64)
    assert not isinstance(prepare(wide, center, torch.float64, CPU), Explicit)
    assert isinstance(prepare(far, center, torch.float64, CPU), Explicit)
    X = far.means + rows(2, 3)
    log = prepare(far, center, torch.float64, CPU).log_joint(X)
    normal = torch.distributions.MultivariateNormal(far.means, far.matrices)
    torch.testing.assert_close(log.diagonal(), normal.log_prob(X) + far.weights.log(), rtol=1e-10, atol=1e-9)


@pytest.mark.spec("H-02")
@pytest.mark.parametrize("kind", KINDS)
def test_float32_keeps_its_digits_wherever_the_data_lie(kind):
    mixture = mixture_of(kind, 3, 4)
    moved = Gaussians.of_roots(kind, mixture.weights, mixture.means + 1000, mixture.root)
    X = rows(300, 4) + 1000
    X = X.float().double()  # what float32 can hold
    exact = prepare(moved, X.mean(0), torch.float64, CPU).log_joint(X)
    center = X.float().mean(0).double()
    single = prepare(moved, center, torch.float32, CPU).log_joint(X.float())
    assert (single.double() - exact).abs().max() < 2e-4 * exact.abs().max()


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_convert_into_one_another(kind):
    mixture = mixture_of(kind, 3, 4)
    C = mixture.covariances
    precisions = torch.linalg.inv(C) if kind in ("full", "tied") else 1 / C
    parts = (kind, mixture.weights, mixture.means)
    for other in (
        Gaussians.of_precisions(*parts, precisions),
        Gaussians.of_factors(*parts, mixture.factor),
        Gaussians.of_covariances(*parts, C),
    ):
        torch.testing.assert_close(other.covariances, C, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(other.factor, mixture.factor, rtol=1e-10, atol=1e-12)


def test_scratch_memory_is_used_again():
    scratch = Workspace(torch.float32, CPU)
    first = scratch("a", 4, 5)
    assert scratch("a", 2, 5).data_ptr() == first.data_ptr() != scratch("b", 4, 5).data_ptr()
    assert np.prod(scratch("a", 9, 9).shape) == 81


@pytest.mark.parametrize("n", [5, 64, 1000])
def test_moments_by_slices_are_the_plain_moments(n):
    Y = rows(3 * 4 * n, 1).reshape(3, 4, n)
    torch.testing.assert_close(sliced_moments(Y), torch.einsum("kin,kjn->kij", Y, Y), rtol=1e-12, atol=1e-12)
