from __future__ import annotations

import numpy as np
import pytest
import torch

from benthic.base.errors import InvalidInput
from benthic.data import Standardizer, standardize
from benthic.data.sources import ArraySource

RNG = np.random.default_rng(0)
X = RNG.normal(size=(500, 3)) * [1.0, 1e-3, 1e4] + [0.0, 5.0, -1e6]


def test_mean_and_scale_are_those_of_the_data() -> None:
    found = Standardizer().fit(X)
    np.testing.assert_allclose(found.mean, X.mean(0), rtol=1e-13)
    np.testing.assert_allclose(found.scale, X.std(0), rtol=1e-12)
    Z = found.transform(X)
    np.testing.assert_allclose(Z.mean(0), 0, atol=1e-10)
    np.testing.assert_allclose(Z.std(0), 1, rtol=1e-12)
    np.testing.assert_allclose(found.inverse(Z), X, rtol=1e-13)


def test_the_jacobian_is_that_of_autograd() -> None:
    found = Standardizer().fit(X)
    x = torch.from_numpy(X[0])
    jacobian = torch.autograd.functional.jacobian(lambda row: found.transform(row[None])[0], x)
    assert found.log_jacobian() == pytest.approx(float(torch.linalg.slogdet(jacobian).logabsdet), rel=1e-12)


def test_likelihoods_stay_in_the_units_of_the_data() -> None:
    """The density of a Gaussian column is the same computed in x, or in z plus the Jacobian."""
    found = Standardizer().fit(X)
    normal = torch.distributions.Normal(torch.from_numpy(found.mean), torch.from_numpy(found.scale))
    direct = normal.log_prob(torch.from_numpy(X)).sum(1)
    z = torch.from_numpy(found.transform(X))
    through = torch.distributions.Normal(0.0, 1.0).log_prob(z).sum(1) + found.log_jacobian()
    torch.testing.assert_close(direct, through)


def test_an_integer_weight_is_a_repeated_row() -> None:
    weight = RNG.integers(0, 4, len(X))
    weighted = Standardizer().fit(X, weight)
    repeated = Standardizer().fit(np.repeat(X, weight, axis=0))
    np.testing.assert_allclose(weighted.mean, repeated.mean, rtol=1e-13)
    np.testing.assert_allclose(weighted.scale, repeated.scale, rtol=1e-12)


def test_parts_add_up_to_the_whole(monkeypatch) -> None:
    whole = Standardizer().fit(X)
    streamed = Standardizer().fit_stream(ArraySource(X).open(batch_size=33))
    merged = Standardizer().fit(X[:123]).merge(Standardizer().fit(X[123:]))
    monkeypatch.setattr(standardize, "_BLOCK", 60)
    blocks = Standardizer().fit(X)
    for other in (streamed, merged, blocks):
        np.testing.assert_allclose(other.mean, whole.mean, rtol=1e-12)
        np.testing.assert_allclose(other.scale, whole.scale, rtol=1e-11)
        np.testing.assert_array_equal(other.weight, whole.weight)


def test_constant_columns_keep_scale_one() -> None:
    constant = np.column_stack([np.full(1000, 0.1), np.full(1000, 1e300), np.arange(1000.0)])
    found = Standardizer().fit_stream([constant[:300], constant[300:]])
    np.testing.assert_array_equal(found.scale[:2], 1.0)
    np.testing.assert_array_equal(found.transform(constant)[:, :2], 0.0)
    assert found.log_jacobian() == pytest.approx(-np.log(constant[:, 2].std()))


def test_huge_and_tiny_numbers_neither_overflow_nor_vanish() -> None:
    base = RNG.normal(size=(200, 2))
    for factor in (1e300, 1e-200):
        found = Standardizer().fit_stream([base[:50] * factor, base[50:] * factor])
        np.testing.assert_allclose(found.scale, base.std(0) * factor, rtol=1e-12)
        np.testing.assert_allclose(found.transform(base * factor), (base - base.mean(0)) / base.std(0), rtol=1e-9)


def test_missing_entries_are_passed_over() -> None:
    holes = np.where(RNG.random(X.shape) < 0.3, np.nan, X)
    holes[0] = np.nan
    for found in (Standardizer().fit(holes), Standardizer().fit_stream([holes[:1], holes[1:90], holes[90:]])):
        np.testing.assert_allclose(found.mean, np.nanmean(holes, 0), rtol=1e-12)
        np.testing.assert_allclose(found.scale, np.nanstd(holes, 0), rtol=1e-11)
        np.testing.assert_array_equal(np.isnan(found.transform(holes)), np.isnan(holes))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_and_tensors_are_mirrored(dtype) -> None:
    data = X.astype(dtype)
    found = Standardizer().fit(data)
    array, tensor = found.transform(data), found.transform(torch.from_numpy(data))
    assert array.dtype == dtype
    assert tensor.numpy().dtype == dtype
    np.testing.assert_array_equal(array, tensor.numpy())
    same = Standardizer().fit(torch.from_numpy(data))
    np.testing.assert_array_equal(same.mean, found.mean)


def test_pictures_are_standardized_pixel_by_pixel() -> None:
    pictures = RNG.random((40, 1, 3, 3))
    found = Standardizer().fit(pictures)
    assert found.mean.shape == (1, 3, 3)
    flat = Standardizer().fit(pictures.reshape(40, 9))
    assert found.log_jacobian() == pytest.approx(flat.log_jacobian())
    np.testing.assert_allclose(found.inverse(found.transform(pictures)), pictures)


def test_identity_changes_nothing_and_rows_of_weight_zero_neither() -> None:
    same = Standardizer.identity(3)
    np.testing.assert_array_equal(same.transform(X), X)
    assert (same.log_jacobian(), same.width) == (0, 3)
    found = Standardizer().fit(X)
    before = found.scale.copy()
    np.testing.assert_array_equal(found.partial_fit(X * 9, np.zeros(len(X))).scale, before)
    tensor = found.transform(torch.from_numpy(X))  # what was kept for tensors follows what is learned later
    found.partial_fit(X + 1e6)
    assert not torch.allclose(found.transform(torch.from_numpy(X)), tensor)


def test_a_tree_holds_all_of_it() -> None:
    found = Standardizer().fit(X[:100])
    again = Standardizer.from_tree(found.to_tree()).partial_fit(X[100:])
    np.testing.assert_array_equal(again.scale, found.partial_fit(X[100:]).scale)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.zeros(500), "all zero"),
        (-np.ones(500), "negative"),
        (np.full(500, np.nan), "negative or missing"),
        (np.ones(3), r"shape \(3,\); X has 500 rows"),
    ],
)
def test_bad_weights_are_refused(weight, message) -> None:
    with pytest.raises(InvalidInput, match=message):
        Standardizer().fit(X, weight)


def test_wrong_shapes_and_too_early_use_say_what_would_work() -> None:
    with pytest.raises(InvalidInput, match=r"call fit\(X\) first"):
        Standardizer().transform(X)
    with pytest.raises(InvalidInput, match=r"rows have shape \(2,\); it was fitted on \(3,\)"):
        Standardizer().fit(X).transform(X[:, :2])
    with pytest.raises(InvalidInput, match=r"rows of shape \(n, d\)"):
        Standardizer().fit(X[:, 0])
