"""Norms by a reference batch and by class, and the layers by which rows see their batch."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from benthic.base.errors import InvalidInput
from benthic.nets.batchnorms import ConditionalBatchNorm, ReferenceBatchNorm, Referenced, VirtualBatchNorm
from benthic.nets.minibatch import MinibatchDeviation, MinibatchDiscrimination

pytestmark = pytest.mark.spec("N-02")


@pytest.fixture(autouse=True)
def _seed():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


@pytest.mark.parametrize("shape", [(4,), (4, 3, 5)])
def test_virtual_batch_norm_counts_each_row_with_the_reference(shape):
    reference, x = (torch.randn(n, *shape, dtype=torch.float64) * 3 + 1 for n in (6, 5))
    norm = VirtualBatchNorm(4, 6).double()
    out = norm(torch.cat([reference, x]))[6:]
    for row, found in zip(x, out, strict=True):  # batch norm of the reference with this row alone beside it
        batch = torch.cat([reference, row[None]]).reshape(7, 4, -1)
        mean, var = batch.mean((0, 2)), batch.var((0, 2), unbiased=False)
        expected = (row.reshape(4, -1) - mean[:, None]) / torch.sqrt(var[:, None] + 1e-5)
        torch.testing.assert_close(found.reshape(4, -1), expected)


def test_reference_batch_norm_is_batch_norm_of_the_reference():
    reference, x = torch.randn(6, 4, 3, 3), torch.randn(5, 4, 3, 3)
    peer = nn.BatchNorm2d(4, momentum=None)
    expected = peer(reference)
    found = ReferenceBatchNorm(4, 6)(torch.cat([reference, x]))
    torch.testing.assert_close(found[:6], expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(
        found[6:].mean((0, 2, 3)),
        (x.mean((0, 2, 3)) - reference.mean((0, 2, 3))) / torch.sqrt(reference.var((0, 2, 3), unbiased=False) + 1e-5),
        rtol=1e-4,
        atol=1e-5,
    )


@pytest.mark.parametrize("norm", [VirtualBatchNorm, ReferenceBatchNorm])
def test_rows_do_not_see_each_other(norm):
    network = Referenced(nn.Sequential(nn.Linear(3, 4), norm(4, 8), nn.ReLU(), nn.Linear(4, 2)), (8, 3))
    network.remember(torch.randn(5, 3))  # fewer than 8: they are used again
    x = torch.randn(7, 3)
    alone = torch.cat([network(row[None]) for row in x])
    torch.testing.assert_close(network(x), alone)
    again = Referenced(nn.Sequential(nn.Linear(3, 4), norm(4, 8), nn.ReLU(), nn.Linear(4, 2)), (8, 3))
    again.load_state_dict(network.state_dict())
    assert torch.equal(again(x), network(x))


def test_a_reference_of_another_shape_is_refused():
    with pytest.raises(InvalidInput, match=r"shape \(5, 2\); it must be \(n, 3\)"):
        Referenced(nn.Linear(3, 1), (8, 3)).remember(torch.zeros(5, 2))


def test_conditional_batch_norm_scales_by_class():
    norm, x, codes = ConditionalBatchNorm(3, 4), torch.randn(8, 3, 5, 5), torch.arange(8) % 4
    torch.testing.assert_close(norm(x, codes), nn.BatchNorm2d(3)(x))
    with torch.no_grad():
        norm.scale.weight[2] = 5.0
        norm.shift.weight[2] = -1.0
    plain = nn.BatchNorm2d(3)(x)
    found = norm(x, codes)
    torch.testing.assert_close(found[codes == 2], 5 * plain[codes == 2] - 1)
    torch.testing.assert_close(found[codes != 2], plain[codes != 2])
    torch.testing.assert_close(norm(x, nn.functional.one_hot(codes, 4).float()), found)


def test_minibatch_discrimination_is_the_sum_over_the_other_rows():
    layer, x = MinibatchDiscrimination(4, measures=3, size=2).double(), torch.randn(6, 4, dtype=torch.float64)
    found = layer(x)
    assert torch.equal(found[:, :4], x)
    places = (x @ layer.weight).reshape(6, 3, 2)
    for i in range(6):
        expected = sum(torch.exp(-(places[i] - places[j]).abs().sum(1)) for j in range(6) if j != i)
        torch.testing.assert_close(found[i, 4:], expected)
    torch.autograd.gradcheck(layer, x.requires_grad_())


def test_rows_that_are_alike_are_noticed():
    same, apart = torch.ones(8, 4), torch.randn(8, 4) * 5
    layer = MinibatchDiscrimination(4)
    torch.testing.assert_close(layer.closeness(same), torch.full((8, 16), 7.0))
    assert layer.closeness(apart).mean() < 2
    deviation = MinibatchDeviation()
    assert deviation(same)[:, -1].max() < 1e-3 and deviation(apart)[:, -1].min() > 1
    assert torch.isfinite(layer(same[:1])).all() and torch.isfinite(deviation(same[:1])).all()


def test_minibatch_deviation_by_groups():
    x = torch.randn(8, 3, 4, 4, dtype=torch.float64)
    found = MinibatchDeviation(4, eps=0.0)(x)
    for i in range(8):
        spread = x[i % 2 :: 2].std(0, unbiased=False).mean()  # rows i, i + 2, ... are a group
        torch.testing.assert_close(found[i, 3], spread.expand(4, 4))
    whole = MinibatchDeviation(3, eps=0.0)(x)  # 8 rows are not groups of 3
    torch.testing.assert_close(whole[0, 3, 0, 0], x.std(0, unbiased=False).mean())
    with pytest.raises(InvalidInput, match="at least 2 rows"):
        MinibatchDeviation(1)
