"""Attention against its formula, written out."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from benthic.base.errors import InvalidInput
from benthic.nets.attention import PixelAttention, SelfAttention, attention_weights


def by_formula(layer: SelfAttention, tokens: torch.Tensor) -> torch.Tensor:
    """Head by head, row by row."""
    width = tokens.shape[-1]
    d = width // layer.heads
    projected = F.linear(tokens, layer.queries_keys_values.weight, layer.queries_keys_values.bias)
    q, k, v = projected.split(width, -1)
    found = []
    for head in range(layer.heads):
        part = slice(head * d, (head + 1) * d)
        scores = torch.einsum("ntd,nsd->nts", q[..., part], k[..., part]) / d**0.5
        weights = scores.exp() / scores.exp().sum(-1, keepdim=True)
        found.append(torch.einsum("nts,nsd->ntd", weights, v[..., part]))
    return F.linear(torch.cat(found, -1), layer.out.weight, layer.out.bias)


@pytest.mark.spec("K-04")
@pytest.mark.parametrize("heads", [1, 2, 4])
def test_equals_the_plain_formula(heads):
    torch.manual_seed(0)
    layer = SelfAttention(16, heads).double()
    tokens = torch.randn(3, 7, 16, dtype=torch.float64)
    torch.testing.assert_close(layer(tokens), by_formula(layer, tokens), rtol=1e-10, atol=1e-10)


def test_tokens_permuted_permute_the_outputs():
    torch.manual_seed(0)
    layer, tokens = SelfAttention(8, 2).double(), torch.randn(2, 9, 8, dtype=torch.float64)
    order = torch.randperm(9)
    torch.testing.assert_close(layer(tokens[:, order]), layer(tokens)[:, order])


def test_weights_are_shares_and_shift_of_scores_is_nothing():
    torch.manual_seed(0)
    q, k = torch.randn(4, 5, 3, dtype=torch.float64), torch.randn(4, 6, 3, dtype=torch.float64)
    weights = attention_weights(q, k)
    torch.testing.assert_close(weights.sum(-1), torch.ones(4, 5, dtype=torch.float64))
    direction = torch.linalg.pinv(q)  # no key moves every score of a query alike unless it is the same for all keys
    moved = k + direction.sum(-1)[:, None]
    torch.testing.assert_close(attention_weights(q, moved), weights)


def test_gradients():
    torch.manual_seed(0)
    layer = SelfAttention(4, 2).double()
    tokens = torch.randn(1, 3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(layer, (tokens,))


def test_pixels_start_as_they_are_and_layouts_agree():
    torch.manual_seed(0)
    layer, x = PixelAttention(8, 2, groups=2).double(), torch.randn(2, 8, 5, 3, dtype=torch.float64)
    assert torch.equal(layer(x), x)
    torch.nn.init.normal_(layer.attention.out.weight)
    last = x.contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(layer(last), layer(x))


def test_heads_must_divide():
    with pytest.raises(InvalidInput, match="must divide the width"):
        SelfAttention(10, 3)
